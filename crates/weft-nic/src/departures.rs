//! The departure log: the departures in the link's time, packet by packet or chunk by chunk.
//!
//! The worker fills buffers that were allocated and touched before it started, and passes a full one through a channel,
//! so no reader can block it. A log that exceeds its estimate allocates further buffers.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use weft_units::{Bytes, FlowKey, Instant, LoggedFlowId, TxQueueId};

/// The departures in a buffer: 100 KB, below the 128 KB from which on glibc's allocator maps each block anew
/// (M_MMAP_THRESHOLD).
const CHUNK: usize = 3200;

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
}

impl Departure {
    /// Bytes on the wire, preamble, check sequence and gap included.
    pub fn wire(&self) -> Bytes {
        Bytes(u64::from(self.wire))
    }
}

/// All departures of a run, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DepartureLog {
    /// The five-tuples, in the order of their first departures; `None` for all packets that are not IP. Fragments have
    /// no ports.
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

/// A message of the worker to the log.
#[derive(Debug)]
enum Handed {
    Chunk(Vec<Departure>),
    Flows(Vec<Option<FlowKey>>),
}

/// The writing end, in the worker.
#[derive(Debug)]
pub(crate) struct Recorder {
    out: Sender<Handed>,
    open: Vec<Departure>,
    spare: Vec<Vec<Departure>>,
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
};

/// Allocates a buffer and touches its memory.
fn chunk() -> Vec<Departure> {
    let mut chunk = vec![NONE; CHUNK];
    chunk.clear();
    chunk
}

/// Creates a log with room for `expected` departures; more are no error.
pub(crate) fn departures(expected: usize) -> (Recorder, Departures) {
    let (out, end) = channel();
    let spare = core::iter::repeat_with(chunk).take(expected.div_ceil(CHUNK)).collect();
    let (flows, numbers) = (Vec::new(), BTreeMap::new());
    (Recorder { out, open: chunk(), spare, flows, numbers }, Departures(end))
}

impl Recorder {
    /// The number of a flow. The first packet of a flow may allocate.
    pub(crate) fn flow(&mut self, key: Option<FlowKey>) -> LoggedFlowId {
        let flows = &mut self.flows;
        *self.numbers.entry(key).or_insert_with(|| {
            flows.push(key);
            LoggedFlowId::from_index(flows.len() - 1)
        })
    }

    /// Records a departure.
    pub(crate) fn record(
        &mut self,
        (start, end): (Instant, Instant),
        queue: TxQueueId,
        flow: LoggedFlowId,
        segments: u32,
        wire: Bytes,
    ) {
        let wire = u32::try_from(wire.get()).unwrap_or(u32::MAX);
        self.open.push(Departure { start, end, queue, flow, segments, wire });
        if self.open.len() == CHUNK {
            let next = self.spare.pop().unwrap_or_else(chunk);
            let full = core::mem::replace(&mut self.open, next);
            self.hand(Handed::Chunk(full));
        }
    }

    /// A missing reader is no error: the NIC continues.
    fn hand(&self, what: Handed) {
        let _ = self.out.send(what);
    }
}

impl Drop for Recorder {
    /// Passes the remaining departures.
    fn drop(&mut self) {
        let (rest, flows) = (core::mem::take(&mut self.open), core::mem::take(&mut self.flows));
        self.hand(Handed::Chunk(rest));
        self.hand(Handed::Flows(flows));
    }
}

impl Departures {
    /// Collects the log: all buffers passed so far, which are complete when the recorder was dropped.
    pub(crate) fn collect(&self) -> DepartureLog {
        let mut log = DepartureLog::default();
        for handed in self.0.try_iter() {
            match handed {
                Handed::Chunk(mut chunk) => log.departures.append(&mut chunk),
                Handed::Flows(flows) => log.flows = flows,
            }
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
                recorder.record(
                    (Instant::from_nanos(i), Instant::from_nanos(i + 1)),
                    TxQueueId(i as u32 % 4),
                    flow,
                    2,
                    Bytes(i),
                );
            }
            drop(recorder);
            let log = end.collect();
            assert_eq!(log.flows, [None, Some(key(1)), Some(key(2))]);
            assert_eq!((log.flow(&key(2)), log.flow(&key(9))), (Some(LoggedFlowId(2)), None));
            assert_eq!(log.departures.len() as u64, count);
            assert_eq!(log.wire(), Bytes(count * (count - 1) / 2));
            let in_order = |(i, d): (usize, &Departure)| {
                d.start == Instant::from_nanos(i as u64)
                    && d.flow.index() == i % 3
                    && d.queue.index() == i % 4
            };
            assert!(log.departures.iter().enumerate().all(in_order));
        }
    }

    #[test]
    fn a_departure_is_small() {
        assert_eq!(size_of::<Departure>() * CHUNK, 102_400);
    }
}
