//! The events of a run, and the agenda on which parts of hosts and network put what is to happen to them later.

use crate::event_queue::EventQueue;
use crate::ids::{CoreId, HostId, PacketId, ProbeId, RxQueueId, StreamId, SwitchId};
use weft_units::TxQueueId;

/// What happens at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// A host's NIC takes the next packet from its rings.
    Transmit { host: HostId },
    /// A packet in the network's pool arrives at a switch.
    AtSwitch { switch: SwitchId, packet: PacketId },
    /// An interrupt of a queue pair.
    Interrupt { host: HostId, queue: RxQueueId },
    /// A processor takes up its next unit of work.
    Processor { host: HostId, core: CoreId },
    /// A flow begins.
    Start { stream: StreamId },
    /// A flow stops sending.
    Stop { stream: StreamId },
    /// A sender's retransmission timer.
    Timer { stream: StreamId },
    /// A receiver's delayed acknowledgement.
    DelayedAck { stream: StreamId },
    /// An application wakes by itself: the next datagram, request or transfer.
    Application { stream: StreamId },
    /// A rate limit of a queue's qdisc lets something through.
    Qdisc { host: HostId, queue: TxQueueId },
    /// A probe sends.
    Probe { probe: ProbeId },
    /// Queue weights reach a host's NIC.
    Weights { host: HostId },
    /// The measured part begins.
    Measure,
    /// A window of unfairness ends.
    Fairness { index: u32 },
    /// A window of samples ends.
    Sample,
}

/// Future events. Parts of a host only put events on it; the world takes them off.
pub(crate) type Agenda = EventQueue<Event>;
