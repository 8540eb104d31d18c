//! The receive direction in a thread, which moves packets from the uplink to the port, unscheduled: all of them, or those
//! that the kernel's redirect ([`redirect`](crate::redirect)) leaves.
//!
//! One iteration:
//! 1. Move up to [`BURST`] packets: read one from the uplink, write it to the port.
//! 2. After a full burst, repeat at once. After more than one packet, sleep for the moderation interval, since
//!    acknowledgements arrive in bursts.
//! 3. Otherwise poll the uplink until a packet arrives, for at most 50 ms, the longest delay of a stop.
//! 4. End when the uplink's device no longer exists.
//!
//! The thread is separate from the transmit worker because acknowledgements that wait for that worker leave senders
//! without data (measured: the 99th percentile of T0 halves). It shares only the two descriptors and the counters, and
//! is the single writer of the rx counters.
//!
//! Balance: packets read = passed + refused by the port. A read error counts nothing: no packet was read, and the
//! device's own counters have its drops. A read shorter than a virtio-net header is not a packet and cannot come from
//! these devices.

use crate::counters::Counters;
use crate::ring::FRAME_BYTES;
use crate::worker::{MODERATION, raise_thread_priority};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use weft_packet::tap::frame_bytes;
use weft_units::Bytes;

/// Packets moved before the stop flag is checked.
const BURST: usize = 64;

/// Moves packets from `uplink` to `port` until `stop` returns true.
pub(crate) fn run(uplink: &OwnedFd, port: &OwnedFd, counters: &Counters, stop: impl Fn() -> bool) {
    raise_thread_priority();
    let mut buffer = vec![0; FRAME_BYTES];
    let timeout = rustix::time::Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    while !stop() {
        let mut moved = 0;
        while moved < BURST && forward(uplink, port, &mut buffer, counters) {
            moved += 1;
        }
        if moved == BURST {
            continue;
        }
        if moved > 1 {
            // Acknowledgements arrive in bursts: one short sleep is cheaper than a wake-up per packet.
            let pause = rustix::time::Timespec { tv_sec: 0, tv_nsec: MODERATION.get() as i64 };
            let _ = poll(&mut [], Some(&pause));
            continue;
        }
        let mut fds = [PollFd::new(uplink, PollFlags::IN)];
        let _ = poll(&mut fds, Some(&timeout));
        if fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
            return;
        }
    }
}

/// Moves one packet. Returns false when the uplink has no packet.
fn forward(uplink: &OwnedFd, port: &OwnedFd, buffer: &mut [u8], counters: &Counters) -> bool {
    let length = match rustix::io::read(uplink, &mut *buffer) {
        Ok(length) => length,
        Err(Errno::INTR) => return true,
        Err(_) => return false,
    };
    let Some(Bytes(bytes)) = frame_bytes(length) else { return false };
    counters.rx.add(1, bytes);
    match rustix::io::write(port, &buffer[..length]) {
        Ok(written) => counters.rx_passed.add(1, frame_bytes(written).map_or(0, Bytes::get)),
        Err(_) => counters.rx_refused.add(1, bytes),
    }
    true
}
