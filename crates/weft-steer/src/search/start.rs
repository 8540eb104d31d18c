//! The search from scratch for policies with a layout: entries of the indirection table and flows go to the least loaded queues of
//! their groups, the heaviest first (Graham's LPT rule: "Bounds on multiprocessing timing anomalies", 1969).

use super::improve::Budget;
use super::ranks::Ranks;
use super::state::{ENTRIES, State};
use std::collections::BTreeMap;
use weft_units::QueueId;

/// How to begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Start {
    /// The hash carries all it can, and rules correct it: the fewest rules.
    Hash,
    /// Rules for all flows that they suffice for, the heaviest first.
    Heaviest,
    /// The same, in the order given: what Dragonet's greedy search arrives at.
    Given,
}

impl State {
    /// Assigns all flows, none of which has a carrier yet.
    pub(super) fn assign(&mut self, start: Start, order: &[u32]) {
        let cubes: Vec<_> = order.iter().map(|slot| self.record(*slot).cube).collect();
        let nic = self.nic.clone();
        self.tables.prepare(&nic, cubes.iter(), cubes.len());
        // Listening sockets first: a hash spreads what belongs to one queue.
        for slot in order {
            if !self.record(*slot).exact {
                self.settle(*slot);
                if !self.is_ruled(*slot) {
                    self.pin_well(*slot, &Budget::ALL);
                }
            }
        }
        if start == Start::Hash {
            self.assign_entries(order);
            order.iter().for_each(|slot| self.settle(*slot));
            self.share_rules();
            self.fix_scarce();
        } else {
            let mut order = order.to_vec();
            if start == Start::Heaviest {
                order.sort_by_key(|slot| core::cmp::Reverse(self.record(*slot).item.load));
            }
            for slot in order {
                if self.record(slot).carrier == super::state::NONE && !self.pin_well(slot, &Budget::ALL) {
                    self.settle(slot);
                }
            }
        }
        self.fix_unhappy(&Budget::ALL);
        self.balance(&Budget::ALL);
    }

    /// Gives each entry of the indirection table a queue: of the group, or the home, that most of its flows have.
    fn assign_entries(&mut self, order: &[u32]) {
        if !self.entries_movable || self.entries == 0 {
            return;
        }
        let reach = self.nic.rss.as_ref().map_or(0, |rss| rss.queues);
        let mut of_groups: BTreeMap<(u32, u16), (u32, u64)> = BTreeMap::new();
        let mut of_homes: BTreeMap<(u32, QueueId), u32> = BTreeMap::new();
        for slot in order {
            let record = self.record(*slot);
            let to =
                if record.carrier == super::state::NONE { self.effective(*slot) } else { record.carrier };
            if !(ENTRIES..ENTRIES + self.entries).contains(&to) {
                continue;
            }
            match record.home {
                Some(home) => *of_homes.entry((to, home)).or_default() += 1,
                None => {
                    let sums = of_groups.entry((to, record.group)).or_default();
                    *sums = (sums.0 + 1, sums.1 + record.item.load);
                }
            }
        }
        let width = self.tally.all_queues().count();
        let mut ranks: Vec<Option<Ranks>> =
            self.layout.groups.iter().map(|queues| reachable(queues, reach, width)).collect();
        for (group, ranks) in ranks.iter_mut().enumerate() {
            for queue in self.layout.groups[group].clone() {
                if let (Some(ranks), Some(load)) = (ranks.as_mut(), self.ranks[group].load(queue)) {
                    ranks.add(queue, load);
                }
            }
        }
        let mut owned: Vec<(u64, u32, u16)> = Vec::new();
        let mut empty: Vec<u32> = Vec::new();
        for entry in ENTRIES..ENTRIES + self.entries {
            let home = of_homes.range((entry, QueueId(0))..=(entry, QueueId(u32::MAX)));
            let home = home
                .filter(|((_, queue), _)| queue.0 < reach)
                .max_by_key(|((_, queue), flows)| (**flows, u32::MAX - queue.0));
            let group = of_groups.range((entry, 0)..=(entry, u16::MAX));
            let group = group
                .filter(|((_, group), _)| ranks[usize::from(*group)].is_some())
                .max_by_key(|((_, group), sums)| (**sums, u16::MAX - group));
            match (home, group) {
                (Some(((_, queue), flows)), group)
                    if group.is_none_or(|((_, g), sums)| {
                        sums.0 <= *flows || self.ranks[usize::from(*g)].has(*queue)
                    }) =>
                {
                    self.move_carrier(entry, *queue);
                }
                (_, Some(((_, group), sums))) => owned.push((sums.1, entry, *group)),
                _ => empty.push(entry),
            }
        }
        owned.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut entries = reachable(&self.layout.groups[0], reach, width);
        for (load, entry, group) in owned {
            if let Some(ranks) = &mut ranks[usize::from(group)] {
                let queue = ranks.least().0;
                ranks.add(queue, load);
                self.move_carrier(entry, queue);
                if let Some(entries) = &mut entries {
                    entries.add(queue, 1);
                }
            }
        }
        // Entries that no flow has are for flows to come: the same number for each queue of flows without a class.
        if let Some(entries) = &mut entries {
            for entry in empty {
                let queue = entries.least().0;
                entries.add(queue, 1);
                self.move_carrier(entry, queue);
            }
        }
    }
}

fn reachable(queues: &[QueueId], reach: u32, width: usize) -> Option<Ranks> {
    let queues: Vec<QueueId> = queues.iter().copied().filter(|queue| queue.0 < reach).collect();
    (!queues.is_empty()).then(|| Ranks::new(&queues, width))
}
