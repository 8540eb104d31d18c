//! A node that runs an algorithm as the guide says, slowly and obviously: one link of 8 Gb/s, on which a byte takes a nanosecond.

use std::collections::VecDeque;
use weft_policy::algorithm::CheckedAlgorithm;
use weft_policy::trial::{Trial, TrialPacket};
use weft_rank::{Algorithm, Effects, Eligibility, Inputs, Kind, Metadata, Metadatum, Part, Rank, Scale};
use weft_units::{Bytes, Instant, Nanos, Packets};

struct Child {
    name: String,
    queue: VecDeque<TrialPacket>,
    state: Vec<u64>,
    parameters: Vec<u64>,
    active: bool,
    /// Its place in the order: rank, time of insertion, from when on it may be chosen.
    place: Option<(Effects, u64)>,
    won: Rank,
}

pub(crate) struct Node<'a> {
    algorithm: &'a Algorithm,
    state: Vec<u64>,
    children: Vec<Child>,
    now: u64,
    inserted: u64,
    pub(crate) drops: Vec<String>,
}

fn initial(fields: &[weft_rank::Field]) -> Vec<u64> {
    fields.iter().map(|field| field.initial).collect()
}

fn metadata(packet: &TrialPacket) -> Metadata {
    let mut all = Metadata::UNKNOWN
        .with(Metadatum::Length, packet.bytes.get())
        .with(Metadatum::Arrived, packet.at.get())
        .with(Metadatum::Priority, packet.prio.unwrap_or(0));
    let times = [
        (Metadatum::Deadline, packet.deadline),
        (Metadatum::Slack, packet.slack),
        (Metadatum::Late, packet.late),
        (Metadatum::SendTime, packet.txtime),
    ];
    for (metadatum, time) in times {
        time.into_iter().for_each(|time| all.set(metadatum, time.get()));
    }
    packet.left.into_iter().for_each(|left| all.set(Metadatum::Left, left.get()));
    packet.pace.into_iter().for_each(|pace| all.set(Metadatum::Pace, Scale::time_per_byte(pace).word()));
    all
}

impl<'a> Node<'a> {
    /// A node over `children`, with their arguments.
    pub(crate) fn new(algorithm: &'a CheckedAlgorithm, children: &[(&str, &str)]) -> Self {
        let child = |(name, arguments): &(&str, &str)| Child {
            name: (*name).to_owned(),
            queue: VecDeque::new(),
            state: initial(&algorithm.program.child),
            parameters: algorithm.arguments(arguments).unwrap_or_else(|| panic!("{name}: {arguments}")),
            active: false,
            place: None,
            won: Rank::default(),
        };
        Self {
            algorithm: &algorithm.program,
            state: initial(&algorithm.program.node),
            children: children.iter().map(child).collect(),
            now: 0,
            inserted: 0,
            drops: Vec::new(),
        }
    }

