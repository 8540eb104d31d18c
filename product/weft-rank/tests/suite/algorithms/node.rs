//! A node with one reference per child, ranked when it goes in: the rule that algorithms are written for, without an engine's speed.

use std::collections::VecDeque;
use weft_rank::{Algorithm, Effects, Eligibility, Execute, Inputs, Metadata, Metadatum, Part, Rank};
use weft_units::{Bytes, Instant, Packets};

/// A packet that waits, and its name in a test.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Packet {
    pub(crate) name: u32,
    pub(crate) length: u64,
    pub(crate) metadata: Metadata,
}

impl Packet {
    pub(crate) fn new(name: u32, length: u64) -> Self {
        Self { name, length, metadata: Metadata::UNKNOWN.with(Metadatum::Length, length) }
    }

    pub(crate) fn with(mut self, metadatum: Metadatum, value: u64) -> Self {
        self.metadata.set(metadatum, value);
        self
    }
}

#[derive(Debug)]
struct Child {
    parameters: Vec<u64>,
    state: Vec<u64>,
    queue: VecDeque<Packet>,
    /// The effects of the last ranking, and its number.
    ranked: Effects,
    entered: u64,
}

/// A node that runs an algorithm for its children.
pub(crate) struct Node<'a> {
    algorithm: &'a Algorithm,
    state: Vec<u64>,
    children: Vec<Child>,
    entries: u64,
    pub(crate) dropped: Vec<u32>,
}

impl<'a> Node<'a> {
    /// A node with a child for each list of parameters.
    pub(crate) fn new(algorithm: &'a Algorithm, parameters: &[impl AsRef<[u64]>]) -> Self {
        algorithm.validate().expect("an algorithm");
        let initial = |fields: &[weft_rank::Field]| fields.iter().map(|field| field.initial).collect();
        let child = |parameters: &[u64]| {
            assert_eq!(parameters.len(), algorithm.parameters.len(), "{}", algorithm.name);
            Child {
                parameters: parameters.to_vec(),
                state: initial(&algorithm.child),
                queue: VecDeque::new(),
                ranked: Effects::NONE,
                entered: 0,
            }
        };
        Self {
            algorithm,
            state: initial(&algorithm.node),
            children: parameters.iter().map(|own| child(own.as_ref())).collect(),
            entries: 0,
            dropped: Vec::new(),
        }
    }

    /// The number of packets that wait in a child.
    pub(crate) fn waiting(&self, child: usize) -> usize {
        self.children[child].queue.len()
    }

    fn inputs(&self, now: u64, child: usize) -> Inputs {
        let mut inputs = Inputs::at(Instant::from_nanos(now));
        if let Some(weight) = self.algorithm.aggregates.weights {
            inputs.weights = self.children.iter().map(|other| other.parameters[usize::from(weight)]).sum();
        }
        if let Some(lowest) = self.algorithm.aggregates.lowest {
            let others = self
                .children
                .iter()
                .enumerate()
                .filter(|(index, other)| *index != child && !other.queue.is_empty());
            inputs.lowest =
                others.map(|(_, other)| other.state[usize::from(lowest)]).min().unwrap_or(u64::MAX);
        }
        let own = &self.children[child];
        inputs.queued_packets = Packets(own.queue.len() as u64);
        inputs.queued_bytes = Bytes(own.queue.iter().map(|packet| packet.length).sum());
        inputs.head = own.queue.front().map_or(Metadata::UNKNOWN, |packet| packet.metadata);
        inputs
    }

    fn run(&mut self, part: Part, child: usize, inputs: &Inputs) -> Effects {
        let own = &mut self.children[child];
        Execute::run(self.algorithm, part, inputs, &own.parameters, &mut self.state, &mut own.state)
    }

    fn rank(&mut self, now: u64, child: usize) {
        let inputs = self.inputs(now, child);
        self.children[child].ranked = self.run(Part::Rank, child, &inputs);
        self.children[child].entered = self.entries;
        self.entries += 1;
    }

    /// A packet reaches a child.
    pub(crate) fn arrive(&mut self, now: u64, child: usize, packet: Packet) {
        let packet = match packet.metadata.knows(Metadatum::Arrived) {
            true => packet,
            false => packet.with(Metadatum::Arrived, now),
        };
        let idle = self.children[child].queue.is_empty();
        self.children[child].queue.push_back(packet);
        let mut inputs = self.inputs(now, child);
        if idle {
            self.run(Part::Active, child, &inputs);
        }
        inputs.packet = packet.metadata;
        let reranks = self.run(Part::Arrives, child, &inputs).reranks();
        if idle {
            self.rank(now, child);
        } else if reranks {
            let inputs = self.inputs(now, child);
            self.children[child].ranked = self.run(Part::Rank, child, &inputs);
        }
    }

