//! The scheduler of a multiqueue NIC: two levels of round robin, over hardware queues and over the flows of each queue.
//!
//! # Between the queues
//! * [`Service::RoundRobin`]: each backlogged queue has one turn per round, whatever the turn's size. This is the
//!   multiqueue NIC of Titan (Stephens et al., ATC 2017) and of Loom's evaluation (NSDI 2019, section 6).
//! * [`Service::Deficit`]: weighted deficit round robin. A visit gives the queue of the largest weight `credit` bytes,
//!   and the other queues credit in proportion to their weights (weight 0 counts as 1). A queue sends while it has
//!   credit. Its last packet may overdraw the credit, and later rounds repay the debt: surplus round robin, as
//!   `sfq_dequeue` of net/sched/sch_sfq.c. Only the ratios of the weights matter. Of `n` queues with packets of at most
//!   `L` bytes, a backlogged queue with the share `s` of the weights waits for at most `L / s + n x (2 x credit + L)`
//!   bytes.
//!
//! # Inside a queue
//! * [`Inner::Fifo`]: one flow.
//! * [`Inner::Fair`]: stochastic fair queueing: the flows of a queue are visited as in `sfq_dequeue`, each visit worth
//!   [`FAIR_QUANTUM`]. The caller defines the flows; in the software NIC they are descriptor rings.
//!
//! # A turn
//! 1. [`QueueScheduler::next`] advances the round robin of the queues, then that of the chosen queue's flows.
//! 2. The caller sends one packet, or one chunk of it.
//! 3. [`QueueScheduler::finish`] charges both levels. An idle flow leaves its queue, and an empty queue leaves the
//!    round.
//!
//! # Differences from sch_sfq
//! Members keep their positions in the round, as hardware queues do; sch_sfq appends an active flow to a list. A member
//! that becomes idle keeps its *debt*, which the rounds without it repay. Otherwise a queue with one super-packet at a
//! time, as under TCP small queues, could send 64 KB in each round. Credit is never kept.
//!
//! # Cost and invariants
//! A turn costs at most one visit of each queue and one of each flow in the chosen queue. Rounds in which no member has
//! credit are computed, not executed. A queue is active exactly while one of its flows is. No branch drops or refuses a
//! packet, so none has a counter: stale turns and unknown queues are returned as errors.

mod deficit_round_robin;
mod updates;

pub use updates::{Staleness, Update, WeightUpdates};

use crate::tree::StaleTurn;
use deficit_round_robin::DeficitRoundRobin;
use thiserror::Error;
use weft_units::{Bytes, FlowId, TxQueueId};

/// The credit per round of the queue with the largest weight. Titan's patch of ixgbe sets weight times `WrrCreditMult`
/// (4 in its scripts) times half an MTU, in the 64-byte units of the 82599's credit registers: 4 x 12 x 64.
pub const DEFAULT_CREDIT: Bytes = Bytes(4 * 12 * 64);

/// The credit per visit of a flow in a fair queue: `psched_mtu` of an Ethernet device, the default quantum of sch_sfq.c
/// (1500 bytes and the Ethernet header).
pub const FAIR_QUANTUM: Bytes = Bytes(1514);

/// The service order of the queues.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Service {
    /// Each queue has one turn per round.
    RoundRobin,
    /// Queues share by bytes and weights.
    Deficit {
        /// Bytes that a visit gives the queue of the largest weight; at least one byte.
        credit: Bytes,
    },
}

/// The service order of the flows of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Inner {
    /// A queue has one flow.
    Fifo,
    /// The flows of a queue share it by bytes.
    Fair,
}

/// Errors from adding a flow or setting a weight.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum QueueError {
    /// The queue does not exist.
    #[error("queue {given} does not exist, the device has {count}; choose one of them")]
    UnknownQueue {
        /// The queue that was given.
        given: TxQueueId,
        /// The number of queues.
        count: usize,
    },
    /// The first-in first-out queue has its one flow already.
    #[error(
        "queue {given} is first in, first out and has its flow already; make the queues fair to add more"
    )]
    Occupied {
        /// The queue that was given.
        given: TxQueueId,
    },
}

/// The right of a flow to send one packet, or one chunk of it. Return it with [`QueueScheduler::finish`].
#[derive(PartialEq, Eq, Debug)]
#[must_use = "the queue is charged only when the turn is finished"]
pub struct Turn {
    queue: TxQueueId,
    flow: FlowId,
    serial: u64,
}

impl Turn {
    /// The queue whose turn it is.
    #[inline]
    pub fn queue(&self) -> TxQueueId {
        self.queue
    }

    /// The flow that sends.
    #[inline]
    pub fn flow(&self) -> FlowId {
        self.flow
    }
}

/// The queue and position of a flow.
#[derive(Clone, Copy, Debug)]
struct Place {
    queue: u32,
    /// The position in the queue's round robin.
    slot: u32,
}

/// A queue.
#[derive(Debug)]
struct Queue {
    wheel: DeficitRoundRobin,
    /// The flow at each position of the round robin.
    flows: Vec<FlowId>,
    weight: u64,
}

/// The scheduler. To it a flow is idle or backlogged; packets are stored elsewhere.
#[derive(Debug)]
pub struct QueueScheduler {
    service: Service,
    inner: Inner,
    outer: DeficitRoundRobin,
    queues: Vec<Queue>,
    flows: Vec<Place>,
    serial: u64,
    /// The flow of the outstanding turn.
    in_service: Option<FlowId>,
    /// Whether the flow in service was activated during its turn.
    posted: bool,
}

