//! Inner nodes: one PIFO of child references each.

use weft_units::{Bytes, Weight};

use crate::order::Order;
use crate::program::Discipline;
use crate::virtual_time::{self, Account};
use crate::winner::NO_VALUE;

/// The reason that a child takes part again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Return {
    /// A flow below it became backlogged.
    Fresh,
    /// A lane below it was released from the shaping queue.
    Released,
}

/// The reason that a child ceases to take part without service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leave {
    /// All its lanes are parked.
    Parked,
    /// Its last flow moved to another lane.
    Moved,
}

/// The absence of a leaf: offered by a node without backlogged descendants.
pub(crate) const NO_LEAF: u32 = NO_VALUE;

/// The turns in advance at which the nodes' lanes are fetched, and those at which what the lanes refer to is.
const FAR: usize = 6;
const NEAR: usize = 3;

/// The state of an inner node. A child takes part while it has a backlogged flow in a lane that is not parked; the node has the
/// leaf that each such child leads to, as the number of an [`Offer`](crate::leaf::Offer).
#[derive(Debug)]
pub(crate) enum Node {
    /// Strict priority: the first slot that takes part is served.
    Strict(StrictNode),
    /// Start-time fair queueing.
    Wfq(WfqNode),
}

impl Node {
    /// The node of a discipline. That of a user-defined algorithm only keeps the place: its state is in the tree's
    /// [`Scripts`](crate::tree::Scripts), so that other nodes have no third kind beside them.
    pub(crate) fn new(discipline: &Discipline, children: usize) -> Self {
        match discipline {
            Discipline::Priority => Self::Strict(StrictNode::new(children)),
            Discipline::Wfq(weights) => Self::Wfq(WfqNode::new(weights)),
            Discipline::Custom(_) => Self::Strict(StrictNode::new(0)),
        }
    }

    /// The leaf that this node leads to, or [`NO_LEAF`].
    #[inline]
    pub(crate) fn offer(&self) -> u32 {
        match self {
            Self::Strict(node) => node.offer,
            Self::Wfq(node) => node.tree.best(),
        }
    }

    /// The offers of the node a few turns from now, and some more turns from now, where they are known.
    #[inline]
    pub(crate) fn upcoming(&self) -> (u32, u32) {
        match self {
            Self::Strict(_) => (NO_LEAF, NO_LEAF),
            Self::Wfq(node) => node.tree.upcoming(NEAR, FAR),
        }
    }

    #[inline]
    pub(crate) fn contains(&self, slot: usize) -> bool {
        match self {
            Self::Strict(node) => node.slots.contains(slot),
            Self::Wfq(node) => node.tree.contains(slot),
        }
    }

    /// The leaf that the child at `slot`, which must take part, leads to.
    pub(crate) fn leads_to(&self, slot: usize) -> u32 {
        match self {
            Self::Strict(node) => node.leads_to(slot),
            Self::Wfq(node) => node.tree.value(slot),
        }
    }

    /// Inserts the child at `slot`, which has a backlogged flow again and leads to `leaf`. Returns the leaf that this node
    /// now leads to.
    #[inline(always)]
    pub(crate) fn enter(&mut self, slot: usize, leaf: u32, tie: u64, why: Return) -> u32 {
        match self {
            Self::Strict(node) => {
                node.slots.insert(slot);
                node.lead(slot, leaf)
            }
            Self::Wfq(node) => {
                node.enter(slot, leaf, tie, why);
                node.tree.best()
            }
        }
    }

    /// Changes the leaf that the child at `slot`, which takes part, leads to. Returns the leaf that this node now leads to.
    #[inline(always)]
    pub(crate) fn lead(&mut self, slot: usize, leaf: u32) -> u32 {
        match self {
            Self::Strict(node) => node.lead(slot, leaf),
            Self::Wfq(node) => {
                node.tree.set_value(slot, leaf);
                node.tree.best()
            }
        }
    }

    /// Removes the child at `slot` without service.
    pub(crate) fn leave_unserved(&mut self, slot: usize, why: Leave) {
        match self {
            Self::Strict(node) => node.remove(slot),
            Self::Wfq(node) => node.leave_unserved(slot, why),
        }
    }

