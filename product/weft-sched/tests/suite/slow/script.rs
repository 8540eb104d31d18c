//! User-defined algorithms in the slow and obvious scheduler: the same programs, run at the documented events. Sums, minima
//! and heads are found by scanning all children.

use std::sync::Arc;

use weft_rank::{Effects, Eligibility, Execute, Field, Inputs, Metadata, Metadatum, Part, Rank};
use weft_sched::{Child, Custom, Discipline, HeadUse, LeafDiscipline, LeafVerdict, Program};
use weft_units::{Bytes, FlowId, Instant, Packets};

use super::{Cause, Place, Reference};

/// A child under an algorithm, with its reference while it is active.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    pub(super) active: bool,
    pub(super) rank: Rank,
    pub(super) order: u64,
    /// The time that it waits for.
    wait: Option<u64>,
    /// The virtual time that it is held for.
    held: Option<u64>,
    until: Option<(u64, Rank)>,
    pub(super) idle_since: u64,
    pub(super) state: Vec<u64>,
    /// Its state in the leaf's dropper.
    pub(super) drops: Vec<u64>,
    /// The head that it was ranked with.
    pub(super) head: Option<(usize, u64)>,
    turn_rank: Rank,
}

impl Script {
    pub(super) fn is_eligible(&self) -> bool {
        self.active && self.wait.is_none() && self.held.is_none()
    }

    pub(super) fn key(&self) -> (Rank, u64) {
        (self.rank, self.order)
    }
}

/// The first packet of a flow, and the packets and bytes that wait.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Head {
    pub(crate) packet: Metadata,
    pub(crate) arrival: u64,
    pub(crate) queued: (u64, u64),
}

/// The state that programs share.
pub(crate) struct States {
    clock: u64,
    pub(super) heads: Vec<Head>,
    pub(super) leaves: Vec<Vec<u64>>,
    pub(super) droppers: Vec<Vec<u64>>,
    pub(super) nodes: Vec<Vec<u64>>,
}

pub(super) fn initial(fields: &[Field]) -> Vec<u64> {
    fields.iter().map(|field| field.initial).collect()
}

pub(super) fn custom_of_leaf(program: &Program, leaf: usize) -> Option<&Arc<Custom>> {
    match &program.leaves.get(leaf)?.discipline {
        LeafDiscipline::Custom(custom) => Some(custom),
        _ => None,
    }
}

pub(super) fn custom_of_node(program: &Program, node: usize) -> Option<&Arc<Custom>> {
    match &program.nodes[node].discipline {
        Discipline::Custom(custom) => Some(custom),
        _ => None,
    }
}

/// A new flow of a lane.
pub(super) fn of_flow(program: &Program, lane: usize) -> Script {
    let Some(custom) = custom_of_leaf(program, program.lanes[lane].leaf.index()) else {
        return Script::default();
    };
    let drops = custom.dropper.iter().flat_map(|dropper| initial(&dropper.algorithm.child)).collect();
    Script { state: initial(&custom.algorithm.child), drops, ..Script::default() }
}

/// New children of a node.
pub(super) fn places(program: &Program, node: usize) -> Vec<Place> {
    let state = custom_of_node(program, node).map_or(Vec::new(), |custom| initial(&custom.algorithm.child));
    let script = Script { state, ..Script::default() };
    vec![Place { script, ..Place::default() }; program.nodes[node].children.len()]
}

impl States {
    pub(super) fn new(program: &Program) -> Self {
        let leaf =
            |at| custom_of_leaf(program, at).map_or(Vec::new(), |custom| initial(&custom.algorithm.node));
        let dropper = |at| {
            let dropper = custom_of_leaf(program, at).and_then(|custom| custom.dropper.as_ref());
            dropper.map_or(Vec::new(), |dropper| initial(&dropper.algorithm.node))
        };
        let node =
            |at| custom_of_node(program, at).map_or(Vec::new(), |custom| initial(&custom.algorithm.node));
        Self {
            clock: 0,
            heads: Vec::new(),
            leaves: (0..program.leaves.len()).map(leaf).collect(),
            droppers: (0..program.leaves.len()).map(dropper).collect(),
            nodes: (0..program.nodes.len()).map(node).collect(),
        }
    }

    /// Makes a flow new.
    pub(super) fn forget(&mut self, flow: usize) {
        self.heads.resize(self.heads.len().max(flow + 1), Head::default());
        self.heads[flow] = Head::default();
    }

