//! Fairness and throughput, computed from a log of departures.
//!
//! The bytes that a flow sends in an interval are wire bytes. A packet that crosses the edge of an interval is spread
//! evenly over its time on the link: by a time `t` between its start and its end, `wire * (t - start) / (end -
//! start)` bytes of it have left, rounded down. So no byte is counted twice or lost, for any intervals.

use super::path::{WireDeparture, WireLog};
use core::ops::Range;
use weft_facts::stats;
use weft_units::{BitsPerSec, Bytes, FlowKey, Instant, Nanos};

/// Wire bytes of an Ethernet frame that are not TCP payload: preamble 8, header 14, checksum 4, gap 12 (IEEE 802.3),
/// IPv4 header 20, TCP header 20, timestamps with their padding 12 (RFC 7323, appendix A).
const BESIDE_PAYLOAD: Bytes = Bytes(90);

/// NFM (technical report, section 3) over the intervals of a window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WindowFairness {
    /// The mean over the intervals, as in the papers.
    pub mean: f64,
    /// The maximum over the intervals.
    pub max: f64,
    /// The number of intervals in the window.
    pub intervals: u64,
}

/// The steady part of a log: the departures of some flows in a window.
#[derive(Clone, Debug)]
pub struct Steady {
    window: Range<Instant>,
    flows: usize,
    /// Departures that overlap the window, by start. `flow` is the index of the flow here.
    departures: Vec<WireDeparture>,
}

impl Steady {
    /// Selects the departures of flows `0..flows`, which `number` maps from five-tuples. A flow without a departure
    /// counts as having sent nothing.
    pub fn new(
        log: &WireLog,
        flows: usize,
        window: Range<Instant>,
        number: impl Fn(&FlowKey) -> Option<u32>,
    ) -> Self {
        let numbers: Vec<Option<u32>> = log
            .flows
            .iter()
            .map(|key| key.as_ref().and_then(&number).filter(|number| (*number as usize) < flows))
            .collect();
        let here = |departure: &WireDeparture| {
            let flow = numbers.get(departure.flow as usize).copied().flatten()?;
            (departure.end > window.start && departure.start < window.end)
                .then_some(WireDeparture { flow, ..*departure })
        };
        let mut departures: Vec<WireDeparture> = log.departures.iter().filter_map(here).collect();
        departures.sort_by_key(|departure| departure.start);
        Self { window, flows, departures }
    }

    /// Returns the length of the window.
    pub fn span(&self) -> Nanos {
        self.window.end.saturating_since(self.window.start)
    }

    /// Calls `told` with the bytes that each flow sent, for each whole interval of `tau` in the window.
    fn intervals(&self, tau: Nanos, mut told: impl FnMut(&[Bytes])) {
        if tau == Nanos::ZERO {
            return;
        }
        let mut sent = vec![Bytes::ZERO; self.flows];
        // Departures in progress: one link has at most one, but nothing here depends on that.
        let mut under_way: Vec<&WireDeparture> = Vec::new();
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

    /// Returns the NFM over all whole intervals of `tau`; `None` without a flow, an interval or a rate. `rate` is the
    /// link's.
    pub fn nfm(&self, rate: BitsPerSec, tau: Nanos) -> Option<WindowFairness> {
        let (mut sum, mut max, mut intervals) = (0.0, 0.0_f64, 0);
        self.intervals(tau, |sent| {
            if let Some(nfm) = stats::nfm(sent, rate, tau) {
                sum += nfm;
                max = max.max(nfm);
                intervals += 1;
            }
        });
        (intervals > 0).then(|| WindowFairness { mean: sum / intervals as f64, max, intervals })
    }

    /// Returns the bytes that each flow sent in the whole window.
    pub fn sent(&self) -> Vec<Bytes> {
        let mut all = vec![Bytes::ZERO; self.flows];
        self.intervals(self.span(), |sent| all.copy_from_slice(sent));
        all
    }

    /// Returns the wire rate of each flow.
    pub fn rates(&self) -> Vec<BitsPerSec> {
        self.sent().into_iter().map(|bytes| BitsPerSec::from_bytes_over(bytes, self.span())).collect()
    }

    /// Returns the payload rate of all flows: the papers' throughput. A frame counts whole in the window in which it
    /// ends.
    pub fn payload(&self) -> BitsPerSec {
        let ended = self
            .departures
            .iter()
            .filter(|departure| departure.end > self.window.start && departure.end <= self.window.end);
        let payload = |departure: &WireDeparture| {
            let beside = Bytes(BESIDE_PAYLOAD.get().saturating_mul(departure.segments.get()));
            departure.wire.saturating_sub(beside)
        };
        BitsPerSec::from_bytes_over(ended.map(payload).sum(), self.span())
    }

    /// Returns, for each whole interval of `tau`, each group's fraction of all bytes over its share by weight; 1 is
    /// exact. Flow `i` is in group `i % weights.len()`, as in `RunSettings::weights`. Intervals without bytes are
    /// left out.
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

/// Returns the bytes of a departure that have left by `t`.
fn left_by(departure: &WireDeparture, t: Instant) -> Bytes {
    if t >= departure.end {
        return departure.wire;
    }
    // A log may have a departure of zero length, or one that ends before it starts.
    let span = u128::from(departure.end.saturating_since(departure.start).get().max(1));
    let passed = u128::from(t.saturating_since(departure.start).get());
    // `t` is before the end, so less than the span has passed and the result is less than the packet.
    Bytes((u128::from(departure.wire.get()) * passed / span) as u64)
}

#[cfg(test)]
mod tests;
