//! The planner: flows come and go, and a configuration follows.

use super::assignment::{Assignment, Start};
use super::local;
use super::parts::ids::Slot;
use super::parts::moves::{Budget, Persistence};
use super::types::{Options, Placement, Plan, PlanError, SteeredFlowId};
use crate::flow::Flow;
use crate::nic::Nic;
use crate::policy::{Cost, Layout, PolicyFile, Tally};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::sync::Arc;
use weft_units::RxQueueId;

/// Most contents of the indirection table that are all tried, and for how many flows.
const ALL_ENTRIES_MAX: u32 = 256;
/// See [`ALL_ENTRIES_MAX`].
const ALL_ENTRIES_FLOWS_MAX: usize = 1_000;
/// Flows up to which a search that is not perfect ends with the local search, also where a layout has led it.
const CLIMB_FLOWS_MAX: usize = 32;
/// Flows beyond which a search begins only once.
const SEVERAL_STARTS_MAX: usize = 20_000;

/// Plans a NIC's configuration for flows, and keeps it up to date as they come and go.
///
/// For `n` flows on `q` queues, with a policy that has a layout, a whole search takes time of the order of `n (log n + log q)`; a flow that
/// comes or leaves takes that of `log n + log q`. More takes: a rule with wildcards, which is set flow by flow for those that it takes along;
/// a step for balance when rules have run out, which looks at queues and entries of the indirection table; and a change of the layout
/// itself (when [`crate::policy::Priority`] wants another queue), which looks at all flows.
#[derive(Debug)]
pub struct Planner {
    policy: PolicyFile,
    options: Options,
    usable: Vec<RxQueueId>,
    assignment: Assignment,
    slots: HashMap<SteeredFlowId, Slot, FixedState>,
    next: u32,
    key: u64,
    classes: usize,
    has_layout: bool,
}

impl Planner {
    /// A planner without flows.
    ///
    /// # Errors
    /// No queue is left, the policy does not fit the queues, or the model cannot be planned for.
    pub fn new(nic: Nic, policy: impl Into<PolicyFile>, options: Options) -> Result<Self, PlanError> {
        let policy = policy.into();
        let limit = options.queues.unwrap_or(nic.queues).min(nic.queues);
        let reserved = u32::from(options.reserve_default);
        let usable: Vec<RxQueueId> = (reserved..limit).map(RxQueueId).collect();
        if usable.is_empty() {
            return Err(PlanError::NoQueue { nic: nic.queues, limit, reserved });
        }
        let problem = nic.rss.as_ref().and_then(|rss| {
            let entries = rss.indirection;
            (!entries.is_power_of_two())
                .then(|| format!("its indirection table has {entries} entries, not a power of two"))
        });
        if let Some(problem) = problem {
            return Err(PlanError::Model { nic: nic.name, problem });
        }
        policy
            .policy
            .check(&usable)
            .map_err(|problem| PlanError::Policy { policy: policy.policy.name(), problem })?;
        let assignment = Assignment::new(&Arc::new(nic), &usable, &options);
        let has_layout = policy.policy.layout(assignment.tally()).is_some();
        let mut planner = Self {
            policy,
            options,
            usable,
            assignment,
            slots: HashMap::default(),
            next: 0,
            key: 0,
            classes: 0,
            has_layout,
        };
        planner.follow_policy();
        Ok(planner)
    }

    /// Plans for these flows and no others, from scratch. The numbers are in the order of the flows.
    pub fn set(&mut self, flows: Vec<Flow>) -> Vec<SteeredFlowId> {
        let ids: Vec<SteeredFlowId> = flows.iter().map(|_| self.new_id()).collect();
        let mut best: Option<(Cost, usize, Assignment)> = None;
        for start in
            [Start::Hash, Start::Heaviest, Start::Given].into_iter().chain(self.all_entries(flows.len()))
        {
            let found = self.search(&flows, &ids, start);
            let perfect = found.is_perfect() && self.follows_layout();
            let score = (self.policy.policy.cost(found.tally()), found.rule_count());
            if best.as_ref().is_none_or(|(cost, rules, _)| score < (*cost, *rules)) {
                best = Some((score.0, score.1, found));
            }
            if perfect || flows.len() > SEVERAL_STARTS_MAX {
                break;
            }
        }
        if let Some((_, _, found)) = best {
            self.assignment = found;
        }
        (self.key, self.classes) =
            (self.policy.policy.layout_key(self.assignment.tally()), self.assignment.tally().classes().len());
        let few = flows.len() <= CLIMB_FLOWS_MAX && !self.assignment.is_perfect();
        if few || !self.follows_layout() {
            let slots: Vec<Slot> = self.assignment.slots().collect();
            local::climb(&mut self.assignment, &*self.policy.policy, &slots, &self.options, &Budget::ALL);
            local::restart(&mut self.assignment, &*self.policy.policy, &self.options);
        }
        self.slots = self.assignment.slots().map(|slot| (self.assignment.flow(slot).id, slot)).collect();
        ids
    }

    /// Where the indirection table is tiny, all of its contents: which entry's flows lie together and which get rules cannot be told one
    /// after the other then.
    fn all_entries(&self, flows: usize) -> impl Iterator<Item = Start> + use<> {
        let ways = if flows > ALL_ENTRIES_FLOWS_MAX { None } else { self.assignment.ways(ALL_ENTRIES_MAX) };
        (0..ways.unwrap_or(0)).map(Start::Entries)
    }

