//! The plan of a port's rings: the rings of each lane, and the engine's program for them.
//!
//! Where the policy schedules, a ring holds packets of one lane only, so a doorbell out of step with its ring can never be
//! charged to the wrong class. In the other modes rings are filled without regard to the policy, as NICs without one do: one ring
//! for all packets, a few by hash, or one per flow, served in turns.

mod algorithms;
pub(crate) mod change;
mod error;
mod infrastructure;
mod vacant;

pub use error::{PlanError, RetiredRings};
pub(crate) use vacant::Vacancies;

use crate::layout::{CLASSES, LANES, LaneEntry, RINGS, Reads, Spread};
use std::sync::Arc;
use weft_policy::CompiledPolicy;
use weft_sched::queues::{Inner, Service};
use weft_sched::{Child, LaneSpec, LeafDiscipline, LeafSpec, Program};
use weft_units::{ClassId, LaneId, LeafId, Packets};

/// The scheduling mode of a NIC.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// One ring for all packets, first in first out.
    OneRing,
    /// A number of rings, flows spread by hash, served in turns. A turn is one chunk, whatever its size.
    HashedRings {
        /// Number of rings.
        queues: u16,
    },
    /// A ring per flow, as far as the port has rings, served in turns.
    RingPerFlow,
    /// The policy.
    Loom,
    /// The multiqueue NIC of Titan and Loom (ATC 2017, NSDI 2019): hardware queues, selected by the packet's hash, and
    /// whole super-packets. Weights and segmentation may be requested in the page of its queues.
    Multiqueue {
        /// Number of queues, 1 to 256.
        queues: u16,
        /// The service order of the flows in a queue.
        inner: Inner,
        /// The service order of the queues while no weights are requested.
        service: Service,
    },
}

impl Mode {
    /// The mode's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneRing => "sq",
            Self::HashedRings { .. } => "mq",
            Self::RingPerFlow => "qpf",
            Self::Loom => "loom",
            Self::Multiqueue { .. } => "multiqueue",
        }
    }
}

/// A descriptor ring of the plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingSpec {
    /// The engine's lane of the ring.
    pub lane: LaneId,
    /// The class of all its packets; `None` where classes share the ring.
    pub class: Option<ClassId>,
}

/// The plan, with the policy from which it was derived, so that the two cannot disagree. The policy's part (policy,
/// program, queues, infrastructure) is the same for all ports of a NIC and shared by their plans; the port's part is its
/// rings, the lanes' ranges in them, and the size of its flow table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RingPlan {
    policy: Arc<CompiledPolicy>,
    /// The policy with infrastructure, where the NIC adds it.
    whole: Arc<CompiledPolicy>,
    /// The match table's lanes, as the eBPF program uses them.
    pub lanes: Vec<LaneEntry>,
    /// The rings; queue q of the port is ring q.
    pub rings: Vec<RingSpec>,
    /// The program of the engine.
    pub program: Arc<Program>,
    /// The hardware queues of a multiqueue NIC, which replace the program.
    pub queues: Option<QueuePlan>,
    /// The lane of ARP, neighbour discovery, DHCP and similar packets, which precedes all others: the last of the
    /// lanes. `None` where the policy has a class of that name, and in modes without a policy.
    pub infrastructure: Option<LaneId>,
    /// The maximum number of tracked flows, which the lanes divide evenly.
    pub flow_table: u32,
    /// The name of the port. Lanes that its packets cannot reach have no rings. `None` for a port that no limit names.
    port: Option<Arc<str>>,
}

/// The hardware queues of a multiqueue NIC. Queue q has the rings from q * `rings` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueuePlan {
    /// The number of queues.
    pub queues: usize,
    /// The number of rings per queue.
    pub rings: usize,
    /// The service order of the flows in a queue.
    pub inner: Inner,
    /// The service order of the queues while no weights are requested.
    pub service: Service,
}

/// The default size of a port's flow table, which its lanes share (`flows` in bpf/doorbell.bpf.c).
pub const FLOW_TABLE: u32 = 65_536;

/// The resources of one port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortShare {
    /// The maximum number of rings.
    pub rings: usize,
    /// The maximum number of tracked flows.
    pub flows: u32,
    /// The rings that are left to classes of later policies, as far as the policy's lanes do not need them.
    pub spare: usize,
}

