//! How far a tenant lags behind the ideal fluid schedule of those that wait (generalised processor sharing, equal weights).
//!
//! The fluid schedule serves all that wait at the same rate at every moment. So over any span in which a tenant waits
//! throughout, nobody gets more than it does, and those that wait throughout as well get the same. What the tenants sent
//! together in the span, poured out by that rule, is the tenant's due; the lag is what it got less. It needs no window that
//! is steady: who comes, goes, or runs dry for a moment keeps what it sent, up to the same level.
//!
//! # What the policy engine may owe
//! It serves a chunk (some segments, or a super-packet whole) at a time, and start-time fair queueing keeps two
//! that wait within one chunk of each other's, so any tenant is behind the level by at most two chunks. A chunk counts in the window in which its last
//! bit leaves, which moves at most one chunk of each over each edge of a span: two more. Hence [`ENGINE_LAG_CHUNKS`].

use serde::{Deserialize, Serialize};

use super::FineSamples;

/// The longest span that is looked at, in seconds.
const SPAN_S: f64 = 5.0;
/// The lag that the engine may have, in chunks.
pub const ENGINE_LAG_CHUNKS: u64 = 4;

/// The largest lag of any tenant behind the fluid schedule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lag {
    /// What the tenant got less than its due, in bytes on the wire.
    pub bytes: f64,
    /// The time that the link takes for them, in seconds.
    pub s: f64,
    /// Which tenant.
    pub tenant: String,
    /// Start of the span in which it came about, in seconds since the run of the mode started.
    pub from_s: f64,
    /// End of the span.
    pub to_s: f64,
    /// The lag that the engine may have, in bytes; see `docs/measuring.md`.
    pub engine_bytes: u64,
}

/// The largest lag in `fine` on a link of `link_bps`; `None` when nobody waited throughout a window.
pub fn largest_lag(fine: &FineSamples, link_bps: f64) -> Option<Lag> {
    let most = ((SPAN_S / fine.window_s) as usize).max(1);
    let sharing = fine.sharing();
    let mut largest: Option<Lag> = None;
    for from in 0..fine.len() {
        let mut waiting = sharing;
        let mut sent = vec![0.0; fine.tenants.len()];
        for window in from..fine.len().min(from + most) {
            waiting &= fine.waiting[window];
            if waiting == 0 {
                break;
            }
            sent.iter_mut().zip(&fine.bytes[window]).for_each(|(sum, bytes)| *sum += *bytes as f64);
            let due = level(&sent, sharing, waiting);
            for tenant in (0..sent.len()).filter(|i| waiting >> i & 1 == 1) {
                let bytes = due - sent[tenant];
                if largest.as_ref().is_none_or(|lag| bytes > lag.bytes) {
                    largest = Some(Lag {
                        bytes,
                        s: bytes * 8.0 / link_bps,
                        tenant: fine.tenants[tenant].clone(),
                        from_s: fine.start_s(from),
                        to_s: fine.start_s(window + 1),
                        engine_bytes: ENGINE_LAG_CHUNKS * fine.chunk_bytes,
                    });
                }
            }
        }
    }
    largest
}

/// What each of `waiting` is due when what `sharing` sent together is poured out: all of them alike, the others what they
/// sent, but no more.
fn level(sent: &[f64], sharing: u64, waiting: u64) -> f64 {
    let is = |set: u64, i: usize| set >> i & 1 == 1;
    let mut rest: f64 = (0..sent.len()).filter(|i| is(sharing, *i)).map(|i| sent[i]).sum();
    let mut others: Vec<f64> =
        (0..sent.len()).filter(|i| is(sharing & !waiting, *i)).map(|i| sent[i]).collect();
    others.sort_by(f64::total_cmp);
    let mut takers = waiting.count_ones() as usize + others.len();
    for wants in others {
        if wants * takers as f64 > rest {
            break;
        }
        rest -= wants;
        takers -= 1;
    }
    rest / takers as f64
}
