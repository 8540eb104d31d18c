//! The transmit worker: takes doorbells, asks the engine, fetches, segments, sends.

use crate::counters::Counters;
use crate::doorbell::{RINGS, Record, RecordKind, Shared, protocol};
use crate::link::Link;
use crate::packet::parse_headers;
use crate::ring::{Fetch, Fetched, Ring};
use crate::sampler::Sampler;
use crate::segment::{Checksum, ChunkHeader, SuperPacket, wire_bytes_of_frame};
use crate::sync::Ordering;
use crate::vnet::VnetHeader;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::collections::HashMap;
use std::io::IoSlice;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use weft_host::bpf::Records;
use weft_host::clock;
use weft_sched::{Next, PolicyTree};
use weft_units::{Bytes, ClassId, FlowKey, Nanos};

/// How far behind a fetch may find its ring although the bell has rung, before the packet counts as dropped between bell
/// and ring. Far above any stall of the kernel's receive backlog; a packet that comes later still is found by the sweep.
const NEVER_CAME: Nanos = Nanos::from_millis(200);
/// How often a ring whose bell is ahead is looked at again.
const LATE_RETRY: Nanos = Nanos::from_micros(30);
/// How often all rings are looked at whatever their bells say.
const SWEEP: Nanos = Nanos::from_millis(20);
/// The longest sleep: bounds how late a stop or a sample is noticed.
const SLEEP_MAX: Nanos = Nanos::from_millis(20);
/// A wait shorter than this is spun through: a timer is later than that.
const SPIN: Nanos = Nanos::from_micros(3);

/// How the worker cuts super-packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grain {
    /// At most this many MTU-size segments of one ring, then another ring may go (TSO interleaving).
    Segments(core::num::NonZeroU32),
    /// Super-packets whole.
    Whole,
}

/// What the worker is made of.
pub(crate) struct WorkerParts {
    pub(crate) tree: PolicyTree,
    pub(crate) rings: Vec<Ring>,
    /// Ring number by engine flow.
    pub(crate) ring_of_flow: Vec<u32>,
    pub(crate) uplink: Arc<OwnedFd>,
    pub(crate) link: Link,
    pub(crate) grain: Grain,
    pub(crate) counters: Arc<Counters>,
    pub(crate) sampler: Sampler,
    pub(crate) default_class: ClassId,
}

/// The worker. `shared` is the page of bells, `records` the metadata.
pub(crate) struct Worker<'a> {
    parts: WorkerParts,
    shared: &'a Shared,
    records: Records<'a>,
    flows: &'a std::cell::RefCell<FlowClasses>,
    chunk: ChunkHeader,
    /// Rings whose bell is ahead of their packet.
    late: Vec<usize>,
    next_late: Nanos,
    next_sweep: Nanos,
    backlogged: u32,
}

/// Which class a flow belongs to, where a ring does not tell.
#[derive(Debug, Default)]
pub(crate) struct FlowClasses {
    classes: HashMap<FlowKey, ClassId>,
    known: u64,
}

impl FlowClasses {
    /// Takes a metadata record.
    pub(crate) fn learn(&mut self, record: Record, keep: bool) {
        if record.kind == RecordKind::New {
            self.known += 1;
        }
        if let (true, Some(key)) = (keep, record.key) {
            self.classes.insert(key, ClassId(u32::from(record.class)));
        }
    }
}

/// A NIC does not wait for the host's processors, so the threads that stand in for one go before what they serve; without
/// the right to that they are as nice as anybody. Not a real-time class: that starved the applications (research notes in
/// docs/measuring.md).
pub(crate) fn prefer() {
    let priority = std::env::var("WEFT_NICE").ok().and_then(|v| v.parse().ok()).unwrap_or(-10);
    let _ = rustix::process::setpriority_process(None, priority);
}

/// Processor time of the calling thread.
fn thread_cpu() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

/// What serving the engine came to.
enum Served {
    /// A chunk was sent, or a ring put aside.
    Progress,
    /// All that waits may not go before this time.
    Wait(Nanos),
    /// Nothing waits.
    Idle,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(
        parts: WorkerParts,
        shared: &'a Shared,
        records: Records<'a>,
        flows: &'a std::cell::RefCell<FlowClasses>,
    ) -> Self {
        Self {
            parts,
            shared,
            records,
            flows,
            chunk: ChunkHeader::default(),
            late: Vec::with_capacity(RINGS),
            next_late: Nanos::ZERO,
            next_sweep: Nanos::ZERO,
            backlogged: 0,
        }
    }

