//! Workers of the engine in virtual time, beside other ways to let several of them serve one policy. Deterministic: a scene and a seed
//! are a result.
//!
//! Each worker has a link. A sender is a lane at a worker, with one flow that always has packets while it is on. Workers take turns by
//! their clocks; each may stall for a random span, as a thread does that the operating system takes off its processor.
//!
//! * [`Way::Shared`] has state shared by the handles of [`weft_sched::workers`].
//! * [`Way::OneLock`] has one engine for all, under a lock that each packet holds for a span. With a span of zero it is the reference:
//!   one scheduler whose link is that of all workers together.
//! * [`Way::EqualSplit`] has a separate tree for each worker, and each limit divided equally among the workers that have something
//!   for it, as often as the period says: mq with HTB at its queues, kept up to date as `cake_mq` does each 200 us.

pub mod errors;

use std::sync::Arc;
use weft_sched::workers::{Settings, Shared, SharedError, Worker};
use weft_sched::{Dequeue, Descriptor, PacketScheduler, Program};
use weft_units::testing::Rng;
use weft_units::{BIT_NANOS_PER_BYTE, BitsPerSec, Bytes, FlowId, Instant, LaneId, LimitId, Nanos, Weight};

/// The span of a bucket of [`SimulatedBytes`].
pub const BUCKET: Nanos = Nanos::from_millis(1);

/// The packets that a sender has waiting while it is on.
const WAITING: usize = 2;

/// A way to let several workers serve one policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Shared state of limits and classes.
    Shared(Settings),
    /// One engine; a packet holds its lock for this span.
    OneLock(Nanos),
    /// Separate engines, and equal parts of each limit, found anew at this period.
    EqualSplit(Nanos),
}

/// The presence of a lane at a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// Not there.
    Never,
    /// Always backlogged.
    Always,
    /// On and off for random spans of this mean.
    OnAndOff(Nanos),
    /// At one worker after the other, for this span at each.
    InTurn(Nanos),
}

impl Presence {
    /// Whether the lane has packets at `worker`, one of `workers`, when the run begins.
    fn begins(self, worker: usize) -> bool {
        !matches!(self, Self::InTurn(_)) || worker == 0
    }
}

/// A change of a limit's rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateChange {
    /// The time of the change.
    pub at: Instant,
    /// The limit.
    pub limit: LimitId,
    /// Its new rate.
    pub rate: BitsPerSec,
}

/// A policy, workers and their traffic.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The policy.
    pub program: Program,
    /// The link of each worker.
    pub links: Vec<BitsPerSec>,
    /// The wire that all workers send to under [`Way::Shared`], if they share one.
    pub wire: Option<BitsPerSec>,
    /// The presence of each lane at each worker, by worker.
    pub presence: Vec<Vec<Presence>>,
    /// The lengths of packets, drawn with equal chances.
    pub lengths: Vec<Bytes>,
    /// The longest stall of a worker, which has one each millisecond on average; zero for none.
    pub stall: Nanos,
    /// Changes of rates, in the order of their times.
    pub changes: Vec<RateChange>,
    /// The span of the run.
    pub span: Nanos,
    /// The seed.
    pub seed: u64,
}

impl Scene {
    /// A scene where every lane is always backlogged at each of `workers` equal workers, with a link of `link` together.
    pub fn backlogged(program: Program, workers: usize, link: BitsPerSec) -> Self {
        let lanes = program.lanes.len();
        let each = BitsPerSec(link.get() / workers.max(1) as u64);
        Self {
            program,
            links: vec![each; workers],
            wire: None,
            presence: vec![vec![Presence::Always; lanes]; workers],
            lengths: vec![Bytes(64), Bytes(594), Bytes(1518), Bytes(1518)],
            stall: Nanos::ZERO,
            changes: Vec::new(),
            span: Nanos::from_millis(300),
            seed: 1,
        }
    }
}

/// The bytes of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SimulatedBytes {
    /// Bytes of each lane in each [`BUCKET`], by bucket.
    pub buckets: Vec<Vec<u64>>,
    /// Packets enqueued, and those dequeued or still held: equal, or packets were lost.
    pub packets: [u64; 2],
    /// For each limit under [`Way::Shared`]: billionths of a bit that workers took, less what they sent, returned and have.
    pub unaccounted: Vec<i128>,
}

impl SimulatedBytes {
    /// The bytes of a lane in the buckets from `first` on.
    pub fn bytes(&self, lane: usize, first: usize, buckets: usize) -> u64 {
        self.buckets.iter().skip(first).take(buckets).map(|bucket| bucket[lane]).sum()
    }

