//! The NIC's choice of the next transmit queue.
//!
//! To add a scheduler, write a file with a type that implements [`NicScheduler`], and a line in [`build`].

pub mod dcb;
pub mod deficit;
pub mod policy;
mod ring;
pub mod round_robin;
mod surplus;

use crate::scenario::SchedulerKind;
use weft_units::{Bytes, Nanos, TxQueueId};

pub use dcb::{BetweenClasses, Dcb};
pub use deficit::Deficit;
pub use policy::{PolicyExchangeError, PolicyQueueError, PolicyScheduler};
pub use round_robin::RoundRobin;

/// Returns the scheduler of a kind for queues below `queues`, all idle and of weight 1; queues beyond are ignored. `None` for
/// [`SchedulerKind::PolicyTree`], which needs a policy: see [`PolicyScheduler`].
pub fn build(kind: &SchedulerKind, queues: u32) -> Option<Box<dyn NicScheduler>> {
    match *kind {
        SchedulerKind::RoundRobin => Some(Box::new(RoundRobin::new(queues))),
        SchedulerKind::Deficit { quantum } => Some(Box::new(Deficit::new(queues, quantum))),
        SchedulerKind::Dcb { classes, strict } => {
            let between = if strict { BetweenClasses::Strict } else { BetweenClasses::Shared };
            Some(Box::new(Dcb::new(queues, classes, between)))
        }
        SchedulerKind::PolicyTree => None,
    }
}

/// A scheduler's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pick {
    /// This queue sends one packet (with TSO interleaving) or one segment; the turn ends with [`NicScheduler::finish`].
    Queue(TxQueueId),
    /// Rate limits hold back all backlogged queues until this time.
    Wait(Nanos),
    /// No queue is backlogged.
    Idle,
}

/// The state of a queue after its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AfterTurn {
    /// It has more segments.
    Backlogged,
    /// It is empty.
    Empty,
}

impl AfterTurn {
    /// Returns the state of a queue that still holds `segments` segments.
    pub const fn holding(segments: usize) -> Self {
        if segments > 0 { Self::Backlogged } else { Self::Empty }
    }
}

/// The scheduler inside the NIC. It sees which queues are active, not their content. One turn is outstanding at a time, and is
/// charged at its end.
pub trait NicScheduler: Send {
    /// Adds an empty queue that became backlogged. Never called for an active queue, nor for the queue of the outstanding turn.
    fn activate(&mut self, queue: TxQueueId, now: Nanos);

    /// Returns the queue of the next turn.
    fn next(&mut self, now: Nanos) -> Pick;

    /// Ends the turn: `sent` bytes left, and the queue is backlogged or empty.
    fn finish(&mut self, queue: TxQueueId, sent: Bytes, after: AfterTurn, now: Nanos);

    /// Sets a queue's weight (`ndo_set_tx_weight` of Titan); no effect if the NIC has no weights.
    fn set_weight(&mut self, queue: TxQueueId, weight: u32);

    /// Returns the scheduler as a policy tree, whose policy can be exchanged; `None` for every other one.
    fn as_policy(&mut self) -> Option<&mut PolicyScheduler> {
        None
    }
}
