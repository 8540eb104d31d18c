//! The events of a run, and the agenda of future events of hosts and network.

use crate::event_queue::EventQueue;
use crate::ids::{CoreId, HostId, PacketId, ProbeId, StreamId, SwitchId};
use weft_units::{RxQueueId, TxQueueId};

/// An event of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// A host's NIC fetches the next packet from its rings.
    Transmit { host: HostId },
    /// A packet in the network's pool arrives at a switch.
    AtSwitch { switch: SwitchId, packet: PacketId },
    /// An interrupt of a queue pair fires.
    Interrupt { host: HostId, queue: RxQueueId },
    /// A processor starts its next unit of work.
    Processor { host: HostId, core: CoreId },
    /// A flow begins.
    Start { stream: StreamId },
    /// A flow stops sending.
    Stop { stream: StreamId },
    /// A sender's retransmission timer expires.
    Timer { stream: StreamId },
    /// A receiver's delayed acknowledgement is due.
    DelayedAck { stream: StreamId },
    /// An application's own timer expires: the next datagram, request or transfer.
    Application { stream: StreamId },
    /// The rate limit of a queue's qdisc permits its next segment.
    Qdisc { host: HostId, queue: TxQueueId },
    /// A probe sends a message.
    Probe { probe: ProbeId },
    /// Queue weights reach a host's NIC.
    Weights { host: HostId },
    /// The policy of a host's NIC changes.
    Policy { host: HostId },
    /// The measured part begins.
    Measure,
    /// A window of unfairness ends.
    Fairness { index: u32 },
    /// A window of samples ends.
    Sample,
}

/// Future events. Parts of a host only add events; the world removes them.
pub(crate) type Agenda = EventQueue<Event>;
