//! A port of a running NIC: its devices, its programs, its counters and its way to receive.

use super::NicError;
use crate::counters::{ClassCounters, PortCounters};
use crate::doorbell::Doorbells;
use crate::kernel_counters::{Freshness, KernelCounterCache, Passed};
use crate::layout::{ClassBell, Page, Shared};
use crate::plan::RingPlan;
use crate::plan::change::RingUse;
use crate::port::{Deliveries, Port, PortDrops, Uplink};
use crate::port_watch::Contested;
use crate::redirect::ReceivePath;
use crate::ring::{BufferPool, REFILL, Ring};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::totals::{Arrivals, ClassTotals, PortTotals};
use core::fmt;
use std::sync::Arc;
use weft_facts::counters::{ClassEvents, PortEvents};
use weft_host::bpf::{FilterId, wait_grace_period};
use weft_host::{clock, macvtap};
use weft_units::{Counted, Nanos, Packets};

/// The longest wait for a near end that has just got its carrier; the next look finds it otherwise.
const CARRIER: core::time::Duration = core::time::Duration::from_millis(50);

/// The identity of a port in its NIC. Never used again after the port was removed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PortId(pub(super) u64);

impl fmt::Display for PortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "port {}", self.0)
    }
}

/// The parts of a port to be added.
#[derive(Debug)]
pub struct PortParts {
    /// The devices, with as many rings as the plan has.
    pub port: Port,
    /// The plan of its rings, from [`NicPlan::for_port`](super::NicPlan::for_port).
    pub plan: RingPlan,
    /// The device that it receives by. `None`: it receives by the uplink's device, as one port of a NIC can.
    pub receive: Option<Uplink>,
}

fn count(packets: &AtomicU64) -> Packets {
    Packets(packets.load(Ordering::Relaxed))
}

fn counted(packets: &AtomicU64, bytes: &AtomicU64) -> Counted {
    Counted::new(packets.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed))
}

/// The counts of a port at the time at which it was taken over from a former process.
#[derive(Clone, Debug, Default)]
pub(super) struct PortBase {
    /// The packets done, by class.
    pub(super) done: Vec<Counted>,
    /// The packets dropped between the egress and the rings, which are among those done.
    pub(super) dropped: PortDrops,
}

impl PortBase {
    /// The counts in the page of a port whose rings no worker serves.
    pub(super) fn of(page: &Shared, dropped: PortDrops) -> Self {
        let done = page.classes.iter().map(|class| counted(&class.done, &class.done_bytes)).collect();
        Self { done, dropped }
    }

    fn of_class(&self, class: usize) -> Counted {
        self.done.get(class).copied().unwrap_or_default()
    }
}

/// A port of a running NIC.
#[derive(Debug)]
pub struct NicPort {
    pub(super) id: PortId,
    /// The port's bit in the summary.
    pub(super) number: usize,
    /// The worker that serves its rings.
    pub(super) worker: usize,
    pub(super) port: Arc<Port>,
    pub(super) doorbells: Arc<Doorbells>,
    pub(super) counters: Arc<PortCounters>,
    pub(super) plan: RingPlan,
    /// The use of each ring.
    pub(super) uses: Vec<RingUse>,
    /// The filters at the ingress of far end and macvtap, if there are such.
    pub(super) behind: Option<[FilterId; 2]>,
    /// The counts of former processes.
    pub(super) base: PortBase,
    pub(super) receive_device: Option<Uplink>,
    pub(super) receive: ReceivePath,
    /// The port's MTU, for the receive thread.
    pub(super) mtu: Arc<AtomicU32>,
    pub(super) kernel_counters: KernelCounterCache,
    /// The property that another program keeps changing.
    pub(super) contested: Contested,
    /// Whether it was taken down for good.
    pub(super) closed: bool,
}

impl NicPort {
    /// Its identity.
    pub fn id(&self) -> PortId {
        self.id
    }

    /// The number of the worker that serves its rings.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// Its devices.
    pub fn port(&self) -> &Port {
        &self.port
    }

