//! The run of a test: the engine over a link, without a kernel.
//!
//! A packet occupies the link for its length at the link's rate. The next turn is at the end of the one before; packets that
//! arrived by then are enqueued first, each at the time of its arrival.

use super::{Departure, Trial, TrialPacket};
use crate::CompiledPolicy;
use std::collections::BTreeMap;
use thiserror::Error;
use weft_rank::{Metadata, Metadatum, Scale};
use weft_sched::packets::{Dequeue, Descriptor, PacketScheduler};
use weft_text::quoted;
use weft_units::PacketMeta;
use weft_units::{BitsPerSec, Bytes, ClassId, FlowId, Instant, Nanos, Weight};

/// The link of a policy that states none: a byte takes a nanosecond.
pub const LINK: BitsPerSec = BitsPerSec(8_000_000_000);
/// The engine's time at which a test begins. Later than zero, as on every host: `head.arrived - head.late` may lie before the
/// first arrival, and times below zero would all be zero.
const BEGIN: Nanos = Nanos::from_secs(3600);
/// The most turns of a test, so that a policy that never sends ends too.
const TURNS_MAX: usize = 1 << 20;

/// The reasons for which a test cannot be run.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum TrialError {
    /// A packet is of a class that the policy does not have.
    #[error("packet {packet} is of class {class}, which the policy does not have; it has: {}", .known.join(", "))]
    UnknownClass {
        /// The packet.
        packet: String,
        /// The class.
        class: String,
        /// The classes of the policy.
        known: Vec<String>,
    },
    /// The engine refuses the policy.
    #[error("the engine refuses the policy: {0}")]
    Program(#[from] weft_sched::ProgramError),
    /// The engine has no room for a flow.
    #[error("the engine refuses a flow: {0}")]
    Flow(#[from] weft_sched::FlowError),
    /// The engine did not come to an end.
    #[error("after {TURNS_MAX} turns packets still wait")]
    Endless,
}

/// The departures of a test, and the packets that did not leave.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// The departures in their order, each with the time at which its transmission begins.
    pub sent: Vec<Departure>,
    /// The packets that were dropped or refused, in the order of their arrival.
    pub dropped: Vec<String>,
}

impl Outcome {
    /// The first difference from what the test expects; `None` if it passes.
    pub fn difference(&self, trial: &Trial) -> Option<String> {
        let names = |of: &[Departure]| of.iter().map(|d| d.name.clone()).collect::<Vec<_>>();
        let (expected, sent) = (names(&trial.expect), names(&self.sent));
        if expected != sent {
            return Some(format!("expected {}, and {} left", list(&expected), list(&sent)));
        }
        for (wanted, found) in trial.expect.iter().zip(&self.sent) {
            if let (Some(at), Some(began)) = (wanted.at, found.at)
                && at != began
            {
                return Some(format!("expected {} at {at}, and it left at {began}", quoted(&wanted.name)));
            }
        }
        let mut wanted = trial.drops.clone();
        let mut dropped = self.dropped.clone();
        wanted.sort();
        dropped.sort();
        (wanted != dropped)
            .then(|| format!("expected drops of {}, and dropped were {}", list(&wanted), list(&dropped)))
    }
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(" ") }
}

/// Runs a test under `policy`.
///
/// # Errors
/// [`TrialError`].
pub fn run(trial: &Trial, policy: &CompiledPolicy) -> Result<Outcome, TrialError> {
    let mut run = Run::new(trial, policy)?;
    for _ in 0..TURNS_MAX {
        run.admit();
        if run.turn() == Turn::Over {
            return Ok(run.outcome());
        }
    }
    Err(TrialError::Endless)
}

/// The fate of a packet so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It has not arrived yet.
    Coming,
    /// It waits; at the end of a test, it was dropped.
    Held,
    /// Its class was full.
    Refused,
    /// Its transmission began at the time.
    Sent(Nanos),
}

/// The result of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// A packet left, the one of this number in the test.
    Sent(usize),
    /// Nothing may leave before the time that the run has now.
    Waited,
    /// All packets have arrived, and none waits.
    Over,
}

/// A test in progress. [`Run::admit`] and [`Run::turn`] follow each other until a turn is [`Turn::Over`].
#[derive(Debug)]
pub struct Run<'a> {
    trial: &'a Trial,
    scheduler: PacketScheduler,
    /// The flow of each packet.
    flows: Vec<FlowId>,
    /// The packets in the order of their arrival, and the number of those that have arrived.
    order: Vec<usize>,
    next: usize,
    rate: BitsPerSec,
    now: Nanos,
    fates: Vec<Fate>,
    sent: Vec<usize>,
}

impl<'a> Run<'a> {
    /// The begin of a test under `policy`.
    ///
    /// # Errors
    /// As [`run`].
    pub fn new(trial: &'a Trial, policy: &CompiledPolicy) -> Result<Self, TrialError> {
        let mut scheduler = PacketScheduler::new(&policy.program)?;
        let flows = flows(trial, policy, &mut scheduler)?;
        let mut order: Vec<usize> = (0..trial.packets.len()).collect();
        order.sort_by_key(|at| trial.packets[*at].at);
        let rate = policy.link.unwrap_or(LINK);
        let fates = vec![Fate::Coming; trial.packets.len()];
        Ok(Self { trial, scheduler, flows, order, next: 0, rate, now: Nanos::ZERO, fates, sent: Vec::new() })
    }

