//! Rare and slow operations: rebasing the virtual time of a leaf, and checking the invariants of the tree.

use super::{FlowState, PolicyTree};
use crate::leaf::Leaf;
use crate::node::NO_LEAF;
use crate::script::node::ScriptNode;
use crate::virtual_time;
use thiserror::Error;

/// A broken invariant of the engine: what is wrong, and where.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{0}")]
pub struct InvariantError(pub(crate) String);

impl PolicyTree {
    /// Moves the tags of a leaf back towards zero. Linear in the number of flows of the tree.
    #[cold]
    pub(super) fn rebase_leaf(&mut self, at: u32) {
        self.counters.rebases += 1;
        let time = self.leaf_time(at);
        let leaf = &self.leaves[at as usize];
        let starts = leaf.lanes.iter().filter_map(|lane| self.lanes[*lane as usize].pifo.peek());
        let oldest = starts.map(|entry| entry.rank).min().unwrap_or(time);
        let base = virtual_time::rebase_base(time, oldest);
        *self.leaf_time_mut(at) -= base;
        let leaf = &mut self.leaves[at as usize];
        for slot in 0..leaf.lanes.len() {
            let id = leaf.lanes[slot];
            let lane = &mut self.lanes[id as usize];
            lane.pifo.rerank(|entry| entry.rank.saturating_sub(base));
            leaf.update_head(id, lane);
        }
        for flow in &mut self.flows {
            if flow.state != FlowState::Vacant && self.lanes[flow.lane as usize].leaf == at {
                flow.account.rebase(base);
            }
        }
    }

    /// Checks every structure of the tree. Linear in the size of the tree; for tests and self-checks.
    ///
    /// # Errors
    /// The first broken invariant, with its place. Any error is a bug of this crate.
    pub fn check_invariants(&self) -> Result<(), InvariantError> {
        self.check_flows()?;
        self.check_lanes()?;
        self.check_nodes()
    }

    fn check_flows(&self) -> Result<(), InvariantError> {
        let mut referred = vec![0_u32; self.flows.len()];
        for (at, lane) in self.lanes.iter().enumerate() {
            ensure(lane.pifo.is_valid(), || format!("lane {at}: its PIFO is not in rank order"))?;
            for entry in lane.pifo.iter() {
                referred[entry.id as usize] += 1;
                let home = self.flows[entry.id as usize].lane;
                ensure(home as usize == at, || {
                    format!("lane {at} refers to flow {} of lane {home}", entry.id)
                })?;
            }
        }
        self.check_script_flows(&mut referred)?;
        let mut counted = vec![0; self.lanes.len()];
        for flow in self.flows.iter().filter(|flow| flow.state != FlowState::Vacant) {
            counted[flow.lane as usize] += 1;
        }
        for (at, (lane, counted)) in self.lanes.iter().zip(counted).enumerate() {
            ensure(lane.flows == counted, || format!("lane {at}: {counted} flows, not {}", lane.flows))?;
        }
        let mut backlogged = 0;
        for (at, flow) in self.flows.iter().enumerate() {
            let expected = u32::from(flow.state == FlowState::Backlogged);
            backlogged += expected as usize;
            ensure(referred[at] == expected, || {
                format!("flow {at} ({:?}): {} references", flow.state, referred[at])
            })?;
            ensure(flow.account.is_valid(), || format!("flow {at}: its account is broken"))?;
        }
        ensure(backlogged == self.backlogged, || {
            format!("{backlogged} flows backlogged, not {}", self.backlogged)
        })
    }

    /// Counts the references to flows under user-defined algorithms in `referred`.
    fn check_script_flows(&self, referred: &mut [u32]) -> Result<(), InvariantError> {
        let Some(scripts) = &self.scripts else { return Ok(()) };
        for (at, flow) in self.flows.iter().enumerate().filter(|(_, flow)| flow.state != FlowState::Vacant) {
            let leaf = &self.leaves[self.lanes[flow.lane as usize].leaf as usize];
            if leaf.script.is_some() {
                referred[at] += u32::from(scripts.flows.references[at].active);
                ensure(scripts.flows.is_placed_right(at as u32), || format!("flow {at}: in a wrong order"))?;
            }
        }
        Ok(())
    }