    /// Runs until `stop` says so, then counts what is left in the rings as held.
    pub(crate) fn run(mut self, stop: impl Fn() -> bool) -> Result<(), Errno> {
        // Timers as exact as the machine has them; without it a sleep may end 50 us late.
        let _ = clock::set_timer_slack();
        prefer();
        while !stop() {
            let wall = clock::now();
            self.parts.link.follow(wall);
            let wait = self.send_while_free(wall)?;
            self.housekeeping(wall);
            self.rest(wait);
        }
        self.hold_the_rest();
        Ok(())
    }

    /// Sends until the link is busy or nothing may be sent. Returns what to wait for.
    fn send_while_free(&mut self, mut wall: Nanos) -> Result<Served, Errno> {
        // After so many chunks the wall clock is read again, and housekeeping gets its turn.
        for _ in 0..256 {
            self.take_doorbells();
            if self.parts.link.busy_until(wall).is_some() {
                wall = clock::now();
                if let Some(until) = self.parts.link.busy_until(wall) {
                    return Ok(Served::Wait(until));
                }
            }
            match self.serve()? {
                Served::Progress => {}
                Served::Wait(until) => {
                    // The link's clock goes to the release, not to when we noticed: a late timer costs no rate.
                    self.parts.link.idle_until(until.min(wall));
                    if until > wall {
                        return Ok(Served::Wait(until));
                    }
                }
                Served::Idle => {
                    self.parts.link.idle_until(wall);
                    return Ok(Served::Idle);
                }
            }
        }
        Ok(Served::Progress)
    }

    /// Makes the rings that were rung known to the engine.
    fn take_doorbells(&mut self) {
        for (word, ready) in self.shared.ready.iter().enumerate() {
            let mut bits = protocol::take(ready);
            while bits != 0 {
                let number = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if let Some(ring) = self.parts.rings.get(number)
                    && ring.late_since.is_none()
                {
                    self.parts.tree.activate(ring.flow);
                }
            }
        }
    }

    /// One scheduling decision and what follows from it.
    fn serve(&mut self) -> Result<Served, Errno> {
        let now = self.parts.link.now();
        let turn = match self.parts.tree.next(now) {
            Next::Turn(turn) => turn,
            Next::Wait(until) => return Ok(Served::Wait(until)),
            Next::Idle => return Ok(Served::Idle),
        };
        self.parts.counters.turns.add(1, 0);
        let number = self.parts.ring_of_flow[turn.flow().index()] as usize;
        let sent = self.serve_ring(number)?;
        let ring = &self.parts.rings[number];
        let backlogged =
            ring.late_since.is_none() && (ring.fetched.is_some() || self.rung(number) > ring.done);
        // The turn is the one that `next` has just given.
        let _ = self.parts.tree.finish(turn, sent, backlogged, now);
        Ok(Served::Progress)
    }

    fn rung(&self, number: usize) -> u64 {
        self.shared.rings[number].packets.load(Ordering::Acquire)
    }

    /// Sends the next chunk of ring `number`; returns its bytes on the wire.
    fn serve_ring(&mut self, number: usize) -> Result<Bytes, Errno> {
        if self.parts.rings[number].fetched.is_none() {
            match self.parts.rings[number].fetch() {
                Fetch::Packet(length) => self.accept(number, length),
                Fetch::Empty => {
                    self.put_aside(number);
                    return Ok(Bytes::ZERO);
                }
                Fetch::Failed(error) => return Err(error),
            }
        }
        Ok(self.send_chunk(number))
    }

    /// The bell was ahead of its packet: the ring is looked at again soon.
    fn put_aside(&mut self, number: usize) {
        let ring = &mut self.parts.rings[number];
        // A bell may also be behind: the packet went with an earlier one, and nothing is missing.
        if self.shared.rings[number].packets.load(Ordering::Acquire) <= ring.done {
            return;
        }
        let now = clock::now();
        ring.late_since = Some(now);
        self.late.push(number);
        self.next_late = now + LATE_RETRY;
        self.parts.counters.bell_ahead.add(1, 0);
    }