    /// The rank of a waiting child at `now`: `until` may have changed it.
    fn present_rank(&self, now: u64, child: usize) -> Rank {
        let ranked = &self.children[child].ranked;
        let until = ranked.until().filter(|until| until.time.as_nanos() <= now);
        until.map_or(ranked.rank().unwrap_or_default(), |until| until.rank)
    }

    /// The child whose turn it is, with its rank.
    pub(crate) fn choose(&mut self, now: u64) -> Option<(usize, Rank)> {
        let waiting = |node: &Self| {
            let children = node.children.iter().enumerate();
            children.filter(|(_, child)| !child.queue.is_empty()).map(|(index, _)| index).collect::<Vec<_>>()
        };
        let all = waiting(self);
        let clock = self.algorithm.aggregates.clock.map(usize::from);
        let eligible = |node: &Self| {
            let ready = |child: &usize| match node.children[*child].ranked.from() {
                None => true,
                Some(Eligibility::Time(time)) => time.as_nanos() <= now,
                Some(Eligibility::VirtualTime(time)) => time <= clock.map_or(0, |slot| node.state[slot]),
            };
            all.iter().copied().filter(ready).collect::<Vec<_>>()
        };
        let mut ready = eligible(self);
        if let (true, Some(slot)) = (ready.is_empty(), clock) {
            let held = all.iter().map(|child| self.children[*child].ranked);
            let least = held
                .filter(|ranked| ranked.present & Effects::FROM_VIRTUAL_TIME != 0)
                .map(|ranked| ranked.from)
                .min();
            self.state[slot] = least.unwrap_or(self.state[slot]);
            ready = eligible(self);
        }
        let first = ready
            .into_iter()
            .min_by_key(|child| (self.present_rank(now, *child), self.children[*child].entered));
        first.map(|child| (child, self.present_rank(now, child)))
    }

    /// The earliest time at which a child that is held may go, or changes its rank.
    pub(crate) fn next_event(&self, now: u64) -> Option<u64> {
        let waiting = self.children.iter().filter(|child| !child.queue.is_empty());
        let times = waiting.flat_map(|child| {
            let from = match child.ranked.from() {
                Some(Eligibility::Time(time)) => Some(time.as_nanos()),
                _ => None,
            };
            [from, child.ranked.until().map(|until| until.time.as_nanos())]
        });
        times.flatten().filter(|time| *time > now).min()
    }

    /// A turn at `now`, which is the time of all its programs. Nothing, if no child may go.
    pub(crate) fn turn(&mut self, now: u64) -> Option<(usize, Packet)> {
        let (child, rank) = self.choose(now)?;
        let mut inputs = self.inputs(now, child);
        inputs.rank = rank;
        self.run(Part::Begin, child, &inputs);
        let mut sent = None;
        while let (None, Some(packet)) = (sent, self.children[child].queue.front().copied()) {
            let mut inputs = self.inputs(now, child);
            inputs.packet = packet.metadata;
            let drops = self.run(Part::Fetched, child, &inputs).drops();
            self.children[child].queue.pop_front();
            if drops {
                self.dropped.push(packet.name);
            } else {
                sent = Some(packet);
            }
        }
        let length = sent.map_or(0, |packet| packet.length);
        let more = !self.children[child].queue.is_empty();
        let mut inputs = self.inputs(now, child);
        inputs.rank = rank;
        inputs.bytes = Bytes(length);
        inputs.more = more;
        if let (false, Some(packet)) = (more, sent) {
            inputs.head = packet.metadata;
        }
        self.run(Part::Sent, child, &inputs);
        if more {
            self.rank(now, child);
        } else {
            let inputs = self.inputs(now, child);
            self.run(Part::Idle, child, &inputs);
        }
        sent.map(|packet| (child, packet))
    }
}

/// An arrival: time, child, packet.
pub(crate) type Arrival = (u64, usize, Packet);

/// Sends all arrivals over a link of a byte per nanosecond. The result is each packet's name and the start of its turn.
///
/// Arrivals are in order of time. Those during a turn come after the turn's child has been ranked anew.
pub(crate) fn schedule(node: &mut Node<'_>, arrivals: &[Arrival]) -> Vec<(u32, u64)> {
    let (mut now, mut next, mut order) = (0, 0, Vec::new());
    loop {
        while let Some((time, child, packet)) = arrivals.get(next).filter(|(time, ..)| *time <= now) {
            node.arrive(*time, *child, *packet);
            next += 1;
        }
        match node.turn(now) {
            Some((_, packet)) => {
                order.push((packet.name, now));
                now += packet.length;
            }
            None => {
                let times = [arrivals.get(next).map(|(time, ..)| *time), node.next_event(now)];
                match times.into_iter().flatten().min() {
                    Some(time) => now = time,
                    None => return order,
                }
            }
        }
    }
}