    /// Takes what left a flow. Returns the packet of the turn.
    pub(super) fn take(&mut self, flow: usize, taken: (u64, u64), next: Option<(u64, Metadata)>) -> Metadata {
        let head = &mut self.heads[flow];
        let packet = head.packet;
        head.queued = (head.queued.0.saturating_sub(taken.0), head.queued.1.saturating_sub(taken.1));
        (head.arrival, head.packet) = next.unwrap_or_default();
        packet
    }
}

/// An event in a leaf, as it rises.
pub(super) enum Event<'a> {
    Arrived { packet: &'a Metadata },
    Sent { bytes: u64, packet: &'a Metadata },
    Moved,
    Reordered,
}

/// A child under an algorithm: a flow, or a node's child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Who {
    Flow(usize),
    Child(usize, usize),
}

/// The event of a time.
#[derive(Clone, Copy)]
enum Due {
    Lane(usize),
    From(Who),
    Until(Who),
}

/// The inputs of a program that depend on the event.
#[derive(Clone, Copy)]
struct Seen<'a> {
    head: &'a Metadata,
    packet: &'a Metadata,
    bytes: u64,
    more: bool,
}

const UNSEEN: Seen<'static> =
    Seen { head: &Metadata::UNKNOWN, packet: &Metadata::UNKNOWN, bytes: 0, more: false };

impl Reference {
    /// Advances the time that programs see.
    pub(crate) fn observe_time(&mut self, now: Instant) {
        self.observe(now);
    }

    pub(super) fn observe(&mut self, now: Instant) {
        self.scripts.clock = self.scripts.clock.max(now.as_nanos());
    }

    /// Whether the flow's leaf or a node above it has an algorithm.
    pub(crate) fn is_scripted(&self, at: FlowId) -> bool {
        self.is_scripted_lane(self.flows[at.index()].lane)
    }

    pub(super) fn is_scripted_lane(&self, lane: usize) -> bool {
        let leaf = self.program.lanes[lane].leaf;
        let mut child = Child::Leaf(leaf);
        let mut scripted = custom_of_leaf(&self.program, leaf.index()).is_some();
        while let Some((node, _)) = self.parent(child) {
            scripted |= custom_of_node(&self.program, node).is_some();
            child = Child::Node(weft_units::NodeId::from_index(node));
        }
        scripted
    }

    fn custom(&self, who: Who) -> Arc<Custom> {
        let custom = match who {
            Who::Flow(flow) => {
                custom_of_leaf(&self.program, self.program.lanes[self.flows[flow].lane].leaf.index())
            }
            Who::Child(node, _) => custom_of_node(&self.program, node),
        };
        custom.expect("it has an algorithm").clone()
    }

    fn script(&mut self, who: Who) -> &mut Script {
        match who {
            Who::Flow(flow) => &mut self.flows[flow].script,
            Who::Child(node, slot) => &mut self.places[node][slot].script,
        }
    }

    fn siblings(&self, who: Who) -> Vec<Who> {
        match who {
            Who::Child(node, _) => (0..self.places[node].len()).map(|slot| Who::Child(node, slot)).collect(),
            Who::Flow(flow) => {
                let leaf = self.program.lanes[self.flows[flow].lane].leaf;
                let here = |at: &usize| {
                    let other = &self.flows[*at];
                    !other.removed && !other.leaves && self.program.lanes[other.lane].leaf == leaf
                };
                (0..self.flows.len()).filter(here).map(Who::Flow).collect()
            }
        }
    }

    fn parameters(&self, who: Who, custom: &Custom) -> Vec<u64> {
        let named = || custom.algorithm.parameters.iter().position(|field| field.name == "weight");
        match who {
            Who::Child(_, slot) => custom.parameters[slot].clone(),
            Who::Flow(flow) => {
                let mut parameters = custom.parameters[0].clone();
                let weight = custom.algorithm.aggregates.weights.map(usize::from).or_else(named);
                if let Some(at) = weight {
                    parameters[at] = self.flows[flow].weight as u64;
                }
                parameters
            }
        }
    }

    fn weight(&self, who: Who, custom: &Custom) -> u64 {
        let named = || custom.algorithm.parameters.iter().position(|field| field.name == "weight");
        let at = custom.algorithm.aggregates.weights.map(usize::from).or_else(named);
        at.map_or(1, |at| self.parameters(who, custom)[at])
    }

