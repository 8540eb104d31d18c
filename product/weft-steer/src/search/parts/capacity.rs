//! The remaining capacity of a NIC's filter tables, with queries in constant time: the fast counterpart of [`crate::nic::Usage`],
//! against which it is tested.

use super::ids::RuleShape;
use super::table_order::{rule_to_set, table_order};
use crate::nic::{Interface, Nic, Table, TableId};
use std::collections::BTreeMap;
use std::sync::Arc;
use weft_packet::header_match::{Field, HeaderMatch};
use weft_units::RxQueueId;

/// The maximum number of header matches examined to choose among tables that exclude each other, and a mask for tables with a
/// single one.
const SAMPLE: usize = 4_096;

#[derive(Clone, Debug, Default)]
struct Held {
    rules: u32,
    /// The mask of all rules, for a table with a single mask.
    mask: Option<HeaderMatch>,
    /// Cached answers to whether rules with a mask fit the table, apart from the queue.
    known: BTreeMap<(HeaderMatch, Option<u16>), bool>,
    enabled: bool,
    /// Position in the order in which packets meet the tables.
    order: u32,
}

/// The filter tables that a plan uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::search) enum TableChoice {
    /// Tables that a driver offers.
    Offered,
    /// All tables, including those that no driver offers.
    All,
}

/// The rules that a NIC's filter tables hold and can still take.
#[derive(Clone, Debug)]
pub(in crate::search) struct RuleCapacity {
    nic: Arc<Nic>,
    held: Vec<Held>,
    pool_used: Vec<u32>,
    /// Tables in order of preference for rules without wildcards: the least capable first.
    order: Vec<TableId>,
    /// Tables for rules with wildcards: those that packets meet last come first, so that exact rules are met earlier.
    last_first: Vec<TableId>,
}

impl RuleCapacity {
    /// Creates empty tables.
    pub(in crate::search) fn new(nic: Arc<Nic>, tables: TableChoice) -> Self {
        let place = table_order(&nic);
        let held: Vec<Held> = nic
            .tables()
            .map(|(id, table)| Held {
                enabled: table.actions.queue
                    && (tables == TableChoice::All || table.interface != Interface::None),
                order: place.get(&id).copied().unwrap_or(u32::from(id.0) + 0x1_0000),
                ..Held::default()
            })
            .collect();
        let ids: Vec<TableId> =
            nic.tables().map(|(id, _)| id).filter(|id| held[usize::from(id.0)].enabled).collect();
        let place = |id: &TableId| held[usize::from(id.0)].order;
        let mut order = ids.clone();
        order.sort_by_key(|id| {
            let table = &nic.tables[usize::from(id.0)];
            let required = table.fields.iter().filter(|field| field.required).count();
            (table.signature_bits.is_some(), !table.one_mask, u32::MAX - required as u32, place(id))
        });
        let mut last_first = ids;
        last_first.sort_by_key(|id| u32::MAX - place(id));
        Self { held, pool_used: vec![0; nic.pools.len()], order, last_first, nic }
    }

    fn held(&self, id: TableId) -> &Held {
        &self.held[usize::from(id.0)]
    }

    /// The position of a table in the order in which packets meet the tables.
    pub(in crate::search) fn order_of(&self, id: TableId) -> u32 {
        self.held(id).order
    }

