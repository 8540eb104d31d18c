//! Ports that come and go while the NIC runs.
//!
//! [`SoftwareNic::add_port`], in this order, in the caller's thread:
//! 1. The programs are loaded with the maps of the NIC, and attached to the port's devices.
//! 2. The receive direction goes to the kernel where it can.
//! 3. The worker links the rings, and the receive thread the receiving device: microseconds.
//! 4. The kernel side is verified, and followed from then on (`crate::port_watch`).
//! 5. The port is brought up. Until then no packet enters, so none passes uncounted.
//!
//! [`SoftwareNic::remove_port`], in this order:
//! 1. The port is taken down, and the worker sends the packets that have entered, for at most the grace period. A caller that cannot
//!    wait does so before, by [`SoftwareNic::close_port`].
//! 2. The worker unlinks the rings; the caller's thread counts the packets left as held.
//! 3. The receive direction ends: the receiving device is taken down.
//! 4. The totals are read. They are exact from then on, and stay in the NIC's sums.
//! 5. The devices are deleted.
//!
//! A step that fails leaves the NIC as it was.

use super::port::PortBase;
use super::{NicError, NicPort, PortId, PortParts, SoftwareNic};
use crate::counters::PortCounters;
use crate::doorbell::{Bypass, Doorbells, NicMaps, PORTS, PortNumbers, RingPlace};
use crate::kernel_counters::KernelCounterCache;
use crate::plan::{PlanError, RingPlan};
use crate::port::{Port, Uplink};
use crate::port_watch::{self, Contested, Watched};
use crate::redirect::ReceivePath;
use crate::rx;
use crate::sync::Ordering;
use crate::totals::PortTotals;
use crate::worker::{self, NewPort};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use weft_host::bpf::{FilterId, MapFd, wait_grace_period};
use weft_units::{BitsPerSec, Counted, Nanos};

/// The maximum number of rings of a NIC, over all its ports.
pub const NIC_RINGS: usize = 4096;

/// A reader of the worker's counters, which costs no system call and never waits.
#[derive(Clone, Debug)]
pub struct WireCounters(Vec<Arc<PortCounters>>);

impl WireCounters {
    /// The MTU-size frames of class number `class` that were sent so far, and their wire bytes.
    pub fn sent(&self, class: usize) -> Counted {
        let of = |port: &Arc<PortCounters>| port.classes.get(class).map(|class| class.wire.get());
        self.0.iter().filter_map(of).sum()
    }
}

pub(super) fn gone() -> NicError {
    NicError::Stopped("a thread of the NIC has ended".to_owned())
}

fn duplicate(fd: impl AsFd) -> Result<OwnedFd, NicError> {
    let copy = fd.as_fd().try_clone_to_owned();
    copy.map_err(|e| NicError::Stopped(format!("duplicate a descriptor of the port: {e}")))
}

impl SoftwareNic {
    /// Adds a port and brings it up. The other ports are not touched.
    ///
    /// # Errors
    /// When the NIC has no room for it, or its mode no second port, or the kernel refuses the eBPF program.
    pub fn add_port(&mut self, parts: PortParts) -> Result<PortId, NicError> {
        let PortParts { mut port, mut plan, receive } = parts;
        plan.check_port(port.name())?;
        let number = self.room_for(plan.rings.len(), receive.is_some(), port.name())?;
        plan.bound_rings(port.ring_packets);
        let worker = self.least_loaded();
        let fds = core::mem::take(&mut port.rings);
        let first = fds.first().ok_or_else(|| NicError::Stopped("the port has no rings".to_owned()))?;
        let rx_port = duplicate(first)?;
        let (doorbells, behind) = attach_doorbells(&self.maps, &plan, &port, (number as u32, worker))?;
        doorbells.guard().set_link_rate(self.link_rate(), self.ports.len() + 1);
        let own = receive.is_some().then(|| port.mac());
        let device = receive.as_ref().unwrap_or(&self.uplink_device.device);
        let path = ReceivePath::choose(&port, device, own)?;
        let rx_uplink = Arc::new(duplicate(device.queue())?);
        let counters = Arc::new(PortCounters::new(plan.class_slots()));
        let (page, rings) = (doorbells.shared().clone(), fds.into_iter().zip(plan.rings.iter().copied()));
        let (rings, in_hand) = (rings.collect(), Vec::new());
        let new = NewPort { port: number, page, counters: Arc::clone(&counters), rings, in_hand };
        let linked = self.threads.ask(worker, |answer| worker::Command::Add(new, answer));
        linked.ok_or_else(gone)?.map_err(|error| NicError::Engine(error.to_string()))?;
        let mtu = Arc::new(port.mtu()?.into());
        let (uplink, of) = (rx_uplink, Arc::clone(&counters));
        let source = rx::Source { number, uplink, port: rx_port, own, counters: of, mtu: Arc::clone(&mtu) };
        let _ = self.threads.rx.ask(|answer| rx::Command::Add(source, answer));
        self.next_id += 1;
        let id = PortId(self.next_id);
        let kernel_counters = KernelCounterCache::default();
        let receive_device = receive;
        let uses = plan.uses();
        let port = Arc::new(port);
        let contested = self.watch(number, worker, &port, &doorbells);
        let port = NicPort {
            id,
            number,
            worker,
            port,
            doorbells,
            counters,
            plan,
            uses,
            behind,
            base: PortBase::default(),
            receive_device,
            receive: path,
            mtu,
            kernel_counters,
            contested,
            closed: false,
        };
        let up = port.port.up();
        self.ports.push(port);
        if let Err(error) = up {
            self.remove_port(id, Nanos::ZERO)?;
            return Err(error.into());
        }
        self.divide_infrastructure();
        Ok(id)
    }

