//! What is left of a NIC's filter tables, in constant time per question: the hot path's counterpart of [`crate::nic::Usage`], with
//! which the tests compare it.

use crate::nic::configuration::{Action, Rule};
use crate::nic::{Interface, Nic, NodeKind, Order, Table, TableId, Target};
use std::collections::BTreeMap;
use weft_packet::header_match::{Field, HeaderMatch};
use weft_units::QueueId;

/// Header matches that are looked at to choose among tables that exclude each other, and a mask where there is one for all rules.
const SAMPLE: usize = 4_096;

#[derive(Clone, Debug, Default)]
struct Held {
    rules: u32,
    /// The mask of all rules, where there can only be one.
    mask: Option<HeaderMatch>,
    /// Answers to whether rules with a mask can be held at all, the queue aside.
    known: BTreeMap<(HeaderMatch, Option<u16>), bool>,
    enabled: bool,
    /// Place in the order in which packets meet the tables.
    rank: u32,
}

/// The tables' state.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    held: Vec<Held>,
    pool_used: Vec<u32>,
    /// Tables by preference for rules without wildcards: those that can do least else first.
    order: Vec<TableId>,
    /// Tables for rules with wildcards: those that packets meet last first, so that rules without go before them.
    last_first: Vec<TableId>,
}

impl Tables {
    /// Empty tables. Those without a driver's interface are only used when `all` says so.
    pub(super) fn new(nic: &Nic, all: bool) -> Self {
        let ranks = ranks(nic);
        let held: Vec<Held> = nic
            .tables()
            .map(|(id, table)| Held {
                enabled: table.actions.queue && (all || table.interface != Interface::None),
                rank: ranks.get(&id).copied().unwrap_or(u32::from(id.0) + 0x1_0000),
                ..Held::default()
            })
            .collect();
        let ids: Vec<TableId> =
            nic.tables().map(|(id, _)| id).filter(|id| held[usize::from(id.0)].enabled).collect();
        let rank = |id: &TableId| held[usize::from(id.0)].rank;
        let mut order = ids.clone();
        order.sort_by_key(|id| {
            let table = &nic.tables[usize::from(id.0)];
            let required = table.fields.iter().filter(|field| field.required).count();
            (table.signature_bits.is_some(), !table.one_mask, u32::MAX - required as u32, rank(id))
        });
        let mut last_first = ids;
        last_first.sort_by_key(|id| u32::MAX - rank(id));
        Self { held, pool_used: vec![0; nic.pools.len()], order, last_first }
    }

    fn held(&self, id: TableId) -> &Held {
        &self.held[usize::from(id.0)]
    }

    /// The place of a table in the order in which packets meet them.
    pub(super) fn rank(&self, id: TableId) -> u32 {
        self.held(id).rank
    }

