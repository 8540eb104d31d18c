//! The transmit worker: one thread that takes doorbells, runs the engine, fetches, segments and sends.
//!
//! One iteration of the loop (`Worker::run`):
//! 1. Commands link and unlink ports (`worker/ports.rs`).
//! 2. The link's clock catches up with the wall clock; time beyond the catch-up is lost and counted ([`Link`]). The engine polls its control page (multiqueue mode only).
//! 3. Up to 256 chunks are sent while the link is free (`send_while_free`). For each chunk: take the posted doorbells,
//!    ask the engine for a turn, fetch a packet if the ring has none in progress, write one chunk to the uplink, charge
//!    the engine.
//! 4. Housekeeping: retries of late rings, and every `SWEEP` the metadata records, the sweep over `SWEEP_RINGS` of the
//!    rings, and the gauges.
//! 5. The worker sleeps until a doorbell, a release time, a free link or room in the uplink (`sleep_until_work`).
//!
//! Ownership: the worker alone owns the engine, the rings with their buffers and accounting, and the link's clock. The
//! doorbell pages are shared with the eBPF programs; `doorbell/protocol.rs` has the order of their accesses. The counters
//! have one writer, this thread.
//!
//! Rules:
//! * A packet is fetched only for its turn, since the fetch frees it and lets its sender continue. A late ring is the
//!   exception: its retry is the fetch.
//! * The engine is charged after a write, never before. A blocked chunk is kept, its turn is abandoned, and the engine
//!   decides anew.
//! * The engine's time is the link's time. It never runs ahead of the wall clock except by the frame being sent.
//!
//! Sleeps:
//! * Nothing may be sent, and the link is free: any doorbell wakes the worker.
//! * The link is busy: a doorbell changes nothing, except one of an urgent ring of a device, which may overdraw the
//!   link's clock. Only that wakes the worker. The sleep lasts at least the moderation interval, since a wake-up per
//!   frame costs more processor time than the frame. The interval is longer beside a standing backlog (`Device::moderation`).
//! * The uplink has no room: doorbells change nothing, so no wake-up is requested (`wait_for_room`).
//! * A sleep ends early at the next retry of a late ring. While the link is busy only an urgent late ring shortens the
//!   moderation interval.
//!
//! Rare branches and their counters: no room (`uplink_waits`, `uplink_failed`), refused packet (`refused` of the
//! class), packet of a shared ring without a record (`unrecorded`), doorbell ahead of its packet (`doorbell_ahead`), packet lost (`lost`), stray (`strays`), lost wake-up
//! (`wakeups_lost`, of the sleeps for a doorbell, `sleeps`), the longest sleep beside a late ring (`late_sleep_max`), stalled worker
//! (`link_lost`), failed fetch, which ends the port (`failed` of the port).

mod cpu_charge;
mod device;
mod engine;
mod ports;
mod queues;
mod rings;
mod uplink;
mod urgency;

pub(crate) use device::{Classes, Device};
pub use engine::ExchangeError;
pub(crate) use engine::{Decision, Engine, SharedTree};
pub(crate) use ports::{Command, NewPort, PolicyChange, PortChange, add_to_leaf};
pub(crate) use queues::QueueEngine;

use crate::commands::Inbox;
use crate::counters::Counters;
use crate::departures::Recorder;
use crate::doorbell::protocol;
use crate::flow_records::{FlowClasses, RecordSource};
use crate::late::LateRings;
use crate::layout::{Page, Summary};
use crate::link::{Link, WHOLE};
use crate::ring::{BufferPool, Fetch, Place, Ring};
use crate::sampler::Sampler;
use crate::sync::Ordering;
use rustix::event::{PollFd, PollFlags, poll};
use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use weft_host::clock;
use weft_packet::ethernet;
use weft_packet::segment::ChunkHeader;
use weft_packet::tap::TapPacket;
use weft_rank::Metadata;
use weft_units::{Bytes, ClassId, Instant, Nanos, RingId};

