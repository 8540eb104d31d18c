//! What a planner is given and what it returns.

use crate::nic::configuration::Configuration;
use crate::policy::{Cost, QueuesError};
use core::fmt;
use thiserror::Error;
use weft_packet::rss::RssKey;
use weft_units::RxQueueId;

/// A flow of a planner; valid until it is removed, never used again for another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SteeredFlowId(pub u32);

/// Where a flow's packets are received, and what sends them there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Placement {
    /// A filter rule names the queue.
    Rule(RxQueueId),
    /// The hash does: its entry of the indirection table has the queue.
    Hash(RxQueueId),
    /// The flow has wildcards and no rule: the hash spreads its packets over the indirection table.
    Spread,
    /// No rule and no hash: the queue of packets that nothing else takes.
    Default(RxQueueId),
}

impl Placement {
    /// The one queue, unless the packets are spread.
    pub const fn queue(self) -> Option<RxQueueId> {
        match self {
            Self::Rule(queue) | Self::Hash(queue) | Self::Default(queue) => Some(queue),
            Self::Spread => None,
        }
    }
}

/// How to search.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Use at most so many queues, from 0 on; as many as the NIC has without.
    pub queues: Option<u32>,
    /// Queue 0 is only the catch-all, and flows are put on the others (Dragonet, `Search.hs`: queues 1 to n-1).
    pub reserve_default: bool,
    /// Most flows that adding or removing flows may move from a queue to another; any number without. A whole search
    /// ([`super::Planner::set`]) starts anew and is not bound.
    pub most_moved: Option<u32>,
    /// Use filter tables also when no driver offers them ([`crate::nic::Interface::None`]).
    pub all_tables: bool,
    /// Most costs evaluated by the local search of policies without structure, per event.
    pub effort: u32,
    /// Seed of the local search's restarts.
    pub seed: u64,
    /// The hash's key, which decides which entry of the indirection table a flow has.
    pub key: HashKey,
}

/// What is known of the key by which a NIC hashes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum HashKey {
    /// The plan sets it: to that of the published test vectors.
    #[default]
    Standard,
    /// It is this one, and stays.
    Known(RssKey),
    /// The driver does not show it, or hashes by another function. Flows without a rule count as spread.
    Unknown,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            queues: None,
            reserve_default: false,
            most_moved: None,
            all_tables: false,
            effort: 20_000,
            seed: 1,
            key: HashKey::Standard,
        }
    }
}

/// A configuration and what it makes of each flow.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// What to set in the NIC.
    pub configuration: Configuration,
    /// Where each flow goes, by its number.
    pub placements: Vec<(SteeredFlowId, Placement)>,
    /// What the policy says of it.
    pub cost: Cost,
    /// What was given up; empty when everything is as the policy wants it.
    pub degraded: Vec<Degradation>,
}

/// Something that could not be done.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Degradation {
    /// Flows that should have had a rule are left to the hash: the tables are full or do not take them.
    LeftToHash {
        /// How many.
        flows: u32,
    },
    /// The same, to the queue of packets that nothing takes.
    LeftToDefault {
        /// How many.
        flows: u32,
        /// That queue.
        queue: RxQueueId,
    },
    /// Wildcard flows whose packets the hash spreads, because no table takes their rule.
    Spread {
        /// How many.
        flows: u32,
    },
    /// Flows share a rule with fewer fields, and can only move together.
    Aggregated {
        /// How many flows.
        flows: u32,
        /// Rules that they share.
        rules: u32,
    },
    /// Flows need another mask than the one that a table has for all of its rules.
    MaskConflict {
        /// How many.
        flows: u32,
        /// The table's name.
        table: String,
    },
    /// A rule with wildcards takes a part of other flows' packets, or all of them, to another queue than they should have.
    Captured {
        /// How many flows.
        flows: u32,
    },
    /// Flows of a class are on queues that are not theirs.
    NotIsolated {
        /// The class; empty for flows without one.
        class: String,
        /// How many.
        flows: u32,
    },
    /// More would be better moved than an event may move.
    MoveLimit {
        /// Flows that are still on queues that are not theirs.
        flows: u32,
        /// The limit ([`Options::most_moved`]).
        limit: u32,
    },
}

impl fmt::Display for Degradation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeftToHash { flows } => {
                write!(f, "no filter is left for {flows} flows: the hash chooses their queues")
            }
            Self::LeftToDefault { flows, queue } => {
                write!(f, "no filter is left for {flows} flows: they go to queue {}, the default", queue.0)
            }
            Self::Spread { flows } => {
                write!(f, "no filter takes {flows} flows with wildcards: the hash spreads their packets")
            }
            Self::Aggregated { flows, rules } => {
                write!(
                    f,
                    "filters are scarce: {flows} flows share {rules} rules with fewer fields, and move together"
                )
            }
            Self::MaskConflict { flows, table } => {
                write!(f, "table {table} has one mask for all rules: {flows} flows need another one")
            }
            Self::Captured { flows } => {
                write!(f, "rules with wildcards take packets of {flows} flows to another queue")
            }
            Self::NotIsolated { class, flows } if class.is_empty() => {
                write!(f, "{flows} flows without a class are on queues of other classes")
            }
            Self::NotIsolated { class, flows } => {
                write!(
                    f,
                    "class {class} could not be isolated: {flows} of its flows are on queues that are not its own"
                )
            }
            Self::MoveLimit { flows, limit } => {
                write!(
                    f,
                    "at most {limit} flows may move at once: {flows} are still on queues that are not theirs"
                )
            }
        }
    }
}

/// Why there is no planner.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// There is no queue for flows.
    #[error(
        "no queue is left for flows: the NIC has {nic}, {limit} may be used, {reserved} of them is the catch-all; allow more queues"
    )]
    NoQueue {
        /// Queues of the NIC.
        nic: u32,
        /// Queues that may be used.
        limit: u32,
        /// Reserved ones.
        reserved: u32,
    },
    /// The policy does not fit the queues.
    #[error("policy {policy}: {problem}")]
    Policy {
        /// The policy.
        policy: String,
        /// What does not fit, and what to do.
        problem: QueuesError,
    },
    /// The NIC's model cannot be planned for.
    #[error("NIC model {nic}: {problem}")]
    Model {
        /// Its name.
        nic: String,
        /// What is wrong.
        problem: String,
    },
}
