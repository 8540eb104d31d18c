//! The receive direction in the kernel: an eBPF program at the ingress of the uplink's device, which sends arriving
//! packets out of the port's far end. The port receives them without a copy or a wake-up of this process.
//!
//! `ReceivePath::choose`, in this order:
//! 1. A TAP as the uplink has no ingress that the network's packets pass, a TAP as the port has no far end, and a device
//!    of another namespace than the far end's cannot be redirected to it. These leave the receive direction to the thread.
//! 2. The program is loaded with the far end's number, and attached to the uplink's device (clsact).
//!
//! The program is not attached to the user's interface. The uplink's device is a macvtap on it, whose ingress sees
//! exactly the packets for the port, after all programs of the interface. It is in the NIC's own namespace, beside the
//! far end, so the same program serves a port in any namespace.
//!
//! Ownership: the filter holds the program, and the device holds the filter. Both go with the device, and so with the
//! process, however it ends. [`Redirect`] holds the counters' map.
//!
//! Balance: packets redirected + read by the thread = delivered to the port + dropped there. The program counts the first,
//! `rx` the second, and the kernel's devices the others ([`Port::deliveries`]).
//!
//! The thread always runs: it moves what passes the program, and everything where no program exists. A refused program is
//! no error unless [`Receive::Kernel`] requires it; [`ReceivePath`] has the reason.

use crate::port::{Port, PortError, Receive, Uplink};
use core::fmt;
use core::time::Duration;
use weft_host::Mac;
use weft_host::bpf::{BpfError, FilterId, MapFd, Object, ObjectOptions};
use weft_host::netns::NetNsError;
use weft_units::Counted;

/// The compiled eBPF object, built from `bpf/receive.bpf.c` by this crate's build script.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/receive.bpf.o"));

/// The name of the program.
pub const PROGRAM: &str = "weft_receive";
/// The map of its counters: a `struct weft_received` per core.
const MAP: &str = "received";

/// The pause between two readings of a counter that must no longer change.
const PAUSE: Duration = Duration::from_millis(2);
/// The maximum number of such readings: packets under way take microseconds.
const READINGS: u32 = 50;

/// The carrier of received packets, from the uplink's device to the port.
#[derive(Debug)]
pub enum ReceivePath {
    /// The kernel, by redirect.
    Kernel(Redirect),
    /// The receive thread, with the reason.
    Thread(ThreadReason),
}

/// The reason that the thread moves received packets.
#[derive(Debug, thiserror::Error)]
pub enum ThreadReason {
    /// The configuration requires the thread.
    #[error("as requested")]
    Requested,
    /// The uplink is a TAP.
    #[error("the uplink is a TAP, whose packets only a process can take")]
    Tap,
    /// The port is a TAP.
    #[error("the port is a TAP, which has no far end to redirect packets to")]
    TapPort,
    /// The uplink's device cannot be redirected to the port's far end.
    #[error("the uplink's device {uplink} and the port's far end are in different network namespaces")]
    OtherNamespace {
        /// The device.
        uplink: String,
    },
    /// A namespace failed.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// A device no longer exists.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The kernel refused the program.
    #[error(transparent)]
    Bpf(#[from] BpfError),
}

impl fmt::Display for ReceivePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(_) => f.write_str("in the kernel (redirect)"),
            Self::Thread(reason) => write!(f, "by a thread: {reason}"),
        }
    }
}

impl ReceivePath {
    /// Attaches the program where the uplink's configuration and the kernel allow it. `own`: the hardware address of a
    /// port that sends through another device.
    ///
    /// # Errors
    /// With [`Receive::Kernel`] only, when the program cannot be attached.
    pub(crate) fn choose(port: &Port, uplink: &Uplink, own: Option<Mac>) -> Result<Self, ThreadReason> {
        match (uplink.receive(), Redirect::attach(port, uplink, own)) {
            (_, Ok(redirect)) => Ok(Self::Kernel(redirect)),
            (Receive::Kernel, Err(reason)) => Err(reason),
            (Receive::Auto | Receive::Thread, Err(reason)) => Ok(Self::Thread(reason)),
        }
    }

    /// The reason that the thread is used where the kernel was requested; `None` where the choice was carried out.
    pub fn fallback(&self) -> Option<&ThreadReason> {
        match self {
            Self::Kernel(_) | Self::Thread(ThreadReason::Requested) => None,
            Self::Thread(reason) => Some(reason),
        }
    }

    /// The packets redirected so far.
    ///
    /// # Errors
    /// When the kernel refuses to read the counters.
    pub(crate) fn redirected(&self) -> Result<Counted, BpfError> {
        match self {
            Self::Kernel(redirect) => redirect.count(),
            Self::Thread(_) => Ok(Counted::default()),
        }
    }

    /// Ends the redirect, so that its counters no longer change. The uplink can no longer send.
    pub(crate) fn close(&self, uplink: &Uplink) {
        let Self::Kernel(redirect) = self else { return };
        // Returns after a grace period: no packet is between the device and the far end then. Broadcast packets may
        // still be in a core's backlog. An error means that the device no longer exists.
        let _ = uplink.take_down();
        let mut before = redirect.count().ok();
        for _ in 0..READINGS {
            std::thread::sleep(PAUSE);
            let now = redirect.count().ok();
            if now == before {
                break;
            }
            before = now;
        }
    }
}