    fn search(&self, flows: &[Flow], ids: &[SteeredFlowId], start: Start) -> Assignment {
        let mut new = Assignment::new(self.assignment.nic(), &self.usable, &self.options);
        let measure = self.policy.policy.measure();
        for name in self.assignment.tally().classes() {
            new.intern(name);
        }
        // The layout may depend on how many flows the classes have: they are counted before any flow has a place.
        let mut census = new.tally().clone();
        let classes: Vec<_> = flows
            .iter()
            .map(|flow| {
                let class = census.intern(self.policy.classes.of(flow));
                census.add(crate::policy::Item { class, load: 0, core: None }, None);
                class
            })
            .collect();
        for name in census.classes() {
            new.intern(name);
        }
        new.set_layout(self.layout(&census));
        new.reserve(flows.len());
        let insert =
            |(flow, (id, class)): (&Flow, (&SteeredFlowId, &_))| new.insert(flow, *id, *class, measure);
        let order: Vec<Slot> = flows.iter().zip(ids.iter().zip(&classes)).map(insert).collect();
        new.assign(start, &order);
        new
    }

    /// Adds flows. Others move only when that makes room or balance, within [`Options::most_moved`].
    pub fn add(&mut self, flows: Vec<Flow>) -> Vec<SteeredFlowId> {
        self.assignment.begin_event();
        let measure = self.policy.policy.measure();
        let flows_max = self.options.most_moved.unwrap_or(u32::MAX);
        let budget = Budget { flows: flows_max, ..Budget::ALL };
        let mut slots = Vec::with_capacity(flows.len());
        let mut ids = Vec::with_capacity(flows.len());
        for flow in &flows {
            let id = self.new_id();
            let class = self.assignment.intern(self.policy.classes.of(flow));
            let slot = self.assignment.insert(flow, id, class, measure);
            self.slots.insert(id, slot);
            self.assignment.place(slot, &budget);
            ids.push(id);
            slots.push(slot);
        }
        self.tidy(&slots, flows.len());
        ids
    }

    /// Removes flows; numbers that are not of flows are ignored. Their rules are free at once, and of the other flows at most so many move
    /// as keep the balance.
    pub fn remove(&mut self, ids: &[SteeredFlowId]) {
        self.assignment.begin_event();
        let mut removed = 0;
        for id in ids {
            if let Some(slot) = self.slots.remove(id) {
                self.assignment.erase(slot);
                removed += 1;
            }
        }
        self.tidy(&[], removed);
    }

    /// What follows an event of so many flows.
    fn tidy(&mut self, new: &[Slot], changed: usize) {
        let other = self.follow_policy();
        let flows = self.options.most_moved.unwrap_or(u32::MAX);
        let steps = if other { u32::MAX } else { 2 * changed as u32 };
        let persistence = if other { Persistence::EveryFlow } else { Persistence::FewFailures };
        let budget = Budget { flows, steps, persistence };
        self.assignment.fix_misplaced(&budget);
        self.assignment.balance(&budget);
        if !self.follows_layout() {
            local::climb(&mut self.assignment, &*self.policy.policy, new, &self.options, &budget);
        }
    }

    /// Asks the policy for its layout when it may have changed; whether it has.
    fn follow_policy(&mut self) -> bool {
        let (key, classes) =
            (self.policy.policy.layout_key(self.assignment.tally()), self.assignment.tally().classes().len());
        if (key, classes) == (self.key, self.classes) {
            return false;
        }
        (self.key, self.classes) = (key, classes);
        let layout = self.layout(self.assignment.tally());
        self.assignment.follow(layout)
    }

    fn layout(&self, tally: &Tally) -> Layout {
        self.policy.policy.layout(tally).unwrap_or_else(|| Layout::single(&self.usable))
    }

    /// Whether the policy's layout says all that it wants.
    fn follows_layout(&self) -> bool {
        self.has_layout && self.policy.policy.layout_is_all()
    }

    fn new_id(&mut self) -> SteeredFlowId {
        let id = SteeredFlowId(self.next);
        self.next = self.next.wrapping_add(1);
        id
    }

    /// What the policy says of the assignment as it is.
    pub fn cost(&self) -> Cost {
        self.policy.policy.cost(self.assignment.tally())
    }

    /// Where a flow is received.
    pub fn queue_of(&self, id: SteeredFlowId) -> Option<Placement> {
        self.slots.get(&id).map(|slot| self.assignment.placement(*slot))
    }

    /// The configuration, where it puts each flow, and what was given up.
    pub fn plan(&self) -> Plan {
        let placed = |slot| (self.assignment.flow(slot).id, self.assignment.placement(slot));
        let mut placements: Vec<(SteeredFlowId, Placement)> = self.assignment.slots().map(placed).collect();
        placements.sort_unstable_by_key(|(id, _)| *id);
        Plan {
            configuration: self.assignment.configuration(),
            placements,
            cost: self.cost(),
            degraded: self.assignment.degradations(self.options.most_moved),
        }
    }

    /// The sums that the policy looks at.
    pub fn tally(&self) -> &Tally {
        self.assignment.tally()
    }

    /// Flows that there were before the last [`Planner::add`] or [`Planner::remove`] and that it moved; one that moved twice counts twice.
    pub fn moved(&self) -> u32 {
        self.assignment.moves().moved()
    }

    /// Flows.
    pub fn len(&self) -> usize {
        self.assignment.len()
    }

    /// Whether there are no flows.
    pub fn is_empty(&self) -> bool {
        self.assignment.len() == 0
    }

    /// The NIC.
    pub fn nic(&self) -> &Nic {
        self.assignment.nic()
    }

    /// The policy.
    pub fn policy(&self) -> &PolicyFile {
        &self.policy
    }
}
