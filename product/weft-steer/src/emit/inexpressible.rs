//! The reasons that a change has no command in a dialect.

use crate::nic::Interface;
use thiserror::Error;

/// The reason that a change has no command in a dialect.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub(super) enum Inexpressible {
    /// The rule names a table that the NIC's model lacks.
    #[error("the NIC has no such table")]
    NoTable,
    /// The rule's table belongs to another interface.
    #[error("table {table} is not set this way but by {}", interface.name())]
    Interface { table: String, interface: Interface },
    /// No earlier rule of the plan or the device is the one to be removed.
    #[error("its {0} is unknown")]
    UnknownPlace(PlaceKind),
    /// Rules of higher and lower priority leave no number between them.
    #[error("no {0} is free for its priority")]
    NoPlace(PlaceKind),
    /// ethtool's flow types with IP fields have one MAC address.
    #[error("ethtool matches src-mac only without IP fields")]
    EthtoolSrcMac,
    /// The flow type lacks a field.
    #[error("ethtool has no {field} for flow type {flow_type}")]
    EthtoolField { field: &'static str, flow_type: &'static str },
    /// `ethtool -X` builds tables from a count or from weights.
    #[error(
        "ethtool -X makes only tables that go round the queues, or have one queue's entries after the other's; \
         `weft steer apply` sets any"
    )]
    EthtoolTable,
    /// RSS is not tc's.
    #[error("tc does not set RSS; ethtool does")]
    TcRss,
    /// A filter's action is a queue or a drop.
    #[error("tc cannot send packets to an RSS context")]
    TcContext,
    /// flower has no mask for the field.
    #[error("flower matches {0} only as a whole")]
    FlowerMask(&'static str),
    /// testpmd sets a key for each kind of packet.
    #[error("testpmd sets the hash's key per kind of packet; rte_eth_dev_rss_hash_update does")]
    TestpmdKey,
    /// The rule to be removed has no number.
    #[error("the rule is not set")]
    TestpmdUnset,
    /// The rule's context is not part of the configuration.
    #[error("the rule's RSS context is not set")]
    TestpmdContext,
    /// Ports are part of a protocol's item.
    #[error("rte_flow matches ports only of one protocol")]
    RteFlowPorts,
    /// Addresses are part of an IP version's item.
    #[error("rte_flow matches addresses only of IPv4 or IPv6")]
    RteFlowAddresses,
}

/// The number that orders a rule among those of its table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PlaceKind {
    /// ethtool's `loc`.
    Location,
    /// tc's `pref`.
    Preference,
}

impl core::fmt::Display for PlaceKind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Location => "location",
            Self::Preference => "preference",
        })
    }
}