/// The most reads of late rings between two turns, so that they delay the rings that have packets by some 50 us.
const LATE_READS: usize = 64;
/// The interval of polls over rings, whatever their doorbells.
const SWEEP: Nanos = Nanos::from_millis(20);
/// The rings of one sweep. With more rings, each has its turn after several intervals.
const SWEEP_RINGS: usize = 256;
/// The longest sleep, which bounds the delay of a stop or a sample.
const SLEEP_MAX: Nanos = Nanos::from_millis(20);
/// The interval of heartbeats while the worker does not sleep.
const BEAT: Nanos = Nanos::from_millis(5);
/// The shortest sleep while the link is busy. The worker then sends all packets that are due, since a wake-up per frame
/// costs more processor time than the frame. NICs moderate their interrupts likewise (50 us in Titan's C_max).
pub(crate) const MODERATION: Nanos = Nanos::from_micros(50);
/// The longest wait that is spent spinning, since a timer would be later.
const SPIN: Nanos = Nanos::from_micros(3);
/// The most chunks between two reads of the clock, whose result is the time of arrivals and departures.
const STAMP: u32 = 16;

/// The unit in which the worker cuts super-packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SegmentsPerTurn {
    /// At most this many MTU-size segments of one ring; then another ring may send (TSO interleaving).
    AtMost(core::num::NonZeroU32),
    /// Whole super-packets.
    Whole,
}

impl SegmentsPerTurn {
    /// The longest chunk that leaves at once, in frame bytes, for packets of `mtu` bytes.
    pub(crate) fn longest_chunk(self, mtu: Bytes) -> Bytes {
        match self {
            Self::Whole => Bytes(WHOLE),
            Self::AtMost(count) => Bytes(u64::from(count.get()) * ethernet::frame_of(mtu).get()),
        }
    }
}

/// The parts of a worker.
pub(crate) struct WorkerParts {
    pub(crate) uplink: Arc<OwnedFd>,
    pub(crate) link: Link,
    /// The uplink's device; `None` for an emulated link.
    pub(crate) device: Option<Device>,
    pub(crate) segments_per_turn: SegmentsPerTurn,
    pub(crate) counters: Arc<Counters>,
    pub(crate) sampler: Sampler,
    /// The number of classes.
    pub(crate) classes: usize,
    pub(crate) default_class: ClassId,
    /// The departure log, if configured.
    pub(crate) departures: Option<Recorder>,
}

/// The worker. `summary` is the page of all ports, `records` the metadata.
pub(crate) struct Worker<'a, R, E> {
    engine: E,
    parts: WorkerParts,
    summary: Page<Summary>,
    records: R,
    flows: &'a RefCell<FlowClasses>,
    commands: Inbox<Command>,
    /// The ports, by their bits in the summary.
    ports: Vec<Option<ports::WorkerPort>>,
    /// The rings of all ports, by slot.
    rings: Vec<Ring>,
    /// The slot of each engine flow.
    ring_of_flow: Vec<RingId>,
    /// The free slots.
    vacant: Vec<usize>,
    /// The place of rings in vacant slots.
    nowhere: Place,
    pool: BufferPool,
    /// Whether classes share rings.
    shares_rings: bool,
    /// Whether the engine orders rings by what is known of their packets.
    reads_packets: bool,
    /// The number of backlogged rings, by class and in all.
    backlogged: Vec<u32>,
    all_backlogged: u32,
    chunk: ChunkHeader,
    /// Rings whose doorbell is ahead of their packet.
    late: LateRings,
    next_sweep: Instant,
    /// The first slot of the next sweep.
    sweep_from: usize,
    drains: rings::Drains,
    cpu_charge: cpu_charge::CpuCharge,
    /// The wall clock, at most [`STAMP`] chunks ago.
    stamp: Instant,
    /// Consecutive writes that failed for lack of memory.
    refusals: u32,
    /// Whether a successor serves the rings from now on.
    handed_over: bool,
}

