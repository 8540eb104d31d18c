//! The change of the program and the move of a flow, in the slow and obvious scheduler.

use weft_sched::{Child, Discipline, LeafDiscipline, LimitSpec, Program};
use weft_units::{FlowId, Instant, LaneId};

use super::{Cause, Limit, Place, Reference, Tags};

impl Reference {
    /// Exchanges the program. `arrival` is the arrival number of a flow's first packet, from its number, its tags and the
    /// discipline of its old leaf.
    pub(crate) fn change_by(
        &mut self,
        program: &Program,
        heirs: &[(LaneId, LaneId)],
        now: Instant,
        arrival: impl Fn(usize, &Tags, LeafDiscipline) -> u64,
    ) {
        let old = std::mem::replace(&mut self.program, program.clone());
        self.limits = (0..program.limits.len()).map(|at| self.changed_limit(at, now)).collect();
        self.leaf_time = (0..program.leaves.len()).map(|leaf| self.changed_leaf(&old, leaf)).collect();
        self.parked.retain(|parked| exists(program, parked.lane));
        for at in 0..self.parked.len() {
            self.parked[at].release = self.lane_release(self.parked[at].lane);
        }
        let mut joining = Vec::new();
        for at in 0..self.flows.len() {
            let flow = &mut self.flows[at];
            if flow.removed {
                continue;
            }
            let before = flow.lane;
            let gone = !exists(program, before);
            if gone {
                flow.lane = heirs.iter().find(|(lane, _)| lane.index() == before).expect("an heir").1.index();
            }
            let (from, to) = (old.lanes[before].leaf.index(), program.lanes[flow.lane].leaf.index());
            let discipline = old.leaves[from].discipline;
            if from == to && discipline == program.leaves[to].discipline {
                continue;
            }
            let key = (gone, before, flow.tags.start, flow.tags.order);
            joining.push((key, at, arrival(at, &flow.tags, discipline)));
            flow.tags = Tags::default();
        }
        joining.sort();
        for (_, at, arrival) in joining {
            if self.flows[at].backlogged {
                self.insert_flow(at, arrival);
            }
        }
        self.change_nodes(&old);
        self.settle(Cause::Change);
    }

    pub(crate) fn change(&mut self, program: &Program, heirs: &[(LaneId, LaneId)], now: Instant) {
        self.change_by(program, heirs, now, |_, tags, discipline| match discipline {
            LeafDiscipline::Fifo => tags.start as u64,
            LeafDiscipline::Fair => tags.order,
        });
    }

    fn changed_limit(&self, at: usize, now: Instant) -> Limit {
        let spec: &LimitSpec = &self.program.limits[at];
        let (now, rate) = (u128::from(now.as_nanos()), u128::from(spec.rate.get()));
        let tat = match self.limits.get(at) {
            Some(known) if !spec.is_vacant() && known.rate == rate => known.tat,
            Some(known) if !spec.is_vacant() => {
                let tat = known.tat / known.rate;
                let debt = tat.saturating_sub(now) * known.rate / rate;
                (if tat > now { now + debt } else { tat }) * rate
            }
            _ => 0,
        };
        Limit { rate, burst: spec.burst, tat }
    }

    fn changed_leaf(&self, old: &Program, leaf: usize) -> u128 {
        let used = self.program.lanes.iter().any(|lane| lane.leaf.index() == leaf);
        match old.leaves.get(leaf) {
            Some(known) if used && known.discipline == self.program.leaves[leaf].discipline => {
                self.leaf_time[leaf]
            }
            _ => 0,
        }
    }

    fn change_nodes(&mut self, old: &Program) {
        let (times, mut places) = (Vec::new(), Vec::new());
        let (old_times, old_places) =
            (std::mem::replace(&mut self.node_time, times), std::mem::take(&mut self.places));
        for (at, node) in self.program.nodes.iter().enumerate() {
            let known = match (&node.discipline, old.nodes.get(at).map(|node| &node.discipline)) {
                (Discipline::Wfq(new), Some(Discipline::Wfq(weights))) => Some((new, weights)),
                _ => None,
            };
            self.node_time.push(if known.is_some() { old_times[at] } else { 0 });
            let place = |(slot, child): (usize, &Child)| {
                let Some((new, weights)) = known else { return Place::default() };
                let Some(before) = old.nodes[at].children.iter().position(|c| c == child) else {
                    return Place::default();
                };
                let mut place = old_places[at][before].clone();
                let (new, weight) = (u128::from(new[slot].get()), u128::from(weights[before].get()));
                place.tags.rest = place.tags.rest * new / weight;
                place
            };
            places.push(node.children.iter().enumerate().map(place).collect());
        }
        self.places = places;
    }

    /// Moves a flow to another lane. Returns whether the flow exists.
    pub(crate) fn move_flow(&mut self, at: FlowId, lane: LaneId) -> bool {
        self.move_flow_by(at, lane, |tags, discipline| match discipline {
            LeafDiscipline::Fifo => tags.start as u64,
            LeafDiscipline::Fair => tags.order,
        })
    }

    pub(crate) fn move_flow_by(
        &mut self,
        at: FlowId,
        lane: LaneId,
        arrival: impl Fn(&Tags, LeafDiscipline) -> u64,
    ) -> bool {
        if !self.exists(at) {
            return false;
        }
        let flow = &mut self.flows[at.index()];
        let from = std::mem::replace(&mut flow.lane, lane.index());
        let (before, after) = (self.program.lanes[from].leaf, self.program.lanes[lane.index()].leaf);
        if before != after {
            let arrival = arrival(&flow.tags, self.program.leaves[before.index()].discipline);
            flow.tags = Tags::default();
            if flow.backlogged {
                self.insert_flow(at.index(), arrival);
            }
        }
        let flows = &self.flows;
        self.parked
            .retain(|parked| flows.iter().any(|f| f.backlogged && !f.removed && f.lane == parked.lane));
        self.settle(Cause::Change);
        true
    }
}

fn exists(program: &Program, lane: usize) -> bool {
    program.lanes.get(lane).is_some_and(|lane| !lane.is_vacant())
}