    /// Takes over the state of the node itself from `old`, the node of the same id before a change. Under another
    /// discipline the node starts afresh.
    pub(crate) fn carry(&mut self, old: &Self) {
        if let (Self::Wfq(node), Self::Wfq(old)) = (self, old) {
            node.virtual_time = old.virtual_time;
        }
    }

    /// Takes over the state of the child at `slot` from the child at slot `before` of `old`, or from nothing. `entry` is
    /// the tie of a child that enters and the leaf that it leads to, or `None` if the child does not take part.
    /// [`Self::rebuild`] must follow.
    pub(crate) fn carry_child(
        &mut self,
        slot: usize,
        old: Option<(&Self, usize)>,
        entry: Option<(u64, u32)>,
    ) {
        match (self, entry) {
            (Self::Strict(node), Some((_, leaf))) => node.insert(slot, leaf),
            (Self::Strict(_), None) => {}
            (Self::Wfq(node), entry) => {
                let old = old.and_then(|(old, before)| match old {
                    Self::Wfq(old) => Some((old, before)),
                    Self::Strict(_) => None,
                });
                node.carry_child(slot, old, entry);
            }
        }
    }

    /// Restores the order after all children were carried.
    pub(crate) fn rebuild(&mut self) {
        if let Self::Wfq(node) = self {
            node.tree.rebuild();
        }
    }

    /// Puts the child at `slot` into service.
    #[inline]
    pub(crate) fn begin(&mut self, slot: usize) {
        if let Self::Wfq(node) = self {
            node.begin(slot);
        }
    }

    /// Puts the child at `slot` into service, charges it with `bytes`, and keeps it in place if it still leads to a leaf.
    /// Returns the leaf that this node now leads to. Counts a rebase in `rebases`.
    #[inline(always)]
    pub(crate) fn served(
        &mut self,
        slot: usize,
        bytes: Bytes,
        leaf: u32,
        tie: u64,
        rebases: &mut u64,
    ) -> u32 {
        match self {
            Self::Strict(node) => node.served(slot, leaf),
            Self::Wfq(node) => {
                // Rebase only after the service ends: a rebase can make ranks equal, and these must not overtake the
                // child in service.
                if node.served(slot, bytes, leaf, tie) >= virtual_time::REBASE_AT {
                    *rebases += 1;
                    node.rebase();
                }
                node.tree.best()
            }
        }
    }

    /// The virtual time of a fair node; zero of others.
    pub(crate) fn fair_time(&self) -> u64 {
        if let Self::Wfq(node) = self { node.virtual_time } else { 0 }
    }

    /// Whether the child at `slot` of a fair node waits for a limit, with the tag that it had.
    #[inline]
    pub(crate) fn holds(&self, slot: usize) -> bool {
        if let Self::Wfq(node) = self { node.shares[slot].held != NOT_HELD } else { false }
    }

    /// Charges service that the child at `slot` had elsewhere, so that its tag is at most `lead` ahead of virtual time. [`Self::settle`]
    /// must follow.
    #[inline]
    pub(crate) fn charge_elsewhere(&mut self, slot: usize, units: u64, lead: u64) {
        if let Self::Wfq(node) = self {
            node.charge_elsewhere(slot, units, lead);
        }
    }

    /// Finds anew which child is the first, after charges.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if let Self::Wfq(node) = self {
            node.tree.settle();
        }
    }

    pub(crate) fn is_valid(&self) -> bool {
        match self {
            Self::Strict(node) => node.is_valid(),
            Self::Wfq(node) => node.is_valid(),
        }
    }
}

/// Strict priority over the children.
#[derive(Debug)]
pub(crate) struct StrictNode {
    slots: SlotSet,
    /// The leaf that the first slot leads to, or [`NO_LEAF`].
    offer: u32,
    /// The leaf that the child at each slot leads to; valid for the slots that take part. Few lie in the node itself.
    near: [u32; NEAR_SLOTS],
    far: Box<[u32]>,
}

/// The slots of a strict node that lie in it.
const NEAR_SLOTS: usize = 16;

impl StrictNode {
    fn new(children: usize) -> Self {
        let far = if children > NEAR_SLOTS { vec![NO_LEAF; children].into() } else { Box::default() };
        Self { slots: SlotSet::new(children), offer: NO_LEAF, near: [NO_LEAF; NEAR_SLOTS], far }
    }