    /// The packets and bytes that are known to wait in a child.
    fn queued(&self, who: Who) -> (u64, u64) {
        let sum = |flows: Vec<usize>| {
            let queued = flows.iter().map(|flow| self.scripts.heads[*flow].queued);
            queued.fold((0, 0), |sum, queued| (sum.0 + queued.0, sum.1 + queued.1))
        };
        match who {
            Who::Flow(flow) => self.scripts.heads[flow].queued,
            Who::Child(node, slot) => sum(self.backlogged_below(node, slot)),
        }
    }

    fn run(&mut self, who: Who, part: Part, seen: Seen<'_>) -> Effects {
        let custom = self.custom(who);
        let (mut weights, mut lowest) = (0_u64, u64::MAX);
        for other in self.siblings(who) {
            let script = self.script(other).clone();
            weights = weights.saturating_add(self.weight(other, &custom));
            let field = custom.algorithm.aggregates.lowest.filter(|_| script.active && other != who);
            lowest = field.map_or(lowest, |field| lowest.min(script.state[usize::from(field)]));
        }
        let (packets, bytes) = self.queued(who);
        let inputs = Inputs {
            now: Instant::from_nanos(self.scripts.clock),
            bytes: Bytes(seen.bytes),
            more: seen.more,
            rank: self.script(who).turn_rank,
            weights,
            lowest,
            queued_bytes: Bytes(bytes),
            queued_packets: Packets(packets),
            head: *seen.head,
            packet: *seen.packet,
        };
        let parameters = self.parameters(who, &custom);
        let mut child = self.script(who).state.clone();
        let place = match who {
            Who::Flow(flow) => {
                &mut self.scripts.leaves[self.program.lanes[self.flows[flow].lane].leaf.index()]
            }
            Who::Child(node, _) => &mut self.scripts.nodes[node],
        };
        let effects = custom.algorithm.run(part, &inputs, &parameters, place, &mut child);
        self.script(who).state = child;
        effects
    }

    fn clock_of(&self, who: Who) -> Option<u64> {
        let field = usize::from(self.custom(who).algorithm.aggregates.clock?);
        Some(match who {
            Who::Flow(flow) => {
                self.scripts.leaves[self.program.lanes[self.flows[flow].lane].leaf.index()][field]
            }
            Who::Child(node, _) => self.scripts.nodes[node][field],
        })
    }

    fn rank(&mut self, who: Who, seen: Seen<'_>, goes_in: bool) {
        let effects = self.run(who, Part::Rank, seen);
        let order = self.order();
        let (now, clock) = (self.scripts.clock, self.clock_of(who));
        let arrival = if let Who::Flow(flow) = who { self.scripts.heads[flow].arrival } else { 0 };
        let script = self.script(who);
        script.order = if goes_in { order } else { script.order };
        script.rank = effects.rank().unwrap_or(Rank::new(arrival, 0));
        (script.wait, script.held, script.until) = (None, None, None);
        match effects.from() {
            Some(Eligibility::Time(time)) => script.wait = Some(time.as_nanos()).filter(|time| *time > now),
            Some(Eligibility::VirtualTime(from)) => {
                script.held = Some(from).filter(|from| clock < Some(*from))
            }
            None => {}
        }
        if let Some(until) = effects.until() {
            if until.time.as_nanos() <= now {
                script.rank = until.rank;
            } else {
                script.until = Some((until.time.as_nanos(), until.rank));
            }
        }
    }

    pub(super) fn join(&mut self, who: Who, head: &Metadata, arriving: Option<&Metadata>) {
        let custom = self.custom(who);
        let now = self.scripts.clock;
        let script = self.script(who);
        script.active = true;
        let silence = now.saturating_sub(script.idle_since);
        for (field, word) in custom.algorithm.child.iter().zip(&mut script.state) {
            if field.forget.is_some_and(|after| silence >= after.get()) {
                *word = field.initial;
            }
        }
        let seen = Seen { head, packet: arriving.unwrap_or(&Metadata::UNKNOWN), ..UNSEEN };
        self.run(who, Part::Active, seen);
        if arriving.is_some() {
            self.run(who, Part::Arrives, seen);
        }
        self.rank(who, seen, true);
    }

    fn leave(&mut self, who: Who, head: &Metadata) {
        self.run(who, Part::Idle, Seen { head, ..UNSEEN });
        let now = self.scripts.clock;
        let script = self.script(who);
        (script.active, script.idle_since) = (false, now);
        (script.wait, script.until) = (None, None);
    }

