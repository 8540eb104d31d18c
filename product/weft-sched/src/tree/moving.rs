//! The move of a flow to another lane.

use weft_rank::Metadata;
use weft_units::{FlowId, LaneId};

use super::offers::offer_of;
use super::{FlowError, FlowHead, FlowState, PolicyTree};
use crate::entry::Entry;
use crate::node::{Leave, NO_LEAF, Return};
use crate::traffic::Traffic;

impl PolicyTree {
    /// Moves `flow` to `lane`, also while it is backlogged. Within its leaf it keeps its account and its rank. In another
    /// leaf it joins as a newly backlogged flow: in a fair leaf with `S = V` and a new account; a first-in first-out leaf
    /// ranks it by its arrival. Linear in the backlogged flows of the two lanes. May allocate.
    ///
    /// # Errors
    /// [`FlowError::UnknownFlow`], [`FlowError::UnknownLane`], [`FlowError::InService`].
    pub fn move_flow(&mut self, flow: FlowId, lane: LaneId) -> Result<(), FlowError> {
        self.move_flow_with(flow, lane, Default::default)
    }

    /// Moves a flow as [`PolicyTree::move_flow`]. `waiting` has the metadata of its first packet, and what waits in it, if no
    /// user-defined algorithm had its packets before.
    ///
    /// # Errors
    /// As [`PolicyTree::move_flow`].
    pub fn move_flow_with(
        &mut self,
        flow: FlowId,
        lane: LaneId,
        waiting: impl FnOnce() -> (Metadata, Traffic),
    ) -> Result<(), FlowError> {
        let fair = self.lane_of(flow).is_some_and(|lane| self.is_fair(lane));
        let arrival = |entry: &Entry| if fair { entry.tie } else { entry.rank };
        self.move_flow_by(flow, lane, arrival, || FlowHead::of(waiting()))
    }

    /// Moves a flow as [`PolicyTree::move_flow`]. `arrival` gives the number of arrival of its first packet, `waiting` the
    /// packet's metadata and what waits in the flow.
    pub(crate) fn move_flow_by(
        &mut self,
        id: FlowId,
        lane: LaneId,
        arrival: impl Fn(&Entry) -> u64,
        waiting: impl FnOnce() -> FlowHead,
    ) -> Result<(), FlowError> {
        self.lane_mut(lane)?;
        let flow = self.flow_mut(id)?;
        let (from, backlogged) = (LaneId(flow.lane), flow.state == FlowState::Backlogged);
        if self.in_service == Some(id) {
            return Err(FlowError::InService { given: id });
        }
        if from == lane {
            return Ok(());
        }
        let stays = self.lanes[from.index()].leaf == self.lanes[lane.index()].leaf;
        let flow = &mut self.flows[id.index()];
        flow.lane = lane.0;
        if !stays {
            flow.account.restart();
        }
        self.lanes[from.index()].flows -= 1;
        let target = &mut self.lanes[lane.index()];
        target.flows += 1;
        target.pifo.reserve_flows(target.flows as usize);
        let reference = if backlogged { self.lanes[from.index()].pifo.remove(id.0) } else { None };
        if self.is_scripted(from) || self.is_scripted(lane) {
            let arrival = reference.filter(|_| !stays).map(|entry| arrival(&entry));
            let head = if self.is_scripted(from) { None } else { Some(waiting()) };
            self.move_scripted(id, from, (reference, arrival), head);
            return Ok(());
        }
        if let Some(mut entry) = reference {
            if !stays {
                let time = self.leaf_time(self.lanes[lane.index()].leaf);
                let rank = if self.is_fair(lane) { time } else { arrival(&entry) };
                entry = Entry { rank, tie: self.tick(), ..entry };
            }
            // The new place first: nodes above both lanes then see no gap.
            self.enter(lane, entry);
            self.withdraw(from);
        }
        Ok(())
    }

    fn is_fair(&self, lane: LaneId) -> bool {
        let leaf = self.lanes.get(lane.index()).and_then(|lane| self.leaves.get(lane.leaf as usize));
        leaf.is_some_and(crate::leaf::Leaf::is_fair)
    }

    /// Adds a reference to `lane`.
    fn enter(&mut self, lane: LaneId, entry: Entry) {
        let tie = self.tick();
        let id = lane.0;
        let lane = &mut self.lanes[lane.index()];
        let leaf = &mut self.leaves[lane.leaf as usize];
        let was_empty = offer_of(id, lane, leaf) == NO_LEAF;
        lane.pifo.push(entry);
        if lane.parked {
            return;
        }
        leaf.update_head(id, lane);
        if was_empty {
            self.climb(id, tie, Return::Fresh);
        }
    }

    /// Brings the tree up to date after a reference was removed from `lane`.
    fn withdraw(&mut self, lane: LaneId) {
        let id = lane.0;
        let lane = &mut self.lanes[lane.index()];
        if lane.parked {
            if lane.pifo.is_empty() {
                lane.parked = false;
                self.shaping.remove(id);
            }
            return;
        }
        self.leaves[lane.leaf as usize].update_head(id, lane);
        self.leave(id, Leave::Moved);
    }
}
