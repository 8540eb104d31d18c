//! The exchange of the program under waiting packets. The tree's part is [`PolicyTree::change`].
//!
//! A lane that stays keeps its counters. Packets of a lane that is gone count as enqueued in its heir, and no longer in their
//! old lane, so that for every lane what was enqueued is what was dequeued and what is held. Waiting packets are never
//! refused: a bound that is lower than what waits refuses only new ones.

use weft_units::{FlowId, Instant, LaneId};

use super::scripted::waiting;
use super::{LaneState, PacketScheduler};
use crate::entry::Entry;
use crate::program::Program;
use crate::traffic::Traffic;
use crate::tree::{ChangeError, Changed, FlowError, PolicyTree, Prepared, Refused};
use crate::validate::ProgramError;

/// A change of a packet scheduler; see [`Prepared`].
#[derive(Debug)]
pub struct PreparedPackets {
    tree: Option<Prepared>,
    lanes: Vec<LaneState>,
    dropped: Vec<Traffic>,
}

impl PacketScheduler {
    /// Prepares a change to `program`; see [`PolicyTree::prepare`].
    ///
    /// # Errors
    /// As [`PolicyTree::new`].
    pub fn prepare(
        program: &Program,
        heirs: &[(LaneId, LaneId)],
        flows: usize,
    ) -> Result<PreparedPackets, ProgramError> {
        let tree = Some(PolicyTree::prepare(program, heirs, flows)?);
        let lanes = program.lanes.iter().map(LaneState::new).collect();
        Ok(PreparedPackets { tree, lanes, dropped: vec![Traffic::default(); program.lanes.len()] })
    }

    /// Exchanges the program at `now`; see [`PolicyTree::change`]. Allocates and frees nothing.
    ///
    /// # Errors
    /// See [`ChangeError`]; the scheduler is unchanged then.
    pub fn change(
        &mut self,
        mut prepared: PreparedPackets,
        now: Instant,
    ) -> Result<Changed<PreparedPackets>, Refused<PreparedPackets>> {
        let Some(tree) = prepared.tree.take() else {
            return Err(Refused { why: ChangeError::Spent, prepared });
        };
        let (queues, slab) = (&self.queues, &self.slab);
        let arrival = |flow: u32| queues[flow as usize].first.arrival;
        let waiting = |flow: FlowId| waiting(&queues[flow.index()], slab);
        let changed = self.tree.change_by(tree, now, |entry, _| arrival(entry.id), waiting);
        let Changed { moved, retired } = match changed {
            Ok(changed) => changed,
            Err(Refused { why, prepared: tree }) => {
                prepared.tree = Some(tree);
                return Err(Refused { why, prepared });
            }
        };
        core::mem::swap(&mut self.lanes, &mut prepared.lanes);
        core::mem::swap(&mut self.dropped, &mut prepared.dropped);
        // First the lanes that stay, since a heir adds to its counters.
        for (at, lane) in self.lanes.iter_mut().enumerate() {
            if let (Some(old), true) = (prepared.lanes.get(at), retired.target_of(at) == Some(at)) {
                lane.counters = old.counters;
                self.dropped[at] = prepared.dropped[at];
            }
        }
        for (at, old) in prepared.lanes.iter_mut().enumerate() {
            if let Some(heir) = retired.target_of(at).filter(|heir| *heir != at) {
                let held = old.counters.held();
                old.counters.enqueued.remove(held);
                self.lanes[heir].counters.enqueued.merge(held);
            }
        }
        prepared.tree = Some(retired);
        Ok(Changed { moved, retired: prepared })
    }

    /// Moves a flow with its packets to another lane; see [`PolicyTree::move_flow`].
    ///
    /// # Errors
    /// [`FlowError::UnknownFlow`], [`FlowError::UnknownLane`].
    pub fn move_flow(&mut self, flow: FlowId, lane: LaneId) -> Result<(), FlowError> {
        let from = self.tree.lane_of(flow).ok_or(FlowError::UnknownFlow { given: flow })?;
        let queues = &self.queues;
        let arrival = |entry: &Entry| queues[entry.id as usize].first.arrival;
        let first = || waiting(&queues[flow.index()], &self.slab);
        self.tree.move_flow_by(flow, lane, arrival, first)?;
        let mut held = Traffic::default();
        if self.tree.is_active(flow) {
            let queue = &self.queues[flow.index()];
            held.add(queue.first.descriptor.len);
            let mut next = queue.second;
            while let Some(place) = self.slab.get(next as usize) {
                held.add(place.waiting.descriptor.len);
                next = place.next;
            }
        }
        self.lanes[from.index()].counters.enqueued.remove(held);
        self.lanes[lane.index()].counters.enqueued.merge(held);
        Ok(())
    }
}
