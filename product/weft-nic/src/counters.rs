//! The NIC's counters, by stage. Each is written by one thread and read by any.

use crate::sojourn::SojournHistogram;
use core::sync::atomic::{AtomicU64, Ordering};
use weft_units::{Counted, Nanos};

/// The wait of flows that change their class for packets that they have left, unless the operator gives another.
pub const DRAIN: Nanos = Nanos::from_secs(30);

/// A counter of packets and of bytes.
#[derive(Debug, Default)]
pub struct Counter {
    packets: AtomicU64,
    bytes: AtomicU64,
}

/// A number set by one thread and read by any.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Sets the gauge.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Reads the gauge.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counter {
    /// Adds to the counter. Each counter has one writer, so a load and a store suffice, without a locked instruction.
    pub fn add(&self, packets: u64, bytes: u64) {
        self.packets.store(self.packets.load(Ordering::Relaxed) + packets, Ordering::Relaxed);
        self.bytes.store(self.bytes.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    }

    /// Subtracts packets that were counted too early.
    pub fn take_back(&self, packets: u64) {
        let now = self.packets.load(Ordering::Relaxed).saturating_sub(packets);
        self.packets.store(now, Ordering::Relaxed);
    }

    /// Reads the counter. Packets and bytes may differ by one packet while the writer runs.
    pub fn get(&self) -> Counted {
        Counted::new(self.packets.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// The transmit worker's counters of one class, on separate cache lines.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct ClassCounters {
    /// Packets fetched from the rings, as the rings held them (super-packets whole).
    pub fetched: Counter,
    /// Packets sent completely, counted as they were fetched.
    pub sent: Counter,
    /// Packets refused by the uplink, counted as they were fetched.
    pub refused: Counter,
    /// Packets found in the rings when the NIC stopped.
    pub held: Counter,
    /// MTU-size frames sent, and their wire bytes (preamble, FCS and gap included).
    pub wire: Counter,
}

/// The largest lag of a leaf of the policy behind the fluid schedule.
#[derive(Debug, Default)]
pub struct LagGauge {
    /// The lag in wire bytes.
    pub bytes: Gauge,
    /// Their time at the rate of the bottleneck, in nanoseconds; 0 without a known rate.
    pub nanos: Gauge,
    /// The largest lag that the engine's order may cause, in wire bytes; 0 for a leaf with a rate limit, which has no due.
    pub bound: Gauge,
}

impl LagGauge {
    /// Starts the measurement anew, for the leaves of another policy.
    pub fn restart(&self) {
        [&self.bytes, &self.nanos, &self.bound].iter().for_each(|gauge| gauge.set(0));
    }
}

/// The counters of one port, written by the transmit worker, and by the receive thread where they are marked (rx).
#[derive(Debug, Default)]
pub struct PortCounters {
    /// By class.
    pub classes: Vec<ClassCounters>,
    /// Fetches that found a posted ring empty: the doorbell was ahead of its packet.
    pub doorbell_ahead: Counter,
    /// Packets posted and lost: dropped between doorbell and ring.
    pub lost: Counter,
    /// Packets found in a ring without a doorbell, before or after (also counted in their class).
    pub strays: Counter,
    /// Packets of rings that classes share whose flow has no record: they count for the default class.
    pub unrecorded: Counter,
    /// The error of the read that found the port's devices deleted; 0 while they exist.
    pub failed: Gauge,
    /// Failed reads from the uplink (rx), without those of an empty queue or after a signal.
    pub rx_read_failed: Counter,
    /// Whether the rx thread gave the port up before it was removed: 1, or 0.
    pub rx_ended: Gauge,
    /// Packets read from the uplink (rx).
    pub rx: Counter,
    /// Packets written to the port (rx), by the result of the writes.
    pub rx_passed: Counter,
    /// Packets refused by the port (rx).
    pub rx_refused: Counter,
}

impl PortCounters {
    /// Creates counters for `classes` classes.
    pub fn new(classes: usize) -> Self {
        let classes = (0..classes).map(|_| ClassCounters::default()).collect();
        Self { classes, ..Self::default() }
    }
}

/// The counters of a NIC that belong to no port.
#[derive(Debug, Default)]
pub struct Counters {
    /// Writes to the uplink, and their frame bytes.
    pub uplink_writes: Counter,
    /// Failed writes to the uplink, and their frame bytes: no room yet, or refused.
    pub uplink_failed: Counter,
    /// Sojourns of the worker for room in the uplink.
    pub uplink_waits: Counter,
    /// By leaf; empty for an emulated link.
    pub lags: Vec<LagGauge>,
    /// Turns of urgent classes that began although the link's clock was ahead of the wall clock.
    pub overdrawn: Counter,
    /// The furthest that the link's clock was ahead when such a turn began, in nanoseconds.
    pub ahead_max: Gauge,
    /// The rate that the uplink's device shows by its back-pressure, in bits per second; 0 while it is not the bottleneck.
    pub observed_bps: Gauge,
    /// Sleeps of the worker that waited for a doorbell.
    pub sleeps: Counter,
    /// Sleeps that timed out although a doorbell was posted and its wake-up was not received.
    pub wakeups_lost: Counter,
    /// Reads of rings whose doorbell was ahead of their packet, after the first.
    pub late_reads: Counter,
    /// The longest sleep requested while a ring was late, in nanoseconds.
    pub late_sleep_max: Gauge,
    /// Scheduling decisions.
    pub turns: Counter,
    /// The fraction of time in which the worker does not sleep, in thousandths, over the last tenths of a second.
    pub worker_busy: Gauge,
    /// The processor time of the worker, in nanoseconds.
    pub worker_cpu: Gauge,
    /// The link time lost because the worker did not run for longer than the catch-up, in nanoseconds.
    pub link_lost: Gauge,
    /// Weight changes taken by a multiqueue NIC from its page.
    pub weights_taken: Gauge,
    /// The sum of the ages of these changes, in nanoseconds.
    pub weights_age: Gauge,
    /// The greatest age of these changes, in nanoseconds.
    pub weights_age_max: Gauge,
    /// The number of flows known by a metadata record.
    pub flows: Gauge,
    /// Changes of the policy.
    pub changes: Counter,
    /// The longest time that a change took the worker, in nanoseconds.
    pub change_pause_max: Gauge,
    /// Rings that flows of other classes wait for.
    pub draining: Gauge,
    /// The time that the first of them has been waited for, in nanoseconds.
    pub draining_for: Gauge,
    /// The limit of such a wait, in nanoseconds. The NIC sets it, and the worker reads it.
    pub drain_limit: Gauge,
    /// Rings that another class has sent after the limit.
    pub escorts: Counter,
    /// The waits of packets, by class.
    pub sojourns: Vec<SojournHistogram>,
}

impl Counters {
    /// Creates counters for `leaves` leaves and `classes` classes of a policy.
    pub fn new(leaves: usize, classes: usize) -> Self {
        let counters = Self {
            lags: (0..leaves).map(|_| LagGauge::default()).collect(),
            sojourns: (0..classes).map(|_| SojournHistogram::default()).collect(),
            ..Self::default()
        };
        counters.drain_limit.set(DRAIN.get());
        counters
    }
}
