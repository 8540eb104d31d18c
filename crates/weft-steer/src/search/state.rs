//! Flows, what carries them to queues, and the sums over both: the state that searches change step by step.
//!
//! A carrier is whatever sends packets to a queue as one: a rule, an entry of the indirection table, the default queue, or the hash as
//! a whole for flows with wildcards. Each flow has one carrier; moving a carrier moves all of its flows.

use super::hash::hash;
use super::index::HeaderIndex;
use super::ranks::Ranks;
use super::tables::{Tables, default_queue};
use super::types::{FlowId, Options};
use crate::flow::Flow;
use crate::nic::{Nic, TableId};
use crate::policy::{ClassId, Item, Layout, Measure, Tally};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::collections::BTreeSet;
use weft_packet::header_match::HeaderMatch;
use weft_packet::rss::{RssKey, Toeplitz};
use weft_units::QueueId;

/// No flow, no carrier.
pub(super) const NONE: u32 = u32::MAX;
/// The carrier of what nothing takes.
pub(super) const DEFAULT: u32 = 0;
/// The carrier of flows with wildcards that the hash spreads.
pub(super) const SPREAD: u32 = 1;
/// The first entry of the indirection table.
pub(super) const ENTRIES: u32 = 2;

/// Load of a flow whose rate is not known, per unit of weight, in bit/s: an assumption, as [`Measure::Rate`] says.
const ASSUMED_RATE: u64 = 1_000_000;

/// What a carrier is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Default,
    Spread,
    Entry,
    Rule { table: TableId, headers: HeaderMatch },
}

#[derive(Clone, Debug)]
pub(super) struct Carrier {
    pub(super) kind: Kind,
    pub(super) queue: Option<QueueId>,
    pub(super) head: u32,
    pub(super) flows: u32,
}

/// Where a flow stands among those that balancing can move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bin {
    None,
    /// It has a rule for itself: moving it needs no other one.
    Ruled(QueueId),
    /// Moving it needs a rule.
    Loose(QueueId),
}

#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) id: FlowId,
    pub(super) headers: HeaderMatch,
    pub(super) item: Item,
    pub(super) group: u16,
    pub(super) home: Option<QueueId>,
    /// Whether the header match is a five-tuple.
    pub(super) exact: bool,
    /// Whether some table could hold its rule.
    pub(super) pinnable: bool,
    /// The carrier that it has without any rule.
    pub(super) base: u32,
    pub(super) carrier: u32,
    prev: u32,
    next: u32,
    bin: Bin,
    /// Its urgency, while it is not where it must be.
    unhappy: Option<u64>,
    /// The event in which it came.
    pub(super) born: u64,
    last: Option<QueueId>,
}

/// Flows that balancing can take from a queue, by load.
#[derive(Clone, Debug, Default)]
pub(super) struct Bins {
    pub(super) ruled: BTreeSet<(u64, u32)>,
    pub(super) loose: BTreeSet<(u64, u32)>,
}

#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) nic: Nic,
    pub(super) tables: Tables,
    pub(super) layout: Layout,
    pub(super) tally: Tally,
    pub(super) ranks: Vec<Ranks>,
    /// By group, then queue.
    pub(super) bins: Vec<Vec<Bins>>,
    pub(super) records: Vec<Option<Record>>,
    free_records: Vec<u32>,
    pub(super) carriers: Vec<Carrier>,
    pub(super) free_carriers: Vec<u32>,
    /// The rule of a header match.
    pub(super) rules: HashMap<HeaderMatch, u32, FixedState>,
    /// How many flows have a header match.
    same: HashMap<HeaderMatch, u32, FixedState>,
    /// Rules that hold more than one five-tuple.
    pub(super) wide: HeaderIndex,
    pub(super) wide_rules: BTreeSet<u32>,
    /// All flows, once a rule with wildcards was looked for.
    pub(super) flows: Option<HeaderIndex>,
    /// Flows that are not where they must be, by urgency: with a rule of their own, and without.
    pub(super) unhappy_ruled: BTreeSet<(u64, u32)>,
    pub(super) unhappy_loose: BTreeSet<(u64, u32)>,
    pub(super) entries: u32,
    pub(super) entries_movable: bool,
    pub(super) toeplitz: Option<Toeplitz>,
    pub(super) event: u64,
    /// Flows of earlier events whose queue this one changed, counted per change.
    pub(super) moved: u32,
    pub(super) live: u32,
    /// The hash's key, which plans have.
    pub(super) key: RssKey,
    width: usize,
}

