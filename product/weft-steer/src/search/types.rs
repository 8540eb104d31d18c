//! Input and result of the planner.

use crate::nic::configuration::Configuration;
use crate::policy::{Cost, QueuesError};
use core::fmt;
use thiserror::Error;
use weft_packet::rss::RssKey;
use weft_units::RxQueueId;

/// Identity of a planned flow; valid until the flow is removed, and never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SteeredFlowId(pub u32);

/// The receive queue of a flow's packets, and the mechanism that selects it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Placement {
    /// A filter rule selects the queue.
    Rule(RxQueueId),
    /// The hash selects the queue by an entry of the indirection table.
    Hash(RxQueueId),
    /// The flow has wildcards and no rule: the hash spreads its packets over the indirection table.
    Spread,
    /// Neither a rule nor the hash applies: the default queue.
    Default(RxQueueId),
}

impl Placement {
    /// Returns the single queue, unless the packets are spread.
    pub const fn queue(self) -> Option<RxQueueId> {
        match self {
            Self::Rule(queue) | Self::Hash(queue) | Self::Default(queue) => Some(queue),
            Self::Spread => None,
        }
    }
}

/// Options of the search.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The maximum number of queues, counted from 0; all of the NIC's by default.
    pub queues: Option<u32>,
    /// Reserves queue 0 as the catch-all and assigns flows to the others (Dragonet, `Search.hs`: queues 1 to n-1).
    pub reserve_default: bool,
    /// The maximum number of flows that adding or removing flows may move between queues; unlimited by default. A whole search
    /// ([`super::Planner::set`]) is not limited.
    pub most_moved: Option<u32>,
    /// Uses all filter tables, including those that no driver offers ([`crate::nic::Interface::None`]).
    pub all_tables: bool,
    /// The maximum number of costs that the local search evaluates per event.
    pub effort: u32,
    /// Seed of the local search's restarts.
    pub seed: u64,
    /// The hash's key, which determines each flow's indirection table entry.
    pub key: HashKey,
}

/// The planner's knowledge of the NIC's hash key.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum HashKey {
    /// The plan sets it, to that of the published test vectors.
    #[default]
    Standard,
    /// The key is known and stays.
    Known(RssKey),
    /// The key is unknown, or the hash is another function. Flows without a rule count as spread.
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

/// A configuration and its effect on each flow.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// The configuration to set in the NIC.
    pub configuration: Configuration,
    /// Each flow's placement, by its identity.
    pub placements: Vec<(SteeredFlowId, Placement)>,
    /// The policy's cost.
    pub cost: Cost,
    /// The unmet goals; empty if the plan fulfils the policy.
    pub degraded: Vec<Degradation>,
}

/// An unmet goal, with its cause.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Degradation {
    /// Flows that need a rule are left to the hash: the tables are full or do not accept the rules.
    LeftToHash {
        /// Number of flows.
        flows: u32,
    },
    /// Flows that need a rule are left to the default queue.
    LeftToDefault {
        /// Number of flows.
        flows: u32,
        /// The default queue.
        queue: RxQueueId,
    },
    /// Wildcard flows whose packets the hash spreads, because no table takes their rule.
    Spread {
        /// Number of flows.
        flows: u32,
    },
    /// Flows share a rule with fewer tested fields, and can only move together.
    Aggregated {
        /// Number of flows.
        flows: u32,
        /// Number of rules that they share.
        rules: u32,
    },
    /// Flows need another mask than the single one of a table.
    MaskConflict {
        /// Number of flows.
        flows: u32,
        /// The table's name.
        table: String,
    },
    /// A rule with wildcards sends some or all packets of other flows to the wrong queue.
    Captured {
        /// Number of flows.
        flows: u32,
    },
    /// Flows of a class are on queues of other classes.
    NotIsolated {
        /// The class; empty for flows without one.
        class: String,
        /// Number of flows.
        flows: u32,
    },
    /// The limit on moves left flows on wrong queues.
    MoveLimit {
        /// Number of flows that remain on wrong queues.
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

/// The reason why a planner cannot be created.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// No queue is usable for flows.
    #[error(
        "no queue is left for flows: the NIC has {nic}, {limit} may be used, {reserved} of them is the catch-all; allow more queues"
    )]
    NoQueue {
        /// Number of queues of the NIC.
        nic: u32,
        /// Number of permitted queues.
        limit: u32,
        /// Number of reserved queues.
        reserved: u32,
    },
    /// The queues cannot satisfy the policy.
    #[error("policy {policy}: {problem}")]
    Policy {
        /// The policy.
        policy: String,
        /// The mismatch and its remedy.
        problem: QueuesError,
    },
    /// The planner does not support the NIC's model.
    #[error("NIC model {nic}: {problem}")]
    Model {
        /// Its name.
        nic: String,
        /// The reason.
        problem: String,
    },
}
