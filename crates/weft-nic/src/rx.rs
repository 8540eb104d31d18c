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
//! Balance: packets read = passed + refused by the port. A read shorter than a virtio-net header is not a packet and
//! cannot come from these devices.
//!
//! Rare branches and their counters: a failed read (`rx_read_failed`) takes no packet, and the device's own counters have its
//! drops. An end without a stop (`rx_ended`) leaves the port without packets from the uplink.

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
            counters.rx_ended.set(u64::from(!stop()));
            return;
        }
    }
}

/// Moves one packet. Returns false when the uplink has no packet.
fn forward(uplink: &OwnedFd, port: &OwnedFd, buffer: &mut [u8], counters: &Counters) -> bool {
    let length = match rustix::io::read(uplink, &mut *buffer) {
        Ok(length) => length,
        Err(Errno::INTR) => return true,
        Err(Errno::AGAIN) => return false,
        Err(_) => {
            counters.rx_read_failed.add(1, 0);
            return false;
        }
    };
    let Some(Bytes(bytes)) = frame_bytes(length) else { return false };
    counters.rx.add(1, bytes);
    match rustix::io::write(port, &buffer[..length]) {
        Ok(written) => counters.rx_passed.add(1, frame_bytes(written).map_or(0, Bytes::get)),
        Err(_) => counters.rx_refused.add(1, bytes),
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{OFlags, fcntl_setfl};
    use weft_units::Packets;

    /// A pipe in place of a device: the end that is read does not wait.
    fn pipe() -> (OwnedFd, OwnedFd) {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        fcntl_setfl(&reader, OFlags::NONBLOCK).expect("a flag");
        (reader.into(), writer.into())
    }

    #[test]
    fn a_failed_read_is_counted_and_an_empty_uplink_is_not() {
        let counters = Counters::new(1, 0);
        let (empty, sink) = pipe();
        let mut buffer = vec![0; FRAME_BYTES];
        assert!(!forward(&empty, &sink, &mut buffer, &counters));
        assert_eq!(counters.rx_read_failed.get().packets, Packets(0));
        // The end of a pipe that is only written.
        assert!(!forward(&sink, &sink, &mut buffer, &counters));
        assert_eq!(counters.rx_read_failed.get().packets, Packets(1));
        assert_eq!(counters.rx.get().packets, Packets(0));
    }

    #[test]
    fn an_end_without_a_stop_is_recorded() {
        let counters = Counters::new(1, 0);
        let end_of_uplink = || {
            let (uplink, sender) = pipe();
            drop(sender);
            uplink
        };
        let (_port, sink) = pipe();
        run(&end_of_uplink(), &sink, &counters, || true);
        assert_eq!(counters.rx_ended.get(), 0, "it was asked to stop");
        run(&end_of_uplink(), &sink, &counters, || false);
        assert_eq!(counters.rx_ended.get(), 1);
    }
}
