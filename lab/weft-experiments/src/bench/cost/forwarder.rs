//! The floor: the least that a NIC in user space does for a packet.
//!
//! It has the software NIC's devices and the same two threads, and nothing between them: one ring, no policy, no
//! doorbell, no cutting. The transmit thread reads a packet, writes it whole, and advances a clock of the link's rate;
//! ahead of the clock it sleeps, at least [`SLEEP_MIN`]. The receive thread moves packets the other way.

use super::error::CostError;
use super::processors::RECEIVE_THREAD;
use super::testbed::{PORT, PORT_MAC, Testbed, UPLINK};
use crate::testbed::schedstat::TRANSMIT_WORKER;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use weft_host::{NetNs, OsError, clock, link};
use weft_nic::link::Link;
use weft_nic::port::{Port, PortConfig, Uplink};
use weft_packet::ethernet;
use weft_packet::tap::{TapPacket, frame_bytes};
use weft_run::session::RING_PACKETS;
use weft_units::{BitsPerSec, Bytes, Nanos};

/// The shortest sleep of the transmit thread: each wake-up costs, and a bulk flow does not need it.
const SLEEP_MIN: Nanos = Nanos::from_millis(1);
/// The clock's largest lag, as in the software NIC's default.
const CATCH_UP: Nanos = Nanos::from_millis(10);
/// The longest delay of a stop.
const POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// The software NIC's threads have this niceness.
const NICENESS: i32 = -10;
/// The largest packet of a ring, with its virtio-net header and room to spare.
const BUFFER: usize = 80 << 10;

/// A running forwarder. Its devices are removed when it is dropped.
#[derive(Debug)]
pub(super) struct Forwarder {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    // Dropped before their namespace.
    _port: Port,
    _uplink: Uplink,
    _nic: NetNs,
}

impl Forwarder {
    /// Makes the port in the sender's namespace, and forwards at `rate`.
    pub(super) fn start(testbed: &Testbed, rate: BitsPerSec) -> Result<Self, CostError> {
        let nic = NetNs::anonymous()?;
        let parent = (&testbed.sender, UPLINK);
        let uplink = Uplink::on_interface(parent, (&nic, "floor-up"), PORT_MAC)?;
        let mut port = Port::create(&PortConfig {
            app: &testbed.sender,
            nic: &nic,
            name: PORT,
            mac: PORT_MAC,
            rings: 1,
            ring_packets: RING_PACKETS,
            single_backlog: true,
        })?;
        port.follow(link::show(&testbed.sender, UPLINK)?.mtu, true)?;
        let failed = |e| OsError::new("start the forwarder", e);
        let ring = port.take_rings().pop().ok_or_else(|| failed(std::io::Error::other("no ring")))?;
        let back = ring.try_clone().map_err(failed)?;
        let [out, home] = [uplink.queue().try_clone_to_owned(), uplink.queue().try_clone_to_owned()];
        let (out, home) = (out.map_err(failed)?, home.map_err(failed)?);
        let stop = Arc::new(AtomicBool::new(false));
        let mut forwarder =
            Self { stop: Arc::clone(&stop), threads: Vec::new(), _port: port, _uplink: uplink, _nic: nic };
        let stopped = Arc::clone(&stop);
        forwarder.spawn(TRANSMIT_WORKER, move || transmit(&ring, &out, rate, &stopped))?;
        forwarder.spawn(RECEIVE_THREAD, move || receive(&home, &back, &stop))?;
        forwarder._port.up()?;
        Ok(forwarder)
    }

    fn spawn(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), CostError> {
        let raised = move || {
            let _ = rustix::process::setpriority_process(None, NICENESS);
            run();
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(raised);
        self.threads.push(thread.map_err(|e| OsError::new(format!("start the thread {name}"), e))?);
        Ok(())
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The reason that the transmit thread pauses.
enum Pause {
    /// The link is busy for this time.
    Busy(Nanos),
    /// The ring is empty.
    Empty,
    /// The uplink has no room for the packet of this length in the buffer.
    Full(usize),
    /// A device no longer exists.
    Gone,
}

fn transmit(ring: &OwnedFd, uplink: &OwnedFd, rate: BitsPerSec, stop: &AtomicBool) {
    let mut link = Link::new(rate, CATCH_UP, clock::now());
    let mut buffer = vec![0; BUFFER];
    let mut kept = None;
    while !stop.load(Ordering::Relaxed) {
        link.follow(clock::now());
        match send_while_free((ring, uplink), &mut link, &mut buffer, kept.take()) {
            Pause::Busy(span) => std::thread::sleep(Duration::from(span.max(SLEEP_MIN))),
            Pause::Empty => {
                wait(ring, PollFlags::IN);
                link.idle_until(clock::now());
            }
            Pause::Full(length) => {
                kept = Some(length);
                wait(uplink, PollFlags::OUT);
            }
            Pause::Gone => return,
        }
    }
}

/// Sends until it must pause; first the packet that the buffer `kept`.
fn send_while_free(
    (ring, uplink): (&OwnedFd, &OwnedFd),
    link: &mut Link,
    buffer: &mut [u8],
    mut kept: Option<usize>,
) -> Pause {
    loop {
        let now = clock::now();
        if let Some(until) = link.busy_until(now) {
            return Pause::Busy(until.saturating_since(now));
        }
        let length = match kept.take().map_or_else(|| rustix::io::read(ring, &mut *buffer), Ok) {
            Ok(length) => length,
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => return Pause::Empty,
            Err(_) => return Pause::Gone,
        };
        match rustix::io::write(uplink, &buffer[..length]) {
            Err(Errno::AGAIN) => return Pause::Full(length),
            // A refused packet is lost, as on a wire; the clock counts it.
            _ => _ = link.send(wire_bytes(&buffer[..length])),
        }
    }
}

/// The packet's bytes on the wire, each segment with its own headers.
fn wire_bytes(read: &[u8]) -> Bytes {
    let whole = || ethernet::wire_of(frame_bytes(read.len()).unwrap_or(Bytes::ZERO));
    let cut = TapPacket::parse(read).and_then(|packet| packet.segmentation());
    cut.map_or_else(whole, |packet| packet.wire_bytes(0, packet.segments()))
}

fn receive(uplink: &OwnedFd, port: &OwnedFd, stop: &AtomicBool) {
    let mut buffer = vec![0; BUFFER];
    while !stop.load(Ordering::Relaxed) {
        match rustix::io::read(uplink, &mut *buffer) {
            // A packet that the port refuses is lost, as on a wire.
            Ok(length) => _ = rustix::io::write(port, &buffer[..length]),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait(uplink, PollFlags::IN),
            Err(_) => return,
        }
    }
}

fn wait(device: &OwnedFd, event: PollFlags) {
    let _ = poll(&mut [PollFd::from_borrowed_fd(device.as_fd(), event)], Some(&POLL));
}
