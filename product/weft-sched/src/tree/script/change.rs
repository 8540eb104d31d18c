//! Changes below user-defined algorithms: the exchange of the program, and the move of a flow from or to a leaf there.
//! [`PolicyTree::change`] has the order of the steps, and [`crate::script`] the semantics.

use weft_rank::Metadata;
use weft_units::{FlowId, Instant, LaneId};

use super::{FRESH, FlowHead, MOVED, Scripts, at_of, first_flow, sight};
use crate::entry::Entry;
use crate::leaf::LeafOrder;
use crate::script::node::{Event, Head};
use crate::script::scheduler::{Cx, Joins};
use crate::tree::{FlowState, PolicyTree};

/// The number of arrival of a flow's first packet, from its reference in a leaf of `order`.
pub(in crate::tree) fn arrival_of(
    entry: &Entry,
    order: LeafOrder,
    old: Option<&Scripts>,
    arrival: &impl Fn(&Entry, LeafOrder) -> u64,
) -> u64 {
    match (order, old.and_then(|old| old.heads.get(entry.id as usize))) {
        (LeafOrder::Script, Some(head)) => head.arrival,
        _ => arrival(entry, order),
    }
}

/// Lists the references of lane `at` in its PIFO, in their order, if its leaf has an algorithm. Returns the leaf's order.
pub(in crate::tree) fn list_script(old: &mut PolicyTree, at: usize) -> LeafOrder {
    let lane = &mut old.lanes[at];
    let leaf = &mut old.leaves[lane.leaf as usize];
    if let (Some(script), Some(scripts)) = (&mut leaf.script, &mut old.scripts) {
        let mut rank = 0;
        while let Some(id) = script.scheduler.pop(&mut scripts.flows, lane.slot as usize) {
            rank += 1;
            lane.pifo.push(Entry::new(rank, rank, id));
        }
    }
    leaf.order
}

/// The exchange of the program.
impl PolicyTree {
    /// Takes over which lanes are parked.
    pub(in crate::tree) fn carry_lane_states(&mut self, old: &Self, targets: &[u32]) {
        for (at, before) in old.lanes.iter().enumerate().filter(|(_, lane)| lane.flows > 0) {
            if targets.get(at) == Some(&(at as u32)) {
                let lane = &mut self.lanes[at];
                lane.parked = before.parked;
                if let Some(script) = &mut self.leaves[lane.leaf as usize].script {
                    script.scheduler.mark_parked(lane.slot as usize, before.parked);
                }
            }
        }
    }

    /// Takes over the state of leaves and flows, and the references of the flows that keep theirs. Flows still have their
    /// old lanes.
    pub(in crate::tree) fn carry_scripts(
        &mut self,
        old: &mut Self,
        targets: &[u32],
        now: Instant,
        arrival: &impl Fn(&Entry, LeafOrder) -> u64,
        waiting: impl Fn(FlowId) -> FlowHead,
    ) {
        self.unite_scripts(old, targets);
        let Some(mut scripts) = self.scripts.take() else { return };
        scripts.clock = old.scripts.as_ref().map_or(Instant::ZERO, |old| old.clock).max(now);
        self.carry_heads(&mut scripts, old, arrival, waiting);
        for (leaf, before) in self.leaves.iter_mut().zip(&old.leaves) {
            if let (false, Some(script), Some(before)) =
                (leaf.lanes.is_empty(), &mut leaf.script, &before.script)
            {
                script.carry(before);
            }
        }
        for id in 0..self.flows.len() as u32 {
            if self.flows[id as usize].state != FlowState::Vacant {
                self.carry_script_flow(&mut scripts, old, targets, id);
            }
        }
        self.scripts = Some(scripts);
    }

    /// Lets all references whose rank ends wait in the orders of their lanes, also those that waited for a time.
    fn unite_scripts(&self, old: &mut Self, targets: &[u32]) {
        if old.scripts.is_none() {
            return;
        }
        for (id, flow) in
            self.flows.iter().enumerate().filter(|(_, flow)| flow.state == FlowState::Backlogged)
        {
            let at = flow.lane as usize;
            let lane = &old.lanes[at];
            let ends = !self.keeps_ranks(old, at, targets[at]);
            let script = old.leaves.get_mut(lane.leaf as usize).and_then(|leaf| leaf.script.as_mut());
            if let (true, Some(script), Some(scripts)) = (ends, script, &mut old.scripts) {
                script.scheduler.unite(&mut scripts.flows, &at_of(id as u32, lane));
            }
        }
    }

    /// Takes over the first packets of all flows.
    fn carry_heads(
        &self,
        scripts: &mut Scripts,
        old: &Self,
        arrival: &impl Fn(&Entry, LeafOrder) -> u64,
        waiting: impl Fn(FlowId) -> FlowHead,
    ) {
        if let Some(old) = &old.scripts {
            let flows = old.heads.len().min(scripts.heads.len());
            scripts.heads[..flows].copy_from_slice(&old.heads[..flows]);
        }
        for lane in &old.lanes {
            let Some(leaf) = old.leaves.get(lane.leaf as usize) else { continue };
            for entry in lane.pifo.iter().filter(|_| !leaf.scripted) {
                let head = &mut scripts.heads[entry.id as usize];
                *head = FlowHead { arrival: arrival(entry, leaf.order), ..waiting(FlowId(entry.id)) };
            }
        }
    }

