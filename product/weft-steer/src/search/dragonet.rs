//! Dragonet's searches (TRIOS'15, "Greedy search algorithm") for comparison: flow by flow, the cheapest rule. The naive search
//! maps all flows again for each candidate. The incremental one keeps the map and updates the flows that the candidate affects.
//!
//! As in Dragonet, an oracle proposes rules: the flow's five-tuple to each queue, in the first table that accepts it. If no table
//! does, the flow keeps its place without a rule; Dragonet fails with an error.

use super::assignment::Assignment;
use super::parts::ids::EntryId;
use super::parts::table_order::rule_to_set;
use super::types::{Options, SteeredFlowId};
use crate::flow::Flow;
use crate::nic::configuration::{Action, Rule};
use crate::nic::{Nic, TableId, Usage};
use crate::policy::{Cost, Item, PolicyFile};
use std::sync::Arc;
use weft_units::RxQueueId;

/// The result of a search.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// The rules, in the order of their addition.
    pub rules: Vec<Rule>,
    /// Each flow's queue; `None` if its packets are spread.
    pub queues: Vec<Option<RxQueueId>>,
    /// The policy's cost.
    pub cost: Cost,
}

/// The common input of these searches and the exhaustive one.
pub(super) struct Problem<'a> {
    pub(super) nic: &'a Nic,
    pub(super) policy: &'a PolicyFile,
    pub(super) usable: Vec<RxQueueId>,
    /// An assignment without placed flows: it provides the queues of flows without rules, and an empty tally.
    pub(super) assignment: Assignment,
    pub(super) items: Vec<Item>,
    pub(super) falls: Vec<EntryId>,
    flows: Vec<Flow>,
    order: Vec<TableId>,
}

impl<'a> Problem<'a> {
    pub(super) fn new(nic: &'a Nic, policy: &'a PolicyFile, options: &Options, flows: &[Flow]) -> Self {
        let limit = options.queues.unwrap_or(nic.queues).min(nic.queues);
        let usable: Vec<RxQueueId> = (u32::from(options.reserve_default)..limit).map(RxQueueId).collect();
        let assignment = Assignment::new(&Arc::new(nic.clone()), &usable, options);
        let mut order: Vec<TableId> = nic.tables().map(|(id, _)| id).collect();
        order.sort_by_key(|id| assignment.table_order(*id));
        let mut problem = Self {
            nic,
            policy,
            usable,
            assignment,
            items: Vec::new(),
            falls: Vec::new(),
            flows: Vec::new(),
            order,
        };
        flows.iter().for_each(|flow| problem.push(flow));
        problem
    }

    fn push(&mut self, flow: &Flow) {
        let class = self.assignment.intern(self.policy.classes.of(flow));
        let id = SteeredFlowId(self.flows.len() as u32);
        let slot = self.assignment.insert(flow, id, class, self.policy.policy.measure());
        self.items.push(self.assignment.flow(slot).item);
        self.falls.push(self.assignment.flow(slot).base);
        self.flows.push(flow.clone());
    }

    /// Returns the flow's rule to a queue, in the first table that accepts it.
    pub(super) fn candidate(&self, usage: &Usage, flow: usize, queue: RxQueueId) -> Option<Rule> {
        let rules = self
            .order
            .iter()
            .filter_map(|id| Some(rule_to_set(self.nic.table(*id)?, *id, self.flows[flow].headers, queue)));
        rules.into_iter().find(|rule| usage.admits(self.nic, rule).is_ok())
    }

    fn precedence(&self, rule: &Rule) -> (u32, u32) {
        (self.assignment.table_order(rule.table), u32::MAX - rule.headers.bits_tested())
    }

    /// Returns a flow's queue under a list of rules, by a linear search.
    fn queue(&self, rules: &[Rule], flow: usize) -> Option<RxQueueId> {
        let held = rules.iter().filter(|rule| rule.headers.covers(&self.flows[flow].headers));
        match held.min_by_key(|rule| self.precedence(rule)).map(|rule| rule.action) {
            Some(Action::Queue(queue)) => Some(queue),
            _ => self.assignment.entry(self.falls[flow]).queue(),
        }
    }

