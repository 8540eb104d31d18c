//! Flow predicates and NIC models: which packets a filter takes, and where the NIC sends them.
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
pub use predicate::{Predicate, read_predicate};
