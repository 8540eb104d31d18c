//! TAP links: the wire side of the software NIC.
//!
//! A packet written to a queue arrives at the link as if from a wire. A packet that the host sends through the link can be
//! read from a queue, but does not hold back its sender: a TAP removes the charge from the socket at once.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

use crate::error::OsError;
use crate::link::{self, LinkError};
use crate::netns::{NetNs, NetNsError};
use crate::tap_queue;

pub use crate::tap_queue::VNET_HEADER_LEN;

/// The most queues that one TAP can have (the kernel's MAX_TAP_QUEUES).
pub const MAX_QUEUES: u32 = 256;

/// An error of a TAP operation.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// The kernel refused a call.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The name or the link is wrong.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The namespace could not be entered.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// A number of queues that the kernel does not support.
    #[error("TAP {link}: {asked} queues were requested, but a TAP has 1 to {MAX_QUEUES}")]
    Queues {
        /// The link.
        link: String,
        /// The number of queues requested.
        asked: u32,
    },
    /// The kernel or container has no TUN/TAP.
    #[error(
        "/dev/net/tun does not exist; load the module (modprobe tun), or pass the device into the container"
    )]
    NoTun,
}

/// Makes a TAP link and opens all its queues. The link is down, and is deleted when its last queue is closed.
///
/// The descriptors are non-blocking and close-on-exec. Frames carry a header of [`VNET_HEADER_LEN`] bytes, as those of a
/// macvtap do. The length of a ring is the link's txqueuelen.
pub fn create(ns: &NetNs, name: &str, queues: u32) -> Result<Vec<OwnedFd>, TapError> {
    link::check_name(name)?;
    if !(1..=MAX_QUEUES).contains(&queues) {
        return Err(TapError::Queues { link: name.to_string(), asked: queues });
    }
    if link::exists(ns, name)? {
        return Err(LinkError::Exists { link: name.to_string(), ns: ns.to_string() }.into());
    }
    ns.run(|| (0..queues).map(|_| open_queue(ns, name)).collect())?
}

fn open_queue(ns: &NetNs, name: &str) -> Result<OwnedFd, TapError> {
    let failed = |step: &str, e: rustix::io::Errno| {
        OsError::new(format!("create TAP {name} in {ns}: {step}"), e).needs("CAP_NET_ADMIN")
    };
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let queue = match rustix::fs::open("/dev/net/tun", flags, Mode::empty()) {
        Ok(queue) => queue,
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NODEV) => return Err(TapError::NoTun),
        Err(e) => return Err(failed("open /dev/net/tun", e).into()),
    };
    tap_queue::configure(queue.as_fd(), name).map_err(|(step, e)| failed(step, e))?;
    Ok(queue)
}
