//! The departure log: the departures in the link's time, packet by packet or chunk by chunk.
//!
//! The worker fills buffers that were allocated and touched before it started, and passes a full one through a channel,
//! so no reader can block it. A log that exceeds its estimate allocates further buffers.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use weft_units::{Bytes, ClassId, FlowKey, Instant, LoggedFlowId, TxQueueId};

/// The departures in a buffer: 100 KB, below the 128 KB from which on glibc's allocator maps each block anew
/// (M_MMAP_THRESHOLD).
const CHUNK: usize = 2130;

/// A packet, or a chunk of one, on the wire. Its segments follow one another without a gap: segment i of n leaves at
/// about `start + (end - start) * (i + 1) / n`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Departure {
    /// The time of its first bit, on the link's clock (the kernel's monotonic clock, except as [`crate::link`]
    /// describes).
    pub start: Instant,
    /// The time of its last bit.
    pub end: Instant,
    /// The hardware queue, or the ring where there are no hardware queues.
    pub queue: TxQueueId,
    /// The flow, as an index of [`DepartureLog::flows`].
    pub flow: LoggedFlowId,
    /// The number of MTU-size frames.
    pub segments: u32,
    /// Bytes on the wire, preamble, check sequence and gap included.
    wire: u32,
    /// The class.
    pub class: ClassId,
    /// Whether it is the first chunk of its packet.
    pub first: bool,
    /// Whether it is the last chunk of its packet.
    pub last: bool,
    /// The arrival of its packet; [`NEVER`] if it is not known.
    arrival: Instant,
}

/// The arrival of a packet without a doorbell.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

impl Departure {
    /// The time at which the worker took the packet's doorbell, on the wall clock; a packet may have that of an earlier one, as
    /// [`crate::sojourn`] describes. `None` for a packet that came without one.
    pub fn arrival(&self) -> Option<Instant> {
        (self.arrival != NEVER).then_some(self.arrival)
    }

    /// Bytes on the wire, preamble, check sequence and gap included.
    pub fn wire(&self) -> Bytes {
        Bytes(u64::from(self.wire))
    }
}

/// All departures of a run, or those since the last ones were taken, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DepartureLog {
    /// The five-tuples, in the order of their first departures; `None` for all packets that are not IP. Fragments have
    /// no ports. Those of earlier departures were taken with them, and count in the index.
    pub flows: Vec<Option<FlowKey>>,
    /// The departures.
    pub departures: Vec<Departure>,
}

impl DepartureLog {
    /// The sum of the bytes on the wire.
    pub fn wire(&self) -> Bytes {
        self.departures.iter().map(Departure::wire).sum()
    }

    /// The index of a flow in [`flows`](Self::flows).
    pub fn flow(&self, key: &FlowKey) -> Option<LoggedFlowId> {
        self.flows.iter().position(|known| known.as_ref() == Some(key)).map(LoggedFlowId::from_index)
    }
}

/// A message of the worker to the log: departures, and the flows whose first departures are among them.
type Handed = (Vec<Departure>, Vec<Option<FlowKey>>);

/// The writing end, in the worker.
#[derive(Debug)]
pub(crate) struct Recorder {
    out: Sender<Handed>,
    open: Vec<Departure>,
    spare: Vec<Vec<Departure>>,
    /// Flows that were not handed yet.
    flows: Vec<Option<FlowKey>>,
    numbers: BTreeMap<Option<FlowKey>, LoggedFlowId>,
}

/// The reading end.
#[derive(Debug)]
pub(crate) struct Departures(Receiver<Handed>);

const NONE: Departure = Departure {
    start: Instant::ZERO,
    end: Instant::ZERO,
    queue: TxQueueId(0),
    flow: LoggedFlowId(0),
    segments: 0,
    wire: 0,
    class: ClassId(0),
    first: false,
    last: false,
    arrival: NEVER,
};

/// A chunk that left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    /// The times of its first and last bit.
    pub(crate) times: (Instant, Instant),
    pub(crate) arrival: Option<Instant>,
    pub(crate) class: ClassId,
    pub(crate) segments: u32,
    pub(crate) wire: Bytes,
    pub(crate) first: bool,
    pub(crate) last: bool,
}

/// Allocates a buffer and touches its memory.
fn buffer() -> Vec<Departure> {
    let mut buffer = vec![NONE; CHUNK];
    buffer.clear();
    buffer
}

