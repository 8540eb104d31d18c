//! The search for a NIC's configuration: which rules and which indirection table bring flows to the queues that a policy wants.

mod types;

pub use types::{Degradation, FlowId, Options, Placement, Plan, PlanError};