impl RingPlan {
    /// Plans the rings of a port with `budget` rings (at most 256). `flows` estimates the number of flows by class, for
    /// [`Mode::RingPerFlow`]; an absent estimate counts as 1.
    ///
    /// # Errors
    /// When the policy has more lanes than the port has rings.
    pub fn new(policy: &CompiledPolicy, mode: Mode, budget: usize, flows: &[u32]) -> Result<Self, PlanError> {
        algorithms::check(&policy.program)?;
        let budget = budget.clamp(1, RINGS);
        let lanes = lanes_here(policy, None).iter().filter(|here| **here).count();
        match mode {
            Mode::OneRing => Ok(shared(policy, 1, Spread::Hash)),
            Mode::HashedRings { queues } => {
                Ok(shared(policy, usize::from(queues).clamp(1, budget), Spread::Hash))
            }
            Mode::Multiqueue { queues, inner, service } => {
                Ok(multiqueue(policy, usize::from(queues).clamp(1, budget), budget, inner, service))
            }
            _ if lanes > budget => Err(PlanError::Lanes { lanes, rings: budget }),
            Mode::RingPerFlow => {
                let demand = |class: ClassId| flows.get(class.index()).copied().unwrap_or(1).max(1) as usize;
                let here = lanes_here(policy, None);
                let wanted: Vec<usize> =
                    lanes_of(policy, &here).map(|(_, lane)| demand(lane.class)).collect();
                let given = divide(&wanted, budget);
                Ok(own_rings(policy, (&here, &given), turns_program(policy), |_| LaneId(0)))
            }
            Mode::Loom => {
                let (whole, infrastructure) = infrastructure::add(policy);
                if lanes + usize::from(infrastructure.is_some()) > budget {
                    return Err(PlanError::Lanes { lanes: lanes + 1, rings: budget });
                }
                let given = whole.program.lanes.len();
                if given > LANES {
                    return Err(PlanError::TooManyLanes { given, most: LANES });
                }
                Ok(loom((Arc::new(policy.clone()), Arc::new(whole)), infrastructure, (budget, 0), None))
            }
        }
    }

    /// Plans the rings of the port `name` of this plan's NIC, in `mode`.
    ///
    /// # Errors
    /// When the policy has more lanes for the port than the port has rings.
    pub fn of_port(
        &self,
        name: &str,
        mode: Mode,
        share: PortShare,
        flows: &[u32],
    ) -> Result<Self, PlanError> {
        let budget = share.rings.clamp(1, RINGS);
        let mut plan = match mode {
            Mode::Loom => {
                let lanes = lanes_here(&self.whole, Some(name)).iter().filter(|here| **here).count();
                if lanes > budget {
                    return Err(PlanError::Lanes { lanes, rings: budget });
                }
                let policies = (Arc::clone(&self.policy), Arc::clone(&self.whole));
                loom(policies, self.infrastructure, (budget, share.spare), Some(name.into()))
            }
            _ => Self::new(&self.policy, mode, budget, flows)?,
        };
        plan.program = Arc::clone(&self.program);
        plan.set_flow_table(share.flows.max(1));
        Ok(plan)
    }

    /// Divides a flow table of `flows` entries among the lanes.
    fn set_flow_table(&mut self, flows: u32) {
        self.flow_table = flows;
        let here = self.lanes_here().iter().filter(|here| **here).count();
        let lanes = here - usize::from(self.infrastructure.is_some());
        let each = flows / lanes.max(1) as u32;
        self.lanes.iter_mut().filter(|lane| lane.flow_bound > 0).for_each(|lane| lane.flow_bound = each);
    }

    /// Whether packets of the port can reach each lane.
    fn lanes_here(&self) -> Vec<bool> {
        lanes_here(&self.whole, self.port.as_deref())
    }

    /// The same plan for the port `name`, whose rings the caller sets.
    pub(crate) fn named(&self, name: &str) -> Self {
        Self { port: Some(name.into()), ..self.clone() }
    }

    /// Checks that the plan has the lanes of the port `name`.
    ///
    /// # Errors
    /// When the policy has other lanes for that port.
    pub(crate) fn check_port(&self, name: &str) -> Result<(), PlanError> {
        let planned = self.port.as_deref() == Some(name) || self.queues.is_some();
        if planned || self.lanes_here() == lanes_here(&self.whole, Some(name)) {
            return Ok(());
        }
        Err(PlanError::OtherPort { name: name.to_owned() })
    }

    /// The policy.
    pub fn policy(&self) -> &CompiledPolicy {
        &self.policy
    }

    /// The policy with infrastructure, where the NIC adds it.
    pub fn whole(&self) -> &CompiledPolicy {
        &self.whole
    }

    /// The number of classes that have counters: more than there are, where later policies may have more.
    pub fn class_slots(&self) -> usize {
        let changes = self.rings.iter().all(|ring| ring.class.is_some());
        if changes { CLASSES.max(self.classes()) } else { self.classes() }
    }

    /// The number of classes of its packets, with infrastructure and with ids that no class has.
    pub fn classes(&self) -> usize {
        self.whole.classes.len()
    }
}

/// Whether packets of the port `name` can reach each lane of `policy`.
fn lanes_here(policy: &CompiledPolicy, name: Option<&str>) -> Vec<bool> {
    policy.lanes_at(name.map_or(0, |name| policy.port_number(name)))
}