/// The niceness of the threads that emulate a NIC. A NIC does not compete for the host's processors, so these threads
/// run before the applications that they serve. Without the privilege they keep the default. A real-time class would
/// starve the applications.
const NICENESS: i32 = -10;

/// Sets [`NICENESS`] for the calling thread. A refusal is ignored: the NIC works at the default niceness.
pub(crate) fn raise_thread_priority() {
    let _ = rustix::process::setpriority_process(None, NICENESS);
}

/// Processor time of the calling thread.
fn thread_cpu() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

/// The outcome of serving the engine.
enum Served {
    /// A chunk was sent, or a ring was marked as late.
    Progress,
    /// The uplink has no room.
    Blocked(Room),
    /// All backlogged rings are rate-limited until this time.
    Wait(Instant),
    /// No ring is backlogged.
    Idle,
}

/// The exhausted resource of the uplink.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Room {
    /// The queue below it, which becomes writable when there is room again.
    Queue,
    /// The kernel's memory, which sends no notification.
    Memory,
}

/// The doorbells that end a sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WakeFor {
    Any,
    Urgent,
}

impl<'a, R: RecordSource, E: Engine> Worker<'a, R, E> {
    pub(crate) fn new(
        engine: E,
        parts: WorkerParts,
        (summary, commands): (Page<Summary>, Inbox<Command>),
        records: R,
        flows: &'a RefCell<FlowClasses>,
    ) -> Self {
        let reads_packets = engine.reads_packets();
        let cpu_charge = cpu_charge::CpuCharge::new(parts.link.rate(), clock::now(), Nanos::ZERO);
        Self {
            engine,
            summary,
            records,
            flows,
            commands,
            ports: Vec::new(),
            rings: Vec::new(),
            ring_of_flow: Vec::new(),
            vacant: Vec::new(),
            nowhere: ports::nowhere(parts.classes),
            pool: BufferPool::default(),
            shares_rings: false,
            reads_packets,
            backlogged: vec![0; parts.classes],
            all_backlogged: 0,
            chunk: ChunkHeader::default(),
            late: LateRings::default(),
            next_sweep: Instant::ZERO,
            sweep_from: 0,
            drains: rings::Drains::default(),
            stamp: Instant::ZERO,
            refusals: 0,
            handed_over: false,
            cpu_charge,
            parts,
        }
    }

    /// Runs until `stop` returns true, then counts the packets left in the rings as held. After a hand-over the rings stay as
    /// they are.
    pub(crate) fn run(mut self, stop: impl Fn() -> bool) {
        // Exact timers: without them a sleep may end 50 us late.
        let _ = clock::set_timer_slack();
        raise_thread_priority();
        while !stop() {
            self.obey();
            if self.handed_over {
                return;
            }
            let wall = clock::now();
            self.beat(wall);
            self.stamp = wall;
            self.parts.link.follow(wall);
            self.engine.look(wall, &self.parts.counters);
            let wait = self.send_while_free(wall);
            let found = self.housekeeping(wall);
            self.sleep_until_work(match wait {
                // The packets just found are blocked, too.
                Served::Blocked(room) => Served::Blocked(room),
                _ if found => Served::Progress,
                wait => wait,
            });
        }
        self.close();
    }

    /// Shows the ports' programs that the worker runs. Not in every turn, since they read the same cache line.
    fn beat(&self, wall: Instant) {
        let heartbeat = &self.summary.heartbeat;
        if wall.as_nanos().saturating_sub(heartbeat.load(Ordering::Relaxed)) > BEAT.get() {
            heartbeat.store(wall.as_nanos(), Ordering::Relaxed);
        }
    }

