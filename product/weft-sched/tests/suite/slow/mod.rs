//! The slow and obvious scheduler that the engine must agree with, packet by packet.
//!
//! It shares no code with the engine except the units and [`Program`]. Everything is a list that is scanned; eligible
//! lanes are found by checking all of them; tags are exact fractions in `u128`. It is written from the documented
//! semantics of `weft_sched::tree`.

mod change;
pub(crate) mod changes;
pub(crate) mod packets;
pub(crate) mod random;
mod script;

pub(crate) use script::Head;
use script::{Event, Script};
use weft_rank::Metadata;
use weft_sched::{Child, Discipline, LeafDiscipline, Program};
use weft_units::{BitsPerSec, Bytes, FlowId, Instant, LaneId, LimitId};

/// Units of virtual time for a byte at weight 1, as in the engine's documentation.
const SCALE: u128 = 4096;

/// A tag with the fraction that it drops, as `numerator / weight`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tags {
    start: u128,
    finish: u128,
    /// The remainder of the last division.
    rest: u128,
    order: u64,
}

impl Tags {
    fn charge(&mut self, bytes: u128, weight: u128) {
        let rest = if self.start == self.finish { self.rest } else { 0 };
        let numerator = self.start * weight + bytes * SCALE + rest;
        self.finish = numerator / weight;
        self.rest = numerator % weight;
    }
}

#[derive(Clone, Debug)]
struct Flow {
    lane: usize,
    weight: u128,
    backlogged: bool,
    removed: bool,
    tags: Tags,
    script: Script,
    /// A flow on its way to another leaf is still offered by the old one, but is not its head.
    leaves: bool,
}

/// A place in the tree below an inner node.
#[derive(Clone, Debug, Default)]
struct Place {
    present: bool,
    held: Option<u128>,
    tags: Tags,
    script: Script,
}

#[derive(Clone, Debug)]
struct Limit {
    rate: u128,
    burst: Bytes,
    /// The theoretical arrival time in 1/rate nanoseconds.
    tat: u128,
}

impl Limit {
    fn release(&self) -> u64 {
        let burst_time = BitsPerSec(self.rate as u64).time_for(self.burst).get();
        u64::try_from(self.tat / self.rate).unwrap().saturating_sub(burst_time)
    }

    /// The arrival time at another rate, which owes as many bits.
    fn tat_at(&self, rate: u128, now: u128) -> u128 {
        let owed = self.tat.saturating_sub(now * self.rate);
        if owed > 0 { now * rate + owed } else { self.tat / self.rate * rate }
    }
}

#[derive(Clone, Debug)]
struct Parked {
    lane: usize,
    release: u64,
    order: u64,
}

/// The reason that a subtree became or ceased to be backlogged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// Also when a packet's arrival lets something wait for a time.
    Activation,
    /// To the shaping queue, or from there.
    Shaping,
    Service,
    Change,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Turn(FlowId, LaneId),
    Wait(Instant),
    Idle,
}

/// The reference of the turn layer.
pub(crate) struct Reference {
    program: Program,
    flows: Vec<Flow>,
    limits: Vec<Limit>,
    parked: Vec<Parked>,
    leaf_time: Vec<u128>,
    node_time: Vec<u128>,
    places: Vec<Vec<Place>>,
    orders: u64,
    in_service: Option<usize>,
    posted: bool,
    scripts: script::States,
}

impl Reference {
    pub(crate) fn new(program: &Program) -> Self {
        let limit = |l: &weft_sched::LimitSpec| Limit { rate: l.rate.get().into(), burst: l.burst, tat: 0 };
        Self {
            flows: Vec::new(),
            limits: program.limits.iter().map(limit).collect(),
            parked: Vec::new(),
            leaf_time: vec![0; program.leaves.len()],
            node_time: vec![0; program.nodes.len()],
            places: (0..program.nodes.len()).map(|node| script::places(program, node)).collect(),
            orders: 0,
            in_service: None,
            posted: false,
            scripts: script::States::new(program),
            program: program.clone(),
        }
    }

