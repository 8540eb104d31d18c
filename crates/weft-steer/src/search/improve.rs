//! Steps that make an assignment better: flows to where they must be, and equal loads.

use super::state::{Bins, Kind, NONE, State};
use crate::policy::Layout;
use weft_units::QueueId;

/// Carriers of several flows that are looked at when no single flow can be moved.
const CARRIERS_MAX: usize = 4_096;
/// Flows without success after which an event stops looking for rules.
const FAILURES_MAX: usize = 64;

/// Rules that are shared out among groups by looking at all ways; more go to the most urgent flows.
const SHARED_OUT_MAX: usize = 512;

/// How much may be moved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// Flows of earlier events that this one may move in all ([`State::moved`] counts them).
    pub(super) flows: u32,
    /// Moves for balance.
    pub(super) steps: u32,
    /// Whether to go on looking for rules after many failures.
    pub(super) thorough: bool,
}

impl Budget {
    /// No bounds.
    pub(super) const ALL: Self = Self { flows: u32::MAX, steps: u32::MAX, thorough: true };
}

impl State {
    /// Whether a flow may be moved: a new one always, another one within the budget.
    fn may_move(&self, slot: u32, budget: &Budget) -> bool {
        self.record(slot).born == self.event || self.moved < budget.flows
    }

    /// The queue that a flow should have: its home, or the least loaded one of its group.
    pub(super) fn wanted(&self, slot: u32) -> QueueId {
        let record = self.record(slot);
        record.home.unwrap_or_else(|| self.ranks[usize::from(record.group)].least().0)
    }

    fn pin_within(&mut self, slot: u32, queue: QueueId, budget: &Budget) -> bool {
        self.may_pin(slot, queue, budget) && self.pin(slot, queue)
    }

    /// Brings a flow to the queue that it should have, or when no rule can name that one, to another of its group's.
    pub(super) fn pin_well(&mut self, slot: u32, budget: &Budget) -> bool {
        let wanted = self.wanted(slot);
        if self.pin_within(slot, wanted, budget) {
            return true;
        }
        let record = self.record(slot);
        if record.home.is_some() || !record.pinnable {
            return false;
        }
        let tables = self.tables.order();
        if tables.iter().all(|table| self.tables.can_name(&self.nic, *table, wanted)) {
            return false;
        }
        let ranks = &self.ranks[usize::from(record.group)];
        let named =
            |queue: &&QueueId| tables.iter().any(|table| self.tables.can_name(&self.nic, *table, **queue));
        let best = ranks.queues().iter().filter(named).min_by_key(|queue| ranks.load(**queue)).copied();
        best.is_some_and(|queue| self.pin_within(slot, queue, budget))
    }

    /// Brings flows to where they must be, the heaviest first: those that have rules by moving them, others by new rules.
    pub(super) fn fix_unhappy(&mut self, budget: &Budget) {
        let mut failures = 0;
        let limit = if budget.thorough { usize::MAX } else { FAILURES_MAX };
        let mut below = (u64::MAX, NONE);
        while let Some(&next) = self.unhappy_ruled.range(..below).next_back() {
            below = next;
            if !self.may_move(next.1, budget) {
                failures += 1;
            } else if !self.pin_well(next.1, budget) {
                self.unpin(next.1);
                failures += usize::from(!self.pin_well(next.1, budget));
            }
            if failures >= limit {
                break;
            }
        }
        (failures, below) = (0, (u64::MAX, NONE));
        while let Some(&next) = self.unhappy_loose.range(..below).next_back() {
            below = next;
            if failures >= limit || !self.tables.any_room(&self.nic) && !self.make_room(budget) {
                break;
            }
            if !self.pin_well(next.1, budget) {
                failures += 1;
            }
        }
    }

