//! The assignment of flows to queues: the state that a search changes step by step.
//!
//! The assignment joins the parts (`search/parts/`), which do not depend on each other:
//!
//! 1. `insert` adds a flow to the flow table, without a steering entry.
//! 2. `attach` gives it a steering entry. The flow then counts in the tally, in its group's loads and among the candidates for a
//!    move.
//! 3. `detach` reverses this. A flow leaves the loads and the candidates before any of its properties changes, because both index
//!    by them.
//! 4. `erase` detaches a flow, frees its rule if no other flow has it, and removes it from the table.
//!
//! Rules that must hold:
//!
//! * Every flow with a steering entry is counted exactly once in the tally, the loads and the candidates.
//! * A flow's standing depends on whether its rule is its own. When a rule gains its second flow or loses all but one,
//!   `reconsider` updates its flows.
//! * Precedence among rules has one definition, `SteeringEntries::precedence`, for the search and for the plan.

mod balance;
mod misplaced;
mod plan;
mod rules;
mod scarce;
mod shared_rules;
mod start;

pub(super) use start::Start;

use super::parts::candidates::{Candidates, RuleNeed, Standing};
use super::parts::capacity::{RuleCapacity, TableChoice};
use super::parts::entries::{Kind, SteeringEntries, SteeringEntry};
use super::parts::flow_table::{FlowRecord, FlowTable};
use super::parts::ids::{EntryId, Slot};
use super::parts::moves::Moves;
use super::parts::queue_loads::QueueLoads;
use super::parts::rss_hash::RssHash;
use super::parts::table_order::default_queue;
use super::types::{Options, SteeredFlowId};
use crate::flow::Flow;
use crate::nic::{Nic, TableId};
use crate::policy::{ClassId, Cost, Item, Layout, Measure, Policy, Tally};
use std::sync::Arc;
use weft_units::RxQueueId;

/// The assumed load of a flow with an unknown rate, per unit of weight, in bit/s, as [`Measure::Rate`] documents.
const ASSUMED_RATE: u64 = 1_000_000;
/// The maximum load of a flow, so that sums over many flows cannot overflow.
const LOAD_MAX: u64 = 1 << 40;

/// The flows and their steering entries.
#[derive(Clone, Debug)]
pub(super) struct Assignment {
    nic: Arc<Nic>,
    flows: FlowTable,
    entries: SteeringEntries,
    capacity: RuleCapacity,
    loads: QueueLoads,
    candidates: Candidates,
    hash: RssHash,
    moves: Moves,
    tally: Tally,
}

impl Assignment {
    /// Creates an assignment without flows; indirection table entries cycle through the usable queues.
    pub(super) fn new(nic: &Arc<Nic>, usable: &[RxQueueId], options: &Options) -> Self {
        let width = nic.queues.max(usable.last().map_or(1, |queue| queue.0 + 1)) as usize;
        let default = default_queue(nic);
        let width = width.max(default.index() + 1);
        let indirection = first_indirection(nic, usable, width);
        let mut tally = Tally::new(usable.to_vec(), width as u32);
        indirection.iter().for_each(|queue| tally.move_entry(None, Some(*queue)));
        let tables = if options.all_tables { TableChoice::All } else { TableChoice::Offered };
        Self {
            nic: Arc::clone(nic),
            flows: FlowTable::default(),
            entries: SteeringEntries::new(default, &indirection),
            capacity: RuleCapacity::new(Arc::clone(nic), tables),
            loads: QueueLoads::new(Layout::single(usable), width),
            candidates: Candidates::new(1, width),
            hash: RssHash::new(nic, &options.key),
            moves: Moves::default(),
            tally,
        }
    }

    /// The NIC.
    pub(super) const fn nic(&self) -> &Arc<Nic> {
        &self.nic
    }

    /// The policy's input.
    pub(super) const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Returns the class with a name, and creates it if necessary.
    pub(super) fn intern(&mut self, name: &str) -> ClassId {
        self.tally.intern(name)
    }

    /// Returns the flow in a slot.
    pub(super) fn flow(&self, slot: Slot) -> &FlowRecord {
        self.flows.get(slot)
    }

