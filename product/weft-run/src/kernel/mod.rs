//! A policy in the kernel: the tree of its kernel form ([`weft_policy::kernel`]) at a device, and a program at the device's egress that
//! chooses the class of each packet (`bpf/classify.bpf.c`). Nothing of it needs a process.
//!
//! [`KernelPath::apply`], under the lock of the folder of records:
//!
//! 1. [`KernelPlan::new`] lowers the policy for the qdiscs that this kernel has, and builds the match tables.
//! 2. The former root is saved, as the messages that made it. One that cannot be restored is replaced only if the caller says so.
//! 3. The programs are loaded and pinned, with their maps.
//! 4. The record of the device is written, with all that must be undone. A process that is killed after this leaves a record that says
//!    so, and the next one undoes the change ([`KernelPath::repair`]). A change that is interrupted later ends with the former policy.
//! 5. The tree is made from the root on, each qdisc with its filter, what leads to the class `default` first.
//! 6. The maps are filled, and the match tables put in use.
//! 7. The classifier is attached, last among the programs of the egress, and the record says that the policy is in force.
//!
//! If a step fails, those before it are undone. [`KernelPath::change`] edits the tree in place: it adds and changes parts, puts new match
//! tables in use, waits until what goes is empty, and removes it. [`KernelPath::remove`] detaches the classifier, puts the former root
//! back, and removes the pins and the record.
//!
//! Ownership: the kernel owns tree, programs and maps, through the device and the pins. The record owns the knowledge of them. A
//! `KernelPath` holds descriptors only; its drop changes nothing.

mod counters;
mod error;
mod objects;
mod path;
mod plan;
mod programs;
mod record;
mod survey;

#[cfg(test)]
mod layout_tests;

pub use counters::{KernelClass, KernelCounters};
pub use error::KernelError;
pub use path::{Interrupted, KernelPath};
pub use plan::KernelPlan;
pub use record::{FOLDER, KernelRecord};
pub use survey::survey;