    fn check_script_leaf(&self, leaf: &Leaf) -> Result<(), &'static str> {
        let (Some(scripts), Some(script)) = (&self.scripts, &leaf.script) else { return Ok(()) };
        let first = script.scheduler.first().map(|(lane, _)| lane);
        let offered = if leaf.heads.is_empty() { None } else { Some(leaf.best_lane()) };
        if !script.scheduler.is_valid(&scripts.flows) {
            Err("its orders are broken")
        } else if script.offered != first || first.map(|slot| leaf.lanes[slot]) != offered {
            Err("it does not offer its first flow")
        } else {
            Ok(())
        }
    }

    fn check_lanes(&self) -> Result<(), InvariantError> {
        let parked = self.lanes.iter().filter(|lane| lane.parked).count();
        ensure(self.shaping.is_valid(), || "the shaping queue is not in rank order".to_owned())?;
        ensure(parked == self.shaping.len(), || {
            format!("{parked} lanes parked, {} queued", self.shaping.len())
        })?;
        for (at, lane) in self.lanes.iter().enumerate() {
            let Some(leaf) = self.leaves.get(lane.leaf as usize) else {
                ensure(lane.flows == 0 && lane.pifo.is_empty(), || {
                    format!("lane {at} is vacant and has flows")
                })?;
                continue;
            };
            let slot = lane.slot as usize;
            if let Some(script) = &leaf.script {
                ensure(lane.pifo.is_empty(), || format!("lane {at} has native references"))?;
                ensure(!lane.parked || !script.scheduler.is_empty(slot), || {
                    format!("lane {at}: parked, empty")
                })?;
                continue;
            }
            ensure(!lane.parked || !lane.pifo.is_empty(), || format!("lane {at} is parked and empty"))?;
            let room = lane.flows as usize >= lane.pifo.len();
            ensure(room, || format!("lane {at}: more references than flows"))?;
            ensure(lane.sole == (leaf.sole() == Some(at as u32)), || {
                format!("lane {at}: sole {}", lane.sole)
            })?;
            ensure(lane.path(&self.leaves) == &*leaf.path, || {
                format!("lane {at}: its path is not its leaf's")
            })?;
            ensure(lane.order == leaf.order, || format!("lane {at}: its order is not its leaf's"))?;
            if lane.sole {
                ensure(leaf.heads.is_empty(), || format!("lane {at}: sole, and its leaf has heads"))?;
                continue;
            }
            let present = leaf.heads.contains(slot);
            let expected = lane.takes_part();
            ensure(present == expected, || format!("lane {at}: in its leaf {present}, expected {expected}"))?;
            let same = !present || lane.pifo.peek().is_some_and(|head| head.key() == leaf.heads.key(slot));
            ensure(same, || format!("lane {at}: its head is not what its leaf ranks"))?;
        }
        let clear = self.limits.iter().all(|limit| limit.release() <= self.all_clear);
        ensure(clear, || format!("a limit is released after {}", self.all_clear))?;
        match self.limits.iter().position(|limit| !limit.is_valid()) {
            Some(at) => Err(InvariantError(format!("limit {at}: its state is broken"))),
            None => Ok(()),
        }
    }

    fn check_nodes(&self) -> Result<(), InvariantError> {
        for (at, leaf) in self.leaves.iter().enumerate() {
            ensure(leaf.heads.is_valid(), || format!("leaf {at}: its winner tree is inconsistent"))?;
            self.check_script_leaf(leaf).map_err(|what| InvariantError(format!("leaf {at}: {what}")))?;
            ensure(!leaf.is_fair() || self.leaf_time(at as u32) < u64::MAX / 2, || {
                format!("leaf {at}: virtual time")
            })?;
        }
        for (at, inner) in self.nodes.iter().enumerate() {
            let script = self.script_node(at as u32);
            let valid = inner.node.is_valid() && script.is_none_or(ScriptNode::is_valid);
            ensure(valid, || format!("node {at}: its state is broken"))?;
            for (slot, child) in inner.children.iter().enumerate() {
                let offers = self.offered_by(*child);
                let leads_to = match script {
                    Some(node) => node.leads_to(slot),
                    None if inner.node.contains(slot) => inner.node.leads_to(slot),
                    None => NO_LEAF,
                };
                ensure(leads_to == offers, || {
                    format!("node {at}, child {slot}: leads to {leads_to}, offers {offers}")
                })?;
            }
        }
        let offer = self.offered_by(self.root);
        ensure(offer == self.first_leaf, || format!("the root offers leaf {offer}, not {}", self.first_leaf))
    }
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), InvariantError> {
    if holds { Ok(()) } else { Err(InvariantError(what())) }
}

