//! The change from one policy to another while traffic flows.
//!
//! Two compilations of similar texts number their classes, lanes, leaves, nodes and limits differently. [`renumber`] gives
//! the new policy the numbers of the old one wherever both mean the same thing, so that the engine and the datapath keep
//! their records of it:
//!
//! 1. `ids`: classes, leaves, nodes and limits are the same if their names are; a node or leaf whose discipline changes is
//!    the same and is ordered anew. Unnamed nodes are named by their place in a definition. A lane is the same if its
//!    class, its leaf and its limits are. The number of what is gone is *vacant* in the new policy, and is given to something new by
//!    a later change, never by the same one.
//! 2. `heirs`: each lane that is gone hands its waiting packets to the lane that its traffic now reaches.
//! 3. `steps`: the differences in the policy's words, in the order in which they take place.
//! 4. `warnings`: effects that the author may not have meant.
//!
//! `numbers` keeps the numbers for a process that continues with the policy.
//!
//! These rules hold:
//!
//! - A policy that did not change has no steps, no heirs and equal numbers.
//! - The new policy classifies and schedules as it did before it was renumbered.
//! - The tables never grow beyond the largest number of things that two successive policies had together.
//!
//! No branch here refuses anything, so none has a counter.

mod heirs;
mod ids;
mod numbers;
mod steps;
mod warnings;

pub use heirs::successor_at;
pub use numbers::Numbers;
pub use steps::{Phase, Step};
pub use warnings::Warning;
pub use weft_facts::policy_diff::PolicyKept;

use crate::compiled::CompiledPolicy;
use std::collections::BTreeSet;
use weft_units::{ClassId, LaneId};

/// A policy with the numbers of the one before it, and what the change means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Renumbered {
    /// The new policy.
    pub policy: CompiledPolicy,
    /// The things that both policies have.
    pub kept: PolicyKept,
    /// The differences, in the order in which they take place.
    pub steps: Vec<Step>,
    /// Effects that the author may not have meant.
    pub warnings: Vec<Warning>,
    /// Each lane that is gone, and the lane of the new policy that takes over its packets.
    pub heirs: Vec<(LaneId, LaneId)>,
}

/// Vacant numbers that nothing new may have yet, because packets of what had them before may be on their way.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Resting {
    /// Classes.
    pub classes: BTreeSet<ClassId>,
    /// Lanes.
    pub lanes: BTreeSet<LaneId>,
}

/// Gives `new` the numbers of `old`, the policy in force.
pub fn renumber(old: &CompiledPolicy, new: CompiledPolicy) -> Renumbered {
    renumber_around(old, new, &Resting::default())
}

/// Gives `new` the numbers of `old`, the policy in force, and none of `resting` to anything new.
pub fn renumber_around(old: &CompiledPolicy, new: CompiledPolicy, resting: &Resting) -> Renumbered {
    let policy = ids::renumber(old, new, resting);
    let heirs = heirs::heirs(old, &policy);
    let steps = steps::steps(old, &policy, &heirs);
    let warnings = warnings::warnings(old, &policy);
    let kept = steps::kept(old, &policy);
    Renumbered { policy, kept, steps, warnings, heirs }
}
