//! What a NIC has done, stage by stage.

use crate::counters::Count;
use crate::port::PortDrops;
use weft_host::bpf::RunStats;
use weft_sched::queues::Staleness;
use weft_units::{Nanos, Packets};

/// What a class has gone through, stage by stage.
#[derive(Clone, Debug, Default)]
pub struct ClassTotals {
    /// Posted at the port's egress.
    pub posted: Count,
    /// Fetched from the rings.
    pub fetched: Count,
    /// Sent.
    pub sent: Count,
    /// Refused by the uplink.
    pub refused: Count,
    /// Left in the rings at the end.
    pub held: Count,
    /// MTU-size frames and wire bytes.
    pub wire: Count,
    /// Packets of flows beyond the flow bound.
    pub untracked: Packets,
    /// Refused at the port's egress, before anything rang: as many packets wait as the class may have.
    pub bound: Count,
    /// Refused at the port's egress: the ring was full.
    pub full: Count,
    /// Refused at the port's egress: the flow waited for what it had left in the ring of another class.
    pub moving: Count,
}

/// The NIC's totals, read at one time; exact after [`SoftwareNic::stop`](crate::nic::SoftwareNic::stop).
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// By class.
    pub classes: Vec<ClassTotals>,
    /// Dropped by the kernel between egress and ring, by its own counters.
    pub drops: PortDrops,
    /// Cost of the program at the egress.
    pub bpf: RunStats,
    /// Wake-ups sent by the ringing side.
    pub wakeups: u64,
    /// Metadata records.
    pub records: u64,
    /// Writes to the uplink.
    pub uplink_writes: Count,
    /// Writes that the uplink did not take: it had no room yet, and the chunk was kept, or it refused.
    pub uplink_failed: Count,
    /// Times that the worker waited for room in the uplink.
    pub uplink_waits: u64,
    /// What the uplink device counts as arrived.
    pub uplink_arrived: Count,
    /// Dropped by the uplink device.
    pub uplink_dropped: u64,
    /// The other direction, as it was read from the uplink.
    pub reverse: Count,
    /// The other direction, as it was written to the port.
    pub reverse_passed: Count,
    /// The other direction, refused by the port.
    pub reverse_refused: Count,
    /// Fetches that found the doorbell ahead of its packet.
    pub doorbell_ahead: u64,
    /// Packets whose doorbell rang and that never came.
    pub lost: u64,
    /// Packets that came without a doorbell.
    pub strays: u64,
    /// Packets dropped because they went around the program at the egress, so that no doorbell announced them.
    pub unannounced_drops: u64,
    /// Packets dropped because their class cannot be told: a fragment whose first fragment has not passed, or more headers
    /// than are read.
    pub obscured_drops: u64,
    /// Packets of infrastructure beyond its share, which went as any other.
    pub infrastructure_excess: u64,
    /// Cost of the program at the port's far end.
    pub guard: RunStats,
    /// Readings of the kernel's counters that failed; the last that did not stands in their place.
    pub unread: u64,
    /// Sleeps that waited for a doorbell.
    pub sleeps: u64,
    /// Wake-ups that were lost: the sleeper found the doorbell when its time was up.
    pub wakeups_lost: u64,
    /// Scheduling decisions.
    pub turns: u64,
    /// The part of its time in which the worker did not sleep of late, in thousandths. Near 1000 it, and not the link, is what runs
    /// short.
    pub worker_busy: u64,
    /// Processor time of the worker.
    pub worker_cpu: Nanos,
    /// Link time lost.
    pub link_lost: Nanos,
    /// Flows known.
    pub flows: u64,
    /// How old changes of weights were when a multiqueue NIC took them.
    pub staleness: Staleness,
}

impl Totals {
    /// The sum over the classes.
    pub fn sum(&self, pick: impl Fn(&ClassTotals) -> Count) -> Count {
        self.classes.iter().map(pick).fold(Count::default(), Count::plus)
    }
}
