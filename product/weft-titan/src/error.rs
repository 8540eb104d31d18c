//! Errors of attaching and detaching queue assignment.

use crate::match_table::PrepareError;
use crate::programs::PinError;
use weft_host::OsError;
use weft_host::bpf::BpfError;
use weft_host::device_record::RecordError;
use weft_host::link::LinkError;
use weft_host::net_shaper::ShaperError;
use weft_host::netns::NetNsError;
use weft_host::sysctl::SysctlError;
use weft_host::tc::TcError;
use weft_host::xps::XpsError;

/// Errors of attaching, reading or detaching queue assignment.
#[derive(Debug, thiserror::Error)]
pub enum TitanError {
    /// A link operation failed.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A namespace operation failed.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// Loading the programs or accessing a map failed.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// Pinning failed.
    #[error(transparent)]
    Pins(#[from] PinError),
    /// The file system of pinned programs is not available.
    #[error(transparent)]
    Bpffs(#[from] OsError),
    /// A filter operation failed.
    #[error(transparent)]
    Filter(#[from] TcError),
    /// The map of cores to transmit queues could not be read.
    #[error(transparent)]
    Xps(#[from] XpsError),
    /// The state file could not be read or written.
    #[error(transparent)]
    State(#[from] RecordError),
    /// The device has one queue.
    #[error("{device} has one transmit queue, so there is nothing to assign{hint}")]
    OneQueue {
        /// The device.
        device: String,
        /// The remedy, if any.
        hint: String,
    },
    /// The device detaches packets from their sockets.
    #[error(
        "{device} is a {kind}, which takes packets away from their sockets as soon as it gets them: when they leave cannot be \
         known; attach to the device behind it"
    )]
    Orphans {
        /// The device.
        device: String,
        /// Its kind.
        kind: String,
    },
    /// Queue assignment is already attached.
    #[error(
        "queue assignment is on at {device} already, since {since}; `weft titan detach {device}` takes it off"
    )]
    Attached {
        /// The device.
        device: String,
        /// The time since it was attached.
        since: String,
    },
    /// A classifier without a state file is attached.
    #[error(
        "a classifier of queue assignment is at {device} that no file of /run/weftline/titan knows of (another /run may); \
         `tc filter del dev {device} egress prio {priority}` removes it"
    )]
    Unknown {
        /// The device.
        device: String,
        /// The priority of its filter.
        priority: u16,
    },
    /// The device no longer exists.
    #[error("{device} (number {ifindex}) no longer exists in its network namespace")]
    Gone {
        /// The device's last name.
        device: String,
        /// The interface number.
        ifindex: u32,
    },
    /// Another driver sync runs for the device.
    #[error("another `weft titan actuate {device}` runs; end that one first")]
    Actuated {
        /// The device.
        device: String,
    },
    /// Queue assignment is not attached.
    #[error("queue assignment is not on at {device}{others}")]
    NotAttached {
        /// The device.
        device: String,
        /// The devices where it is attached.
        others: String,
    },
    /// The software NIC is not in the mode that serves queues.
    #[error(
        "{device} is the port of a software NIC that enforces a policy; its rings are the policy's, and there are no queues \
         to assign. Start it with --queues N for a plain multiqueue NIC"
    )]
    PolicyPort {
        /// The device.
        device: String,
    },
    /// Driver sync has nothing to set.
    #[error("nothing to keep in step at {device}: {reason}")]
    Idle {
        /// The device.
        device: String,
        /// The reason.
        reason: String,
    },
    /// A net-shaper operation failed.
    #[error(transparent)]
    Shaper(#[from] ShaperError),
    /// A setting of the namespace failed.
    #[error(transparent)]
    Sysctl(#[from] SysctlError),
    /// The weights exceed the match table, or it could not be written.
    #[error("the weights: {0}")]
    Table(#[from] PrepareError),
}
