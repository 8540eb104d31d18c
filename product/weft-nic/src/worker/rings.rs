//! The rings of the worker: the packets that wait in them, rings out of step with their doorbells, and rings that must drain.
//!
//! # The packets that wait
//! They are counted by class: as backlogged rings where each ring has one class, and as packets posted less those completed
//! where classes share rings.
//!
//! # Rings out of step with their doorbells
//! * Late: the ring of a posted doorbell is empty (`put_aside`). It is fetched again at increasing intervals
//!   ([`LateRings`](crate::late::LateRings), `retry_late`).
//! * Lost: the packets are still missing after [`NEVER_CAME`](crate::ring_accounting::NEVER_CAME). The accounting gives
//!   them up, which frees their places.
//! * Stray: a packet without a doorbell. The sweep finds it (`sweep`).
//!
//! # Rings that must drain
//! A flow that has moved to another class sends nothing there before the packets that it left in its former ring have gone
//! (`held_back` in bpf/moves.h). The former class may not get a turn for long, such as below a busy priority. So the wait has a
//! limit:
//!
//! 1. A core that refuses a packet of such a flow writes the flow's lane, and the count until which it waits, beside the
//!    doorbell of the former ring (`await_ring`).
//! 2. The sweep notes since when a ring is awaited ([`Drains::look`]).
//! 3. After the limit the ring is *escorted*: the class that takes the flow sends the ring's packets up to that count, in their
//!    order and at its own expense. Nothing is dropped, and nothing overtakes. Then the ring is its class's again.
//!
//! A ring whose class passes a limit that the other class does not pass is not escorted: the limit would not hold. Such a
//! ring continues at the rate of its limit.

use super::ports::WorkerPort;
use super::{Engine, LATE_READS, SWEEP_RINGS, Worker};
use crate::flow_records::RecordSource;
use crate::layout::awaited;
use crate::ring::{Fetch, Ring};
use crate::sampler::Standing;
use crate::sync::Ordering;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use weft_host::clock;
use weft_units::{Bytes, ClassId, Instant, LaneId, Nanos};

/// The end of a packet's way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// The uplink has taken it.
    Sent,
    /// The uplink has refused it.
    Refused,
}

/// A ring that flows wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Drain {
    slot: usize,
    since: Instant,
    /// The lane that takes the flow, and the count until which it waits.
    lane: LaneId,
    until: u64,
    /// The ring's own lane, while it is escorted.
    home: Option<LaneId>,
}

/// The next step of a drain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// The limit is over: the ring's packets go by this lane.
    Escort(LaneId),
    /// The packets have gone: the ring goes back to this lane.
    Home(LaneId),
}

/// The rings that flows wait for.
#[derive(Debug, Default)]
pub(super) struct Drains(Vec<Drain>);

impl Drains {
    /// Looks at ring `slot`, of which `done` packets are completed, at `now`. `awaited` is what a flow waits for, for at most
    /// `limit`.
    pub(super) fn look(
        &mut self,
        slot: usize,
        (done, awaited): (u64, Option<(LaneId, u64)>),
        (now, limit): (Instant, Nanos),
    ) -> Option<Step> {
        let awaited = awaited.filter(|(_, until)| *until > done);
        let Some(at) = self.0.iter().position(|drain| drain.slot == slot) else {
            if let Some((lane, until)) = awaited {
                self.0.push(Drain { slot, since: now, lane, until, home: None });
            }
            return None;
        };
        let drain = &mut self.0[at];
        match (drain.home, awaited) {
            // Flows that have begun to wait since have their own limit.
            (Some(home), _) if done >= drain.until => {
                self.0.swap_remove(at);
                Some(Step::Home(home))
            }
            (Some(_), _) => None,
            (None, None) => {
                self.0.swap_remove(at);
                None
            }
            (None, Some((lane, until))) => {
                (drain.lane, drain.until) = (lane, until);
                (now.saturating_since(drain.since) > limit).then_some(Step::Escort(lane))
            }
        }
    }

    /// Records that ring `slot`, whose own lane is `home`, is escorted.
    pub(super) fn escorted(&mut self, slot: usize, home: LaneId) {
        if let Some(drain) = self.0.iter_mut().find(|drain| drain.slot == slot) {
            drain.home = Some(home);
        }
    }

