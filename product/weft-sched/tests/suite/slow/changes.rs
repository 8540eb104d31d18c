//! Random changes of a program.

use weft_sched::{Child, Discipline, LaneSpec, LeafDiscipline, LeafSpec, LimitSpec, NodeSpec, Program};
use weft_units::testing::Rng;
use weft_units::{BitsPerSec, Bytes, ClassId, LaneId, LeafId, LimitId, NodeId, Packets, Weight};

use super::random;

/// A program under change. Ids that were vacant before the change are free, those that become vacant are not.
struct Change {
    program: Program,
    old: Program,
    rng: Rng,
    /// Whether user-defined algorithms are among the changes.
    scripted: bool,
}

/// A random change of `program` in up to four steps, with a random heir for each lane that is gone; equal seeds, equal
/// changes.
pub(crate) fn changed(program: &Program, seed: u64) -> (Program, Vec<(LaneId, LaneId)>) {
    let mut change = Change {
        program: program.clone(),
        old: program.clone(),
        rng: Rng::new(seed),
        scripted: is_scripted(program),
    };
    for _ in 0..1 + change.rng.below(4) {
        change.step();
    }
    let lanes = change.lanes();
    let gone = |at: &usize| {
        let stays = change.program.lanes.get(*at).is_some_and(|lane| !lane.is_vacant());
        !program.lanes[*at].is_vacant() && !stays
    };
    let gone: Vec<usize> = (0..program.lanes.len()).filter(gone).collect();
    let mut heir = |at: usize| {
        (LaneId::from_index(at), LaneId::from_index(lanes[change.rng.below(lanes.len() as u32) as usize]))
    };
    (change.program.clone(), gone.into_iter().map(&mut heir).collect())
}

impl Change {
    fn step(&mut self) {
        match self.rng.below(14) {
            0 => self.weights(),
            1 => self.rates(),
            2 => drop(self.pick_leaf().map(|leaf| self.add_lane(leaf))),
            3 => self.remove_lane(),
            4 => self.add_leaf(),
            5 => self.remove_leaf(),
            6 => self.flip_node(),
            7 => self.flip_leaf(),
            8 => self.move_child(),
            9 => self.limits(),
            10 => self.remove_limit(),
            11 => self.wrap(),
            12 => self.move_lane(),
            _ if self.rng.below(4) == 0 => {
                let seed = u64::from(self.rng.below(1 << 30));
                self.program = if self.scripted { random::scripted(seed) } else { random::program(seed) };
            }
            _ => {}
        }
    }

    fn below(&mut self, count: usize) -> usize {
        self.rng.below(count.max(1) as u32) as usize
    }

    fn pick(&mut self, from: Vec<usize>) -> Option<usize> {
        let at = self.below(from.len());
        from.get(at).copied()
    }

    fn lanes(&self) -> Vec<usize> {
        (0..self.program.lanes.len()).filter(|at| !self.program.lanes[*at].is_vacant()).collect()
    }

    fn pick_leaf(&mut self) -> Option<usize> {
        let leaves = &self.program.leaves;
        self.pick((0..leaves.len()).filter(|at| !leaves[*at].is_vacant()).collect())
    }

    fn pick_node(&mut self, least: usize) -> Option<usize> {
        let nodes = &self.program.nodes;
        self.pick((0..nodes.len()).filter(|at| nodes[*at].children.len() >= least).collect())
    }

    fn weights(&mut self) {
        let Some(node) = self.pick_node(1) else { return };
        if let Discipline::Wfq(weights) = &mut self.program.nodes[node].discipline {
            let equal = (self.rng.below(3) == 0).then(|| random::weight(&mut self.rng));
            for weight in weights {
                *weight = Weight::new(equal.unwrap_or_else(|| random::weight(&mut self.rng))).unwrap();
            }
        } else if let Discipline::Custom(custom) = &mut self.program.nodes[node].discipline {
            let mut new = (**custom).clone();
            for list in &mut new.parameters {
                *list = random::parameters(&mut self.rng, &new.algorithm);
            }
            *custom = new.into();
        }
    }