    /// When fewer rules are left than flows need, shares them out among the groups. Every flow without one is one violation, so that only
    /// values tell the ways apart: the best sum of what each group's cost is with so many rules (a knapsack).
    pub(super) fn fix_scarce(&mut self) {
        let room = self.tables.room(&self.nic) as usize;
        if self.ranks.len() < 2 || room == 0 || self.unhappy_loose.len() <= room || room > SHARED_OUT_MAX {
            return;
        }
        let mut waiting: Vec<Vec<u32>> = vec![Vec::new(); self.ranks.len()];
        for (_, slot) in self.unhappy_loose.iter().rev() {
            waiting[usize::from(self.record(*slot).group)].push(*slot);
        }
        // The least sum for so many rules, and how many each group has of them.
        let mut best: Vec<Option<(f64, Vec<usize>)>> = vec![None; room + 1];
        best[0] = Some((0.0, Vec::new()));
        for (group, slots) in waiting.iter().enumerate() {
            let costs = self.costs(group, &slots[..slots.len().min(room)]);
            let mut next: Vec<Option<(f64, Vec<usize>)>> = vec![None; room + 1];
            for (used, before) in best.iter().enumerate() {
                let Some((sum, shares)) = before else { continue };
                for (rules, cost) in costs.iter().enumerate().take(room - used + 1) {
                    let sum = sum + cost;
                    if next[used + rules].as_ref().is_none_or(|(least, _)| sum < *least) {
                        next[used + rules] = Some((sum, [&shares[..], &[rules]].concat()));
                    }
                }
            }
            best = next;
        }
        let Some((_, shares)) = best.into_iter().next_back().flatten() else { return };
        for (slots, rules) in waiting.iter().zip(shares) {
            for slot in slots.iter().take(rules) {
                self.pin_well(*slot, &Budget::ALL);
            }
        }
    }

    /// A group's variance when none, one, two and so on of these flows come to its least loaded queues.
    fn costs(&self, group: usize, slots: &[u32]) -> Vec<f64> {
        let mut ranks = self.ranks[group].clone();
        let count = ranks.queues().len() as f64;
        let (mut sum, mut squares) = ranks.sums();
        let mut costs = vec![squares / count - (sum / count) * (sum / count)];
        for slot in slots {
            let (queue, least) = ranks.least();
            let load = self.record(*slot).item.load;
            ranks.add(queue, load);
            sum += load as f64;
            squares += load as f64 * (load as f64 + 2.0 * least as f64);
            costs.push(squares / count - (sum / count) * (sum / count));
        }
        costs
    }

    /// Whether a rule for a flow to a queue would take no more flows along than may move.
    fn may_pin(&mut self, slot: u32, queue: QueueId, budget: &Budget) -> bool {
        if !self.may_move(slot, budget) {
            return false;
        }
        let record = self.record(slot);
        let headers = record.headers;
        if budget.flows == u32::MAX || self.is_ruled(slot) || record.exact && self.flows_of(&headers) == 1 {
            return true;
        }
        let meeting = self.meeting(&headers);
        let taken = meeting.into_iter().filter(|other| {
            let record = self.record(*other);
            record.carrier != NONE
                && record.born < self.event
                && headers.covers(&record.headers)
                && self.queue(*other) != Some(queue)
        });
        let taken = taken.count() as u32;
        self.moved.saturating_add(taken) <= budget.flows
    }

    /// Takes the rule of a flow that is well off without one. Looks at a bounded number of flows, the lightest of each queue.
    fn make_room(&mut self, budget: &Budget) -> bool {
        let mut best: Option<(u64, u32)> = None;
        for group in 0..self.bins.len() {
            let queues = self.ranks[group].queues().iter().take(CARRIERS_MAX);
            for bins in queues.map(|queue| &self.bins[group][queue.index()]) {
                let optional = |slot: u32| {
                    let base = self.record(slot).base;
                    let queue = self.carrier(base).queue;
                    queue.is_some_and(|queue| self.ranks[group].has(queue))
                        && self.may_move(slot, budget)
                        && self.record(slot).exact
                        && self.wide.covering(&self.record(slot).headers).is_empty()
                };
                let lightest = bins.ruled.iter().take(4).find(|(_, slot)| optional(*slot));
                best = best.into_iter().chain(lightest.copied()).min();
            }
        }
        if let Some((_, slot)) = best {
            self.unpin(slot);
        }
        best.is_some() && self.tables.any_room(&self.nic)
    }

    /// Makes the loads of each group equal, as far as single flows, then carriers, can: every step lessens the variance. The group with the
    /// widest gap goes first, since rules may run out: where more queues share a group's load, a step lessens its variance by less.
    pub(super) fn balance(&mut self, budget: &Budget) {
        let mut steps = 0;
        let mut open: Vec<usize> = (0..self.ranks.len()).collect();
        while steps < budget.steps && self.moved < budget.flows {
            let gap = |group: &usize| {
                let ranks = &self.ranks[*group];
                let gap = ranks.most().1 - ranks.least().1;
                // Compared as gap over queues, without a division.
                (gap > 1).then(|| (u128::from(gap), ranks.queues().len() as u128))
            };
            let widest = open
                .iter()
                .enumerate()
                .filter_map(|(place, group)| Some((gap(group)?, place)))
                .max_by(|((a, of_a), x), ((b, of_b), y)| (a * of_b).cmp(&(b * of_a)).then(y.cmp(x)));
            let Some((_, place)) = widest else { break };
            if self.step(open[place], budget) {
                steps += 1;
            } else {
                open.swap_remove(place);
            }
        }
    }

