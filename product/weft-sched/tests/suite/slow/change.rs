//! The change of the program and the move of a flow, in the slow and obvious scheduler.

use weft_sched::{Child, Discipline, HeadUse, LeafDiscipline, LimitSpec, Program};
use weft_units::{FlowId, Instant, LaneId};

use super::script::{self, Event, Head, Who, custom_of_leaf, custom_of_node};
use super::{Cause, Limit, Place, Reference, Tags};
use weft_rank::Metadata;

impl Reference {
    /// Exchanges the program. `arrival` is the arrival number of a flow's first packet, from its number, its tags and the
    /// discipline of its old leaf.
    pub(crate) fn change_by(
        &mut self,
        program: &Program,
        heirs: &[(LaneId, LaneId)],
        now: Instant,
        arrival: impl Fn(usize, &Tags, &LeafDiscipline) -> u64,
        waiting: impl Fn(usize) -> Head,
    ) {
        self.observe(now);
        let scripted: Vec<bool> =
            self.flows.iter().map(|flow| !flow.removed && self.is_scripted_lane(flow.lane)).collect();
        let old = std::mem::replace(&mut self.program, program.clone());
        self.change_scripts(&old);
        self.limits = (0..program.limits.len()).map(|at| self.changed_limit(at, now)).collect();
        self.leaf_time = (0..program.leaves.len()).map(|leaf| self.changed_leaf(&old, leaf)).collect();
        self.parked.retain(|parked| exists(program, parked.lane));
        for at in 0..self.parked.len() {
            self.parked[at].release = self.lane_release(self.parked[at].lane);
        }
        let mut joining = Vec::new();
        for (at, scripted) in scripted.into_iter().enumerate() {
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
            let discipline = &old.leaves[from].discipline;
            let arrival = match discipline {
                LeafDiscipline::Custom(_) => self.scripts.heads[at].arrival,
                _ => arrival(at, &flow.tags, discipline),
            };
            if flow.backlogged && !scripted {
                self.scripts.heads[at] = Head { arrival, ..waiting(at) };
            }
            if from == to && same_order(discipline, &program.leaves[to].discipline) {
                if !same_dropper(discipline, &program.leaves[to].discipline) {
                    flow.script.drops = script::of_flow(program, flow.lane).drops;
                }
                continue;
            }
            let key = match discipline {
                LeafDiscipline::Custom(_) => {
                    let (rank, order) = flow.script.key();
                    (gone, before, u128::from(rank.first) << 64 | u128::from(rank.second), order)
                }
                _ => (gone, before, flow.tags.start, flow.tags.order),
            };
            joining.push((key, at, arrival));
            flow.tags = Tags::default();
            flow.script = script::of_flow(program, flow.lane);
            if flow.backlogged {
                self.scripts.heads[at].arrival = arrival;
            }
        }
        joining.sort();
        for (_, at, arrival) in joining {
            if self.flows[at].backlogged {
                self.enter(at, arrival);
            }
        }
        (0..program.leaves.len()).for_each(|leaf| self.settle_leaf(leaf));
        self.change_nodes(&old);
        self.settle_changed(program.root);
    }

    /// Ranks a flow that came from another leaf.
    fn enter(&mut self, at: usize, arrival: u64) {
        let leaf = self.program.lanes[self.flows[at].lane].leaf.index();
        if custom_of_leaf(&self.program, leaf).is_some() {
            let head = self.scripts.heads[at].packet;
            self.join(Who::Flow(at), &head, None);
        } else {
            self.insert_flow(at, arrival);
        }
    }

    /// Brings the nodes up to date after a change, every child before its parent.
    fn settle_changed(&mut self, child: Child) {
        let Child::Node(id) = child else { return };
        let node = id.index();
        for child in self.program.nodes[node].children.clone() {
            self.settle_changed(child);
        }
        if custom_of_node(&self.program, node).is_none() {
            self.settle(node, Cause::Change);
            return;
        }
        for slot in 0..self.places[node].len() {
            let script = &self.places[node][slot].script;
            if script.active && self.backlogged_below(node, slot).is_empty() {
                self.end_child(node, slot);
            }
        }
        for slot in 0..self.places[node].len() {
            let who = Who::Child(node, slot);
            let flow = self.head_below(self.program.nodes[node].children[slot]);
            let id = flow.map(|flow| (flow, self.scripts.heads[flow].arrival));
            let follows = custom_of_node(&self.program, node).is_some_and(|c| c.head == HeadUse::Followed);
            let first = flow.filter(|_| follows).map_or(Metadata::UNKNOWN, |f| self.scripts.heads[f].packet);
            let joins =
                !self.backlogged_below(node, slot).is_empty() && !self.places[node][slot].script.active;
            if joins {
                self.join(who, &first, None);
            }
            self.follow(who, id, joins, &first);
        }
        let children: Vec<_> = (0..self.places[node].len()).map(|slot| Who::Child(node, slot)).collect();
        self.settle_script(&children);
    }