    /// Enqueues the packets that have arrived by now, each at the time of its arrival.
    pub fn admit(&mut self) {
        while let Some(number) = self.order.get(self.next).copied() {
            let packet = &self.trial.packets[number];
            if packet.at > self.now {
                break;
            }
            let descriptor = Descriptor { len: packet.bytes, handle: number as u64 };
            let at = engine_time(packet.at);
            let taken = self.scheduler.enqueue_with(self.flows[number], descriptor, &metadata(packet), at);
            self.fates[number] = if taken.is_ok() { Fate::Held } else { Fate::Refused };
            self.next += 1;
        }
    }

    /// Lets the engine choose at the present time, and goes on to the time of the next choice.
    pub fn turn(&mut self) -> Turn {
        let arrival = self.order.get(self.next).map(|number| self.trial.packets[*number].at);
        match self.scheduler.dequeue(engine_time(self.now)) {
            Dequeue::Packet(departure) => {
                let number = departure.descriptor.handle as usize;
                self.fates[number] = Fate::Sent(self.now);
                self.sent.push(number);
                self.busy_from(self.now, departure.descriptor.len);
                Turn::Sent(number)
            }
            Dequeue::Wait(until) => {
                let until = Nanos(until.as_nanos().saturating_sub(BEGIN.get()));
                self.now = arrival.map_or(until, |arrival| arrival.min(until)).max(self.now + Nanos(1));
                Turn::Waited
            }
            Dequeue::Empty => match arrival {
                Some(arrival) => {
                    self.now = self.now.max(arrival);
                    Turn::Waited
                }
                None => Turn::Over,
            },
        }
    }

    /// Sets the time of the next turn to the end of a transmission of `bytes` that began at `began`.
    pub fn busy_from(&mut self, began: Nanos, bytes: Bytes) {
        self.now = began + self.rate.time_for(bytes);
    }

    /// The time since the begin of the test.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// The present time as the engine counts it.
    pub fn engine_now(&self) -> Instant {
        engine_time(self.now)
    }

    /// The engine.
    pub fn engine(&self) -> &PacketScheduler {
        &self.scheduler
    }

    /// The flow of each packet, in the order of the test.
    pub fn flows(&self) -> &[FlowId] {
        &self.flows
    }

    /// The packets in the order of their arrival.
    pub fn arrivals(&self) -> &[usize] {
        &self.order
    }

    /// The fate of each packet so far, in the order of the test.
    pub fn fates(&self) -> &[Fate] {
        &self.fates
    }

    /// The departures and the drops so far.
    pub fn outcome(&self) -> Outcome {
        let name = |number: usize| self.trial.packets[number].name.clone();
        let sent = |number: &usize| match self.fates[*number] {
            Fate::Sent(at) => Departure { name: name(*number), at: Some(at) },
            _ => Departure { name: name(*number), at: None },
        };
        let lost = (0..self.fates.len()).filter(|at| !matches!(self.fates[*at], Fate::Sent(_)));
        Outcome { sent: self.sent.iter().map(sent).collect(), dropped: lost.map(name).collect() }
    }
}

/// The engine's time, `at` after the begin of a test.
pub fn engine_time(at: Nanos) -> Instant {
    Instant::from_nanos(BEGIN.get().saturating_add(at.get()))
}

/// The flow of each packet.
fn flows(
    trial: &Trial,
    policy: &CompiledPolicy,
    scheduler: &mut PacketScheduler,
) -> Result<Vec<FlowId>, TrialError> {
    let mut known: BTreeMap<(ClassId, Option<&str>), FlowId> = BTreeMap::new();
    let mut flows = Vec::with_capacity(trial.packets.len());
    for packet in &trial.packets {
        let class = class_of(packet, policy)?;
        let key = (class, packet.flow.as_deref());
        let flow = match known.get(&key) {
            Some(flow) => *flow,
            None => {
                let flow = scheduler.add_flow(policy.lane_of(class, &PacketMeta::default()), Weight::ONE)?;
                known.insert(key, flow);
                flow
            }
        };
        flows.push(flow);
    }
    Ok(flows)
}

fn class_of(packet: &TrialPacket, policy: &CompiledPolicy) -> Result<ClassId, TrialError> {
    let Some(class) = &packet.class else { return Ok(ClassId(0)) };
    let found = policy.classes.iter().position(|known| known.name == *class);
    found.map(ClassId::from_index).ok_or_else(|| TrialError::UnknownClass {
        packet: packet.name.clone(),
        class: class.clone(),
        known: policy.classes.iter().map(|class| class.name.clone()).collect(),
    })
}

/// The metadata that the test states.
fn metadata(packet: &TrialPacket) -> Metadata {
    let nanos = |of: Option<Nanos>| of.map(Nanos::get);
    let time = |of: Option<Nanos>| of.map(|at| engine_time(at).as_nanos());
    let stated = [
        (Metadatum::Deadline, time(packet.deadline)),
        (Metadatum::Slack, nanos(packet.slack)),
        (Metadatum::Late, nanos(packet.late)),
        (Metadatum::SendTime, time(packet.txtime)),
        (Metadatum::Left, packet.left.map(|left| left.get())),
        (Metadatum::Priority, packet.prio),
        (Metadatum::Pace, packet.pace.map(|rate| Scale::time_per_byte(rate).word())),
    ];
    let known = stated.into_iter().filter_map(|(of, value)| Some((of, value?)));
    known.fold(Metadata::UNKNOWN, |metadata, (of, value)| metadata.with(of, value))
}
