//! What moves through the sending host's stages: segments (skbs), as queues and schedulers see them.

use weft_units::{Bytes, Nanos};

/// Index of a flow in a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowIndex(pub u32);

impl FlowIndex {
    /// As an index into tables of flows.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Index of a segment in the run's pool; reused once the segment has been freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SkbId(pub u32);

/// A segment, as large as TSO lets it be, as qdiscs, byte queue limits and NIC schedulers see it. A copy is 24 bytes; the rest of
/// what is known about it lies in the run's pool under `skb`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Its entry in the pool.
    pub skb: SkbId,
    /// Its flow.
    pub flow: FlowIndex,
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

/// How much a stage holds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Backlog {
    /// Segments.
    pub segments: u32,
    /// Their bytes, as [`Segment::len`] counts them.
    pub bytes: Bytes,
}

/// What a stage that holds segments gives when asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dequeued {
    /// This one.
    Segment(Segment),
    /// It holds some, but none may leave before this time.
    Wait(Nanos),
    /// It holds none.
    Empty,
}
