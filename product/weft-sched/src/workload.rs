//! Synthetic programs and loops, used by the benchmarks, by `weft bench engine` and by tests.

mod on_link;
mod prototype;

pub use on_link::{BETWEEN_FRAMES, LinkLoop};
pub use prototype::PrototypeLoop;

use weft_units::{
    BitsPerSec, Bytes, ClassId, FlowId, Instant, LaneId, LeafId, LimitId, Nanos, NodeId, Packets, Weight,
};

use crate::packets::{Arrival, Departure, Descriptor, PacketScheduler};
use crate::program::{Child, Discipline, LaneSpec, LeafDiscipline, LeafSpec, LimitSpec, NodeSpec, Program};
use crate::tree::FlowError;

/// The packets that a loop moves at once: a link's burst.
pub const BURST: usize = 32;

/// Builds a program with the shape of the network policy in Loom's Figure 1. Its levels are strict priority over
/// tenants' fair queueing (4 tenants of weights 1 to 4), strict priority within a tenant (4 classes), fair queueing
/// over the applications of each class (4 of weights 1 to 4), and fair queueing over the flows of each of the 64
/// leaves. One lane per leaf, no limits.
pub fn figure1_program() -> Program {
    let mut builder = Builder::default();
    let tenants: Vec<Child> = (0..4)
        .map(|tenant| {
            let classes = (0..4).map(|class| builder.apps(&format!("tenant{tenant}.class{class}"))).collect();
            builder.node(format!("tenant{tenant}"), Discipline::Priority, classes)
        })
        .collect();
    let tenants = builder.node("tenants".to_owned(), Discipline::Wfq(weights(4)), tenants);
    let root = builder.node("root".to_owned(), Discipline::Priority, vec![tenants]);
    builder.finish(root)
}

/// Builds one fair queueing node of weights 1 to `children` over as many fair leaves.
pub fn wfq_program(children: usize) -> Program {
    let mut builder = Builder::default();
    let leaves = (0..children).map(|at| builder.leaf(format!("class{at}"))).collect();
    let root = builder.node("root".to_owned(), Discipline::Wfq(weights(children)), leaves);
    builder.finish(root)
}

/// The traffic classes of a pipe of [`pipes_program`]: twelve of strict priority, and best effort.
pub const PIPE_CLASSES: usize = 13;

/// The queues of the best-effort class.
const BEST_EFFORT_QUEUES: usize = 4;

/// Builds a program with the hierarchy of DPDK's rte_sched: a port with a subport, `pipes` pipes that share it equally,
/// and in each pipe 13 classes of strict priority, of which the last has four queues. Queues are first in, first out.
/// Port, subport, each pipe and each class of a pipe have a limit of `rate`. Lane `16 p + c` is class `c` of pipe `p`;
/// the last four lanes of a pipe are best effort.
pub fn pipes_program(pipes: usize, rate: BitsPerSec) -> Program {
    let mut builder = Builder::default();
    let (port, subport) = (builder.limit("port", rate), builder.limit("subport", rate));
    let each = (0..pipes).map(|at| builder.pipe(&format!("pipe{at}"), [port, subport], rate)).collect();
    let root = builder.node("subport".to_owned(), Discipline::Wfq(vec![Weight::ONE; pipes]), each);
    builder.finish(root)
}

/// Builds `depth` nodes of fair queueing, one below the other, over four fair leaves.
pub fn chain_program(depth: usize) -> Program {
    let mut builder = Builder::default();
    let mut child = builder.apps("chain");
    for level in 1..depth {
        child = builder.node(format!("level{level}"), Discipline::Wfq(weights(1)), vec![child]);
    }
    builder.finish(child)
}

/// Gives each of the first `limits` lanes of `program` a separate limit of `rate`.
pub fn limit_lanes(program: &mut Program, limits: usize, rate: BitsPerSec) {
    for (at, lane) in program.lanes.iter_mut().enumerate().take(limits) {
        lane.limits.push(LimitId::from_index(program.limits.len()));
        program.limits.push(LimitSpec { name: format!("limit{at}"), rate, burst: Bytes(3000) });
    }
}

