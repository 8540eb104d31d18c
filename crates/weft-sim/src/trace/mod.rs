//! Traces: what happens to each segment and packet, for those who want to look at a run event by event.

pub mod csv;
pub mod pcap;

pub use self::csv::CsvTrace;
pub use self::pcap::{Ends, PcapTrace, PcapTraceError, Point};

use crate::ids::{GroupId, HostId, StreamId};
use weft_units::{Bytes, Nanos, TxQueueId};

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketEventKind {
    /// A segment entered a queueing discipline.
    Queued,
    /// The NIC fetched it from its ring.
    Fetched,
    /// The last bit of a packet left the sending host.
    Sent,
    /// A segment or packet was dropped.
    Dropped,
    /// A packet arrived at the receiving host.
    Delivered,
}

impl PacketEventKind {
    /// Its name in traces.
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
    /// When, since the start of the run.
    pub at: Nanos,
    /// Index of the host where it happened.
    pub host: HostId,
    /// What happened.
    pub kind: PacketEventKind,
    /// The stream, which a trace calls a flow.
    pub flow: StreamId,
    /// The flow's group; none for acknowledgements and probes, which belong to no flow.
    pub group: Option<GroupId>,
    /// The transmit or receive queue, where there is one.
    pub queue: Option<TxQueueId>,
    /// Number of the packet in its flow, from 0; of a segment, that of its first packet.
    pub number: u64,
    /// Length: of a packet its frame without preamble, check sequence and gap; of a segment as the qdisc accounts it.
    pub len: Bytes,
    /// Whether it carries congestion experienced.
    pub marked: bool,
}

/// Is told of every event of a run. Departures are told when they are known, a little ahead of time; sort by time where it matters.
pub trait Observer {
    /// Whether it wants to be told at all; without, a run does not even put the events together.
    const WANTED: bool = true;

    /// An event.
    fn packet(&mut self, event: &PacketEvent);
}

/// Looks at nothing; what is generic over it costs nothing.
#[derive(Clone, Copy, Default, Debug)]
pub struct NoObserver;

impl Observer for NoObserver {
    const WANTED: bool = false;

    #[inline(always)]
    fn packet(&mut self, _: &PacketEvent) {}
}
