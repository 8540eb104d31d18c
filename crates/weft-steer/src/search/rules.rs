//! Rules as carriers: which one holds a flow, setting them, and taking them away.

use super::index::HeaderIndex;
use super::state::{Carrier, Kind, NONE, State};
use weft_packet::header_match::HeaderMatch;
use weft_units::QueueId;

impl State {
    /// The carrier that the NIC would use for a flow, as rules are now: a rule for just its packets, else of the rules that hold it the
    /// one that goes first, else what it has without rules.
    pub(super) fn effective(&self, slot: u32) -> u32 {
        let record = self.record(slot);
        if let Some(rule) = self.rules.get(&record.headers) {
            return *rule;
        }
        let first = self.wide.covering(&record.headers).into_iter().min_by_key(|rule| self.precedence(*rule));
        first.unwrap_or(record.base)
    }

    /// What sorts rules as packets meet them.
    pub(super) fn precedence(&self, rule: u32) -> (u32, u32, HeaderMatch) {
        match self.carrier(rule).kind {
            Kind::Rule { table, headers } => {
                (self.tables.rank(table), u32::MAX - headers.bits_tested(), headers)
            }
            _ => (u32::MAX, 0, HeaderMatch::ALL),
        }
    }

    /// Frees a rule that has no flows.
    pub(super) fn drop_if_empty(&mut self, carrier: u32) {
        let Carrier { kind: Kind::Rule { table, headers }, flows: 0, .. } = self.carriers[carrier as usize]
        else {
            return;
        };
        self.rules.remove(&headers);
        self.wide.remove(headers, carrier);
        self.wide_rules.remove(&carrier);
        self.tables.release(&self.nic, table);
        self.free_carriers.push(carrier);
    }

    /// Sets a rule without flows, if a table takes it.
    fn new_rule(&mut self, headers: HeaderMatch, queue: QueueId) -> Option<u32> {
        if self.rules.contains_key(&headers) || !self.tables.any_room(&self.nic) {
            return None;
        }
        // Rules that hold this one's packets must be met later, or in the same table, where those with more bits go first; and those
        // that it holds or meets must not be met later than it.
        let covering = self.wide.covering(&headers);
        let limit = covering.iter().map(|rule| self.precedence(*rule).0).min().unwrap_or(u32::MAX);
        let wide = headers.flow().is_none();
        let others = if wide { self.wide.meeting(&headers) } else { Vec::new() };
        let others = others.into_iter().filter(|rule| !covering.contains(rule));
        let floor = others.map(|rule| self.precedence(rule).0).max().unwrap_or(0);
        let table = self.tables.find(&self.nic, &headers, queue, (floor, limit), wide)?;
        self.tables.take(&self.nic, table, &headers);
        let carrier =
            Carrier { kind: Kind::Rule { table, headers }, queue: Some(queue), head: NONE, flows: 0 };
        let number = match self.free_carriers.pop() {
            Some(number) => {
                self.carriers[number as usize] = carrier;
                number
            }
            None => {
                self.carriers.push(carrier);
                self.carriers.len() as u32 - 1
            }
        };
        self.rules.insert(headers, number);
        if wide {
            self.wide.add(headers, number);
            self.wide_rules.insert(number);
        }
        Some(number)
    }

    /// Sets a rule and gives it all the flows that the NIC then gives it; whether a table took it.
    pub(super) fn set_rule(&mut self, headers: HeaderMatch, queue: QueueId) -> bool {
        let Some(rule) = self.new_rule(headers, queue) else { return false };
        if headers.flow().is_none() || self.flows_of(&headers) > 1 {
            let rank = self.precedence(rule).0;
            for slot in self.meeting(&headers) {
                let carrier = self.record(slot).carrier;
                if carrier == NONE || carrier == rule {
                    self.settle(slot);
                    continue;
                }
                // A rule that packets meet later than this one would never be met.
                let inside = matches!(self.carrier(carrier).kind, Kind::Rule { headers: own, .. } if headers.covers(&own));
                if inside && self.precedence(carrier).0 > rank {
                    self.retire(carrier);
                }
                self.settle(slot);
            }
        }
        true
    }

    /// Takes a rule away; its flows get what the NIC then uses for them.
    fn retire(&mut self, rule: u32) {
        let members = self.members(rule);
        members.iter().for_each(|slot| self.detach(*slot));
        self.drop_if_empty(rule);
        for slot in members {
            let to = self.effective(slot);
            self.attach(slot, to);
        }
    }

    /// Gives a flow the carrier that the NIC uses for it.
    pub(super) fn settle(&mut self, slot: u32) {
        let (from, to) = (self.record(slot).carrier, self.effective(slot));
        if from == to {
            return;
        }
        if from != NONE {
            self.detach(slot);
            self.drop_if_empty(from);
        }
        self.attach(slot, to);
    }

    /// The flows that have packets in common with a header match.
    pub(super) fn meeting(&mut self, headers: &HeaderMatch) -> Vec<u32> {
        if self.flows.is_none() {
            let mut flows = HeaderIndex::default();
            for slot in self.slots() {
                flows.add(self.record(slot).headers, slot);
            }
            self.flows = Some(flows);
        }
        self.flows.as_mut().map_or_else(Vec::new, |flows| flows.meeting(headers))
    }

    /// Brings a flow to a queue by a rule of its own: the one that it has, or a new one. Whether it is there.
    pub(super) fn pin(&mut self, slot: u32, queue: QueueId) -> bool {
        let record = self.record(slot);
        let (headers, carrier) = (record.headers, record.carrier);
        if self.is_ruled(slot) {
            let Kind::Rule { table, .. } = self.carrier(carrier).kind else { return false };
            if self.tables.can_name(&self.nic, table, queue) {
                self.move_carrier(carrier, queue);
                return true;
            }
            return false;
        }
        if !record.pinnable || !self.set_rule(headers, queue) {
            return false;
        }
        self.settle(slot);
        true
    }

    /// Takes a flow's own rule away.
    pub(super) fn unpin(&mut self, slot: u32) {
        if self.is_ruled(slot) {
            let carrier = self.record(slot).carrier;
            self.detach(slot);
            self.drop_if_empty(carrier);
            let to = self.effective(slot);
            self.attach(slot, to);
        }
    }
}