    /// The slots of all flows, ascending.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.flows.slots()
    }

    /// The number of flows.
    pub(super) const fn len(&self) -> usize {
        self.flows.len()
    }

    /// The number of rules.
    pub(super) fn rule_count(&self) -> usize {
        self.entries.rule_count()
    }

    /// Returns a steering entry.
    pub(super) fn entry(&self, entry: EntryId) -> &SteeringEntry {
        self.entries.get(entry)
    }

    /// Returns the steering entry of a flow, if any.
    pub(super) fn entry_of(&self, slot: Slot) -> Option<EntryId> {
        self.entries.entry_of(slot)
    }

    /// The movable indirection table entries: all or none.
    pub(super) fn movable_entries(&self) -> impl Iterator<Item = EntryId> + use<> {
        let movable = self.nic.rss.as_ref().is_some_and(|rss| rss.indirection_settable);
        self.entries.indirection().filter(move |_| movable)
    }

    /// The queues that indirection table entries can name.
    pub(super) fn reach(&self) -> Vec<RxQueueId> {
        let most = self.nic.rss.as_ref().map_or(0, |rss| rss.queues);
        self.tally.queues().iter().filter(|queue| queue.0 < most).copied().collect()
    }

    /// The position of a table in the order in which packets meet the tables.
    pub(super) fn table_order(&self, table: TableId) -> u32 {
        self.capacity.order_of(table)
    }

    /// Whether some table can take another rule.
    pub(super) fn has_room(&self) -> bool {
        self.capacity.any_room()
    }

    /// Returns the queue of a flow, unless its packets are spread.
    pub(super) fn queue(&self, slot: Slot) -> Option<RxQueueId> {
        self.entries.queue_of(slot)
    }

    /// The current event and its moves.
    pub(super) const fn moves(&self) -> &Moves {
        &self.moves
    }

    /// Begins the next event.
    pub(super) const fn begin_event(&mut self) {
        self.moves.begin();
    }

    /// Returns the cost with a flow on another queue.
    pub(super) fn cost_on(&mut self, slot: Slot, queue: RxQueueId, policy: &dyn Policy) -> Cost {
        let (item, from) = (self.flow(slot).item, self.queue(slot));
        self.tally.remove(item, from);
        self.tally.add(item, Some(queue));
        let cost = policy.cost(&self.tally);
        self.tally.remove(item, Some(queue));
        self.tally.add(item, from);
        cost
    }

    /// Sets the layout if it differs; returns whether it did.
    pub(super) fn follow(&mut self, layout: Layout) -> bool {
        let other = layout != *self.loads.layout();
        if other {
            self.set_layout(layout);
        }
        other
    }

    /// Sets the layout, and updates every flow's group, preferred queue and standing.
    pub(super) fn set_layout(&mut self, layout: Layout) {
        self.loads.set_layout(layout);
        self.candidates = Candidates::new(self.loads.group_count(), self.loads.width());
        let slots: Vec<Slot> = self.slots().collect();
        for slot in slots {
            let Item { class, core, .. } = self.flow(slot).item;
            self.flows.prefer(slot, self.loads.group_of(class), self.loads.preferred_queue(core));
            if self.entry_of(slot).is_some() {
                self.enter(slot);
            }
        }
    }

    /// Makes room for so many more flows.
    pub(super) fn reserve(&mut self, flows: usize) {
        self.flows.reserve(flows);
        self.entries.reserve(flows);
        self.candidates.reserve(flows);
    }

    /// Makes a flow known, without a steering entry yet.
    pub(super) fn insert(
        &mut self,
        flow: &Flow,
        id: SteeredFlowId,
        class: ClassId,
        measure: Measure,
    ) -> Slot {
        let load = match measure {
            Measure::Weight => u64::from(flow.weight),
            Measure::Rate => {
                flow.rate.map_or_else(|| u64::from(flow.weight) * ASSUMED_RATE, weft_units::BitsPerSec::get)
            }
        };
        self.flows.insert(FlowRecord {
            id,
            headers: flow.headers,
            item: Item { class, load: load.min(LOAD_MAX), core: flow.core },
            group: self.loads.group_of(class),
            preferred_queue: self.loads.preferred_queue(flow.core),
            exact: flow.headers.flow().is_some(),
            pinnable: self.capacity.ever(&flow.headers),
            base: self.hash.entry_of(&flow.headers),
            added_in: self.moves.event(),
        })
    }

    /// Removes a flow. Its rule is freed, unless other flows share it.
    pub(super) fn erase(&mut self, slot: Slot) {
        if let Some(entry) = self.entry_of(slot) {
            self.detach(slot);
            self.drop_if_unused(entry);
        }
        self.flows.remove(slot);
    }

    /// Whether a flow's placement satisfies its layout.
    fn is_well_placed(&self, slot: Slot) -> bool {
        let flow = self.flow(slot);
        self.queue(slot).is_some_and(|queue| self.loads.suits(flow.group, flow.preferred_queue, queue))
    }

    /// The sort key of misplaced flows: those on forbidden queues first, among them those with a preferred queue, then by load.
    fn urgency(&self, slot: Slot) -> u64 {
        let flow = self.flow(slot);
        let allowed = self.queue(slot).is_some_and(|queue| self.loads.group(flow.group).has(queue));
        let class = if allowed { 0 } else { 1 + u64::from(flow.preferred_queue.is_some()) };
        class << 60 | flow.item.load
    }

    /// Whether a flow has a rule that no other flow shares.
    pub(super) fn has_own_rule(&self, slot: Slot) -> bool {
        self.entries.has_own_rule(slot, &self.flow(slot).headers)
    }

    /// Returns the standing of a flow with a steering entry.
    fn standing(&self, slot: Slot) -> Standing {
        let flow = self.flow(slot);
        let need = if self.has_own_rule(slot) { RuleNeed::OwnRule } else { RuleNeed::NewRule };
        let queue = self.queue(slot).filter(|_| self.is_well_placed(slot));
        let Some(queue) = queue else { return Standing::Misplaced { urgency: self.urgency(slot), need } };
        // Moving a rule shared by several flows of the same packets moves all of them.
        let free = match need {
            RuleNeed::OwnRule => true,
            RuleNeed::NewRule => {
                flow.pinnable
                    && self
                        .entries
                        .rule_of(&flow.headers)
                        .is_none_or(|rule| Some(rule) != self.entry_of(slot))
            }
        };
        if flow.preferred_queue.is_some() || !free {
            return Standing::Fixed;
        }
        Standing::Movable { group: flow.group, queue, load: flow.item.load, need }
    }

    /// Adds a flow to the loads and candidates.
    fn enter(&mut self, slot: Slot) {
        let standing = self.standing(slot);
        self.candidates.enter(slot, standing);
        if let Some(queue) = self.queue(slot) {
            let flow = self.flows.get(slot);
            self.loads.add(flow.group, queue, flow.item.load);
        }
    }

    /// Removes a flow from the loads and candidates, before any of its properties changes.
    fn leave(&mut self, slot: Slot) {
        self.candidates.leave(slot);
        if let Some(queue) = self.queue(slot) {
            let flow = self.flows.get(slot);
            self.loads.take(flow.group, queue, flow.item.load);
        }
    }

    /// Updates the standing of a rule's flows when it gains its second flow or loses all but one.
    fn reconsider(&mut self, rule: EntryId) {
        let members: Vec<Slot> = self.entries.members(rule).collect();
        for slot in members {
            self.leave(slot);
            self.enter(slot);
        }
    }

    /// Gives a steering entry to a flow without one.
    fn attach(&mut self, slot: Slot, to: EntryId) {
        let change = self.entries.attach(slot, to);
        let flow = self.flows.get(slot);
        self.moves.count(flow.added_in, change);
        self.tally.add(flow.item, self.entries.get(to).queue());
        self.enter(slot);
        let entry = self.entries.get(to);
        if entry.flows() == 2 && entry.rule().is_some() {
            self.reconsider(to);
        }
    }

    /// Detaches a flow from its steering entry, which stays even without flows.
    fn detach(&mut self, slot: Slot) {
        let Some(from) = self.entry_of(slot) else { return };
        self.leave(slot);
        self.tally.remove(self.flows.get(slot).item, self.entries.get(from).queue());
        self.entries.detach(slot);
        let entry = self.entries.get(from);
        if entry.flows() == 1 && entry.rule().is_some() {
            self.reconsider(from);
        }
    }

    /// Moves a steering entry and its flows to a queue.
    pub(super) fn move_entry(&mut self, entry: EntryId, queue: RxQueueId) {
        let members: Vec<Slot> = self.entries.members(entry).collect();
        for slot in &members {
            self.detach(*slot);
        }
        let from = self.entries.set_queue(entry, queue);
        if self.entry(entry).kind() == Kind::Indirection {
            self.tally.move_entry(from, Some(queue));
        }
        for slot in members.iter().rev() {
            self.attach(*slot, entry);
        }
    }
}

/// The initial queues of the indirection table's entries.
fn first_indirection(nic: &Nic, usable: &[RxQueueId], width: usize) -> Vec<RxQueueId> {
    let Some(rss) = &nic.rss else { return Vec::new() };
    let reach = rss.queues.min(width as u32);
    // A fixed table is the driver's: entry modulo queues (Linux: ethtool_rxfh_indir_default).
    let reachable = |queue: &RxQueueId| rss.indirection_settable && queue.0 < reach;
    let mut round: Vec<RxQueueId> = usable.iter().copied().filter(reachable).collect();
    if round.is_empty() {
        round = (0..reach.max(1)).map(RxQueueId).collect();
    }
    round.iter().copied().cycle().take(rss.indirection as usize).collect()
}