    /// Sends until the link is busy or no packet may be sent. Returns the event to wait for.
    fn send_while_free(&mut self, mut wall: Instant) -> Served {
        // After 256 chunks the wall clock is read again and housekeeping runs.
        for chunk in 0..256 {
            if chunk % STAMP == STAMP - 1 {
                wall = self.stamp(wall);
            }
            self.take_doorbells();
            if self.parts.link.busy_until(wall).is_some() {
                wall = clock::now();
                self.stamp = wall;
                // The worker may have paused since the last look.
                self.parts.link.follow(wall);
                if let Some(until) = self.parts.link.busy_until(wall)
                    && !self.may_overdraw(wall, until - wall)
                {
                    return Served::Wait(until);
                }
            }
            match self.serve(wall) {
                Served::Progress => {}
                Served::Blocked(room) => return Served::Blocked(room),
                Served::Wait(until) => {
                    self.has_paused();
                    // The link's clock advances to the release time, not to the time it was noticed: a late timer costs
                    // no rate.
                    self.parts.link.idle_until(until.min(wall));
                    if until > wall {
                        return Served::Wait(until);
                    }
                }
                Served::Idle => {
                    self.has_paused();
                    self.parts.link.idle_until(wall);
                    return Served::Idle;
                }
            }
        }
        Served::Progress
    }

    /// Whether the next turn belongs to an urgent class and may begin at `wall` although the link's clock is `ahead`.
    fn may_overdraw(&mut self, wall: Instant, ahead: Nanos) -> bool {
        let Some(device) = self.parts.device.as_mut() else { return false };
        if !device.may_overdraw(ahead) {
            return false;
        }
        let lane = self.engine.upcoming_lane(self.parts.link.now());
        device.urgent_waits = lane.is_some_and(|lane| device.urgency.may_overdraw(lane, wall));
        if device.urgent_waits {
            self.parts.counters.overdrawn.add(1, 0);
            let most = &self.parts.counters.ahead_max;
            most.set(most.get().max(ahead.get()));
        }
        device.urgent_waits
    }

    /// Records that there is nothing to send now, so that the uplink may run dry.
    fn has_paused(&mut self) {
        if let Some(device) = self.parts.device.as_mut() {
            device.pressure.paused();
        }
    }

    /// Executes one scheduling decision at `wall`.
    fn serve(&mut self, wall: Instant) -> Served {
        let now = self.parts.link.now();
        let (flow, turn) = match self.engine.next(now) {
            Decision::Turn(flow, turn) => (flow, turn),
            Decision::Wait(until) => return Served::Wait(until),
            Decision::Idle => return Served::Idle,
        };
        self.parts.counters.turns.add(1, 0);
        let number = self.ring_of_flow[flow.index()].index();
        let sent = match self.serve_ring(number, wall) {
            Ok(sent) => sent,
            // The turn is not finished: the engine charges nothing and may choose another flow when there is room.
            Err(room) => return Served::Blocked(room),
        };
        let ring = &self.rings[number];
        let behind_stray = ring.unannounced && sent > Bytes::ZERO;
        let posted = ring.posted() > ring.accounting.done();
        let backlogged = !ring.late && (ring.fetched.is_some() || posted || behind_stray);
        let share = if sent > Bytes::ZERO { self.cpu_charge.charge(sent) } else { sent };
        let known;
        let next = match (backlogged, self.reads_packets) {
            (false, _) => None,
            (true, false) => Some(&Metadata::UNKNOWN),
            (true, true) => {
                known = self.known_of_next(number);
                Some(&known)
            }
        };
        self.engine.finish(turn, sent, share, next, now);
        if let Some(device) = self.parts.device.as_mut() {
            device.served(number, (sent, share), backlogged, (wall, self.parts.link.now()));
        }
        if !backlogged {
            self.became_idle(number);
        }
        Served::Progress
    }

