//! What the NIC counts, by stage: written by one thread each, read by anybody.

use core::sync::atomic::{AtomicU64, Ordering};
use weft_units::{Bytes, Packets};

/// A counter of packets and of bytes.
#[derive(Debug, Default)]
pub struct Counter {
    packets: AtomicU64,
    bytes: AtomicU64,
}

/// A reading of a [`Counter`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// Packets.
    pub packets: Packets,
    /// Frame bytes.
    pub bytes: Bytes,
}

impl Count {
    /// The sum of two counts.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }

    /// What is left when `other` is taken away; zero where `other` is more.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            packets: self.packets.saturating_sub(other.packets),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

/// A number that one thread sets and anybody reads.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Sets it.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Reads it.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counter {
    /// Adds. Each counter has one writer, so a load and a store do, without a locked instruction.
    pub fn add(&self, packets: u64, bytes: u64) {
        self.packets.store(self.packets.load(Ordering::Relaxed) + packets, Ordering::Relaxed);
        self.bytes.store(self.bytes.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    }

    /// Takes packets back that were counted too early.
    pub fn take_back(&self, packets: u64) {
        let now = self.packets.load(Ordering::Relaxed).saturating_sub(packets);
        self.packets.store(now, Ordering::Relaxed);
    }

    /// Reads. Packets and bytes may be one packet apart while the writer runs.
    pub fn get(&self) -> Count {
        Count {
            packets: Packets(self.packets.load(Ordering::Relaxed)),
            bytes: Bytes(self.bytes.load(Ordering::Relaxed)),
        }
    }
}

/// What the transmit worker counts for one class, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct ClassCounters {
    /// Fetched from the rings, as the rings held them (super-packets whole).
    pub fetched: Counter,
    /// Sent completely, counted as they were fetched.
    pub sent: Counter,
    /// Refused by the uplink, counted as they were fetched.
    pub refused: Counter,
    /// Found in the rings when the NIC stopped: fetched by nobody.
    pub held: Counter,
    /// Put on the wire: MTU-size frames and their wire bytes (preamble, FCS and gap included).
    pub wire: Counter,
}

/// What the whole NIC counts.
#[derive(Debug, Default)]
pub struct Counters {
    /// By class.
    pub classes: Vec<ClassCounters>,
    /// Writes to the uplink and the frame bytes in them.
    pub uplink_writes: Counter,
    /// Writes that the uplink did not take, and their frame bytes: it had no room yet, or refused.
    pub uplink_failed: Counter,
    /// Times that the worker waited for room in the uplink.
    pub uplink_waits: Counter,
    /// The other direction: read from the uplink and written to the port.
    pub reverse: Counter,
    /// The other direction: written to the port, by what the writes say.
    pub reverse_passed: Counter,
    /// The other direction: refused by the port.
    pub reverse_refused: Counter,
    /// Fetches that found the ring empty although its doorbell had posted: the doorbell was ahead of its packet.
    pub doorbell_ahead: Counter,
    /// Packets whose doorbell had posted and that never came: dropped between doorbell and ring.
    pub lost: Counter,
    /// Packets found in a ring of which no doorbell has spoken, before or after (counted into their class as well).
    pub strays: Counter,
    /// Times that the worker slept waiting for a doorbell.
    pub sleeps: Counter,
    /// Sleeps that ended by time although a doorbell had posted since and nobody had taken the wake-up: the wake-up was lost.
    pub wakeups_lost: Counter,
    /// The longest sleep that was begun while a ring's doorbell was ahead of its packet, in nanoseconds.
    pub late_sleep_max: Gauge,
    /// Scheduling decisions.
    pub turns: Counter,
    /// The part of its time in which the worker does not sleep, in thousandths, over the last tenths of a second.
    pub worker_busy: Gauge,
    /// Processor time that the worker has used, in nanoseconds.
    pub worker_cpu: Gauge,
    /// Link time lost because the worker did not run for longer than the catch-up, in nanoseconds.
    pub link_lost: Gauge,
    /// Changes of weights that a multiqueue NIC has taken from its page.
    pub weights_taken: Gauge,
    /// The sum of their ages when they were taken, in nanoseconds.
    pub weights_age: Gauge,
    /// The greatest of their ages, in nanoseconds.
    pub weights_age_max: Gauge,
    /// Flows that the NIC has learnt of by a metadata record.
    pub flows: Gauge,
}

impl Counters {
    /// Counters for `classes` classes.
    pub fn new(classes: usize) -> Self {
        Self { classes: (0..classes).map(|_| ClassCounters::default()).collect(), ..Self::default() }
    }

    /// The sum over the classes of one of their counters.
    pub fn total(&self, pick: impl Fn(&ClassCounters) -> &Counter) -> Count {
        self.classes.iter().map(|c| pick(c).get()).fold(Count::default(), Count::plus)
    }
}