    fn rates(&mut self) {
        for limit in self.program.limits.iter_mut().filter(|limit| !limit.is_vacant()) {
            limit.rate = BitsPerSec(random::rate(&mut self.rng));
            limit.burst = Bytes([0, 1500, 20_000][self.rng.below(3) as usize]);
        }
    }

    fn add_lane(&mut self, leaf: usize) {
        let usable: Vec<usize> =
            (0..self.program.limits.len()).filter(|at| !self.program.limits[*at].is_vacant()).collect();
        let limits = usable.into_iter().filter(|_| self.rng.below(3) == 0).map(LimitId::from_index);
        let spec = LaneSpec {
            class: ClassId(0),
            leaf: LeafId::from_index(leaf),
            limits: limits.collect(),
            packet_bound: Packets(1000),
        };
        let free = self.old.lanes.iter().position(LaneSpec::is_vacant);
        match free.filter(|at| self.program.lanes.get(*at).is_some_and(LaneSpec::is_vacant)) {
            Some(at) => self.program.lanes[at] = spec,
            None => self.program.lanes.push(spec),
        }
    }

    fn remove_lane(&mut self) {
        let lanes = self.lanes();
        if lanes.len() > 1
            && let Some(lane) = self.pick(lanes)
        {
            self.program.lanes[lane] = LaneSpec::vacant();
        }
    }

    fn new_node(&mut self, spec: NodeSpec) -> Child {
        let free = self.old.nodes.iter().position(NodeSpec::is_vacant);
        let free = free.filter(|at| self.program.nodes.get(*at).is_some_and(NodeSpec::is_vacant));
        let at = free.unwrap_or(self.program.nodes.len());
        if at == self.program.nodes.len() {
            self.program.nodes.push(spec);
        } else {
            self.program.nodes[at] = spec;
        }
        Child::Node(NodeId::from_index(at))
    }

    fn add_leaf(&mut self) {
        let Some(node) = self.pick_node(1) else { return };
        let discipline = random::leaf_discipline(&mut self.rng, self.scripted);
        let spec = LeafSpec { name: "added".to_owned(), discipline };
        let free = self.old.leaves.iter().position(LeafSpec::is_vacant);
        let free = free.filter(|at| self.program.leaves.get(*at).is_some_and(LeafSpec::is_vacant));
        let at = free.unwrap_or(self.program.leaves.len());
        if at == self.program.leaves.len() {
            self.program.leaves.push(spec);
        } else {
            self.program.leaves[at] = spec;
        }
        self.insert(node, Child::Leaf(LeafId::from_index(at)));
        self.add_lane(at);
    }

    fn insert(&mut self, node: usize, child: Child) {
        let at = self.below(self.program.nodes[node].children.len() + 1);
        self.program.nodes[node].children.insert(at, child);
        if let Discipline::Wfq(weights) = &mut self.program.nodes[node].discipline {
            weights.insert(at, Weight::new(random::weight(&mut self.rng)).unwrap());
        }
        if let Discipline::Custom(custom) = &mut self.program.nodes[node].discipline {
            let mut new = (**custom).clone();
            new.parameters.insert(at, random::parameters(&mut self.rng, &new.algorithm));
            *custom = new.into();
        }
    }

    fn take(&mut self, node: usize, slot: usize) -> Child {
        let spec = &mut self.program.nodes[node];
        if let Discipline::Wfq(weights) = &mut spec.discipline {
            weights.remove(slot);
        }
        if let Discipline::Custom(custom) = &mut spec.discipline {
            let mut new = (**custom).clone();
            new.parameters.remove(slot);
            *custom = new.into();
        }
        spec.children.remove(slot)
    }

    fn remove_leaf(&mut self) {
        let Some(node) = self.pick_node(2) else { return };
        let slot = self.below(self.program.nodes[node].children.len());
        let Child::Leaf(leaf) = self.program.nodes[node].children[slot] else { return };
        if self.lanes().iter().all(|lane| self.program.lanes[*lane].leaf == leaf) {
            return;
        }
        self.take(node, slot);
        self.program.leaves[leaf.index()] = LeafSpec::vacant();
        for lane in self.program.lanes.iter_mut().filter(|lane| lane.leaf == leaf) {
            *lane = LaneSpec::vacant();
        }
    }