    /// Forgets ring `slot`.
    pub(super) fn forget(&mut self, slot: usize) {
        self.0.retain(|drain| drain.slot != slot);
    }

    /// The number of rings, and the time since which the first has been waited for.
    fn longest(&self) -> (usize, Option<Instant>) {
        (self.0.len(), self.0.iter().map(|drain| drain.since).min())
    }
}

/// The packets that wait.
impl<R: RecordSource, E: Engine> Worker<'_, R, E> {
    /// Records that ring `number`, which was idle, has a packet to send.
    pub(super) fn became_ready(&mut self, number: usize) {
        let ring = &mut self.rings[number];
        ring.backlogged = true;
        ring.since = self.parts.link.now();
        self.all_backlogged += 1;
        if let Some(class) = ring.class {
            self.backlogged[class.index()] += 1;
        }
        if let Some(device) = self.parts.device.as_mut() {
            device.activated(number);
        }
    }

    /// Records that ring `number` has no packet to send after its turn. The flow of a vacant slot is removed.
    pub(super) fn became_idle(&mut self, number: usize) {
        let ring = &mut self.rings[number];
        ring.backlogged = false;
        self.all_backlogged -= 1;
        let (class, vacant) = (ring.class, ring.fd.is_none());
        if vacant {
            self.engine.remove_ring(ring.flow);
            self.vacant.push(number);
        }
        let Some(class) = class else { return };
        self.backlogged[class.index()] -= 1;
        if self.backlogged[class.index()] == 0 {
            // Another ring of the class may have been posted meanwhile.
            self.take_doorbells();
            if self.backlogged[class.index()] == 0 {
                self.parts.sampler.ran_dry(class);
            }
        }
    }

    /// Records that a packet of `class` has left ring `number` completely with a chunk from `start` to `departure`, to the uplink
    /// or refused by it.
    pub(super) fn packet_has_left(
        &mut self,
        number: usize,
        class: ClassId,
        (start, departure): (Instant, Instant),
        end: End,
    ) {
        let ring = &mut self.rings[number];
        // A link's clock that is behind has the chunk leave in the past; its last bit leaves now.
        let gone = (self.stamp, departure.max(self.stamp + (departure - start)));
        if let (Some(wait), End::Sent) = (ring.arrivals.left(ring.accounting.done(), gone), end)
            && let Some(sojourns) = self.parts.counters.sojourns.get(class.index())
        {
            sojourns.record(wait);
        }
        let wait = departure.saturating_since(ring.since);
        ring.since = departure;
        let shared = ring.class.is_none();
        self.parts.sampler.waited(class, wait);
        // A class with separate rings runs dry when its last ring becomes idle.
        if shared && !self.is_in_shared_ring(class) {
            self.parts.sampler.ran_dry(class);
        }
    }

    /// Whether a packet of `class` is in a ring that classes share. Packets on their way to their rings cannot be sent
    /// yet, and only the count of all classes shows which rings have packets.
    fn is_in_shared_ring(&self, class: ClassId) -> bool {
        let (mut posted, mut gone) = (0, 0);
        for port in self.ports.iter().flatten() {
            posted += port.page.classes[class.index()].packets.load(Ordering::Relaxed);
            let counted = &port.counters.classes[class.index()];
            gone += counted.sent.get().packets.get() + counted.refused.get().packets.get();
        }
        let ready = |ring: &Ring| !ring.late && ring.posted() > ring.accounting.done();
        posted > gone && (self.late.is_empty() || self.rings.iter().any(ready))
    }

    /// Whether the NIC could send a packet of `class` now.
    fn is_ready(&self, class: ClassId) -> bool {
        if self.shares_rings {
            return self.all_backlogged > 0 && self.is_in_shared_ring(class);
        }
        self.backlogged[class.index()] > 0
    }

    /// Whether at least `enough` packets are in the NIC.
    pub(super) fn waits(&self, enough: u64) -> bool {
        let mut waiting = 0;
        let pages = self.ports.iter().flatten().map(|port| &port.page);
        pages.flat_map(|page| page.classes.iter().take(self.parts.classes)).any(|class| {
            let done = class.done.load(Ordering::Relaxed);
            waiting += class.packets.load(Ordering::Relaxed).saturating_sub(done);
            waiting >= enough
        })
    }

    /// The current backlog of the NIC.
    pub(super) fn standing(&self) -> Standing {
        let of_port = if self.shares_rings { waiting_bytes_of_shared_rings } else { waiting_bytes };
        let bytes = |class: usize| self.ports.iter().flatten().map(|port| of_port(port, class)).sum();
        let classes = 0..self.parts.classes;
        Standing {
            backlogged_rings: self.all_backlogged + self.late.len() as u32,
            bytes: classes.clone().map(bytes).collect(),
            ready: classes.map(|class| self.is_ready(ClassId::from_index(class))).collect(),
            lost: self.parts.link.lost(),
        }
    }
}

