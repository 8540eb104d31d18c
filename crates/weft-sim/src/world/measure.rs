//! What is measured while a run goes on, and what the outcome says at its end.

use super::{Event, Packet, World, host};
use crate::ids::{FlowNumber, GroupId, Table};
use crate::outcome::{Amount, ClassSample, Fairness, FlowOutcome, Latencies, Outcome, Station};
use crate::trace::Observer;
use weft_units::{Bytes, Nanos};

/// Windows, snapshots and sums.
pub(super) struct Measurements {
    /// When the measured part begins.
    begin: Nanos,
    intervals: Vec<Interval>,
    /// By class, bytes on wires since the last sample.
    class_bytes: Vec<u64>,
    /// By class, running flows.
    running: Vec<u32>,
    /// By class: running flows were there all the time since the last sample.
    active: Vec<bool>,
    samples: Vec<ClassSample>,
    last_sample: Nanos,
    /// By class: bytes in qdiscs and rings, since when, and their integral over the measured part.
    standing: Vec<(i64, Nanos, f64)>,
    /// By flow: bytes sent before the measured part.
    sent_before: Table<FlowNumber, u64>,
    received_before: Table<FlowNumber, u64>,
    lost: Amount,
}

/// Unfairness over one interval.
struct Interval {
    length: Nanos,
    windows: u64,
    sum: f64,
    max: f64,
    /// By flow: weighted bytes at the window's beginning.
    at_begin: Table<FlowNumber, u64>,
}

impl Measurements {
    pub(super) fn new(begin: Nanos, intervals: &[Nanos], classes: usize, flows: usize) -> Self {
        let interval = |&length: &Nanos| Interval {
            length,
            windows: 0,
            sum: 0.0,
            max: 0.0,
            at_begin: Table::of(0, flows),
        };
        Self {
            begin,
            intervals: intervals.iter().map(interval).collect(),
            class_bytes: vec![0; classes],
            running: vec![0; classes],
            active: vec![false; classes],
            samples: Vec::new(),
            last_sample: Nanos::ZERO,
            standing: vec![(0, Nanos::ZERO, 0.0); classes],
            sent_before: Table::of(0, flows),
            received_before: Table::of(0, flows),
            lost: Amount::default(),
        }
    }

    #[inline]
    pub(super) fn sent(&mut self, class: u16, bytes: u32) {
        self.class_bytes[usize::from(class)] += u64::from(bytes);
    }

    pub(super) fn lost(&mut self, packet: &Packet) {
        host::count(&mut self.lost, 1, u64::from(packet.len));
    }

    pub(super) fn began(&self, at: Nanos) -> bool {
        at >= self.begin
    }

    pub(super) fn class_starts(&mut self, class: u16) {
        self.running[usize::from(class)] += 1;
    }

    pub(super) fn class_stops(&mut self, class: u16) {
        let running = &mut self.running[usize::from(class)];
        *running -= 1;
        if *running == 0 {
            self.active[usize::from(class)] = false;
        }
    }

    /// A class's standing bytes change.
    #[inline]
    pub(super) fn standing(&mut self, class: u16, change: i64, now: Nanos) {
        let (bytes, since, integral) = &mut self.standing[usize::from(class)];
        let from = (*since).max(self.begin);
        *integral += *bytes as f64 * now.saturating_sub(from).0 as f64;
        *bytes += change;
        *since = now.max(*since);
    }
}

