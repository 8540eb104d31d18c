//! From the planner's state to rules, the indirection table, and what was given up.

use super::planner::Planner;
use super::state::{DEFAULT, ENTRIES, Kind, State};
use super::tables::rule;
use super::types::{Degradation, FlowId, Placement, Plan};
use crate::nic::Order;
use crate::nic::configuration::{Configuration, ContextId, RssContext, Rule};
use std::collections::{BTreeMap, BTreeSet};

impl Planner {
    /// The configuration, where it puts each flow, and what was given up.
    pub fn plan(&self) -> Plan {
        let mut placements: Vec<(FlowId, Placement)> =
            self.state.slots().map(|slot| (self.state.record(slot).id, self.placement(slot))).collect();
        placements.sort_unstable_by_key(|(id, _)| *id);
        Plan {
            configuration: self.state.configuration(),
            placements,
            cost: self.cost(),
            degraded: self.state.degradations(self.options.most_moved),
        }
    }
}

impl State {
    /// Rules in the order in which they must be added: in tables where the first counts, those that test more bits first, and the other
    /// way round where the last does.
    fn configuration(&self) -> Configuration {
        let mut rules: Vec<Rule> = self
            .rules
            .values()
            .filter_map(|number| {
                let carrier = self.carrier(*number);
                let (Kind::Rule { table, headers }, Some(queue)) = (carrier.kind, carrier.queue) else {
                    return None;
                };
                Some(rule(self.nic.table(table)?, table, headers, queue))
            })
            .collect();
        rules.sort_unstable_by(|a, b| {
            let newest = self.nic.table(a.table).is_some_and(|table| table.order == Order::Newest);
            // The rule that counts first, as `State::precedence` has it.
            let first = (u32::MAX - a.headers.bits_tested(), a.headers)
                .cmp(&(u32::MAX - b.headers.bits_tested(), b.headers));
            a.table.cmp(&b.table).then(if newest { first.reverse() } else { first })
        });
        let entries = &self.carriers[ENTRIES as usize..(ENTRIES + self.entries) as usize];
        let indirection: Vec<_> = entries.iter().filter_map(|entry| entry.queue).collect();
        let contexts = if indirection.is_empty() {
            Vec::new()
        } else {
            vec![RssContext { id: ContextId::MAIN, indirection }]
        };
        Configuration { rules, contexts, key: self.key.clone() }
    }

    fn degradations(&self, limit: Option<u32>) -> Vec<Degradation> {
        let mut out = Vec::new();
        let (mut hash, mut default, mut spread, mut ruled) = (0, 0, 0, 0);
        let mut foreign: BTreeMap<&str, u32> = BTreeMap::new();
        let mut masks: BTreeMap<String, u32> = BTreeMap::new();
        let mut tables = self.tables.clone();
        for (_, slot) in self.unhappy_ruled.iter().chain(&self.unhappy_loose) {
            let record = self.record(*slot);
            match self.carrier(record.carrier).kind {
                Kind::Entry => hash += 1,
                Kind::Default => default += 1,
                Kind::Spread => spread += 1,
                Kind::Rule { .. } => ruled += 1,
            }
            if let Some(table) =
                tables.other_mask(&self.nic, &record.headers).and_then(|id| self.nic.table(id))
            {
                *masks.entry(table.name.clone()).or_default() += 1;
            }
            if self.layout.groups.len() > 1 {
                let class = self.tally.classes().get(usize::from(record.item.class.0));
                *foreign.entry(class.map_or("", String::as_str)).or_default() += 1;
            }
        }
        let default_queue = self.carrier(DEFAULT).queue.unwrap_or_default();
        let counted = [
            (hash, Degradation::LeftToHash { flows: hash }),
            (default, Degradation::LeftToDefault { flows: default, queue: default_queue }),
            (spread, Degradation::Spread { flows: spread }),
        ];
        out.extend(counted.into_iter().filter(|(flows, _)| *flows > 0).map(|(_, degradation)| degradation));
        out.extend(self.shared());
        out.extend(masks.into_iter().map(|(table, flows)| Degradation::MaskConflict { flows, table }));
        let captured = self.captured() + ruled;
        if captured > 0 {
            out.push(Degradation::Captured { flows: captured });
        }
        let isolated = foreign.into_iter().map(|(class, flows)| (class.to_owned(), flows));
        out.extend(isolated.map(|(class, flows)| Degradation::NotIsolated { class, flows }));
        if let Some(limit) = limit.filter(|limit| self.moved >= *limit) {
            let flows = (self.unhappy_ruled.len() + self.unhappy_loose.len()) as u32;
            if flows > 0 {
                out.push(Degradation::MoveLimit { flows, limit });
            }
        }
        out
    }

    /// Flows that share rules that the planner made for that.
    fn shared(&self) -> Option<Degradation> {
        let (mut flows, mut rules) = (0, 0);
        for number in &self.wide_rules {
            let carrier = self.carrier(*number);
            let Kind::Rule { headers, .. } = carrier.kind else { continue };
            let made = !self.members(*number).iter().any(|slot| self.record(*slot).headers == headers);
            if made && carrier.flows > 0 {
                (flows, rules) = (flows + carrier.flows, rules + 1);
            }
        }
        (rules > 0).then_some(Degradation::Aggregated { flows, rules })
    }

    /// Flows of which a rule takes only a part, to another queue than the flow's.
    fn captured(&self) -> u32 {
        let mut flows = BTreeSet::new();
        if self.wide_rules.is_empty() {
            return 0;
        }
        let wide: Vec<u32> = self.slots().filter(|slot| !self.record(*slot).exact).collect();
        for number in &self.wide_rules {
            let carrier = self.carrier(*number);
            let Kind::Rule { headers, .. } = carrier.kind else { continue };
            for slot in wide.iter().copied() {
                let record = self.record(slot);
                // Of nested flows the inner one has its packets: that is meant. Only flows that cross the rule lose some.
                let crosses = !record.headers.is_disjoint(&headers)
                    && !headers.covers(&record.headers)
                    && !record.headers.covers(&headers);
                if crosses && carrier.queue != self.queue(slot) {
                    let first = record.carrier == *number
                        || self.precedence(*number) < self.precedence(record.carrier);
                    if first {
                        flows.insert(slot);
                    }
                }
            }
        }
        flows.len() as u32
    }
}
