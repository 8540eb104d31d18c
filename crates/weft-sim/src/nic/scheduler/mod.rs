//! How the NIC chooses the transmit queue that sends next.
//!
//! A new one is a file with one type that implements [`NicScheduler`], and a line in [`build`].

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
pub use policy::{PolicyScheduler, QueueError};
pub use round_robin::RoundRobin;

/// The scheduler of that kind for queues below `queues`, all idle and of weight 1; queues beyond are ignored. None for
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

/// Whose turn it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pick {
    /// This queue sends one packet (with TSO interleaving) or one segment, and is handed back with [`NicScheduler::finish`].
    Queue(TxQueueId),
    /// All that waits is rate-limited; ask again at this time.
    Wait(Nanos),
    /// No queue has anything.
    Idle,
}

/// A queue after its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum After {
    /// It has more.
    Backlogged,
    /// It is empty.
    Empty,
}

impl After {
    /// The state of a queue that still holds so many segments.
    pub const fn holding(segments: usize) -> Self {
        if segments > 0 { Self::Backlogged } else { Self::Empty }
    }
}

/// The scheduler inside the NIC. It knows queues, not what they hold: one turn is outstanding at a time, charged when it ends.
pub trait NicScheduler: Send {
    /// A queue that was empty has something. Never called for a queue that has something already, nor for the one whose turn it is.
    fn activate(&mut self, queue: TxQueueId, now: Nanos);

    /// Whose turn it is.
    fn next(&mut self, now: Nanos) -> Pick;

    /// The turn is over: `sent` bytes left, and the queue has more or is empty.
    fn finish(&mut self, queue: TxQueueId, sent: Bytes, after: After, now: Nanos);

    /// Sets a queue's weight (`ndo_set_tx_weight` of Titan); without effect where the NIC has no weights.
    fn set_weight(&mut self, queue: TxQueueId, weight: u32);
}