impl QueueScheduler {
    /// Builds a scheduler of `queues` queues without flows, all of weight 0, which counts as 1.
    pub fn new(queues: usize, service: Service, inner: Inner) -> Self {
        let mut outer = DeficitRoundRobin::new(credit(service));
        for _ in 0..queues {
            outer.add();
        }
        let queue =
            || Queue { wheel: DeficitRoundRobin::new(FAIR_QUANTUM.get()), flows: Vec::new(), weight: 0 };
        let queues = core::iter::repeat_with(queue).take(queues).collect();
        Self { service, inner, outer, queues, flows: Vec::new(), serial: 0, in_service: None, posted: false }
    }

    /// Adds an idle flow to a queue. The only method that allocates.
    ///
    /// # Errors
    /// When the queue does not exist, or is [`Inner::Fifo`] and has its flow.
    pub fn add_flow(&mut self, queue: TxQueueId) -> Result<FlowId, QueueError> {
        let (count, fifo) = (self.queues.len(), self.inner == Inner::Fifo);
        let home =
            self.queues.get_mut(queue.index()).ok_or(QueueError::UnknownQueue { given: queue, count })?;
        if fifo && !home.flows.is_empty() {
            return Err(QueueError::Occupied { given: queue });
        }
        let flow = FlowId::from_index(self.flows.len());
        let slot = home.wheel.add() as u32;
        home.flows.push(flow);
        self.flows.push(Place { queue: queue.0, slot });
        Ok(flow)
    }

    /// The number of queues.
    pub fn queues(&self) -> usize {
        self.queues.len()
    }

    /// The queue of a flow.
    pub fn queue_of(&self, flow: FlowId) -> Option<TxQueueId> {
        self.flows.get(flow.index()).map(|place| TxQueueId(place.queue))
    }

    /// The service order of the queues.
    pub fn service(&self) -> Service {
        self.service
    }

    /// Changes the service order of the queues. A change resets the credits and debts of the queues.
    pub fn set_service(&mut self, service: Service) {
        if service == self.service {
            return;
        }
        self.service = service;
        self.outer.restart(credit(service));
    }

    /// Sets the weight of a queue, with effect from its next visit; 0 counts as 1. Round robin ignores weights.
    ///
    /// # Errors
    /// When the queue does not exist.
    pub fn set_weight(&mut self, queue: TxQueueId, weight: u64) -> Result<(), QueueError> {
        let count = self.queues.len();
        let slot =
            self.queues.get_mut(queue.index()).ok_or(QueueError::UnknownQueue { given: queue, count })?;
        slot.weight = weight;
        self.outer.set_weight(queue.index(), weight);
        Ok(())
    }

    /// The weight of a queue as it was set.
    pub fn weight_of(&self, queue: TxQueueId) -> Option<u64> {
        self.queues.get(queue.index()).map(|q| q.weight)
    }

    /// Marks a flow as backlogged. Returns true when it was idle before, and false for an unknown flow. The flow in
    /// service then stays backlogged, whatever the caller of [`QueueScheduler::finish`] passes.
    pub fn activate(&mut self, flow: FlowId) -> bool {
        if self.in_service == Some(flow) {
            self.posted = true;
            return false;
        }
        let Some(&Place { queue, slot }) = self.flows.get(flow.index()) else { return false };
        let wheel = &mut self.queues[queue as usize].wheel;
        if wheel.is_active(slot as usize) {
            return false;
        }
        wheel.enter(slot as usize);
        self.outer.enter(queue as usize);
        true
    }

    /// Selects the flow whose turn it is; `None` when no flow is backlogged. An unfinished turn is abandoned: its flow
    /// stays backlogged and is charged nothing.
    #[expect(
        clippy::should_implement_trait,
        reason = "named as in the policy tree; a turn is to be finished"
    )]
    pub fn next(&mut self) -> Option<Turn> {
        self.in_service = None;
        if self.outer.is_empty() {
            return None;
        }
        let queue = match self.service {
            Service::RoundRobin => self.outer.advance(),
            Service::Deficit { .. } => self.outer.visit(),
        };
        let home = &mut self.queues[queue];
        let flow = home.flows[home.wheel.visit()];
        self.serial += 1;
        self.in_service = Some(flow);
        self.posted = false;
        Some(Turn { queue: TxQueueId::from_index(queue), flow, serial: self.serial })
    }

    /// Ends a turn: `sent` bytes have left. The flow has more to send if `backlogged`, or if it was activated during
    /// the turn.
    ///
    /// # Errors
    /// When the turn is not the outstanding one. Nothing is charged then.
    pub fn finish(&mut self, turn: Turn, sent: Bytes, backlogged: bool) -> Result<(), StaleTurn> {
        if turn.serial != self.serial || self.in_service != Some(turn.flow) {
            return Err(StaleTurn { flow: turn.flow });
        }
        self.in_service = None;
        let Place { queue, slot } = self.flows[turn.flow.index()];
        let (queue, slot) = (queue as usize, slot as usize);
        let wheel = &mut self.queues[queue].wheel;
        wheel.charge(slot, sent.get());
        if self.service != Service::RoundRobin {
            self.outer.charge(queue, sent.get());
        }
        if !backlogged && !self.posted {
            wheel.leave(slot);
            if wheel.is_empty() {
                self.outer.leave(queue);
            }
        }
        Ok(())
    }
}

/// The credit per visit of the queue with the largest weight.
fn credit(service: Service) -> u64 {
    match service {
        Service::RoundRobin => 1,
        Service::Deficit { credit } => credit.get(),
    }
}