    /// Takes over the state of nodes and leaves that keep their algorithm.
    fn change_scripts(&mut self, old: &Program) {
        let new = script::States::new(&self.program);
        let (leaves, droppers, nodes) = (
            std::mem::replace(&mut self.scripts.leaves, new.leaves),
            std::mem::replace(&mut self.scripts.droppers, new.droppers),
            std::mem::replace(&mut self.scripts.nodes, new.nodes),
        );
        for leaf in 0..self.program.leaves.len().min(old.leaves.len()) {
            let used = self.program.lanes.iter().any(|lane| lane.leaf.index() == leaf);
            let (before, after) = (&old.leaves[leaf].discipline, &self.program.leaves[leaf].discipline);
            if let (true, LeafDiscipline::Custom(_)) = (used && same_order(before, after), after) {
                self.scripts.leaves[leaf] = leaves[leaf].clone();
            }
            if let (true, LeafDiscipline::Custom(new)) = (used && same_dropper(before, after), after)
                && new.dropper.is_some()
            {
                self.scripts.droppers[leaf] = droppers[leaf].clone();
            }
        }
        for (node, state) in nodes.into_iter().enumerate().take(self.program.nodes.len()) {
            if same_node(&old.nodes[node].discipline, &self.program.nodes[node].discipline) {
                self.scripts.nodes[node] = state;
            }
        }
    }

    pub(crate) fn change(&mut self, program: &Program, heirs: &[(LaneId, LaneId)], now: Instant) {
        let arrival = |_, tags: &Tags, discipline: &LeafDiscipline| match discipline {
            LeafDiscipline::Fifo => tags.start as u64,
            LeafDiscipline::Fair => tags.order,
            LeafDiscipline::Custom(_) => unreachable!("the arrivals of its flows are known"),
        };
        self.change_by(program, heirs, now, arrival, |_| Head::default());
    }

    fn changed_limit(&self, at: usize, now: Instant) -> Limit {
        let spec: &LimitSpec = &self.program.limits[at];
        let (now, rate) = (u128::from(now.as_nanos()), u128::from(spec.rate.get()));
        let tat = match self.limits.get(at) {
            Some(known) if !spec.is_vacant() && known.rate == rate => known.tat,
            Some(known) if !spec.is_vacant() => known.tat_at(rate, now),
            _ => 0,
        };
        Limit { rate, burst: spec.burst, tat }
    }

