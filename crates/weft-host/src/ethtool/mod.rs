//! A NIC's receive steering: queues, the hash with its tables, and rules, as `ethtool` shows and sets them.
//!
//! [`Nic`] is a device in a namespace. It reaches the kernel by a [`Transport`], in whose place a test puts a device
//! of its own. What a rule is, is in [`RxRule`]; [`encode_rule`] and [`decode_rule`] are its form in the kernel's interface.

mod codec;
mod error;
pub(crate) mod genl;
mod hash_fields;
mod layout;
mod nic;
mod rss;
mod rule;
mod rules;
mod transport;

pub use codec::{DecodeError, RULE_LEN, decode_rule, encode_rule, fuzz_rule};
pub use error::{EthtoolError, Result};
pub use hash_fields::{HashFields, HashFlow};
pub use nic::{Channels, Driver, Feature, Limited, Nic};
pub use rss::{ContextId, HashFunction, Rss, RssChange, equal_table, weighted_table};
pub use rule::{Action, Extension, Field, Flow, Ip, L4, Location, Masked, Ports, RxRule};
pub use rules::RuleTable;
pub use transport::{Ask, Kernel, Refused, Transport};
