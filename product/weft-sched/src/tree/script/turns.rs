//! Turns of flows below user-defined algorithms: their beginning, the fetched packet, and their end.

use weft_rank::Metadata;
use weft_units::{Bytes, FlowId, Instant};

use super::{FRESH, FlowHead, Scripts, at_of, sight};
use crate::entry::Entry;
use crate::leaf::LeafOrder;
use crate::script::leaf::Verdict;
use crate::script::node::Event;
use crate::script::scheduler::{Cx, Sight, Tie, TurnEnd};
use crate::traffic::Traffic;
use crate::tree::service::{charge_first, charge_limits};
use crate::tree::{FlowState, PolicyTree, StaleTurn, Turn};
use crate::virtual_time;

impl PolicyTree {
    /// Begins the turn of the first flow of `lane`.
    pub(in crate::tree) fn begin_scripted(&mut self, at: u32, lane: u32) -> Option<FlowId> {
        let mut scripts = self.scripts.take()?;
        let leaf = &mut self.leaves[at as usize];
        let state = &self.lanes[lane as usize];
        let first = match &leaf.script {
            Some(script) => script.scheduler.first_of(state.slot as usize),
            None => state.pifo.peek().map(|entry| entry.id),
        };
        if let Some(flow) = first {
            let head = scripts.heads[flow as usize];
            match &mut leaf.script {
                Some(script) => {
                    let weight = self.flows[flow as usize].account.weight().get();
                    let sight = sight(&head, &Metadata::UNKNOWN, scripts.clock, weight);
                    script.scheduler.begin(&mut scripts.flows, &at_of(flow, state), &sight);
                }
                None if leaf.order == LeafOrder::Fair => {
                    let rank = state.pifo.peek().map_or(0, |entry| entry.rank);
                    leaf.virtual_time = leaf.virtual_time.max(rank);
                }
                None => {}
            }
            for &(node, slot) in &leaf.path {
                let clock = scripts.clock;
                match scripts.node_mut(node) {
                    Some(node) => node.begin(slot, clock, &head.packet),
                    None => self.nodes[node as usize].node.begin(slot as usize),
                }
            }
        }
        self.scripts = Some(scripts);
        first.map(FlowId)
    }

    /// Ends the outstanding turn of a flow of a scripted leaf without any effect.
    pub(in crate::tree) fn abandon_scripted(&mut self, flow: FlowId) {
        let Some(slot) = self.flows.get(flow.index()) else { return };
        let Some(lane) = self.lanes.get(slot.lane as usize) else { return };
        let Some(leaf) = self.leaves.get_mut(lane.leaf as usize).filter(|leaf| leaf.scripted) else { return };
        if let Some(script) = &mut leaf.script {
            script.scheduler.abandon();
        }
        let Some(scripts) = &mut self.scripts else { return };
        for &(node, _) in &leaf.path {
            if let Some(node) = scripts.node_mut(node) {
                node.scheduler.abandon();
            }
        }
    }

    /// The verdict of the leaf's programs on a packet of the outstanding turn, once it has been fetched. End the turn of a dropped
    /// packet with nothing sent.
    ///
    /// # Errors
    /// [`StaleTurn`] when another turn has begun since; no program runs then.
    pub fn fetched(&mut self, turn: &Turn, packet: &Metadata, now: Instant) -> Result<Verdict, StaleTurn> {
        if turn.serial != self.serial || self.in_service != Some(turn.flow) {
            return Err(StaleTurn { flow: turn.flow });
        }
        self.observe(now);
        let Some(scripts) = &mut self.scripts else { return Ok(Verdict::Send) };
        let slot = &self.flows[turn.flow.index()];
        let lane = &self.lanes[slot.lane as usize];
        let Some(script) = &mut self.leaves[lane.leaf as usize].script else { return Ok(Verdict::Send) };
        let head = FlowHead { packet: *packet, ..scripts.heads[turn.flow.index()] };
        let sight = sight(&head, packet, scripts.clock, slot.account.weight().get());
        Ok(script.fetched(&mut scripts.flows, turn.flow.0, &sight))
    }

    /// Ends a turn as [`PolicyTree::finish`], in which `taken`, with what was dropped, left the flow's queue, with the metadata of the
    /// flow's next packet, if it has one. Below a user-defined algorithm; elsewhere `taken` and the metadata are ignored.
    ///
    /// # Errors
    /// [`StaleTurn`] when another turn has begun since; nothing is charged then.
    pub fn finish_with(
        &mut self,
        turn: Turn,
        sent: Bytes,
        taken: Traffic,
        next: Option<&Metadata>,
        now: Instant,
    ) -> Result<(), StaleTurn> {
        let arrival = if next.is_some() || self.posted { Some(self.tick()) } else { None };
        let next = arrival.map(|arrival| (arrival, *next.unwrap_or(&Metadata::UNKNOWN)));
        self.finish_packet(turn, (sent, sent), taken, next, now)
    }