/// The attached program.
#[derive(Debug)]
pub struct Redirect {
    object: Object,
    filter: FilterId,
}

impl Redirect {
    fn attach(port: &Port, uplink: &Uplink, own: Option<Mac>) -> Result<Self, ThreadReason> {
        if uplink.receive() == Receive::Thread {
            return Err(ThreadReason::Requested);
        }
        let device = uplink.ingress().ok_or(ThreadReason::Tap)?;
        if port.tap_queue().is_some() {
            return Err(ThreadReason::TapPort);
        }
        if uplink.namespace().inode()? != port.nic().inode()? {
            return Err(ThreadReason::OtherNamespace { uplink: uplink.name().to_owned() });
        }
        let object = load(port.peer_index()?, own, None)?;
        let filter = uplink.namespace().run(|| object.attach_ingress(PROGRAM, device))??;
        Ok(Self { object, filter })
    }

    /// Takes over from the program of a former process: a new program in the place of `filter`, with the counters in
    /// `received`.
    ///
    /// # Errors
    /// When a device no longer exists, or the kernel refuses.
    pub(crate) fn adopt(
        port: &Port,
        uplink: &Uplink,
        own: Option<Mac>,
        (filter, received): (FilterId, &MapFd),
    ) -> Result<Self, ThreadReason> {
        let device = uplink.ingress().ok_or(ThreadReason::Tap)?;
        let object = load(port.peer_index()?, own, Some(received))?;
        let filter = uplink.namespace().run(|| object.replace_ingress(PROGRAM, device, filter))??;
        Ok(Self { object, filter })
    }

    /// The filter at the uplink's device, and the map of the counters, for a successor of this process.
    ///
    /// # Errors
    /// When the descriptor cannot be duplicated.
    pub(crate) fn kept(&self) -> Result<(FilterId, MapFd), BpfError> {
        Ok((self.filter, self.object.map_fd(MAP)?))
    }

    /// The sum of the cores' counters.
    fn count(&self) -> Result<Counted, BpfError> {
        let cores = self.object.per_cpu(MAP, 0)?;
        Ok(cores.iter().map(|core| element(core)).sum())
    }
}

/// Loads the program for the device with number `far_end`; 0: it drops everything. Without `own` no packet is the
/// port's own.
fn load(far_end: u32, own: Option<Mac>, received: Option<&MapFd>) -> Result<Object, BpfError> {
    let reuse: Vec<(&str, &MapFd)> = received.into_iter().map(|map| (MAP, map)).collect();
    let mut receiver = [0; RECEIVER];
    receiver[..4].copy_from_slice(&far_end.to_ne_bytes());
    receiver[4..10].copy_from_slice(&own.map_or([0; 6], |mac| mac.0));
    let rodata = Some(&receiver[..]);
    let options = ObjectOptions { name: "receive", rodata, reuse: &reuse, ..ObjectOptions::default() };
    Object::load_with(OBJECT, &options)
}

/// Drops what arrives at `uplink`, a device that only transmits: broadcast and multicast, which the kernel gives every
/// device on an interface.
///
/// # Errors
/// When the kernel refuses the program. The packets then fill the device's queue, which drops the others.
pub(crate) fn discard(uplink: &Uplink) -> Result<(), ThreadReason> {
    let device = uplink.ingress().ok_or(ThreadReason::Tap)?;
    let object = load(0, None, None)?;
    // The filter holds the program.
    uplink.namespace().run(|| object.attach_ingress(PROGRAM, device))??;
    Ok(())
}

/// The size of `struct weft_receiver`: `far_end`, then `mac`.
const RECEIVER: usize = 12;

/// The offsets of `packets` and `bytes` in `struct weft_received`.
const AT: [usize; 2] = [0, 8];

/// One core's element of the map.
fn element(bytes: &[u8]) -> Counted {
    let number = |at: usize| {
        bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().map_or(0, u64::from_ne_bytes)
    };
    Counted::new(number(AT[0]), number(AT[1]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_host::bpf::StructLayout;

    #[test]
    fn the_counters_are_the_programs_field_by_field() {
        let layout = StructLayout::of(OBJECT, "weft_received").expect("the object has its types");
        let offsets = [layout.offset("packets"), layout.offset("bytes")];
        assert_eq!((offsets, layout.size, layout.offsets.len()), (AT.map(Some), 16, 2));
        let receiver = StructLayout::of(OBJECT, "weft_receiver").expect("the object has its types");
        let offsets = [receiver.offset("far_end"), receiver.offset("mac")];
        assert_eq!((offsets, receiver.size), ([Some(0), Some(4)], RECEIVER));
        let bytes: Vec<u8> = [7_u64, 600].iter().flat_map(|n| n.to_ne_bytes()).collect();
        assert_eq!(element(&bytes), Counted::new(7, 600));
    }

    #[test]
    fn a_thread_is_named_with_its_reason() {
        let refused = BpfError::Absent { what: "program", name: PROGRAM.to_owned() };
        let path = ReceivePath::Thread(ThreadReason::Bpf(refused));
        let text = path.to_string();
        assert!(text.starts_with("by a thread: eBPF: ") && text.contains(PROGRAM), "{text}");
        assert!(path.fallback().is_some());
        assert!(ReceivePath::Thread(ThreadReason::Requested).fallback().is_none());
    }
}