    /// Its doorbell page: posted and done counts per ring.
    pub fn doorbells(&self) -> &Page<Shared> {
        self.doorbells.shared()
    }

    /// The plan of its rings.
    pub fn ring_plan(&self) -> &RingPlan {
        &self.plan
    }

    /// The carrier of its received packets.
    pub fn receive_path(&self) -> &ReceivePath {
        &self.receive
    }

    /// Whether the worker has found the port's devices deleted.
    pub fn has_failed(&self) -> bool {
        self.counters.failed.get() != 0
    }

    /// The property of its kernel side that another program keeps changing, so that it is restored once a second only.
    pub fn contested(&self) -> Option<String> {
        self.contested.get()
    }

    /// The number of tracked flows.
    pub fn flows(&self) -> u64 {
        self.doorbells.flows()
    }

    /// The number of tracked flows by class.
    pub(super) fn flows_by_class(&self) -> Vec<u32> {
        let mut flows = vec![0; self.plan.classes()];
        for (lane, tracked) in self.plan.lanes.iter().zip(&self.doorbells.shared().lanes) {
            if let Some(sum) = flows.get_mut(usize::from(lane.class)) {
                *sum += tracked.flows.load(Ordering::Relaxed);
            }
        }
        flows
    }

    /// Applies the MTU and the carrier of the interface behind the uplink. A closed port has neither.
    pub(super) fn follow(&self, mtu: u32, carrier: bool) -> Result<(), NicError> {
        if self.closed {
            return Ok(());
        }
        if let Some(device) = &self.receive_device {
            // The kernel lowers a macvlan's MTU with its parent's and never raises it.
            let _ = device.set_mtu(mtu);
        }
        self.mtu.store(mtu, Ordering::Relaxed);
        let guard = self.doorbells.guard();
        // Without its carrier the near end has a qdisc that drops everything and counts nothing (`noop_qdisc`,
        // net/sched/sch_generic.c), so packets are refused before their doorbell until it has one again.
        if !carrier && !guard.is_closed() {
            guard.close();
            let _ = wait_grace_period();
        }
        self.port.follow(mtu, carrier)?;
        if carrier && guard.is_closed() && self.port.is_running(CARRIER) {
            guard.open();
        }
        Ok(())
    }

    /// The current totals.
    pub fn totals(&self) -> PortTotals {
        self.totals_of(Freshness::Now)
    }

    /// The totals, in which the kernel's counters of an idle port may be as old as `rest`.
    pub fn recent_totals(&self, rest: Nanos) -> PortTotals {
        self.totals_of(Freshness::Recent(rest))
    }

    /// The packets that have passed, by the counters of the programs, the worker and the receive thread, and by the redirect.
    fn passed(&self) -> Passed {
        let classes = self.class_totals();
        let egress =
            classes.iter().map(|c| (c.posted + c.bound).packets.get() + c.events.untracked.get()).sum();
        let (c, guard) = (&self.counters, self.doorbells.guard());
        let guarded = [&guard.unannounced, &guard.obscured, &guard.excess];
        let received = [c.rx.get(), c.rx_passed.get(), c.rx_refused.get()];
        let redirected = self.receive.redirected().unwrap_or_default();
        [
            egress,
            guarded.iter().map(|count| count.load(Ordering::Relaxed)).sum::<u64>()
                + c.lost.get().packets.get(),
            received.iter().map(|count| count.packets.get()).sum(),
            redirected.packets.get(),
        ]
    }