    /// The number of a port with `rings` rings.
    fn room_for(&self, rings: usize, receives: bool, name: &str) -> Result<usize, NicError> {
        let name = || name.to_owned();
        if self.next_id > 0 && self.plan.rings().rings.iter().any(|ring| ring.class.is_none()) {
            return Err(NicError::OnePort { name: name() });
        }
        if !receives && (self.uplink_device.device.only_transmits() || !self.ports.is_empty()) {
            return Err(NicError::NoReceiver { name: name() });
        }
        let used: usize = self.ports.iter().map(|port| port.plan.rings.len()).sum();
        if used + rings > NIC_RINGS {
            return Err(PlanError::NicRings { rings, left: NIC_RINGS - used }.into());
        }
        let taken = |number: &usize| self.ports.iter().any(|port| port.number == *number);
        (0..PORTS)
            .find(|number| !taken(number))
            .ok_or_else(|| NicError::Stopped("no port is free".to_owned()))
    }

    /// The worker with the fewest ports, the first of several.
    fn least_loaded(&self) -> usize {
        let ports = |worker: &usize| self.ports.iter().filter(|port| port.worker == *worker).count();
        (0..self.plan.workers().get()).min_by_key(ports).unwrap_or(0)
    }

    /// The rate of the link: the observed one, if it has no other; the configured one while that is unknown.
    fn link_rate(&self) -> BitsPerSec {
        self.observed_rate().filter(|_| self.observes_rate()).unwrap_or(self.plan.config().rate)
    }

    /// Divides the share of infrastructure among the ports.
    pub(super) fn divide_infrastructure(&self) {
        let rate = self.link_rate();
        for port in &self.ports {
            port.doorbells.guard().set_link_rate(rate, self.ports.len());
        }
    }

    /// Takes a port down, whose packets are sent from now on until it is removed. Waits for no packet.
    ///
    /// # Errors
    /// When there is no such port.
    pub fn close_port(&mut self, id: PortId) -> Result<(), NicError> {
        let port = self.ports.iter_mut().find(|port| port.id == id).ok_or(NicError::NoSuchPort { id })?;
        close(core::iter::once(&*port));
        port.closed = true;
        Ok(())
    }

    /// Removes a port: takes it down, sends the packets that have entered for at most `grace`, and deletes its devices. The
    /// packets left count as held. The other ports are not touched.
    ///
    /// # Errors
    /// When there is no such port, or it receives by the uplink's device and goes with the NIC.
    pub fn remove_port(&mut self, id: PortId, grace: Nanos) -> Result<PortTotals, NicError> {
        self.close_port(id)?;
        let at = self.ports.iter().position(|port| port.id == id).ok_or(NicError::NoSuchPort { id })?;
        let port = self.ports.remove(at);
        self.unwatch(&port);
        NicPort::wait_drained(core::slice::from_ref(&port), grace);
        let totals = self.retire(port);
        self.divide_infrastructure();
        Ok(totals)
    }

    /// Unlinks a closed port, counts what is left in it, and adds its totals to those of removed ports. A port that
    /// receives by the uplink's device takes that down.
    pub(super) fn retire(&mut self, port: NicPort) -> PortTotals {
        let number = port.number;
        let rings = self.threads.ask(port.worker, |answer| worker::Command::Remove(number, answer));
        NicPort::hold_rest(rings.unwrap_or_default());
        let _ = self.threads.rx.ask(|answer| rx::Command::Remove(number, answer));
        let device: &Uplink = port.receive_device.as_ref().unwrap_or(&self.uplink_device.device);
        port.receive.close(device);
        let totals = port.totals();
        self.removed.add(&totals);
        totals
    }

    /// Follows the kernel side of a port from now on, whose properties hold when this returns.
    pub(super) fn watch(
        &self,
        number: usize,
        worker: usize,
        port: &Arc<Port>,
        doorbells: &Arc<Doorbells>,
    ) -> Contested {
        let contested = Contested::default();
        if let Some(worker) = self.threads.workers.get(worker).cloned() {
            let (port, doorbells) = (Arc::clone(port), Arc::clone(doorbells));
            let watched = Watched { number, worker, port, doorbells, contested: contested.clone() };
            let _ = self.threads.watch.ask(|answer| port_watch::Command::Add(watched, answer));
        }
        contested
    }

