//! A NIC's receive steering: queues, the hash and its tables, and rules.

mod codec;
mod genl;
mod layout;
mod rss;
mod rule;
mod transport;

pub use codec::{DecodeError, RULE_LEN, decode_rule, encode_rule, fuzz_rule};
pub use rss::ContextId;
pub use rule::{Action, Extension, Field, Flow, Ip, L4, Location, Masked, Ports, RxRule};
pub use transport::{Kernel, Refused, Transport};
