//! Traces: the events of each segment and packet, for observers of a run.

pub mod csv;
pub mod pcap;

pub use self::csv::CsvTrace;
pub use self::pcap::{Ends, PcapTrace, PcapTraceError, Point};

use crate::ids::{GroupId, HostId, StreamId};
use weft_units::{Bytes, Nanos, TxQueueId};

/// The kind of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketEventKind {
    /// A segment entered a queueing discipline.
    Queued,
    /// The NIC fetched it from its ring.
    Fetched,
    /// The last bit of a packet left the sending host.
    Sent,
    /// A segment or packet was dropped: by a qdisc of its sender, on a link (at its sender), at a full switch port or at a full
    /// receive ring (both at its receiver).
    Dropped,
    /// A packet arrived at the receiving host.
    Delivered,
}

impl PacketEventKind {
    /// Returns its name in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Fetched => "fetched",
            Self::Sent => "sent",
            Self::Dropped => "dropped",
            Self::Delivered => "delivered",
        }
    }
}

/// An event of a segment or a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketEvent {
    /// Time since the start of the run.
    pub at: Nanos,
    /// Index of the event's host.
    pub host: HostId,
    /// The kind of event.
    pub kind: PacketEventKind,
    /// The stream, which a trace calls a flow.
    pub flow: StreamId,
    /// The flow's group; `None` for acknowledgements and probes, which belong to no flow.
    pub group: Option<GroupId>,
    /// The transmit or receive queue, if any.
    pub queue: Option<TxQueueId>,
    /// Number of the packet in its flow, from 0; of a segment, that of its first packet.
    pub number: u64,
    /// Length. For a packet its frame without preamble, check sequence and gap; for a segment its length in the qdisc's
    /// accounting.
    pub len: Bytes,
    /// Whether it is marked with congestion experienced.
    pub marked: bool,
}

/// A receiver of every event of a run. Departures are reported when they are known, slightly ahead of time, and drops at a full
/// receive ring at the next poll; sort by time if the order matters.
pub trait Observer {
    /// Whether events are reported; if not, a run does not build them.
    const WANTED: bool = true;

    /// Receives an event.
    fn packet(&mut self, event: &PacketEvent);
}

/// The observer that ignores all events; code that is generic over it has no overhead.
#[derive(Clone, Copy, Default, Debug)]
pub struct NoObserver;

impl Observer for NoObserver {
    const WANTED: bool = false;

    #[inline(always)]
    fn packet(&mut self, _: &PacketEvent) {}
}
