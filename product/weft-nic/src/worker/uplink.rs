//! Writing chunks to the uplink, and waiting while it has no room.
//!
//! Steps of `send_chunk`:
//! 1. Determine the chunk: the segments per turn of the engine or of the configuration, or the whole packet.
//! 2. Compute its bytes on the wire.
//! 3. Write it with one system call: headers from the chunk's buffer, payload from the ring's.
//! 4. On success or refusal, advance the link's clock and the counters. When the packet is complete, publish the ring's
//!    `done` count.
//! 5. Without room (`EAGAIN`, `ENOBUFS`, `ENOMEM`), change nothing, and let the worker wait in `wait_for_room`.
//!
//! Rule: a chunk without room stays in its ring, and the engine decides anew when there is room. Packets therefore
//! queue where the policy chooses among them, whatever the uplink's real rate.
//!
//! Rare branches: every failed write counts in `uplink_failed`, every wait in `uplink_waits`, and a refused packet in
//! `refused` of its class, with the rest of its segments. A packet refused after [`MEMORY_PATIENCE`] is one of these.
//! `EINTR` is retried and needs no counter, as it has no effect. A segment that cannot be built counts as refused
//! (`EINVAL`), and so does a packet above [`FRAME_MAX`] (`EMSGSIZE`): it comes from a port whose limit another program has
//! raised, and would keep the other classes waiting for longer than the bounds of the policy say.

use super::rings::End;
use super::{Engine, Room, SLEEP_MAX, SegmentsPerTurn, WakeFor, Worker, timespec};
use crate::departures::Chunk;
use crate::doorbell::protocol;
use crate::flow_records::RecordSource;
use crate::ring::{FRAME_MAX, Fetched};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::io::IoSlice;
use std::os::fd::AsFd;
use weft_host::clock;
use weft_packet::ethernet::wire_of;
use weft_packet::segment::{Checksum, SuperPacket};
use weft_packet::tap::frame_bytes;
use weft_units::{BitsPerSec, Bytes, Instant, Nanos};

/// The wait after the kernel had no memory for a chunk, as it sends no notification when there is some.
const MEMORY_PAUSE: Nanos = Nanos::from_millis(1);
/// The number of consecutive failures for lack of memory after which a packet is dropped: a tenth of a second.
const MEMORY_PATIENCE: u32 = 100;
/// The time allowed to the posting side between the ring's bit and the wake-up. It does not sleep in between, but its
/// processor may be a virtual one that is not running.
const RINGING: Nanos = Nanos::from_millis(20);

