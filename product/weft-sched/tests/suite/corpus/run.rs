//! Runs of the corpus: the engine and the reference at a link, with equal results.

use std::collections::HashMap;

use weft_rank::{Metadata, Metadatum, Scale};
use weft_sched::{Dequeue, Descriptor, PacketScheduler};
use weft_units::{BitsPerSec, Bytes, FlowId, Instant, LaneId, Weight};

use super::tree::Built;
use crate::slow::packets::PacketReference;

/// An arrival.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) name: String,
    pub(crate) at: u64,
    pub(crate) class: String,
    flow: String,
    pub(crate) len: u64,
    metadata: Metadata,
}

/// Reads lines of the form `packet NAME BYTES { at TIME | class NAME | flow NAME | FACT VALUE }`, as docs/algorithms.md
/// describes them. Several names mean several packets.
pub(crate) fn arrivals(text: &str) -> Vec<Arrival> {
    let mut arrivals: Vec<Arrival> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| line.starts_with("packet")) {
        let mut words = line.split_whitespace().skip(1).peekable();
        let mut names = Vec::new();
        while words.peek().is_some_and(|word| word.parse::<u64>().is_err()) {
            names.extend(words.next());
        }
        let len = words.next().and_then(|word| word.parse().ok()).expect("a length");
        let mut arrival = Arrival {
            name: String::new(),
            at: 0,
            class: String::new(),
            flow: String::new(),
            len,
            metadata: Metadata::UNKNOWN,
        };
        while let (Some(fact), Some(value)) = (words.next(), words.next()) {
            arrival.tell(fact, value);
        }
        arrivals.extend(names.into_iter().map(|name| Arrival { name: name.to_owned(), ..arrival.clone() }));
    }
    arrivals.sort_by_key(|arrival| arrival.at);
    arrivals
}

impl Arrival {
    fn tell(&mut self, fact: &str, value: &str) {
        let metadatum = match fact {
            "at" => return self.at = number(value),
            "class" => return value.clone_into(&mut self.class),
            "flow" => return value.clone_into(&mut self.flow),
            "deadline" => Metadatum::Deadline,
            "slack" => Metadatum::Slack,
            "late" => Metadatum::Late,
            "txtime" => Metadatum::SendTime,
            "left" => Metadatum::Left,
            "prio" => Metadatum::Priority,
            "pace" => {
                let scale = Scale::time_per_byte(BitsPerSec(number(value)));
                return self.metadata.set(Metadatum::Pace, scale.word());
            }
            _ => panic!("no fact {fact}"),
        };
        self.metadata.set(metadatum, number(value));
    }
}

/// A number with a unit: nanoseconds, or bits per second.
pub(crate) fn number(text: &str) -> u64 {
    let digits = text.trim_end_matches(|c: char| c.is_alphabetic());
    let factor = match &text[digits.len()..] {
        "" | "ns" | "bps" => 1,
        "us" => 1_000,
        "ms" | "mbps" => 1_000_000,
        "gbps" => 1_000_000_000,
        unit => panic!("no unit {unit}"),
    };
    digits.parse::<u64>().expect("a number") * factor
}

/// The engine and the reference at one link.
pub(crate) struct Both {
    engine: PacketScheduler,
    reference: PacketReference,
    built: Built,
    flows: HashMap<(String, String), FlowId>,
    pub(crate) now: u64,
    /// The time of a byte, in picoseconds.
    pub(crate) byte_ps: u64,
    sent: u64,
    names: Vec<String>,
}

impl Both {
    /// Both at a link of 8 Gb/s, where a byte takes a nanosecond.
    pub(crate) fn new(built: &Built) -> Self {
        Self {
            engine: PacketScheduler::new(&built.program).expect("a program"),
            reference: PacketReference::new(&built.program),
            built: built.clone(),
            flows: HashMap::new(),
            now: 0,
            byte_ps: 1000,
            sent: 0,
            names: Vec::new(),
        }
    }

    fn flow(&mut self, class: &str, name: &str) -> FlowId {
        let class = if class.is_empty() { self.built.classes[0] } else { class };
        let key = (class.to_owned(), name.to_owned());
        if let Some(flow) = self.flows.get(&key) {
            return *flow;
        }
        // A flow may carry its weight in its name: `f1*10`.
        let weight = name.split_once('*').map_or(1, |(_, weight)| weight.parse().expect("a weight"));
        let lane = LaneId::from_index(self.built.lane(class));
        let flow = self.engine.add_flow(lane, Weight::new(weight).expect("a weight")).expect("a flow");
        self.reference.add_flow(flow, lane, weight);
        self.flows.insert(key, flow);
        flow
    }