    fn flip_node(&mut self) {
        let Some(node) = self.pick_node(1) else { return };
        let spec = &mut self.program.nodes[node];
        spec.discipline = match &spec.discipline {
            _ if self.scripted && self.rng.below(2) == 0 => {
                random::custom_node(&mut self.rng, spec.children.len())
            }
            known => {
                let next = known.native().map_or(0, |at| (at + 1) % Discipline::NATIVE.len());
                Discipline::NATIVE[next](vec![Weight::ONE; spec.children.len()])
            }
        };
    }

    fn flip_leaf(&mut self) {
        let Some(leaf) = self.pick_leaf() else { return };
        let discipline = &mut self.program.leaves[leaf].discipline;
        *discipline = match discipline {
            _ if self.scripted && self.rng.below(2) == 0 => random::leaf_discipline(&mut self.rng, true),
            LeafDiscipline::Fifo | LeafDiscipline::Custom(_) => LeafDiscipline::Fair,
            LeafDiscipline::Fair => LeafDiscipline::Fifo,
        };
    }

    fn move_child(&mut self) {
        let (Some(from), Some(to)) = (self.pick_node(2), self.pick_node(1)) else { return };
        let slot = self.below(self.program.nodes[from].children.len());
        let child = self.program.nodes[from].children[slot];
        if !self.below_or_at(child, to) {
            let child = self.take(from, slot);
            self.insert(to, child);
        }
    }

    fn below_or_at(&self, child: Child, node: usize) -> bool {
        match child {
            Child::Leaf(_) => false,
            Child::Node(id) if id.index() == node => true,
            Child::Node(id) => {
                self.program.nodes[id.index()].children.iter().any(|c| self.below_or_at(*c, node))
            }
        }
    }

    fn limits(&mut self) {
        let name = format!("limit{}", self.program.limits.len());
        let rate = BitsPerSec(random::rate(&mut self.rng));
        let free = self.old.limits.iter().position(LimitSpec::is_vacant);
        let free = free.filter(|at| self.program.limits.get(*at).is_some_and(LimitSpec::is_vacant));
        let at = free.unwrap_or(self.program.limits.len());
        let spec = LimitSpec { name, rate, burst: Bytes(1500) };
        if at == self.program.limits.len() {
            self.program.limits.push(spec);
        } else {
            self.program.limits[at] = spec;
        }
        for lane in self.program.lanes.iter_mut().filter(|lane| !lane.is_vacant()) {
            if self.rng.below(2) == 0 {
                lane.limits.push(LimitId::from_index(at));
            }
        }
    }

    fn remove_limit(&mut self) {
        let at = self.below(self.program.limits.len());
        let Some(limit) = self.program.limits.get_mut(at) else { return };
        *limit = LimitSpec::vacant();
        for lane in &mut self.program.lanes {
            lane.limits.retain(|limit| limit.index() != at);
        }
    }

    fn wrap(&mut self) {
        let name = "wrapped".to_owned();
        let discipline = Discipline::Wfq(vec![Weight::ONE]);
        match self.pick_node(1) {
            Some(node) => {
                let slot = self.below(self.program.nodes[node].children.len());
                let children = vec![self.program.nodes[node].children[slot]];
                let child = self.new_node(NodeSpec { name, discipline, children });
                self.program.nodes[node].children[slot] = child;
            }
            None => {
                let children = vec![self.program.root];
                self.program.root = self.new_node(NodeSpec { name, discipline, children });
            }
        }
    }

    fn move_lane(&mut self) {
        let lanes = self.lanes();
        if let (Some(lane), Some(leaf)) = (self.pick(lanes), self.pick_leaf()) {
            self.program.lanes[lane].leaf = LeafId::from_index(leaf);
        }
    }
}

/// Whether a program has user-defined algorithms.
pub(crate) fn is_scripted(program: &Program) -> bool {
    let leaf = program.leaves.iter().any(|leaf| matches!(leaf.discipline, LeafDiscipline::Custom(_)));
    leaf || program.nodes.iter().any(|node| matches!(node.discipline, Discipline::Custom(_)))
}
