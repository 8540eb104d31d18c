//! Arrivals below user-defined algorithms, and the way of every event up to the root.

use weft_rank::{Metadata, Metadatum};
use weft_units::{Bytes, FlowId, Instant};

use super::{FRESH, FlowHead, Scripts, Why, at_of, first_flow, sight};
use crate::entry::Entry;
use crate::node::{NO_LEAF, Node};
use crate::script::node::{Event, Head, one};
use crate::script::scheduler::{Cx, Joins};
use crate::tree::service::rank_of;
use crate::tree::{FlowState, PolicyTree};
use crate::validate::Parent;

impl PolicyTree {
    /// Marks `flow` as backlogged, as [`PolicyTree::activate`], with a packet whose metadata is known, or reports a further
    /// packet. Returns true when the flow was idle before.
    pub fn activate_with(&mut self, flow: FlowId, packet: &Metadata, now: Instant) -> bool {
        self.observe(now);
        let Some((lane, active)) = self.standing_of(flow) else { return false };
        self.posted |= active && self.in_service == Some(flow);
        match (active, self.is_scripted(lane)) {
            (true, true) => self.arrived(flow, packet),
            (true, false) => {}
            (false, _) => {
                let arrival = self.tick();
                self.activate_packet(flow, arrival, packet);
            }
        }
        !active
    }

    /// Marks `flow`, which must be idle, as backlogged with a first packet of this arrival number.
    #[inline]
    pub(crate) fn activate_packet(&mut self, flow: FlowId, arrival: u64, packet: &Metadata) {
        let leaf = self.lanes[self.flows[flow.index()].lane as usize].leaf;
        if self.leaves[leaf as usize].scripted {
            self.activate_scripted(flow, arrival, packet);
        } else {
            self.activate_at(flow, arrival);
        }
    }

    /// Tells of a further doorbell of a backlogged flow, if that concerns an algorithm.
    pub(in crate::tree) fn arrived_unknown(&mut self, flow: FlowId) {
        if self.lane_of(flow).is_some_and(|lane| self.is_scripted(lane)) {
            self.arrived(flow, &Metadata::UNKNOWN);
        }
    }

    /// Marks an idle flow of a scripted leaf as backlogged.
    pub(in crate::tree) fn activate_scripted(&mut self, flow: FlowId, arrival: u64, packet: &Metadata) {
        let Some(mut scripts) = self.scripts.take() else { return };
        let queued = one(packet.get(Metadatum::Length).map(Bytes));
        let head = &mut scripts.heads[flow.index()];
        *head = FlowHead { packet: *packet, arrival, queued };
        self.flows[flow.index()].state = FlowState::Backlogged;
        self.backlogged += 1;
        let leaf = self.enter_scripted(&mut scripts, flow, packet, Joins::Arriving);
        self.offer_scripted(&mut scripts, leaf);
        let event = Event::Arrived { activated: true, packet, queued };
        self.ascend(&mut scripts, leaf, &event, FRESH);
        self.scripts = Some(scripts);
    }

    /// Adds a reference to `flow` to its leaf, whose offer is brought up to date later. Returns the leaf.
    pub(super) fn enter_scripted(
        &mut self,
        scripts: &mut Scripts,
        flow: FlowId,
        packet: &Metadata,
        joins: Joins,
    ) -> u32 {
        let tie = self.tick();
        let slot = &self.flows[flow.index()];
        let lane = &mut self.lanes[slot.lane as usize];
        let leaf = &mut self.leaves[lane.leaf as usize];
        let head = scripts.heads[flow.index()];
        match &mut leaf.script {
            Some(script) => {
                let at = at_of(flow.0, lane);
                let sight = sight(&head, packet, scripts.clock, slot.account.weight().get());
                let cx = &mut Cx { ticks: &mut self.ticks, timers: &mut scripts.timers };
                script.scheduler.join(&mut scripts.flows, &at, &sight, joins, cx);
            }
            None => {
                let time = if lane.sole { lane.virtual_time } else { leaf.virtual_time };
                let rank = rank_of(slot, leaf.order, time, head.arrival);
                lane.pifo.push(Entry::new(rank, tie, flow.0));
                leaf.update_head(slot.lane, lane);
            }
        }
        lane.leaf
    }

