//! Segments (skbs), as the queues and schedulers of a sending host see them.

pub use crate::ids::{SkbId, StreamId};

use weft_units::{Bytes, Nanos};

/// A segment, as large as TSO lets it be, as qdiscs, byte queue limits and NIC schedulers see it. A copy is 24 bytes; the rest of
/// what is known about it lies in the run's pool under `skb`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Its entry in the pool.
    pub skb: SkbId,
    /// Its stream, which is a flow to queues.
    pub flow: StreamId,
    /// Bytes as the qdisc accounts them: payload plus headers once per packet on the wire (`qdisc_pkt_len_init`).
    pub len: u32,
    /// Packets on the wire that it becomes.
    pub packets: u16,
    /// Class of a classful qdisc or NIC, such as a tenant: an index into the scenario's classes.
    pub class: u16,
    /// Priority band, 0 the most urgent (`prio`, `pfifo_fast`, DCB).
    pub band: u8,
    /// Congestion experienced, set by queues that mark.
    pub marked: bool,
}

/// The segments that a queue holds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Backlog {
    /// Segments.
    pub segments: u32,
    /// Their bytes, as [`Segment::len`] counts them.
    pub bytes: Bytes,
}

/// The answer of a queue that is asked for a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dequeued {
    /// This one.
    Segment(Segment),
    /// It holds some, but none may leave before this time.
    Wait(Nanos),
    /// It holds none.
    Empty,
}