    /// Chooses, for all header matches that need rules, among tables that exclude each other, and the mask of tables with a
    /// single mask. Tables must be empty.
    pub(in crate::search) fn prepare<'a>(
        &mut self,
        header_matches: impl Iterator<Item = &'a HeaderMatch>,
        count: usize,
    ) {
        let nic = Arc::clone(&self.nic);
        let step = count.div_ceil(SAMPLE).max(1);
        let sample: Vec<&HeaderMatch> = header_matches.step_by(step).collect();
        let mut worth = vec![0; self.held.len()];
        for (id, table) in nic.tables() {
            let mut masks: BTreeMap<HeaderMatch, u64> = BTreeMap::new();
            for headers in sample.iter().filter(|headers| self.ever_in(id, headers)) {
                *masks.entry(headers.mask_only()).or_default() += step as u64;
            }
            let best = masks.iter().max_by_key(|(mask, flows)| (**flows, core::cmp::Reverse(**mask)));
            let flows =
                if table.one_mask { best.map_or(0, |(_, flows)| *flows) } else { masks.values().sum() };
            if table.one_mask {
                self.held[usize::from(id.0)].mask = best.map(|(mask, _)| *mask);
            }
            worth[usize::from(id.0)] = flows.min(u64::from(self.room_in(id)));
        }
        for exclusion in &nic.exclusions {
            let usable = exclusion
                .tables
                .iter()
                .filter(|id| self.held.get(usize::from(id.0)).is_some_and(|h| h.enabled));
            let Some(best) =
                usable.copied().max_by_key(|id| (worth[usize::from(id.0)], core::cmp::Reverse(*id)))
            else {
                continue;
            };
            for other in exclusion.tables.iter().filter(|other| **other != best) {
                if let Some(held) = self.held.get_mut(usize::from(other.0)) {
                    held.enabled = false;
                }
            }
        }
        let held = &self.held;
        self.order.retain(|id| held[usize::from(id.0)].enabled);
        self.last_first.retain(|id| held[usize::from(id.0)].enabled);
    }

    /// Whether an empty table could hold a rule for the header match.
    fn ever_in(&mut self, id: TableId, headers: &HeaderMatch) -> bool {
        let table = &self.nic.tables[usize::from(id.0)];
        let held = &mut self.held[usize::from(id.0)];
        if !held.enabled {
            return false;
        }
        let ask = |table: &Table| table.takes(&rule_to_set(table, id, *headers, RxQueueId(0))).is_ok();
        // Beside the mask, the Ethernet type decides: it gives masks of addresses their meaning, and most restrictions are on it.
        // If a restriction tests more, each header match is checked.
        let ether_type = HeaderMatch::ALL.exact(Field::EtherType, 0);
        if table.within.iter().any(|within| !within.fewer_bits(&ether_type)) {
            return ask(table);
        }
        *held.known.entry((headers.mask_only(), headers.ether_type())).or_insert_with(|| ask(table))
    }

    /// Lets tables without rules take any mask, regardless of [`RuleCapacity::prepare`].
    pub(in crate::search) fn forget_unused_masks(&mut self) {
        for held in self.held.iter_mut().filter(|held| held.rules == 0) {
            held.mask = None;
        }
    }

    /// Whether some empty table could hold a rule for the header match.
    pub(in crate::search) fn ever(&mut self, headers: &HeaderMatch) -> bool {
        (0..self.order.len()).any(|index| self.ever_in(self.order[index], headers))
    }

    /// The number of rules that a table can still take.
    pub(in crate::search) fn room_in(&self, id: TableId) -> u32 {
        let table = &self.nic.tables[usize::from(id.0)];
        let held = self.held(id);
        if !held.enabled {
            return 0;
        }
        let shared = table.pool.map_or(0, |pool| {
            let capacity = self.nic.pools.get(usize::from(pool.0)).map_or(0, |pool| pool.capacity);
            capacity.saturating_sub(self.pool_used.get(usize::from(pool.0)).copied().unwrap_or(0))
        });
        table.capacity.saturating_sub(held.rules).saturating_add(shared)
    }

    /// The number of rules that all tables can still take; a shared budget counts for each of its tables.
    pub(in crate::search) fn room(&self) -> u64 {
        self.order.iter().map(|id| u64::from(self.room_in(*id))).sum()
    }

    /// Whether some table can take another rule.
    pub(in crate::search) fn any_room(&self) -> bool {
        self.order.iter().any(|id| self.room_in(*id) > 0)
    }

    /// Whether rules of a table can name a queue.
    pub(in crate::search) fn can_name(&self, id: TableId, queue: RxQueueId) -> bool {
        self.nic.table(id).is_some_and(|table| queue <= table.last_queue)
    }

    /// Returns a table for a rule, between two positions in the order in which packets meet the tables, ends included.
    pub(in crate::search) fn find(
        &mut self,
        headers: &HeaderMatch,
        queue: RxQueueId,
        (floor, limit): (u32, u32),
        shape: RuleShape,
    ) -> Option<TableId> {
        let mask = headers.mask_only();
        for index in 0..self.order.len() {
            let id = match shape {
                RuleShape::FiveTuple => self.order[index],
                RuleShape::Wildcards => self.last_first[index],
            };
            let held = self.held(id);
            let one_mask = self.nic.tables[usize::from(id.0)].one_mask;
            let fits = (floor..=limit).contains(&held.order)
                && (!one_mask || held.mask.is_none_or(|own| own == mask))
                && self.can_name(id, queue)
                && self.room_in(id) > 0
                && !self.excluded(id);
            if fits && self.ever_in(id, headers) {
                return Some(id);
            }
        }
        None
    }

    fn excluded(&self, id: TableId) -> bool {
        self.nic.exclusions.iter().filter(|exclusion| exclusion.tables.contains(&id)).any(|exclusion| {
            exclusion.tables.iter().any(|other| {
                *other != id && self.held.get(usize::from(other.0)).is_some_and(|held| held.rules > 0)
            })
        })
    }

    /// Returns a table whose single mask differs from the header match's.
    pub(in crate::search) fn other_mask(&mut self, headers: &HeaderMatch) -> Option<TableId> {
        let mask = headers.mask_only();
        let ids = self.order.clone();
        ids.into_iter().find(|id| {
            self.nic.tables[usize::from(id.0)].one_mask
                && self.held(*id).mask.is_some_and(|own| own != mask)
                && self.room_in(*id) > 0
                && self.ever_in(*id, headers)
        })
    }

    /// Counts a rule added to a table returned by [`RuleCapacity::find`].
    pub(in crate::search) fn take(&mut self, id: TableId, headers: &HeaderMatch) {
        let table = &self.nic.tables[usize::from(id.0)];
        let held = &mut self.held[usize::from(id.0)];
        held.rules += 1;
        held.mask = Some(headers.mask_only());
        if held.rules > table.capacity
            && let Some(pool) = table.pool
        {
            self.pool_used[usize::from(pool.0)] += 1;
        }
    }

    /// Counts a removed rule. A table with a single mask accepts any mask after its last rule is removed.
    pub(in crate::search) fn release(&mut self, id: TableId) {
        let table = &self.nic.tables[usize::from(id.0)];
        let held = &mut self.held[usize::from(id.0)];
        if held.rules > table.capacity
            && let Some(pool) = table.pool
        {
            self.pool_used[usize::from(pool.0)] -= 1;
        }
        held.rules -= 1;
        if held.rules == 0 {
            held.mask = None;
        }
    }

    /// The tables in use.
    pub(in crate::search) fn order(&self) -> &[TableId] {
        &self.order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nic::Usage;
    use crate::nic::random::some_nic;
    use crate::search::workload;
    use proptest::prelude::*;
    use weft_units::FlowKey;
    use weft_units::Protocol;

    const ANY: (u32, u32) = (0, u32::MAX);

    fn capacity(nic: &Nic) -> RuleCapacity {
        RuleCapacity::new(Arc::new(nic.clone()), TableChoice::All)
    }

    #[test]
    fn full_tables_give_way_to_the_next_and_take_again_what_was_released() {
        let nic = workload::dragonet_nic(4);
        let mut capacity = capacity(&nic);
        let flow = workload::slides(1)[0].headers;
        assert_eq!(capacity.room(), 128 + 2_048);
        let find =
            |capacity: &mut RuleCapacity| capacity.find(&flow, RxQueueId(1), ANY, RuleShape::FiveTuple);
        for _ in 0..2_048 {
            assert_eq!(find(&mut capacity), Some(TableId(1)), "the table that can do least else");
            capacity.take(TableId(1), &flow);
        }
        assert_eq!(find(&mut capacity), Some(TableId(0)));
        capacity.release(TableId(1));
        assert_eq!(find(&mut capacity), Some(TableId(1)));
        assert_eq!(capacity.find(&flow, RxQueueId(9), ANY, RuleShape::FiveTuple), None, "no such queue");
        assert_eq!(capacity.find(&flow, RxQueueId(1), (0, 0), RuleShape::FiveTuple), Some(TableId(0)));
    }

    #[test]
    fn a_table_with_one_mask_takes_another_when_it_is_empty() {
        let mut nic = workload::exact_table_nic(4, 2);
        nic.tables[0].fields.iter_mut().for_each(|field| field.required = false);
        let mut capacity = capacity(&nic);
        let flow = workload::slides(1)[0].headers;
        let wide = flow.without(Field::SrcPort);
        capacity.take(TableId(0), &flow);
        assert_eq!(capacity.find(&wide, RxQueueId(1), ANY, RuleShape::Wildcards), None);
        assert_eq!(capacity.other_mask(&wide), Some(TableId(0)));
        capacity.release(TableId(0));
        assert_eq!(capacity.find(&wide, RxQueueId(1), ANY, RuleShape::Wildcards), Some(TableId(0)));
    }

    #[test]
    fn tables_without_an_interface_are_used_when_asked_for() {
        let mut nic = workload::one_table_nic(4, 8);
        nic.tables[0].interface = Interface::None;
        assert!(capacity(&nic).any_room());
        assert!(!RuleCapacity::new(Arc::new(nic), TableChoice::Offered).any_room());
    }

    proptest! {
        /// Checks that [`Usage`] admits every table found, and that both report the same room.
        #[test]
        fn usage_admits_what_is_found(nic in some_nic(), ports in proptest::collection::btree_set(0u16..40, 0..30)) {
            let mut capacity = capacity(&nic);
            let mut usage = Usage::new(&nic);
            for port in ports {
                let key = FlowKey { dport: port, protocol: Protocol::UDP, ..workload::slides(1)[0].headers.flow().expect("five-tuple") };
                let headers = HeaderMatch::of_flow(&key);
                let Some(table) = capacity.find(&headers, RxQueueId(0), ANY, RuleShape::FiveTuple) else { continue };
                let rule = rule_to_set(&nic.tables[usize::from(table.0)], table, headers, RxQueueId(0));
                prop_assert!(usage.add(&nic, &rule).is_ok(), "{rule}");
                capacity.take(table, &headers);
                prop_assert_eq!(capacity.room_in(table), usage.room(&nic, table));
            }
        }
    }
}