    /// Takes a fetched packet into account.
    fn accept(&mut self, number: usize, length: usize) {
        let ring = &mut self.parts.rings[number];
        let (vnet, frame) = ring.parts(length);
        let packet = SuperPacket::parse(vnet, frame).ok();
        let key =
            if ring.class.is_some() { None } else { parse_headers(frame).ok().and_then(|h| h.flow_key) };
        let class = ring.class.unwrap_or_else(|| self.class_of(key));
        let ring = &mut self.parts.rings[number];
        ring.fetched = Some(Fetched { length, packet, next_segment: 0, class });
        self.parts.counters.classes[class.index()].fetched.add(1, (length - VnetHeader::LEN) as u64);
    }

    /// The class of a flow, where its ring does not tell: from its metadata record, which is rung before the packet.
    fn class_of(&self, key: Option<FlowKey>) -> ClassId {
        let look_up = || key.and_then(|key| self.flows.borrow().classes.get(&key).copied());
        let known = look_up().or_else(|| {
            self.records.consume();
            look_up()
        });
        known.unwrap_or(self.parts.default_class)
    }

    /// Sends up to a grain of segments of the packet that ring `number` holds.
    fn send_chunk(&mut self, number: usize) -> Bytes {
        let ring = &mut self.parts.rings[number];
        let Some(fetched) = ring.fetched.as_mut() else { return Bytes::ZERO };
        let (total, first) = (fetched.packet.map_or(1, |p| p.segments()), fetched.next_segment);
        let count = match self.parts.grain {
            Grain::Segments(most) => most.get().min(total - first),
            Grain::Whole => total - first,
        };
        let buffer = &ring.buffer[..fetched.length];
        let frame = &buffer[VnetHeader::LEN..];
        let result = match fetched.packet {
            Some(packet) if count < total => {
                let emitted = packet.emit(frame, first, count, Checksum::Partial, &mut self.chunk);
                emitted.map_err(|_| Errno::INVAL).and_then(|payload| {
                    let parts = [IoSlice::new(self.chunk.as_bytes()), IoSlice::new(&frame[payload])];
                    rustix::io::writev(&*self.parts.uplink, &parts)
                })
            }
            _ => rustix::io::write(&*self.parts.uplink, buffer),
        };
        let wire = fetched
            .packet
            .map_or_else(|| wire_bytes_of_frame(Bytes(frame.len() as u64)), |p| p.wire_bytes(first, count));
        let (class, bytes) = (fetched.class, frame.len() as u64);
        let counters = &self.parts.counters.classes[class.index()];
        let departure = self.parts.link.send(wire);
        match result {
            Ok(written) => {
                self.parts.counters.uplink_writes.add(1, (written.saturating_sub(VnetHeader::LEN)) as u64);
                counters.wire.add(u64::from(count), wire.get());
                fetched.next_segment += count;
            }
            // The uplink refuses (no buffers, device down): the packet is dropped with that reason, its rest with it.
            Err(_) => fetched.next_segment = total,
        }
        if fetched.next_segment >= total {
            let station = if result.is_ok() { &counters.sent } else { &counters.refused };
            station.add(1, bytes);
            ring.fetched = None;
            ring.done += 1;
            self.shared.rings[number].done.store(ring.done, Ordering::Release);
        }
        if self.parts.sampler.due(departure) {
            self.close_windows(departure);
        }
        self.parts.sampler.count(class, wire);
        wire
    }

    fn close_windows(&mut self, now: Nanos) {
        let (shared, counters) = (self.shared, &self.parts.counters);
        let standing = || {
            let classes = counters.classes.iter().enumerate();
            classes.map(|(i, class)| {
                let rung = shared.classes[i].bytes.load(Ordering::Relaxed);
                let gone = class.sent.get().bytes + class.refused.get().bytes;
                Bytes(rung).saturating_sub(gone)
            })
        };
        let backlogged = (0..self.parts.rings.len())
            .filter(|&i| self.shared.rings[i].packets.load(Ordering::Relaxed) > self.parts.rings[i].done);
        self.backlogged = backlogged.count() as u32;
        self.parts.sampler.close(now, self.backlogged, || standing().collect());
    }

    /// What is not needed for every packet: records, late rings, the sweep, samples.
    fn housekeeping(&mut self, wall: Nanos) {
        if !self.late.is_empty() && wall >= self.next_late {
            self.retry_late(wall);
        }
        if wall < self.next_sweep {
            return;
        }
        self.next_sweep = wall + SWEEP;
        self.records.consume();
        self.sweep();
        let counters = &self.parts.counters;
        counters.worker_cpu.set(thread_cpu());
        counters.link_lost.set(self.parts.link.lost().get());
        counters.flows.set(self.flows.borrow().known);
        let link = self.parts.link.now();
        if self.parts.sampler.due(link) {
            self.close_windows(link);
        }
    }