#[cfg(test)]
mod tests {
    use weft_units::{Bytes, FlowId, Instant, LaneId, LeafId, Weight};

    use super::*;
    use crate::Next;
    use crate::TreeCounters;
    use crate::node::Node;
    use crate::program::{Discipline, LeafDiscipline, Program};
    use crate::workload::{Rng, figure1_program, wfq_program};

    /// Advances all tags of the tree, as if the same amount had been served before.
    fn shift(tree: &mut PolicyTree, by: u64) {
        for at in 0..tree.leaves.len() {
            *tree.leaf_time_mut(at as u32) += by;
        }
        for flow in &mut tree.flows {
            flow.account.shift(by);
        }
        for inner in &mut tree.nodes {
            if let Node::Wfq(node) = &mut inner.node {
                node.shift(by);
            }
        }
    }

    /// The order of service of `turns` turns. Flow `i` belongs to lane `i % 64`, and all are backlogged from time zero
    /// on.
    fn order(program: &Program, shifted: u64, turns: usize) -> Vec<FlowId> {
        assert!(program.leaves.iter().all(|leaf| leaf.discipline == LeafDiscipline::Fair));
        let mut tree = PolicyTree::new(program).expect("the program is sound");
        let mut rng = Rng::new(7);
        for at in 0..256 {
            let weight = Weight::new(1 + rng.below(5)).expect("not zero");
            tree.add_flow(LaneId(at % 64), weight).expect("the lane exists");
        }
        shift(&mut tree, shifted);
        for at in 0..256 {
            tree.activate(FlowId(at));
        }
        let mut order = Vec::new();
        while order.len() < turns {
            let Next::Turn(turn) = tree.next(Instant::ZERO) else { panic!("something is backlogged") };
            let flow = turn.flow();
            order.push(flow);
            let sent = Bytes([64, 594, 1518, 64 + u64::from(rng.below(65_000))][rng.below(4) as usize]);
            tree.finish(turn, sent, rng.below(4) > 0, Instant::ZERO).expect("the turn is outstanding");
            tree.activate(FlowId(rng.below(256)));
            if order.len() % 64 == 0 {
                tree.check_invariants().expect("sound");
            }
        }
        order
    }

    #[test]
    fn virtual_time_that_comes_near_its_end_changes_no_order() {
        let turns = 20_000;
        // A node of many children of equal weight, which are in runs.
        let mut many = wfq_program(64);
        many.nodes[0].discipline = Discipline::Wfq(vec![Weight::ONE; 64]);
        for program in [&figure1_program(), &many] {
            let expected = order(program, 0, turns);
            // Every node and leaf in use passes the threshold during the run, at different times.
            for distance in [1, 1 << 20, 1 << 28, 1 << 30] {
                let shifted = order(program, virtual_time::REBASE_AT - distance, turns);
                assert!(shifted == expected, "distance {distance}");
            }
        }
    }

    #[test]
    fn a_rebase_brings_virtual_time_back() {
        let program = figure1_program();
        let mut tree = PolicyTree::new(&program).expect("the program is sound");
        let flow = tree.add_flow(LaneId(0), Weight::ONE).expect("the lane exists");
        shift(&mut tree, virtual_time::REBASE_AT);
        tree.activate(flow);
        let Next::Turn(turn) = tree.next(Instant::ZERO) else { panic!("a flow is backlogged") };
        tree.finish(turn, Bytes(1500), true, Instant::ZERO).expect("the turn is outstanding");
        assert!(tree.leaf_time(0) < virtual_time::REBASE_AT / 2 + 1);
        // The leaf, and the nodes of fair queueing above it.
        let nodes = tree.leaves[LeafId(0).index()].path.iter().map(|(node, _)| &tree.nodes[*node as usize]);
        let fair = nodes.filter(|inner| matches!(inner.node, Node::Wfq(_))).count() as u64;
        assert_eq!(tree.counters(), TreeCounters { parkings: 0, rebases: 1 + fair });
        tree.check_invariants().expect("sound");
    }
}