    /// Decides, for all the header matches that are to have rules, which of tables that exclude each other are used, and which mask a table has
    /// that has one for all. Tables must be empty.
    pub(super) fn prepare<'a>(
        &mut self,
        nic: &Nic,
        header_matches: impl Iterator<Item = &'a HeaderMatch>,
        count: usize,
    ) {
        let step = count.div_ceil(SAMPLE).max(1);
        let sample: Vec<&HeaderMatch> = header_matches.step_by(step).collect();
        let mut worth = vec![0; self.held.len()];
        for (id, table) in nic.tables() {
            let mut masks: BTreeMap<HeaderMatch, u64> = BTreeMap::new();
            for headers in sample.iter().filter(|headers| self.ever_in(nic, id, headers)) {
                *masks.entry(headers.mask_only()).or_default() += step as u64;
            }
            let best = masks.iter().max_by_key(|(mask, flows)| (**flows, core::cmp::Reverse(**mask)));
            let flows =
                if table.one_mask { best.map_or(0, |(_, flows)| *flows) } else { masks.values().sum() };
            if table.one_mask {
                self.held[usize::from(id.0)].mask = best.map(|(mask, _)| *mask);
            }
            worth[usize::from(id.0)] = flows.min(u64::from(self.room_in(nic, id)));
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

    /// Whether a table could hold a rule for the header match if it were empty.
    fn ever_in(&mut self, nic: &Nic, id: TableId, headers: &HeaderMatch) -> bool {
        let table = &nic.tables[usize::from(id.0)];
        let held = &mut self.held[usize::from(id.0)];
        if !held.enabled {
            return false;
        }
        let ask = |table: &Table| table.takes(&rule(table, id, *headers, QueueId(0))).is_ok();
        // Beside the mask, the Ethernet type decides: masks of addresses are read by it, and kinds of packets mostly go by it. Where kinds
        // go by more than that, each header match is asked for.
        let ether_type = HeaderMatch::ALL.exact(Field::EtherType, 0);
        if table.within.iter().any(|within| !within.fewer_bits(&ether_type)) {
            return ask(table);
        }
        *held.known.entry((headers.mask_only(), headers.ether_type())).or_insert_with(|| ask(table))
    }

    /// Tables without rules take any mask, whatever [`Tables::prepare`] said.
    pub(super) fn forget_unused_masks(&mut self) {
        for held in self.held.iter_mut().filter(|held| held.rules == 0) {
            held.mask = None;
        }
    }

    /// Whether some table could hold a rule for the header match if it were empty.
    pub(super) fn ever(&mut self, nic: &Nic, headers: &HeaderMatch) -> bool {
        (0..self.order.len()).any(|index| self.ever_in(nic, self.order[index], headers))
    }

    /// Rules that a table can still take.
    pub(super) fn room_in(&self, nic: &Nic, id: TableId) -> u32 {
        let table = &nic.tables[usize::from(id.0)];
        let held = self.held(id);
        if !held.enabled {
            return 0;
        }
        let shared = table.pool.map_or(0, |pool| {
            let capacity = nic.pools.get(usize::from(pool.0)).map_or(0, |pool| pool.capacity);
            capacity.saturating_sub(self.pool_used.get(usize::from(pool.0)).copied().unwrap_or(0))
        });
        table.capacity.saturating_sub(held.rules).saturating_add(shared)
    }

    /// Rules that all tables can still take; what several share counts for each.
    pub(super) fn room(&self, nic: &Nic) -> u64 {
        self.order.iter().map(|id| u64::from(self.room_in(nic, *id))).sum()
    }

    /// Whether some table has room.
    pub(super) fn any_room(&self, nic: &Nic) -> bool {
        self.order.iter().any(|id| self.room_in(nic, *id) > 0)
    }

    /// Whether rules of a table can name a queue.
    pub(super) fn can_name(&self, nic: &Nic, id: TableId, queue: QueueId) -> bool {
        nic.table(id).is_some_and(|table| queue <= table.last_queue)
    }

    /// The table for a rule, between two places in the order in which packets meet them, ends included.
    pub(super) fn find(
        &mut self,
        nic: &Nic,
        headers: &HeaderMatch,
        queue: QueueId,
        (floor, limit): (u32, u32),
        wildcards: bool,
    ) -> Option<TableId> {
        let mask = headers.mask_only();
        for index in 0..self.order.len() {
            let id = if wildcards { self.last_first[index] } else { self.order[index] };
            let held = self.held(id);
            let one_mask = nic.tables[usize::from(id.0)].one_mask;
            let fits = (floor..=limit).contains(&held.rank)
                && (!one_mask || held.mask.is_none_or(|own| own == mask))
                && self.can_name(nic, id, queue)
                && self.room_in(nic, id) > 0
                && !self.excluded(nic, id);
            if fits && self.ever_in(nic, id, headers) {
                return Some(id);
            }
        }
        None
    }

    fn excluded(&self, nic: &Nic, id: TableId) -> bool {
        nic.exclusions.iter().filter(|exclusion| exclusion.tables.contains(&id)).any(|exclusion| {
            exclusion.tables.iter().any(|other| {
                *other != id && self.held.get(usize::from(other.0)).is_some_and(|held| held.rules > 0)
            })
        })
    }

    /// Tables with one mask, which is another one than the header match's.
    pub(super) fn other_mask(&mut self, nic: &Nic, headers: &HeaderMatch) -> Option<TableId> {
        let mask = headers.mask_only();
        let ids = self.order.clone();
        ids.into_iter().find(|id| {
            nic.tables[usize::from(id.0)].one_mask
                && self.held(*id).mask.is_some_and(|own| own != mask)
                && self.room_in(nic, *id) > 0
                && self.ever_in(nic, *id, headers)
        })
    }

    /// A rule comes to a table that [`Tables::find`] gave.
    pub(super) fn take(&mut self, nic: &Nic, id: TableId, headers: &HeaderMatch) {
        let table = &nic.tables[usize::from(id.0)];
        let held = &mut self.held[usize::from(id.0)];
        held.rules += 1;
        held.mask = Some(headers.mask_only());
        if held.rules > table.capacity
            && let Some(pool) = table.pool
        {
            self.pool_used[usize::from(pool.0)] += 1;
        }
    }

    /// A rule leaves. A table with one mask takes any again when its last rule has left.
    pub(super) fn release(&mut self, nic: &Nic, id: TableId) {
        let table = &nic.tables[usize::from(id.0)];
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

    /// The tables that are used.
    pub(super) fn order(&self) -> &[TableId] {
        &self.order
    }
}

/// A rule as the planner sets it. In tables with priorities, rules that test more bits have higher ones, so that a rule with wildcards
/// never goes before one that lies within it; 120 bits are an IPv4 five-tuple.
pub(super) fn rule(table: &Table, id: TableId, headers: HeaderMatch, queue: QueueId) -> Rule {
    const MOST_BITS: u32 = 120;
    let (first, last) = table.priorities;
    let span = u32::from(last.saturating_sub(first));
    let level = match table.order {
        Order::Priority | Order::Location => headers.bits_tested().min(MOST_BITS) * span / MOST_BITS,
        Order::Newest | Order::Disjoint => 0,
    };
    Rule { table: id, headers, priority: first + level as u8, action: Action::Queue(queue) }
}

/// Where a packet goes that no rule holds and no hash spreads: the graph's way of misses.
pub(super) fn default_queue(nic: &Nic) -> QueueId {
    let mut at = 0_usize;
    // As many steps as there are nodes: a graph with a circle has no such queue.
    for _ in 0..nic.nodes.len() {
        let next = match nic.nodes.get(at).map(|node| &node.kind) {
            Some(NodeKind::Queue(queue)) => return *queue,
            Some(NodeKind::Filter { miss, .. } | NodeKind::Rss { miss }) => Some(*miss),
            Some(NodeKind::Classify { ports }) => ports.last().and_then(|port| port.to.first().copied()),
            Some(NodeKind::Logic { on_true, .. }) => on_true.first().copied(),
            Some(NodeKind::Drop) | None => None,
        };
        match next {
            Some(Target::Node(node) | Target::Operand { node, .. }) => at = usize::from(node.0),
            None => break,
        }
    }
    QueueId(0)
}

/// The order in which packets meet tables: that of a walk over the graph, breadth first.
fn ranks(nic: &Nic) -> BTreeMap<TableId, u32> {
    let mut ranks = BTreeMap::new();
    let mut seen = vec![false; nic.nodes.len()];
    let mut queue = std::collections::VecDeque::from([0_usize]);
    while let Some(at) = queue.pop_front() {
        let Some(node) = nic.nodes.get(at) else { continue };
        if core::mem::replace(&mut seen[at], true) {
            continue;
        }
        let targets: Vec<Target> = match &node.kind {
            NodeKind::Filter { table, miss } => {
                let next = ranks.len() as u32;
                ranks.entry(*table).or_insert(next);
                vec![*miss]
            }
            NodeKind::Rss { miss } => vec![*miss],
            NodeKind::Classify { ports } => ports.iter().flat_map(|port| port.to.clone()).collect(),
            NodeKind::Logic { on_true, on_false, .. } => [on_true.clone(), on_false.clone()].concat(),
            NodeKind::Queue(_) | NodeKind::Drop => Vec::new(),
        };
        queue.extend(targets.into_iter().map(|target| match target {
            Target::Node(node) | Target::Operand { node, .. } => usize::from(node.0),
        }));
    }
    ranks
}