/// The lanes of `policy` that are `here`, with their numbers.
fn lanes_of<'a>(policy: &'a CompiledPolicy, here: &'a [bool]) -> impl Iterator<Item = (usize, &'a LaneSpec)> {
    policy.program.lanes.iter().enumerate().filter(|(at, _)| here.get(*at) == Some(&true))
}

/// Plans the policy's lanes, each with its own rings. The budget covers the lanes.
fn loom(
    (policy, whole): (Arc<CompiledPolicy>, Arc<CompiledPolicy>),
    infrastructure: Option<LaneId>,
    (budget, spare): (usize, usize),
    port: Option<Arc<str>>,
) -> RingPlan {
    let here = lanes_here(&whole, port.as_deref());
    let wanted: Vec<usize> = lanes_of(&whole, &here).map(|(_, lane)| loom_demand(&whole, lane)).collect();
    let given = divide(&wanted, budget.saturating_sub(spare).max(wanted.len()));
    let mut plan = own_rings(&whole, (&here, &given), whole.program.clone(), |lane| lane);
    // Rings without a lane are in the engine with the lane of `default`, idle.
    let default = whole.default_class();
    let lane = lanes_of(&whole, &here).find(|(_, lane)| lane.class == default).map_or(0, |(at, _)| at);
    let spec = RingSpec { lane: LaneId::from_index(lane), class: Some(default) };
    plan.rings.resize(plan.rings.len().max((plan.rings.len() + spare).min(budget)), spec);
    if let Some(entry) = infrastructure.and_then(|lane| plan.lanes.get_mut(lane.index())) {
        *entry = infrastructure::untracked(*entry);
    }
    for (entry, lane) in plan.lanes.iter_mut().zip(&whole.program.lanes).filter(|(entry, _)| entry.rings > 0)
    {
        entry.packet_bound = packet_bound(lane);
    }
    algorithms::enter(&plan.program, &mut plan.lanes);
    (plan.policy, plan.whole, plan.infrastructure) = (policy, whole, infrastructure);
    plan.port = port;
    plan.set_flow_table(FLOW_TABLE);
    plan
}

/// The packet bound of a lane as the egress program has it; 0: none.
fn packet_bound(lane: &LaneSpec) -> u64 {
    if lane.packet_bound == Packets::MAX { 0 } else { lane.packet_bound.get() }
}

impl RingPlan {
    /// Sets the ring bound of lanes whose classes have a packet bound to the capacity `packets` of a ring. The port
    /// then refuses packets that the ring cannot hold. No admitted packet is dropped after its doorbell, and the count
    /// of completed packets never lags.
    pub(crate) fn bound_rings(&mut self, packets: u32) {
        for lane in self.lanes.iter_mut().filter(|lane| lane.packet_bound > 0) {
            lane.ring_bound = u64::from(packets);
        }
    }
}

/// The number of rings that a lane can use. A FIFO leaf uses one per lane, since the order of arrival holds only within
/// a ring; a fair leaf uses all it can get.
fn loom_demand(policy: &CompiledPolicy, lane: &LaneSpec) -> usize {
    match policy.program.leaves[lane.leaf.index()].discipline {
        LeafDiscipline::Fifo => 1,
        LeafDiscipline::Fair | LeafDiscipline::Custom(_) => RINGS,
    }
}

/// Divides `budget` rings by max-min fairness: no lane gets more than its demand, and the others share the surplus.
/// Every lane gets at least one; the budget must cover that.
fn divide(wanted: &[usize], budget: usize) -> Vec<usize> {
    let mut given = vec![1; wanted.len()];
    let mut left = budget - wanted.len();
    loop {
        let hungry: Vec<usize> = (0..wanted.len()).filter(|&i| given[i] < wanted[i]).collect();
        if hungry.is_empty() || left == 0 {
            return given;
        }
        let each = (left / hungry.len()).max(1);
        for i in hungry {
            let more = each.min(wanted[i] - given[i]).min(left);
            given[i] += more;
            left -= more;
        }
    }
}

fn flow_bound(policy: &CompiledPolicy) -> u32 {
    FLOW_TABLE / policy.program.lanes.len().max(1) as u32
}

