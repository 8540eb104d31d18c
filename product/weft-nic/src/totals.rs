//! The totals of a NIC, stage by stage.

use crate::counters::Counters;
use crate::port::{DeliveryDrops, PortDrops};
use crate::sojourn::Sojourns;
use core::ops::{Deref, DerefMut};
use weft_facts::counters::{ClassEvents, PortEvents};
use weft_host::bpf::RunStats;
use weft_sched::queues::Staleness;
use weft_units::{BitsPerSec, Bytes, Counted, Nanos};

/// The totals of a class, stage by stage.
#[derive(Clone, Debug, Default)]
pub struct ClassTotals {
    /// Packets posted at the port's egress.
    pub posted: Counted,
    /// Packets fetched from the rings.
    pub fetched: Counted,
    /// Packets sent.
    pub sent: Counted,
    /// Packets refused by the uplink.
    pub refused: Counted,
    /// Packets left in the rings at the end.
    pub held: Counted,
    /// MTU-size frames and wire bytes.
    pub wire: Counted,
    /// Packets of rare events.
    pub events: ClassEvents,
    /// Packets refused at the port's egress, before their doorbell: the class had reached its packet bound.
    pub bound: Counted,
    /// Packets refused at the port's egress because the ring was full.
    pub full: Counted,
    /// Packets refused at the port's egress because their flow had packets left in the ring of another class.
    pub moving: Counted,
}

/// The packets that have passed the far ends of the ports, as the program there counts them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Arrivals {
    /// Packets and bytes, as the rings hold them.
    pub count: Counted,
    /// Ports without such a count: a TAP, a NIC without classes, a port that was taken over from a former process.
    pub unseen_ports: u64,
}

impl Arrivals {
    /// Those of one port; `None` if they are not counted.
    pub(crate) fn of_port(count: Option<Counted>) -> Self {
        Self { count: count.unwrap_or_default(), unseen_ports: count.is_none().into() }
    }
}

/// The largest lag of a leaf of the policy behind the fluid schedule of the backlogged leaves.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lag {
    /// The leaf's name in the policy.
    pub leaf: String,
    /// The part of its due that it did not have, on the wire.
    pub bytes: Bytes,
    /// The time of these bytes at the rate of the bottleneck; zero without a known rate.
    pub span: Nanos,
    /// The largest lag that the engine's order may cause with the chunks that were sent.
    pub bound: Bytes,
}

/// The rings that flows of other classes wait for, since they have left packets there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Draining {
    /// The rings.
    pub rings: u64,
    /// The time that the first of them has been waited for.
    pub longest: Nanos,
    /// The time after which the class that takes the flow sends what is before.
    pub limit: Nanos,
    /// The rings where that happened.
    pub escorted: u64,
}

impl Draining {
    pub(crate) fn of(counters: &Counters) -> Self {
        Self {
            rings: counters.draining.get(),
            longest: Nanos(counters.draining_for.get()),
            limit: Nanos(counters.drain_limit.get()),
            escorted: counters.escorts.get().packets.get(),
        }
    }
}

/// The totals of a NIC at one time; exact after [`SoftwareNic::stop`](crate::nic::SoftwareNic::stop).
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// The sum of its ports.
    pub ports: PortTotals,
    /// Wake-ups sent by the posting side.
    pub wakeups: u64,
    /// Writes to the uplink.
    pub uplink_writes: Counted,
    /// Failed writes to the uplink: no room yet, so that the chunk was kept, or refused.
    pub uplink_failed: Counted,
    /// Sojourns of the worker for room in the uplink.
    pub uplink_waits: u64,
    /// Changes of the policy.
    pub changes: u64,
    /// The longest time that a change kept the worker from sending.
    pub change_pause_max: Nanos,
    /// The rings that flows of other classes wait for.
    pub draining: Draining,
    /// The waits of packets, by class.
    pub sojourns: Vec<Sojourns>,
    /// The largest lags, by leaf without a rate limit; empty for an emulated link.
    pub lags: Vec<Lag>,
    /// Turns of urgent classes on an overdraft of the link's clock.
    pub overdrawn: u64,
    /// The furthest that the link's clock was ahead of the wall clock when such a turn began.
    pub ahead_max: Nanos,
    /// The rate that the uplink's device shows by its back-pressure; `None` while it is not the bottleneck.
    pub observed_rate: Option<BitsPerSec>,
    /// Packets that the uplink device counts as arrived.
    pub uplink_arrived: Counted,
    /// Packets dropped by the uplink device.
    pub uplink_dropped: u64,
    /// Sleeps that waited for a doorbell.
    pub sleeps: u64,
    /// Wake-ups lost: the sleeper found the doorbell when its sleep timed out.
    pub wakeups_lost: u64,
    /// Scheduling decisions.
    pub turns: u64,
    /// The fraction of time in which the busiest worker did not sleep recently, in thousandths. Near 1000 the worker, not the
    /// link, is the bottleneck.
    pub worker_busy: u64,
    /// The processor time of the workers.
    pub worker_cpu: Nanos,
    /// The link time lost.
    pub link_lost: Nanos,
    /// The number of known flows.
    pub flows: u64,
    /// The ages of weight changes when a multiqueue NIC applied them.
    pub staleness: Staleness,
}

