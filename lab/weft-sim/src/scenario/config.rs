//! The types of a scenario. Scenario files use the same names.

use crate::cost::Costs;
use std::collections::BTreeMap;
use weft_units::{BitsPerSec, Bytes, Nanos};

/// A complete scenario. Together with a seed, it determines a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// Name for reports.
    pub name: String,
    /// Seed of the run's random numbers.
    pub seed: u64,
    /// Time that flows run before the measured part.
    pub warm_up: Nanos,
    /// Length of the measured part. The run ends earlier if every flow has an end and has reached it.
    pub duration: Nanos,
    /// Intervals over which unfairness (NFM) is measured.
    pub fairness_intervals: Vec<Nanos>,
    /// Length of the windows in which the classes' bytes are sampled.
    pub sample_interval: Nanos,
    /// The network between the hosts.
    pub network: NetworkSpec,
    /// The hosts, by index.
    pub hosts: Vec<HostSpec>,
    /// Names of the traffic classes used by flows and policies.
    pub classes: Vec<String>,
    /// Groups of flows.
    pub flows: Vec<FlowGroup>,
    /// Probes of latency.
    pub probes: Vec<ProbeSpec>,
    /// Changes of hosts' policies, in any order.
    pub changes: Vec<PolicyChange>,
    /// Texts of policies and of tenants' files, by their paths, which count from the scenario's folder.
    pub files: BTreeMap<String, String>,
    /// Costs of work on the processors.
    pub costs: Costs,
}

/// The network.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkSpec {
    /// Its shape.
    pub topology: Topology,
    /// Rate of the links of hosts.
    pub rate: BitsPerSec,
    /// Propagation delay of a host's link, one way, including the switch's latency.
    pub delay: Nanos,
    /// Rate of links between switches.
    pub trunk_rate: BitsPerSec,
    /// The switches.
    pub switch: SwitchSpec,
    /// Probability that a packet is lost on a link, independently of others.
    pub loss: f64,
}

/// Shape of the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Topology {
    /// Two hosts and one link.
    BackToBack,
    /// All hosts at one switch.
    Star,
    /// Two switches with one trunk; the first `left` hosts are at the first one (TR section 6: 4 and 20 of 24).
    Dumbbell {
        /// Hosts at the first switch.
        left: u32,
    },
    /// Leaf switches, each connected to every spine; hosts are spread over the leaves in order. A flow takes one spine, by its hash.
    LeafSpine {
        /// Leaf switches.
        leaves: u32,
        /// Spine switches.
        spines: u32,
    },
}

/// A switch: output queues that share one buffer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SwitchSpec {
    /// Shared packet buffer.
    pub buffer: Bytes,
    /// Dynamic threshold: a port may hold `alpha` times the free part of the buffer (Choudhury and Hahne 1998).
    pub alpha: f64,
    /// A port that holds more than this marks packets of ECN-capable flows (DCTCP's K).
    pub ecn_threshold: Option<Bytes>,
}

/// A host: processors, stack, NIC.
#[derive(Clone, PartialEq, Debug)]
pub struct HostSpec {
    /// Processors.
    pub cores: u32,
    /// NUMA nodes, over which the processors are spread in order; the NIC is at the first.
    pub numa_nodes: u32,
    /// The network stack.
    pub stack: StackSpec,
    /// The NIC.
    pub nic: NicSpec,
}

/// The network stack of a host.
#[derive(Clone, PartialEq, Debug)]
pub struct StackSpec {
    /// Congestion control of its TCP senders: a name of [`crate::congestion::build`].
    pub congestion_control: String,
    /// Bytes of a packet's IP part; 1500 for Ethernet, 9000 for jumbo frames.
    pub mtu: Bytes,
    /// The maximum size of a segment (`gso_max_size`).
    pub gso: Bytes,
    /// Whether the NIC cuts segments into packets. Otherwise the stack does, at a cost per packet.
    pub tso: bool,
    /// Whether the receiver merges packets (GRO).
    pub gro: bool,
    /// Flows whose packets GRO merges at a time: 8 up to Linux 4.18 (`MAX_GRO_SKBS`), 64 since (8 buckets of 8).
    pub gro_flows: u32,
    /// TCP small queues: the maximum number of a flow's bytes in qdisc and ring (`tcp_limit_output_bytes`); `None` disables it.
    pub small_queue: Option<Bytes>,
    /// Whether two segments are always allowed (`max(2 * truesize, pacing rate >> 10)`). Titan's kernel drops this floor.
    pub small_queue_floor: bool,
    /// Dynamic segmentation offload sizing (Titan, ATC 2017, section 3.3): the size of segments while flows share queues.
    pub dynamic_segment: Option<Bytes>,
    /// TCP transmit batching (Titan, section 5).
    pub transmit_batching: bool,
    /// Send buffer of a socket (`SO_SNDBUF`, autotuned maximum).
    pub send_buffer: Bytes,
    /// Receive window.
    pub receive_window: Bytes,
    /// Number of bytes that an application writes at a time.
    pub write_size: Bytes,
    /// Queueing discipline of each transmit queue.
    pub qdisc: QdiscKind,
    /// Byte queue limits.
    pub byte_queue_limit: ByteQueueLimit,
    /// Queue assignment: a name of [`crate::assignment::build`].
    pub queue_assignment: String,
    /// Transmit packet steering: each core has its own queues. Otherwise any core uses any queue.
    pub xps: bool,
    /// A policy in weftline's language, for the NIC's policy tree.
    pub policy: Option<String>,
    /// A policy by its path among [`Scenario::files`], for a stack without a [`StackSpec::policy`].
    pub policy_file: Option<String>,
}

