//! The exchange of the program below user-defined algorithms. [`PolicyTree::change`] has the order of the steps, and
//! [`crate::script`] the semantics.

use weft_rank::Metadata;
use weft_units::{FlowId, Instant};

use super::{FlowHead, Scripts, at_of, first_flow, sight};
use crate::entry::Entry;
use crate::leaf::LeafOrder;
use crate::script::node::Head;
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