    #[inline]
    fn leads_to(&self, slot: usize) -> u32 {
        if self.far.is_empty() { self.near[slot % NEAR_SLOTS] } else { self.far[slot] }
    }

    #[inline]
    fn leads_to_mut(&mut self, slot: usize) -> &mut u32 {
        if self.far.is_empty() { &mut self.near[slot % NEAR_SLOTS] } else { &mut self.far[slot] }
    }

    /// The leaf that the first slot leads to, found anew.
    #[inline]
    fn first(&self) -> u32 {
        self.slots.first().map_or(NO_LEAF, |slot| self.leads_to(slot))
    }

    fn insert(&mut self, slot: usize, leaf: u32) {
        self.slots.insert(slot);
        *self.leads_to_mut(slot) = leaf;
        self.offer = self.first();
    }

    #[inline]
    fn remove(&mut self, slot: usize) {
        self.slots.remove(slot);
        self.offer = self.first();
    }

    /// The child at `slot`, which takes part, leads to `leaf` now. Returns the leaf that the first child leads to.
    #[inline]
    fn lead(&mut self, slot: usize, leaf: u32) -> u32 {
        *self.leads_to_mut(slot) = leaf;
        if self.slots.first() == Some(slot) {
            self.offer = leaf;
        }
        self.offer
    }

    /// The child at `slot` was served and leads to `leaf` now. Returns the leaf that the first child leads to.
    /// The usual case, a child that continues, is a branch and not a selection: it is well predicted, and the levels above
    /// need not wait for this one.
    #[inline]
    fn served(&mut self, slot: usize, leaf: u32) -> u32 {
        if leaf != NO_LEAF {
            return self.lead(slot, leaf);
        }
        self.remove(slot);
        self.offer
    }

    fn is_valid(&self) -> bool {
        self.offer == self.first()
    }
}

/// A set of slots as a bitmap; a node of up to 64 children needs one word.
#[derive(Debug)]
pub(crate) struct SlotSet {
    first: u64,
    more: Box<[u64]>,
}

impl SlotSet {
    fn new(slots: usize) -> Self {
        Self { first: 0, more: vec![0; slots.div_ceil(64).saturating_sub(1)].into() }
    }

    #[inline]
    fn word(&mut self, slot: usize) -> &mut u64 {
        if slot < 64 { &mut self.first } else { &mut self.more[slot / 64 - 1] }
    }

    #[inline]
    fn insert(&mut self, slot: usize) {
        *self.word(slot) |= 1 << (slot % 64);
    }

    #[inline]
    fn remove(&mut self, slot: usize) {
        *self.word(slot) &= !(1 << (slot % 64));
    }

    fn contains(&self, slot: usize) -> bool {
        let word = if slot < 64 { self.first } else { self.more[slot / 64 - 1] };
        word & (1 << (slot % 64)) != 0
    }

    #[inline]
    fn first(&self) -> Option<usize> {
        if self.first != 0 {
            return Some(self.first.trailing_zeros() as usize);
        }
        let (at, word) = self.more.iter().enumerate().find(|(_, word)| **word != 0)?;
        Some((at + 1) * 64 + word.trailing_zeros() as usize)
    }
}

/// Start-time fair queueing over the children.
#[derive(Debug)]
pub(crate) struct WfqNode {
    virtual_time: u64,
    /// Start tags of the children that take part.
    tree: Order,
    shares: Box<[Share]>,
}

/// The absence of a held tag. Tags are rebased long before they reach it.
const NOT_HELD: u64 = u64::MAX;

/// The account of a child, and its start tag while it is held: 24 bytes. While a child takes part, the finish tag of its
/// account is its rank.
#[derive(Debug)]
struct Share {
    account: Account,
    /// The start tag of a child that left without service, until it takes part again; else [`NOT_HELD`].
    held: u64,
}

impl WfqNode {
    fn new(weights: &[Weight]) -> Self {
        let share = |weight: &Weight| Share { account: Account::new(*weight), held: NOT_HELD };
        Self { virtual_time: 0, tree: Order::new(weights), shares: weights.iter().map(share).collect() }
    }