    pub(crate) fn add_flow(&mut self, at: FlowId, lane: LaneId, weight: u32) {
        let flow = Flow {
            lane: lane.index(),
            weight: weight.into(),
            backlogged: false,
            removed: false,
            tags: Tags::default(),
            script: script::of_flow(&self.program, lane.index()),
            leaves: false,
        };
        self.scripts.forget(at.index());
        if at.index() == self.flows.len() {
            self.flows.push(flow);
        } else {
            assert!(self.flows[at.index()].removed, "the engine reused a living slot");
            self.flows[at.index()] = flow;
        }
    }

    pub(crate) fn remove_flow(&mut self, at: FlowId) -> bool {
        let idle = self.exists(at) && !self.flows[at.index()].backlogged;
        if idle {
            self.flows[at.index()].removed = true;
        }
        idle
    }

    pub(crate) fn exists(&self, at: FlowId) -> bool {
        self.flows.get(at.index()).is_some_and(|flow| !flow.removed)
    }

    pub(crate) fn is_active(&self, at: FlowId) -> bool {
        self.exists(at) && self.flows[at.index()].backlogged
    }

    pub(crate) fn lane_of(&self, at: FlowId) -> LaneId {
        LaneId::from_index(self.flows[at.index()].lane)
    }

    pub(crate) fn set_weight(&mut self, at: FlowId, weight: u32) {
        self.flows[at.index()].weight = weight.into();
        self.flows[at.index()].tags.rest = 0;
    }

    pub(crate) fn set_rate(&mut self, limit: LimitId, rate: u64, now: Instant) {
        let limit = &mut self.limits[limit.index()];
        let (now, rate) = (u128::from(now.as_nanos()), u128::from(rate));
        limit.tat = limit.tat_at(rate, now);
        limit.rate = rate;
        for at in 0..self.parked.len() {
            self.parked[at].release = self.lane_release(self.parked[at].lane);
        }
    }

    fn order(&mut self) -> u64 {
        self.orders += 1;
        self.orders
    }

    /// The number of a packet that arrives now.
    pub(crate) fn arrival(&mut self) -> u64 {
        self.order()
    }

    pub(crate) fn activate(&mut self, at: FlowId) {
        if self.is_active(at) {
            self.posted |= self.in_service == Some(at.index());
            self.arrived(at, &Metadata::UNKNOWN);
        } else if self.exists(at) {
            let arrival = self.order();
            self.activate_at(at, arrival);
        }
    }

    pub(crate) fn activate_at(&mut self, at: FlowId, arrival: u64) {
        self.activate_packet(at, arrival, &Metadata::UNKNOWN);
    }

    fn insert_flow(&mut self, at: usize, arrival: u64) {
        let order = self.order();
        let leaf = self.program.lanes[self.flows[at].lane].leaf.index();
        let tags = &mut self.flows[at].tags;
        tags.order = order;
        tags.start = match self.program.leaves[leaf].discipline {
            LeafDiscipline::Fifo => arrival.into(),
            LeafDiscipline::Fair => tags.finish.max(self.leaf_time[leaf]),
            LeafDiscipline::Custom(_) => unreachable!("programs rank its flows"),
        };
    }

    fn is_parked(&self, lane: usize) -> bool {
        self.parked.iter().any(|parked| parked.lane == lane)
    }

    fn lane_release(&self, lane: usize) -> u64 {
        let limits = self.program.lanes[lane].limits.iter();
        limits.map(|limit| self.limits[limit.index()].release()).max().unwrap_or(0)
    }

    /// The flow that a leaf offers.
    fn best_flow(&self, leaf: usize) -> Option<usize> {
        self.best_flow_of(leaf, |_| true)
    }

    fn best_flow_of(&self, leaf: usize, wanted: impl Fn(&Flow) -> bool) -> Option<usize> {
        let offers = |flow: &Flow| {
            flow.backlogged
                && wanted(flow)
                && !flow.removed
                && self.program.lanes[flow.lane].leaf.index() == leaf
                && !self.is_parked(flow.lane)
        };
        let candidates = self.flows.iter().enumerate().filter(|(_, flow)| offers(flow));
        if let LeafDiscipline::Custom(_) = self.program.leaves[leaf].discipline {
            let eligible = candidates.filter(|(_, flow)| flow.script.is_eligible());
            return eligible.min_by_key(|(_, flow)| flow.script.key()).map(|(at, _)| at);
        }
        candidates.min_by_key(|(_, flow)| (flow.tags.start, flow.tags.order)).map(|(at, _)| at)
    }