    fn cost(&self, queues: &[Option<RxQueueId>]) -> Cost {
        let mut tally = self.assignment.tally().clone();
        for (item, queue) in self.items.iter().zip(queues) {
            tally.add(*item, *queue);
        }
        self.policy.policy.cost(&tally)
    }
}

/// Runs the naive search: for each flow and candidate, it maps all flows so far under all rules and evaluates the cost.
pub fn naive(nic: &Nic, policy: &PolicyFile, options: &Options, flows: &[Flow]) -> Found {
    let problem = Problem::new(nic, policy, options, flows);
    let (mut usage, mut rules) = (Usage::new(nic), Vec::new());
    for flow in 0..flows.len() {
        let mut best: Option<(Cost, Rule)> = None;
        for queue in &problem.usable {
            let Some(rule) = problem.candidate(&usage, flow, *queue) else { continue };
            rules.push(rule);
            let queues: Vec<_> = (0..=flow).map(|flow| problem.queue(&rules, flow)).collect();
            rules.pop();
            let cost = problem.cost(&queues);
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, rule));
            }
        }
        if let Some((_, rule)) = best
            && usage.add(nic, &rule).is_ok()
        {
            rules.push(rule);
        }
    }
    let queues: Vec<_> = (0..flows.len()).map(|flow| problem.queue(&rules, flow)).collect();
    let cost = problem.cost(&queues);
    Found { rules, queues, cost }
}

/// The incremental search, which also accepts flows one at a time. Removing a flow frees its rule at once.
pub struct Incremental<'a> {
    problem: Problem<'a>,
    usage: Usage,
    rules: Vec<Option<Rule>>,
    queues: Vec<Option<Option<RxQueueId>>>,
}

impl<'a> Incremental<'a> {
    /// Creates a search without flows.
    pub fn new(nic: &'a Nic, policy: &'a PolicyFile, options: &Options) -> Self {
        Self {
            problem: Problem::new(nic, policy, options, &[]),
            usage: Usage::new(nic),
            rules: Vec::new(),
            queues: Vec::new(),
        }
    }

    /// Adds a flow of one five-tuple by one greedy step; returns its number.
    pub fn add(&mut self, flow: &Flow) -> usize {
        let number = self.rules.len();
        self.problem.push(flow);
        let falls = self.problem.assignment.entry(self.problem.falls[number]).queue();
        let mut best: Option<(Cost, Rule, RxQueueId)> = None;
        for queue in self.problem.usable.clone() {
            let Some(rule) = self.problem.candidate(&self.usage, number, queue) else { continue };
            // Only the new flow's packets are mapped: other flows keep their queues. As in Dragonet, the cost is evaluated over
            // all flows.
            let mut tally = self.problem.assignment.tally().clone();
            for (item, known) in self.problem.items.iter().zip(&self.queues) {
                if let Some(known) = known {
                    tally.add(*item, *known);
                }
            }
            tally.add(self.problem.items[number], Some(queue));
            let cost = self.problem.policy.policy.cost(&tally);
            if best.as_ref().is_none_or(|(least, _, _)| cost < *least) {
                best = Some((cost, rule, queue));
            }
        }
        let best = best.filter(|(_, rule, _)| self.usage.add(self.problem.nic, rule).is_ok());
        self.queues.push(Some(best.as_ref().map_or(falls, |(_, _, queue)| Some(*queue))));
        self.rules.push(best.map(|(_, rule, _)| rule));
        number
    }

    /// Removes a flow.
    pub fn remove(&mut self, number: usize) {
        if let Some(rule) = self.rules.get_mut(number).and_then(Option::take) {
            self.usage.remove(&rule);
        }
        if let Some(queue) = self.queues.get_mut(number) {
            *queue = None;
        }
    }

    /// Returns the current result.
    pub fn found(&self) -> Found {
        let queues: Vec<_> = self.queues.iter().map(|queue| queue.unwrap_or_default()).collect();
        let mut tally = self.problem.assignment.tally().clone();
        for (item, queue) in self.problem.items.iter().zip(&self.queues) {
            if let Some(queue) = queue {
                tally.add(*item, *queue);
            }
        }
        let cost = self.problem.policy.policy.cost(&tally);
        Found { rules: self.rules.iter().flatten().copied().collect(), queues, cost }
    }
}
