//! Why a policy does not fit the queues.

use thiserror::Error;

/// Why a policy cannot be followed on the queues that there are. The text says what to do about it.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum QueuesError {
    /// No queue of a class is one that flows can be put on.
    #[error(
        "class {class} has queues {first}..{last}, of which none can be used: flows can be put on queues {low}..{high}"
    )]
    NoneUsable {
        /// The class.
        class: String,
        /// Its first queue.
        first: u32,
        /// Its last queue.
        last: u32,
        /// The first queue that can be used.
        low: u32,
        /// The last queue that can be used.
        high: u32,
    },
    /// A queue would take no flow at all.
    #[error("a queue must take at least 1 flow: write `by 8 flows`, say")]
    NoFlows,
    /// There are fewer than two queues for two kinds of flows.
    #[error("class {class} and the others need a queue each; allow 2")]
    OneQueue {
        /// The class.
        class: String,
    },
    /// As many queues cannot be set apart.
    #[error(
        "class {class} and the others need queues of their own: between 1 and {most} of the {given} queues can be isolated, not {wanted}"
    )]
    NotIsolable {
        /// The class.
        class: String,
        /// The most queues that can be isolated.
        most: usize,
        /// The queues that there are.
        given: usize,
        /// The queues that the class is to have.
        wanted: usize,
    },
    /// A processor's queue is not one that flows can be put on.
    #[error("queue {queue} of processor {core} is not one that flows can be put on")]
    NotUsable {
        /// The queue.
        queue: u32,
        /// The processor.
        core: u32,
    },
    /// What a policy of one's own says.
    #[error("{0}")]
    Other(String),
}
