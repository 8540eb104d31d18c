//! macvtap links: the descriptor rings of the software NIC.
//!
//! A macvtap in passthru mode receives every packet that its parent link receives. It holds the packet, still charged to
//! the sender's socket, in one of up to 256 rings until user space reads it. A full ring drops packets.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoMacVtap, LinkAttribute, LinkInfo, LinkMessage, MacVlanMode,
};
use rustix::fs::{Dir, FileType, Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use crate::error::OsError;
use crate::link::{self, LinkError, Mac};
use crate::netlink::Netlink;
use crate::netns::{NetNs, NetNsError};
use crate::tap_queue;

pub use crate::tap_queue::VNET_HEADER_LEN;

/// The most queues that one macvtap can have (the kernel's MAX_TAP_QUEUES).
pub const MAX_QUEUES: u32 = 256;

/// An error of a macvtap operation.
#[derive(Debug, thiserror::Error)]
pub enum MacvtapError {
    /// The kernel refused a call.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The link could not be made or found.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The namespace could not be entered.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// More queues than the kernel supports.
    #[error(
        "macvtap {link}: {asked} queues were requested, but a macvtap has 1 to {MAX_QUEUES}; use several"
    )]
    Queues {
        /// The link.
        link: String,
        /// The number of queues requested.
        asked: u32,
    },
    /// Other processes hold queues of this macvtap, and the total would exceed the limit.
    #[error(
        "macvtap {link}: opening queue {opened} failed because all {MAX_QUEUES} are taken; close those that another \
         process holds"
    )]
    NoQueueLeft {
        /// The link.
        link: String,
        /// The number of queues that this call had opened.
        opened: u32,
    },
    /// The link exists but is not a macvtap.
    #[error("link {link} of {ns} is not a macvtap: it has no tap device in sysfs")]
    NotMacvtap {
        /// The link.
        link: String,
        /// Its namespace.
        ns: String,
    },
}

/// The result of a macvtap operation.
pub type Result<T> = std::result::Result<T, MacvtapError>;

/// The relation of a macvtap to its parent link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MacvtapMode {
    /// It takes over the parent: it receives everything that arrives there, and sends as the parent.
    Passthru,
    /// It is one of several on the parent, each with its own address, which can reach each other.
    Bridge,
}

/// Makes a macvtap on the link `parent` in the same namespace. It is down.
///
/// `txqueuelen` is the length of each queue's ring in packets. It should be at least twice the number of flows that can share
/// a queue, since every flow may have two segments in it. In passthru mode the parent also gets the address `mac`.
pub fn create(
    ns: &NetNs,
    parent: &str,
    name: &str,
    mode: MacvtapMode,
    queues: u32,
    txqueuelen: u32,
    mac: Option<Mac>,
) -> Result<()> {
    create_across((ns, parent), (ns, name), &MacvtapOptions { mode, queues, txqueuelen, mac })
}

/// Options for a macvtap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacvtapOptions {
    /// Its relation to the parent.
    pub mode: MacvtapMode,
    /// The number of its queues.
    pub queues: u32,
    /// The length of each queue's ring in packets.
    pub txqueuelen: u32,
    /// Its hardware address; `None` to let the kernel choose.
    pub mac: Option<Mac>,
}

/// Makes a macvtap in one namespace on the link `parent` of another. It is removed with either namespace.
pub fn create_across(
    (parent_ns, parent): (&NetNs, &str),
    (ns, name): (&NetNs, &str),
    options: &MacvtapOptions,
) -> Result<()> {
    let MacvtapOptions { mode, queues, txqueuelen, mac } = *options;
    link::check_name(name)?;
    if !(1..=MAX_QUEUES).contains(&queues) {
        return Err(MacvtapError::Queues { link: name.to_string(), asked: queues });
    }
    let mode = match mode {
        MacvtapMode::Passthru => MacVlanMode::Passthrough,
        MacvtapMode::Bridge => MacVlanMode::Bridge,
    };
    let mut message = LinkMessage::default();
    message.attributes = vec![
        LinkAttribute::IfName(name.to_string()),
        LinkAttribute::NetNsFd(ns.fd().as_raw_fd()),
        LinkAttribute::Link(link::index(parent_ns, parent)?),
        LinkAttribute::NumTxQueues(queues),
        LinkAttribute::NumRxQueues(queues),
        LinkAttribute::TxQueueLen(txqueuelen),
        LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::MacVtap),
            LinkInfo::Data(InfoData::MacVtap(vec![InfoMacVtap::Mode(mode)])),
        ]),
    ];
    if let Some(mac) = mac {
        message.attributes.push(LinkAttribute::Address(mac.0.to_vec()));
    }
    Netlink::open(parent_ns)?
        .request(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
        .map_err(|e| link::refused_new(e, ns, name, "macvtap", "CONFIG_MACVTAP"))?;
    Ok(())
}