    /// Tells of a further packet or doorbell of a backlogged flow of a scripted leaf.
    pub(crate) fn arrived(&mut self, flow: FlowId, packet: &Metadata) {
        let Some(mut scripts) = self.scripts.take() else { return };
        let queued = one(packet.get(Metadatum::Length).map(Bytes));
        scripts.heads[flow.index()].queued.merge(queued);
        let slot = &self.flows[flow.index()];
        let lane = &self.lanes[slot.lane as usize];
        let at = lane.leaf;
        if let Some(script) = &mut self.leaves[at as usize].script {
            let head = scripts.heads[flow.index()];
            let sight = sight(&head, packet, scripts.clock, slot.account.weight().get());
            let cx = &mut Cx { ticks: &mut self.ticks, timers: &mut scripts.timers };
            script.scheduler.arrive(&mut scripts.flows, &at_of(flow.0, lane), &sight, cx);
            self.offer_scripted(&mut scripts, at);
        }
        let event = Event::Arrived { activated: false, packet, queued };
        self.ascend(&mut scripts, at, &event, FRESH);
        self.scripts = Some(scripts);
    }

    /// Lets a leaf with an algorithm offer the lane of its first flow.
    pub(in crate::tree) fn offer_scripted(&mut self, scripts: &mut Scripts, at: u32) {
        let leaf = &mut self.leaves[at as usize];
        let Some(script) = &mut leaf.script else { return };
        script.scheduler.settle(&mut scripts.flows);
        if script.scheduler.is_late() {
            let here = self.flows.iter().zip(0..).filter(|(slot, _)| slot.state != FlowState::Vacant);
            let lanes = here.map(|(slot, id)| (id, &self.lanes[slot.lane as usize]));
            let all = lanes.filter(|(_, lane)| lane.leaf == at).map(|(id, lane)| at_of(id, lane));
            script.scheduler.rebase(&mut scripts.flows, all);
            self.counters.rebases += 1;
        }
        let offered = script.scheduler.first().map(|(lane, _)| lane);
        let before = core::mem::replace(&mut script.offered, offered);
        if before != offered {
            before.into_iter().for_each(|slot| leaf.heads.clear(slot));
            offered.into_iter().for_each(|slot| leaf.heads.set(slot, 0, 0, leaf.lanes[slot]));
        }
    }

    /// Carries an event below `leaf` up to the root.
    pub(in crate::tree) fn ascend(&mut self, scripts: &mut Scripts, leaf: u32, event: &Event<'_>, why: Why) {
        let offer = self.offered_by_leaf(leaf);
        let parent = self.leaves[leaf as usize].path.first().copied();
        self.ascend_from(scripts, parent, offer, event, why);
    }

    /// Carries an event up from a child at `parent`, which now leads to the leaf `offer`.
    pub(super) fn ascend_from(
        &mut self,
        scripts: &mut Scripts,
        mut parent: Parent,
        mut offer: u32,
        event: &Event<'_>,
        why: Why,
    ) {
        while let Some((at, slot)) = parent {
            let tie = self.tick();
            let Scripts { nodes, heads, timers, clock, .. } = scripts;
            let node = &mut self.nodes[at as usize].node;
            if let Some(node) = &mut nodes[at as usize] {
                let first = self.leaves.get(offer as usize).and_then(|leaf| first_flow(leaf, &self.lanes));
                let head = first.map(|flow| Head::of(flow, &heads[flow as usize]));
                let cx = &mut Cx { ticks: &mut self.ticks, timers };
                self.counters.rebases += node.pass(slot, offer, head, event, *clock, cx);
                offer = node.offer();
            } else if let Event::Sent { share, .. } = event {
                offer = node.served(slot as usize, *share, offer, tie, &mut self.counters.rebases);
            } else {
                offer = reorder(node, slot as usize, offer, tie, why);
            }
            parent = self.node_parents[at as usize];
        }
        self.first_leaf = offer;
    }
}

/// Brings a native node up to date with the child at `slot`, which now leads to the leaf `offer`. Returns the leaf that the
/// node leads to.
fn reorder(node: &mut Node, slot: usize, offer: u32, tie: u64, why: Why) -> u32 {
    match (node.contains(slot), offer != NO_LEAF) {
        (false, true) => node.enter(slot, offer, tie, why.returns),
        (true, true) => node.lead(slot, offer),
        (true, false) => {
            node.leave_unserved(slot, why.leaves);
            node.offer()
        }
        (false, false) => node.offer(),
    }
}
