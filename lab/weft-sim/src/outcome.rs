//! The result of a run.

use crate::cost::{CostCategory, PerCategory};
use std::collections::BTreeMap;
use weft_facts::record::Stage;
use weft_units::{BitsPerSec, Bytes, Counted, Nanos};

/// All measurements of a run, after its warm-up unless stated otherwise.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct RunOutcome {
    /// Events that the run processed, warm-up included.
    pub events: u64,
    /// Length of the measured part.
    pub measured: Nanos,
    /// By flow, groups in the scenario's order.
    pub flows: Vec<FlowOutcome>,
    /// Unfairness by interval, in the scenario's order.
    pub fairness: Vec<IntervalFairness>,
    /// By probe, in the scenario's order.
    pub probes: Vec<Latencies>,
    /// By host, then by core: nanoseconds of work by category (see [`CostCategory::ALL`]).
    pub cpu: Vec<Vec<PerCategory>>,
    /// Bytes on the wire by class and window, whole run, warm-up included.
    pub samples: Vec<ClassSample>,
    /// Counters of the sending hosts and receivers, whole run.
    pub counters: HostCounters,
    /// By stage: the balance of its packets, whole run.
    pub balances: Vec<Stage>,
    /// By host whose NIC has a policy tree, and by change of its policy: what each class sent and lost, whole run.
    pub policies: Vec<PolicyPhase>,
    /// By class of the scenario: packets of hosts whose NIC has no policy tree that were dropped, whole run.
    pub without_policy: Vec<DroppedClass>,
}

/// The policy of a host's NIC from one change to the next, or to the end of the run.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PolicyPhase {
    /// Index of the host.
    pub host: u32,
    /// Its beginning.
    pub from: Nanos,
    /// Its end.
    pub until: Nanos,
    /// The change at its beginning; `None` for the first one.
    pub change: Option<PolicyChanged>,
    /// The classes of the policy in force.
    pub classes: Vec<ClassSent>,
}

/// A change of a policy.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PolicyChanged {
    /// The tenant and its file, or the policy.
    pub what: String,
    /// The reason why it was refused, so that what was in force stayed.
    pub refused: Option<String>,
    /// The differences, in the policy's words.
    pub steps: Vec<String>,
    /// Tenants that do without their files, each with the first error, and effects that the author may not have meant.
    pub warnings: Vec<String>,
}

/// A class of a policy, what its flows have sent, and what was dropped of it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ClassSent {
    /// Its name.
    pub class: String,
    /// Frames put on the wire.
    pub sent: Counted,
    /// Its frames that were dropped on their way. What a dropper drops of a segment is counted when the NIC has fetched all of it.
    pub dropped: DropCounts,
}

/// A class, and what was dropped of it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct DroppedClass {
    /// Its name.
    pub class: String,
    /// Its packets that were dropped.
    pub dropped: DropCounts,
}

/// The place of a drop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DropPlace {
    /// A qdisc of the sender.
    Qdiscs,
    /// A dropper of the sender's policy, which drops from a ring.
    Dropper,
    /// A switch whose buffer had no room.
    SwitchBuffers,
    /// A link, at random.
    Links,
    /// A full receive ring.
    ReceiveRings,
}

impl DropPlace {
    /// All places, in the order of a packet's path.
    pub const ALL: [Self; 5] =
        [Self::Qdiscs, Self::Dropper, Self::SwitchBuffers, Self::Links, Self::ReceiveRings];

    /// Returns the name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Qdiscs => "qdiscs",
            Self::Dropper => "dropper",
            Self::SwitchBuffers => "switch buffers",
            Self::Links => "links",
            Self::ReceiveRings => "receive rings",
        }
    }
}

/// Dropped packets, by place.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DropCounts([Counted; DropPlace::ALL.len()]);

impl DropCounts {
    /// Returns what was dropped at a place.
    pub const fn at(&self, place: DropPlace) -> Counted {
        self.0[place as usize]
    }

    /// Adds what is dropped at a place.
    pub(crate) fn count(&mut self, place: DropPlace, amount: Counted) {
        self.0[place as usize] += amount;
    }
}

/// A flow.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct FlowOutcome {
    /// Index of its group.
    pub group: u32,
    /// Bytes that left the sender's NIC in the measured part, as packets of the MTU without framing.
    pub bytes: Bytes,
    /// Payload received by the receiver's application in the measured part.
    pub received: Bytes,
    /// Time from its start to its completion; `None` for flows without an end.
    pub completion: Option<Nanos>,
    /// Number of retransmitted packets, whole run.
    pub retransmitted: u64,
    /// Request latencies, for flows that have requests.
    pub requests: Latencies,
}

