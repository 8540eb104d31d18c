//! Departures and backlogs in short windows, from which the judged windows and the lag are computed.

use std::collections::BTreeMap;
use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LATENCY_TENANT, Sample};

/// The length of a judged window, in seconds. In it, a tenant's share is many turns.
const WINDOW_S: f64 = 0.5;
/// The length of the shortest judged window.
const LEAST_WINDOW_S: f64 = WINDOW_S / 2.0;

/// Departures and backlogs in short, consecutive windows of link time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FineSamples {
    /// Length of a window in seconds.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub window_s: f64,
    /// Start of the first window in seconds since the run of the mode started.
    pub from_s: f64,
    /// The largest piece that the NIC sends in one turn, in bytes on the wire.
    pub chunk_bytes: u64,
    /// The tenants (or jobs), in the order of the columns.
    pub tenants: Vec<String>,
    /// Window -> tenant -> bytes on the wire.
    pub bytes: Vec<Vec<u64>>,
    /// Window -> tenants that were backlogged in the NIC throughout, one bit each: 1 is the first tenant, 2 the second.
    pub waiting: Vec<u64>,
    /// Windows with lost link time, because the NIC's worker did not run for too long -> seconds.
    #[serde(default)]
    pub lost_s: BTreeMap<usize, f64>,
    /// Window -> the longest wait of a packet of T0 in the NIC for its turn, in seconds of link time. Empty without T0.
    #[serde(default)]
    pub probe_wait_s: Vec<f64>,
}

/// Consecutive windows that are shown, and possibly judged, as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FineSpan {
    /// The indices of the windows.
    pub windows: Range<usize>,
    /// Whether the same tenants were backlogged throughout, no other tenant sent, and no link time was lost.
    pub steady: bool,
}

impl FineSamples {
    /// Number of windows.
    pub fn len(&self) -> usize {
        self.bytes.len().min(self.waiting.len())
    }

    /// Whether the span is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Start of window `index`, in seconds since the run started.
    pub fn start_s(&self, index: usize) -> f64 {
        self.from_s + index as f64 * self.window_s
    }

    /// The bits of the tenants that share the link: all but T0.
    pub(super) fn sharing(&self) -> u64 {
        let bit = |(i, name): (usize, &String)| u64::from(name != LATENCY_TENANT) << i;
        self.tenants.iter().take(64).enumerate().map(bit).sum()
    }

    /// The bits of tenants other than T0 that were backlogged throughout window `index`. `None` if the set changes: another
    /// tenant sent too, or link time was lost.
    fn set(&self, index: usize) -> Option<u64> {
        let waiting = self.waiting[index] & self.sharing();
        let sent = |(i, bytes): (usize, &u64)| u64::from(*bytes > 0) << i;
        let senders: u64 = self.bytes[index].iter().take(64).enumerate().map(sent).sum();
        let others = senders & self.sharing() & !waiting;
        (others == 0 && !self.lost_s.contains_key(&index)).then_some(waiting)
    }

    /// All windows, cut into spans. A stretch in which the same tenants were backlogged throughout is steady if it is long enough,
    /// and is cut into equal spans of about half a second. The windows in between form spans that are shown and not judged.
    pub fn spans(&self) -> Vec<FineSpan> {
        let per = |s: f64| ((s / self.window_s).round() as usize).max(1);
        let (full, least) = (per(WINDOW_S), per(LEAST_WINDOW_S));
        let mut stretches: Vec<FineSpan> = Vec::new();
        let mut from = 0;
        for index in 1..=self.len() {
            let ends = index == self.len() || self.set(index) != self.set(from) || self.set(from).is_none();
            if !ends {
                continue;
            }
            let steady = self.set(from).is_some() && index - from >= least;
            match stretches.last_mut() {
                Some(last) if !steady && !last.steady => last.windows.end = index,
                _ => stretches.push(FineSpan { windows: from..index, steady }),
            }
            from = index;
        }
        stretches.iter().flat_map(|stretch| cut(stretch, full)).collect()
    }

    /// The resulting samples, one per span.
    pub fn samples(&self) -> Vec<Sample> {
        self.spans().into_iter().map(|span| self.sample(&span)).collect()
    }