/// The totals of one port at one time; exact when the port was removed.
#[derive(Clone, Debug, Default)]
pub struct PortTotals {
    /// By class.
    pub classes: Vec<ClassTotals>,
    /// Packets dropped by the kernel between egress and ring.
    pub drops: PortDrops,
    /// Packets that have passed the far end.
    pub arrivals: Arrivals,
    /// Packets announced beyond one for each super-packet that the kernel cuts before the ring: a drop that the kernel counts
    /// once may be several of them.
    pub cut: u64,
    /// The run-time cost of the program at the egress.
    pub bpf: RunStats,
    /// The run-time cost of the program at the far end.
    pub guard: RunStats,
    /// Metadata records.
    pub records: u64,
    /// Packets redirected to the port by the kernel (rx).
    pub rx_redirected: Counted,
    /// Packets passed to the token bucket of a port whose received packets are limited (rx). Nothing counts them behind it.
    pub rx_limited: Counted,
    /// Packets delivered to the other ports (rx), by their devices' own counters.
    pub rx_delivered: Counted,
    /// Packets dropped by the kernel before the port (rx).
    pub rx_dropped: DeliveryDrops,
    /// Packets read from the uplink by the thread (rx).
    pub rx: Counted,
    /// Packets written to the port by the thread (rx).
    pub rx_passed: Counted,
    /// Packets of the thread refused by the port (rx).
    pub rx_refused: Counted,
    /// Failed reads from the uplink (rx).
    pub rx_read_failed: u64,
    /// Whether the rx thread gave the port up before it was removed.
    pub rx_ended: bool,
    /// Fetches that found the doorbell ahead of its packet.
    pub doorbell_ahead: u64,
    /// Packets posted and lost before their ring.
    pub lost: u64,
    /// Packets of rare events.
    pub events: PortEvents,
    /// Failed reads of the kernel's counters. The last successful reading is reported instead.
    pub unread: u64,
    /// Packets of rings that classes share whose flow had no record.
    pub unrecorded: u64,
}

impl ClassTotals {
    /// The counts since `base`.
    #[must_use]
    pub fn minus(&self, base: &Self) -> Self {
        Self {
            posted: self.posted.saturating_sub(base.posted),
            fetched: self.fetched.saturating_sub(base.fetched),
            sent: self.sent.saturating_sub(base.sent),
            refused: self.refused.saturating_sub(base.refused),
            held: self.held.saturating_sub(base.held),
            wire: self.wire.saturating_sub(base.wire),
            events: self.events.since(base.events),
            bound: self.bound.saturating_sub(base.bound),
            full: self.full.saturating_sub(base.full),
            moving: self.moving.saturating_sub(base.moving),
        }
    }

    /// Adds the totals of the class at another port.
    fn add(&mut self, other: &Self) {
        let of = [
            (&mut self.posted, other.posted),
            (&mut self.fetched, other.fetched),
            (&mut self.sent, other.sent),
            (&mut self.refused, other.refused),
            (&mut self.held, other.held),
            (&mut self.wire, other.wire),
            (&mut self.bound, other.bound),
            (&mut self.full, other.full),
            (&mut self.moving, other.moving),
        ];
        of.into_iter().for_each(|(sum, more)| *sum += more);
        self.events += other.events;
    }
}

impl PortTotals {
    /// Adds the totals of another port.
    pub fn add(&mut self, other: &Self) {
        let classes = self.classes.len().max(other.classes.len());
        self.classes.resize_with(classes, ClassTotals::default);
        self.classes.iter_mut().zip(&other.classes).for_each(|(sum, more)| sum.add(more));
        for (sum, more) in [(&mut self.bpf, other.bpf), (&mut self.guard, other.guard)] {
            sum.runs += more.runs;
            sum.nanos += more.nanos;
        }
        let counts = [
            (&mut self.arrivals.count, other.arrivals.count),
            (&mut self.rx_redirected, other.rx_redirected),
            (&mut self.rx_delivered, other.rx_delivered),
            (&mut self.rx_limited, other.rx_limited),
            (&mut self.rx, other.rx),
            (&mut self.rx_passed, other.rx_passed),
            (&mut self.rx_refused, other.rx_refused),
        ];
        counts.into_iter().for_each(|(sum, more)| *sum += more);
        let numbers = [
            (&mut self.drops.qdisc, other.drops.qdisc),
            (&mut self.drops.backlog, other.drops.backlog),
            (&mut self.drops.ring_full, other.drops.ring_full),
            (&mut self.cut, other.cut),
            (&mut self.arrivals.unseen_ports, other.arrivals.unseen_ports),
            (&mut self.records, other.records),
            (&mut self.rx_dropped.veth, other.rx_dropped.veth),
            (&mut self.rx_dropped.macvtap, other.rx_dropped.macvtap),
            (&mut self.rx_read_failed, other.rx_read_failed),
            (&mut self.doorbell_ahead, other.doorbell_ahead),
            (&mut self.lost, other.lost),
            (&mut self.unread, other.unread),
            (&mut self.unrecorded, other.unrecorded),
        ];
        numbers.into_iter().for_each(|(sum, more)| *sum += more);
        self.events += other.events;
        self.rx_ended |= other.rx_ended;
    }

    /// The sum over the classes.
    pub fn sum(&self, pick: impl Fn(&ClassTotals) -> Counted) -> Counted {
        self.classes.iter().map(pick).sum()
    }

    /// Packets received through the uplink, by the thread and by the kernel.
    pub fn received(&self) -> Counted {
        self.rx + self.rx_redirected
    }
}

/// The counters of its ports together read as its own.
impl Deref for Totals {
    type Target = PortTotals;

    fn deref(&self) -> &PortTotals {
        &self.ports
    }
}

impl DerefMut for Totals {
    fn deref_mut(&mut self) -> &mut PortTotals {
        &mut self.ports
    }
}