    /// Sends the next chunk of ring `number`. Returns its bytes on the wire.
    fn serve_ring(&mut self, number: usize, wall: Instant) -> Result<Bytes, Room> {
        if self.rings[number].fetched.is_some() {
            return self.send_chunk(number, wall);
        }
        self.engine.fetch_begins(self.rings[number].flow, false);
        let found = self.rings[number].fetch(&mut self.pool);
        let mut sent = Ok(Bytes::ZERO);
        let mut empty = Ok(false);
        match found {
            Fetch::Packet(packet) => {
                self.accept(number, packet);
                sent = self.send_chunk(number, wall);
            }
            Fetch::Empty => empty = Ok(true),
            Fetch::Failed(error) => empty = Err(error),
        }
        self.fetch_ends(number);
        match empty {
            Ok(true) => self.put_aside(number),
            Ok(false) => {}
            Err(error) => self.fail_port(self.rings[number].port, error),
        }
        sent
    }

    /// Records the flow of a packet that was fetched and not sent completely, and only then clears the fetch in
    /// progress.
    fn fetch_ends(&mut self, number: usize) {
        let ring = &mut self.rings[number];
        if let Some(fetched) = ring.fetched.as_mut() {
            fetched.held = self.engine.hold(|| fetched.packet.flow_key(&ring.buffer));
        }
        self.engine.fetch_ends();
    }

    /// Accounts for a fetched packet.
    fn accept(&mut self, number: usize, packet: TapPacket) {
        let ring = &self.rings[number];
        let class = ring.class.unwrap_or_else(|| {
            class_of_packet(&self.records, self.flows, self.parts.default_class, ring, &packet)
        });
        self.rings[number].accept(packet, class);
    }

    fn close_windows(&mut self, now: Instant) {
        if self.parts.sampler.due(now) {
            let standing = self.standing();
            self.parts.sampler.close(now, || standing);
        }
    }

    /// Runs the periodic work: records, late rings, the sweep, samples. Returns whether it found packets.
    fn housekeeping(&mut self, wall: Instant) -> bool {
        let mut found = self.late.next().is_some_and(|due| due <= wall) && self.retry_late(wall);
        if wall < self.next_sweep {
            return found;
        }
        self.next_sweep = wall + SWEEP;
        self.records.consume();
        found |= self.sweep(wall);
        self.settle_device(wall);
        let counters = &self.parts.counters;
        let cpu = thread_cpu();
        self.cpu_charge.close(wall, Nanos(cpu));
        counters.worker_busy.set(self.cpu_charge.busy());
        counters.worker_cpu.set(cpu);
        counters.link_lost.set(self.parts.link.lost().get());
        counters.flows.set(self.flows.borrow().known());
        self.close_windows(self.parts.link.now());
        found
    }

    /// Counts the packets left in the rings at the end as held, and publishes the last gauges.
    fn close(&mut self) {
        let mut rings = core::mem::take(&mut self.rings);
        for ring in &mut rings {
            let held = ring.fetched.as_mut().and_then(|fetched| fetched.held.take());
            self.engine.release(held);
        }
        self.hold_all(&mut rings);
        if let Some(device) = &self.parts.device {
            device.publish(&self.parts.counters);
        }
        self.parts.counters.worker_cpu.set(thread_cpu());
        self.parts.counters.link_lost.set(self.parts.link.lost().get());
        self.close_windows(self.parts.link.now());
    }
}