impl State {
    /// No flows; entries of the indirection table go round the usable queues.
    pub(super) fn new(nic: &Nic, usable: &[QueueId], options: &Options) -> Self {
        let width = nic.queues.max(usable.last().map_or(1, |queue| queue.0 + 1)) as usize;
        let carrier = |kind, queue| Carrier { kind, queue, head: NONE, flows: 0 };
        let default = default_queue(nic);
        let width = width.max(default.index() + 1);
        let mut carriers = vec![carrier(Kind::Default, Some(default)), carrier(Kind::Spread, None)];
        let mut tally = Tally::new(usable.to_vec(), width as u32);
        let rss = nic.rss.as_ref();
        let entries = rss.map_or(0, |rss| rss.indirection);
        let movable = rss.is_some_and(|rss| rss.indirection_settable);
        let reach = rss.map_or(0, |rss| rss.queues.min(width as u32));
        // A table that cannot be set is the driver's: entry modulo queues (Linux: ethtool_rxfh_indir_default).
        let mut round: Vec<QueueId> =
            usable.iter().copied().filter(|queue| movable && queue.0 < reach).collect();
        if round.is_empty() {
            round = (0..reach.max(1)).map(QueueId).collect();
        }
        for entry in 0..entries as usize {
            let queue = round[entry % round.len()];
            carriers.push(carrier(Kind::Entry, Some(queue)));
            tally.move_entry(None, Some(queue));
        }
        let (key, toeplitz) = hash(nic, options);
        let mut state = Self {
            nic: nic.clone(),
            tables: Tables::new(nic, options.all_tables),
            layout: Layout::default(),
            tally,
            ranks: Vec::new(),
            bins: Vec::new(),
            records: Vec::new(),
            free_records: Vec::new(),
            carriers,
            free_carriers: Vec::new(),
            rules: HashMap::default(),
            same: HashMap::default(),
            wide: HeaderIndex::default(),
            wide_rules: BTreeSet::new(),
            flows: None,
            unhappy_ruled: BTreeSet::new(),
            unhappy_loose: BTreeSet::new(),
            entries,
            entries_movable: movable,
            toeplitz,
            key,
            event: 0,
            moved: 0,
            live: 0,
            width,
        };
        state.set_layout(Layout::single(usable));
        state
    }

    pub(super) fn record(&self, slot: u32) -> &Record {
        self.records[slot as usize].as_ref().expect("slots in lists hold flows: they leave the lists first")
    }

    fn record_mut(&mut self, slot: u32) -> &mut Record {
        self.records[slot as usize].as_mut().expect("slots in lists hold flows: they leave the lists first")
    }

