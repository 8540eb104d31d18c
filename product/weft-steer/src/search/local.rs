//! Local search, for policies without a layout or with goals beyond it. Flows and entries move to the queue of the lowest cost
//! while that helps; then the search restarts from disturbed assignments.

use super::assignment::Assignment;
use super::parts::ids::Slot;
use super::parts::moves::Budget;
use super::types::Options;
use crate::policy::{Cost, Policy};
use weft_units::RxQueueId;

/// The maximum number of flows for restarts: each one copies the whole state.
const RESTART_MAX: usize = 2_000;

/// Moves these flows, then indirection table entries, one by one to the queue of the lowest cost. Stops without improvement, or
/// when the effort ([`Options::effort`]) is used up.
pub(super) fn climb(
    assignment: &mut Assignment,
    policy: &dyn Policy,
    slots: &[Slot],
    options: &Options,
    budget: &Budget,
) -> u32 {
    let queues = assignment.tally().queues().to_vec();
    let mut left = options.effort;
    let mut cost = policy.cost(assignment.tally());
    loop {
        let before = cost;
        for slot in slots {
            if left < queues.len() as u32 {
                return 0;
            }
            left -= queues.len() as u32;
            if !assignment.moves().allow(assignment.flow(*slot).added_in, budget) {
                continue;
            }
            if let Some(better) = best_queue(assignment, policy, *slot, &queues, cost)
                && assignment.pin(*slot, better)
            {
                cost = policy.cost(assignment.tally());
            }
        }
        left = climb_entries(assignment, policy, left, budget);
        cost = policy.cost(assignment.tally());
        if cost >= before {
            return left;
        }
    }
}

/// Returns a better queue for a flow, if a rule can send it there.
fn best_queue(
    assignment: &mut Assignment,
    policy: &dyn Policy,
    slot: Slot,
    queues: &[RxQueueId],
    cost: Cost,
) -> Option<RxQueueId> {
    let flow = assignment.flow(slot);
    let possible = flow.exact && (assignment.has_own_rule(slot) || flow.pinnable && assignment.has_room());
    if !possible {
        return None;
    }
    let from = assignment.queue(slot);
    let mut best = (cost, None);
    for queue in queues.iter().filter(|queue| Some(**queue) != from) {
        let there = assignment.cost_on(slot, *queue, policy);
        if there < best.0 {
            best = (there, Some(*queue));
        }
    }
    best.1
}

fn climb_entries(assignment: &mut Assignment, policy: &dyn Policy, mut left: u32, budget: &Budget) -> u32 {
    if !budget.moves_any() {
        return left;
    }
    let reach = assignment.reach();
    for entry in assignment.movable_entries() {
        let known = assignment.entry(entry);
        let Some(from) = known.queue().filter(|_| known.flows() > 0) else { continue };
        let mut best = (policy.cost(assignment.tally()), from);
        for queue in &reach {
            if left == 0 {
                break;
            }
            left -= 1;
            assignment.move_entry(entry, *queue);
            let there = policy.cost(assignment.tally());
            if there < best.0 {
                best = (there, *queue);
            }
        }
        assignment.move_entry(entry, best.1);
    }
    left
}

/// Disturbs the assignment and climbs again; the best result is kept.
pub(super) fn restart(assignment: &mut Assignment, policy: &dyn Policy, options: &Options) {
    let slots: Vec<Slot> = assignment.slots().collect();
    let queues = assignment.tally().queues().to_vec();
    if slots.is_empty() || slots.len() > RESTART_MAX {
        return;
    }
    let mut random = SplitMix(options.seed);
    let mut left = options.effort;
    let share = (slots.len() * queues.len()) as u32;
    while left > share.saturating_mul(2) {
        let before = policy.cost(assignment.tally());
        if before == Cost::ZERO {
            return;
        }
        let mut other = assignment.clone();
        for _ in 0..(slots.len() / 8).max(2) {
            let slot = slots[random.below(slots.len())];
            let queue = queues[random.below(queues.len())];
            if other.has_own_rule(slot) || other.flow(slot).exact && other.has_room() {
                other.pin(slot, queue);
            }
        }
        let effort = left / 2;
        let unused = climb(&mut other, policy, &slots, &Options { effort, ..options.clone() }, &Budget::ALL);
        left -= (effort - unused).max(share);
        if policy.cost(other.tally()) < before {
            *assignment = other;
        }
    }
}

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA'14).
struct SplitMix(u64);

impl SplitMix {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit.max(1) as u64) as usize
    }
}
