//! The choice of a stream's transmit queue, and the occupancy of each queue.

use crate::assignment::{FlowFacts, Occupancy, QueueAssignment};
use crate::host::socket::{Socket, Stream};
use crate::ids::{StreamId, Table};
use weft_units::TxQueueId;

/// The transmit queues that streams may use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Pools {
    /// Each stream has its own queue, of the same number.
    PerStream,
    /// The queues that a core may use: by traffic class and core if the NIC has several classes, then by core for streams without
    /// a class.
    ByCore {
        /// Number of cores of the host.
        cores: u32,
        /// The queues, by class and core.
        queues: Vec<Vec<TxQueueId>>,
    },
}

impl Pools {
    #[inline]
    fn of(&self, facts: &Stream) -> &[TxQueueId] {
        let Self::ByCore { cores, queues } = self else { return &[] };
        let cores = *cores as usize;
        let any = queues.len() / cores - 1;
        let class = facts.traffic_class.map_or(any, |class| (class as usize).min(any));
        &queues[class * cores + facts.core.index()]
    }
}

/// A stream's queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Chosen {
    /// The previous queue.
    Kept(TxQueueId),
    /// A newly chosen queue; `Dynamically` if the assignment examined the queues, which costs time.
    Once(TxQueueId),
    Dynamically(TxQueueId),
}

impl Chosen {
    #[inline]
    pub(super) const fn queue(self) -> TxQueueId {
        match self {
            Self::Kept(queue) | Self::Once(queue) | Self::Dynamically(queue) => queue,
        }
    }
}

/// The queue assignment of a host, and its input.
pub(super) struct QueueChoice {
    assignment: Box<dyn QueueAssignment>,
    pools: Pools,
    pub(super) occupancy: Table<TxQueueId, Occupancy>,
    /// Number of queues used by more than one stream, for dynamic segment sizing.
    shared_queues: u32,
}

impl QueueChoice {
    pub(super) fn new(queues: u32, assignment: Box<dyn QueueAssignment>, pools: Pools) -> Self {
        let occupancy = Table::of(Occupancy::default(), queues as usize);
        Self { assignment, pools, occupancy, shared_queues: 0 }
    }

    #[inline]
    pub(super) const fn some_queue_is_shared(&self) -> bool {
        self.shared_queues > 0
    }

    /// Returns the queue for a stream's next segment.
    #[inline]
    pub(super) fn choose(&mut self, stream: StreamId, facts: &Stream, socket: &Socket) -> Chosen {
        if let Some(queue) = socket.queue
            && (socket.outstanding > 0 || !self.assignment.is_dynamic())
        {
            return Chosen::Kept(queue);
        }
        let flow = FlowFacts {
            flow: stream,
            hash: facts.hash,
            weight: facts.weight,
            before: socket.queue,
            core: facts.core,
        };
        let queue = match &self.pools {
            Pools::PerStream => TxQueueId(stream.0),
            pools => self.assignment.assign(&flow, pools.of(facts), self.occupancy.as_slice()),
        };
        if self.assignment.is_dynamic() { Chosen::Dynamically(queue) } else { Chosen::Once(queue) }
    }

    /// Counts a stream whose first segment enters a queue.
    #[inline]
    pub(super) fn enters(&mut self, queue: TxQueueId, weight: u32) {
        let occupancy = &mut self.occupancy[queue];
        occupancy.flows += 1;
        occupancy.weight += u64::from(weight);
        self.shared_queues += u32::from(occupancy.flows == 2);
    }

    /// Counts a stream whose last segment left a queue.
    #[inline]
    pub(super) fn leaves(&mut self, queue: TxQueueId, weight: u32) {
        let occupancy = &mut self.occupancy[queue];
        self.shared_queues -= u32::from(occupancy.flows == 2);
        occupancy.flows -= 1;
        occupancy.weight -= u64::from(weight);
    }
}
