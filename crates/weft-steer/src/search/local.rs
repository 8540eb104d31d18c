//! Local search, for policies that have no layout or want more than it says: flows and entries go where the cost is least, as long as that
//! helps, and from disturbed assignments again.

use super::improve::Budget;
use super::state::{ENTRIES, State};
use super::types::Options;
use crate::policy::{Cost, Policy};
use weft_units::RxQueueId;

/// Flows above which disturbed assignments are not tried: each needs a copy of everything.
const RESTART_MAX: usize = 2_000;

/// Moves these flows, then entries of the indirection table, one by one to the queue with the least cost, until nothing is better or as
/// many costs were looked at as may be.
pub(super) fn climb(
    state: &mut State,
    policy: &dyn Policy,
    slots: &[u32],
    options: &Options,
    budget: &Budget,
) -> u32 {
    let queues = state.tally.queues().to_vec();
    let mut left = options.effort;
    let mut cost = policy.cost(&state.tally);
    loop {
        let before = cost;
        for slot in slots {
            if left < queues.len() as u32 {
                return 0;
            }
            left -= queues.len() as u32;
            if state.record(*slot).born < state.event && state.moved >= budget.flows {
                continue;
            }
            if let Some(better) = best_queue(state, policy, *slot, &queues, cost)
                && state.pin(*slot, better)
            {
                cost = policy.cost(&state.tally);
            }
        }
        left = climb_entries(state, policy, &queues, left, budget);
        cost = policy.cost(&state.tally);
        if cost >= before {
            return left;
        }
    }
}

/// The queue that would be better for a flow, if one can be had.
fn best_queue(
    state: &mut State,
    policy: &dyn Policy,
    slot: u32,
    queues: &[RxQueueId],
    cost: Cost,
) -> Option<RxQueueId> {
    let record = state.record(slot);
    let possible =
        record.exact && (state.is_ruled(slot) || record.pinnable && state.tables.any_room(&state.nic));
    if !possible {
        return None;
    }
    let (item, from) = (record.item, state.queue(slot));
    let mut best = (cost, None);
    for queue in queues.iter().filter(|queue| Some(**queue) != from) {
        state.tally.remove(item, from);
        state.tally.add(item, Some(*queue));
        let there = policy.cost(&state.tally);
        state.tally.remove(item, Some(*queue));
        state.tally.add(item, from);
        if there < best.0 {
            best = (there, Some(*queue));
        }
    }
    best.1
}

fn climb_entries(
    state: &mut State,
    policy: &dyn Policy,
    queues: &[RxQueueId],
    mut left: u32,
    budget: &Budget,
) -> u32 {
    let reach = state.nic.rss.as_ref().map_or(0, |rss| rss.queues);
    if !state.entries_movable || budget.flows != u32::MAX {
        return left;
    }
    for entry in ENTRIES..ENTRIES + state.entries {
        let Some(from) = state.carrier(entry).queue.filter(|_| state.carrier(entry).flows > 0) else {
            continue;
        };
        let mut best = (policy.cost(&state.tally), from);
        for queue in queues.iter().filter(|queue| queue.0 < reach) {
            if left == 0 {
                break;
            }
            left -= 1;
            state.move_carrier(entry, *queue);
            let there = policy.cost(&state.tally);
            if there < best.0 {
                best = (there, *queue);
            }
        }
        state.move_carrier(entry, best.1);
    }
    left
}

/// Disturbs the assignment and climbs again; the best is kept.
pub(super) fn restart(state: &mut State, policy: &dyn Policy, options: &Options) {
    let slots: Vec<u32> = state.slots().collect();
    let queues = state.tally.queues().to_vec();
    if slots.is_empty() || slots.len() > RESTART_MAX {
        return;
    }
    let mut random = SplitMix(options.seed);
    let mut left = options.effort;
    let share = (slots.len() * queues.len()) as u32;
    while left > share.saturating_mul(2) {
        let before = policy.cost(&state.tally);
        if before == Cost::ZERO {
            return;
        }
        let mut other = state.clone();
        for _ in 0..(slots.len() / 8).max(2) {
            let slot = slots[random.below(slots.len())];
            let queue = queues[random.below(queues.len())];
            if other.is_ruled(slot) || other.record(slot).exact && other.tables.any_room(&other.nic) {
                other.pin(slot, queue);
            }
        }
        let effort = left / 2;
        let unused = climb(&mut other, policy, &slots, &Options { effort, ..options.clone() }, &Budget::ALL);
        left -= (effort - unused).max(share);
        if policy.cost(&other.tally) < before {
            *state = other;
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