    fn offers(&self, child: Child) -> bool {
        match child {
            Child::Leaf(leaf) => self.best_flow(leaf.index()).is_some(),
            Child::Node(node) => {
                (0..self.places[node.index()].len()).any(|slot| self.takes_part(node.index(), slot))
            }
        }
    }

    /// Whether a child offers something and its node may serve it.
    fn takes_part(&self, node: usize, slot: usize) -> bool {
        let spec = &self.program.nodes[node];
        let custom = matches!(spec.discipline, Discipline::Custom(_));
        self.offers(spec.children[slot]) && (!custom || self.places[node][slot].script.is_eligible())
    }

    /// Compares the offer of each child of a node with its previous one, and gives tags to those that changed.
    fn settle(&mut self, node: usize, cause: Cause) {
        for slot in 0..self.places[node].len() {
            let offers = self.offers(self.program.nodes[node].children[slot]);
            let order = self.order();
            let time = self.node_time[node];
            let place = &mut self.places[node][slot];
            if offers && !place.present {
                let fresh = place.tags.finish.max(time);
                let held = place.held.take();
                place.tags.start = if cause == Cause::Shaping { held.unwrap_or(fresh) } else { fresh };
                place.tags.order = order;
            }
            if !offers && place.present && matches!(cause, Cause::Shaping | Cause::Activation) {
                place.held = Some(place.tags.start);
            }
            place.present = offers;
        }
    }

    /// Carries an event in a leaf up to the root.
    fn rise(&mut self, leaf: usize, event: &Event<'_>, cause: Cause) {
        self.settle_leaf(leaf);
        self.rise_from(Child::Leaf(weft_units::LeafId::from_index(leaf)), event, cause);
    }

    fn rise_from(&mut self, mut child: Child, event: &Event<'_>, cause: Cause) {
        while let Some((node, slot)) = self.parent(child) {
            if let Discipline::Custom(_) = self.program.nodes[node].discipline {
                self.pass(node, slot, event);
            } else {
                if let Event::Sent { bytes, .. } = event {
                    self.charge(node, slot, u128::from(*bytes));
                }
                self.settle(node, cause);
            }
            child = Child::Node(weft_units::NodeId::from_index(node));
        }
    }

    /// The child that a node serves next.
    fn best_slot(&self, node: usize) -> Option<usize> {
        let slots = 0..self.places[node].len();
        let tags = |slot: &usize| (self.places[node][*slot].tags.start, self.places[node][*slot].tags.order);
        let present = |slot: &usize| self.places[node][*slot].present;
        match self.program.nodes[node].discipline {
            Discipline::Priority => slots.filter(present).min(),
            Discipline::Wfq(_) => slots.filter(present).min_by_key(tags),
            Discipline::Custom(_) => {
                let part = slots.filter(|slot| self.takes_part(node, *slot));
                part.min_by_key(|slot| self.places[node][*slot].script.key())
            }
        }
    }

    /// The path of children from the root, and the flow at its end.
    fn best(&self) -> Option<(Vec<(usize, usize)>, usize)> {
        let mut path = Vec::new();
        let mut at = self.program.root;
        loop {
            let node = match at {
                Child::Leaf(leaf) => return self.best_flow(leaf.index()).map(|flow| (path, flow)),
                Child::Node(node) => node.index(),
            };
            let slot = self.best_slot(node)?;
            path.push((node, slot));
            at = self.program.nodes[node].children[slot];
        }
    }

    pub(crate) fn next(&mut self, now: Instant) -> Answer {
        self.in_service = None;
        self.posted = false;
        self.observe(now);
        while self.release_first(now.as_nanos()) {}
        while let Some((path, flow)) = self.best() {
            let lane = self.flows[flow].lane;
            let release = self.lane_release(lane);
            if release <= now.as_nanos() {
                self.begin(&path, flow);
                return Answer::Turn(FlowId::from_index(flow), LaneId::from_index(lane));
            }
            let order = self.order();
            self.parked.push(Parked { lane, release, order });
            let leaf = self.program.lanes[lane].leaf.index();
            self.rise(leaf, &Event::Reordered, Cause::Shaping);
        }
        let first = self.parked.iter().map(|parked| parked.release).chain(self.waits()).min();
        first.map_or(Answer::Idle, |release| Answer::Wait(Instant::from_nanos(release)))
    }

