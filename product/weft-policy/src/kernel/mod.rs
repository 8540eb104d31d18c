//! The kernel form of a policy: a tree of the kernel's own queueing disciplines (qdiscs), and the values that a classifying program
//! writes to `skb->priority`.
//!
//! [`lower`] runs these steps:
//!
//! 1. `shape`: each limit becomes the ceiling of the branch that it covers, or a clock of single packets (`limit by`).
//! 2. `lower`: the engine's tree becomes qdiscs and classes. Priorities and ceilings are HTB classes; weights without a limit
//!    below them are deficit round robin (drr) below an HTB class; a priority below drr is a prio qdisc.
//! 3. `parts`: rates and quanta. No branch is guaranteed more than its parent has.
//! 4. `classes`: the value of each class, and the filters of the qdiscs on the way to its leaf.
//! 5. `promises`: each statement of the policy, and how far this form keeps it.
//!
//! `commands` writes the tree as tc(8) commands, and `changes` compares two trees.
//!
//! These rules hold:
//!
//! - The tree is a function of the policy. Handles are made from the policy's ids, so a policy that is renumbered after a change
//!   ([`crate::renumber`]) has the same handles for what stays.
//! - Every part comes after its parent, and what leads to the class `default` comes first: no packet finds a tree without it.
//! - Nothing is lost silently: what the tree does not keep is a promise that is not kept, and [`Lowered::refusal`] says so.
//!
//! `docs/kernel-path.md` has the rules for each kind of node with their sources.

mod changes;
mod classes;
mod commands;
mod lower;
mod parts;
mod promises;
mod qdiscs;
mod shape;
mod tree;

pub use changes::{Edits, KernelDifference, NewRoot, diff};
pub use classes::{ClassFilter, ClassMap};
pub use lower::{LowerError, lower, lower_on};
pub use parts::{FRAME, OVERHEAD, SUPER_PACKET};
pub use promises::KernelStatement;
pub use qdiscs::KernelQdiscs;
pub use shape::LimitClock;
pub use tree::{Class, ClassKind, Handle, HtbClass, KernelPart, KernelTree, Parent, Qdisc, QdiscKind};

use crate::promise::{Kept, Promise, Refusal};

/// A policy in the kernel form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lowered {
    /// The qdiscs and classes.
    pub tree: KernelTree,
    /// The classes of packets.
    pub map: ClassMap,
    /// The statements of the policy, each with what the kernel form keeps of it.
    pub statements: Vec<KernelStatement>,
}

impl Lowered {
    /// The promises of the policy.
    pub fn promises(&self) -> Vec<Promise> {
        self.statements.iter().map(|statement| statement.promise.clone()).collect()
    }

    /// The first statement that is not kept, as a refusal. A caller may accept the loss, and use the tree.
    pub fn refusal(&self) -> Option<Refusal> {
        let lost = self.statements.iter().find(|statement| statement.promise.kept == Kept::No)?;
        let Promise { promise, within, instead, .. } = &lost.promise;
        let reason = within.as_deref().unwrap_or("the kernel has nothing for it");
        let instead = instead.as_deref().unwrap_or("run the policy by `weft run`");
        Some(Refusal {
            about: lost.about.clone(),
            reason: format!("{promise}: {reason}"),
            instead: instead.to_owned(),
        })
    }
}