/// NFM over one interval (Titan TR section 3): the greatest difference between two flows' bytes in a window, over the fair share.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct IntervalFairness {
    /// The interval.
    pub interval: Nanos,
    /// Number of measured windows.
    pub windows: u64,
    /// Mean over the windows; `None` without a window.
    pub mean: Option<f64>,
    /// Maximum over the windows.
    pub max: Option<f64>,
}

/// Samples of a latency, in the order of their ends.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Latencies {
    /// End of each sample, since the start of the run.
    pub at: Vec<Nanos>,
    /// Round-trip times.
    pub samples: Vec<Nanos>,
}

impl Latencies {
    /// Returns the mean in seconds.
    pub fn mean_s(&self) -> Option<f64> {
        let sum: f64 = self.samples.iter().map(|s| s.as_secs_f64()).sum();
        (!self.samples.is_empty()).then(|| sum / self.samples.len() as f64)
    }
}

/// Bytes on the wires of sending hosts in a window.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct ClassSample {
    /// End of the window.
    pub at: Nanos,
    /// Its length.
    pub window: Nanos,
    /// By class.
    pub bytes: Vec<Bytes>,
    /// Classes with at least one started, unfinished flow throughout the window.
    pub active: Vec<bool>,
}

/// Counters of all hosts together.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct HostCounters {
    /// Segments handed to rings.
    pub segments: u64,
    /// Packets sent.
    pub packets: u64,
    /// Doorbells (register writes) for new descriptors.
    pub doorbells: u64,
    /// Doorbells of a NIC with a doorbell per queue and no batching, for the same segments (Loom, section 6.2).
    pub doorbells_unbatched: u64,
    /// Weight updates written to NICs.
    pub weight_updates: u64,
    /// Interrupts handled.
    pub interrupts: u64,
    /// Pieces cut by dynamic segment sizing.
    pub resegmented: u64,
    /// Acknowledgements sent.
    pub acknowledgements: u64,
    /// Datagrams refused by a full socket buffer, on sending or receiving.
    pub socket_drops: u64,
    /// Packets that arrived after a later one of their flow.
    pub reordered: u64,
    /// Retransmission timeouts of TCP senders (`TCPTimeouts` of the kernel).
    pub retransmission_timeouts: u64,
    /// Tail loss probes of TCP senders (`TCPLossProbes` of the kernel).
    pub tail_loss_probes: u64,
    /// Received skbs (after GRO) by size, in steps of 5 kB as in the SIGCOMM'21 study: 13 steps, the last one for 60 kB and more.
    pub receive_skb: [u64; 13],
    /// By class, the time average of the backlog in senders' qdiscs and rings over the measured part.
    pub backlog_bytes: Vec<Bytes>,
}

impl HostCounters {
    /// Counts a received skb by its size.
    pub(crate) fn count_receive_skb(&mut self, payload: u32) {
        let last = self.receive_skb.len() - 1;
        self.receive_skb[(payload as usize / 5000).min(last)] += 1;
    }
}

impl RunOutcome {
    /// Returns the rate at which the bytes of all flows left.
    pub fn throughput(&self) -> BitsPerSec {
        let bytes: Bytes = self.flows.iter().map(|flow| flow.bytes).sum();
        BitsPerSec::from_bytes_over(bytes, self.measured)
    }

    /// Returns what was dropped, whole run, by class: that of the policy of the sender's NIC or, without a policy tree, that of the
    /// scenario. A class without drops is left out.
    pub fn drops_by_class(&self) -> BTreeMap<&str, DropCounts> {
        let of_policies = self.policies.iter().flat_map(|phase| &phase.classes);
        let of_policies = of_policies.map(|class| (&class.class, class.dropped));
        let others = self.without_policy.iter().map(|class| (&class.class, class.dropped));
        let mut sums: BTreeMap<&str, DropCounts> = BTreeMap::new();
        for (class, dropped) in of_policies.chain(others) {
            if dropped != DropCounts::default() {
                let sum = sums.entry(class).or_default();
                DropPlace::ALL.into_iter().for_each(|place| sum.count(place, dropped.at(place)));
            }
        }
        sums
    }

    /// Returns the busy share of a host's processors, summed over them: 1.0 is one processor.
    pub fn busy(&self, host: usize) -> f64 {
        let busy: f64 = self.cpu.get(host).into_iter().flatten().flatten().sum();
        busy / (self.measured.get().max(1) as f64)
    }

    /// Returns a host's work by category, in nanoseconds.
    pub fn work(&self, host: usize) -> PerCategory {
        let mut sum = [0.0; CostCategory::COUNT];
        for core in self.cpu.get(host).into_iter().flatten() {
            for (total, part) in sum.iter_mut().zip(core) {
                *total += part;
            }
        }
        sum
    }
}
