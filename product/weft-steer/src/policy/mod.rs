//! Policies: cost functions over the assignment of flows to queues.
//!
//! A policy is a cost function over a [`Tally`] (Dragonet, TRIOS'15: "policies expressed as cost functions"). Many policies also
//! have structure: classes with their own queues, and balance within them. A policy that returns its [`Layout`] is planned for in
//! time that hardly depends on the number of queues. Others are planned for by local search.
//!
//! To add a policy, implement [`Policy`] in a new file; `balance.rs` is the shortest example.

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
pub use reserved::Reserved;
pub use tally::{ClassId, Item, Tally};

use core::fmt;
use weft_units::RxQueueId;

/// The measure of a flow's load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Measure {
    /// Its weight; 1 by default, which counts flows.
    #[default]
    Weight,
    /// Its rate in bit/s. A flow with an unknown rate counts as 1 Mbit/s times its weight.
    Rate,
}

/// A cost function over assignments, with its optional structure.
pub trait Policy: fmt::Debug + Send + Sync {
    /// Returns the policy as the goal of a `steer` clause.
    fn name(&self) -> String;

    /// Returns the names of the classes that the policy distinguishes.
    fn classes(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Returns the cost of an assignment.
    fn cost(&self, tally: &Tally) -> Cost;

    /// Returns the measure of load.
    fn measure(&self) -> Measure {
        Measure::Weight
    }

    /// Checks that the queues can satisfy the policy.
    ///
    /// # Errors
    /// The mismatch and its remedy.
    fn check(&self, queues: &[RxQueueId]) -> Result<(), QueuesError> {
        let _ = queues;
        Ok(())
    }

    /// Returns the queues that each class should have, if the policy has this structure. It may depend on the number of flows of
    /// each class, but not on their queues.
    fn layout(&self, tally: &Tally) -> Option<Layout> {
        let _ = tally;
        None
    }

    /// Returns a number that changes with [`Policy::layout`], in time that is independent of queues and flows.
    fn layout_key(&self, tally: &Tally) -> u64 {
        let _ = tally;
        0
    }

    /// Whether the layout is the whole policy: the cost is [`Layout::cost`]. Otherwise a local search follows.
    fn layout_is_all(&self) -> bool {
        true
    }
}
