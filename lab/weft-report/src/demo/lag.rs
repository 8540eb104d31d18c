//! The lag of a tenant behind the ideal fluid schedule of backlogged tenants (generalised processor sharing, equal weights).
//!
//! The fluid schedule serves all backlogged tenants at the same rate at every moment. So over any span in which a tenant is
//! backlogged throughout, no tenant gets more than it does, and others that are backlogged throughout get the same. The rule
//! distributes the bytes that all tenants sent in the span, which gives each tenant's due; the lag is the part of the due that
//! the tenant did not get. The definition needs no steady window: a tenant that starts, stops, or is briefly idle is due what it
//! sent, up to the same level.
//!
//! # The bound for the policy engine
//! The engine serves one chunk (some segments, or a whole super-packet) at a time, and start-time fair queueing keeps two
//! backlogged tenants within one chunk of each other, so any tenant is at most two chunks below the level. A chunk counts in the
//! window in which its last bit leaves. This shifts at most one chunk of each across each edge of a span, two more. Hence
//! [`ENGINE_LAG_CHUNKS`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::FineSamples;

/// The longest span examined, in seconds.
const SPAN_S: f64 = 5.0;
/// The largest lag that the engine may cause, in chunks.
pub const ENGINE_LAG_CHUNKS: u64 = 4;

/// The largest lag of any tenant behind the fluid schedule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Lag {
    /// The part of its due that the tenant did not get, in bytes on the wire.
    pub bytes: f64,
    /// The transmission time of these bytes, in seconds.
    pub s: f64,
    /// The tenant.
    pub tenant: String,
    /// Start of the span with this lag, in seconds since the run of the mode started.
    pub from_s: f64,
    /// End of the span.
    pub to_s: f64,
    /// The largest lag that the engine may cause, in bytes; see `docs/measuring.md`.
    pub engine_bytes: u64,
}

/// The largest lag in `fine` on a link of `link_bps`; `None` if no tenant was backlogged throughout a window.
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

/// The due of each tenant in `waiting`, when the bytes that `sharing` sent are distributed: equal for all in `waiting`; the
/// others get what they sent, but not more than that.
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