    /// All flows' slots, ascending.
    pub(super) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.records.iter().enumerate().filter(|(_, record)| record.is_some()).map(|(slot, _)| slot as u32)
    }

    pub(super) fn carrier(&self, carrier: u32) -> &Carrier {
        &self.carriers[carrier as usize]
    }

    /// A carrier's flows.
    pub(super) fn members(&self, carrier: u32) -> Vec<u32> {
        let mut at = self.carrier(carrier).head;
        let mut out = Vec::with_capacity(self.carrier(carrier).flows as usize);
        while at != NONE {
            out.push(at);
            at = self.record(at).next;
        }
        out
    }

    /// The queue of a flow, unless it is spread.
    pub(super) fn queue(&self, slot: u32) -> Option<QueueId> {
        self.carrier(self.record(slot).carrier).queue
    }

    /// Takes another layout: every flow's group, home and standing follow.
    pub(super) fn set_layout(&mut self, layout: Layout) {
        let slots: Vec<u32> = self.slots().filter(|slot| self.record(*slot).carrier != NONE).collect();
        for slot in &slots {
            self.leave_sets(*slot);
        }
        self.ranks = layout.groups.iter().map(|queues| Ranks::new(queues, self.width)).collect();
        self.bins = layout.groups.iter().map(|_| vec![Bins::default(); self.width]).collect();
        self.layout = layout;
        let all: Vec<u32> = self.slots().collect();
        for slot in all {
            let Item { class, core, .. } = self.record(slot).item;
            let group = self.layout.group(class) as u16;
            let home = self.home(core);
            let record = self.record_mut(slot);
            (record.group, record.home) = (group, home);
        }
        for slot in slots {
            self.enter_sets(slot);
        }
    }

    fn home(&self, core: Option<u32>) -> Option<QueueId> {
        self.layout.homes.get(&core?).copied()
    }

    /// Makes a flow known, without a carrier yet.
    pub(super) fn insert(&mut self, flow: &Flow, id: FlowId, class: ClassId, measure: Measure) -> u32 {
        let load = match measure {
            Measure::Weight => u64::from(flow.weight),
            Measure::Rate => {
                flow.rate.map_or_else(|| u64::from(flow.weight) * ASSUMED_RATE, weft_units::BitsPerSec::get)
            }
        };
        let pinnable = self.tables.ever(&self.nic, &flow.headers);
        let record = Record {
            id,
            headers: flow.headers,
            item: Item { class, load: load.min(1 << 40), core: flow.core },
            group: self.layout.group(class) as u16,
            home: self.home(flow.core),
            exact: flow.headers.flow().is_some(),
            pinnable,
            base: self.base(&flow.headers),
            carrier: NONE,
            prev: NONE,
            next: NONE,
            bin: Bin::None,
            unhappy: None,
            born: self.event,
            last: None,
        };
        let headers = record.headers;
        let slot = match self.free_records.pop() {
            Some(slot) => {
                self.records[slot as usize] = Some(record);
                slot
            }
            None => {
                self.records.push(Some(record));
                self.records.len() as u32 - 1
            }
        };
        if let Some(flows) = &mut self.flows {
            flows.add(headers, slot);
        }
        *self.same.entry(headers).or_default() += 1;
        self.live += 1;
        slot
    }

    /// Forgets a flow. Its rule goes with it, unless the rule has others.
    pub(super) fn erase(&mut self, slot: u32) {
        let carrier = self.record(slot).carrier;
        if carrier != NONE {
            self.detach(slot);
            self.drop_if_empty(carrier);
        }
        let headers = self.record(slot).headers;
        if let Some(flows) = &mut self.flows {
            flows.remove(headers, slot);
        }
        if let Some(same) = self.same.get_mut(&headers) {
            *same -= 1;
            if *same == 0 {
                self.same.remove(&headers);
            }
        }
        self.records[slot as usize] = None;
        self.free_records.push(slot);
        self.live -= 1;
    }

    /// Whether a flow is where it must be.
    pub(super) fn is_happy(&self, slot: u32) -> bool {
        let record = self.record(slot);
        let Some(queue) = self.queue(slot) else { return false };
        match record.home {
            Some(home) => queue == home,
            None => self.ranks[usize::from(record.group)].has(queue),
        }
    }

    /// What sorts flows that are not where they must be: those on forbidden queues first, among them those that also have a home, then by
    /// load.
    fn urgency(&self, slot: u32) -> u64 {
        let record = self.record(slot);
        let allowed = self.queue(slot).is_some_and(|queue| self.ranks[usize::from(record.group)].has(queue));
        let class = if allowed { 0 } else { 1 + u64::from(record.home.is_some()) };
        class << 60 | record.item.load
    }

    /// How many flows have just these packets.
    pub(super) fn flows_of(&self, headers: &HeaderMatch) -> u32 {
        self.same.get(headers).copied().unwrap_or(0)
    }

    /// Whether a flow has a rule of its own, which no other flow shares.
    pub(super) fn is_ruled(&self, slot: u32) -> bool {
        let record = self.record(slot);
        record.carrier != NONE && {
            let carrier = self.carrier(record.carrier);
            carrier.flows == 1
                && matches!(carrier.kind, Kind::Rule { headers, .. } if headers == record.headers)
        }
    }

    fn enter_sets(&mut self, slot: u32) {
        let queue = self.queue(slot);
        let ruled = self.is_ruled(slot);
        let happy = self.is_happy(slot);
        let record = self.record(slot);
        let (group, load) = (usize::from(record.group), record.item.load);
        let shared = self.rules.get(&record.headers) == Some(&record.carrier) && !ruled;
        let bin = match queue {
            Some(queue) if record.home.is_none() && !shared && happy => {
                if ruled {
                    Bin::Ruled(queue)
                } else if record.pinnable {
                    Bin::Loose(queue)
                } else {
                    Bin::None
                }
            }
            _ => Bin::None,
        };
        match bin {
            Bin::Ruled(queue) => {
                self.bins[group][queue.index()].ruled.insert((load, slot));
            }
            Bin::Loose(queue) => {
                self.bins[group][queue.index()].loose.insert((load, slot));
            }
            Bin::None => {}
        }
        let urgency = if happy { 0 } else { self.urgency(slot) };
        if !happy {
            let set = if ruled { &mut self.unhappy_ruled } else { &mut self.unhappy_loose };
            set.insert((urgency, slot));
        }
        if let Some(queue) = queue {
            self.ranks[group].add(queue, load);
        }
        let record = self.record_mut(slot);
        (record.bin, record.unhappy) = (bin, (!happy).then_some(urgency));
    }

    fn leave_sets(&mut self, slot: u32) {
        let queue = self.queue(slot);
        let record = self.record(slot);
        let (group, load, bin, unhappy) =
            (usize::from(record.group), record.item.load, record.bin, record.unhappy);
        match bin {
            Bin::Ruled(queue) => {
                self.bins[group][queue.index()].ruled.remove(&(load, slot));
            }
            Bin::Loose(queue) => {
                self.bins[group][queue.index()].loose.remove(&(load, slot));
            }
            Bin::None => {}
        }
        if let Some(urgency) = unhappy {
            self.unhappy_ruled.remove(&(urgency, slot));
            self.unhappy_loose.remove(&(urgency, slot));
        }
        if let Some(queue) = queue {
            self.ranks[group].take(queue, load);
        }
        let record = self.record_mut(slot);
        (record.bin, record.unhappy) = (Bin::None, None);
    }

    /// A rule's flows stand anew among those that can be moved, when it comes to have one flow or more than one.
    fn stand_anew(&mut self, carrier: u32) {
        for slot in self.members(carrier) {
            self.leave_sets(slot);
            self.enter_sets(slot);
        }
    }

    /// Gives a flow without a carrier one.
    pub(super) fn attach(&mut self, slot: u32, to: u32) {
        let head = self.carriers[to as usize].head;
        let event = self.event;
        let queue = self.carriers[to as usize].queue;
        let record = self.record_mut(slot);
        let moved = record.born < event && record.last != queue;
        (record.carrier, record.prev, record.next) = (to, NONE, head);
        let item = record.item;
        self.moved += u32::from(moved);
        if head != NONE {
            self.record_mut(head).prev = slot;
        }
        let carrier = &mut self.carriers[to as usize];
        carrier.head = slot;
        carrier.flows += 1;
        self.tally.add(item, queue);
        self.enter_sets(slot);
        let carrier = self.carrier(to);
        if carrier.flows == 2 && matches!(carrier.kind, Kind::Rule { .. }) {
            self.stand_anew(to);
        }
    }

    /// Takes a flow from its carrier, which stays even when it is empty.
    pub(super) fn detach(&mut self, slot: u32) {
        self.leave_sets(slot);
        let Record { carrier, prev, next, item, .. } = *self.record(slot);
        let queue = self.carrier(carrier).queue;
        if prev == NONE {
            self.carriers[carrier as usize].head = next;
        } else {
            self.record_mut(prev).next = next;
        }
        if next != NONE {
            self.record_mut(next).prev = prev;
        }
        self.carriers[carrier as usize].flows -= 1;
        self.tally.remove(item, queue);
        let record = self.record_mut(slot);
        (record.carrier, record.last) = (NONE, queue);
        let left = self.carrier(carrier);
        if left.flows == 1 && matches!(left.kind, Kind::Rule { .. }) {
            self.stand_anew(carrier);
        }
    }

    /// Moves a carrier with its flows to a queue.
    pub(super) fn move_carrier(&mut self, carrier: u32, queue: QueueId) {
        let members = self.members(carrier);
        for slot in &members {
            self.detach(*slot);
        }
        let from = self.carriers[carrier as usize].queue.replace(queue);
        if self.carrier(carrier).kind == Kind::Entry {
            self.tally.move_entry(from, Some(queue));
        }
        for slot in members.iter().rev() {
            self.attach(*slot, carrier);
        }
    }
}
