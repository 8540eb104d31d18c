//! The orders of a scheduler: its lanes by their first references, and the references that are held for a virtual time.

use weft_rank::Rank;

use super::super::children::{Children, Place};
use super::super::heaps::{EMPTY, Heaps, Key};
use super::{At, Lane, Scheduler};

impl Scheduler {
    /// The lane and the child that are served next.
    #[inline]
    pub(crate) fn first(&self) -> Option<(usize, u32)> {
        let lane = self.lanes.get(self.first_ready as usize)?;
        Some((self.first_ready as usize, lane.ready))
    }

    /// The first child of a lane that is not parked.
    pub(crate) fn first_of(&self, lane: usize) -> Option<u32> {
        self.lanes.get(lane).map(|lane| lane.ready).filter(|id| *id != EMPTY)
    }

    /// Moves a child to another lane, with its rank.
    pub(crate) fn relocate(&mut self, children: &mut Children, at: &At, lane: usize) {
        if children.references[at.id as usize].active {
            self.take_out(children, at);
            self.lanes[at.lane].active -= 1;
            self.lanes[lane].active += 1;
            self.place(children, &At { lane, ..*at });
        }
    }

    /// Takes a child out of the orders, until it is placed again.
    pub(crate) fn take_out(&mut self, children: &mut Children, at: &At) {
        let reference = &mut children.references[at.id as usize];
        let lane = &mut self.lanes[at.lane];
        match core::mem::replace(&mut reference.place, Place::Out) {
            Place::Out => {}
            Place::Ready => children.order.remove(&mut lane.ready, at.id),
            Place::Early => children.order.remove(&mut lane.early, at.id),
        }
        self.refer(children, at.lane);
    }

    /// Whether no child of a lane has anything to send.
    pub(crate) fn is_empty(&self, lane: usize) -> bool {
        self.lanes[lane].active == 0
    }

    /// Puts a child into the order of its lane whatever it waits for: its rank ends.
    pub(crate) fn unite(&mut self, children: &mut Children, at: &At) {
        let reference = &mut children.references[at.id as usize];
        (reference.waits, reference.withheld, reference.from) = (false, false, 0);
        self.place(children, at);
    }

    /// Removes the first child of a lane from the lane's order.
    pub(crate) fn pop(&mut self, children: &mut Children, lane: usize) -> Option<u32> {
        children.order.pop(&mut self.lanes.get_mut(lane)?.ready).map(|(id, _)| id)
    }

    /// Whether the orders of all lanes agree with each other and with `children`.
    pub(crate) fn is_valid(&self, children: &Children) -> bool {
        let key = |root: u32| children.order.first(root).map(|(_, key)| key);
        let lane = |(at, lane): (usize, &Lane)| {
            let shown = |heaps: &Heaps, root: u32| {
                let expected = key(root).filter(|_| !lane.parked);
                let found = heaps.contains(at as u32).then(|| heaps.key(at as u32));
                expected == found
            };
            let valid = |root| children.order.is_valid(root, &mut |_| {});
            valid(lane.ready)
                && valid(lane.early)
                && shown(&self.ready, lane.ready)
                && shown(&self.early, lane.early)
        };
        let lanes = self.lanes.iter().enumerate().all(lane);
        let settled = self.first_ready != EMPTY || self.first_early == EMPTY;
        lanes && (settled || self.turn.is_some())
    }

    /// Marks a lane as parked or not, before its children are there.
    pub(crate) fn mark_parked(&mut self, lane: usize, parked: bool) {
        self.lanes[lane].parked = parked;
    }

    /// The virtual time that `from` is compared with.
    pub(super) fn clock(&self) -> Option<u64> {
        let field = self.custom.algorithm.aggregates.clock?;
        self.state.get(usize::from(field)).copied()
    }

    /// Puts a reference where it belongs.
    pub(crate) fn place(&mut self, children: &mut Children, at: &At) {
        self.take_out(children, at);
        let lane = &mut self.lanes[at.lane];
        let reference = &mut children.references[at.id as usize];
        if reference.active && !reference.waits && !reference.withheld {
            if reference.from > 0 {
                reference.place = Place::Early;
                children.order.insert(&mut lane.early, at.id, (Rank::new(reference.from, 0), reference.tie));
            } else {
                reference.place = Place::Ready;
                children.order.insert(&mut lane.ready, at.id, (reference.rank, reference.tie));
            }
        }
        self.refer(children, at.lane);
    }

    /// Brings the orders of the lanes up to date with a lane.
    fn refer(&mut self, children: &Children, at: usize) {
        let lane = &self.lanes[at];
        let key = |root: u32| children.order.first(root).filter(|_| !lane.parked).map(|(_, key)| key);
        let (ready, early) = (key(lane.ready), key(lane.early));
        set(&mut self.ready, &mut self.first_ready, at as u32, ready);
        set(&mut self.early, &mut self.first_early, at as u32, early);
    }

    /// Parks a lane, or returns it from the shaping queue.
    pub(crate) fn set_parked(&mut self, children: &mut Children, lane: usize, parked: bool) {
        self.lanes[lane].parked = parked;
        self.refer(children, lane);
        self.settle(children);
    }

    /// Makes the references eligible whose virtual time has come. If none is eligible, virtual time jumps to the first.
    pub(crate) fn settle(&mut self, children: &mut Children) {
        let Some(field) = self.custom.algorithm.aggregates.clock.map(usize::from) else { return };
        loop {
            let clock = self.clock().unwrap_or(u64::MAX);
            while let Some((at, _)) =
                self.early.first(self.first_early).filter(|(_, (from, _))| from.first <= clock)
            {
                self.promote(children, at as usize);
            }
            let first = self.early.first(self.first_early);
            match (first, self.state.get_mut(field)) {
                (Some((_, (from, _))), Some(word)) if self.first_ready == EMPTY => *word = from.first,
                _ => return,
            }
        }
    }

    /// Makes the first early reference of a lane ready.
    fn promote(&mut self, children: &mut Children, at: usize) {
        let lane = &mut self.lanes[at];
        if let Some((id, _)) = children.order.pop(&mut lane.early) {
            let reference = &mut children.references[id as usize];
            (reference.place, reference.from) = (Place::Ready, 0);
            children.order.insert(&mut lane.ready, id, (reference.rank, reference.tie));
        }
        self.refer(children, at);
    }
}

/// Sets or removes the key of `at` in a heap of `heaps`.
fn set(heaps: &mut Heaps, root: &mut u32, at: u32, key: Option<Key>) {
    if key.is_some() && heaps.contains(at) && Some(heaps.key(at)) == key {
        return;
    }
    heaps.remove(root, at);
    if let Some(key) = key {
        heaps.insert(root, at, key);
    }
}
