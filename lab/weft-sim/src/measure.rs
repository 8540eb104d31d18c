//! Measurements during a run: windows, snapshots and sums.

use crate::event::{Agenda, Event};
use crate::ids::{FlowNumber, Table};
use crate::outcome::{ClassSample, IntervalFairness};
use weft_units::{BitsPerSec, Bytes, Nanos};

/// The schedule of the measurements.
#[derive(Clone, Debug)]
pub(crate) struct Measured<'a> {
    /// Start of the measured part.
    pub(crate) begin: Nanos,
    pub(crate) fairness_intervals: &'a [Nanos],
    /// Interval of the samples of classes; `None` for no samples.
    pub(crate) sample_interval: Option<Nanos>,
    pub(crate) classes: usize,
    /// Rate of the links, for fair shares.
    pub(crate) rate: BitsPerSec,
}

/// Bytes of a class in qdiscs and rings.
#[derive(Clone, Copy, Default, Debug)]
struct Backlog {
    bytes: i64,
    since: Nanos,
    /// Integral over the measured part, in byte nanoseconds.
    integral: f64,
}

/// Unfairness over one interval.
#[derive(Debug)]
struct Interval {
    length: Nanos,
    windows: u64,
    sum: f64,
    max: f64,
    /// By flow: weighted bytes at the start of the window.
    at_begin: Table<FlowNumber, u64>,
}

/// A flow's bytes.
#[derive(Clone, Copy, Debug)]
struct FlowBytes {
    weight: u64,
    /// Frame bytes sent.
    sent: u64,
    /// Bytes sent, and bytes received by the application, before the measured part.
    sent_before: u64,
    received_before: u64,
}

impl FlowBytes {
    const fn weighted(&self) -> u64 {
        self.sent / self.weight
    }
}

/// A class's running flows and bytes.
#[derive(Clone, Copy, Default, Debug)]
struct Class {
    running: u32,
    /// Whether the class had running flows throughout the time since the last sample.
    active: bool,
    /// Bytes on wires since the last sample.
    bytes: u64,
    backlog: Backlog,
}

/// The measurements of a run.
#[derive(Debug)]
pub(crate) struct Measurements {
    begin: Nanos,
    rate: BitsPerSec,
    sample_interval: Option<Nanos>,
    intervals: Vec<Interval>,
    classes: Vec<Class>,
    samples: Vec<ClassSample>,
    last_sample: Nanos,
    flows: Table<FlowNumber, FlowBytes>,
}

impl Measurements {
    /// Creates the measurements of flows with these weights.
    pub(crate) fn new(measured: &Measured<'_>, weights: impl Iterator<Item = u32>) -> Self {
        let flow = |weight: u32| FlowBytes {
            weight: u64::from(weight.max(1)),
            sent: 0,
            sent_before: 0,
            received_before: 0,
        };
        let flows: Table<FlowNumber, FlowBytes> = weights.map(flow).collect();
        let interval = |&length: &Nanos| Interval {
            length,
            windows: 0,
            sum: 0.0,
            max: 0.0,
            at_begin: Table::of(0, flows.len()),
        };
        Self {
            begin: measured.begin,
            rate: measured.rate,
            sample_interval: measured.sample_interval,
            intervals: measured.fairness_intervals.iter().map(interval).collect(),
            classes: vec![Class::default(); measured.classes],
            samples: Vec::new(),
            last_sample: Nanos::ZERO,
            flows,
        }
    }

    /// Schedules the measurements at fixed times.
    pub(crate) fn schedule(&self, agenda: &mut Agenda) {
        agenda.push(self.begin, Event::Measure);
        if let Some(interval) = self.sample_interval {
            agenda.push(interval, Event::Sample);
        }
    }

    /// Returns the start of the measured part.
    pub(crate) const fn begins_at(&self) -> Nanos {
        self.begin
    }

    /// Counts a departing packet of a flow's data.
    #[inline]
    pub(crate) fn sent(&mut self, flow: FlowNumber, class: u16, bytes: u32) {
        self.flows[flow].sent += u64::from(bytes);
        self.classes[usize::from(class)].bytes += u64::from(bytes);
    }

    pub(crate) fn flow_starts(&mut self, class: u16) {
        self.classes[usize::from(class)].running += 1;
    }

    pub(crate) fn flow_ends(&mut self, class: u16) {
        let class = &mut self.classes[usize::from(class)];
        class.running -= 1;
        class.active &= class.running > 0;
    }

    /// Records a change of a class's backlog in qdiscs and rings.
    #[inline]
    pub(crate) fn backlog_changes(&mut self, class: u16, change: i64, now: Nanos) {
        let backlog = &mut self.classes[usize::from(class)].backlog;
        let from = backlog.since.max(self.begin);
        backlog.integral += backlog.bytes as f64 * now.saturating_sub(from).0 as i64 as f64;
        backlog.bytes += change;
        backlog.since = now.max(backlog.since);
    }

    /// Starts the measured part; `received` returns the bytes that a flow's receiver has.
    pub(crate) fn begin(&mut self, received: impl Fn(FlowNumber) -> u64, now: Nanos, agenda: &mut Agenda) {
        for flow in self.flows.ids() {
            let bytes = &mut self.flows[flow];
            bytes.sent_before = bytes.sent;
            bytes.received_before = received(flow);
            for interval in &mut self.intervals {
                interval.at_begin[flow] = bytes.weighted();
            }
        }
        for (index, interval) in (0..).zip(&self.intervals) {
            agenda.push(now + interval.length, Event::Fairness { index });
        }
    }