    #[inline]
    fn enter(&mut self, slot: usize, leaf: u32, tie: u64, why: Return) {
        let share = &mut self.shares[slot];
        let held = core::mem::replace(&mut share.held, NOT_HELD);
        if why == Return::Released && held != NOT_HELD {
            share.account.enter_at(held);
        } else {
            share.account.enter(self.virtual_time);
        }
        self.tree.set(slot, share.account.entered(), tie, leaf);
    }

    /// The start tag of the child at `slot`, if it takes part.
    pub(crate) fn start(&self, slot: usize) -> Option<u64> {
        self.tree.contains(slot).then(|| self.tree.rank(slot))
    }

    fn leave_unserved(&mut self, slot: usize, why: Leave) {
        let held = if why == Leave::Parked { self.tree.rank(slot) } else { NOT_HELD };
        self.shares[slot].held = held;
        self.tree.clear(slot);
    }

    fn carry_child(&mut self, slot: usize, old: Option<(&Self, usize)>, entry: Option<(u64, u32)>) {
        let share = &mut self.shares[slot];
        let tie = entry.map(|(tie, _)| tie);
        let mut place = tie.map(|tie| (self.virtual_time, tie));
        if let Some((old, before)) = old {
            let known = &old.shares[before];
            share.account.carry(&known.account);
            share.held = if tie.is_none() { known.held } else { NOT_HELD };
            let present = old.tree.contains(before);
            let kept = present.then(|| (old.tree.rank(before), old.tree.tie(before)));
            place = tie.map(|tie| kept.unwrap_or((share.account.start(self.virtual_time), tie)));
        }
        if let (Some((rank, tie)), Some((_, leaf))) = (place, entry) {
            share.account.enter_at(rank);
            self.tree.place(slot, rank, tie, leaf);
        }
    }

    #[inline]
    fn begin(&mut self, slot: usize) {
        self.virtual_time = self.virtual_time.max(self.shares[slot].account.entered());
    }

    /// Returns the virtual time.
    #[inline]
    fn served(&mut self, slot: usize, bytes: Bytes, leaf: u32, tie: u64) -> u64 {
        let account = &mut self.shares[slot].account;
        // A node whose children all waited for their limits may be ahead of the child in service.
        let virtual_time = self.virtual_time.max(account.entered());
        self.virtual_time = virtual_time;
        account.charge_on(bytes);
        if leaf != NO_LEAF {
            let start = account.enter(virtual_time);
            self.tree.set(slot, start, tie, leaf);
        } else {
            self.tree.clear(slot);
        }
        virtual_time
    }

    #[inline]
    fn charge_elsewhere(&mut self, slot: usize, units: u64, lead: u64) {
        let Share { account, held } = &mut self.shares[slot];
        let most = self.virtual_time.saturating_add(lead);
        if *held != NOT_HELD {
            *held = (*held).max(held.saturating_add(units).min(most));
            return;
        }
        if !self.tree.contains(slot) {
            account.enter(self.virtual_time);
            account.postpone(units, most);
            return;
        }
        account.postpone(units, most);
        self.tree.postpone(slot, account.entered());
    }

    #[cold]
    fn rebase(&mut self) {
        let held = self.shares.iter().map(|share| share.held).filter(|held| *held != NOT_HELD);
        let oldest = self.tree.least_rank().into_iter().chain(held).min().unwrap_or(self.virtual_time);
        let base = virtual_time::rebase_base(self.virtual_time, oldest);
        self.virtual_time -= base;
        self.tree.rerank(|rank| rank.saturating_sub(base));
        for share in &mut self.shares {
            share.account.rebase(base);
            if share.held != NOT_HELD {
                share.held = share.held.saturating_sub(base);
            }
        }
    }

    fn is_valid(&self) -> bool {
        let exclusive = |(slot, share): (usize, &Share)| {
            let present = self.tree.contains(slot);
            let ranked = !present || self.tree.rank(slot) == share.account.entered();
            share.account.is_valid() && !(share.held != NOT_HELD && present) && ranked
        };
        self.tree.is_valid() && self.shares.iter().enumerate().all(exclusive)
    }

    #[cfg(test)]
    pub(crate) fn shift(&mut self, by: u64) {
        self.virtual_time += by;
        self.tree.rerank(|rank| rank + by);
        for share in &mut self.shares {
            share.account.shift(by);
            if share.held != NOT_HELD {
                share.held += by;
            }
        }
    }
}
