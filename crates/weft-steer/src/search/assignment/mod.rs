//! The assignment of flows to queues that searches change step by step: it joins the parts of the state, and each step keeps them in
//! agreement.

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

/// Load of a flow whose rate is not known, per unit of weight, in bit/s: an assumption, as [`Measure::Rate`] says.
const ASSUMED_RATE: u64 = 1_000_000;
/// The greatest load of a flow: sums of many stay in their words.
const LOAD_MAX: u64 = 1 << 40;

/// Flows on queues, by the steering entries that bring them there.
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
    /// No flows; entries of the indirection table go round the usable queues.
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

    /// The sums that the policy looks at.
    pub(super) const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The class of a name, which is made if there is none yet.
    pub(super) fn intern(&mut self, name: &str) -> ClassId {
        self.tally.intern(name)
    }

    /// The flow of a slot.
    pub(super) fn flow(&self, slot: Slot) -> &FlowRecord {
        self.flows.get(slot)
    }

    /// All flows' slots, ascending.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.flows.slots()
    }

    /// Flows.
    pub(super) const fn len(&self) -> usize {
        self.flows.len()
    }

    /// How many rules there are.
    pub(super) fn rule_count(&self) -> usize {
        self.entries.rule_count()
    }

    /// A steering entry.
    pub(super) fn entry(&self, entry: EntryId) -> &SteeringEntry {
        self.entries.get(entry)
    }

    /// The steering entry of a flow, if it has one.
    pub(super) fn entry_of(&self, slot: Slot) -> Option<EntryId> {
        self.entries.entry_of(slot)
    }

    /// The entries of the indirection table that can be moved: all, or none.
    pub(super) fn movable_entries(&self) -> impl Iterator<Item = EntryId> + use<> {
        let movable = self.nic.rss.as_ref().is_some_and(|rss| rss.indirection_settable);
        self.entries.indirection().filter(move |_| movable)
    }

    /// Queues that entries of the indirection table can name.
    pub(super) fn reach(&self) -> Vec<RxQueueId> {
        let most = self.nic.rss.as_ref().map_or(0, |rss| rss.queues);
        self.tally.queues().iter().filter(|queue| queue.0 < most).copied().collect()
    }

    /// The place of a table in the order in which packets meet them.
    pub(super) fn table_order(&self, table: TableId) -> u32 {
        self.capacity.order_of(table)
    }

    /// Whether some table takes one more rule.
    pub(super) fn has_room(&self) -> bool {
        self.capacity.any_room()
    }

    /// The queue of a flow, unless it is spread.
    pub(super) fn queue(&self, slot: Slot) -> Option<RxQueueId> {
        self.entries.queue_of(slot)
    }

    /// The event under way, and what it has moved.
    pub(super) const fn moves(&self) -> &Moves {
        &self.moves
    }

    /// Begins the next event.
    pub(super) const fn begin_event(&mut self) {
        self.moves.begin();
    }

    /// The cost if a flow were on another queue.
    pub(super) fn cost_on(&mut self, slot: Slot, queue: RxQueueId, policy: &dyn Policy) -> Cost {
        let (item, from) = (self.flow(slot).item, self.queue(slot));
        self.tally.remove(item, from);
        self.tally.add(item, Some(queue));
        let cost = policy.cost(&self.tally);
        self.tally.remove(item, Some(queue));
        self.tally.add(item, from);
        cost
    }

    /// Takes a layout if it is another one; whether it is.
    pub(super) fn follow(&mut self, layout: Layout) -> bool {
        let other = layout != *self.loads.layout();
        if other {
            self.set_layout(layout);
        }
        other
    }

    /// Takes a layout: every flow's group, preferred queue and standing follow.
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

    /// Forgets a flow. Its rule goes with it, unless the rule has others.
    pub(super) fn erase(&mut self, slot: Slot) {
        if let Some(entry) = self.entry_of(slot) {
            self.detach(slot);
            self.drop_if_unused(entry);
        }
        self.flows.remove(slot);
    }

    /// Whether a flow is placed as its layout prefers.
    fn is_well_placed(&self, slot: Slot) -> bool {
        let flow = self.flow(slot);
        self.queue(slot).is_some_and(|queue| self.loads.suits(flow.group, flow.preferred_queue, queue))
    }

    /// What sorts misplaced flows: those on forbidden queues first, among them those that also have a preferred queue, then by load.
    fn urgency(&self, slot: Slot) -> u64 {
        let flow = self.flow(slot);
        let allowed = self.queue(slot).is_some_and(|queue| self.loads.group(flow.group).has(queue));
        let class = if allowed { 0 } else { 1 + u64::from(flow.preferred_queue.is_some()) };
        class << 60 | flow.item.load
    }

    /// Whether a flow has a rule of its own, which no other flow shares.
    pub(super) fn has_own_rule(&self, slot: Slot) -> bool {
        self.entries.has_own_rule(slot, &self.flow(slot).headers)
    }

    /// How a flow stands that has a steering entry.
    fn standing(&self, slot: Slot) -> Standing {
        let flow = self.flow(slot);
        let need = if self.has_own_rule(slot) { RuleNeed::OwnRule } else { RuleNeed::NewRule };
        let queue = self.queue(slot).filter(|_| self.is_well_placed(slot));
        let Some(queue) = queue else { return Standing::Misplaced { urgency: self.urgency(slot), need } };
        // A rule that several flows of just these packets share moves all of them.
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

    /// Counts a flow among the loads and candidates.
    fn enter(&mut self, slot: Slot) {
        let standing = self.standing(slot);
        self.candidates.enter(slot, standing);
        if let Some(queue) = self.queue(slot) {
            let flow = self.flows.get(slot);
            self.loads.add(flow.group, queue, flow.item.load);
        }
    }

    /// Takes a flow out of loads and candidates, before anything of it changes.
    fn leave(&mut self, slot: Slot) {
        self.candidates.leave(slot);
        if let Some(queue) = self.queue(slot) {
            let flow = self.flows.get(slot);
            self.loads.take(flow.group, queue, flow.item.load);
        }
    }

    /// Looks again at how the flows of a rule stand, when it comes to have one flow or more than one.
    fn reconsider(&mut self, rule: EntryId) {
        let members: Vec<Slot> = self.entries.members(rule).collect();
        for slot in members {
            self.leave(slot);
            self.enter(slot);
        }
    }

    /// Gives a flow without a steering entry one.
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

    /// Takes a flow from its steering entry, which stays even when it is empty.
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

    /// Moves a steering entry with its flows to a queue.
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

/// The queues of the indirection table's entries before any flow has come.
fn first_indirection(nic: &Nic, usable: &[RxQueueId], width: usize) -> Vec<RxQueueId> {
    let Some(rss) = &nic.rss else { return Vec::new() };
    let reach = rss.queues.min(width as u32);
    // A table that cannot be set is the driver's: entry modulo queues (Linux: ethtool_rxfh_indir_default).
    let reachable = |queue: &RxQueueId| rss.indirection_settable && queue.0 < reach;
    let mut round: Vec<RxQueueId> = usable.iter().copied().filter(reachable).collect();
    if round.is_empty() {
        round = (0..reach.max(1)).map(RxQueueId).collect();
    }
    round.iter().copied().cycle().take(rss.indirection as usize).collect()
}
