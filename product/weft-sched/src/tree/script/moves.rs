//! The move of a flow from or to a leaf below a user-defined algorithm.

use weft_rank::Metadata;
use weft_units::{FlowId, LaneId};

use super::{FRESH, FlowHead, MOVED, Scripts, at_of, sight};
use crate::entry::Entry;
use crate::script::node::Event;
use crate::script::scheduler::{Cx, Joins};
use crate::tree::{FlowState, PolicyTree};

impl PolicyTree {
    /// Moves a flow from a lane, from or to a scripted leaf. The flow has its new lane and account already, and its native
    /// reference was removed. `head` is given if it was not known.
    pub(in crate::tree) fn move_scripted(
        &mut self,
        flow: FlowId,
        from: LaneId,
        (reference, arrival): (Option<Entry>, Option<u64>),
        head: Option<FlowHead>,
    ) {
        let Some(mut scripts) = self.scripts.take() else { return };
        let backlogged = self.flows[flow.index()].state == FlowState::Backlogged;
        let old = self.lanes[from.index()].leaf;
        let new = self.lanes[self.flows[flow.index()].lane as usize].leaf;
        let place = &mut scripts.heads[flow.index()];
        *place = head.filter(|_| backlogged).unwrap_or(*place);
        place.arrival = arrival.unwrap_or(place.arrival);
        if old == new {
            self.relocate_scripted(&mut scripts, flow, from, reference);
        } else {
            if backlogged {
                self.detach_scripted(&mut scripts, flow, from);
            }
            let weight = self.flows[flow.index()].account.weight().get().into();
            if let Some(script) = &mut self.leaves[old as usize].script {
                script.scheduler.count_out(weight);
            }
            if let Some(script) = &mut self.leaves[new as usize].script {
                script.make_new(&mut scripts.flows, flow.0);
                script.scheduler.count_in(weight);
            }
            if backlogged {
                self.join_scripted(&mut scripts, flow, old);
            }
        }
        self.scripts = Some(scripts);
    }

    /// Moves a flow between lanes of a leaf. A native reference was removed from the old lane.
    fn relocate_scripted(
        &mut self,
        scripts: &mut Scripts,
        flow: FlowId,
        from: LaneId,
        reference: Option<Entry>,
    ) {
        let id = self.flows[flow.index()].lane;
        let before = at_of(flow.0, &self.lanes[from.index()]);
        let lane = &mut self.lanes[id as usize];
        let (at, slot) = (lane.leaf, lane.slot as usize);
        let leaf = &mut self.leaves[at as usize];
        match (&mut leaf.script, reference) {
            (Some(script), _) => script.scheduler.relocate(&mut scripts.flows, &before, slot),
            (None, Some(entry)) => lane.pifo.push(entry),
            (None, None) => {}
        }
        self.release_empty(scripts, from);
        self.offer_native(at);
        self.offer_scripted(scripts, at);
        self.ascend(scripts, at, &Event::Reordered, MOVED);
    }

    /// Removes the reference of a flow from its old leaf, which continues to offer what it offered.
    fn detach_scripted(&mut self, scripts: &mut Scripts, flow: FlowId, from: LaneId) {
        let lane = &self.lanes[from.index()];
        let head = scripts.heads[flow.index()];
        if let Some(script) = &mut self.leaves[lane.leaf as usize].script {
            let weight = self.flows[flow.index()].account.weight().get();
            let sight = sight(&head, &Metadata::UNKNOWN, scripts.clock, weight);
            let cx = &mut Cx { ticks: &mut self.ticks, timers: &mut scripts.timers };
            script.scheduler.depart(&mut scripts.flows, &at_of(flow.0, lane), &sight, cx);
        }
        self.release_empty(scripts, from);
    }

    /// Lets a flow that came from the leaf `old` join its new leaf, and then updates the nodes above the old one.
    fn join_scripted(&mut self, scripts: &mut Scripts, flow: FlowId, old: u32) {
        let new = self.lanes[self.flows[flow.index()].lane as usize].leaf;
        let queued = scripts.heads[flow.index()].queued;
        // The new place first: nodes above both leaves then see no gap.
        self.enter_scripted(scripts, flow, &Metadata::UNKNOWN, Joins::Moving);
        self.offer_scripted(scripts, new);
        self.ascend(scripts, new, &Event::Joined { queued }, FRESH);
        self.offer_native(old);
        self.offer_scripted(scripts, old);
        self.ascend(scripts, old, &Event::Left { queued }, MOVED);
    }

    /// Brings a native leaf up to date with the heads of its lanes.
    fn offer_native(&mut self, leaf: u32) {
        let leaf = &mut self.leaves[leaf as usize];
        if leaf.script.is_some() {
            return;
        }
        for slot in 0..leaf.lanes.len() {
            let id = leaf.lanes[slot];
            let lane = &self.lanes[id as usize];
            leaf.update_head(id, lane);
        }
    }

    /// Takes a parked lane without flows to send out of the shaping queue.
    fn release_empty(&mut self, scripts: &mut Scripts, from: LaneId) {
        let lane = &mut self.lanes[from.index()];
        let slot = lane.slot as usize;
        let script = &mut self.leaves[lane.leaf as usize].script;
        let empty = match script {
            Some(script) => script.scheduler.is_empty(slot),
            None => lane.pifo.is_empty(),
        };
        if lane.parked && empty {
            lane.parked = false;
            self.shaping.remove(from.0);
            if let Some(script) = script {
                script.scheduler.set_parked(&mut scripts.flows, slot, false);
            }
        }
    }
}