    /// For each stretch of `buckets` within `from..`: the bytes of each lane.
    pub fn windows(&self, buckets: usize, from: usize) -> impl Iterator<Item = Vec<u64>> + '_ {
        let lanes = self.buckets.first().map_or(0, Vec::len);
        let last = (self.buckets.len() + 1).saturating_sub(buckets);
        (from..last).map(move |first| (0..lanes).map(|lane| self.bytes(lane, first, buckets)).collect())
    }
}

/// A lane at a worker.
struct Sender {
    worker: usize,
    lane: usize,
    flow: FlowId,
    on: bool,
    presence: Presence,
    toggles: Instant,
    held: usize,
}

/// An engine with those that it is for.
struct Engine {
    packets: PacketScheduler,
    handle: Option<Worker>,
    /// The time of the next exchange.
    due: Instant,
    /// By flow.
    senders: Vec<usize>,
}

struct Clock {
    now: Instant,
    free: Instant,
    stalls: Instant,
}

struct Run<'a> {
    scene: &'a Scene,
    way: Way,
    shared: Option<Arc<Shared>>,
    engines: Vec<Engine>,
    clocks: Vec<Clock>,
    senders: Vec<Sender>,
    rng: Rng,
    /// The time from which the lock is free.
    lock: Instant,
    changed: usize,
    enqueued: u64,
    dequeued: u64,
    buckets: Vec<Vec<u64>>,
}

/// Runs `scene` in this way.
///
/// # Errors
/// When the program cannot be run, or not be shared.
pub fn run(scene: &Scene, way: Way) -> Result<SimulatedBytes, SharedError> {
    let mut run = Run::new(scene, way)?;
    let end = Instant::after_epoch(scene.span);
    loop {
        let next = run.clocks.iter().enumerate().min_by_key(|(at, clock)| (clock.now, *at));
        let Some((worker, _)) = next.filter(|(_, clock)| clock.now < end) else { break };
        run.step(worker);
    }
    Ok(run.finish())
}

impl<'a> Run<'a> {
    fn new(scene: &'a Scene, way: Way) -> Result<Self, SharedError> {
        let workers = scene.links.len();
        let shared = match way {
            Way::Shared(settings) => {
                let shared = Shared::new(&scene.program, settings)?;
                Some(Arc::new(match scene.wire {
                    Some(wire) => shared.with_link(wire),
                    None => shared,
                }))
            }
            _ => None,
        };
        let mut rng = Rng::new(scene.seed);
        let engines = if matches!(way, Way::OneLock(_)) { 1 } else { workers };
        let engine = |_| -> Result<Engine, SharedError> {
            let mut packets = PacketScheduler::new(&scene.program)?;
            let handle = match &shared {
                Some(shared) => Some(Worker::join(shared, &mut packets, Instant::ZERO)?),
                None => None,
            };
            Ok(Engine { packets, handle, due: Instant::ZERO, senders: Vec::new() })
        };
        let engines = (0..engines).map(engine).collect::<Result<Vec<_>, SharedError>>()?;
        // Workers do not begin at the same time.
        let clock = |_| {
            let now = Instant::from_nanos(u64::from(rng.below(10_000)));
            Clock { now, free: now, stalls: now + Nanos(u64::from(rng.below(2_000_000))) }
        };
        let clocks = (0..workers).map(clock).collect();
        let buckets = scene.span.get().div_ceil(BUCKET.get()) as usize;
        let buckets = vec![vec![0; scene.program.lanes.len()]; buckets];
        let (lock, senders) = (Instant::ZERO, Vec::new());
        let (changed, enqueued, dequeued) = (0, 0, 0);
        let mut run = Self {
            scene,
            way,
            shared,
            engines,
            clocks,
            senders,
            rng,
            lock,
            changed,
            enqueued,
            dequeued,
            buckets,
        };
        run.add_senders();
        Ok(run)
    }

    fn add_senders(&mut self) {
        for (worker, lanes) in self.scene.presence.iter().enumerate() {
            for (lane, presence) in lanes.iter().enumerate() {
                if *presence == Presence::Never {
                    continue;
                }
                let at = worker.min(self.engines.len() - 1);
                let engine = &mut self.engines[at];
                // A lane of the program has no bound of flows.
                let Ok(flow) = engine.packets.add_flow(LaneId::from_index(lane), Weight::ONE) else {
                    continue;
                };
                engine.senders.push(self.senders.len());
                let (on, presence) = (presence.begins(worker), *presence);
                let toggles = self.toggles(presence, worker, Instant::ZERO);
                let sender = Sender { worker, lane, flow, on, presence, toggles, held: 0 };
                self.senders.push(sender);
                self.fill(self.senders.len() - 1, Instant::ZERO);
            }
        }
    }