impl<O: Observer> World<'_, O> {
    /// Schedules what is measured at fixed times.
    pub(super) fn schedule_measurements(&mut self) {
        self.queue.push(self.scenario.warm_up, Event::Measure);
        if self.scenario.sample_interval > Nanos::ZERO {
            self.queue.push(self.scenario.sample_interval, Event::Sample);
        }
    }

    fn weighted_bytes(&self, flow: FlowNumber) -> u64 {
        let stream = &self.streams[flow.forward()];
        stream.sent / u64::from(stream.weight.max(1))
    }

    pub(super) fn begin_measuring(&mut self) {
        for flow in self.applications.ids() {
            self.measure.sent_before[flow] = self.streams[flow.forward()].sent;
            self.measure.received_before[flow] = self.receivers[flow.forward()].bytes;
            let bytes = self.weighted_bytes(flow);
            for interval in &mut self.measure.intervals {
                interval.at_begin[flow] = bytes;
            }
        }
        for host in self.hosts.iter_mut() {
            for core in host.cores.iter_mut() {
                core.done = [0.0; 17];
                core.extra = [0.0; 8];
            }
        }
        for index in 0..self.measure.intervals.len() {
            let length = self.measure.intervals[index as usize].length;
            self.queue.push(self.now + length, Event::Fairness { index: index as u32 });
        }
    }

    /// A window of unfairness ends: the greatest difference between two flows' bytes, over a flow's fair share of the link
    /// (Titan TR, section 3).
    pub(super) fn fairness_window(&mut self, index: u32) {
        let (mut least, mut most) = (u64::MAX, 0);
        let mut weights = 0u64;
        for flow in self.applications.ids() {
            let bytes = self.weighted_bytes(flow);
            weights += u64::from(self.streams[flow.forward()].weight.max(1));
            let interval = &mut self.measure.intervals[index as usize];
            let in_window = bytes - std::mem::replace(&mut interval.at_begin[flow], bytes);
            if self.applications[flow].running {
                least = least.min(in_window);
                most = most.max(in_window);
            }
        }
        let rate = self.scenario.network.rate;
        let interval = &mut self.measure.intervals[index as usize];
        if most >= least {
            let share = rate.bytes_in(interval.length).0 as f64 / weights as f64;
            let unfairness = (most - least) as f64 / share;
            interval.windows += 1;
            interval.sum += unfairness;
            interval.max = interval.max.max(unfairness);
        }
        let length = interval.length;
        self.queue.push(self.now + length, Event::Fairness { index });
    }

    /// A window of the classes' samples ends.
    pub(super) fn sample(&mut self) {
        let measure = &mut self.measure;
        let window = self.now - measure.last_sample;
        let bytes = measure.class_bytes.iter_mut().map(|bytes| Bytes(std::mem::take(bytes))).collect();
        let active = measure.active.clone();
        measure.samples.push(ClassSample { at: self.now, window, bytes, active });
        for (active, &running) in measure.active.iter_mut().zip(&measure.running) {
            *active = running > 0;
        }
        measure.last_sample = self.now;
        self.queue.push(self.now + self.scenario.sample_interval, Event::Sample);
    }

    /// The group of a flow, for observers; none for a probe or acknowledgements.
    pub(super) fn group_of(&self, flow: Option<FlowNumber>) -> Option<GroupId> {
        flow.and_then(|flow| self.applications.get(flow)).map(|application| application.group)
    }

    /// Makes the outcome; gives the observer back.
    pub(super) fn finish(mut self) -> (Outcome, O) {
        let end = self.now.min(self.end);
        for class in 0..self.measure.standing.len() {
            self.measure.standing(class as u16, 0, end);
        }
        let measured = end.saturating_sub(self.scenario.warm_up);
        let books = self.books();
        let fairness = self.measure.intervals.iter().map(|interval| Fairness {
            interval: interval.length,
            windows: interval.windows,
            mean: (interval.windows > 0).then(|| interval.sum / interval.windows as f64),
            max: (interval.windows > 0).then_some(interval.max),
        });
        let fairness = fairness.collect();
        let flows = self.applications.ids().map(|flow| self.flow_outcome(flow)).collect();
        let span = measured.0.max(1) as f64;
        self.counters.standing =
            self.measure.standing.iter().map(|(_, _, integral)| Bytes((integral / span) as u64)).collect();
        let costs = &self.scenario.costs;
        let outcome = Outcome {
            events: self.events,
            measured,
            flows,
            fairness,
            probes: self.probes.iter_mut().map(|probe| std::mem::take(&mut probe.latencies)).collect(),
            cpu: self
                .hosts
                .iter()
                .map(|host| host.cores.iter().map(|core| core.work(costs)).collect())
                .collect(),
            samples: self.measure.samples,
            counters: self.counters,
            books,
        };
        (outcome, self.observer)
    }

    fn flow_outcome(&mut self, flow: FlowNumber) -> FlowOutcome {
        let stream = flow.forward();
        let application = &mut self.applications[flow];
        let begin = self.scenario.warm_up;
        let all = std::mem::take(&mut application.requests);
        let kept = all.at.iter().zip(&all.samples).filter(|(at, _)| **at >= begin);
        let (at, samples) = kept.map(|(at, sample)| (*at, *sample)).unzip();
        FlowOutcome {
            group: application.group.0,
            bytes: Bytes(self.streams[stream].sent - self.measure.sent_before[flow]),
            received: Bytes(self.receivers[stream].bytes - self.measure.received_before[flow]),
            completion: application.completion,
            retransmitted: self.senders[stream].retransmitted + self.senders[stream.reverse()].retransmitted,
            requests: Latencies { at, samples },
        }
    }

    /// The books of all stations. What a station holds is counted where it lies, not derived from what came and went.
    fn books(&mut self) -> Vec<Station> {
        let end = self.now;
        let mut stations = Vec::new();
        let mut in_network = Amount::default();
        let (mut sent, mut arrived) = (Amount::default(), Amount::default());
        let dropped = self.measure.lost;
        for (index, state) in self.hosts.iter().enumerate() {
            let (mut ring, mut partly) = (Amount::default(), 0u64);
            for queue in state.queues.iter() {
                for segment in &queue.ring {
                    host::count(&mut ring, u64::from(segment.packets), u64::from(segment.len));
                }
                partly += queue.ring.front().map_or(0, |segment| u64::from(self.skbs[segment.skb].fetched));
            }
            let mut waiting = Amount::default();
            for queue in state.queues.iter() {
                queue.qdisc.walk(&mut |segment| {
                    host::count(&mut waiting, u64::from(segment.packets), u64::from(segment.len));
                });
            }
            stations.push(station(format!("host {index} qdiscs"), &state.qdisc_books, waiting));
            stations.push(station(format!("host {index} rings"), &state.ring_books, ring));
            host::count(&mut sent, state.ring_books.left.packets.0 + partly, 0);
            let mut unread = Amount::default();
            for vector in state.vectors.iter() {
                for (position, (_, packet)) in vector.ring.iter().enumerate() {
                    let waits = position < vector.accepted as usize;
                    host::count(if waits { &mut unread } else { &mut in_network }, 1, u64::from(packet.len));
                }
            }
            stations.push(station(format!("host {index} receive rings"), &state.receive_books, unread));
            arrived.packets += state.receive_books.entered.packets;
            arrived.bytes += state.receive_books.entered.bytes;
        }
        sent.bytes = self.streams.iter().map(|stream| Bytes(stream.sent)).sum();
        for packet in self.packets.live() {
            host::count(&mut in_network, 1, u64::from(packet.len));
        }
        let switches = self.fabric.books(end);
        let mut lost = dropped;
        for switch in &switches {
            lost.packets += switch.dropped.packets;
            lost.bytes += switch.dropped.bytes;
        }
        stations.push(Station {
            name: "network".to_owned(),
            entered: sent,
            left: arrived,
            dropped: lost,
            held: in_network,
        });
        stations.extend(switches);
        stations
    }
}

fn station(name: String, books: &host::Books, held: Amount) -> Station {
    Station { name, entered: books.entered, left: books.left, dropped: books.dropped, held }
}