/// Plans lanes with their own rings: those that are `here`, which are `given` rings.
fn own_rings(
    policy: &CompiledPolicy,
    (here, given): (&[bool], &[usize]),
    program: Program,
    engine_lane: impl Fn(LaneId) -> LaneId,
) -> RingPlan {
    let mut rings = Vec::new();
    let mut lanes = Vec::new();
    let mut given = given.iter();
    for (i, lane) in policy.program.lanes.iter().enumerate() {
        if here.get(i) != Some(&true) {
            lanes.push(LaneEntry::vacant());
            continue;
        }
        let count = given.next().copied().unwrap_or(1);
        lanes.push(LaneEntry {
            class: lane.class.0 as u16,
            first_ring: rings.len() as u16,
            rings: count as u16,
            spread: Spread::RoundRobin,
            reads: Reads::NOTHING,
            flow_bound: flow_bound(policy),
            qdisc_class: 0,
            packet_bound: 0,
            ring_bound: 0,
        });
        let ring = RingSpec { lane: engine_lane(LaneId::from_index(i)), class: Some(lane.class) };
        rings.extend(core::iter::repeat_n(ring, count));
    }
    let policy = Arc::new(policy.clone());
    RingPlan {
        whole: Arc::clone(&policy),
        policy,
        lanes,
        rings,
        program: Arc::new(program),
        queues: None,
        infrastructure: None,
        flow_table: FLOW_TABLE,
        port: None,
    }
}

/// Plans lanes that share all rings.
fn shared(policy: &CompiledPolicy, count: usize, spread: Spread) -> RingPlan {
    let entry = |lane: &LaneSpec| LaneEntry {
        class: lane.class.0 as u16,
        first_ring: 0,
        rings: count as u16,
        spread,
        reads: Reads::NOTHING,
        flow_bound: flow_bound(policy),
        qdisc_class: 0,
        packet_bound: 0,
        ring_bound: 0,
    };
    let shared = Arc::new(policy.clone());
    RingPlan {
        whole: Arc::clone(&shared),
        policy: shared,
        lanes: policy.program.lanes.iter().map(entry).collect(),
        rings: vec![RingSpec { lane: LaneId(0), class: None }; count],
        program: Arc::new(turns_program(policy)),
        queues: None,
        infrastructure: None,
        flow_table: FLOW_TABLE,
        port: None,
    }
}

/// The maximum number of rings of a fair queue: few flows are active in one queue at the same time, and each ring has a
/// buffer of 70 KB.
const FAIR_RINGS: usize = 32;

/// Plans hardware queues, each with one ring or, if its flows share it, with as many as the budget allows.
fn multiqueue(
    policy: &CompiledPolicy,
    queues: usize,
    budget: usize,
    inner: Inner,
    service: Service,
) -> RingPlan {
    let rings = match inner {
        Inner::Fifo => 1,
        Inner::Fair => (budget / queues).clamp(1, FAIR_RINGS),
    };
    let queues_plan = QueuePlan { queues, rings, inner, service };
    RingPlan { queues: Some(queues_plan), ..shared(policy, queues * rings, Spread::Queues) }
}

/// A program without policy: one leaf whose queues are served in turns. FIFO over queues is round robin, since a queue
/// is appended after its turn or when it becomes busy.
fn turns_program(policy: &CompiledPolicy) -> Program {
    let default = policy.default_class();
    Program {
        root: Child::Leaf(LeafId(0)),
        nodes: Vec::new(),
        leaves: vec![LeafSpec { name: "queues".to_owned(), discipline: LeafDiscipline::Fifo }],
        limits: Vec::new(),
        lanes: vec![LaneSpec {
            class: default,
            leaf: LeafId(0),
            limits: Vec::new(),
            packet_bound: Packets::MAX,
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fair_queue_has_as_many_rings_as_fit() {
        let policy = weft_policy::compile(
            weft_policy::Source { name: "test", text: "class t = tcp\nroot = fair of t" },
            &weft_policy::CompileOptions::default(),
        );
        let policy = policy.policy.expect("policy");
        let plan = |queues, inner, budget| {
            let mode = Mode::Multiqueue { queues, inner, service: Service::RoundRobin };
            let plan = RingPlan::new(&policy, mode, budget, &[]).expect("plan");
            let queues = plan.queues.expect("queues");
            assert_eq!(plan.rings.len(), queues.queues * queues.rings);
            assert!(plan.lanes.iter().all(|lane| lane.spread == Spread::Queues));
            (queues.queues, queues.rings)
        };
        assert_eq!(plan(8, Inner::Fifo, 256), (8, 1));
        assert_eq!(plan(8, Inner::Fair, 256), (8, 32));
        assert_eq!(plan(3, Inner::Fair, 256), (3, 32));
        assert_eq!(plan(100, Inner::Fair, 256), (100, 2));
        assert_eq!(plan(300, Inner::Fair, 256), (256, 1));
    }

    #[test]
    fn rings_are_divided_by_max_min() {
        assert_eq!(divide(&[1, 4, 16, 64, 256, 1], 256), [1, 4, 16, 64, 170, 1]);
        assert_eq!(divide(&[256, 256], 5), [3, 2]);
        assert_eq!(divide(&[1, 1], 256), [1, 1]);
        assert_eq!(divide(&[3, 3, 3], 3), [1, 1, 1]);
    }
}