    /// Ends a turn as [`PolicyTree::finish_charging`], with the metadata of the flow's next packet, if it has one. Elsewhere than
    /// below a user-defined algorithm the metadata is ignored.
    ///
    /// # Errors
    /// [`StaleTurn`] when another turn has begun since; nothing is charged then.
    pub fn finish_charging_with(
        &mut self,
        turn: Turn,
        charges: (Bytes, Bytes),
        next: Option<&Metadata>,
        now: Instant,
    ) -> Result<(), StaleTurn> {
        let arrival = if next.is_some() || self.posted { Some(self.tick()) } else { None };
        let next = arrival.map(|arrival| (arrival, *next.unwrap_or(&Metadata::UNKNOWN)));
        self.finish_packet(turn, charges, Traffic::default(), next, now)
    }

    /// Ends a turn in which `taken` left the flow's queue, with the arrival number and the metadata of the next packet.
    pub(crate) fn finish_packet(
        &mut self,
        turn: Turn,
        charges: (Bytes, Bytes),
        taken: Traffic,
        next: Option<(u64, Metadata)>,
        now: Instant,
    ) -> Result<(), StaleTurn> {
        if turn.serial != self.serial || self.in_service != Some(turn.flow) {
            return Err(StaleTurn { flow: turn.flow });
        }
        self.in_service = None;
        if self.is_scripted(turn.lane) {
            self.settle_scripted(turn.lane.0, turn.flow, charges, taken, next, now);
        } else {
            self.settle(turn.lane.0, turn.flow, charges, next.map(|(arrival, _)| arrival), now);
        }
        Ok(())
    }

    /// Charges a segment of `flow` of `lane` at every level and to every limit, and ranks the flow anew if it has a next
    /// packet.
    pub(in crate::tree) fn settle_scripted(
        &mut self,
        id: u32,
        flow: FlowId,
        (sent, share): (Bytes, Bytes),
        taken: Traffic,
        next: Option<(u64, Metadata)>,
        now: Instant,
    ) {
        self.observe(now);
        let Some(mut scripts) = self.scripts.take() else { return };
        charge_limits(&self.lanes[id as usize], &mut self.limits, &mut self.all_clear, sent, now);
        let place = &mut scripts.heads[flow.index()];
        let before = *place;
        place.queued.remove(taken);
        (place.arrival, place.packet) = next.unwrap_or_default();
        self.backlogged -= usize::from(next.is_none());
        self.charge_leaf(&mut scripts, id, flow, share, &before.packet, next.is_none());
        let at = self.lanes[id as usize].leaf;
        self.offer_scripted(&mut scripts, at);
        let event = Event::Sent { share, taken, idle: next.is_none(), packet: &before.packet };
        self.ascend(&mut scripts, at, &event, FRESH);
        self.scripts = Some(scripts);
        if self.leaves[at as usize].virtual_time >= virtual_time::REBASE_AT {
            self.rebase_leaf(at);
        }
    }

    /// Ends the turn of a flow in its leaf.
    fn charge_leaf(
        &mut self,
        scripts: &mut Scripts,
        id: u32,
        flow: FlowId,
        share: Bytes,
        packet: &Metadata,
        idle: bool,
    ) {
        let tie = self.tick();
        let lane = &mut self.lanes[id as usize];
        let leaf = &mut self.leaves[lane.leaf as usize];
        let slot = &mut self.flows[flow.index()];
        let head = scripts.heads[flow.index()];
        let Some(script) = &mut leaf.script else {
            let arrival = (!idle).then_some(head.arrival);
            let order = (leaf.order, &mut leaf.virtual_time);
            charge_first(&mut lane.pifo, order, slot, share, arrival, Entry::new(0, tie, flow.0));
            leaf.update_head(id, lane);
            return;
        };
        let weight = slot.account.weight().get();
        let at = at_of(flow.0, lane);
        let next = sight(&head, &Metadata::UNKNOWN, scripts.clock, weight);
        let ended = Sight { head: packet, ..next };
        let cx = &mut Cx { ticks: &mut self.ticks, timers: &mut scripts.timers };
        script.scheduler.sent(&mut scripts.flows, &at, &ended, TurnEnd { bytes: share, more: !idle });
        if idle {
            slot.state = FlowState::Idle;
            script.scheduler.leave(&mut scripts.flows, &at, &ended, cx);
        } else {
            script.scheduler.rank(&mut scripts.flows, &at, &next, Tie::New, cx);
        }
    }
}