    /// A random time after `now`, on average by `mean`.
    fn later(&mut self, now: Instant, mean: Nanos) -> Instant {
        let twice = u32::try_from(mean.get().saturating_mul(2)).unwrap_or(u32::MAX).max(1);
        now + Nanos(1 + u64::from(self.rng.below(twice)))
    }

    /// The time after `now` at which a lane of this presence next comes to `worker` or goes.
    fn toggles(&mut self, presence: Presence, worker: usize, now: Instant) -> Instant {
        match presence {
            Presence::Never | Presence::Always => Instant::MAX,
            Presence::OnAndOff(mean) => self.later(now, mean),
            Presence::InTurn(span) => {
                let (span, workers) = (span.get().max(1), self.clocks.len() as u64);
                let turn = now.as_nanos() / span;
                let ahead = (worker as u64 + workers - turn % workers) % workers;
                Instant::from_nanos((turn + ahead.max(1)) * span)
            }
        }
    }

    fn engine_of(&self, worker: usize) -> usize {
        worker.min(self.engines.len() - 1)
    }

    /// Gives a sender that is on its waiting packets.
    fn fill(&mut self, at: usize, now: Instant) {
        let Sender { worker, flow, on, held, .. } = self.senders[at];
        if !on {
            return;
        }
        let engine = self.engine_of(worker);
        for _ in held..WAITING {
            let choice = self.rng.below(self.scene.lengths.len() as u32) as usize;
            let descriptor = Descriptor { len: self.scene.lengths[choice], handle: at as u64 };
            if self.engines[engine].packets.enqueue(flow, descriptor, now).is_ok() {
                self.senders[at].held += 1;
                self.enqueued += 1;
            }
        }
    }

    /// One step of a worker, whose clock is behind all others'.
    fn step(&mut self, worker: usize) {
        let now = self.clocks[worker].now;
        self.change_rates(now);
        self.toggle(worker, now);
        let at = self.engine_of(worker);
        self.exchange(at, now);
        if self.scene.stall > Nanos::ZERO && self.clocks[worker].stalls <= now {
            self.clocks[worker].stalls = self.later(now, BUCKET);
            let stall = self.rng.below(self.scene.stall.get() as u32);
            self.clocks[worker].now = now + Nanos(u64::from(stall));
            return;
        }
        let hold = if let Way::OneLock(hold) = self.way { hold } else { Nanos::ZERO };
        if self.lock > now && hold > Nanos::ZERO {
            self.clocks[worker].now = self.lock;
            return;
        }
        self.lock = now + hold;
        if !self.may_send(at, now) {
            return self.wait(worker, at, Instant::MAX, now);
        }
        match self.engines[at].packets.dequeue(now) {
            Dequeue::Packet(departure) => {
                let len = departure.descriptor.len;
                if let Some(handle) = self.engines[at].handle.as_mut() {
                    handle.has_sent(len);
                }
                let link = self.scene.links[worker].get();
                let clock = &mut self.clocks[worker];
                // A stall delays the packets behind it, and the link then has caught up after some.
                clock.free = clock.free.max(now) + Nanos(len.get() * BIT_NANOS_PER_BYTE / link);
                clock.now = clock.free.max(now + hold);
                self.count(departure.descriptor.handle as usize, len, now);
            }
            Dequeue::Drop(departure) => self.count(departure.descriptor.handle as usize, Bytes::ZERO, now),
            Dequeue::Wait(until) => self.wait(worker, at, until, now),
            Dequeue::Empty => self.wait(worker, at, Instant::MAX, now),
        }
    }

    /// Whether the wire lets a worker send. One that has used up what it had of its time exchanges at once.
    fn may_send(&mut self, at: usize, now: Instant) -> bool {
        let engine = &mut self.engines[at];
        let Some(handle) = engine.handle.as_mut() else { return true };
        handle.may_send() || {
            engine.due = handle.exchange(&mut engine.packets, now);
            handle.may_send()
        }
    }