/// Queueing discipline of a transmit queue.
#[derive(Clone, PartialEq, Debug)]
pub enum QdiscKind {
    /// Three bands of FIFOs, 1000 segments in all (`pfifo_fast`).
    PfifoFast,
    /// A strict band for probes and urgent flows above stochastic fair queueing (`prio` with `sfq`).
    PrioSfq {
        /// DRR quantum.
        quantum: Bytes,
    },
    /// Fair queueing with controlled delay (`fq_codel`), below a strict band as in [`QdiscKind::PrioSfq`].
    FqCodel,
    /// A token bucket per class that may borrow up to the rate of the whole (`htb`), SFQ inside each class.
    Htb {
        /// Rate of the whole.
        rate: BitsPerSec,
    },
    /// One token bucket before a FIFO (`tbf`).
    Tbf {
        /// Its rate.
        rate: BitsPerSec,
        /// Its burst.
        burst: Bytes,
    },
    /// DRR between classes, then priority bands, then SFQ (the Loom paper's setup per queue).
    DrrPrioSfq {
        /// DRR quantum between classes.
        quantum: Bytes,
    },
}

impl QdiscKind {
    /// The names in scenario files. The tests that try every kind compare theirs with them.
    pub const NAMES: &[&str] = &["pfifo_fast", "prio+sfq", "fq_codel", "htb", "tbf", "drr+prio+sfq"];

    /// The name in scenario files: one of [`QdiscKind::NAMES`].
    pub const fn name(&self) -> &'static str {
        match self {
            Self::PfifoFast => "pfifo_fast",
            Self::PrioSfq { .. } => "prio+sfq",
            Self::FqCodel => "fq_codel",
            Self::Htb { .. } => "htb",
            Self::Tbf { .. } => "tbf",
            Self::DrrPrioSfq { .. } => "drr+prio+sfq",
        }
    }
}

/// Byte queue limits of a NIC queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByteQueueLimit {
    /// No limit except the ring.
    Off,
    /// A fixed limit.
    Fixed(Bytes),
    /// `lib/dynamic_queue_limits.c`.
    Dynamic,
}

/// A NIC.
#[derive(Clone, PartialEq, Debug)]
pub struct NicSpec {
    /// Number of transmit queues; 0 means one per flow.
    pub transmit_queues: u32,
    /// Receive queues; the interrupt of queue i goes to core i modulo the number of cores.
    pub receive_queues: u32,
    /// Number of descriptors of a transmit ring, one per segment.
    pub transmit_ring: u32,
    /// Capacity of a receive ring in packets.
    pub receive_ring: u32,
    /// Scheduler between transmit queues.
    pub scheduler: SchedulerKind,
    /// TSO interleaving: a turn is one packet instead of one segment.
    pub interleaving: bool,
    /// Whether the NIC cuts segments into packets. Otherwise they go whole, as over a veth pair.
    pub segmentation: bool,
    /// On-chip buffer between scheduler and wire.
    pub transmit_buffer: Bytes,
    /// Dynamic queue weights (DQWA): the host sets a queue's weight to that of its flows.
    pub queue_weights: bool,
    /// Time from the host's decision on a weight to the NIC's use.
    pub weight_delay: Nanos,
    /// The least time between updates of the weights; changes in between are batched.
    pub weight_interval: Nanos,
    /// The least time between two interrupts of a queue pair.
    pub interrupt_interval: Nanos,
    /// Whether each queue pair's interrupts go to its own core; otherwise each interrupt goes to any core.
    pub pinned_interrupts: bool,
    /// The steering of a flow's packets to receive queues.
    pub receive_steering: ReceiveSteering,
    /// The writes that announce new descriptors.
    pub doorbells: DoorbellWrites,
}

impl NicSpec {
    /// The number of traffic classes: more than one only under DCB.
    pub(crate) const fn traffic_classes(&self) -> u32 {
        match self.scheduler {
            SchedulerKind::Dcb { classes, .. } => classes,
            _ => 1,
        }
    }
}

/// The writes to the NIC's registers that announce new descriptors. Each is a [`crate::cost::CostedOperation::RegisterWrite`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DoorbellWrites {
    /// None: a device without registers, such as a veth.
    None,
    /// One for all that a run of a qdisc hands over: only the last skb has no `xmit_more` (Loom's batched doorbells).
    PerBatch,
    /// One for each change of flow within a batch: a queue per flow, each with its own doorbell (Loom, section 6.2).
    PerFlow,
    /// One for each skb: a driver that ignores `xmit_more`.
    PerSkb,
}

