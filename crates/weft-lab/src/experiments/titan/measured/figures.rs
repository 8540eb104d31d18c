//! Fairness and throughput from a log of departures.
//!
//! What a flow sent in an interval is counted in bytes on the wire. A packet that an interval cuts is spread evenly over
//! its time on the link: by a time `t` between its start and its end, `wire * (t - start) / (end - start)` bytes of it have
//! left, rounded down. So nothing is counted twice or lost, whatever the intervals are.

use super::path::{Departure, Log};
use core::ops::Range;
use weft_report::stats;
use weft_units::{BitsPerSec, Bytes, FlowKey, Instant, Nanos};

/// Bytes of an Ethernet frame on the wire that are not TCP payload: preamble 8, header 14, checksum 4, gap 12 (IEEE 802.3),
/// IPv4 header 20, TCP header 20, timestamps with their padding 12 (RFC 7323, appendix A).
const BESIDE_PAYLOAD: Bytes = Bytes(90);

/// NFM (technical report, section 3) over the intervals of a window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fairness {
    /// Mean over the intervals: what the papers show.
    pub mean: f64,
    /// Greatest.
    pub max: f64,
    /// How many intervals the window has.
    pub intervals: u64,
}

/// What of a log is looked at: some of its flows, in a window.
#[derive(Clone, Debug)]
pub struct Steady {
    window: Range<Instant>,
    flows: usize,
    /// Departures of the flows that touch the window, by start. `flow` is the number of the flow here.
    departures: Vec<Departure>,
}

impl Steady {
    /// Looks at the flows that `number` knows, which are `0..flows`. Flows without a departure have sent nothing, which is
    /// what they count as.
    pub fn new(
        log: &Log,
        flows: usize,
        window: Range<Instant>,
        number: impl Fn(&FlowKey) -> Option<u32>,
    ) -> Self {
        let numbers: Vec<Option<u32>> = log
            .flows
            .iter()
            .map(|key| key.as_ref().and_then(&number).filter(|number| (*number as usize) < flows))
            .collect();
        let here = |departure: &Departure| {
            let flow = numbers.get(departure.flow as usize).copied().flatten()?;
            (departure.end > window.start && departure.start < window.end)
                .then_some(Departure { flow, ..*departure })
        };
        let mut departures: Vec<Departure> = log.departures.iter().filter_map(here).collect();
        departures.sort_by_key(|departure| departure.start);
        Self { window, flows, departures }
    }

    /// How long the window is.
    pub fn span(&self) -> Nanos {
        self.window.end.saturating_since(self.window.start)
    }

    /// Calls `told` with what each flow sent, for each whole interval of `tau` in the window.
    fn intervals(&self, tau: Nanos, mut told: impl FnMut(&[Bytes])) {
        if tau == Nanos::ZERO {
            return;
        }
        let mut sent = vec![Bytes::ZERO; self.flows];
        // Departures under way: on one link there is at most one, but nothing here depends on it.
        let mut under_way: Vec<&Departure> = Vec::new();
        let mut coming = self.departures.iter().peekable();
        for interval in 0..self.span().get() / tau.get() {
            let from = self.window.start + Nanos(interval * tau.get());
            let to = from + tau;
            while let Some(next) = coming.next_if(|departure| departure.start < to) {
                under_way.push(next);
            }
            sent.fill(Bytes::ZERO);
            for departure in &under_way {
                sent[departure.flow as usize] += left_by(departure, to) - left_by(departure, from);
            }
            under_way.retain(|departure| departure.end > to);
            told(&sent);
        }
    }

    /// NFM over all whole intervals of `tau`; `None` without a flow, an interval or a rate. `rate` is the link's.
    pub fn nfm(&self, rate: BitsPerSec, tau: Nanos) -> Option<Fairness> {
        let (mut sum, mut max, mut intervals) = (0.0, 0.0_f64, 0);
        self.intervals(tau, |sent| {
            if let Some(nfm) = stats::nfm(sent, rate, tau) {
                sum += nfm;
                max = max.max(nfm);
                intervals += 1;
            }
        });
        (intervals > 0).then(|| Fairness { mean: sum / intervals as f64, max, intervals })
    }

    /// What each flow sent in the whole window.
    pub fn sent(&self) -> Vec<Bytes> {
        let mut all = vec![Bytes::ZERO; self.flows];
        self.intervals(self.span(), |sent| all.copy_from_slice(sent));
        all
    }

    /// Rate of each flow on the wire.
    pub fn rates(&self) -> Vec<BitsPerSec> {
        self.sent().into_iter().map(|bytes| BitsPerSec::from_bytes_over(bytes, self.span())).collect()
    }

    /// Payload of all flows: the papers' throughput. Frames count whole where they end in the window.
    pub fn payload(&self) -> BitsPerSec {
        let ended = self
            .departures
            .iter()
            .filter(|departure| departure.end > self.window.start && departure.end <= self.window.end);
        let payload = |departure: &Departure| {
            let beside = Bytes(BESIDE_PAYLOAD.get().saturating_mul(departure.segments.get()));
            departure.wire.saturating_sub(beside)
        };
        BitsPerSec::from_bytes_over(ended.map(payload).sum(), self.span())
    }

    /// For each whole interval of `tau`: what each group of flows got of what all got, over its share by weight; 1 is
    /// exact. Flow `i` is of group `i % weights.len()`, as in `RunSettings::weights`. Intervals in which nothing was sent
    /// are left out.
    pub fn shares(&self, weights: &[f64], tau: Nanos) -> Vec<Vec<f64>> {
        let total: f64 = weights.iter().sum();
        let mut all = Vec::new();
        if weights.is_empty() || total <= 0.0 {
            return all;
        }
        self.intervals(tau, |sent| {
            let mut groups = vec![0.0; weights.len()];
            for (flow, bytes) in sent.iter().enumerate() {
                groups[flow % weights.len()] += bytes.get() as f64;
            }
            let sum: f64 = groups.iter().sum();
            if sum > 0.0 {
                let share = |(group, weight): (&f64, &f64)| group / sum / (weight / total);
                all.push(groups.iter().zip(weights).map(share).collect());
            }
        });
        all
    }
}

/// What has left of a departure by `t`.
fn left_by(departure: &Departure, t: Instant) -> Bytes {
    if t >= departure.end {
        return departure.wire;
    }
    // A log may have a packet of no length in time, or one that ends before it starts.
    let span = u128::from(departure.end.saturating_since(departure.start).get().max(1));
    let passed = u128::from(t.saturating_since(departure.start).get());
    // What has passed is less than the span, since `t` is before the end: the result is less than the packet.
    Bytes((u128::from(departure.wire.get()) * passed / span) as u64)
}

#[cfg(test)]
mod tests;
