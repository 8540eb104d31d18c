//! Errors of a policy in the kernel.

use weft_host::OsError;
use weft_host::bpf::BpfError;
use weft_host::device_record::RecordError;
use weft_host::link::LinkError;
use weft_host::netns::NetNsError;
use weft_host::tc::TcError;
use weft_nic::doorbell::{PrepareError, TableError};
use weft_policy::kernel::{LowerError, NewRoot};
use weft_units::Packets;

/// Errors of putting a policy into the kernel, of changing and of removing it.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The policy has no kernel form.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// The rows exceed the match tables.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The match tables could not be written.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// The policy has more lanes or classes than the maps.
    #[error("the policy has {given} {what}, and the kernel's program has room for {most}; merge classes")]
    TooMany {
        /// Lanes, classes or limits.
        what: &'static str,
        /// The number of them.
        given: usize,
        /// The most.
        most: usize,
    },
    /// The device carries no Ethernet frames.
    #[error(
        "{device} ({kind}) carries no Ethernet frames, in which the classifier reads; name the device that they leave by"
    )]
    NotEthernet {
        /// The device.
        device: String,
        /// Its kind.
        kind: String,
    },
    /// Another qdisc of a user is the root, and could not be restored.
    #[error("{source}; to lose it, say --replace")]
    Occupied {
        /// The reason.
        source: TcError,
    },
    /// A policy is in the kernel at the device already.
    #[error(
        "a policy is in the kernel at {device} already, since {since}; `weft remove {device}` takes it away"
    )]
    Applied {
        /// The device.
        device: String,
        /// The time since it was applied.
        since: String,
    },
    /// No policy is in the kernel at the device.
    #[error(
        "no policy is in the kernel at {device}{others}; `weft apply POLICY --device {device}` puts one there"
    )]
    NotApplied {
        /// The device.
        device: String,
        /// The devices that have one.
        others: String,
    },
    /// The policy in the record does not compile.
    #[error(
        "the policy {0}, which is in force, does not compile with this version of weft; remove it, and apply it again"
    )]
    Uncompiled(String),
    /// The change needs a new root, which loses what waits.
    #[error(
        "the change needs a new tree, since {reason}: {waiting} packets that wait would be lost; say --replace"
    )]
    NewRoot {
        /// The reason.
        reason: NewRoot,
        /// The packets in the tree.
        waiting: Packets,
    },
    /// Another process has changed the policy.
    #[error("another command has changed the policy at {device} meanwhile; look at it, and try again")]
    Meanwhile {
        /// The device.
        device: String,
    },
    /// Another program has put a root in place of the tree.
    #[error(
        "the root of {device} is {kind} {handle} by now, which another program put in place of the policy's; `weft remove {device}` forgets the policy and leaves that root"
    )]
    Replaced {
        /// The device.
        device: String,
        /// The kind of the root.
        kind: String,
        /// Its handle.
        handle: String,
    },
    /// An operation at the device failed.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// An operation of traffic control failed.
    #[error(transparent)]
    Tc(#[from] TcError),
    /// A namespace operation failed.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// An operation of eBPF failed.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The bpf file system is not available.
    #[error(transparent)]
    BpfFs(#[from] OsError),
    /// A record could not be read or written.
    #[error(transparent)]
    Record(#[from] RecordError),
}
