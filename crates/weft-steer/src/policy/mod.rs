//! Policies: what is wanted of the assignment of flows to queues.
//!
//! A policy is a cost function over a [`Tally`] (Dragonet, TRIOS'15: "policies expressed as cost functions"). Many also have
//! structure: classes that have queues of their own, and balance within them. A policy that tells its [`Layout`] is planned for in
//! time that hardly depends on the number of queues; one that does not is planned for by local search.
//!
//! To write one's own, implement [`Policy`] in a file of its own; `balance.rs` is the shortest example.

mod balance;
mod classes;
mod combined;
mod cost;
mod cursor;
mod expression;
mod isolate;
mod layout;
mod locality;
mod priority;
mod queues_error;
mod read;
mod reserved;
mod tally;

pub use balance::Balance;
pub use classes::{Classes, PolicyFile};
pub use combined::Combined;
pub use cost::Cost;
pub use expression::Expression;
pub use isolate::Isolate;
pub use layout::Layout;
pub use locality::Locality;
pub use priority::Priority;
pub use queues_error::QueuesError;
pub use read::{fuzz_steering_policy, read};
pub use reserved::Reserved;
pub use tally::{ClassId, Item, Tally};

use core::fmt;
use weft_units::RxQueueId;

/// What a flow counts as.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Measure {
    /// Its weight; 1 where nothing is said, so that flows are counted.
    #[default]
    Weight,
    /// Its rate in bit/s. A flow whose rate is not known counts as 1 Mbit/s times its weight.
    Rate,
}

/// What is wanted.
pub trait Policy: fmt::Debug + Send + Sync {
    /// The policy as it is written on a command line.
    fn name(&self) -> String;

    /// How bad an assignment is.
    fn cost(&self, tally: &Tally) -> Cost;

    /// What loads are made of.
    fn measure(&self) -> Measure {
        Measure::Weight
    }

    /// Whether the policy can be followed on these queues.
    ///
    /// # Errors
    /// What does not fit, and what to do about it.
    fn check(&self, queues: &[RxQueueId]) -> Result<(), QueuesError> {
        let _ = queues;
        Ok(())
    }

    /// The queues that each class should have, if the policy has such a structure. It may depend on how many flows the classes have,
    /// not on where they are.
    fn layout(&self, tally: &Tally) -> Option<Layout> {
        let _ = tally;
        None
    }

    /// A number that changes when [`Policy::layout`] does; found in time that does not depend on queues or flows.
    fn layout_key(&self, tally: &Tally) -> u64 {
        let _ = tally;
        0
    }

    /// Whether the layout says all: the cost is [`Layout::cost`]. Otherwise a local search follows.
    fn layout_is_all(&self) -> bool {
        true
    }
}
