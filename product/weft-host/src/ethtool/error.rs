//! Errors of a NIC's receive steering.

use super::codec::DecodeError;
use crate::error::OsError;
use crate::link::LinkError;
use crate::netns::NetNsError;

/// An error of a NIC's receive steering. Every text names the device and a remedy.
#[derive(Debug, thiserror::Error)]
pub enum EthtoolError {
    /// The kernel refused a call.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The namespace could not be entered.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// The name or the link is wrong.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The driver has no receive hash, or does not show it (EOPNOTSUPP).
    #[error(
        "{device}: the driver {driver} has no receive hash table (Operation not supported); \
         use a NIC with receive-side scaling"
    )]
    NoHashTable {
        /// The device.
        device: String,
        /// Its driver.
        driver: String,
    },
    /// The driver has one hash table only (EOPNOTSUPP).
    #[error(
        "{device}: the driver {driver} has no RSS contexts (Operation not supported); \
         use the device's own table, or rules that name queues"
    )]
    NoContexts {
        /// The device.
        device: String,
        /// Its driver.
        driver: String,
    },
    /// No such context exists (ENOENT).
    #[error("{device}: there is no RSS context {context}; `ethtool -x {device}` shows those that exist")]
    NoSuchContext {
        /// The device.
        device: String,
        /// The context asked for.
        context: u32,
    },
    /// Rules still send packets to the context (EBUSY).
    #[error(
        "{device}: RSS context {context} is in use (Device or resource busy); delete the rules that name it first"
    )]
    ContextInUse {
        /// The device.
        device: String,
        /// The context.
        context: u32,
    },
    /// The kernel cannot list contexts.
    #[error("{device}: this kernel cannot list RSS contexts; Linux 6.12 or later can")]
    ContextsUnlisted {
        /// The device.
        device: String,
    },
    /// A table with another length than the NIC's.
    #[error(
        "{device}: the receive hash table has {table} entries, not {given}; give one queue for each entry"
    )]
    TableSize {
        /// The device.
        device: String,
        /// The entries that it has.
        table: usize,
        /// The entries given.
        given: usize,
    },
    /// A table that names a missing receive queue.
    #[error(
        "{device}: there is no receive queue {queue}, it has {queues}; add more with: ethtool -L {device}"
    )]
    NoSuchQueue {
        /// The device.
        device: String,
        /// The queue named.
        queue: u32,
        /// The number of its queues.
        queues: u32,
    },
    /// The driver does not report the number of receive queues (EOPNOTSUPP).
    #[error(
        "{device}: the driver {driver} does not say how many receive queues there are (Operation not supported); \
         see /sys/class/net/{device}/queues"
    )]
    NoQueueCount {
        /// The device.
        device: String,
        /// Its driver.
        driver: String,
    },
    /// The driver supports no receive rules (EOPNOTSUPP).
    #[error(
        "{device}: the driver {driver} takes no receive rules (Operation not supported, ntuple is off and fixed); \
         steer by the receive hash table, or use another NIC"
    )]
    NoRules {
        /// The device.
        device: String,
        /// Its driver.
        driver: String,
    },
    /// Receive rules are turned off.
    #[error(
        "{device}: {action}: {errno}: receive rules are turned off; turn them on with: ethtool -K {device} ntuple on"
    )]
    NtupleOff {
        /// The device.
        device: String,
        /// The action that failed.
        action: String,
        /// The kernel's answer.
        errno: String,
    },
    /// The rule table is full (ENOSPC).
    #[error("{device}: the table of receive rules is full (No space left on device): {rules} of {} are in use; delete some", or_unknown(.capacity))]
    Full {
        /// The device.
        device: String,
        /// The rules in the table.
        rules: u32,
        /// The table's size, if the driver reports it.
        capacity: Option<u32>,
    },
    /// No rule exists at this location (ENOENT, from some drivers EINVAL).
    #[error(
        "{device}: there is no receive rule at location {location}; `ethtool -n {device}` shows those that exist"
    )]
    NoSuchRule {
        /// The device.
        device: String,
        /// The location.
        location: u32,
    },
    /// The driver's answer is not a valid rule.
    #[error("{device}: the driver {driver} returned an invalid receive rule: {source}")]
    BadRule {
        /// The device.
        device: String,
        /// Its driver.
        driver: String,
        /// The reason.
        source: DecodeError,
    },
    /// An answer that lacks the requested data.
    #[error(
        "{device}: {action}: the kernel's answer is not complete; this is an error of the kernel or of weftline, please report it"
    )]
    Answer {
        /// The device.
        device: String,
        /// The action that failed.
        action: String,
    },
}

/// The result of an operation on a NIC.
pub type Result<T> = std::result::Result<T, EthtoolError>;

fn or_unknown(capacity: &Option<u32>) -> String {
    capacity.map_or("an unknown number".to_string(), |number| number.to_string())
}
