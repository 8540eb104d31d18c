//! Traces: the events of each segment and packet, for observers of a run.

pub mod csv;
pub mod departures;
pub mod events;
pub mod pcap;
pub mod perfetto;

pub use self::csv::CsvTrace;
pub use self::departures::DepartureTrace;
pub use self::events::EventTable;
pub use self::pcap::{CapturePoint, Ends, PcapTrace, PcapTraceError};
pub use self::perfetto::PerfettoTrace;

use crate::ids::{GroupId, HostId, StreamId};
use weft_units::{Bytes, Nanos, TxQueueId};

/// The kind of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketEventKind {
    /// A segment entered a queueing discipline.
    Queued,
    /// A segment left its queueing discipline for the ring of its queue, whole or as the packets into which the stack cut it.
    Posted,
    /// The NIC fetched a packet from its ring.
    Fetched,
    /// The last bit of a packet left the sending host.
    Sent,
    /// A segment or packet was dropped: by a qdisc of its sender, by its policy in the sender's NIC, on a link (at its sender), at a
    /// full switch port or at a full receive ring (both at its receiver).
    Dropped,
    /// The driver freed a segment that was sent: its socket is not charged for it any more.
    Freed,
    /// A packet arrived at the receiving host.
    Delivered,
}

impl PacketEventKind {
    /// Returns its name in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Posted => "posted",
            Self::Fetched => "fetched",
            Self::Sent => "sent",
            Self::Dropped => "dropped",
            Self::Freed => "freed",
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
    /// Number of the packet in its flow, from 0; of a segment, that of its first packet. For acknowledgements, the next packet that
    /// they expect, or 0 when freed.
    pub number: u64,
    /// Length. For a packet its frame without preamble, check sequence and gap; for a segment its length in the qdisc's
    /// accounting.
    pub len: Bytes,
    /// Whether it is marked with congestion experienced.
    pub marked: bool,
    /// The creation of its segment. Segments of a flow may have the same.
    pub created: Nanos,
    /// Of a packet that was sent, the time of its first bit; otherwise the event's time.
    pub begin: Nanos,
    /// The number of packets: of a segment, those on the wire; otherwise 1.
    pub packets: u32,
    /// Whether a packet that was sent is the last one of its segment.
    pub last: bool,
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
