//! What can go wrong with a NIC's receive steering.

use super::codec::DecodeError;
use crate::error::OsError;
use crate::link::LinkError;
use crate::netns::NetNsError;

/// What can go wrong with a NIC's receive steering. Every text names the device and what to do.
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
    /// The driver does not hash what it receives, or does not show how (EOPNOTSUPP).
    #[error(
        "{device}: the driver {driver} has no receive hash table (Operation not supported); \
         take a NIC with receive-side scaling"
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
    /// There is no such context (ENOENT).
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
    /// A table of another length than the NIC's.
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
    /// A table that names a queue which is not there.
    #[error(
        "{device}: there is no receive queue {queue}, it has {queues}; more may be had by: ethtool -L {device}"
    )]
    NoSuchQueue {
        /// The device.
        device: String,
        /// The queue named.
        queue: u32,
        /// The number of its queues.
        queues: u32,
    },
    /// The driver does not say how many receive queues there are (EOPNOTSUPP).
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
    /// The driver takes no receive rules (EOPNOTSUPP).
    #[error(
        "{device}: the driver {driver} takes no receive rules (Operation not supported, ntuple is off and fixed); \
         steer by the receive hash table, or take another NIC"
    )]
    NoRules {
        /// The device.
        device: String,
        /// Its driver.
        driver: String,
    },
    /// Receive rules are turned off.
    #[error(
        "{device}: {action}: {errno}: receive rules are turned off; turn them on by: ethtool -K {device} ntuple on"
    )]
    NtupleOff {
        /// The device.
        device: String,
        /// What was tried.
        action: String,
        /// The kernel's answer.
        errno: String,
    },
    /// No more rules fit (ENOSPC).
    #[error("{device}: no place for another receive rule (No space left on device), {rules} of {} are there; delete some", or_unknown(.capacity))]
    Full {
        /// The device.
        device: String,
        /// The rules that are there.
        rules: u32,
        /// The table's size, if the driver says it.
        capacity: Option<u32>,
    },
    /// There is no rule at this location (ENOENT, of some drivers EINVAL).
    #[error(
        "{device}: there is no receive rule at location {location}; `ethtool -n {device}` shows those that exist"
    )]
    NoSuchRule {
        /// The device.
        device: String,
        /// The location.
        location: u32,
    },
    /// The driver's answer is no rule.
    #[error("{device}: the driver {driver} shows a receive rule that is none: {source}")]
    BadRule {
        /// The device.
        device: String,
        /// Its driver.
        driver: String,
        /// Why.
        source: DecodeError,
    },
    /// An answer without what was asked for.
    #[error(
        "{device}: {action}: the kernel's answer is not complete; this is an error of the kernel or of weftline, please report it"
    )]
    Answer {
        /// The device.
        device: String,
        /// What was tried.
        action: String,
    },
}

/// The result of an operation on a NIC.
pub type Result<T> = std::result::Result<T, EthtoolError>;

fn or_unknown(capacity: &Option<u32>) -> String {
    capacity.map_or("an unknown number".to_string(), |number| number.to_string())
}