/// The weights 1 to `count`.
fn weights(count: usize) -> Vec<Weight> {
    (1..=count).map(|weight| Weight::new(weight as u32).unwrap_or(Weight::ONE)).collect()
}

/// A builder of programs, bottom up.
#[derive(Default)]
struct Builder {
    nodes: Vec<NodeSpec>,
    leaves: Vec<LeafSpec>,
    lanes: Vec<LaneSpec>,
    limits: Vec<LimitSpec>,
}

impl Builder {
    fn node(&mut self, name: String, discipline: Discipline, children: Vec<Child>) -> Child {
        self.nodes.push(NodeSpec { name, discipline, children });
        Child::Node(NodeId::from_index(self.nodes.len() - 1))
    }

    /// Adds a fair leaf with one lane of a separate class.
    fn leaf(&mut self, name: String) -> Child {
        self.limited_leaf(name, LeafDiscipline::Fair, Vec::new())
    }

    /// Adds a leaf with one lane of a separate class, which passes `limits`.
    fn limited_leaf(&mut self, name: String, discipline: LeafDiscipline, limits: Vec<LimitId>) -> Child {
        let at = self.leaves.len();
        let leaf = LeafId::from_index(at);
        self.leaves.push(LeafSpec { name, discipline });
        let class = ClassId::from_index(at);
        self.lanes.push(LaneSpec { class, leaf, limits, packet_bound: Packets::MAX });
        Child::Leaf(leaf)
    }

    fn limit(&mut self, name: &str, rate: BitsPerSec) -> LimitId {
        let id = LimitId::from_index(self.limits.len());
        self.limits.push(LimitSpec { name: name.to_owned(), rate, burst: Bytes(1 << 20) });
        id
    }

    fn pipe(&mut self, name: &str, above: [LimitId; 2], rate: BitsPerSec) -> Child {
        let pipe = self.limit(name, rate);
        let mut classes = Vec::with_capacity(PIPE_CLASSES);
        for class in 0..PIPE_CLASSES {
            let name = format!("{name}.class{class}");
            let limits = vec![self.limit(&name, rate), pipe, above[0], above[1]];
            let queue = |this: &mut Self, queue: usize| {
                this.limited_leaf(format!("{name}.queue{queue}"), LeafDiscipline::Fifo, limits.clone())
            };
            classes.push(if class + 1 < PIPE_CLASSES {
                queue(self, 0)
            } else {
                let queues = (0..BEST_EFFORT_QUEUES).map(|at| queue(self, at)).collect();
                self.node(name.clone(), Discipline::Wfq(vec![Weight::ONE; BEST_EFFORT_QUEUES]), queues)
            });
        }
        self.node(name.to_owned(), Discipline::Priority, classes)
    }

    fn apps(&mut self, name: &str) -> Child {
        let apps = (0..4).map(|app| self.leaf(format!("{name}.app{app}"))).collect();
        self.node(name.to_owned(), Discipline::Wfq(weights(4)), apps)
    }

    fn finish(self, root: Child) -> Program {
        let Self { nodes, leaves, lanes, limits } = self;
        Program { root, nodes, leaves, limits, lanes }
    }
}

/// A small, fast, seeded generator (xorshift64*): workloads repeat exactly on every machine.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Seeds a generator; equal seeds give equal streams.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next 32 random bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) as u32
    }

    /// A number below `bound`, which must not be zero. The bias is below `bound / 2^32`.
    #[inline]
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(self.next_u32()) * u64::from(bound)) >> 32) as u32
    }
}

/// The destination of the packet that replaces a departed one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refill {
    /// The same flow: every flow stays backlogged.
    Same,
    /// The next flow of a shuffled list: flows become idle and backlogged at random, the hard case for branch
    /// prediction.
    Shuffled,
}

/// A closed loop over a scheduler: the number of waiting packets equals the number of flows, and none is dropped.
#[derive(Debug)]
pub struct ClosedLoop {
    scheduler: PacketScheduler,
    order: Vec<FlowId>,
    position: usize,
    refill: Refill,
    rng: Rng,
    now: Instant,
    departures: Box<[Departure]>,
    arrivals: Box<[Arrival]>,
}

/// The packet lengths of a loop: minimum, medium and full-size frames.
const LENGTHS: [u64; 4] = [64, 594, 1518, 1518];