/// Rings out of step with their doorbells.
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

/// Rings that must drain.
impl<R: RecordSource, E: Engine> Worker<'_, R, E> {
    /// Looks at the rings in `slots`.
    pub(super) fn look_at_drains(&mut self, slots: core::ops::Range<usize>, wall: Instant) {
        let limit = Nanos(self.parts.counters.drain_limit.get());
        for slot in slots {
            let ring = &self.rings[slot];
            let awaited = awaited(ring.awaited().load(Ordering::Relaxed));
            if awaited.is_some() && ring.fd.is_some() {
                match self.drains.look(slot, (ring.accounting.done(), awaited), (wall, limit)) {
                    Some(Step::Escort(lane)) => self.escort(slot, lane),
                    Some(Step::Home(lane)) => self.put_ring(slot, lane),
                    None => {}
                }
            }
        }
        let (count, since) = self.drains.longest();
        let counters = &self.parts.counters;
        counters.draining.set(count as u64);
        counters.draining_for.set(since.map_or(0, |since| wall.saturating_since(since).get()));
    }

    /// Lets ring `slot` go by `lane`, if it then passes all limits of its own lane.
    fn escort(&mut self, slot: usize, lane: LaneId) {
        let home = self.rings[slot].lane;
        if self.engine.may_escort(home, lane) {
            self.put_ring(slot, lane);
            self.drains.escorted(slot, home);
            self.parts.counters.escorts.add(1, 0);
        }
    }

    /// Gives all escorted rings back to their own lanes and forgets who waits, before the lanes change: their numbers may
    /// mean others then. A flow that still waits says so with its next packet, and its wait begins anew.
    pub(super) fn end_drains(&mut self) {
        for Drain { slot, home, .. } in core::mem::take(&mut self.drains.0) {
            self.rings[slot].awaited().store(0, Ordering::Relaxed);
            if let Some(home) = home {
                self.put_ring(slot, home);
            }
        }
    }

    /// Moves ring `slot` to `lane`.
    fn put_ring(&mut self, slot: usize, lane: LaneId) {
        let ring = &mut self.rings[slot];
        self.engine.move_ring(ring.flow, lane);
        ring.lane = lane;
        if let Some(device) = self.parts.device.as_mut() {
            device.move_ring(slot, lane, ring.backlogged);
        }
    }
}

/// The frame bytes of `class` posted to `port` and not yet completed. They are read from the page, which outlives a worker
/// and so has what a former process completed, unlike this worker's counters. A lost packet is completed without its bytes.
fn waiting_bytes(port: &WorkerPort, class: usize) -> Bytes {
    let page = &port.page.classes[class];
    if page.done.load(Ordering::Relaxed) >= page.packets.load(Ordering::Relaxed) {
        return Bytes(0);
    }
    let done = Bytes(page.done_bytes.load(Ordering::Relaxed));
    Bytes(page.bytes.load(Ordering::Relaxed)).saturating_sub(done)
}

/// As [`waiting_bytes`], where classes share rings: the page does not count completed packets by class there. Such a port
/// does not outlive its process.
fn waiting_bytes_of_shared_rings(port: &WorkerPort, class: usize) -> Bytes {
    let counted = &port.counters.classes[class];
    let gone = counted.sent.get().bytes + counted.refused.get().bytes;
    Bytes(port.page.classes[class].bytes.load(Ordering::Relaxed)).saturating_sub(gone)
}

#[cfg(test)]
mod tests;
