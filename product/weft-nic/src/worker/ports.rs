//! The commands to the worker: ports are linked and unlinked, the rings handed over, and the policy changed. Each is executed
//! between two turns, in microseconds, while the ports that it is not about continue.
//!
//! # Ports
//! A port is linked (`add_port`) when its devices, programs and rings exist and it is still down: each of its rings takes
//! a slot in the worker's list, and a flow of the engine. Slots and flows of removed ports are used again.
//!
//! A port is unlinked (`unlink`) with its rings, as they are: packets left in them are the new owner's to count. The slot
//! of a ring that is backlogged in the engine stays vacant until the engine gives it its next turn, which sends nothing;
//! then the flow is removed.
//!
//! Doorbells are taken from the summary, then from the pages of the posted ports only (`take_doorbells`), so idle ports
//! and idle rings cost nothing.
//!
//! Rare branches: a port whose devices are deleted ends (`fail_port`, `failed` of the port's counters), and no other. A macvtap's
//! queue does not report that its device is gone (`tap_poll`, drivers/net/tap.c), so the watch of the ports orders it; a TAP's
//! fails. A bit of a port or ring that the worker does not have is dropped: the port is unlinked, or its last posts overlapped with
//! its removal.
//!
//! # Hand-over
//! A worker ends whose rings another process will serve (`hand_over`). Packets in the rings stay there. Those that were fetched
//! and not sent completely go to the successor, which sends what is left of them in their rings' turns ([`InHand`]).
//!
//! # The change of the policy while packets wait
//! Everything that takes time is done before, in the thread of the caller: the new tree, the urgency and the lag of the new
//! classes, and the plans of the ports. The worker exchanges them in one step (`change_policy`):
//!
//! 1. Drains end, and begin anew afterwards (`worker/rings.rs`). The engine exchanges its program. Flows of lanes that are gone
//!    are in their heirs' then. A refusal ends the change here, with no effect.
//! 2. Rings of new lanes move to them, and rings that have changed their owner get their class.
//! 3. The device takes the new classes' urgency and lag, and learns all rings again.
//! 4. The link takes its new rate.
//!
//! The old parts return to the caller, so the worker frees nothing. The time of the step is the longest that the change
//! holds a packet: `change_pause` and `change_pause_max`.

use super::device::Classes;
use super::engine::{ExchangeError, RingError};
use super::{Engine, Worker};
use crate::counters::PortCounters;
use crate::doorbell::{RINGS, protocol};
use crate::flow_records::RecordSource;
use crate::in_hand::InHand;
use crate::layout::{Page, Shared};
use crate::link::LinkRate;
use crate::plan::RingSpec;
use crate::ring::{Place, Ring};
use crate::sync::Ordering;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use weft_host::clock;
use weft_rank::Metadata;
use weft_sched::Prepared;
use weft_sched::workers;
use weft_units::{BitsPerSec, FlowId, Nanos, RingId};

/// A set of rings of one port.
pub(crate) type RingSet = [u64; RINGS / 64];

/// A command to the worker.
#[derive(Debug)]
pub(crate) enum Command {
    /// Links a port.
    Add(NewPort, Sender<Result<(), RingError>>),
    /// Unlinks the port with this number, and returns its rings.
    Remove(usize, Sender<Vec<Ring>>),
    /// Ends the port with this number, whose devices are deleted.
    Fail(usize, Sender<()>),
    /// Ends without emptying the rings, and returns the packets that the worker holds.
    HandOver(Sender<Vec<InHand>>),
    /// Says whether it would change the policy.
    Check(Box<PolicyChange>, Sender<Box<PolicyChange>>),
    /// Changes the policy.
    Change(Box<PolicyChange>, Sender<Box<PolicyChange>>),
}

/// A port to be linked.
#[derive(Debug)]
pub(crate) struct NewPort {
    /// Its bit in the summary.
    pub(crate) port: usize,
    pub(crate) page: Page<Shared>,
    pub(crate) counters: Arc<PortCounters>,
    pub(crate) rings: Vec<(OwnedFd, RingSpec)>,
    /// The packets that a former worker had fetched from them and not sent.
    pub(crate) in_hand: Vec<InHand>,
}

/// A change of the policy, prepared outside the worker, and after the change what was replaced.
#[derive(Debug)]
pub(crate) struct PolicyChange {
    /// The new program, and then the old one.
    pub(crate) program: Option<Prepared>,
    /// The state of the new program that several workers share.
    pub(crate) shared: Option<Arc<workers::Shared>>,
    /// The classes as the uplink's device sees them.
    pub(crate) classes: Option<Classes>,
    /// The ports, by their bits in the summary.
    pub(crate) ports: Vec<PortChange>,
    /// The rate of the link and its source, if it changes.
    pub(crate) link: Option<(BitsPerSec, LinkRate, Nanos)>,
    /// The outcome: the time that the worker took, or the reason of a refusal.
    pub(crate) outcome: Result<Nanos, ExchangeError>,
}

