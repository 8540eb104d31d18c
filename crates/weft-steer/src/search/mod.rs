//! The search for a NIC's configuration: which rules and which indirection table bring flows to the queues that a policy wants.
//!
//! [`Planner`] is what to use. It treats the search as an assignment of steering entries (rules, entries of the indirection table) to queues:
//! the hash carries what it can, rules correct it where a policy asks for that, and when rules run out, the plan says what was given up.

mod assignment;
pub mod dragonet;
mod exhaustive;
mod local;
mod parts;
mod planner;
mod types;
pub mod workload;

pub use exhaustive::exhaustive;
pub use planner::Planner;
pub use types::{Degradation, HashKey, Options, Placement, Plan, PlanError, SteeredFlowId};
