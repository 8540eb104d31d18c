//! State of a host: processors, transmit queues, NIC, queue pairs.

use super::Packet;
use crate::assignment::{Occupancy, QueueAssignment};
use crate::byte_queue_limit::ByteQueue;
use crate::cost::Costs;
use crate::ids::{CoreId, ProbeId, RxQueueId, StreamId, Table};
use crate::link_transmitter::LinkTransmitter;
use crate::nic::scheduler::NicScheduler;
use crate::outcome::Amount;
use crate::qdisc::Qdisc;
use crate::segment::Segment;
use std::collections::VecDeque;
use weft_units::{Bytes, Nanos, Packets, QueueId};

/// A host.
pub(super) struct HostState {
    pub(super) cores: Table<CoreId, Core>,
    pub(super) queues: Table<QueueId, TransmitQueue>,
    /// By queue; what queue assignment looks at.
    pub(super) occupancy: Table<QueueId, Occupancy>,
    /// Queues that more than one flow uses (dynamic segment sizing looks at this).
    pub(super) shared_queues: u32,
    /// By queue: whether its weight must be written to the NIC.
    pub(super) stale_weights: Table<QueueId, bool>,
    pub(super) stale: Vec<QueueId>,
    pub(super) weights_due: bool,
    pub(super) weights_written: Nanos,
    pub(super) assignment: Box<dyn QueueAssignment>,
    /// The queues that a core may use: by traffic class and core where the NIC has several, then by core for flows of no class.
    pub(super) pools: Vec<Vec<QueueId>>,
    pub(super) nic: NicState,
    pub(super) vectors: Table<RxQueueId, Vector>,
    /// Flows with data that are active at this host; widens the working set of copies.
    pub(super) active_flows: u32,
    /// Books of the stations.
    pub(super) qdisc_books: Books,
    pub(super) ring_books: Books,
    pub(super) receive_books: Books,
}

/// What the stations count as things pass; what they hold is walked at the end.
#[derive(Clone, Copy, Default)]
pub(super) struct Books {
    pub(super) entered: Amount,
    pub(super) left: Amount,
    pub(super) dropped: Amount,
}

/// Adds packets and bytes.
pub(super) fn count(amount: &mut Amount, packets: u64, bytes: u64) {
    amount.packets += Packets(packets);
    amount.bytes += Bytes(bytes);
}

/// A transmit queue: qdisc, byte queue limit, descriptor ring.
pub(super) struct TransmitQueue {
    pub(super) qdisc: Box<dyn Qdisc>,
    pub(super) limit: ByteQueue,
    pub(super) ring: VecDeque<Segment>,
    /// The NIC knows that the ring holds something.
    pub(super) active: bool,
    /// The core that held the queue's lock last.
    pub(super) last_core: Option<CoreId>,
    /// When its holder gives the lock back.
    pub(super) unlocked: Nanos,
    /// Until when, and on which core, its qdisc is run; and whether that core is to run it again.
    pub(super) running: Nanos,
    pub(super) runner: CoreId,
    pub(super) rerun: bool,
    /// When the qdisc will be run again because of a rate limit.
    pub(super) retry: Nanos,
    /// Flow of the segment handed over last, for counting doorbells.
    pub(super) last_flow: Option<StreamId>,
}

/// The NIC's transmit side.
pub(super) struct NicState {
    pub(super) scheduler: Box<dyn NicScheduler>,
    pub(super) wire: LinkTransmitter,
    /// A [`super::Event::Transmit`] is pending.
    pub(super) pending: bool,
    /// No packet may be fetched before.
    pub(super) next_fetch: Nanos,
    /// How far the fetching runs ahead of the wire: the on-chip buffer, as a time.
    pub(super) ahead: Nanos,
    /// A queue per flow: queues are made when streams first send.
    pub(super) queue_per_flow: bool,
}

/// A queue pair's interrupt, its completions, and its receive ring.
pub(super) struct Vector {
    /// Where its interrupts go, if they are pinned.
    pub(super) core: CoreId,
    /// NAPI polls; interrupts are off.
    pub(super) polling: bool,
    /// The pending interrupt; [`Nanos::MAX`] without one.
    pub(super) due: Nanos,
    /// The last one; none yet is long ago.
    pub(super) last: Option<Nanos>,
    /// Segments that the NIC has fetched and nobody has freed yet.
    pub(super) done: Vec<(QueueId, Segment)>,
    /// Received packets and those still under way, by time of arrival.
    pub(super) ring: VecDeque<(Nanos, Packet)>,
    /// Packets at the ring's front that have arrived and found room.
    pub(super) accepted: u32,
}

/// A processor.
#[derive(Default)]
pub(super) struct Core {
    /// Busy until then.
    pub(super) free: Nanos,
    /// A [`super::Event::Processor`] is pending.
    pub(super) pending: bool,
    /// Transmit queues whose byte queue limit has room again (`NET_TX_SOFTIRQ`, raised by `netdev_tx_completed_queue`).
    pub(super) net_tx: VecDeque<QueueId>,
    /// Queue pairs to poll.
    pub(super) polls: VecDeque<RxQueueId>,
    /// Streams in the TSQ tasklet.
    pub(super) tasklet: VecDeque<StreamId>,
    /// Threads that are ready.
    pub(super) ready: VecDeque<Task>,
    /// When softirqs last left the processor to a thread.
    pub(super) thread_ran: Nanos,
    /// Units of each operation done in the measured part.
    pub(super) done: [f64; 17],
    /// Time by category beside that of operations, nanoseconds, in the measured part.
    pub(super) extra: [f64; 8],
}

impl Core {
    /// Work by category, nanoseconds, in the measured part.
    pub(super) fn work(&self, costs: &Costs) -> [f64; 8] {
        let mut work = self.extra;
        for (row, units) in costs.table.iter().zip(self.done) {
            for (sum, cost) in work.iter_mut().zip(row) {
                *sum += cost * units;
            }
        }
        work
    }

    pub(super) fn has_work(&self) -> bool {
        !(self.net_tx.is_empty() && self.polls.is_empty() && self.tasklet.is_empty() && self.ready.is_empty())
    }
}

/// What a thread does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Task {
    /// Writes what its stream's application has.
    Write { stream: StreamId },
    /// Reads what has come for its stream.
    Read { stream: StreamId },
    /// Sends a datagram.
    Datagram { stream: StreamId },
    /// Sends or answers a probe's message.
    Probe { probe: ProbeId, reply: bool, asked: Nanos },
    /// Takes a probe's answer.
    ProbeDone { probe: ProbeId, asked: Nanos },
}