    fn count(&mut self, sender: usize, len: Bytes, now: Instant) {
        self.dequeued += 1;
        let bucket = (now.as_nanos() / BUCKET.get()) as usize;
        if let Some(bucket) = self.buckets.get_mut(bucket) {
            bucket[self.senders[sender].lane] += len.get();
        }
        self.senders[sender].held -= 1;
        self.fill(sender, now);
    }

    /// Lets a worker that has nothing to send wait.
    fn wait(&mut self, worker: usize, at: usize, until: Instant, now: Instant) {
        let mut until = until.min(now + Nanos::from_micros(20));
        if self.engines[at].handle.is_some() {
            until = until.min(self.engines[at].due);
        }
        self.clocks[worker].now = until.max(now + Nanos(1));
    }

    fn change_rates(&mut self, now: Instant) {
        while let Some(change) = self.scene.changes.get(self.changed).filter(|change| change.at <= now) {
            self.changed += 1;
            if let Some(shared) = &self.shared {
                let _ = shared.set_rate(change.limit, change.rate);
                continue;
            }
            for engine in &mut self.engines {
                let _ = engine.packets.set_rate(change.limit, change.rate, now);
            }
        }
    }

    fn toggle(&mut self, worker: usize, now: Instant) {
        for at in 0..self.senders.len() {
            let Sender { worker: of, presence, toggles, .. } = self.senders[at];
            if of != worker || toggles > now {
                continue;
            }
            let toggles = self.toggles(presence, worker, now);
            let sender = &mut self.senders[at];
            sender.on = match presence {
                Presence::InTurn(span) => {
                    now.as_nanos() / span.get().max(1) % self.clocks.len() as u64 == worker as u64
                }
                _ => !sender.on,
            };
            sender.toggles = toggles;
            self.fill(at, now);
        }
    }

    fn exchange(&mut self, at: usize, now: Instant) {
        if let Way::EqualSplit(period) = self.way {
            if self.engines[at].due <= now {
                self.engines[at].due = now + period;
                self.split(at, now);
            }
            return;
        }
        let engine = &mut self.engines[at];
        if let Some(handle) = engine.handle.as_mut().filter(|_| engine.due <= now) {
            engine.due = handle.exchange(&mut engine.packets, now);
        }
    }

    /// Divides each limit by the number of engines that have something for it.
    fn split(&mut self, at: usize, now: Instant) {
        for (limit, spec) in self.scene.program.limits.iter().enumerate() {
            let id = LimitId::from_index(limit);
            let passes = |sender: &&Sender| self.scene.program.lanes[sender.lane].limits.contains(&id);
            let busy: std::collections::BTreeSet<usize> =
                self.senders.iter().filter(passes).filter(|s| s.held > 0).map(|s| s.worker).collect();
            let now_rate = self.scene.changes[..self.changed].iter().rev().find(|c| c.limit == id);
            let rate = now_rate.map_or(spec.rate, |change| change.rate).get() / busy.len().max(1) as u64;
            let _ = self.engines[at].packets.set_rate(id, BitsPerSec(rate.max(1)), now);
        }
    }

    fn finish(self) -> SimulatedBytes {
        let held: u64 = self.engines.iter().map(|engine| engine.packets.held().get()).sum();
        let limits = self.scene.program.limits.len();
        let unaccounted = (0..limits).map(|limit| self.unaccounted(LimitId::from_index(limit))).collect();
        let packets = [self.enqueued, self.dequeued + held];
        SimulatedBytes { buckets: self.buckets, packets, unaccounted }
    }

    /// The time that workers took of a limit, at its rate, less what they did with it. Only without changes of the rate.
    fn unaccounted(&self, limit: LimitId) -> i128 {
        let Some(shared) = &self.shared else { return 0 };
        let rate = shared.rate_of(limit).map_or(0, |rate| i128::from(rate.get()));
        let mut left = 0;
        for engine in &self.engines {
            let Some(handle) = &engine.handle else { continue };
            let Some(counters) = handle.counters(limit) else { continue };
            let of_time = i128::from(counters.taken.get()) - i128::from(counters.returned.get());
            let sent = i128::from(counters.spent.get()) * i128::from(BIT_NANOS_PER_BYTE);
            let present = handle.spending(&engine.packets, limit);
            let present = i128::from(present.get()) * i128::from(BIT_NANOS_PER_BYTE);
            let holds = i128::try_from(handle.holds(&engine.packets, limit)).unwrap_or(i128::MAX);
            left += of_time * rate - sent - present - holds;
        }
        left
    }
}
