//! The search for a NIC's configuration: the rules and the indirection table that bring flows to the queues that a policy wants.
//!
//! [`Planner`] is the entry point. The search assigns steering entries to queues. A steering entry is a rule, an entry of the
//! indirection table, the default queue, or the hash as a whole.
//!
//! 1. `types` defines the input ([`Options`]) and the result ([`Plan`], with a [`Degradation`] for each goal that was not met).
//! 2. `parts` holds the state in independent structures; `assignment` joins them and keeps them in agreement.
//! 3. `assignment/start.rs` makes an initial assignment: the hash carries as much as possible, and rules correct it.
//! 4. `assignment/misplaced.rs` moves flows from forbidden queues. If rules run out, `scarce.rs` distributes the remaining ones,
//!    and `shared_rules.rs` lets flows share them.
//! 5. `assignment/balance.rs` reduces the variance of the loads within each group.
//! 6. `local` climbs on the cost itself, for policies whose layout does not express everything.
//! 7. `assignment/plan.rs` converts the result into rules and an indirection table.
//!
//! `dragonet` and `exhaustive` are references for comparison. No search fails for lack of room: unmet goals are counted in
//! [`Plan::degraded`].

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
