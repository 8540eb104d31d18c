//! The errors of a shuffle.

use super::settings::ShuffleSettingsError;
use weft_host::OsError;
use weft_host::link::LinkError;
use weft_host::net_counters::CounterError;
use weft_host::netns::NetNsError;
use weft_host::sysctl::SysctlError;
use weft_nic::nic::NicError;
use weft_nic::port::PortError;
use weft_titan::error::TitanError;
use weft_units::{Bytes, Nanos};

/// The reason that a shuffle failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShuffleError {
    /// The settings are invalid.
    #[error(transparent)]
    Settings(#[from] ShuffleSettingsError),
    /// The policy of one class was refused, which is a defect of the compiler.
    #[error("the policy of a NIC without one does not compile: {0}")]
    Policy(String),
    /// A link has no MAC address.
    #[error("link {0} of the switch has no MAC address; it must have been removed")]
    NoMac(String),
    /// A NIC's worker ended by itself.
    #[error("a server's NIC has ended; its devices must have been removed")]
    NicEnded,
    /// A connection delivered another number of bytes than were to be sent.
    #[error("the connection from server {from} delivered {got} instead of {of}")]
    Cut {
        /// The sending server.
        from: usize,
        /// Bytes delivered.
        got: Bytes,
        /// Bytes to be sent.
        of: Bytes,
    },
    /// The shuffle exceeds its time limit.
    #[error(
        "{arrived} of {of} have arrived in {patience}; take fewer servers (--flows) or a smaller --transfer"
    )]
    Late {
        /// Bytes delivered.
        arrived: Bytes,
        /// Bytes to be delivered.
        of: Bytes,
        /// The time limit.
        patience: Nanos,
    },
    /// A NIC's accounting does not balance.
    #[error(
        "the accounting of server {server}'s NIC does not balance, which is a bug; please report it: {what}"
    )]
    Accounting {
        /// The server.
        server: usize,
        /// The violation, in words.
        what: String,
    },
    /// A thread panicked, which is a defect.
    #[error("a thread panicked, which is a bug; please report it")]
    Panicked,
    /// TCP's counters cannot be read.
    #[error(transparent)]
    Counters(#[from] CounterError),
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
    /// A step on a NIC failed.
    #[error(transparent)]
    Nic(#[from] NicError),
    /// A step on a port or an uplink failed.
    #[error(transparent)]
    Port(#[from] PortError),
    /// Queue assignment failed.
    #[error(transparent)]
    Titan(#[from] TitanError),
    /// A step on a link, an address or a route failed.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A step on a namespace failed.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// A setting could not be changed.
    #[error(transparent)]
    Sysctl(#[from] SysctlError),
    /// Another system call failed.
    #[error(transparent)]
    Os(#[from] OsError),
}