/// The change at a port.
#[derive(Debug)]
pub(crate) struct PortChange {
    /// The port's bit in the summary.
    pub(crate) port: usize,
    /// The rings that change their lane or their class, and those of new lanes.
    pub(crate) rings: Vec<(usize, RingSpec)>,
    /// The rings of each leaf.
    pub(crate) leaves: Vec<(usize, RingSet)>,
}

/// A port of the worker.
#[derive(Debug)]
pub(super) struct WorkerPort {
    pub(super) page: Page<Shared>,
    pub(super) counters: Arc<PortCounters>,
    /// The slots of its rings, by their numbers in the page.
    pub(super) slots: Vec<usize>,
    /// Its rings of each leaf of the policy.
    pub(super) leaves: Vec<(usize, RingSet)>,
    /// The rings of a port that failed, until it is removed.
    unlinked: Vec<Ring>,
}

impl<R: RecordSource, E: Engine> Worker<'_, R, E> {
    /// Executes the pending commands.
    pub(super) fn obey(&mut self) {
        while let Some(command) = self.commands.take() {
            // An asker that no longer waits needs no answer.
            match command {
                Command::Add(port, answer) => _ = answer.send(self.add_port(port)),
                Command::Remove(port, answer) => _ = answer.send(self.remove_port(port)),
                Command::Fail(port, answer) => {
                    self.fail_port(port, Errno::NODEV);
                    _ = answer.send(());
                }
                Command::HandOver(answer) => _ = answer.send(self.hand_over()),
                Command::Check(mut change, answer) => {
                    self.check_policy(&mut change);
                    _ = answer.send(change);
                }
                Command::Change(mut change, answer) => {
                    self.change_policy(&mut change);
                    _ = answer.send(change);
                }
            }
        }
    }

    /// Links a port.
    pub(super) fn add_port(&mut self, new: NewPort) -> Result<(), RingError> {
        let NewPort { port, page, counters, rings, in_hand } = new;
        let of = |number| Place { port, page: page.clone(), counters: Arc::clone(&counters), number };
        let (mut slots, mut leaves) = (Vec::with_capacity(rings.len()), Vec::<(usize, RingSet)>::new());
        for (number, (fd, spec)) in rings.into_iter().enumerate() {
            let flow = match self.engine.add_ring(spec.lane, RingId::from_index(number)) {
                Ok(flow) => flow,
                Err(error) => {
                    slots.into_iter().for_each(|slot| _ = self.vacate(slot));
                    return Err(error);
                }
            };
            let slot = self.take_slot(flow, Ring::new(Some(fd), flow, (spec.lane, spec.class), of(number)));
            slots.push(slot);
            self.shares_rings |= spec.class.is_none();
            if let Some(device) = self.parts.device.as_mut() {
                add_to_leaf(&mut leaves, device.add_ring(slot, spec.lane), number);
            }
        }
        if self.ports.len() <= port {
            self.ports.resize_with(port + 1, || None);
        }
        page.urgent.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        let of_port = slots.clone();
        self.ports[port] = Some(WorkerPort { page, counters, slots, leaves, unlinked: Vec::new() });
        for packet in &in_hand {
            if let Some(slot) = of_port.get(packet.ring) {
                self.take_over(*slot, packet);
            }
        }
        // A port that was in use has packets whose bits were taken.
        for slot in of_port {
            let ring = &self.rings[slot];
            if ring.fetched.is_some() || ring.posted() > ring.accounting.done() {
                self.activate(slot);
            }
        }
        Ok(())
    }

    /// Puts `ring` into a slot. Returns the slot.
    fn take_slot(&mut self, flow: FlowId, ring: Ring) -> usize {
        let rings = &mut self.rings;
        let slot = match self.vacant.pop() {
            Some(slot) => {
                rings[slot] = ring;
                slot
            }
            None => {
                rings.push(ring);
                rings.len() - 1
            }
        };
        if self.ring_of_flow.len() <= flow.index() {
            self.ring_of_flow.resize(flow.index() + 1, RingId(u32::MAX));
        }
        self.ring_of_flow[flow.index()] = RingId::from_index(slot);
        slot
    }

    /// Unlinks a port for good. Where classes share rings, the packets left are counted here, since the classes of flows
    /// are known here; such a NIC has one port, so no other port waits.
    fn remove_port(&mut self, port: usize) -> Vec<Ring> {
        let mut rings = self.unlink(port);
        if rings.iter().any(|ring| ring.class.is_none()) {
            self.hold_all(&mut rings);
        }
        if let Some(place) = self.ports.get_mut(port) {
            *place = None;
        }
        while self.ports.pop_if(|last| last.is_none()).is_some() {}
        rings
    }

    /// Takes the rings of a port out of the worker's list.
    fn unlink(&mut self, port: usize) -> Vec<Ring> {
        let Some(place) = self.ports.get_mut(port).and_then(Option::as_mut) else { return Vec::new() };
        let mut rings = core::mem::take(&mut place.unlinked);
        for slot in core::mem::take(&mut place.slots) {
            rings.push(self.vacate(slot));
        }
        rings
    }

    /// Takes a ring out of its slot. The slot is free at once, or after the ring's next turn in the engine.
    fn vacate(&mut self, slot: usize) -> Ring {
        self.drains.forget(slot);
        self.late.end(slot);
        let ring = &self.rings[slot];
        let (flow, of, backlogged) = (ring.flow, (ring.lane, ring.class), ring.backlogged);
        let mut vacant = Ring::new(None, flow, of, self.nowhere.clone());
        vacant.backlogged = backlogged;
        let mut ring = core::mem::replace(&mut self.rings[slot], vacant);
        if let Some(fetched) = ring.fetched.as_mut() {
            self.engine.release(fetched.held.take());
        }
        if !backlogged {
            self.engine.remove_ring(flow);
            self.vacant.push(slot);
        }
        ring
    }

    /// Ends the port with this number, whose device is deleted, and no other. Its rings leave the list and each sweep.
    pub(super) fn fail_port(&mut self, port: usize, error: Errno) {
        let rings = self.unlink(port);
        if let Some(place) = self.ports.get_mut(port).and_then(Option::as_mut) {
            place.counters.failed.set(error.raw_os_error().unsigned_abs().into());
            place.unlinked = rings;
        }
    }

    /// Activates the posted rings in the engine.
    pub(super) fn take_doorbells(&mut self) {
        for word in 0..self.ports.len().div_ceil(64) {
            let mut bits = protocol::take(&self.summary.ready_ports[word]);
            while bits != 0 {
                let port = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                self.take_rings(port);
            }
        }
    }

    fn take_rings(&mut self, port: usize) {
        for word in 0..RINGS / 64 {
            let Some(Some(of)) = self.ports.get(port) else { return };
            let mut bits = protocol::take(&of.page.ready[word]);
            while bits != 0 {
                let number = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let Some(Some(of)) = self.ports.get(port) else { return };
                let Some(slot) = of.slots.get(number).copied() else { continue };
                match self.reads_packets {
                    true => self.rings[slot].look_closely(self.stamp),
                    false => _ = self.rings[slot].look(self.stamp),
                }
                if self.rings[slot].late {
                    self.late.posted(slot);
                } else {
                    self.activate(slot);
                }
            }
        }
    }

    /// Marks ring `slot` as backlogged in the engine.
    pub(super) fn activate(&mut self, slot: usize) {
        let ring = &mut self.rings[slot];
        let known;
        let packet = match (self.reads_packets, ring.backlogged) {
            (false, _) => &Metadata::UNKNOWN,
            (true, backlogged) => {
                known = if backlogged { ring.newest(self.stamp) } else { ring.head(self.stamp) };
                &known
            }
        };
        if self.engine.activate(ring.flow, packet, self.parts.link.now()) {
            self.became_ready(slot);
        }
    }

    /// The known metadata of the next packet of ring `number`.
    pub(super) fn known_of_next(&mut self, number: usize) -> Metadata {
        let ring = &mut self.rings[number];
        // The bit of its doorbell may not be taken yet.
        ring.look_closely(self.stamp);
        ring.head(self.stamp)
    }

    /// Writes the urgency that has changed to the pages of the ports.
    pub(super) fn write_urgency(&mut self) {
        let Some(device) = self.parts.device.as_mut() else { return };
        let ports = &self.ports;
        device.urgency.take_changed(|leaf, urgent| {
            for port in ports.iter().flatten() {
                let Some((_, rings)) = port.leaves.iter().find(|(of, _)| *of == leaf) else { continue };
                for (word, bits) in port.page.urgent.iter().zip(rings) {
                    let old = word.load(Ordering::Relaxed);
                    let new = if urgent { old | bits } else { old & !bits };
                    if new != old {
                        word.store(new, Ordering::SeqCst);
                    }
                }
            }
        });
    }

    /// Whether an urgent ring of `port` is posted.
    pub(super) fn has_urgent(ports: &[Option<WorkerPort>], port: usize) -> bool {
        let Some(Some(port)) = ports.get(port) else { return false };
        let urgent = port.page.urgent.each_ref().map(|word| word.load(Ordering::Relaxed));
        protocol::has_urgent(&port.page.ready, &urgent)
    }

    /// Counts the packets left in `rings` as held.
    pub(super) fn hold_all(&mut self, rings: &mut [Ring]) {
        self.records.consume();
        let until = clock::now() + crate::ring::REFILL;
        for ring in rings {
            ring.hold_rest(until, &mut self.pool, |ring, packet| {
                super::class_of_packet(&self.records, self.flows, self.parts.default_class, ring, packet)
            });
        }
    }
}

