//! The planner: keeps a NIC's configuration up to date as flows are added and removed.
//!
//! [`Planner::set`] plans from scratch:
//!
//! 1. Build an assignment for each start: by hash, by the heaviest flows, in the given order, and for a tiny indirection table
//!    each of its possible contents. Large sets of flows use the first start only.
//! 2. Keep the assignment of the lowest cost; among equal costs the one with the fewest rules. Stop at a perfect one.
//! 3. Climb by local search if the layout is not the whole policy, or if the flows are few and the assignment is not perfect.
//!
//! [`Planner::add`] and [`Planner::remove`] are events, which move as few flows as possible:
//!
//! 1. Place added flows by hash if that is as good as any queue, otherwise by a rule. Removed flows free their rules at once.
//! 2. Ask the policy for its layout if its key changed. A new layout lifts the limits on balancing steps and on failures.
//! 3. Repair misplaced flows, then balance, with two steps per changed flow and within [`Options::most_moved`].
//! 4. Climb by local search if the layout is not the whole policy.
//!
//! Rules that must hold:
//!
//! * The planner owns the flows' identities, which are never reused; the assignment owns their state. The slot of a removed
//!   flow is reused.
//! * Only `set` ignores [`Options::most_moved`]. An event stays within its budget, so that a change of few flows disturbs few
//!   others.
//! * A plan is always returned. Each unmet goal is counted in [`Plan::degraded`], by cause.

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

/// The maximum number of indirection table contents that are all tried.
const ALL_ENTRIES_MAX: u32 = 256;
/// The maximum number of flows for [`ALL_ENTRIES_MAX`].
const ALL_ENTRIES_FLOWS_MAX: usize = 1_000;
/// The maximum number of flows with a local search after an imperfect assignment even if the layout is the whole policy.
const CLIMB_FLOWS_MAX: usize = 32;
/// The maximum number of flows for several starts.
const SEVERAL_STARTS_MAX: usize = 20_000;

/// Plans a NIC's configuration for flows, and updates it as they are added and removed.
///
/// For `n` flows on `q` queues and a policy with a layout, a whole search takes time of the order of `n (log n + log q)`, and an
/// added or removed flow `log n + log q`. Three cases take longer. A rule with wildcards is settled flow by flow for the flows
/// that it captures. A balancing step after rules have run out examines queues and indirection table entries. A change of the
/// layout itself (when [`crate::policy::Priority`] needs another queue) examines all flows.
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
    /// Creates a planner without flows.
    ///
    /// # Errors
    /// No queue is usable, the queues cannot satisfy the policy, or the model is not supported.
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

    /// Replaces all flows and plans from scratch. The returned identities are in the order of the flows.
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

    /// Returns a start for each possible content of a tiny indirection table. Which flows share an entry and which get rules are
    /// one decision then, so a greedy order may miss the best.
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
        // The layout may depend on the number of flows per class, so flows are counted before any is placed.
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

    /// Adds flows. Others are moved only to make room or to restore balance, within [`Options::most_moved`].
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

    /// Removes flows; unknown identities are ignored. Their rules are freed at once, and at most enough other flows move to keep
    /// the balance.
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

    /// Repairs and balances after an event that changed `changed` flows.
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

    /// Asks the policy for its layout if its key changed; returns whether the layout changed.
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

    /// Whether the layout is the whole policy.
    fn follows_layout(&self) -> bool {
        self.has_layout && self.policy.policy.layout_is_all()
    }

    fn new_id(&mut self) -> SteeredFlowId {
        let id = SteeredFlowId(self.next);
        self.next = self.next.wrapping_add(1);
        id
    }

    /// Returns the cost of the current assignment.
    pub fn cost(&self) -> Cost {
        self.policy.policy.cost(self.assignment.tally())
    }

    /// Returns the placement of a flow.
    pub fn queue_of(&self, id: SteeredFlowId) -> Option<Placement> {
        self.slots.get(&id).map(|slot| self.assignment.placement(*slot))
    }

    /// Returns the configuration, each flow's placement, and the unmet goals.
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

    /// Returns the policy's input.
    pub fn tally(&self) -> &Tally {
        self.assignment.tally()
    }

    /// The number of moves of older flows in the last [`Planner::add`] or [`Planner::remove`]; a flow moved twice counts twice.
    pub fn moved(&self) -> u32 {
        self.assignment.moves().moved()
    }

    /// The number of flows.
    pub fn len(&self) -> usize {
        self.assignment.len()
    }

    /// Whether there are no flows.
    pub fn is_empty(&self) -> bool {
        self.assignment.len() == 0
    }

    /// Returns the NIC.
    pub fn nic(&self) -> &Nic {
        self.assignment.nic()
    }

    /// Returns the policy.
    pub fn policy(&self) -> &PolicyFile {
        &self.policy
    }
}
