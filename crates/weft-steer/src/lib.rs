//! Flow predicates and NIC models: which packets a filter takes, and where the NIC sends them.
#![forbid(unsafe_code)]

pub mod algebra;
pub mod change;
pub mod configuration;
pub mod cube;
pub mod emit;
pub mod flow;
pub mod flows_csv;
pub mod matcher;
mod nearest;
pub mod nic;
pub mod policy;
pub mod predicate;
pub mod prefix;
pub mod rss;
pub mod search;

pub use algebra::Intersection;
pub use configuration::{Action, Configuration, ContextId, RssContext, Rule};
pub use cube::{Cube, Field, Relation};
pub use flow::Flow;
pub use matcher::{Match, PortRange, Prefix};
pub use nic::Nic;
pub use predicate::{Predicate, PredicateError, read_predicate};
pub use prefix::ParsePrefixError;
pub use rss::{RssKey, Toeplitz};