/// The sleep.
impl<R: RecordSource, E: Engine> Worker<'_, R, E> {
    /// Reads the wall clock for the times of arrivals and departures. Workers that share a policy take it for their engine's
    /// time, too. Returns the time of the loop, which was `wall`.
    #[inline]
    fn stamp(&mut self, wall: Instant) -> Instant {
        self.stamp = clock::now();
        if !self.engine.is_shared() {
            return wall;
        }
        self.parts.link.follow(self.stamp);
        self.stamp
    }

    /// Sleeps until there is work.
    fn sleep_until_work(&mut self, wait: Served) {
        if matches!(wait, Served::Progress) {
            return;
        }
        let now = clock::now();
        self.sleep(wait, now);
        self.cpu_charge.slept(clock::now().saturating_since(now));
    }

    fn sleep(&mut self, wait: Served, now: Instant) {
        let idle = matches!(wait, Served::Idle);
        let (until, busy_until) = match wait {
            Served::Progress => return,
            Served::Blocked(room) => return self.wait_for_room(room, now),
            Served::Wait(until) => (until, self.parts.link.busy_until(now)),
            Served::Idle => (now + SLEEP_MAX, None),
        };
        let mut until = until.min(now + SLEEP_MAX);
        if let Some(due) = self.late.next() {
            until = until.min(due.max(now));
        }
        if until <= now + SPIN {
            return;
        }
        if !self.late.is_empty() {
            let longest = &self.parts.counters.late_sleep_max;
            longest.set(longest.get().max((until - now).get()));
        }
        if let Some(busy_until) = busy_until {
            let ahead = busy_until - now;
            let of = |device: &Device| device.moderation(now, ahead, |enough| self.waits(enough));
            let moderation = self.parts.device.as_ref().map_or(MODERATION, of);
            return self.sleep_while_busy(until, moderation, now);
        }
        let device = self.parts.device.as_mut();
        if idle && device.is_some_and(|device| device.moderates()) {
            return self.sleep_while_busy(until.min(now + MODERATION), Nanos::ZERO, now);
        }
        let words = self.ports.len().div_ceil(64);
        if protocol::prepare_sleep(&self.summary.ready_ports[..words], &self.summary.sleeping) {
            self.sleep_for_doorbell(until - now, WakeFor::Any);
        }
    }

    /// Sleeps until `until`, and for at least `moderation`. Only an urgent doorbell wakes the worker.
    fn sleep_while_busy(&mut self, until: Instant, moderation: Nanos, now: Instant) {
        let Some(device) = self.parts.device.as_mut() else {
            let _ = poll(&mut [], Some(&timespec((until - now).max(moderation))));
            return;
        };
        device.urgency.settle(now);
        let late = self.late.any(|ring| device.urgency.is_urgent(ring));
        let span = if late { until - now } else { (until - now).max(moderation) };
        self.write_urgency();
        let (summary, ports) = (&self.summary, &self.ports);
        let words = &summary.ready_ports[..ports.len().div_ceil(64)];
        let posted = |port| Self::has_urgent(ports, port);
        if protocol::prepare_urgent_sleep(words, &summary.sleeping, posted) {
            self.sleep_for_doorbell(span, WakeFor::Urgent);
        }
    }

    /// Sleeps for `span` or until a doorbell that the worker has requested a wake-up for, or a command.
    fn sleep_for_doorbell(&mut self, span: Nanos, wake: WakeFor) {
        self.parts.counters.sleeps.add(1, 0);
        let mut fds = [self.records.wake_fd(), self.commands.wake_fd()]
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let woken = poll(&mut fds, Some(&timespec(span)));
        if fds[1].revents().contains(PollFlags::IN) {
            self.commands.clear();
        }
        if woken == Ok(0) && self.wakeup_was_lost(wake) {
            self.parts.counters.wakeups_lost.add(1, 0);
        }
        protocol::awake(&self.summary.sleeping);
        self.records.consume();
    }
}

/// The class of a packet in a ring shared by classes, from the record of its flow.
fn class_of_packet<R: RecordSource>(
    records: &R,
    flows: &RefCell<FlowClasses>,
    default_class: ClassId,
    ring: &Ring,
    packet: &TapPacket,
) -> ClassId {
    let flow = packet.flow_key(&ring.buffer);
    let known = || flows.borrow().class_of(&flow?);
    // The record is written before the doorbell, so it has arrived, whether read or not.
    let read = || {
        records.consume();
        known()
    };
    known().or_else(read).unwrap_or_else(|| {
        ring.counters.unrecorded.add(1, 0);
        default_class
    })
}

fn timespec(span: Nanos) -> rustix::time::Timespec {
    let (secs, nanos) = (span.get() / 1_000_000_000, span.get() % 1_000_000_000);
    rustix::time::Timespec { tv_sec: secs as i64, tv_nsec: nanos as i64 }
}

#[cfg(test)]
mod tests;
