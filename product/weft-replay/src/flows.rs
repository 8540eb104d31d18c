//! Flows of a run, each with its queue, and the lanes of packets.

use crate::ReplayError;
use crate::link::Scheduler;
use core::hash::Hash;
use std::collections::HashMap;
use weft_packet::AttributeTests;
use weft_policy::CompiledPolicy;
use weft_sched::LeafDiscipline;
use weft_units::{ClassId, FlowId, FlowKey, LaneId, PacketMeta, Weight};

/// The fields that make packets one flow: the five-tuple, and the attributes that the policy tests.
pub(crate) type FieldsOfFlow = (FlowKey, AttributeTests);

/// The tables of a policy, for packets at one port.
pub(crate) struct Lookup<'a> {
    policy: &'a CompiledPolicy,
    /// The attributes that the policy tests.
    tested: AttributeTests,
    /// The number of the port at which the packets leave.
    port: u16,
}

impl<'a> Lookup<'a> {
    pub(crate) fn new(policy: &'a CompiledPolicy, port: &str) -> Result<Self, ReplayError> {
        check_policy(policy)?;
        let tests = policy.rules.iter().flat_map(|rule| rule.matcher.attributes.iter());
        let tested = tests.fold(AttributeTests::NONE, |all, (attribute, _)| all.with(attribute, 0));
        Ok(Self { policy, tested, port: policy.port_number(port) })
    }

    /// The flow of a packet; `None` for packets that are not IP.
    pub(crate) fn fields_of_flow(&self, meta: &PacketMeta) -> Option<FieldsOfFlow> {
        meta.key.map(|key| (key, self.tested.held_by(meta)))
    }

    /// The lane of a packet, by the policy's rules.
    pub(crate) fn lane(&self, meta: &PacketMeta) -> LaneId {
        self.policy.classify(&PacketMeta { port: self.port, ..*meta })
    }

    /// The lane of a packet of a class.
    pub(crate) fn lane_of(&self, class: ClassId, meta: &PacketMeta) -> LaneId {
        self.policy.lane_of(class, &PacketMeta { port: self.port, ..*meta })
    }
}

/// The flows of a run by what distinguishes them, each with its queue.
pub(crate) struct Flows<K> {
    /// The queue of each flow; the lane follows from the key.
    queues: HashMap<K, FlowId>,
    lanes: Vec<LaneFlows>,
    bound: usize,
    overflow_packets: u64,
}

/// The flow state of one lane.
struct LaneFlows {
    /// The queue of packets without a flow and of flows beyond the bound.
    shared: FlowId,
    /// Whether flows may have their own queues, and how many do.
    fair: bool,
    count: usize,
}

impl<K: Hash + Eq> Flows<K> {
    pub(crate) fn new<S: Scheduler>(
        policy: &CompiledPolicy,
        scheduler: &mut S,
        bound: usize,
    ) -> Result<Self, ReplayError> {
        let mut lanes = Vec::with_capacity(policy.program.lanes.len());
        for (i, lane) in policy.program.lanes.iter().enumerate() {
            let shared = scheduler
                .add_flow(LaneId::from_index(i), Weight::ONE)
                .map_err(|refused| ReplayError::Policy(format!("lane {i}: {}", S::reason(&refused))))?;
            let leaf = policy.program.leaves.get(lane.leaf.index());
            let fair = leaf.is_some_and(|leaf| leaf.discipline != LeafDiscipline::Fifo);
            lanes.push(LaneFlows { shared, fair, count: 0 });
        }
        Ok(Self { queues: HashMap::new(), lanes, bound, overflow_packets: 0 })
    }

    /// The queue of a packet; `lane` is asked for flows that have none.
    pub(crate) fn queue<S: Scheduler>(
        &mut self,
        scheduler: &mut S,
        key: Option<K>,
        lane: impl FnOnce() -> LaneId,
    ) -> Option<FlowId> {
        if let Some(flow) = key.as_ref().and_then(|key| self.queues.get(key)) {
            return Some(*flow);
        }
        let lane = lane();
        let flows = self.lanes.get_mut(lane.index())?;
        let Some(key) = key.filter(|_| flows.fair) else { return Some(flows.shared) };
        if flows.count < self.bound
            && let Ok(flow) = scheduler.add_flow(lane, Weight::ONE)
        {
            flows.count += 1;
            self.queues.insert(key, flow);
            return Some(flow);
        }
        self.overflow_packets += 1;
        Some(flows.shared)
    }

    /// The number of flows with a separate queue.
    pub(crate) fn count(&self) -> u64 {
        self.queues.len() as u64
    }

    /// The packets of flows beyond the bound.
    pub(crate) const fn overflow_packets(&self) -> u64 {
        self.overflow_packets
    }
}

/// Checks that every index in the policy's tables is valid.
pub(crate) fn check_policy(policy: &CompiledPolicy) -> Result<(), ReplayError> {
    let program = &policy.program;
    if program.lanes.is_empty() {
        return Err(ReplayError::Policy("it has no lanes".to_owned()));
    }
    for (i, lane) in program.lanes.iter().enumerate() {
        if lane.class.index() >= policy.classes.len() {
            return Err(ReplayError::Policy(format!(
                "lane {i} names class {}, which does not exist",
                lane.class
            )));
        }
    }
    for (i, rule) in policy.rules.iter().enumerate() {
        let Some(rows) = policy.destinations.get(rule.class.index()) else {
            return Err(ReplayError::Policy(format!(
                "rule {i} names class {}, which has no destinations",
                rule.class
            )));
        };
        if let Some(row) = rows.iter().find(|row| row.lane.index() >= program.lanes.len()) {
            return Err(ReplayError::Policy(format!(
                "rule {i} names lane {}, which does not exist",
                row.lane
            )));
        }
    }
    Ok(())
}