    /// Ends the activity of a child that has nothing left since a change.
    pub(super) fn end_child(&mut self, node: usize, slot: usize) {
        let now = self.scripts.clock;
        let script = self.script(Who::Child(node, slot));
        (script.active, script.idle_since) = (false, now);
        (script.wait, script.until) = (None, None);
    }

    /// Whether a child has the turn, or the flow that has it is below.
    fn in_service_below(&self, who: Who) -> bool {
        let Some(flow) = self.in_service else { return false };
        match who {
            Who::Flow(at) => at == flow,
            Who::Child(node, slot) => self.backlogged_below(node, slot).contains(&flow),
        }
    }

    pub(super) fn backlogged_below(&self, node: usize, slot: usize) -> Vec<usize> {
        let below = |at: &usize| {
            let flow = &self.flows[*at];
            if !flow.backlogged || flow.removed {
                return false;
            }
            let mut child = Child::Leaf(self.program.lanes[flow.lane].leaf);
            let mut found = false;
            while let Some((parent, place)) = self.parent(child) {
                found |= (parent, place) == (node, slot);
                child = Child::Node(weft_units::NodeId::from_index(parent));
            }
            found
        };
        (0..self.flows.len()).filter(below).collect()
    }

    /// The flow at the head of a child.
    pub(super) fn head_below(&self, child: Child) -> Option<usize> {
        match child {
            Child::Leaf(leaf) => self.best_flow_of(leaf.index(), |flow| !flow.leaves),
            Child::Node(node) => {
                let slot = self.best_slot(node.index())?;
                self.head_below(self.program.nodes[node.index()].children[slot])
            }
        }
    }

    /// Handles an event below a child of a node with an algorithm.
    pub(super) fn pass(&mut self, node: usize, slot: usize, event: &Event<'_>) {
        let who = Who::Child(node, slot);
        let follows = self.custom(who).head == HeadUse::Followed;
        let flow = self.head_below(self.program.nodes[node].children[slot]);
        let id = flow.map(|flow| (flow, self.scripts.heads[flow].arrival));
        let first =
            flow.filter(|_| follows).map_or(Metadata::UNKNOWN, |flow| self.scripts.heads[flow].packet);
        let show = |packet: &Metadata| if follows { *packet } else { Metadata::UNKNOWN };
        let (was_active, is_active) =
            (self.script(who).active, !self.backlogged_below(node, slot).is_empty());
        let mut ranked = is_active;
        match event {
            Event::Sent { bytes, packet } => {
                let packet = show(packet);
                let ended = Seen { head: &packet, bytes: *bytes, more: is_active, ..UNSEEN };
                self.run(who, Part::Sent, ended);
                if is_active {
                    self.rank(who, Seen { head: &first, ..UNSEEN }, true);
                } else {
                    self.leave(who, &packet);
                }
            }
            Event::Arrived { packet } if is_active && !was_active => {
                self.join(who, &first, Some(&show(packet)))
            }
            _ if is_active && !was_active => self.join(who, &first, None),
            _ if was_active && !is_active => self.leave(who, &first),
            Event::Arrived { packet } => {
                ranked = false;
                let packet = show(packet);
                let seen = Seen { head: &first, packet: &packet, ..UNSEEN };
                let effects = self.run(who, Part::Arrives, seen);
                if effects.reranks() && !self.in_service_below(who) {
                    self.rank(who, seen, false);
                }
            }
            _ => ranked = false,
        }
        self.follow(who, id, ranked, &first);
        self.settle_script(
            &(0..self.places[node].len()).map(|slot| Who::Child(node, slot)).collect::<Vec<_>>(),
        );
    }

    /// Ranks a child anew whose head changed.
    pub(super) fn follow(&mut self, who: Who, id: Option<(usize, u64)>, ranked: bool, first: &Metadata) {
        if self.custom(who).head != HeadUse::Followed || !self.script(who).active {
            return;
        }
        if ranked {
            self.script(who).head = id;
        } else if id.is_some() && self.script(who).head != id && !self.in_service_below(who) {
            self.script(who).head = id;
            self.rank(who, Seen { head: first, ..UNSEEN }, false);
        }
    }

    pub(super) fn settle_leaf(&mut self, leaf: usize) {
        if custom_of_leaf(&self.program, leaf).is_some() {
            let here = |at: &usize| {
                let flow = &self.flows[*at];
                !flow.removed && !flow.leaves && self.program.lanes[flow.lane].leaf.index() == leaf
            };
            let flows: Vec<_> = (0..self.flows.len()).filter(here).map(Who::Flow).collect();
            self.settle_script(&flows);
        }
    }

