//! Why queue assignment cannot be switched on or off.

use crate::programs::PinError;
use crate::state::StateError;
use weft_host::OsError;
use weft_host::bpf::BpfError;
use weft_host::link::LinkError;
use weft_host::net_shaper::ShaperError;
use weft_host::netns::NetNsError;
use weft_host::sysctl::SysctlError;
use weft_host::tc_filter::FilterError;
use weft_host::xps::XpsError;

/// Why queue assignment cannot be switched on or off.
#[derive(Debug, thiserror::Error)]
pub enum TitanError {
    /// A link.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A namespace.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// The programs or maps.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// What is pinned.
    #[error(transparent)]
    Pins(#[from] PinError),
    /// The file system of pinned programs.
    #[error(transparent)]
    Bpffs(#[from] OsError),
    /// Filters.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The transmit queues and their cores.
    #[error(transparent)]
    Xps(#[from] XpsError),
    /// The file of what was done.
    #[error(transparent)]
    State(#[from] StateError),
    /// The device has one queue.
    #[error("{device} has one transmit queue, so there is nothing to assign{hint}")]
    OneQueue {
        /// The device.
        device: String,
        /// What may be done about it.
        hint: String,
    },
    /// A device that takes packets away from their sockets.
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
    /// It is on already.
    #[error(
        "queue assignment is on at {device} already, since {since}; `weft titan detach {device}` takes it off"
    )]
    Attached {
        /// The device.
        device: String,
        /// How long.
        since: String,
    },
    /// A classifier that no file knows of.
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
    /// The device has gone.
    #[error("{device} (number {ifindex}) is gone from its network namespace")]
    Gone {
        /// The device's last name.
        device: String,
        /// Its number.
        ifindex: u32,
    },
    /// Another process keeps the device in step.
    #[error("another `weft titan actuate {device}` runs; end that one first")]
    Actuated {
        /// The device.
        device: String,
    },
    /// It is not on.
    #[error("queue assignment is not on at {device}{others}")]
    NotAttached {
        /// The device.
        device: String,
        /// Where it is on.
        others: String,
    },
    /// The software NIC does not serve queues.
    #[error(
        "{device} is the port of a software NIC that enforces a policy; its rings are the policy's, and there are no queues \
         to assign. Start it with --queues N for a plain multiqueue NIC"
    )]
    PolicyPort {
        /// The device.
        device: String,
    },
    /// There is nothing to sync with the driver.
    #[error("nothing to keep in step at {device}: {reason}")]
    Idle {
        /// The device.
        device: String,
        /// Why.
        reason: String,
    },
    /// Weights by net-shaper.
    #[error(transparent)]
    Shaper(#[from] ShaperError),
    /// A setting of the namespace.
    #[error(transparent)]
    Sysctl(#[from] SysctlError),
    /// A map is full.
    #[error("the weights need {given} {what}, and there is room for {most}")]
    Table {
        /// How many.
        given: usize,
        /// Rows or cgroups.
        what: &'static str,
        /// How many fit.
        most: usize,
    },
}
