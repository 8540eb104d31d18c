//! TAP links: the wire side of the software NIC, and on newer kernels the descriptor rings of a port.
//!
//! A packet written to a queue arrives at the link as if from a wire. A packet that the host sends through the link can be
//! read from a queue. It does not hold back its sender while it is in the queue's ring: a TAP removes the charge from the socket
//! when the packet enters the ring.
//!
//! **Full rings.** Without `IFF_BACKPRESSURE` (Linux 7.3), a full ring drops packets. With it, a full ring stops the link's transmit
//! queue, and packets wait in that queue's qdisc, still charged; the queue continues when half the ring was read.
//!
//! **Programs.** The queue of a packet and the packets that may enter a ring can be chosen by eBPF programs of type `socket filter`
//! ([`set_steering`], [`set_filter`]), which the link keeps until it is deleted.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

use crate::bpf::ProgramFd;
use crate::error::OsError;
use crate::link::{self, LinkError};
use crate::netns::{NetNs, NetNsError};
use crate::sysctl::release;
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
    /// The kernel's TAPs drop packets at a full ring.
    #[error(
        "a TAP of kernel {release} cannot hold senders back; that needs IFF_BACKPRESSURE, Linux 7.3 or later"
    )]
    NoBackpressure {
        /// The release of the running kernel.
        release: String,
    },
}

/// The treatment of a packet when the ring of its queue has no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FullRing {
    /// It is dropped and counted as `tx_dropped`.
    Drops,
    /// It waits in the queue's qdisc (`IFF_BACKPRESSURE`).
    HoldsBack,
}

/// The treatment of UDP super-packets (`UDP_SEGMENT`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UdpSegments {
    /// The stack cuts them before the ring.
    Cut,
    /// They are read whole (Linux 6.2).
    Whole,
}

/// The options of a TAP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TapOptions {
    /// The number of queues.
    pub queues: u32,
    /// The treatment of packets at a full ring.
    pub full_ring: FullRing,
    /// The treatment of UDP super-packets.
    pub udp_segments: UdpSegments,
}

/// The state of a link's carrier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// Packets can be sent.
    On,
    /// The cable is unplugged, as it were. The kernel empties the link's qdiscs.
    Off,
}

/// Makes a TAP link and opens all its queues. The link is down, and is deleted when its last queue is closed. A full ring drops.
///
/// The descriptors are non-blocking and close-on-exec. Frames carry a header of [`VNET_HEADER_LEN`] bytes, as those of a
/// macvtap do. The length of a ring is the link's txqueuelen.
pub fn create(ns: &NetNs, name: &str, queues: u32) -> Result<Vec<OwnedFd>, TapError> {
    create_with(ns, name, &TapOptions { queues, full_ring: FullRing::Drops, udp_segments: UdpSegments::Cut })
}

/// Makes a TAP link as [`create`] does, with options. Descriptor `i` of the result reads queue `i`.
///
/// # Errors
/// If the kernel lacks what the options need, or the link cannot be made.
pub fn create_with(ns: &NetNs, name: &str, options: &TapOptions) -> Result<Vec<OwnedFd>, TapError> {
    link::check_name(name)?;
    if !(1..=MAX_QUEUES).contains(&options.queues) {
        return Err(TapError::Queues { link: name.to_string(), asked: options.queues });
    }
    if options.full_ring == FullRing::HoldsBack {
        require_backpressure()?;
    }
    if link::exists(ns, name)? {
        return Err(LinkError::Exists { link: name.to_string(), ns: ns.to_string() }.into());
    }
    ns.run(|| (0..options.queues).map(|_| open_queue(ns, name, options)).collect())?
}

/// Checks that a TAP of this kernel can hold senders back. Needs no privilege beyond access to /dev/net/tun.
///
/// # Errors
/// [`TapError::NoBackpressure`] if it cannot; another error if that could not be found out.
pub fn require_backpressure() -> Result<(), TapError> {
    let failed = |e| OsError::new("query the features of TAP links (TUNGETFEATURES)", e);
    let queue = open_tun()?.map_err(|e| OsError::new("open /dev/net/tun", e))?;
    let features = tap_queue::features(queue.as_fd()).map_err(failed)?;
    let known = features & u32::from(tap_queue::IFF_BACKPRESSURE.unsigned_abs()) != 0;
    if known { Ok(()) } else { Err(TapError::NoBackpressure { release: release() }) }
}

/// Lets `program` choose the queue of each packet sent through the link: its result modulo the number of queues, of which the
/// kernel keeps 16 bits before the division.
///
/// # Errors
/// If the program has another type, or the kernel refuses.
pub fn set_steering(queue: BorrowedFd<'_>, program: &ProgramFd) -> Result<(), TapError> {
    let failed = |e| OsError::new("let a program choose the queues of a TAP (TUNSETSTEERINGEBPF)", e);
    Ok(tap_queue::set_steering(queue, program.as_fd()).map_err(failed)?)
}

/// Lets `program` see each packet after the qdisc and before its ring. The packet is dropped if the result is 0 and cut to the
/// result if that is shorter.
///
/// # Errors
/// If the program has another type, or the kernel refuses.
pub fn set_filter(queue: BorrowedFd<'_>, program: &ProgramFd) -> Result<(), TapError> {
    let failed = |e| OsError::new("let a program filter the packets of a TAP (TUNSETFILTEREBPF)", e);
    Ok(tap_queue::set_filter(queue, program.as_fd()).map_err(failed)?)
}

/// Turns the carrier of the queue's link on or off, in whatever namespace the link is.
///
/// # Errors
/// If the link no longer exists.
pub fn set_carrier(queue: BorrowedFd<'_>, carrier: Carrier) -> Result<(), TapError> {
    let failed = |e| OsError::new("set the carrier of a TAP (TUNSETCARRIER)", e);
    Ok(tap_queue::set_carrier(queue, (carrier == Carrier::On).into()).map_err(failed)?)
}

/// Opens the device; the inner error is the kernel's.
fn open_tun() -> Result<rustix::io::Result<OwnedFd>, TapError> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::open("/dev/net/tun", flags, Mode::empty()) {
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NODEV) => Err(TapError::NoTun),
        opened => Ok(opened),
    }
}

fn open_queue(ns: &NetNs, name: &str, options: &TapOptions) -> Result<OwnedFd, TapError> {
    let failed = |step: &str, e: rustix::io::Errno| {
        OsError::new(format!("create TAP {name} in {ns}: {step}"), e).needs("CAP_NET_ADMIN")
    };
    let queue = open_tun()?.map_err(|e| failed("open /dev/net/tun", e))?;
    let flags = match options.full_ring {
        FullRing::Drops => 0,
        FullRing::HoldsBack => tap_queue::IFF_BACKPRESSURE,
    };
    let offloads = match options.udp_segments {
        UdpSegments::Cut => 0,
        UdpSegments::Whole => tap_queue::UDP_OFFLOADS,
    };
    tap_queue::configure_with(queue.as_fd(), name, flags, offloads).map_err(|(step, e)| failed(step, e))?;
    Ok(queue)
}
