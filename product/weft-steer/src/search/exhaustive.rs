//! Exhaustive search for tiny NICs, the reference for the other searches.

use super::dragonet::{Found, Problem};
use super::parts::ids::EntryId;
use super::types::Options;
use crate::flow::Flow;
use crate::nic::configuration::Rule;
use crate::nic::{Nic, Usage};
use crate::policy::{Cost, PolicyFile, Tally};
use weft_units::RxQueueId;

/// Returns the minimum cost over all indirection tables, and over all choices of flows with rules for their five-tuples and of
/// those rules' queues. Takes time exponential in flows and entries. `None` if there are more than `limit` assignments.
pub fn exhaustive(
    nic: &Nic,
    policy: &PolicyFile,
    options: &Options,
    flows: &[Flow],
    limit: u64,
) -> Option<Found> {
    let problem = Problem::new(nic, policy, options, flows);
    let choices = problem.usable.len() as u64;
    let entries: Vec<EntryId> = problem.assignment.movable_entries().collect();
    let count = entries.len() as u32;
    let all = choices.checked_pow(count)?.checked_mul((choices + 1).checked_pow(flows.len() as u32)?)?;
    if all > limit {
        return None;
    }
    let mut walk =
        Walk { problem, usage: Usage::new(nic), rules: Vec::new(), queues: Vec::new(), best: None };
    for number in 0..choices.pow(count) {
        let mut digits = number;
        for entry in &entries {
            let queue = walk.problem.usable[(digits % choices) as usize];
            walk.problem.assignment.move_entry(*entry, queue);
            digits /= choices;
        }
        let tally = walk.problem.assignment.tally().clone();
        walk.flow(0, &tally);
    }
    walk.best
}

struct Walk<'a> {
    problem: Problem<'a>,
    usage: Usage,
    rules: Vec<Rule>,
    queues: Vec<Option<RxQueueId>>,
    best: Option<Found>,
}

impl Walk<'_> {
    /// Enumerates the choices of this flow and of those after it.
    fn flow(&mut self, flow: usize, tally: &Tally) {
        let Some(item) = self.problem.items.get(flow).copied() else {
            let cost: Cost = self.problem.policy.policy.cost(tally);
            if self.best.as_ref().is_none_or(|best| cost < best.cost) {
                self.best = Some(Found { rules: self.rules.clone(), queues: self.queues.clone(), cost });
            }
            return;
        };
        let falls = self.problem.assignment.entry(self.problem.falls[flow]).queue();
        let mut next = tally.clone();
        next.add(item, falls);
        self.queues.push(falls);
        self.flow(flow + 1, &next);
        self.queues.pop();
        for queue in self.problem.usable.clone() {
            let Some(rule) = self.problem.candidate(&self.usage, flow, queue) else { continue };
            if self.usage.add(self.problem.nic, &rule).is_err() {
                continue;
            }
            let mut next = tally.clone();
            next.add(item, Some(queue));
            self.rules.push(rule);
            self.queues.push(Some(queue));
            self.flow(flow + 1, &next);
            self.queues.pop();
            self.rules.pop();
            self.usage.remove(&rule);
        }
    }
}
