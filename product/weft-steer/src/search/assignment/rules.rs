//! Adding and removing rules, and the reassignment of flows.

use super::{Assignment, EntryId, Slot};
use crate::search::parts::entries::PlannedRule;
use crate::search::parts::ids::RuleShape;
use weft_packet::HeaderMatch;
use weft_units::RxQueueId;

impl Assignment {
    /// Returns the steering entry that the NIC would use for a flow under the current rules: the rule that matches its packets,
    /// otherwise its entry without rules.
    pub(super) fn effective(&self, slot: Slot) -> EntryId {
        let flow = self.flow(slot);
        self.entries.rule_for(&flow.headers).unwrap_or(flow.base)
    }

    /// Frees a rule without flows.
    pub(super) fn drop_if_unused(&mut self, entry: EntryId) {
        if let Some(rule) = self.entries.remove_unused_rule(entry) {
            self.capacity.release(rule.table);
        }
    }

    /// Adds a rule without flows, if a table takes it.
    fn new_rule(&mut self, headers: HeaderMatch, shape: RuleShape, queue: RxQueueId) -> Option<EntryId> {
        if self.entries.rule_of(&headers).is_some() || !self.capacity.any_room() {
            return None;
        }
        // Rules that cover this one must be met later, or be in the same table, where rules with more bits have precedence. Rules
        // that it covers or intersects must not be met later than it.
        let order = |rule: &EntryId| self.entries.precedence(*rule).0;
        let covering = self.entries.wide_covering(&headers);
        let limit = covering.iter().map(order).min().unwrap_or(u32::MAX);
        let others = match shape {
            RuleShape::FiveTuple => Vec::new(),
            RuleShape::Wildcards => self.entries.wide_meeting(&headers),
        };
        let order = |rule: &EntryId| self.entries.precedence(*rule).0;
        let floor = others.iter().filter(|rule| !covering.contains(rule)).map(order).max().unwrap_or(0);
        let table = self.capacity.find(&headers, queue, (floor, limit), shape)?;
        self.capacity.take(table, &headers);
        let rule = PlannedRule { table, order: self.capacity.order_of(table), headers, shape };
        Some(self.entries.add_rule(rule, queue))
    }

    /// Adds a rule, and attaches all flows that the NIC then sends to it; returns whether a table took it.
    pub(super) fn add_rule(&mut self, headers: HeaderMatch, queue: RxQueueId) -> bool {
        let shape = RuleShape::of(&headers);
        let Some(rule) = self.new_rule(headers, shape, queue) else { return false };
        if shape == RuleShape::Wildcards || self.flows.count_of(&headers) > 1 {
            let order = self.entries.precedence(rule).0;
            for slot in self.flows.meeting(&headers) {
                if let Some(other) = self.entry_of(slot).filter(|entry| *entry != rule) {
                    // A covered rule that packets meet later than this one would never match.
                    let inside = self.entry(other).rule().is_some_and(|own| headers.covers(&own.headers));
                    if inside && self.entries.precedence(other).0 > order {
                        self.retire(other);
                    }
                }
                self.settle(slot);
            }
        }
        true
    }

    /// Removes a rule; the NIC's next choice receives its flows.
    fn retire(&mut self, rule: EntryId) {
        let members: Vec<Slot> = self.entries.members(rule).collect();
        members.iter().for_each(|slot| self.detach(*slot));
        self.drop_if_unused(rule);
        for slot in members {
            self.attach(slot, self.effective(slot));
        }
    }

    /// Gives a flow the steering entry that the NIC uses for it.
    pub(super) fn settle(&mut self, slot: Slot) {
        let (from, to) = (self.entry_of(slot), self.effective(slot));
        if from == Some(to) {
            return;
        }
        if let Some(from) = from {
            self.detach(slot);
            self.drop_if_unused(from);
        }
        self.attach(slot, to);
    }

    /// Sends a flow to a queue by its own rule, an existing or a new one; returns whether that succeeded.
    pub(in crate::search) fn pin(&mut self, slot: Slot, queue: RxQueueId) -> bool {
        if self.has_own_rule(slot) {
            let own = self.entry_of(slot).and_then(|entry| Some((entry, self.entry(entry).rule()?.table)));
            let Some((entry, _)) = own.filter(|(_, table)| self.capacity.can_name(*table, queue)) else {
                return false;
            };
            self.move_entry(entry, queue);
            return true;
        }
        let flow = self.flow(slot);
        let headers = flow.headers;
        if !flow.pinnable || !self.add_rule(headers, queue) {
            return false;
        }
        self.settle(slot);
        true
    }

    /// Removes a flow's own rule.
    pub(super) fn unpin(&mut self, slot: Slot) {
        if self.has_own_rule(slot)
            && let Some(rule) = self.entry_of(slot)
        {
            self.detach(slot);
            self.drop_if_unused(rule);
            self.attach(slot, self.effective(slot));
        }
    }
}