/// Opens `n` queues of the macvtap. Descriptor `i` of the result reads queue `i` if no other process holds a queue.
///
/// The descriptors are non-blocking and close-on-exec. A read returns one packet: a `virtio_net_hdr_mrg_rxbuf` of
/// [`VNET_HEADER_LEN`] bytes, then the Ethernet frame, uncut (up to 64 KB), with its checksum incomplete if the header
/// says so. A write takes the same format and sends through the parent.
///
/// The device node is found and opened without visible side effects: sysfs of the namespace and a tmpfs for the node are
/// mounted detached, where no other process sees them.
pub fn open_queues(ns: &NetNs, name: &str, n: u32) -> Result<Vec<OwnedFd>> {
    if !(1..=MAX_QUEUES).contains(&n) {
        return Err(MacvtapError::Queues { link: name.to_string(), asked: n });
    }
    link::index(ns, name)?;
    ns.run(|| open_queues_here(ns, name, n))?
}

/// Limits the kernel memory, in bytes, of packets written to a queue that still wait below it: in the parent's queueing
/// discipline and driver, as long as these keep packets charged. A write beyond the limit fails with EAGAIN; POLLOUT follows
/// when less than half is in use.
pub fn set_send_buffer(queue: BorrowedFd<'_>, bytes: u32) -> Result<()> {
    tap_queue::set_send_buffer(queue, bytes).map_err(|e| {
        OsError::new(format!("bound what waits below a macvtap to {bytes} bytes (TUNSETSNDBUF)"), e)
    })?;
    Ok(())
}

/// Closes queues. At each the kernel waits for a grace period of RCU (`tap_release`, drivers/net/tap.c), some 10 ms; threads that
/// wait at the same time share it.
pub fn close_queues(queues: Vec<OwnedFd>) {
    const THREADS: usize = 32;
    let each = queues.len().div_ceil(THREADS).max(1);
    let mut rest = queues.into_iter();
    std::thread::scope(|scope| {
        loop {
            let part: Vec<OwnedFd> = rest.by_ref().take(each).collect();
            if part.is_empty() {
                break;
            }
            // Without another thread, the part is closed here, with the closure.
            let _ = std::thread::Builder::new().spawn_scoped(scope, move || drop(part));
        }
    });
}

fn open_queues_here(ns: &NetNs, name: &str, n: u32) -> Result<Vec<OwnedFd>> {
    let failed = |step: &str, e: rustix::io::Errno| {
        OsError::new(format!("open the queues of macvtap {name} of {ns}: {step}"), e).needs("CAP_SYS_ADMIN")
    };
    let sysfs = mount_detached(c"sysfs").map_err(|e| failed("mount sysfs", e))?;
    let device = match device_number(sysfs.as_fd(), name).map_err(|e| failed("read its device number", e))? {
        Some(device) => device,
        None => return Err(MacvtapError::NotMacvtap { link: name.to_string(), ns: ns.to_string() }),
    };
    let tmpfs = mount_detached(c"tmpfs").map_err(|e| failed("mount a tmpfs for its device node", e))?;
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(&tmpfs, c"tap", FileType::CharacterDevice, mode, device)
        .map_err(|e| failed("make its device node", e))?;
    let mut queues = Vec::with_capacity(n as usize);
    for opened in 0..n {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let queue = match rustix::fs::openat(&tmpfs, c"tap", flags, Mode::empty()) {
            Ok(queue) => queue,
            Err(rustix::io::Errno::BUSY) => {
                return Err(MacvtapError::NoQueueLeft { link: name.to_string(), opened });
            }
            Err(e) => return Err(failed("open its device node", e).into()),
        };
        tap_queue::configure(queue.as_fd(), name).map_err(|(step, e)| failed(step, e))?;
        queues.push(queue);
    }
    Ok(queues)
}

/// Mounts a file system of the calling thread's namespaces, detached from the directory tree.
fn mount_detached(kind: &CStr) -> rustix::io::Result<OwnedFd> {
    let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(context.as_fd())?;
    rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

/// Reads `class/net/NAME/tapINDEX/dev`; `None` if the link has no tap.
fn device_number(sysfs: BorrowedFd<'_>, name: &str) -> rustix::io::Result<Option<u64>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let path = format!("class/net/{name}/macvtap");
    let directory = match rustix::fs::openat(sysfs, path, flags | OFlags::DIRECTORY, Mode::empty()) {
        Ok(directory) => directory,
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(e) => return Err(e),
    };
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        if entry.file_name().to_bytes().starts_with(b"tap") {
            let path = [entry.file_name().to_bytes(), b"/dev"].concat();
            let text = read_text(rustix::fs::openat(&directory, path, flags, Mode::empty())?)?;
            return Ok(text.trim().split_once(':').and_then(|(major, minor)| {
                Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
            }));
        }
    }
    Ok(None)
}

fn read_text(fd: OwnedFd) -> rustix::io::Result<String> {
    io::read_to_string(std::fs::File::from(fd))
        .map_err(|e| rustix::io::Errno::from_io_error(&e).unwrap_or(rustix::io::Errno::IO))
}
