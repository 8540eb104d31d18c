//! Steering entries: the units that send packets to a queue. An entry is a rule, an entry of the indirection table, the default
//! queue, or the hash as a whole (for flows with wildcards). A flow has one steering entry; moving the entry moves all of its
//! flows.

use super::header_index::HeaderIndex;
use super::ids::{EntryId, QueueChange, RuleShape, Slot};
use crate::nic::TableId;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::collections::BTreeSet;
use weft_packet::HeaderMatch;
use weft_units::RxQueueId;

/// The end of a list: no flow or no entry.
const NONE: u32 = u32::MAX;

/// The planner's view of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::search) struct PlannedRule {
    /// Its table.
    pub(in crate::search) table: TableId,
    /// The position of its table in the order in which packets meet the tables.
    pub(in crate::search) order: u32,
    /// The packets that it matches.
    pub(in crate::search) headers: HeaderMatch,
    /// Whether it has wildcards.
    pub(in crate::search) shape: RuleShape,
}

/// The kind of a steering entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::search) enum Kind {
    /// The default queue.
    Default,
    /// The hash as a whole.
    Spread,
    /// An entry of the indirection table.
    Indirection,
    /// A filter rule.
    Rule(PlannedRule),
}

/// A steering entry.
#[derive(Clone, Debug)]
pub(in crate::search) struct SteeringEntry {
    kind: Kind,
    queue: Option<RxQueueId>,
    /// The first of its flows.
    first: u32,
    flows: u32,
}

impl SteeringEntry {
    const fn new(kind: Kind, queue: Option<RxQueueId>) -> Self {
        Self { kind, queue, first: NONE, flows: 0 }
    }

    /// Returns its kind.
    pub(in crate::search) const fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns its queue; `None` if it spreads packets.
    pub(in crate::search) const fn queue(&self) -> Option<RxQueueId> {
        self.queue
    }

    /// The number of its flows.
    pub(in crate::search) const fn flows(&self) -> u32 {
        self.flows
    }

    /// Returns the rule, if the entry is one.
    pub(in crate::search) const fn rule(&self) -> Option<&PlannedRule> {
        match &self.kind {
            Kind::Rule(rule) => Some(rule),
            _ => None,
        }
    }
}

/// A flow's link in the list of its steering entry.
#[derive(Clone, Copy, Debug)]
struct Link {
    entry: u32,
    previous: u32,
    next: u32,
    /// The queue of its previous entry.
    last_queue: Option<RxQueueId>,
}

impl Link {
    const NONE: Self = Self { entry: NONE, previous: NONE, next: NONE, last_queue: None };
}

/// The steering entries with their flows.
#[derive(Clone, Debug)]
pub(in crate::search) struct SteeringEntries {
    entries: Vec<SteeringEntry>,
    free: Vec<EntryId>,
    /// By slot.
    links: Vec<Link>,
    /// Number of entries of the indirection table.
    indirection: u32,
    /// The rule of each header match.
    rules: HashMap<HeaderMatch, EntryId, FixedState>,
    /// Rules that match more than one five-tuple, by their packets and by number.
    wide: HeaderIndex,
    wide_rules: BTreeSet<EntryId>,
}

impl SteeringEntries {
    /// Creates the entries without flows or rules. `indirection` has the queues of the indirection table's entries.
    pub(in crate::search) fn new(default: RxQueueId, indirection: &[RxQueueId]) -> Self {
        let mut entries =
            vec![SteeringEntry::new(Kind::Default, Some(default)), SteeringEntry::new(Kind::Spread, None)];
        entries.extend(indirection.iter().map(|queue| SteeringEntry::new(Kind::Indirection, Some(*queue))));
        Self {
            entries,
            free: Vec::new(),
            links: Vec::new(),
            indirection: indirection.len() as u32,
            rules: HashMap::default(),
            wide: HeaderIndex::default(),
            wide_rules: BTreeSet::new(),
        }
    }