    /// Makes children eligible whose virtual time has come; the clock jumps if none is.
    pub(super) fn settle_script(&mut self, children: &[Who]) {
        let Some(&one) = children.first() else { return };
        let Some(field) = self.custom(one).algorithm.aggregates.clock.map(usize::from) else { return };
        let offering: Vec<Who> = children.iter().copied().filter(|who| self.is_offering(*who)).collect();
        loop {
            let clock = self.clock_of(one);
            for who in &offering {
                let script = self.script(*who);
                script.held = script.held.filter(|from| Some(*from) > clock);
            }
            let held: Vec<Option<u64>> = offering.iter().map(|who| self.script(*who).held).collect();
            let first = held.iter().flatten().min().copied();
            let Some(first) = first.filter(|_| held.iter().all(Option::is_some)) else { return };
            let state = match one {
                Who::Flow(flow) => {
                    &mut self.scripts.leaves[self.program.lanes[self.flows[flow].lane].leaf.index()]
                }
                Who::Child(node, _) => &mut self.scripts.nodes[node],
            };
            state[field] = first;
        }
    }

    /// Whether a child has something that may be sent, apart from virtual time.
    fn is_offering(&self, who: Who) -> bool {
        match who {
            Who::Flow(at) => {
                let flow = &self.flows[at];
                flow.script.active && flow.script.wait.is_none() && !self.is_parked(flow.lane)
            }
            Who::Child(node, slot) => {
                let script = &self.places[node][slot].script;
                script.active && script.wait.is_none() && self.offers(self.program.nodes[node].children[slot])
            }
        }
    }

    pub(crate) fn activate_packet(&mut self, at: FlowId, arrival: u64, packet: &Metadata) {
        let at = at.index();
        self.flows[at].backlogged = true;
        let queued = packet.get(Metadatum::Length).map_or((0, 0), |length| (1, length));
        self.scripts.heads[at] = Head { packet: *packet, arrival, queued };
        let leaf = self.program.lanes[self.flows[at].lane].leaf.index();
        if custom_of_leaf(&self.program, leaf).is_some() {
            self.join(Who::Flow(at), packet, Some(packet));
        } else {
            self.insert_flow(at, arrival);
        }
        self.rise(leaf, &Event::Arrived { packet }, Cause::Activation);
    }

    /// Tells of a further packet of a backlogged flow.
    pub(crate) fn arrived(&mut self, at: FlowId, packet: &Metadata) {
        if !self.is_scripted(at) {
            return;
        }
        let at = at.index();
        let head = &mut self.scripts.heads[at];
        if let Some(length) = packet.get(Metadatum::Length) {
            head.queued = (head.queued.0 + 1, head.queued.1 + length);
        }
        let first = head.packet;
        let leaf = self.program.lanes[self.flows[at].lane].leaf.index();
        if custom_of_leaf(&self.program, leaf).is_some() {
            let seen = Seen { head: &first, packet, ..UNSEEN };
            let effects = self.run(Who::Flow(at), Part::Arrives, seen);
            if effects.reranks() && self.in_service != Some(at) {
                self.rank(Who::Flow(at), seen, false);
            }
        }
        self.rise(leaf, &Event::Arrived { packet }, Cause::Activation);
    }

    pub(super) fn begin_scripts(&mut self, path: &[(usize, usize)], flow: usize) {
        let packet = self.scripts.heads[flow].packet;
        let leaf = self.program.lanes[self.flows[flow].lane].leaf.index();
        let nodes = path.iter().filter(|(node, _)| custom_of_node(&self.program, *node).is_some());
        let mut begun: Vec<Who> = nodes.map(|(node, slot)| Who::Child(*node, *slot)).collect();
        if custom_of_leaf(&self.program, leaf).is_some() {
            begun.push(Who::Flow(flow));
        }
        for who in begun {
            let shows = matches!(who, Who::Flow(_)) || self.custom(who).head == HeadUse::Followed;
            let head = if shows { packet } else { Metadata::UNKNOWN };
            let rank = self.script(who).rank;
            self.script(who).turn_rank = rank;
            self.run(who, Part::Begin, Seen { head: &head, ..UNSEEN });
        }
    }

