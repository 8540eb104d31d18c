//! Rings out of step with their doorbells: late packets, lost packets and strays.
//!
//! * Late: the ring of a posted doorbell is empty (`put_aside`). It is fetched again at increasing intervals
//!   ([`LateRings`](crate::late::LateRings), `retry_late`).
//! * Lost: the packets are still missing after [`NEVER_CAME`](crate::ring_accounting::NEVER_CAME). The accounting gives
//!   them up, which frees their places.
//! * Stray: a packet without a doorbell. The sweep finds it (`sweep`).

use super::{Engine, LATE_READS, SWEEP_RINGS, Worker};
use crate::records::RecordSource;
use crate::ring::Fetch;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use weft_host::clock;
use weft_units::Instant;

impl<R: RecordSource, E: Engine> Worker<'_, R, E> {
    /// Handles an empty ring. If its doorbell was ahead of a packet, the ring is marked as late and retried soon.
    pub(super) fn put_aside(&mut self, number: usize) {
        let now = clock::now();
        let ring = &mut self.rings[number];
        if ring.settle_empty(now) {
            return;
        }
        ring.late = true;
        ring.counters.doorbell_ahead.add(1, 0);
        self.late.begin(number, now);
    }

    /// Fetches again from late rings that are due, at most [`LATE_READS`]. Packets that remain missing are given up. Returns
    /// whether a packet has arrived.
    pub(super) fn retry_late(&mut self, wall: Instant) -> bool {
        let mut any = false;
        for _ in 0..LATE_READS {
            let Some(number) = self.late.take_due(wall) else { break };
            self.parts.counters.late_reads.add(1, 0);
            self.engine.fetch_begins(self.rings[number].flow, true);
            let packet = match self.rings[number].fetch(&mut self.pool) {
                Fetch::Packet(packet) => Some(packet),
                // A failing ring fails again when its turn comes.
                Fetch::Empty | Fetch::Failed(_) => None,
            };
            let found = packet.is_some();
            if let Some(packet) = packet {
                self.accept(number, packet);
                self.activate(number);
            }
            self.fetch_ends(number);
            any |= found;
            if found || self.rings[number].settle_empty(wall) {
                self.rings[number].late = false;
                self.late.end(number);
            } else {
                self.late.again(number, wall);
            }
        }
        any
    }

    /// Finds packets without a doorbell in the next [`SWEEP_RINGS`] rings: strays, and packets that arrived after they
    /// were given up. One poll. Also notes the time at which their packets have passed, and deleted devices.
    pub(super) fn sweep(&mut self, wall: Instant) -> bool {
        let first = if self.sweep_from < self.rings.len() { self.sweep_from } else { 0 };
        let end = self.rings.len().min(first + SWEEP_RINGS);
        self.sweep_from = end;
        self.rings[first..end].iter_mut().for_each(|ring| ring.note_passed(wall));
        self.look_at_drains(first..end, wall);
        let rings = self.rings[first..end].iter().enumerate();
        let (slots, mut fds): (Vec<usize>, Vec<PollFd<'_>>) = rings
            .filter_map(|(at, ring)| Some((first + at, PollFd::new(ring.fd.as_ref()?, PollFlags::IN))))
            .unzip();
        let zero = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut fds, Some(&zero)).unwrap_or(0) == 0 {
            return false;
        }
        let events: Vec<(usize, PollFlags)> =
            slots.into_iter().zip(fds.iter().map(PollFd::revents)).collect();
        let mut found = false;
        for (number, events) in events {
            if events.contains(PollFlags::IN) {
                found = true;
                if !self.rings[number].late {
                    self.activate(number);
                }
            } else if events.contains(PollFlags::ERR) && self.rings[number].fd.is_some() {
                self.fail_port(self.rings[number].port, Errno::NODEV);
            }
        }
        found
    }
}
