//! Mismatches between a policy and the queues.

use thiserror::Error;

/// The reason why the queues cannot satisfy a policy. The text includes the remedy.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum QueuesError {
    /// No queue of a class is usable for flows.
    #[error(
        "class {class} has queues {first}..{last}, but none of them is usable: flows can use queues {low}..{high}"
    )]
    NoneUsable {
        /// The class.
        class: String,
        /// Its first queue.
        first: u32,
        /// Its last queue.
        last: u32,
        /// The first usable queue.
        low: u32,
        /// The last usable queue.
        high: u32,
    },
    /// A queue would take no flow.
    #[error("a queue must take at least 1 flow: write for example `by 8 flows`")]
    NoFlows,
    /// Two kinds of flows have fewer than two queues.
    #[error("class {class} and the others need a queue each; allow 2")]
    OneQueue {
        /// The class.
        class: String,
    },
    /// The requested number of queues cannot be reserved.
    #[error(
        "class {class} and the others need queues of their own: between 1 and {most} of the {given} queues can be isolated, not {wanted}"
    )]
    NotIsolable {
        /// The class.
        class: String,
        /// The maximum number of queues that can be reserved.
        most: usize,
        /// Number of usable queues.
        given: usize,
        /// Number of requested queues.
        wanted: usize,
    },
    /// A processor's queue is not usable for flows.
    #[error("queue {queue} of processor {core} is not usable for flows")]
    NotUsable {
        /// The queue.
        queue: u32,
        /// The processor.
        core: u32,
    },
    /// A custom policy's own reason.
    #[error("{0}")]
    Other(String),
}
