//! Segments (skbs) in the queues and schedulers of a sending host.

pub use crate::ids::{SkbId, StreamId};

use weft_units::{Bytes, Nanos};

/// A segment, up to TSO's maximum size, as seen by qdiscs, byte queue limits and NIC schedulers. A copy is 24 bytes; its other
/// properties are in the run's pool under `skb`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Its entry in the pool.
    pub skb: SkbId,
    /// Its stream; queues treat a stream as a flow.
    pub flow: StreamId,
    /// Length in the qdisc's accounting: payload plus headers once per packet on the wire (`qdisc_pkt_len_init`).
    pub len: u32,
    /// Number of its packets on the wire.
    pub packets: u16,
    /// Class of a classful qdisc or NIC, such as a tenant: an index into the scenario's classes.
    pub class: u16,
    /// Priority band; 0 is the most urgent (`prio`, `pfifo_fast`, DCB).
    pub band: u8,
    /// Congestion experienced, set by queues that mark.
    pub marked: bool,
}

/// The segments held by a queue.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Backlog {
    /// Number of segments.
    pub segments: u32,
    /// Number of bytes, counted as in [`Segment::len`].
    pub bytes: Bytes,
}

/// The answer of a queue to a request for a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dequeued {
    /// The next segment.
    Segment(Segment),
    /// The queue is not empty, but no segment may leave before this time.
    Wait(Nanos),
    /// The queue is empty.
    Empty,
}