/// Creates a log with room for `expected` departures; more are no error.
pub(crate) fn departures(expected: usize) -> (Recorder, Departures) {
    let (out, end) = channel();
    let spare = core::iter::repeat_with(buffer).take(expected.div_ceil(CHUNK)).collect();
    let (flows, numbers) = (Vec::new(), BTreeMap::new());
    (Recorder { out, open: buffer(), spare, flows, numbers }, Departures(end))
}

impl Recorder {
    /// The number of a flow. The first packet of a flow may allocate.
    pub(crate) fn flow(&mut self, key: Option<FlowKey>) -> LoggedFlowId {
        let (flows, next) = (&mut self.flows, LoggedFlowId::from_index(self.numbers.len()));
        *self.numbers.entry(key).or_insert_with(|| {
            flows.push(key);
            next
        })
    }

    /// Records a departure.
    pub(crate) fn record(&mut self, queue: TxQueueId, flow: LoggedFlowId, chunk: &Chunk) {
        let Chunk { times: (start, end), arrival, class, segments, wire, first, last } = *chunk;
        let wire = u32::try_from(wire.get()).unwrap_or(u32::MAX);
        let arrival = arrival.unwrap_or(NEVER);
        self.open.push(Departure { start, end, queue, flow, segments, wire, class, first, last, arrival });
        if self.open.len() == CHUNK {
            let next = self.spare.pop().unwrap_or_else(buffer);
            let full = core::mem::replace(&mut self.open, next);
            self.hand(full);
        }
    }

    /// A missing reader is no error: the NIC continues.
    fn hand(&mut self, departures: Vec<Departure>) {
        let _ = self.out.send((departures, core::mem::take(&mut self.flows)));
    }
}

impl Drop for Recorder {
    /// Passes the remaining departures.
    fn drop(&mut self) {
        let rest = core::mem::take(&mut self.open);
        self.hand(rest);
    }
}

impl Departures {
    /// Collects the log: all buffers passed since the last call. With the last call after the recorder was dropped, nothing is
    /// missing.
    pub(crate) fn collect(&self) -> DepartureLog {
        let mut log = DepartureLog::default();
        for (mut departures, mut flows) in self.0.try_iter() {
            log.departures.append(&mut departures);
            log.flows.append(&mut flows);
        }
        log
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::Protocol;

    fn key(sport: u16) -> FlowKey {
        let address = "10.0.0.1".parse().expect("address");
        FlowKey { src: address, dst: address, sport, dport: 5, protocol: Protocol::TCP }
    }

    #[test]
    fn a_log_beyond_its_estimate_loses_nothing_and_keeps_the_order() {
        let count = 2 * CHUNK as u64 + 700;
        for expected in [0, CHUNK, 10 * CHUNK] {
            let (mut recorder, end) = departures(expected);
            for i in 0..count {
                let flow = recorder.flow((i % 3 > 0).then(|| key((i % 3) as u16)));
                let chunk = Chunk {
                    times: (Instant::from_nanos(i), Instant::from_nanos(i + 1)),
                    arrival: (i % 5 > 0).then(|| Instant::from_nanos(i / 2)),
                    class: ClassId(i as u32 % 7),
                    segments: 2,
                    wire: Bytes(i),
                    first: i % 2 == 0,
                    last: i % 3 == 0,
                };
                recorder.record(TxQueueId(i as u32 % 4), flow, &chunk);
            }
            // What is taken in between is not taken again.
            let mut log = end.collect();
            assert_eq!(log.departures.len(), 2 * CHUNK);
            drop(recorder);
            let rest = end.collect();
            assert_eq!(rest.flows, []);
            log.departures.extend(rest.departures);
            assert_eq!(log.flows, [None, Some(key(1)), Some(key(2))]);
            assert_eq!((log.flow(&key(2)), log.flow(&key(9))), (Some(LoggedFlowId(2)), None));
            assert_eq!(log.departures.len() as u64, count);
            assert_eq!(log.wire(), Bytes(count * (count - 1) / 2));
            let in_order = |(i, d): (usize, &Departure)| {
                d.start == Instant::from_nanos(i as u64)
                    && d.flow.index() == i % 3
                    && d.queue.index() == i % 4
                    && (d.class.index(), d.first, d.last) == (i % 7, i % 2 == 0, i % 3 == 0)
                    && d.arrival() == (i % 5 > 0).then(|| Instant::from_nanos(i as u64 / 2))
            };
            assert!(log.departures.iter().enumerate().all(in_order));
        }
    }

    #[test]
    fn a_departure_is_small() {
        assert_eq!(size_of::<Departure>() * CHUNK, 102_240);
    }
}
