//! A NIC's receive steering: queues, the hash with its tables, and rules, as `ethtool` shows and sets them.
//!
//! [`Nic`] is a device in a namespace. It reaches the kernel through a [`Transport`], which tests replace with an
//! emulated device. [`RxRule`] is a receive rule; [`encode_rule`] and [`decode_rule`] convert it to and from the kernel's form.

mod codec;
mod error;
pub(crate) mod genl;
mod hash_fields;
mod layout;
mod moderation;
mod nic;
mod offload;
mod rss;
mod rule;
mod rules;
mod transport;

pub use codec::{DecodeError, RULE_LEN, decode_rule, encode_rule, fuzz_rule};
pub use error::{EthtoolError, Result};
pub use genl::{Ask, Refused};
pub use hash_fields::{HashFields, HashFlow};
pub use moderation::{Moderation, Rings};
pub use nic::{Channels, Driver, Feature, Limited, Nic};
pub use offload::{Offload, Switch, WHOLE_TCP};
pub use rss::{HashFunction, Rss, RssChange, equal_table, weighted_table};
pub use rule::{Action, ContextId, Extension, Field, Flow, Ip, L4, Location, Masked, Ports, RxRule};
pub use rules::RuleTable;
pub use transport::{Kernel, Transport};
