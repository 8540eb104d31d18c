//! What a NIC has done, station by station.

use crate::counters::Count;
use crate::port::PortDrops;
use weft_host::bpf::RunStats;
use weft_sched::queues::Staleness;
use weft_units::{Nanos, Packets};

/// What a class has gone through, station by station.
#[derive(Clone, Debug, Default)]
pub struct ClassTotals {
    /// Rung at the port's egress.
    pub rung: Count,
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
    /// What the uplink device counts as arrived.
    pub uplink_arrived: Count,
    /// Dropped by the uplink device.
    pub uplink_dropped: u64,
    /// The other direction.
    pub reverse: Count,
    /// The other direction, refused by the port.
    pub reverse_refused: Count,
    /// Fetches that found the bell ahead of its packet.
    pub bell_ahead: u64,
    /// Packets whose bell rang and that never came.
    pub never_came: u64,
    /// Packets that came without a bell.
    pub strays: u64,
    /// Sleeps that waited for a bell.
    pub sleeps: u64,
    /// Scheduling decisions.
    pub turns: u64,
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