    /// Takes over the state of a flow, and its reference if it keeps its rank.
    fn carry_script_flow(&mut self, scripts: &mut Scripts, old: &Self, targets: &[u32], id: u32) {
        let flow = &self.flows[id as usize];
        let target = targets[flow.lane as usize];
        let keeps = self.keeps_ranks(old, flow.lane as usize, target);
        let lane = &self.lanes[target as usize];
        let before = old.leaves.get(old.lanes[flow.lane as usize].leaf as usize);
        let Some(script) = &mut self.leaves[lane.leaf as usize].script else { return };
        script.scheduler.count_in(flow.account.weight().get().into());
        let known = old.scripts.as_ref().zip(before.and_then(|leaf| leaf.script.as_ref()));
        let Some((known, leaf)) = known.filter(|_| keeps) else {
            script.make_new(&mut scripts.flows, id);
            return;
        };
        scripts.flows.carry(id, &known.flows, id);
        if !script.continues_drops(leaf) {
            script.forget_drops(&mut scripts.flows, id);
        }
        if flow.state == FlowState::Backlogged {
            let at = at_of(id, lane);
            let known = (&known.timers, at.owner);
            script.scheduler.adopt(&mut scripts.flows, &at, &mut scripts.timers, known);
        }
    }

    /// Whether the leaf of `lane` has an algorithm.
    pub(in crate::tree) fn has_script(&self, lane: u32) -> bool {
        self.leaves[self.lanes[lane as usize].leaf as usize].script.is_some()
    }

    /// Keeps the numbers of arrival of flows that joined another order.
    pub(in crate::tree) fn keep_arrivals(&mut self, entries: &[Entry], arrival: impl Fn(&Entry) -> u64) {
        let Some(scripts) = &mut self.scripts else { return };
        for entry in entries {
            scripts.heads[entry.id as usize].arrival = arrival(entry);
        }
    }

    /// Lets the flows of `entries` join the leaf of `lane`, which has an algorithm.
    pub(in crate::tree) fn join_script(&mut self, lane: u32, entries: &[Entry]) {
        let Some(scripts) = &mut self.scripts else { return };
        let lane = &self.lanes[lane as usize];
        let Some(script) = &mut self.leaves[lane.leaf as usize].script else { return };
        for entry in entries {
            let head = scripts.heads[entry.id as usize];
            let weight = self.flows[entry.id as usize].account.weight().get();
            let sight = sight(&head, &Metadata::UNKNOWN, scripts.clock, weight);
            let cx = &mut Cx { ticks: &mut self.ticks, timers: &mut scripts.timers };
            script.scheduler.join(&mut scripts.flows, &at_of(entry.id, lane), &sight, Joins::Moving, cx);
        }
    }

    /// Lets all leaves with an algorithm offer their lanes.
    pub(in crate::tree) fn fill_scripts(&mut self) {
        let Some(mut scripts) = self.scripts.take() else { return };
        for leaf in 0..self.leaves.len() as u32 {
            self.offer_scripted(&mut scripts, leaf);
        }
        self.scripts = Some(scripts);
    }

    /// Counts the backlogged flows below the children of nodes with an algorithm.
    pub(in crate::tree) fn count_below(&mut self) {
        let Some(scripts) = &mut self.scripts else { return };
        for (id, flow) in
            self.flows.iter().enumerate().filter(|(_, flow)| flow.state == FlowState::Backlogged)
        {
            let leaf = &self.leaves[self.lanes[flow.lane as usize].leaf as usize];
            let queued = scripts.heads[id].queued;
            for &(node, slot) in &leaf.path {
                if let Some(node) = scripts.node_mut(node) {
                    node.count_flow(slot as usize, queued);
                }
            }
        }
    }

    /// Takes over a node with an algorithm, after its children.
    pub(in crate::tree) fn carry_script_node(&mut self, old: &Self, at: u32) {
        let known = old.script_node(at).zip(old.scripts.as_ref().map(|old| &old.timers));
        let known = known.filter(|(known, _)| self.script_node(at).is_some_and(|node| node.continues(known)));
        for slot in 0..self.nodes[at as usize].children.len() {
            let child = self.nodes[at as usize].children[slot];
            let offer = self.offered_by(child);
            let place = self.place_before(old, at, slot).map(|slot| slot as u32);
            let Some(Scripts { nodes, timers, clock, .. }) = self.scripts.as_deref_mut() else { return };
            if let Some(node) = &mut nodes[at as usize] {
                let child = known.zip(place).map(|((node, timers), slot)| ((node, slot), timers));
                node.carry(slot as u32, offer, child, *clock, timers);
            }
        }
        let Some(Scripts { nodes, timers, heads, clock, .. }) = self.scripts.as_deref_mut() else { return };
        let Some(node) = &mut nodes[at as usize] else { return };
        if let Some((known, _)) = known {
            node.carry_state(known);
        }
        for slot in 0..self.nodes[at as usize].children.len() as u32 {
            let leaf = self.leaves.get(node.leads_to(slot as usize) as usize);
            let first = leaf.and_then(|leaf| first_flow(leaf, &self.lanes));
            let head = first.map(|flow| Head::of(flow, &heads[flow as usize]));
            node.complete(slot, head, *clock, &mut Cx { ticks: &mut self.ticks, timers });
        }
        node.settle();
    }
}

/// The move of a flow.
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