/// Scheduler between transmit queues.
#[derive(Clone, PartialEq, Debug)]
pub enum SchedulerKind {
    /// Round robin.
    RoundRobin,
    /// Deficit round robin with weights; a queue's credit per round is its weight times the quantum.
    Deficit {
        /// Credit of weight 1.
        quantum: Bytes,
    },
    /// Data centre bridging: queues belong to classes by `queue modulo classes`, class 0 first.
    Dcb {
        /// Number of classes.
        classes: u32,
        /// Strict priority between classes; otherwise deficit round robin with equal weights.
        strict: bool,
    },
    /// The policy tree, with a queue per flow: the engine of the real data path, running [`StackSpec::policy`].
    PolicyTree,
}

/// The steering of a flow's packets to receive queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiveSteering {
    /// By hash.
    Rss,
    /// The queue paired with the transmit queue of the flow's other direction (ixgbe's application targeted routing, which learns
    /// from sent packets and is disabled by VMDq).
    ToTransmitQueue,
    /// The core of the reading application (aRFS).
    ToApplication,
    /// A core next to the application's, on the other NUMA node if there are two: the worst case of the SIGCOMM'21 study.
    AwayFromApplication,
}

/// A group of equal flows.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowGroup {
    /// Name for reports.
    pub name: String,
    /// Number of flows.
    pub count: u32,
    /// Index of the sending host.
    pub from: u32,
    /// Index of the receiving host.
    pub to: u32,
    /// The traffic of each flow.
    pub traffic: FlowTraffic,
    /// Class: an index into [`Scenario::classes`].
    pub class: u16,
    /// Priority band; 0 is the most urgent.
    pub band: u8,
    /// The NIC's traffic class under DCB, selected by the socket's priority through `mqprio`: the flow only uses this class's
    /// queues. `None` permits any queue.
    pub traffic_class: Option<u32>,
    /// Weight.
    pub weight: u32,
    /// Cores of the sending applications, assigned in turn; empty means all cores.
    pub cores: Vec<u32>,
    /// Cores of the receiving applications, assigned in turn; empty means all cores.
    pub receiver_cores: Vec<u32>,
    /// Whether sending threads stay on their core; otherwise they move to the least busy one when they wake.
    pub pinned: bool,
    /// Start of the first flow.
    pub start: Nanos,
    /// Period over which the starts are spread at random.
    pub start_spread: Nanos,
    /// Time at which the applications are stopped; `Nanos::MAX` for the end of the run.
    pub stop: Nanos,
}

/// The traffic of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowTraffic {
    /// An endless TCP stream.
    Bulk,
    /// A TCP transfer that ends after a number of bytes.
    Transfer {
        /// Number of bytes.
        size: Bytes,
    },
    /// TCP requests to the other host, each with an answer, repeated.
    RequestResponse {
        /// Bytes of a request.
        request: Bytes,
        /// Bytes of an answer.
        response: Bytes,
        /// Number of simultaneous requests.
        outstanding: u32,
        /// Time between an answer and the next request.
        think: Nanos,
    },
    /// Short TCP transfers, one after the other, with Poisson arrivals.
    Short {
        /// Bytes of each.
        size: Bytes,
        /// Mean time between arrivals.
        interval: Nanos,
    },
    /// Datagrams of a size at a constant rate.
    Udp {
        /// Bytes of a datagram.
        size: Bytes,
        /// Rate.
        rate: BitsPerSec,
        /// Whether gaps are exponential instead of equal.
        poisson: bool,
    },
}

/// A measurement of latency by small messages with an immediate answer.
#[derive(Clone, PartialEq, Debug)]
pub struct ProbeSpec {
    /// Name for reports.
    pub name: String,
    /// Index of the asking host.
    pub from: u32,
    /// Index of the answering host.
    pub to: u32,
    /// Bytes of a message.
    pub size: Bytes,
    /// Time between messages.
    pub interval: Nanos,
    /// Whether the next message waits for the answer (sockperf ping-pong); otherwise open loop (ping).
    pub closed_loop: bool,
    /// Whether the kernel answers (ICMP), without waking an application.
    pub in_kernel: bool,
    /// Class.
    pub class: u16,
    /// Priority band.
    pub band: u8,
    /// Core of the asking application; `None` for a random choice per run.
    pub core: Option<u32>,
}

/// A change of the policy of a host's NIC: another policy, or another file of a tenant.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PolicyChange {
    /// Its time, from the start of the run.
    pub at: Nanos,
    /// Index of the host.
    pub host: u32,
    /// The text of the new policy.
    pub policy: Option<String>,
    /// The new policy by its path among [`Scenario::files`].
    pub policy_file: Option<String>,
    /// The tenant whose file changes; `None` for a change of the whole policy.
    pub tenant: Option<String>,
    /// The tenant's new file by its path among [`Scenario::files`]; `None` takes its file away.
    pub file: Option<String>,
}