    fn changed_leaf(&self, old: &Program, leaf: usize) -> u128 {
        let used = self.program.lanes.iter().any(|lane| lane.leaf.index() == leaf);
        match old.leaves.get(leaf) {
            Some(known) if used && same_order(&known.discipline, &self.program.leaves[leaf].discipline) => {
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
            if custom_of_node(&self.program, at).is_some() {
                let mut new = script::places(&self.program, at);
                let same = old.nodes.get(at).filter(|old| same_node(&old.discipline, &node.discipline));
                for (place, child) in new.iter_mut().zip(&node.children).filter(|_| same.is_some()) {
                    if let Some(before) = slot_before(old, &self.program, at, *child) {
                        place.script = old_places[at][before].script.clone();
                    }
                }
                places.push(new);
                continue;
            }
            let place = |(slot, child): (usize, &Child)| {
                let Some((new, weights)) = known else { return Place::default() };
                let Some(before) = slot_before(old, &self.program, at, *child) else {
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
        let arrival = |tags: &Tags, discipline: &LeafDiscipline| match discipline {
            LeafDiscipline::Fifo => tags.start as u64,
            LeafDiscipline::Fair => tags.order,
            LeafDiscipline::Custom(_) => unreachable!("the arrivals of its flows are known"),
        };
        self.move_flow_by(at, lane, arrival, Head::default)
    }

    pub(crate) fn move_flow_by(
        &mut self,
        at: FlowId,
        lane: LaneId,
        arrival: impl Fn(&Tags, &LeafDiscipline) -> u64,
        waiting: impl FnOnce() -> Head,
    ) -> bool {
        if !self.exists(at) {
            return false;
        }
        let scripted = self.is_scripted(at);
        let ghost = self.flows[at.index()].clone();
        let flow = &mut self.flows[at.index()];
        let from = std::mem::replace(&mut flow.lane, lane.index());
        let (before, after) = (self.program.lanes[from].leaf, self.program.lanes[lane.index()].leaf);
        if before == after {
            self.forget_empty();
            self.rise(after.index(), &Event::Moved, Cause::Change);
            return true;
        }
        let arrival = match &self.program.leaves[before.index()].discipline {
            LeafDiscipline::Custom(_) => self.scripts.heads[at.index()].arrival,
            native => arrival(&flow.tags, native),
        };
        flow.tags = Tags::default();
        flow.script = script::of_flow(&self.program, lane.index());
        if flow.backlogged {
            if !scripted {
                self.scripts.heads[at.index()] = waiting();
            }
            self.scripts.heads[at.index()].arrival = arrival;
            // The new place first: what is above both leaves sees no gap.
            self.flows.push(super::Flow { leaves: true, ..ghost });
            self.scripts.heads.push(self.scripts.heads[at.index()]);
            self.enter(at.index(), arrival);
            self.rise(after.index(), &Event::Moved, Cause::Change);
            self.flows.pop();
            self.scripts.heads.pop();
            self.forget_empty();
            self.rise(before.index(), &Event::Moved, Cause::Change);
        }
        true
    }

    /// Takes lanes without backlogged flows out of the shaping queue.
    fn forget_empty(&mut self) {
        let flows = &self.flows;
        self.parked
            .retain(|parked| flows.iter().any(|f| f.backlogged && !f.removed && f.lane == parked.lane));
    }
}

/// The slot below node `at` of `old` whose place `child` of that node takes: that of the same child, or of the only child that
/// is gone from the node and has a leaf of this one, which is then the only new child with a leaf of that one.
fn slot_before(old: &Program, new: &Program, at: usize, child: Child) -> Option<usize> {
    let (before, after) = (&old.nodes[at].children, &new.nodes[at].children);
    if let Some(slot) = before.iter().position(|other| *other == child) {
        return Some(slot);
    }
    let shares = |gone: Child, child: Child| {
        let leaves = leaves_below(old, gone);
        leaves_below(new, child).iter().any(|leaf| leaves.contains(leaf))
    };
    let gone: Vec<Child> = before.iter().copied().filter(|gone| !after.contains(gone)).collect();
    let [one] = gone.into_iter().filter(|gone| shares(*gone, child)).collect::<Vec<_>>()[..] else {
        return None;
    };
    let rivals = after.iter().filter(|other| !before.contains(other) && shares(one, **other)).count();
    before.iter().position(|other| *other == one).filter(|_| rivals == 1)
}

fn leaves_below(program: &Program, child: Child) -> Vec<usize> {
    match child {
        Child::Leaf(leaf) => vec![leaf.index()],
        Child::Node(node) => program.nodes[node.index()]
            .children
            .iter()
            .flat_map(|child| leaves_below(program, *child))
            .collect(),
    }
}

/// Whether a leaf keeps its order.
fn same_order(old: &LeafDiscipline, new: &LeafDiscipline) -> bool {
    match (old, new) {
        (LeafDiscipline::Custom(old), LeafDiscipline::Custom(new)) => old.algorithm == new.algorithm,
        _ => old == new,
    }
}

fn same_dropper(old: &LeafDiscipline, new: &LeafDiscipline) -> bool {
    let dropper = |discipline: &LeafDiscipline| match discipline {
        LeafDiscipline::Custom(custom) => custom.dropper.as_ref().map(|dropper| dropper.algorithm.clone()),
        _ => None,
    };
    dropper(old) == dropper(new)
}

fn same_node(old: &Discipline, new: &Discipline) -> bool {
    match (old, new) {
        (Discipline::Custom(old), Discipline::Custom(new)) => old.algorithm == new.algorithm,
        _ => false,
    }
}

fn exists(program: &Program, lane: usize) -> bool {
    program.lanes.get(lane).is_some_and(|lane| !lane.is_vacant())
}