    /// Leaves the kernel side of a port alone from now on.
    pub(super) fn unwatch(&self, port: &NicPort) {
        let number = port.number;
        let _ = self.threads.watch.ask(|answer| port_watch::Command::Remove(number, answer));
    }

    /// The changes by other programs at the ports since the last call, and what became of them, one line each.
    pub fn take_changes(&self) -> Vec<String> {
        self.threads.changes.take()
    }

    /// The ports.
    pub fn ports(&self) -> &[NicPort] {
        &self.ports
    }

    /// The port with identity `id`.
    pub fn port(&self, id: PortId) -> Option<&NicPort> {
        self.ports.iter().find(|port| port.id == id)
    }

    /// A reader of what the ports that exist now have sent by class, for another thread.
    pub fn wire_counters(&self) -> WireCounters {
        WireCounters(self.ports.iter().map(|port| Arc::clone(&port.counters)).collect())
    }

    /// The number of tracked flows by class, over all ports.
    pub fn flows_by_class(&self) -> Vec<u32> {
        let mut flows = vec![0; self.plan.rings().classes()];
        for port in &self.ports {
            flows.iter_mut().zip(port.flows_by_class()).for_each(|(sum, more)| *sum += more);
        }
        flows
    }

    /// The wake-ups sent by the posting side of all ports.
    pub(super) fn wakeups(&self) -> u64 {
        self.maps.summaries().map(|summary| summary.wakeups.load(Ordering::Relaxed)).sum()
    }
}

/// Loads the eBPF programs of port `number` and attaches them. Returns the filters at the ingress of far end and macvtap, if
/// there are such.
fn attach_doorbells(
    maps: &Arc<NicMaps>,
    plan: &RingPlan,
    port: &Port,
    (number, worker): (u32, usize),
) -> Result<(Arc<Doorbells>, Option<[FilterId; 2]>), NicError> {
    let place = if port.tap_queue().is_some() { RingPlace::Tap } else { RingPlace::Veth };
    let numbers = PortNumbers { place: number, name: maps.number_of(port.name()), worker };
    let doorbells = Doorbells::for_port(maps, plan, numbers, place)?;
    let stopped = |e: weft_host::netns::NetNsError| NicError::Stopped(e.to_string());
    let guarded = plan.queues.is_none();
    if let Some(queue) = port.tap_queue() {
        doorbells.attach_tap(queue, if guarded { Bypass::Drops } else { Bypass::Passes })?;
    }
    doorbells.attach_at(&port.near())?;
    let mut behind = None;
    // A plain multiqueue NIC has no classes, so no packet can escape its class.
    if guarded && port.tap_queue().is_none() {
        let devices = port.behind()?;
        behind = Some(port.nic().run(|| doorbells.attach_behind(devices)).map_err(stopped)??);
    }
    Ok((doorbells, behind))
}

/// Loads the eBPF programs of a port behind a veth that was in use, over its maps `own`, and puts them in the place of the
/// former process's; `behind` are its filters at far end and macvtap.
pub(super) fn replace_doorbells(
    maps: &Arc<NicMaps>,
    plan: &RingPlan,
    (port, number): (&Port, u32),
    own: &[(&'static str, MapFd)],
    behind: Option<[FilterId; 2]>,
) -> Result<(Arc<Doorbells>, Option<[FilterId; 2]>), NicError> {
    let numbers = PortNumbers { place: number, name: maps.number_of(port.name()), worker: 0 };
    let doorbells = Doorbells::over(maps, plan, numbers, RingPlace::Veth, own)?;
    let stopped = |e: weft_host::netns::NetNsError| NicError::Stopped(e.to_string());
    let (devices, mut replaced) = (port.behind()?, None);
    if let Some(behind) = behind {
        let replace = || doorbells.replace_behind(devices, behind);
        replaced = Some(port.nic().run(replace).map_err(stopped)??);
    }
    doorbells.attach_at(&port.near())?;
    Ok((doorbells, replaced))
}

/// Lets no further packet enter the ports, and keeps those that have. A device on its way down has a qdisc that drops what its
/// doorbell has announced (`noop_qdisc`, net/sched/sch_generic.c), so packets are refused before their doorbell first, and those
/// between doorbell and device pass.
pub(super) fn close<'a>(ports: impl Iterator<Item = &'a NicPort> + Clone) {
    ports.clone().for_each(|port| port.doorbells.guard().close());
    let _ = wait_grace_period();
    // Taking a TAP down would empty the FIFOs above its rings.
    for port in ports.filter(|port| port.port.tap_queue().is_none()) {
        let _ = port.port.down();
    }
}
