//! Conversion of an assignment into rules, the indirection table and the plan's degradations.

use super::{Assignment, EntryId, RuleNeed, Slot};
use crate::nic::Order;
use crate::nic::configuration::{Configuration, ContextId, RssContext, Rule};
use crate::search::parts::entries::Kind;
use crate::search::parts::table_order::rule_to_set;
use crate::search::types::{Degradation, Placement};
use std::collections::{BTreeMap, BTreeSet};

/// Numbers of misplaced flows by cause.
#[derive(Default)]
struct Misplaced {
    hash: u32,
    default: u32,
    spread: u32,
    ruled: u32,
    /// By class.
    foreign: BTreeMap<String, u32>,
    /// Flows that need another mask than a table has, by table.
    masks: BTreeMap<String, u32>,
}

impl Assignment {
    /// Returns the placement of a flow.
    pub(in crate::search) fn placement(&self, slot: Slot) -> Placement {
        let Some(entry) = self.entry_of(slot).map(|entry| self.entry(entry)) else {
            return Placement::Spread;
        };
        match (entry.kind(), entry.queue()) {
            (Kind::Rule(_), Some(queue)) => Placement::Rule(queue),
            (Kind::Indirection, Some(queue)) => Placement::Hash(queue),
            (Kind::Default, Some(queue)) => Placement::Default(queue),
            _ => Placement::Spread,
        }
    }

    /// Returns the rules in the order of their addition. In tables where the oldest rule wins, rules that test more bits come
    /// first; in tables where the newest wins, they come last.
    pub(in crate::search) fn configuration(&self) -> Configuration {
        // Each with the bits that it tests, which a sort reads many times.
        let rule = |entry: EntryId| {
            let entry = self.entry(entry);
            let (rule, queue) = (entry.rule()?, entry.queue()?);
            let set = rule_to_set(self.nic.table(rule.table)?, rule.table, rule.headers, queue);
            Some((rule.headers.bits_tested(), set))
        };
        let mut rules: Vec<(u32, Rule)> = self.entries.rules().filter_map(rule).collect();
        rules.sort_unstable_by(|(a_bits, a), (b_bits, b)| {
            a.table.cmp(&b.table).then_with(|| {
                let newest = self.nic.table(a.table).is_some_and(|table| table.order == Order::Newest);
                // The rule with precedence, as in `SteeringEntries::precedence`.
                let first = b_bits.cmp(a_bits).then_with(|| a.headers.cmp(&b.headers));
                if newest { first.reverse() } else { first }
            })
        });
        let rules = rules.into_iter().map(|(_, rule)| rule).collect();
        let indirection: Vec<_> =
            self.entries.indirection().filter_map(|entry| self.entry(entry).queue()).collect();
        let contexts = if indirection.is_empty() {
            Vec::new()
        } else {
            vec![RssContext { id: ContextId::MAIN, indirection }]
        };
        Configuration { rules, contexts, key: self.hash.key().clone() }
    }

    /// Returns the degradations; `limit` is the number of flows that an event may move.
    pub(in crate::search) fn degradations(&self, limit: Option<u32>) -> Vec<Degradation> {
        let misplaced = self.misplaced();
        let Misplaced { hash, default, spread, ruled, foreign, masks } = misplaced;
        let default_queue = self.entry(EntryId::DEFAULT).queue().unwrap_or_default();
        let counted = [
            (hash, Degradation::LeftToHash { flows: hash }),
            (default, Degradation::LeftToDefault { flows: default, queue: default_queue }),
            (spread, Degradation::Spread { flows: spread }),
        ];
        let counted = counted.into_iter().filter(|(flows, _)| *flows > 0);
        let mut out: Vec<Degradation> = counted.map(|(_, degradation)| degradation).collect();
        out.extend(self.shared());
        out.extend(masks.into_iter().map(|(table, flows)| Degradation::MaskConflict { flows, table }));
        let captured = self.captured() + ruled;
        if captured > 0 {
            out.push(Degradation::Captured { flows: captured });
        }
        out.extend(foreign.into_iter().map(|(class, flows)| Degradation::NotIsolated { class, flows }));
        if let Some(limit) = limit.filter(|limit| self.moves.moved() >= *limit) {
            let flows = self.candidates.misplaced_count() as u32;
            if flows > 0 {
                out.push(Degradation::MoveLimit { flows, limit });
            }
        }
        out
    }

    /// Counts the misplaced flows.
    fn misplaced(&self) -> Misplaced {
        let mut out = Misplaced::default();
        let mut capacity = self.capacity.clone();
        let own = self.candidates.misplaced(RuleNeed::OwnRule);
        for slot in own.chain(self.candidates.misplaced(RuleNeed::NewRule)) {
            let flow = self.flow(slot);
            match self.entry_of(slot).map(|entry| self.entry(entry).kind()) {
                Some(Kind::Indirection) => out.hash += 1,
                Some(Kind::Default) => out.default += 1,
                Some(Kind::Spread) | None => out.spread += 1,
                Some(Kind::Rule(_)) => out.ruled += 1,
            }
            if let Some(table) = capacity.other_mask(&flow.headers).and_then(|id| self.nic.table(id)) {
                *out.masks.entry(table.name.clone()).or_default() += 1;
            }
            if self.loads.group_count() > 1 {
                let class = self.tally.classes().get(usize::from(flow.item.class.0));
                *out.foreign.entry(class.cloned().unwrap_or_default()).or_default() += 1;
            }
        }
        out
    }

    /// Counts flows that share rules made for sharing.
    fn shared(&self) -> Option<Degradation> {
        let (mut flows, mut rules) = (0, 0);
        for number in self.entries.wide_rules() {
            let entry = self.entry(number);
            let Some(rule) = entry.rule() else { continue };
            let made = !self.entries.members(number).any(|slot| self.flow(slot).headers == rule.headers);
            if made && entry.flows() > 0 {
                (flows, rules) = (flows + entry.flows(), rules + 1);
            }
        }
        (rules > 0).then_some(Degradation::Aggregated { flows, rules })
    }

    /// The number of flows of which a rule sends only a part to another queue than the flow's.
    fn captured(&self) -> u32 {
        let mut flows = BTreeSet::new();
        if self.entries.wide_rules().next().is_none() {
            return 0;
        }
        let wide: Vec<Slot> = self.slots().filter(|slot| !self.flow(*slot).exact).collect();
        for rule in self.entries.wide_rules() {
            flows.extend(wide.iter().copied().filter(|slot| self.takes_a_part(rule, *slot)));
        }
        flows.len() as u32
    }

    /// Whether a rule sends a part of a flow's packets to another queue.
    fn takes_a_part(&self, number: EntryId, slot: Slot) -> bool {
        let (entry, flow) = (self.entry(number), self.flow(slot));
        let Some(headers) = entry.rule().map(|rule| rule.headers) else { return false };
        // Nested flows are intended: the inner one has its packets. Only flows that cross the rule lose some.
        let crosses = !flow.headers.is_disjoint(&headers)
            && !headers.covers(&flow.headers)
            && !flow.headers.covers(&headers);
        let first =
            |own: EntryId| own == number || self.entries.precedence(number) < self.entries.precedence(own);
        crosses && entry.queue() != self.queue(slot) && self.entry_of(slot).is_some_and(first)
    }
}