    fn sample(&self, span: &FineSpan) -> Sample {
        let seconds = span.windows.len() as f64 * self.window_s;
        let sum =
            |i: usize| span.windows.clone().map(|w| self.bytes[w].get(i).copied().unwrap_or(0)).sum::<u64>();
        let waiting = span.windows.clone().fold(u64::MAX, |all, w| all & self.waiting[w]);
        let is_active = |(i, name): &(usize, &String)| *name == LATENCY_TENANT || waiting >> i & 1 == 1;
        let tenants = || self.tenants.iter().enumerate();
        Sample {
            t_s: self.start_s(span.windows.start),
            window_s: seconds,
            bps: tenants().map(|(i, name)| (name.clone(), sum(i) as f64 * 8.0 / seconds)).collect(),
            active: tenants().filter(is_active).map(|(_, name)| name.clone()).collect(),
            steady: span.steady,
        }
    }

    /// The time in which the most tenants were backlogged at once: from the first to the last such window, in seconds, and the
    /// number of these tenants. `None` if no tenant was ever backlogged.
    pub fn full_load(&self) -> Option<(f64, f64, u32)> {
        let count = |index: usize| (self.waiting[index] & self.sharing()).count_ones();
        let most = (0..self.len()).map(count).max().filter(|most| *most > 0)?;
        let first = (0..self.len()).find(|&w| count(w) == most)?;
        let last = (0..self.len()).rfind(|&w| count(w) == most)?;
        Some((self.start_s(first), self.start_s(last + 1), most))
    }

    /// The reason for the small number of steady windows, to complete "because".
    pub(super) fn why_few(&self) -> String {
        let lost: f64 = self.lost_s.values().sum();
        if self.full_load().is_none() {
            return "no tenant had packets waiting throughout any window: the applications do not fill this link".to_owned();
        }
        if lost > 0.0 {
            return format!(
                "the NIC's worker had no processor: {:.0} ms of the link's time were lost in {} windows",
                lost * 1e3,
                self.lost_s.len()
            );
        }
        let mut dry: BTreeMap<&str, usize> = BTreeMap::new();
        for index in 1..self.len() {
            let ended = self.waiting[index - 1] & !self.waiting[index] & self.sharing();
            let names = self.tenants.iter().enumerate().filter(|(i, _)| ended >> i & 1 == 1);
            names.for_each(|(_, name)| *dry.entry(name).or_default() += 1);
        }
        let listed: Vec<String> = dry.iter().map(|(name, times)| format!("{name} {times} times")).collect();
        format!(
            "tenants ran out of packets in {:.1} s of run ({}): the applications had too little of the processors, or the \
             run is too short",
            self.len() as f64 * self.window_s,
            listed.join(", ")
        )
    }

    /// Percentile `p` of the longest waits of T0's packets in the NIC, over the windows in `from_s..to_s` in which T0 sent.
    pub(super) fn probe_wait(&self, from_s: f64, to_s: f64, p: f64) -> Option<f64> {
        let within = |w: &usize| self.start_s(*w) >= from_s && self.start_s(*w) < to_s;
        let waits: Vec<f64> = (0..self.probe_wait_s.len())
            .filter(within)
            .map(|w| self.probe_wait_s[w])
            .filter(|wait| *wait > 0.0)
            .collect();
        weft_facts::stats::percentile(&waits, p)
    }
}

/// A stretch cut into pieces of about `full` windows. A stretch that is not steady is cut after every `full` windows.
fn cut(stretch: &FineSpan, full: usize) -> Vec<FineSpan> {
    let (from, length) = (stretch.windows.start, stretch.windows.len());
    if !stretch.steady {
        let starts = (0..length).step_by(full);
        let piece = |at: usize| from + at..from + (at + full).min(length);
        return starts.map(|at| FineSpan { windows: piece(at), steady: false }).collect();
    }
    let pieces = ((length + full / 2) / full).max(1);
    let edge = |i: usize| from + length * i / pieces;
    (0..pieces).map(|i| FineSpan { windows: edge(i)..edge(i + 1), steady: true }).collect()
}