    fn begin(&mut self, path: &[(usize, usize)], flow: usize) {
        for &(node, slot) in path {
            self.node_time[node] = self.node_time[node].max(self.places[node][slot].tags.start);
        }
        let leaf = self.program.lanes[self.flows[flow].lane].leaf.index();
        if self.program.leaves[leaf].discipline == LeafDiscipline::Fair {
            self.leaf_time[leaf] = self.leaf_time[leaf].max(self.flows[flow].tags.start);
        }
        self.in_service = Some(flow);
        self.begin_scripts(path, flow);
    }

    pub(crate) fn finish(&mut self, sent: Bytes, backlogged: bool, now: Instant) {
        let arrival = (backlogged || self.posted).then(|| self.order());
        self.finish_at(sent, arrival, now);
    }

    pub(crate) fn finish_at(&mut self, sent: Bytes, next_arrival: Option<u64>, now: Instant) {
        self.finish_packet(sent, (0, 0), next_arrival.map(|arrival| (arrival, Metadata::UNKNOWN)), now);
    }

    /// Ends a turn in which `taken` packets and bytes left the flow.
    pub(crate) fn finish_packet(
        &mut self,
        sent: Bytes,
        taken: (u64, u64),
        next: Option<(u64, Metadata)>,
        now: Instant,
    ) {
        self.observe(now);
        let at = self.in_service.take().expect("a turn is outstanding");
        let bytes = u128::from(sent.get());
        let lane = self.flows[at].lane;
        for limit in &self.program.lanes[lane].limits {
            let limit = &mut self.limits[limit.index()];
            limit.tat = limit.tat.max(u128::from(now.as_nanos()) * limit.rate) + bytes * 8_000_000_000;
        }
        let leaf = self.program.lanes[lane].leaf;
        if self.program.leaves[leaf.index()].discipline == LeafDiscipline::Fair {
            let weight = self.flows[at].weight;
            self.flows[at].tags.charge(bytes, weight);
        }
        self.flows[at].backlogged = next.is_some();
        let packet = self.scripts.take(at, taken, next);
        if let LeafDiscipline::Custom(_) = self.program.leaves[leaf.index()].discipline {
            self.end_turn(at, sent, &packet);
        } else if let Some((arrival, _)) = next {
            self.insert_flow(at, arrival);
        }
        let event = Event::Sent { bytes: sent.get(), packet: &packet };
        self.rise(leaf.index(), &event, Cause::Service);
    }

    /// Charges the child at `slot` of a node.
    fn charge(&mut self, node: usize, slot: usize, bytes: u128) {
        let offers = self.offers(self.program.nodes[node].children[slot]);
        let order = self.order();
        let time = self.node_time[node];
        let tags = &mut self.places[node][slot].tags;
        if let Discipline::Wfq(weights) = &self.program.nodes[node].discipline {
            tags.charge(bytes, weights[slot].get().into());
            if offers {
                tags.start = tags.finish.max(time);
                tags.order = order;
            }
        }
    }

    fn parent(&self, child: Child) -> Option<(usize, usize)> {
        let nodes = self.program.nodes.iter().enumerate();
        nodes.filter_map(|(n, node)| Some((n, node.children.iter().position(|c| *c == child)?))).next()
    }

    /// Whether a packet could be sent at `now`, as work conservation requires. Unknown where programs may hold packets back.
    pub(crate) fn could_send(&self, now: Instant) -> Option<bool> {
        if changes::is_scripted(&self.program) {
            return None;
        }
        let backlogged = self.flows.iter().filter(|flow| flow.backlogged && !flow.removed);
        Some(backlogged.map(|flow| self.lane_release(flow.lane)).any(|release| release <= now.as_nanos()))
    }
}
