//! The scheduler of a multiqueue NIC: hardware queues that take turns, and what takes turns inside each of them.
//!
//! # Between the queues
//! * [`Service::RoundRobin`]: each backlogged queue has one turn per round, whatever the turn's size: the multiqueue NIC of
//!   Titan (Stephens et al., ATC 2017) and of Loom's evaluation (NSDI 2019, section 6).
//! * [`Service::Deficit`]: weighted deficit round robin. Each visit gives the queue of the largest weight `credit` bytes, and each
//!   other one so much less as its weight is less (weight 0 counts as 1); a queue sends as long as it has credit. It may
//!   overdraw with its last packet and pays that back in later rounds: surplus round robin, as `sfq_dequeue` of
//!   net/sched/sch_sfq.c does. So only the ratios of weights matter, and of `n` queues a backlogged one whose share of the
//!   weights is `s` waits, with packets of at most `L` bytes, for no more than `L / s + n x (2 x credit + L)` bytes.
//!
//! # Inside a queue
//! * [`Inner::Fifo`]: one flow.
//! * [`Inner::Fair`]: stochastic fair queueing: the flows of a queue have the visits of `sfq_dequeue`, each worth
//!   [`FAIR_QUANTUM`]. Flows are what the caller makes of them; in the software NIC they are descriptor rings.
//!
//! # Where it differs from sch_sfq
//! Members keep their place in the round, as the queues of hardware do, and are not put at the end of a list; and a member
//! that becomes idle keeps its *debt*, which the rounds pay off that pass without it. A queue that holds one super-packet
//! at a time, as TCP small queues makes it, could otherwise send 64 KB in each round. Credit is never kept.
//!
//! A turn costs at most one look at each queue, and one at each flow of the chosen queue: rounds in which nobody may send
//! are computed, not run.

mod deficit_round_robin;
mod updates;

pub use updates::{Staleness, Update, WeightUpdates};

use crate::tree::StaleTurn;
use deficit_round_robin::DeficitRoundRobin;
use thiserror::Error;
use weft_units::{Bytes, FlowId, TxQueueId};

/// The credit of a round and of the largest weight: Titan's patch of ixgbe gives weight times `WrrCreditMult` (4 in its scripts) times
/// half an MTU, in the 64-byte units of the 82599's credit registers: 4 x 12 x 64.
pub const DEFAULT_CREDIT: Bytes = Bytes(4 * 12 * 64);

/// What a visit of a flow is worth in a fair queue: `psched_mtu` of an Ethernet device, the default quantum of sch_sfq.c
/// (1500 bytes and the Ethernet header).
pub const FAIR_QUANTUM: Bytes = Bytes(1514);

/// How the queues are served.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Service {
    /// One turn each.
    RoundRobin,
    /// By bytes and weights.
    Deficit {
        /// Bytes that a visit gives the queue of the largest weight; at least one byte.
        credit: Bytes,
    },
}

/// How the flows of a queue are served.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Inner {
    /// A queue has one flow.
    Fifo,
    /// The flows of a queue share it by bytes.
    Fair,
}

/// Why a flow could not be added, or a weight not set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum QueueError {
    /// There is no such queue.
    #[error("queue {given} does not exist, the device has {count}; choose one of them")]
    UnknownQueue {
        /// The queue that was given.
        given: TxQueueId,
        /// How many there are.
        count: usize,
    },
    /// A first-in first-out queue has one flow.
    #[error(
        "queue {given} is first in, first out and has its flow already; make the queues fair to add more"
    )]
    Occupied {
        /// The queue that was given.
        given: TxQueueId,
    },
}

/// A flow's right to send one packet, or one piece of one. Hand it back with [`QueueScheduler::finish`].
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

    /// The flow of the queue that sends.
    #[inline]
    pub fn flow(&self) -> FlowId {
        self.flow
    }
}

/// Where a flow lies.
#[derive(Clone, Copy, Debug)]
struct Place {
    queue: u32,
    /// Its position in the queue's wheel.
    slot: u32,
}

/// A queue.
#[derive(Debug)]
struct Queue {
    wheel: DeficitRoundRobin,
    /// The flow at each position of the wheel.
    flows: Vec<FlowId>,
    weight: u64,
}

/// The scheduler. It knows flows as idle or backlogged; what they hold lies elsewhere.
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
    /// It was activated during its turn.
    posted: bool,
}

impl QueueScheduler {
    /// A scheduler of `queues` queues without flows, all of weight 0, which counts as 1.
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

    /// Adds an idle flow to a queue. May allocate; nothing else does.
    ///
    /// # Errors
    /// When there is no such queue, or it is [`Inner::Fifo`] and has its flow.
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

    /// How many queues there are.
    pub fn queues(&self) -> usize {
        self.queues.len()
    }

    /// The queue of a flow.
    pub fn queue_of(&self, flow: FlowId) -> Option<TxQueueId> {
        self.flows.get(flow.index()).map(|place| TxQueueId(place.queue))
    }

    /// How the queues are served.
    pub fn service(&self) -> Service {
        self.service
    }

    /// Changes how the queues are served. If that is a change, credits and debts of the queues begin at nothing.
    pub fn set_service(&mut self, service: Service) {
        if service == self.service {
            return;
        }
        self.service = service;
        self.outer.restart(credit(service));
    }

    /// Sets the weight of a queue, from its next visit on; 0 counts as 1. Round robin does not look at it.
    ///
    /// # Errors
    /// When there is no such queue.
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

    /// A flow has something to send. Returns whether it was idle; one that does not exist never is. The flow in service
    /// stays backlogged then, whatever [`QueueScheduler::finish`] is told.
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

    /// Whose turn it is; `None` when no flow is backlogged. A turn that was not finished is forgotten: its flow stays
    /// backlogged and was charged nothing.
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

    /// Ends a turn: `sent` bytes have left, and the flow has more if `backlogged` (or if it was activated meanwhile).
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

/// What a visit gives the queue of the largest weight.
fn credit(service: Service) -> u64 {
    match service {
        Service::RoundRobin => 1,
        Service::Deficit { credit } => credit.get(),
    }
}