    fn totals_of(&self, freshness: Freshness) -> PortTotals {
        // Before the kernel's counters: what was given up by now was dropped a fifth of a second ago.
        let lost = self.counters.lost.get().packets.get();
        let of = (&*self.port, &*self.doorbells, &self.receive);
        let kernel = self.kernel_counters.read(of, self.passed(), freshness);
        let (c, guard) = (&self.counters, self.doorbells.guard());
        let (deliveries, limited) = match self.port.limits_received() {
            true => (Deliveries::default(), c.rx_passed.get() + kernel.redirected),
            false => (kernel.deliveries, Counted::default()),
        };
        PortTotals {
            classes: self.class_totals(),
            drops: kernel.drops.minus(self.base.dropped),
            arrivals: self.arrivals(),
            cut: guard.cut.load(Ordering::Relaxed),
            bpf: kernel.bpf,
            guard: kernel.guard,
            records: self.doorbells.shared().records.load(Ordering::Relaxed),
            rx_redirected: kernel.redirected,
            rx_limited: limited,
            rx_delivered: deliveries.delivered,
            rx_dropped: deliveries.dropped,
            rx: c.rx.get(),
            rx_passed: c.rx_passed.get(),
            rx_refused: c.rx_refused.get(),
            rx_read_failed: c.rx_read_failed.get().packets.get(),
            rx_ended: c.rx_ended.get() > 0,
            doorbell_ahead: c.doorbell_ahead.get().packets.get(),
            lost,
            events: PortEvents {
                cut_packets: count(&guard.cut_behind),
                infrastructure_excess: count(&guard.excess),
                obscured_drops: count(&guard.obscured),
                strays: c.strays.get().packets,
                unannounced_drops: count(&guard.unannounced),
                unknown_makers: count(&guard.unknown_makers),
            },
            unread: kernel.failed,
            unrecorded: c.unrecorded.get().packets.get(),
        }
    }

    /// The packets that have passed the far end. A former process's worker held a packet that its successor has no record
    /// of, so the arrivals of a port that was taken over have no other side.
    fn arrivals(&self) -> Arrivals {
        let counts = self.behind.is_some() && self.base.done.is_empty();
        Arrivals::of_port(counts.then(|| self.doorbells.guard().arrivals()))
    }

    /// The totals by class, from the program's page and the worker's counters.
    fn class_totals(&self) -> Vec<ClassTotals> {
        let pair = |[packets, bytes]: &[AtomicU64; 2]| counted(packets, bytes);
        let class = |(at, (page, c)): (usize, (&ClassBell, &ClassCounters))| ClassTotals {
            bound: pair(&page.bound),
            full: pair(&page.full),
            moving: pair(&page.moving),
            posted: counted(&page.packets, &page.bytes),
            fetched: c.fetched.get() + self.base.of_class(at),
            sent: c.sent.get() + self.base.of_class(at),
            refused: c.refused.get(),
            held: c.held.get(),
            wire: c.wire.get(),
            events: ClassEvents { late_claims: count(&page.late_claims), untracked: count(&page.untracked) },
        };
        let classes = self.doorbells.shared().classes.iter().zip(&self.counters.classes);
        classes.take(self.plan.classes()).enumerate().map(class).collect()
    }

    /// Whether every packet that has entered was sent, refused, or dropped on its way, or none can be sent any more.
    pub fn is_drained(&self) -> bool {
        if self.has_failed() {
            return true;
        }
        let totals = self.totals();
        let gone = (totals.sum(|c| c.sent) + totals.sum(|c| c.refused)).packets.get();
        gone + totals.drops.total() >= totals.sum(|c| c.posted).packets.get()
    }

    /// Counts the packets left in its unlinked rings as held. The worker has counted those of rings that classes share.
    pub(super) fn hold_rest(rings: Vec<Ring>) {
        let (mut pool, until): (_, weft_units::Instant) = (BufferPool::default(), clock::now() + REFILL);
        let mut queues = Vec::with_capacity(rings.len());
        for mut ring in rings {
            if let Some(class) = ring.class {
                ring.hold_rest(until, &mut pool, |_, _| class);
            }
            queues.extend(ring.fd.take());
        }
        macvtap::close_queues(queues);
    }

    /// Waits until all of `ports` are drained, at most `grace`.
    pub(super) fn wait_drained(ports: &[Self], grace: Nanos) {
        let until = clock::now() + grace;
        while clock::now() < until && !ports.iter().all(Self::is_drained) {
            std::thread::sleep(core::time::Duration::from_millis(5));
        }
    }
}
