//! The other direction: what the uplink receives goes to the port unscheduled. A thread of its own, since acknowledgements
//! that wait for the transmit worker let senders run dry (research: T0's p99 halves).

use crate::counters::Counters;
use crate::ring::FRAME_BYTES;
use crate::worker::{MODERATION, raise_thread_priority};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use weft_packet::vnet::VnetHeader;

/// Packets moved before the thread looks at anything else.
const BURST: usize = 64;

/// Moves packets from `uplink` to `port` until `stop` says so.
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
            // Acknowledgements come in crowds: rather a short sleep than a wake-up for each.
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

/// Moves one packet. Returns false when there is none.
fn forward(uplink: &OwnedFd, port: &OwnedFd, buffer: &mut [u8], counters: &Counters) -> bool {
    let length = match rustix::io::read(uplink, &mut *buffer) {
        Ok(n) if n > VnetHeader::LEN => n,
        Err(Errno::INTR) => return true,
        _ => return false,
    };
    let bytes = (length - VnetHeader::LEN) as u64;
    counters.reverse.add(1, bytes);
    match rustix::io::write(port, &buffer[..length]) {
        Ok(written) => counters.reverse_passed.add(1, written.saturating_sub(VnetHeader::LEN) as u64),
        Err(_) => counters.reverse_refused.add(1, bytes),
    }
    true
}