    pub(crate) fn arrive(&mut self, arrival: &Arrival) {
        let flow = self.flow(&arrival.class, &arrival.flow);
        let descriptor = Descriptor { len: Bytes(arrival.len), handle: self.names.len() as u64 };
        self.names.push(arrival.name.clone());
        // Handed in when the link is free, but it arrived before.
        let now = Instant::from_nanos(if arrival.at > 0 { arrival.at } else { self.now });
        self.engine.enqueue_with(flow, descriptor, &arrival.metadata, now).expect("room");
        assert!(self.reference.enqueue(flow, descriptor, arrival.metadata, now));
    }

    /// The packet that is sent now, after those that are dropped, or the time until which nothing is, or nothing.
    pub(crate) fn turn(&mut self) -> Result<(String, u64), Option<u64>> {
        let now = Instant::from_nanos(self.now);
        loop {
            let answer = self.engine.dequeue(now);
            assert_eq!(answer, self.reference.dequeue(now), "engine and reference at {}", self.now);
            self.engine.check_invariants().expect("sound");
            match answer {
                Dequeue::Packet(departure) => {
                    let start = self.now;
                    self.sent += departure.descriptor.len.get();
                    self.now += departure.descriptor.len.get() * self.byte_ps / 1000;
                    return Ok((self.names[departure.descriptor.handle as usize].clone(), start));
                }
                Dequeue::Drop(_) => {}
                Dequeue::Wait(until) => return Err(Some(until.as_nanos())),
                Dequeue::Empty => return Err(None),
            }
        }
    }

    /// Changes the program.
    pub(crate) fn change_to(&mut self, after: &Built, heirs: &[(LaneId, LaneId)]) {
        let now = Instant::from_nanos(self.now);
        let prepared = PacketScheduler::prepare(&after.program, heirs, self.flows.len()).expect("a program");
        assert!(self.engine.change(prepared, now).is_ok());
        self.reference.change(&after.program, heirs, now);
        self.built = after.clone();
    }

    /// Sends all arrivals. Returns the names in the order of departure, with the times at which transmissions began.
    /// `after` is called with the number of departures so far.
    pub(crate) fn run(
        &mut self,
        arrivals: &[Arrival],
        mut after: impl FnMut(usize, &mut Self),
    ) -> Vec<(String, u64)> {
        let (mut departures, mut coming) = (Vec::new(), arrivals.iter().peekable());
        loop {
            while let Some(arrival) = coming.next_if(|arrival| arrival.at <= self.now) {
                self.arrive(arrival);
            }
            let next = coming.peek().map(|arrival| arrival.at);
            match self.turn() {
                Ok(departure) => {
                    departures.push(departure);
                    after(departures.len(), self);
                }
                Err(wait) => match wait.into_iter().chain(next).min() {
                    Some(time) => self.now = time.max(self.now),
                    None => return departures,
                },
            }
        }
    }

    /// Runs as [`Both::run`], with a change of the program after so many departures.
    pub(crate) fn run_changing(
        &mut self,
        arrivals: &[Arrival],
        departures: usize,
        after: &Built,
        heirs: &[(LaneId, LaneId)],
    ) -> Vec<(String, u64)> {
        self.run(arrivals, |sent, both| {
            if sent == departures {
                both.change_to(after, heirs);
            }
        })
    }

    /// Bytes by class within `span`, with the given classes always backlogged, at packets of 1000 bytes.
    pub(crate) fn share(&mut self, classes: &[&str], span: u64) -> HashMap<String, u64> {
        let (mut bytes, end) = (HashMap::new(), self.now + span);
        for class in classes.iter().flat_map(|class| [class, class]) {
            self.arrive(&always(class));
        }
        while self.now < end {
            match self.turn() {
                Ok((name, _)) => {
                    *bytes.entry(name.clone()).or_insert(0) += 1000;
                    if classes.contains(&name.as_str()) {
                        self.arrive(&always(&name));
                    }
                }
                Err(Some(time)) => self.now = time,
                Err(None) => break,
            }
        }
        bytes
    }
}

fn always(class: &str) -> Arrival {
    let (class, flow) = (class.to_owned(), String::new());
    Arrival { name: class.clone(), at: 0, class, flow, len: 1000, metadata: Metadata::UNKNOWN }
}