/// The hand-over.
impl<R: RecordSource, E: Engine> Worker<'_, R, E> {
    /// Ends the worker's part. Returns the packets that it holds.
    fn hand_over(&mut self) -> Vec<InHand> {
        self.handed_over = true;
        self.rings.iter().filter_map(crate::ring::Ring::in_hand).collect()
    }

    /// Takes over `packet`, which a former worker held, for the ring in `slot`.
    fn take_over(&mut self, slot: usize, packet: &InHand) {
        self.rings[slot].take_over(packet, &mut self.pool);
    }
}

/// The change of the policy.
impl<R: RecordSource, E: Engine> Worker<'_, R, E> {
    /// Says whether the engine would change the policy. What it says holds until the next command.
    fn check_policy(&mut self, change: &mut PolicyChange) {
        if let Some(prepared) = &change.program {
            change.outcome = self.engine.may_change(prepared).map(|()| Nanos::ZERO);
        }
    }

    /// Changes the policy.
    fn change_policy(&mut self, change: &mut PolicyChange) {
        let begin = clock::now();
        self.end_drains();
        if let Some(prepared) = change.program.take() {
            match self.engine.change(prepared, self.parts.link.now()) {
                Ok(retired) => {
                    change.program = Some(retired);
                    self.reads_packets = self.engine.reads_packets();
                }
                Err((unused, why)) => {
                    (change.program, change.outcome) = (Some(unused), Err(why));
                    return;
                }
            }
        }
        if let Some(shared) = change.shared.take()
            && let Err(why) = self.engine.join(shared, self.parts.link.now())
        {
            change.outcome = Err(why);
        }
        for port in &mut change.ports {
            self.change_port(port);
        }
        if let Some((rate, source, catch_up)) = change.link {
            self.parts.link.change((source == LinkRate::Given).then_some(rate), catch_up);
            self.cpu_charge.set_rate((source == LinkRate::Given).then_some(rate));
        }
        if let Some(classes) = change.classes.as_mut() {
            self.change_classes(classes, change.link.map(|(rate, source, _)| (rate, source)));
        }
        let pause = clock::now().saturating_since(begin);
        let counters = &self.parts.counters;
        counters.changes.add(1, 0);
        counters.change_pause_max.set(counters.change_pause_max.get().max(pause.get()));
        change.outcome = change.outcome.map(|_| pause);
    }

    fn change_port(&mut self, change: &mut PortChange) {
        let Some(Some(port)) = self.ports.get_mut(change.port) else { return };
        core::mem::swap(&mut port.leaves, &mut change.leaves);
        for (number, spec) in &change.rings {
            let Some(slot) = port.slots.get(*number).copied() else { continue };
            let ring = &mut self.rings[slot];
            self.engine.move_ring(ring.flow, spec.lane);
            ring.lane = spec.lane;
            // A ring with packets keeps its class: the plan changes that of empty rings only.
            ring.class = spec.class;
        }
    }

    fn change_classes(&mut self, classes: &mut Classes, link: Option<(BitsPerSec, LinkRate)>) {
        let Some(device) = self.parts.device.as_mut() else { return };
        device.change(classes, link);
        // The queue below is as long as the rate requires.
        let bound = link.and_then(|_| device.bound_changed());
        for (slot, ring) in self.rings.iter().enumerate().filter(|(_, ring)| ring.fd.is_some()) {
            device.add_ring(slot, ring.lane);
            if ring.backlogged {
                device.activated(slot);
            }
        }
        self.bound_uplink(bound);
    }
}

/// Adds ring `ring` to those of `leaf`.
pub(crate) fn add_to_leaf(leaves: &mut Vec<(usize, RingSet)>, leaf: usize, ring: usize) {
    let at = match leaves.iter().position(|(of, _)| *of == leaf) {
        Some(at) => at,
        None => {
            leaves.push((leaf, RingSet::default()));
            leaves.len() - 1
        }
    };
    leaves[at].1[ring / 64] |= 1 << (ring % 64);
}

/// The place of vacant slots: a page that no program posts to, and counters that no reader reads.
pub(super) fn nowhere(classes: usize) -> Place {
    let page = Page::Own(Arc::<Shared>::default());
    Place { port: usize::MAX, page, counters: Arc::new(PortCounters::new(classes)), number: 0 }
}