impl ClosedLoop {
    /// Builds a loop over `flows` flows, assigned to the program's lanes in turn with weights 1 to 4, with one waiting
    /// packet each.
    ///
    /// # Errors
    /// When the program cannot be run or a flow cannot be added.
    pub fn new(program: &Program, flows: u32, refill: Refill, seed: u64) -> Result<Self, WorkloadError> {
        Self::with_burst(program, flows, refill, seed, BURST)
    }

    /// As [`Self::new`], with bursts of `burst` packets, at least one.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_burst(
        program: &Program,
        flows: u32,
        refill: Refill,
        seed: u64,
        burst: usize,
    ) -> Result<Self, WorkloadError> {
        let mut scheduler = PacketScheduler::new(program)?;
        let mut rng = Rng::new(seed);
        let lanes = program.lanes.len().max(1);
        let mut order = Vec::with_capacity(flows as usize);
        for at in 0..flows {
            let weight = Weight::new(1 + rng.below(4)).unwrap_or(Weight::ONE);
            order.push(scheduler.add_flow(LaneId::from_index(at as usize % lanes), weight)?);
        }
        for at in (1..order.len()).rev() {
            order.swap(at, rng.below(at as u32 + 1) as usize);
        }
        scheduler.reserve(Packets(u64::from(flows)));
        let departures = vec![Departure::default(); burst.max(1)].into_boxed_slice();
        let arrivals = vec![Arrival::default(); burst.max(1)].into_boxed_slice();
        let mut this =
            Self { scheduler, order, position: 0, refill, rng, now: Instant::ZERO, departures, arrivals };
        for at in 0..this.order.len() {
            let flow = this.order[at];
            let descriptor = this.packet(at as u64);
            // A lane's bound may refuse a packet; the loop then runs with fewer.
            let _ = this.scheduler.enqueue(flow, descriptor, Instant::ZERO);
        }
        Ok(this)
    }

    #[inline]
    fn packet(&mut self, handle: u64) -> Descriptor {
        Descriptor { len: Bytes(LENGTHS[self.rng.below(4) as usize]), handle }
    }

    /// Dequeues at least `packets` packets, rounded up to whole bursts, and enqueues one for each. Returns the number
    /// dequeued, which is less only when no packet is left. Time advances by 100 ns per burst, and to a limit's release
    /// time where a limit delays all packets.
    pub fn run(&mut self, packets: u64) -> u64 {
        let mut done = 0;
        while done < packets {
            self.now += Nanos(100);
            let (count, end) = self.scheduler.dequeue_burst(&mut self.departures, self.now, |_| {});
            match end {
                crate::BurstEnd::Wait(until) => self.now = until,
                crate::BurstEnd::Empty if count == 0 => break,
                _ => {}
            }
            self.replace(count);
            done += count as u64;
        }
        done
    }

    #[inline]
    fn replace(&mut self, count: usize) {
        for at in 0..count {
            let departure = self.departures[at];
            let flow = match self.refill {
                Refill::Same => departure.flow,
                Refill::Shuffled => {
                    self.position = if self.position + 1 >= self.order.len() { 0 } else { self.position + 1 };
                    self.order[self.position]
                }
            };
            self.arrivals[at] = Arrival { flow, descriptor: self.packet(departure.descriptor.handle) };
        }
        self.scheduler.enqueue_burst(&self.arrivals[..count], self.now, |_, _| {});
    }

    /// The scheduler, for its counters and checks.
    pub fn scheduler(&self) -> &PacketScheduler {
        &self.scheduler
    }

    /// The scheduler, to be changed between two runs.
    pub fn scheduler_mut(&mut self) -> &mut PacketScheduler {
        &mut self.scheduler
    }

    /// The scheduler itself.
    pub fn into_scheduler(self) -> PacketScheduler {
        self.scheduler
    }

    /// The current time of the loop.
    pub fn now(&self) -> Instant {
        self.now
    }
}

/// Errors from building a loop.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The program cannot be run.
    #[error(transparent)]
    Program(#[from] crate::ProgramError),
    /// A flow could not be added; the program has no lanes.
    #[error(transparent)]
    Flow(#[from] FlowError),
}
