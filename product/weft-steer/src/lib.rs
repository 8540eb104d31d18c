//! Receive steering: NIC models, policies, the search for a configuration, and the changes that apply it.
//!
//! | module | contents |
//! |---|---|
//! | [`nic`] | models of NICs, their configurations, and where a configuration sends packets |
//! | [`predicate`] | boolean expressions over header fields |
//! | [`flow`], [`flows_csv`] | flows to be steered, and their lists as CSV |
//! | [`policy`] | cost functions over an assignment of flows to queues |
//! | [`search`] | the planner, which finds a configuration of low cost |
//! | [`change`] | ordered changes from one configuration to another |
//! | [`emit`] | changes as commands of ethtool, tc and testpmd |
#![forbid(unsafe_code)]

pub mod change;
pub mod emit;
pub mod flow;
pub mod flows_csv;
pub mod nic;
pub mod policy;
pub mod predicate;
pub mod search;

pub use flow::Flow;
pub use nic::Nic;
pub use nic::configuration::{Action, Configuration, ContextId, RssContext, Rule};
pub use predicate::Predicate;