    /// Ends the turn of a flow in a leaf with an algorithm.
    pub(super) fn end_turn(&mut self, at: usize, sent: Bytes, packet: &Metadata) {
        let more = self.flows[at].backlogged;
        self.run(Who::Flow(at), Part::Sent, Seen { head: packet, bytes: sent.get(), more, ..UNSEEN });
        if more {
            let next = self.scripts.heads[at].packet;
            self.rank(Who::Flow(at), Seen { head: &next, ..UNSEEN }, true);
        } else {
            self.leave(Who::Flow(at), packet);
        }
    }

    /// Whether the packet of the turn is to be dropped or marked.
    pub(crate) fn fetched(&mut self, at: FlowId, now: Instant) -> LeafVerdict {
        self.observe(now);
        let at = at.index();
        let leaf = self.program.lanes[self.flows[at].lane].leaf.index();
        let Some(custom) = custom_of_leaf(&self.program, leaf).cloned() else { return LeafVerdict::Send };
        let packet = self.scripts.heads[at].packet;
        let own = self.run(Who::Flow(at), Part::Fetched, Seen { head: &packet, packet: &packet, ..UNSEEN });
        let mut all = vec![own];
        if let Some(dropper) = &custom.dropper {
            let (packets, bytes) = self.scripts.heads[at].queued;
            let inputs = Inputs {
                queued_bytes: Bytes(bytes),
                queued_packets: Packets(packets),
                head: packet,
                packet,
                ..Inputs::at(Instant::from_nanos(self.scripts.clock))
            };
            let (state, child) = (&mut self.scripts.droppers[leaf], &mut self.flows[at].script.drops);
            all.push(dropper.algorithm.run(Part::Fetched, &inputs, &dropper.parameters[0], state, child));
        }
        match (all.iter().any(Effects::drops), all.iter().any(Effects::marks)) {
            (true, _) => LeafVerdict::Drop,
            (false, true) => LeafVerdict::Mark,
            (false, false) => LeafVerdict::Send,
        }
    }

    /// Handles the first time that has come: of a lane, or of a reference. Returns whether there was one.
    pub(super) fn release_first(&mut self, now: u64) -> bool {
        let lanes =
            self.parked.iter().map(|parked| ((parked.release, parked.order, 0), Due::Lane(parked.lane)));
        let flows = (0..self.flows.len()).map(Who::Flow);
        let children = (0..self.places.len())
            .flat_map(|node| (0..self.places[node].len()).map(move |slot| Who::Child(node, slot)));
        let mut due: Vec<((u64, u64, u8), Due)> = lanes.collect();
        for who in flows.chain(children) {
            let script = match who {
                Who::Flow(flow) => &self.flows[flow].script,
                Who::Child(node, slot) => &self.places[node][slot].script,
            };
            due.extend(script.wait.map(|time| ((time, script.order, 0), Due::From(who))));
            due.extend(script.until.map(|(time, _)| ((time, script.order, 1), Due::Until(who))));
        }
        let Some(&(_, first)) = due.iter().filter(|(key, _)| key.0 <= now).min_by_key(|(key, _)| *key) else {
            return false;
        };
        let who = match first {
            Due::Lane(lane) => {
                self.parked.retain(|parked| parked.lane != lane);
                let leaf = self.program.lanes[lane].leaf.index();
                self.rise(leaf, &Event::Reordered, Cause::Shaping);
                return true;
            }
            Due::From(who) => {
                self.script(who).wait = None;
                who
            }
            Due::Until(who) => {
                let script = self.script(who);
                script.rank = script.until.take().expect("a time").1;
                who
            }
        };
        match who {
            Who::Flow(flow) => {
                let leaf = self.program.lanes[self.flows[flow].lane].leaf.index();
                self.rise(leaf, &Event::Reordered, Cause::Shaping);
            }
            Who::Child(node, _) => {
                let children: Vec<_> =
                    (0..self.places[node].len()).map(|slot| Who::Child(node, slot)).collect();
                self.settle_script(&children);
                let child = Child::Node(weft_units::NodeId::from_index(node));
                self.rise_from(child, &Event::Reordered, Cause::Shaping);
            }
        }
        true
    }

    /// The times that references wait for.
    pub(super) fn waits(&self) -> impl Iterator<Item = u64> {
        let flows = self.flows.iter().filter_map(|flow| flow.script.wait);
        flows.chain(self.places.iter().flatten().filter_map(|place| place.script.wait))
    }
}