impl<R: RecordSource, E: Engine> Worker<'_, R, E> {
    /// Sends the next chunk of the packet in ring `number`. Returns its bytes on the wire, or the exhausted resource.
    pub(super) fn send_chunk(&mut self, number: usize, wall: Instant) -> Result<Bytes, Room> {
        let Some(fetched) = self.rings[number].fetched.as_ref() else { return Ok(Bytes::ZERO) };
        let (total, first) = (fetched.segments(), fetched.next_segment);
        let segments_per_turn = match fetched.packet.segmentation() {
            Some(packet) => self
                .engine
                .segments_per_turn(self.rings[number].flow, &packet)
                .unwrap_or_else(|| self.segments_per_turn(&packet, wall)),
            None => SegmentsPerTurn::Whole,
        };
        let count = match segments_per_turn {
            SegmentsPerTurn::AtMost(most) => most.get().min(total - first),
            SegmentsPerTurn::Whole => total - first,
        };
        let frame = fetched.packet.bytes();
        let is_long = frame > FRAME_MAX;
        let wire = match fetched.packet.segmentation() {
            // It takes nothing from the link.
            _ if is_long => wire_of(Bytes::ZERO),
            Some(packet) => packet.wire_bytes(first, count),
            None => wire_of(frame),
        };
        let result = if is_long { Err(Errno::MSGSIZE) } else { self.write(number, first, count, total) };
        if let Err(error) = result {
            self.parts.counters.uplink_failed.add(1, frame.get());
            if let Some(room) = self.no_room(error) {
                return Err(room);
            }
        }
        self.refusals = 0;
        self.account(number, (count, wire), result);
        Ok(wire)
    }

    /// The segments of `packet` that may leave in a turn at `wall`.
    fn segments_per_turn(&self, packet: &SuperPacket, wall: Instant) -> SegmentsPerTurn {
        let ahead = self.parts.link.now().saturating_since(wall);
        let device = self.parts.device.as_ref();
        device.map_or(self.parts.segments_per_turn, |device| device.segments_per_turn(packet, wall, ahead))
    }

    /// Writes `count` segments from `first` on of the packet in ring `number`.
    fn write(&mut self, number: usize, first: u32, count: u32, total: u32) -> Result<usize, Errno> {
        let ring = &self.rings[number];
        let Some(Fetched { packet, .. }) = &ring.fetched else { return Ok(0) };
        loop {
            let result = match packet.segmentation() {
                Some(segmentation) if count < total => {
                    let frame = packet.frame(&ring.buffer);
                    let payload = segmentation
                        .emit(frame, first, count, Checksum::Partial, &mut self.chunk)
                        .map_err(|_| Errno::INVAL)?;
                    let parts = [IoSlice::new(self.chunk.as_bytes()), IoSlice::new(&frame[payload])];
                    rustix::io::writev(&*self.parts.uplink, &parts)
                }
                _ => rustix::io::write(&*self.parts.uplink, packet.whole(&ring.buffer)),
            };
            if result != Err(Errno::INTR) {
                return result;
            }
        }
    }

    /// The exhausted resource behind a failed write, or `None` for an error that no waiting resolves.
    fn no_room(&mut self, error: Errno) -> Option<Room> {
        match error {
            Errno::AGAIN => Some(Room::Queue),
            Errno::NOBUFS | Errno::NOMEM if self.refusals < MEMORY_PATIENCE => {
                self.refusals += 1;
                Some(Room::Memory)
            }
            // The device is down or deleted, or does not accept the packet: waiting does not help.
            _ => None,
        }
    }

    /// Counts a chunk that was written or refused. A refusal includes the rest of the packet.
    fn account(&mut self, number: usize, (count, wire): (u32, Bytes), result: Result<usize, Errno>) {
        let ring = &mut self.rings[number];
        let Some(fetched) = ring.fetched.as_mut() else { return };
        let total = fetched.segments();
        let (class, bytes) = (fetched.class, fetched.packet.bytes().get());
        let counters = &ring.counters.classes[class.index()];
        let start = self.parts.link.now();
        let departure = self.parts.link.send(wire);
        match result {
            Ok(written) => {
                let bytes = frame_bytes(written).unwrap_or(Bytes::ZERO);
                self.parts.counters.uplink_writes.add(1, bytes.get());
                counters.wire.add(u64::from(count), wire.get());
                let first = fetched.next_segment == 0;
                fetched.next_segment += count;
                if let Some(log) = self.parts.departures.as_mut() {
                    let key = || fetched.packet.flow_key(&ring.buffer);
                    let flow = *fetched.flow.get_or_insert_with(|| log.flow(key()));
                    let arrival = ring.arrivals.of_next(ring.accounting.done()).filter(|_| !ring.unannounced);
                    let last = fetched.next_segment >= total;
                    let times = (start, departure);
                    let chunk = Chunk { times, arrival, class, segments: count, wire, first, last };
                    log.record(self.engine.queue_of(ring.flow), flow, &chunk);
                }
            }
            Err(_) => fetched.next_segment = total,
        }
        let all_gone = fetched.next_segment >= total;
        if all_gone {
            let stage = if result.is_ok() { &counters.sent } else { &counters.refused };
            stage.add(1, bytes);
            let held = fetched.held;
            ring.complete(bytes);
            self.pool.put_back(ring);
            self.engine.release(held);
        }
        self.close_windows(departure);
        self.parts.sampler.count(class, wire);
        if all_gone {
            let end = if result.is_ok() { End::Sent } else { End::Refused };
            self.packet_has_left(number, class, (start, departure), end);
        }
    }

    /// Sleeps until the uplink has room. Doorbells change nothing meanwhile, so no wake-up is requested. The wait is
    /// link time that has passed, since the link was busy with earlier packets.
    pub(super) fn wait_for_room(&mut self, room: Room, now: Instant) {
        self.parts.counters.uplink_waits.add(1, 0);
        let longest = match room {
            Room::Queue => self.blocked_at(now).unwrap_or(SLEEP_MAX),
            Room::Memory => MEMORY_PAUSE,
        };
        let mut until = now + longest;
        if let Some(due) = self.late.next() {
            until = until.min(due.max(now));
        }
        let timeout = timespec(until - now);
        let _ = match room {
            Room::Queue => poll(&mut [PollFd::new(&*self.parts.uplink, PollFlags::OUT)], Some(&timeout)),
            Room::Memory => poll(&mut [], Some(&timeout)),
        };
        self.parts.link.idle_until(clock::now());
    }

    /// Records that the uplink's queue had no room at `now`. Returns the time after which to try again, where it is known.
    fn blocked_at(&mut self, now: Instant) -> Option<Nanos> {
        let device = self.parts.device.as_mut()?;
        let bound = if device.pressure.blocked(now) { device.rate_changed() } else { None };
        let retry = device.retry_room();
        self.bound_uplink(bound);
        retry
    }

    /// Settles the device's rate and the classes' urgency at `now`.
    pub(super) fn settle_device(&mut self, now: Instant) {
        let Some(device) = self.parts.device.as_mut() else { return };
        let bound = if device.pressure.settle(now) { device.rate_changed() } else { None };
        device.measure(now);
        device.urgency.settle(now);
        let observed = device.pressure.observed().map_or(0, BitsPerSec::get);
        self.parts.counters.observed_bps.set(observed);
        device.publish(&self.parts.counters);
        self.bound_uplink(bound);
    }

    /// Bounds the queue below the NIC anew.
    pub(super) fn bound_uplink(&self, bound: Option<Bytes>) {
        if let Some(bound) = bound {
            // Fails only when the device is gone, which the next write notices.
            let bytes = u32::try_from(bound.get()).unwrap_or(u32::MAX);
            let _ = weft_host::macvtap::set_send_buffer(self.parts.uplink.as_fd(), bytes);
        }
    }

    /// Whether a sleep that timed out missed its wake-up: a doorbell that it waited for was posted during it, and no
    /// wake-up follows.
    pub(super) fn wakeup_was_lost(&self, wake: WakeFor) -> bool {
        let words = &self.summary.ready_ports[..self.ports.len().div_ceil(64)];
        let posted = protocol::any_port(words, |port| match wake {
            WakeFor::Any => true,
            WakeFor::Urgent => Self::has_urgent(&self.ports, port),
        });
        if !posted {
            return false;
        }
        let timeout = rustix::time::Timespec { tv_sec: 0, tv_nsec: RINGING.get() as i64 };
        let wake = self.records.wake_fd();
        poll(&mut [PollFd::from_borrowed_fd(wake, PollFlags::IN)], Some(&timeout)) == Ok(0)
    }
}