    /// Makes room for so many more flows.
    pub(in crate::search) fn reserve(&mut self, flows: usize) {
        self.links.reserve(flows);
    }

    /// A steering entry.
    pub(in crate::search) fn get(&self, entry: EntryId) -> &SteeringEntry {
        &self.entries[entry.index()]
    }

    /// The entries of the indirection table.
    pub(in crate::search) fn indirection(&self) -> impl Iterator<Item = EntryId> + use<> {
        (0..self.indirection).map(EntryId::indirection)
    }

    /// The number of entries of the indirection table.
    pub(in crate::search) const fn indirection_len(&self) -> u32 {
        self.indirection
    }

    /// All rules, in no particular order.
    pub(in crate::search) fn rules(&self) -> impl Iterator<Item = EntryId> + '_ {
        self.rules.values().copied()
    }

    /// The number of rules.
    pub(in crate::search) fn rule_count(&self) -> usize {
        self.rules.len()
    }

    /// The rules that match more than one five-tuple, ascending.
    pub(in crate::search) fn wide_rules(&self) -> impl Iterator<Item = EntryId> + '_ {
        self.wide_rules.iter().copied()
    }

    /// Returns the rule of exactly these packets.
    pub(in crate::search) fn rule_of(&self, headers: &HeaderMatch) -> Option<EntryId> {
        self.rules.get(headers).copied()
    }

    /// Returns the rules with wildcards that match all of these packets.
    pub(in crate::search) fn wide_covering(&self, headers: &HeaderMatch) -> Vec<EntryId> {
        self.wide.covering(headers).into_iter().map(EntryId).collect()
    }

    /// Returns the rules with wildcards that match some of these packets, ascending.
    pub(in crate::search) fn wide_meeting(&mut self, headers: &HeaderMatch) -> Vec<EntryId> {
        self.wide.meeting(headers).into_iter().map(EntryId).collect()
    }

    /// Returns the rule that these packets reach: the exact one, otherwise the first one met among those that match them all.
    pub(in crate::search) fn rule_for(&self, headers: &HeaderMatch) -> Option<EntryId> {
        self.rule_of(headers).or_else(|| {
            let covering = self.wide.covering(headers).into_iter().map(EntryId);
            covering.min_by_key(|rule| self.precedence(*rule))
        })
    }

    /// Returns the sort key of precedence: rules by table, then by the number of tested bits, the most first.
    pub(in crate::search) fn precedence(&self, entry: EntryId) -> (u32, u32, HeaderMatch) {
        match self.get(entry).kind {
            Kind::Rule(rule) => (rule.order, u32::MAX - rule.headers.bits_tested(), rule.headers),
            _ => (u32::MAX, 0, HeaderMatch::ALL),
        }
    }

    /// Adds a rule without flows. No other rule may have exactly its packets.
    pub(in crate::search) fn add_rule(&mut self, rule: PlannedRule, queue: RxQueueId) -> EntryId {
        let entry = SteeringEntry::new(Kind::Rule(rule), Some(queue));
        let number = match self.free.pop() {
            Some(number) => {
                self.entries[number.index()] = entry;
                number
            }
            None => {
                self.entries.push(entry);
                EntryId(self.entries.len() as u32 - 1)
            }
        };
        self.rules.insert(rule.headers, number);
        if rule.shape == RuleShape::Wildcards {
            self.wide.add(rule.headers, number.0);
            self.wide_rules.insert(number);
        }
        number
    }

    /// Removes an entry that is a rule without flows; returns the rule.
    pub(in crate::search) fn remove_unused_rule(&mut self, entry: EntryId) -> Option<PlannedRule> {
        let unused = self.get(entry);
        let rule = *unused.rule().filter(|_| unused.flows == 0)?;
        self.rules.remove(&rule.headers);
        self.wide.remove(rule.headers, entry.0);
        self.wide_rules.remove(&entry);
        self.free.push(entry);
        Some(rule)
    }

    /// Sets an entry's queue; returns the previous one.
    pub(in crate::search) fn set_queue(&mut self, entry: EntryId, queue: RxQueueId) -> Option<RxQueueId> {
        self.entries[entry.index()].queue.replace(queue)
    }

    /// Returns a flow's entry, if any.
    pub(in crate::search) fn entry_of(&self, slot: Slot) -> Option<EntryId> {
        self.links.get(slot.index()).map(|link| link.entry).filter(|entry| *entry != NONE).map(EntryId)
    }

    /// Returns the queue of a flow, unless it is spread or has no entry.
    pub(in crate::search) fn queue_of(&self, slot: Slot) -> Option<RxQueueId> {
        self.get(self.entry_of(slot)?).queue
    }

    /// Whether a flow has a rule for exactly its packets that no other flow shares.
    pub(in crate::search) fn has_own_rule(&self, slot: Slot, headers: &HeaderMatch) -> bool {
        self.entry_of(slot).map(|entry| self.get(entry)).is_some_and(|entry| {
            entry.flows == 1 && matches!(&entry.kind, Kind::Rule(rule) if rule.headers == *headers)
        })
    }

    /// An entry's flows, the last attached first.
    pub(in crate::search) fn members(&self, entry: EntryId) -> impl Iterator<Item = Slot> + '_ {
        let mut at = self.get(entry).first;
        core::iter::from_fn(move || {
            let slot = (at != NONE).then(|| Slot::from_index(at as usize))?;
            at = self.links[slot.index()].next;
            Some(slot)
        })
    }

    /// Attaches a flow without an entry. Returns whether its queue differs from its previous one.
    pub(in crate::search) fn attach(&mut self, slot: Slot, to: EntryId) -> QueueChange {
        if self.links.len() <= slot.index() {
            self.links.resize(slot.index() + 1, Link::NONE);
        }
        let entry = &mut self.entries[to.index()];
        let head = core::mem::replace(&mut entry.first, slot.index() as u32);
        entry.flows += 1;
        let queue = entry.queue;
        if head != NONE {
            self.links[head as usize].previous = slot.index() as u32;
        }
        let link = &mut self.links[slot.index()];
        (link.entry, link.previous, link.next) = (to.0, NONE, head);
        if link.last_queue == queue { QueueChange::Same } else { QueueChange::Other }
    }

    /// Detaches a flow from its entry, which stays even without flows.
    pub(in crate::search) fn detach(&mut self, slot: Slot) {
        let Some(from) = self.entry_of(slot) else { return };
        let Link { previous, next, .. } = self.links[slot.index()];
        let entry = &mut self.entries[from.index()];
        entry.flows -= 1;
        let queue = entry.queue;
        if previous == NONE {
            entry.first = next;
        } else {
            self.links[previous as usize].next = next;
        }
        if next != NONE {
            self.links[next as usize].previous = previous;
        }
        let link = &mut self.links[slot.index()];
        (link.entry, link.last_queue) = (NONE, queue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weft_packet::Field;

    const Q: [RxQueueId; 3] = [RxQueueId(0), RxQueueId(1), RxQueueId(2)];

    fn slot(index: usize) -> Slot {
        Slot::from_index(index)
    }

    fn port(value: u128, mask: u128) -> HeaderMatch {
        HeaderMatch::ALL.with(Field::DstPort, value, mask)
    }

    fn rule(headers: HeaderMatch, order: u32) -> PlannedRule {
        PlannedRule { table: TableId(0), order, headers, shape: RuleShape::of(&headers) }
    }

    #[test]
    fn the_fixed_entries_are_there_from_the_start() {
        let entries = SteeringEntries::new(Q[0], &Q[1..]);
        assert_eq!(entries.get(EntryId::DEFAULT).queue(), Some(Q[0]));
        assert_eq!(entries.get(EntryId::SPREAD).queue(), None);
        let queues: Vec<_> = entries.indirection().map(|entry| entries.get(entry).queue()).collect();
        assert_eq!(queues, [Some(Q[1]), Some(Q[2])]);
        assert_eq!(entries.indirection().map(EntryId::place).collect::<Vec<_>>(), [Some(0), Some(1)]);
        assert_eq!(EntryId::SPREAD.place(), None);
    }

    #[test]
    fn of_rules_the_one_that_is_met_first_takes_packets() {
        let mut entries = SteeringEntries::new(Q[0], &[]);
        let wide = entries.add_rule(rule(port(0, 1), 1), Q[1]);
        let narrow = entries.add_rule(rule(port(0, 3), 1), Q[1]);
        let last = entries.add_rule(rule(port(0, 7), 2), Q[1]);
        assert_eq!(entries.rule_for(&port(8, 0xffff)), Some(narrow));
        assert_eq!(entries.rule_for(&port(2, 0xffff)), Some(wide));
        assert_eq!(entries.rule_for(&port(1, 0xffff)), None);
        assert_eq!(entries.rule_for(&port(0, 7)), Some(last), "a rule for just the packets");
        assert_eq!(entries.wide_meeting(&port(0, 3)), [wide, narrow, last]);
        assert_eq!(entries.wide_covering(&port(0, 3)).len(), 2);
    }

    #[test]
    fn rules_with_flows_stay_and_numbers_are_used_again() {
        let mut entries = SteeringEntries::new(Q[0], &[]);
        let first = entries.add_rule(rule(port(1, 3), 0), Q[1]);
        entries.attach(slot(0), first);
        assert!(entries.has_own_rule(slot(0), &port(1, 3)) && !entries.has_own_rule(slot(0), &port(1, 1)));
        assert_eq!(entries.remove_unused_rule(first), None);
        assert_eq!(entries.remove_unused_rule(EntryId::DEFAULT), None);
        entries.detach(slot(0));
        assert_eq!(entries.remove_unused_rule(first), Some(rule(port(1, 3), 0)));
        assert_eq!((entries.rule_count(), entries.wide_rules().count()), (0, 0));
        assert_eq!(entries.add_rule(rule(port(2, 3), 0), Q[2]), first);
    }

    #[test]
    fn a_flow_that_comes_back_to_its_queue_has_not_changed_it() {
        let mut entries = SteeringEntries::new(Q[0], &Q);
        assert_eq!(entries.attach(slot(0), EntryId::indirection(1)), QueueChange::Other);
        entries.detach(slot(0));
        let own = entries.add_rule(rule(port(1, 3), 0), Q[1]);
        assert_eq!(entries.attach(slot(0), own), QueueChange::Same);
        entries.detach(slot(0));
        assert_eq!(entries.set_queue(own, Q[2]), Some(Q[1]));
        assert_eq!(entries.attach(slot(0), own), QueueChange::Other);
    }

    proptest! {
        #[test]
        fn members_are_those_of_lists(steps in proptest::collection::vec((0usize..12, 0u32..4), 1..80)) {
            let mut entries = SteeringEntries::new(Q[0], &[Q[1]; 4]);
            let mut lists: Vec<Vec<Slot>> = vec![Vec::new(); 4];
            for (flow, to) in steps {
                let slot = slot(flow);
                if entries.entry_of(slot).is_some() {
                    entries.detach(slot);
                    lists.iter_mut().for_each(|list| list.retain(|other| *other != slot));
                } else {
                    entries.attach(slot, EntryId::indirection(to));
                    lists[to as usize].insert(0, slot);
                }
                for (place, list) in lists.iter().enumerate() {
                    let entry = EntryId::indirection(place as u32);
                    prop_assert_eq!(&entries.members(entry).collect::<Vec<_>>(), list);
                    prop_assert_eq!(entries.get(entry).flows() as usize, list.len());
                }
            }
        }
    }
}
