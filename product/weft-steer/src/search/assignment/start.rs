//! Initial assignments for policies with a layout. Indirection table entries and flows are assigned to the least loaded queues of
//! their groups, the heaviest first (Graham's LPT rule: "Bounds on multiprocessing timing anomalies", 1969).

use super::{Assignment, Slot};
use crate::search::parts::group_loads::GroupLoads;
use crate::search::parts::ids::EntryId;
use crate::search::parts::moves::Budget;
use std::collections::BTreeMap;
use weft_units::RxQueueId;

/// The method of an initial assignment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::search) enum Start {
    /// The hash carries as much as possible, and rules correct it: the fewest rules.
    Hash,
    /// Rules for as many flows as possible, the heaviest first.
    Heaviest,
    /// As [`Start::Heaviest`], in the given order: the result of Dragonet's greedy search.
    Given,
    /// As [`Start::Hash`], with the entries' queues encoded as a number: one digit per entry, in the base of the number of
    /// queues.
    Entries(u32),
}

impl Assignment {
    /// Assigns all flows. None may have a steering entry yet.
    pub(in crate::search) fn assign(&mut self, start: Start, order: &[Slot]) {
        let header_matches: Vec<_> = order.iter().map(|slot| self.flow(*slot).headers).collect();
        self.capacity.prepare(header_matches.iter(), header_matches.len());
        // Listening sockets come first: the hash spreads flows that belong to one queue.
        for slot in order {
            if !self.flow(*slot).exact {
                self.settle(*slot);
                if !self.has_own_rule(*slot) {
                    self.pin_well(*slot, &Budget::ALL);
                }
            }
        }
        if matches!(start, Start::Hash | Start::Entries(_)) {
            match start {
                Start::Entries(number) => self.set_entries(number),
                _ => self.assign_entries(order),
            }
            order.iter().for_each(|slot| self.settle(*slot));
            self.share_rules();
            self.fix_scarce();
        } else {
            let mut order = order.to_vec();
            if start == Start::Heaviest {
                order.sort_by_key(|slot| core::cmp::Reverse(self.flow(*slot).item.load));
            }
            for slot in order {
                if self.entry_of(slot).is_none() && !self.pin_well(slot, &Budget::ALL) {
                    self.settle(slot);
                }
            }
        }
        self.fix_misplaced(&Budget::ALL);
        self.balance(&Budget::ALL);
        // A mask prepared for more flows than finally need rules leaves its table to others.
        self.capacity.forget_unused_masks();
        self.fix_misplaced(&Budget::ALL);
    }

    /// Returns the number of ways to assign queues to entries, if it is at most `most`.
    pub(in crate::search) fn ways(&self, most: u32) -> Option<u32> {
        let entries = self.movable_entries().count() as u32;
        let queues = u32::try_from(self.reach().len()).ok().filter(|queues| *queues > 0)?;
        queues.checked_pow(entries).filter(|ways| entries > 0 && *ways <= most)
    }

    fn set_entries(&mut self, number: u32) {
        let reach = self.reach();
        let mut rest = number as usize;
        for entry in self.movable_entries() {
            self.move_entry(entry, reach[rest % reach.len()]);
            rest /= reach.len();
        }
    }

    /// Assigns a queue to each indirection table entry: the queue that most of its flows prefer, otherwise the least loaded one
    /// among those that forbid the fewest of its flows. Heavy entries come first.
    fn assign_entries(&mut self, order: &[Slot]) {
        if self.movable_entries().next().is_none() {
            return;
        }
        let contents = self.contents(order);
        let mut zones = self.zones();
        if zones.is_empty() {
            return;
        }
        let mut numbers: Vec<usize> = (0..contents.len()).collect();
        numbers.sort_by_key(|entry| core::cmp::Reverse(contents[*entry].load()));
        for number in numbers {
            let (entry, content) = (EntryId::indirection(number as u32), &contents[number]);
            let forbidden = |zone: &Zone| content.flows_outside(&zone.groups);
            let preferred =
                content.preferred.iter().max_by_key(|(queue, flows)| (**flows, u32::MAX - queue.0));
            let preferred = preferred.filter(|(queue, flows)| {
                let there = zones.iter().find(|zone| zone.loads.has(**queue)).map(&forbidden);
                there.is_some_and(|forbidden| forbidden <= **flows)
            });
            if let Some((queue, _)) = preferred {
                self.move_entry(entry, *queue);
                continue;
            }
            let least = zones.iter().map(&forbidden).min();
            // Entries without flows serve future flows: the first zones are those of flows without a class.
            let best = (0..zones.len())
                .filter(|zone| Some(forbidden(&zones[*zone])) == least)
                .filter(|zone| {
                    !content.groups.is_empty()
                        || zones[*zone].groups.contains(&0)
                        || zones.iter().all(|z| !z.groups.contains(&0))
                })
                .min_by_key(|zone| zones[*zone].loads.least().1);
            if let Some(zone) = best {
                let queue = zones[zone].loads.least().0;
                zones[zone].loads.add(queue, content.load().max(1));
                self.move_entry(entry, queue);
            }
        }
    }

    /// Returns each entry's flows without rules.
    fn contents(&self, order: &[Slot]) -> Vec<Content> {
        let mut contents = vec![Content::default(); self.entries.indirection_len() as usize];
        for slot in order {
            let flow = self.flow(*slot);
            let to = self.entry_of(*slot).unwrap_or_else(|| self.effective(*slot));
            let Some(content) = to.place().and_then(|place| contents.get_mut(place)) else { continue };
            match flow.preferred_queue {
                Some(queue) => *content.preferred.entry(queue).or_default() += 1,
                None => {
                    let (flows, load) = content.groups.entry(flow.group).or_default();
                    (*flows, *load) = (*flows + 1, *load + flow.item.load);
                }
            }
        }
        contents
    }

    /// Returns the queues that entries can name, grouped by their sets of groups, with their loads by rules.
    fn zones(&self) -> Vec<Zone> {
        let mut zones: BTreeMap<Vec<usize>, Vec<RxQueueId>> = BTreeMap::new();
        for queue in self.reach() {
            let groups =
                (0..self.loads.group_count()).filter(|group| self.loads.group(*group).has(queue)).collect();
            zones.entry(groups).or_default().push(queue);
        }
        let width = self.tally.all_queues().count();
        let zone = |(groups, queues): (Vec<usize>, Vec<RxQueueId>)| {
            let mut loads = GroupLoads::new(&queues, width);
            for queue in &queues {
                let load = groups.iter().filter_map(|group| self.loads.group(*group).load(*queue)).sum();
                loads.add(*queue, load);
            }
            Zone { groups, loads }
        };
        zones.into_iter().map(zone).collect()
    }
}

/// The flows of an entry.
#[derive(Clone, Debug, Default)]
struct Content {
    /// Number and load of flows without a preferred queue, by group.
    groups: BTreeMap<usize, (u32, u64)>,
    /// Number of flows with a preferred queue, by that queue.
    preferred: BTreeMap<RxQueueId, u32>,
}

impl Content {
    fn load(&self) -> u64 {
        self.groups.values().map(|(_, load)| load).sum()
    }

    fn flows_outside(&self, groups: &[usize]) -> u32 {
        self.groups.iter().filter(|(group, _)| !groups.contains(group)).map(|(_, (flows, _))| flows).sum()
    }
}

/// Queues that belong to the same groups.
struct Zone {
    groups: Vec<usize>,
    loads: GroupLoads,
}
