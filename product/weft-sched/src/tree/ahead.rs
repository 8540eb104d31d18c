//! The fetch of records before they are needed. Nothing here changes the tree.

use weft_units::{FlowId, LaneId};

use super::PolicyTree;
use crate::leaf::Offer;
use crate::prefetch::prefetch;

impl PolicyTree {
    /// Asks for the record of `flow`.
    #[inline]
    pub(crate) fn prefetch_flow(&self, flow: FlowId) {
        prefetch(&self.flows, flow.index());
    }

    /// Asks for the lane of `flow`, here and in `others`.
    #[inline]
    pub(crate) fn prefetch_lane<S>(&self, flow: FlowId, others: &[S]) {
        if let Some(flow) = self.flows.get(flow.index()) {
            prefetch(&self.lanes, flow.lane as usize);
            prefetch(others, flow.lane as usize);
        }
    }

    /// Prefetches the node above the lane of `flow`, if an arrival changes that node.
    #[inline]
    pub(crate) fn prefetch_node(&self, flow: FlowId) {
        let lane = self.flows.get(flow.index()).and_then(|flow| self.lanes.get(flow.lane as usize));
        let lane = lane.filter(|lane| lane.sole && lane.pifo.is_empty());
        if let Some((node, _)) = lane.and_then(|lane| lane.path(&self.leaves).first()) {
            prefetch(&self.nodes, *node as usize);
        }
    }

    /// Asks for what turns some way ahead need, where the order of a node above the lane `served` is known that far: for lanes, and
    /// nearer for what lanes refer to, here, in `queues` by flow and in `others` by lane.
    #[inline]
    pub(crate) fn prefetch_ahead<Q, S>(&self, served: LaneId, queues: &[Q], others: &[S]) {
        let Some(lane) = self.lanes.get(served.index()) else { return };
        for (node, _) in lane.path(&self.leaves) {
            let (near, far) = self.nodes[*node as usize].node.ahead();
            if let Offer::Lane(far) = Offer::from_number(far) {
                prefetch(&self.lanes, far as usize);
                prefetch(others, far as usize);
            }
            let Offer::Lane(near) = Offer::from_number(near) else { continue };
            let Some(lane) = self.lanes.get(near as usize) else { continue };
            if let Some(head) = lane.pifo.peek() {
                prefetch(&self.flows, head.id as usize);
                prefetch(queues, head.id as usize);
            }
            for limit in &*lane.limits {
                prefetch(&self.limits, limit.index());
            }
            if let Some((node, _)) = lane.path(&self.leaves).first() {
                prefetch(&self.nodes, *node as usize);
            }
        }
    }

    /// Asks for what the next turns need, after a turn of `served`: the records of that lane's next flow, here and in
    /// `queues`, since the lane's next turn is usually some turns away; and through `next` what the queue of the very next
    /// turn refers to.
    #[inline]
    pub(crate) fn prefetch_next<Q>(&self, served: LaneId, queues: &[Q], next: impl FnOnce(&Q)) {
        if let Some(head) = self.lanes.get(served.index()).and_then(|lane| lane.pifo.peek()) {
            prefetch(&self.flows, head.id as usize);
            prefetch(queues, head.id as usize);
        }
        let lane = self.lane_offered(self.first_leaf).and_then(|lane| self.lanes.get(lane as usize));
        let head = lane.and_then(|lane| lane.pifo.peek());
        if let Some(queue) = head.and_then(|head| queues.get(head.id as usize)) {
            next(queue);
        }
    }
}
