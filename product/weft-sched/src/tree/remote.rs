//! Effects of other workers on a tree: limits that are lent, and service that a class had elsewhere. For use between turns; the module
//! `workers` says what for. Nothing of it is on the way of a packet.

use weft_units::{BitsPerSec, Bytes, Instant, LaneId, LimitId};

use super::{PolicyTree, service};

impl PolicyTree {
    /// The number of limits.
    pub(crate) fn limits(&self) -> usize {
        self.limits.len()
    }

    /// Lends bytes of a limit; see [`Limit::lend`](crate::limit::Limit::lend). [`Self::release_again`] must follow.
    pub(crate) fn lend(&mut self, limit: LimitId, allowance: Option<Bytes>, now: Instant) {
        let limit = &mut self.limits[limit.index()];
        limit.lend(allowance, now);
        self.all_clear = self.all_clear.max(limit.release());
    }

    /// The bytes charged to a limit that was lent at `since`.
    pub(crate) fn spent(&self, limit: LimitId, since: Instant) -> Bytes {
        self.limits[limit.index()].spent(since)
    }

    /// Gives a limit its own rate again. [`Self::release_again`] must follow.
    pub(crate) fn end_lending(&mut self, limit: LimitId, rate: BitsPerSec, burst: Bytes, now: Instant) {
        let limit = &mut self.limits[limit.index()];
        limit.end_lending(rate, burst, now);
        self.all_clear = self.all_clear.max(limit.release());
    }

    /// Finds the release times of parked lanes anew. Linear in these.
    pub(crate) fn release_again(&mut self) {
        let (lanes, limits) = (&self.lanes, &self.limits);
        self.shaping.rerank(|entry| service::release_time(&lanes[entry.id as usize], limits).as_nanos());
    }

    /// Calls `found` with the limits of each parked lane.
    pub(crate) fn each_parked_lane(&self, mut found: impl FnMut(&[LimitId])) {
        for entry in self.shaping.iter() {
            found(&self.lanes[entry.id as usize].limits);
        }
    }

    /// Calls `found` with the limits of each lane that has packets, parked or not.
    pub(crate) fn each_backlogged_lane(&self, mut found: impl FnMut(&[LimitId])) {
        for lane in self.lanes.iter().filter(|lane| !lane.pifo.is_empty()) {
            found(&lane.limits);
        }
    }

    /// Whether `lane` has packets and waits for no limit.
    pub(crate) fn lane_may_send(&self, lane: LaneId) -> bool {
        self.lanes.get(lane.index()).is_some_and(|lane| lane.takes_part())
    }

    /// The virtual time of a fair node; zero of others.
    #[inline]
    pub(crate) fn fair_time(&self, node: u32) -> u64 {
        self.nodes[node as usize].node.fair_time()
    }

    /// Whether the child at `slot` of a node has a backlogged flow, in a lane that is not parked or with the tag that it had before.
    #[inline]
    pub(crate) fn child_takes_part(&self, node: u32, slot: usize) -> bool {
        let node = &self.nodes[node as usize].node;
        node.contains(slot) || node.holds(slot)
    }

    /// Charges service that the child at `slot` of a fair node had elsewhere. [`Self::offer_again`] must follow.
    #[inline]
    pub(crate) fn charge_elsewhere(&mut self, node: u32, slot: usize, units: u64, lead: u64) {
        self.nodes[node as usize].node.charge_elsewhere(slot, units, lead);
    }

    /// Finds which child of `node` is the first after charges, and reports to the nodes above which leaf it leads to.
    pub(crate) fn offer_again(&mut self, node: u32) {
        let mut at = node as usize;
        self.nodes[at].node.settle();
        let mut offer = self.nodes[at].node.offer();
        while let Some((parent, slot)) = self.node_parents[at] {
            let above = &mut self.nodes[parent as usize].node;
            if !above.contains(slot as usize) {
                return;
            }
            offer = above.lead(slot as usize, offer);
            at = parent as usize;
        }
        self.first_leaf = offer;
    }
}