    /// Looks again at the rings whose bell was ahead; what does not come is dropped, with that reason.
    fn retry_late(&mut self, wall: Nanos) {
        self.next_late = wall + LATE_RETRY;
        let mut i = 0;
        while i < self.late.len() {
            let number = self.late[i];
            let rung = self.rung(number);
            let ring = &mut self.parts.rings[number];
            let since = ring.late_since.unwrap_or(wall);
            match ring.fetch() {
                Fetch::Packet(length) => {
                    ring.late_since = None;
                    let flow = ring.flow;
                    self.accept(number, length);
                    self.parts.tree.activate(flow);
                    self.late.swap_remove(i);
                }
                _ if wall.saturating_sub(since) > NEVER_CAME => {
                    let missing = rung.saturating_sub(ring.done);
                    self.parts.counters.never_came.add(missing, 0);
                    ring.done = rung;
                    ring.late_since = None;
                    self.shared.rings[number].done.store(rung, Ordering::Release);
                    self.late.swap_remove(i);
                }
                _ => i += 1,
            }
        }
    }

    /// Finds packets that no bell speaks of: after a miscount, or later than [`NEVER_CAME`]. One poll over all rings.
    fn sweep(&mut self) {
        let mut fds: Vec<PollFd<'_>> =
            self.parts.rings.iter().map(|ring| PollFd::new(&ring.fd, PollFlags::IN)).collect();
        let zero = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut fds, Some(&zero)).unwrap_or(0) == 0 {
            return;
        }
        let readable: Vec<usize> =
            (0..fds.len()).filter(|&i| fds[i].revents().contains(PollFlags::IN)).collect();
        for number in readable {
            let ring = &self.parts.rings[number];
            if ring.late_since.is_none() && !self.parts.tree.is_active(ring.flow) {
                if self.shared.rings[number].packets.load(Ordering::Acquire) <= ring.done {
                    self.parts.counters.strays.add(1, 0);
                }
                self.parts.tree.activate(ring.flow);
            }
        }
    }

    /// Sleeps as long as there is nothing to do.
    fn rest(&mut self, wait: Served) {
        let now = clock::now();
        let (until, for_bells) = match wait {
            Served::Progress => return,
            // While the link is busy a bell cannot change anything: no wake-up is asked for.
            Served::Wait(until) => (until, self.parts.link.busy_until(now).is_none()),
            Served::Idle => (now + SLEEP_MAX, true),
        };
        let mut until = until.min(now + SLEEP_MAX);
        if !self.late.is_empty() {
            until = until.min(self.next_late.max(now));
        }
        if until <= now + SPIN {
            return;
        }
        let span = until - now;
        let timeout = rustix::time::Timespec { tv_sec: 0, tv_nsec: span.get() as i64 };
        if !for_bells {
            let _ = poll(&mut [], Some(&timeout));
            return;
        }
        if !protocol::prepare_sleep(&self.shared.ready, &self.shared.sleeping) {
            return;
        }
        self.parts.counters.sleeps.add(1, 0);
        let wake: BorrowedFd<'_> = self.records.wake_fd();
        let _ = poll(&mut [PollFd::from_borrowed_fd(wake, PollFlags::IN)], Some(&timeout));
        protocol::awake(&self.shared.sleeping);
        self.records.consume();
    }

    /// At the end: what still lies in the rings is held, and counted by taking it out.
    fn hold_the_rest(&mut self) {
        self.records.consume();
        for number in 0..self.parts.rings.len() {
            if let Some(fetched) = self.parts.rings[number].fetched.take() {
                let class = &self.parts.counters.classes[fetched.class.index()];
                class.held.add(1, (fetched.length - VnetHeader::LEN) as u64);
            }
            while let Fetch::Packet(length) = self.parts.rings[number].fetch() {
                self.accept(number, length);
                if let Some(fetched) = self.parts.rings[number].fetched.take() {
                    let class = &self.parts.counters.classes[fetched.class.index()];
                    class.held.add(1, (fetched.length - VnetHeader::LEN) as u64);
                }
            }
        }
        self.parts.counters.worker_cpu.set(thread_cpu());
        self.parts.counters.link_lost.set(self.parts.link.lost().get());
        let link = self.parts.link.now();
        self.close_windows(link);
    }
}