    /// One step: a flow from the most loaded queue to the least loaded one; from other queues when none there can move.
    fn step(&mut self, group: usize, budget: &Budget) -> bool {
        let (from, most) = self.ranks[group].most();
        let (to, least) = self.ranks[group].least();
        if self.step_from(group, (from, most), (to, least), budget) || self.carrier_step(group, budget) {
            return true;
        }
        let ranks = &self.ranks[group];
        let mut queues: Vec<(u64, QueueId)> = ranks
            .queues()
            .iter()
            .filter_map(|queue| Some((ranks.load(*queue)?, *queue)))
            .filter(|(load, queue)| *queue != from && *load > least + 1)
            .collect();
        queues.sort_unstable_by(|a, b| b.cmp(a));
        queues.into_iter().any(|(load, queue)| self.step_from(group, (queue, load), (to, least), budget))
    }

    fn step_from(
        &mut self,
        group: usize,
        (from, most): (QueueId, u64),
        (to, least): (QueueId, u64),
        budget: &Budget,
    ) -> bool {
        let gap = most - least;
        let room = self.tables.any_room(&self.nic);
        let Bins { ruled, loose } = &self.bins[group][from.index()];
        let nearest = |set: &std::collections::BTreeSet<(u64, u32)>| {
            let below = set.range(..=(gap / 2, NONE)).next_back();
            let above = set.range((gap / 2 + 1, 0)..(gap, 0)).next();
            let gain = |(load, _): &(u64, u32)| u128::from(*load) * u128::from(gap - *load);
            below
                .into_iter()
                .chain(above)
                .map(|flow| (gain(flow), flow.1))
                .filter(|(gain, _)| *gain > 0)
                .max()
        };
        let ruled = nearest(ruled);
        let loose = if room { nearest(loose) } else { None };
        let (first, second) =
            if loose.map(|l| l.0) > ruled.map(|r| r.0) { (loose, ruled) } else { (ruled, loose) };
        let mut both = first.into_iter().chain(second);
        both.any(|(_, slot)| self.pin_within(slot, to, budget))
    }

    /// Moves an entry of the indirection table, or a rule with several flows, from the most loaded queue to the least loaded one.
    fn carrier_step(&mut self, group: usize, budget: &Budget) -> bool {
        let (from, most) = self.ranks[group].most();
        let (to, least) = self.ranks[group].least();
        let gap = most - least;
        let entries = super::state::ENTRIES..super::state::ENTRIES + self.entries;
        let movable = self.entries_movable && self.nic.rss.as_ref().is_some_and(|rss| to.0 < rss.queues);
        let entries = entries.filter(|_| movable);
        let rules = self.wide_rules.iter().copied();
        let mut best = None;
        for carrier in entries.chain(rules).take(CARRIERS_MAX) {
            let data = self.carrier(carrier);
            if data.queue != Some(from)
                || data.flows == 0
                || self.moved.saturating_add(data.flows) > budget.flows
            {
                continue;
            }
            if let Kind::Rule { table, .. } = data.kind
                && !self.tables.can_name(&self.nic, table, to)
            {
                continue;
            }
            let Some(load) = self.load_if_one_group(carrier, group) else { continue };
            let gain = u128::from(load) * u128::from(gap.saturating_sub(load));
            if gain > 0 && best.is_none_or(|(most, _)| gain > most) {
                best = Some((gain, carrier));
            }
        }
        if let Some((_, carrier)) = best {
            self.move_carrier(carrier, to);
        }
        best.is_some()
    }

    /// A carrier's load, when all of its flows are of the group and none has a home.
    fn load_if_one_group(&self, carrier: u32, group: usize) -> Option<u64> {
        let mut load = 0;
        for slot in self.members(carrier) {
            let record = self.record(slot);
            if usize::from(record.group) != group || record.home.is_some() {
                return None;
            }
            load += record.item.load;
        }
        Some(load)
    }

    /// Whether no assignment can be better, as far as layouts go.
    pub(super) fn is_perfect(&self) -> bool {
        self.unhappy_ruled.is_empty()
            && self.unhappy_loose.is_empty()
            && (!self.layout.homes.is_empty()
                || self.ranks.iter().all(|ranks| ranks.most().1 - ranks.least().1 <= 1))
    }

    /// Takes a layout, if it is another one.
    pub(super) fn follow(&mut self, layout: Layout) -> bool {
        let other = layout != self.layout;
        if other {
            self.set_layout(layout);
        }
        other
    }
}