    fn run(&mut self, part: Part, at: usize, packet: Option<&TrialPacket>, bytes: u64) -> Effects {
        let Some(program) = self.algorithm.parts.get(part) else { return Effects::NONE };
        let mut inputs = Inputs::at(Instant::from_nanos(self.now));
        let active = |child: &&Child| child.active;
        let weight = self.algorithm.aggregates.weights.map(usize::from);
        inputs.weights = weight.map_or(0, |at| self.children.iter().map(|child| child.parameters[at]).sum());
        if let Some(slot) = self.algorithm.aggregates.lowest {
            let others = self.children.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, c)| c);
            let values = others.filter(active).map(|child| child.state[usize::from(slot)]);
            inputs.lowest = values.min().unwrap_or(u64::MAX);
        }
        let child = &mut self.children[at];
        inputs.bytes = Bytes(bytes);
        inputs.more = !child.queue.is_empty();
        inputs.rank = child.won;
        inputs.queued_packets = Packets(child.queue.len() as u64);
        inputs.queued_bytes = Bytes(child.queue.iter().map(|packet| packet.bytes.get()).sum());
        inputs.head = child.queue.front().map_or(Metadata::UNKNOWN, metadata);
        inputs.packet = packet.map_or(Metadata::UNKNOWN, metadata);
        program.run(&inputs, &child.parameters, &mut self.state, &mut child.state)
    }

    fn insert(&mut self, at: usize, keeps: Option<u64>) {
        let effects = self.run(Part::Rank, at, None, 0);
        self.inserted += 1;
        self.children[at].place = Some((effects, keeps.unwrap_or(self.inserted)));
    }

    fn arrive(&mut self, packet: TrialPacket) {
        let name =
            packet.flow.clone().or(packet.class.clone()).unwrap_or_else(|| packet.name[..1].to_owned());
        let at = self.children.iter().position(|child| child.name == name).expect("a child of this name");
        let wakes = !self.children[at].active;
        self.children[at].queue.push_back(packet.clone());
        self.children[at].active = true;
        if wakes {
            self.run(Part::Active, at, None, 0);
        }
        let effects = self.run(Part::Arrives, at, Some(&packet), 0);
        match self.children[at].place {
            _ if wakes => self.insert(at, None),
            Some((_, seq)) if effects.reranks() => self.insert(at, Some(seq)),
            _ => {}
        }
    }

    /// The child that has the next turn, or the time at which there may be one.
    fn choose(&mut self) -> Result<usize, Option<u64>> {
        let mut held: Option<u64> = None;
        let mut virtually: Option<u64> = None;
        let clock = self.algorithm.aggregates.clock.map(usize::from);
        let mut best: Option<(Rank, u64, usize)> = None;
        for (at, child) in self.children.iter().enumerate() {
            let Some((effects, seq)) = child.place else { continue };
            match effects.from() {
                Some(Eligibility::Time(time)) if time.as_nanos() > self.now => {
                    held = Some(held.map_or(time.as_nanos(), |held| held.min(time.as_nanos())));
                    continue;
                }
                Some(Eligibility::VirtualTime(start)) if clock.is_some_and(|at| start > self.state[at]) => {
                    virtually = Some(virtually.map_or(start, |least| least.min(start)));
                    continue;
                }
                _ => {}
            }
            let later = effects.until().filter(|until| until.time.as_nanos() <= self.now);
            let rank = later.map_or(effects.rank().unwrap_or_default(), |until| until.rank);
            if best.is_none_or(|(known, first, _)| (rank, seq) < (known, first)) {
                best = Some((rank, seq, at));
            }
        }
        match (best, virtually, clock) {
            (Some((rank, _, at)), ..) => {
                self.children[at].won = rank;
                Ok(at)
            }
            (None, Some(start), Some(clock)) => {
                self.state[clock] = start;
                self.choose()
            }
            _ => Err(held),
        }
    }

    /// Runs a test and returns the departures with the times at which they begin.
    pub(crate) fn departures(&mut self, case: &Trial) -> Vec<(String, Nanos)> {
        let mut arrivals: VecDeque<TrialPacket> = {
            let mut all = case.packets.clone();
            all.sort_by_key(|packet| packet.at);
            all.into()
        };
        let mut out = Vec::new();
        loop {
            while arrivals.front().is_some_and(|packet| packet.at.get() <= self.now) {
                let packet = arrivals.pop_front().expect("it is there");
                self.arrive(packet);
            }
            let at = match self.choose() {
                Ok(at) => at,
                Err(held) => {
                    let next = arrivals.front().map(|packet| packet.at.get());
                    match held.into_iter().chain(next).min() {
                        Some(time) => self.now = time,
                        None => return out,
                    }
                    continue;
                }
            };
            self.children[at].place = None;
            self.run(Part::Begin, at, None, 0);
            let packet = self.children[at].queue.pop_front().expect("a packet");
            let dropped =
                self.algorithm.kind == Kind::Dropper && self.run(Part::Fetched, at, Some(&packet), 0).drops();
            let bytes = if dropped { 0 } else { packet.bytes.get() };
            match dropped {
                true => self.drops.push(packet.name),
                false => out.push((packet.name, Nanos(self.now))),
            }
            self.run(Part::Sent, at, None, bytes);
            if self.children[at].queue.is_empty() {
                self.run(Part::Idle, at, None, 0);
                self.children[at].active = false;
            } else {
                self.insert(at, None);
            }
            // All programs of a turn run at its time; arrivals during the turn come after it.
            self.now += bytes;
        }
    }
}