    /// Ends a window of unfairness: the greatest difference between two running flows' bytes, over a flow's fair share of the
    /// link (Titan TR, section 3).
    pub(crate) fn end_window(
        &mut self,
        index: u32,
        is_running: impl Fn(FlowNumber) -> bool,
        now: Nanos,
        agenda: &mut Agenda,
    ) {
        let Some(interval) = self.intervals.get_mut(index as usize) else { return };
        let (mut least, mut most) = (u64::MAX, 0);
        let mut weights = 0u64;
        for (flow, bytes) in self.flows.pairs() {
            weights += bytes.weight;
            let bytes = bytes.weighted();
            let in_window = bytes - std::mem::replace(&mut interval.at_begin[flow], bytes);
            if is_running(flow) {
                least = least.min(in_window);
                most = most.max(in_window);
            }
        }
        if most >= least {
            let share = self.rate.bytes_in(interval.length).0 as f64 / weights as f64;
            let unfairness = (most - least) as f64 / share;
            interval.windows += 1;
            interval.sum += unfairness;
            interval.max = interval.max.max(unfairness);
        }
        agenda.push(now + interval.length, Event::Fairness { index });
    }

    /// Ends a window of the classes' samples.
    pub(crate) fn sample(&mut self, now: Nanos, agenda: &mut Agenda) {
        let window = now - self.last_sample;
        let bytes = self.classes.iter_mut().map(|class| Bytes(std::mem::take(&mut class.bytes))).collect();
        let active = self.classes.iter().map(|class| class.active).collect();
        self.samples.push(ClassSample { at: now, window, bytes, active });
        for class in &mut self.classes {
            class.active = class.running > 0;
        }
        self.last_sample = now;
        if let Some(interval) = self.sample_interval {
            agenda.push(now + interval, Event::Sample);
        }
    }

    /// Returns the frame bytes that a flow sent in the measured part.
    pub(crate) fn sent_bytes(&self, flow: FlowNumber) -> Bytes {
        let flow = &self.flows[flow];
        Bytes(flow.sent - flow.sent_before)
    }

    /// Returns the part of a total of `received` bytes that belongs to the measured part.
    pub(crate) fn received_bytes(&self, flow: FlowNumber, received: u64) -> Bytes {
        Bytes(received - self.flows[flow].received_before)
    }

    /// Returns the unfairness by interval.
    pub(crate) fn fairness(&self) -> Vec<IntervalFairness> {
        let of = |interval: &Interval| IntervalFairness {
            interval: interval.length,
            windows: interval.windows,
            mean: (interval.windows > 0).then(|| interval.sum / interval.windows as f64),
            max: (interval.windows > 0).then_some(interval.max),
        };
        self.intervals.iter().map(of).collect()
    }

    /// Returns the mean backlog by class over the measured part, which ends at `end`.
    pub(crate) fn mean_backlog(&mut self, end: Nanos) -> Vec<Bytes> {
        let span = end.saturating_sub(self.begin).0.max(1) as f64;
        (0..self.classes.len() as u16).for_each(|class| self.backlog_changes(class, 0, end));
        self.classes.iter().map(|class| Bytes((class.backlog.integral / span) as u64)).collect()
    }

    pub(crate) fn take_samples(&mut self) -> Vec<ClassSample> {
        std::mem::take(&mut self.samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurements(agenda: &mut Agenda) -> Measurements {
        let measured = Measured {
            begin: Nanos(1000),
            fairness_intervals: &[Nanos(1000)],
            sample_interval: Some(Nanos(500)),
            classes: 1,
            rate: BitsPerSec(8_000_000_000),
        };
        let measure = Measurements::new(&measured, [1, 1].into_iter());
        measure.schedule(agenda);
        measure
    }

    #[test]
    fn unfairness_is_the_difference_over_the_share() {
        let mut agenda = Agenda::new();
        let mut measure = measurements(&mut agenda);
        measure.sent(FlowNumber(0), 0, 77);
        measure.begin(|_| 0, Nanos(1000), &mut agenda);
        measure.sent(FlowNumber(0), 0, 700);
        measure.sent(FlowNumber(1), 0, 200);
        measure.end_window(0, |_| true, Nanos(2000), &mut agenda);
        // One byte per nanosecond: a share of 500 bytes each.
        assert_eq!(measure.fairness()[0].mean, Some(1.0));
        assert_eq!(measure.sent_bytes(FlowNumber(0)), Bytes(700));
    }

    #[test]
    fn samples_and_backlogs_belong_to_their_time() {
        let mut agenda = Agenda::new();
        let mut measure = measurements(&mut agenda);
        assert_eq!(agenda.pop(), Some((Nanos(500), Event::Sample)));
        measure.flow_starts(0);
        measure.sent(FlowNumber(0), 0, 60);
        measure.backlog_changes(0, 10, Nanos(500));
        measure.sample(Nanos(500), &mut agenda);
        measure.sample(Nanos(1000), &mut agenda);
        measure.backlog_changes(0, -10, Nanos(1500));
        assert_eq!(measure.mean_backlog(Nanos(2000)), [Bytes(5)]);
        let samples = measure.take_samples();
        assert_eq!((samples[0].bytes[0], samples[0].active[0]), (Bytes(60), false));
        assert_eq!((samples[1].bytes[0], samples[1].active[0]), (Bytes(0), true));
        assert_eq!(agenda.pop(), Some((Nanos(1000), Event::Measure)));
        assert_eq!(agenda.pop(), Some((Nanos(1000), Event::Sample)));
    }
}
