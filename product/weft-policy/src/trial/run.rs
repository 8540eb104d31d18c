//! The run of a test: the engine over a link, without a kernel.
//!
//! A packet occupies the link for its length at the link's rate. The next turn is at the end of the one before; packets that
//! arrived by then are enqueued first, each at the time of its arrival. A change takes place between two turns.

use super::{ChangeMoment, Departure, Trial, TrialPacket};
use crate::{ClassInfo, CompiledPolicy, renumber};
use std::collections::BTreeMap;
use thiserror::Error;
use weft_rank::{Metadata, Metadatum, Scale};
use weft_sched::ChangeError;
use weft_sched::packets::{Departure as Departed, Dequeue, Descriptor, PacketScheduler};
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

/// The reasons why a test cannot be run.
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
    /// A change names a policy that was not given.
    #[error("the test changes to {path}, which was not given")]
    UnknownPolicy {
        /// The policy's path.
        path: String,
    },
    /// A change follows a packet that does not leave.
    #[error("the change to {path} is to follow {packet}, which did not leave")]
    NoChange {
        /// The policy's path.
        path: String,
        /// The packet.
        packet: String,
    },
    /// The engine refuses a change.
    #[error("the engine refuses the change: {0}")]
    Change(ChangeError),
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

/// Runs a test that changes no policy under `policy`.
///
/// # Errors
/// [`TrialError`].
pub fn run(trial: &Trial, policy: &CompiledPolicy) -> Result<Outcome, TrialError> {
    run_changing(trial, policy, &BTreeMap::new())
}

/// Runs a test that begins under `policy`. `policies` are those of its changes, by the paths that it gives them.
///
/// # Errors
/// [`TrialError`].
pub fn run_changing(
    trial: &Trial,
    policy: &CompiledPolicy,
    policies: &BTreeMap<String, CompiledPolicy>,
) -> Result<Outcome, TrialError> {
    let mut run = Run::changing(trial, policy, Some(policies))?;
    for _ in 0..TURNS_MAX {
        run.admit()?;
        if run.turn()? == Turn::Over {
            return run.end();
        }
    }
    Err(TrialError::Endless)
}

/// The fate of a packet so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It has not arrived yet.
    Coming,
    /// It waits.
    Held,
    /// A dropper dropped it.
    Dropped,
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
    /// A dropper dropped a packet, the one of this number in the test.
    Dropped(usize),
    /// Nothing may leave before the time that the run has now.
    Waited,
    /// All packets have arrived, and none waits.
    Over,
}

/// An arrival or a change at a time, by its number in the test.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Event {
    at: Nanos,
    /// The place in the file: a change comes before the packet that follows it.
    place: (usize, bool),
    number: usize,
}

/// A test in progress. [`Run::admit`] and [`Run::turn`] follow each other until a turn is [`Turn::Over`].
#[derive(Debug)]
pub struct Run<'a> {
    trial: &'a Trial,
    policies: Option<&'a BTreeMap<String, CompiledPolicy>>,
    /// The policy in force.
    policy: CompiledPolicy,
    scheduler: PacketScheduler,
    /// The flows by class and name.
    flows: BTreeMap<(ClassId, Option<&'a str>), FlowId>,
    /// The flow of each packet that has one.
    packet_flows: Vec<Option<FlowId>>,
    /// The number of flows of the engine.
    known: usize,
    events: Vec<Event>,
    next: usize,
    now: Nanos,
    fates: Vec<Fate>,
    sent: Vec<usize>,
    /// Whether each change took place.
    changed: Vec<bool>,
}

impl<'a> Run<'a> {
    /// The begin of a test that changes no policy under `policy`.
    ///
    /// # Errors
    /// As [`run`].
    pub fn new(trial: &'a Trial, policy: &CompiledPolicy) -> Result<Self, TrialError> {
        Self::changing(trial, policy, None)
    }

    fn changing(
        trial: &'a Trial,
        policy: &CompiledPolicy,
        policies: Option<&'a BTreeMap<String, CompiledPolicy>>,
    ) -> Result<Self, TrialError> {
        let arrivals = trial.packets.iter().enumerate();
        let arrivals = arrivals.map(|(number, of)| Event { at: of.at, place: (number, true), number });
        let changes = trial.changes.iter().enumerate().filter_map(|(number, change)| match change.when {
            ChangeMoment::At(at) => Some(Event { at, place: (change.listed, false), number }),
            ChangeMoment::After(_) => None,
        });
        let mut events: Vec<Event> = arrivals.chain(changes).collect();
        events.sort();
        let mut run = Self {
            trial,
            policies,
            policy: policy.clone(),
            scheduler: PacketScheduler::new(&policy.program)?,
            flows: BTreeMap::new(),
            packet_flows: vec![None; trial.packets.len()],
            known: 0,
            events,
            next: 0,
            now: Nanos::ZERO,
            fates: vec![Fate::Coming; trial.packets.len()],
            sent: Vec::new(),
            changed: vec![false; trial.changes.len()],
        };
        // A host's flows are known before their packets are sent; those of later policies come with them.
        let first = trial.changes.iter().map(|change| change.listed).min().unwrap_or(trial.packets.len());
        for (number, packet) in trial.packets.iter().enumerate().take(first) {
            run.packet_flows[number] = Some(run.flow(packet)?);
        }
        Ok(run)
    }

    /// Enqueues the packets that have arrived by now, each at the time of its arrival, and makes the changes whose time has come.
    ///
    /// # Errors
    /// [`TrialError`] for a change, or a packet of a class that the policy in force does not have.
    pub fn admit(&mut self) -> Result<(), TrialError> {
        while let Some(event) = self.events.get(self.next).copied().filter(|event| event.at <= self.now) {
            self.next += 1;
            if let (number, true) = event.place {
                self.arrive(number)?;
            } else {
                self.change(event.number, event.at)?;
            }
        }
        Ok(())
    }

    fn arrive(&mut self, number: usize) -> Result<(), TrialError> {
        let packet = &self.trial.packets[number];
        let flow = self.flow(packet)?;
        self.packet_flows[number] = Some(flow);
        let descriptor = Descriptor { len: packet.bytes, handle: number as u64 };
        let taken = self.scheduler.enqueue_with(flow, descriptor, &metadata(packet), engine_time(packet.at));
        self.fates[number] = if taken.is_ok() { Fate::Held } else { Fate::Refused };
        Ok(())
    }

    /// Lets the engine choose at the present time, and advances to the time of the next choice.
    ///
    /// # Errors
    /// [`TrialError`] for a change that follows the packet.
    pub fn turn(&mut self) -> Result<Turn, TrialError> {
        let coming = self.events.get(self.next).map(|event| event.at);
        match self.scheduler.dequeue(engine_time(self.now)) {
            Dequeue::Packet(departure) => self.leaves(departure).map(Turn::Sent),
            Dequeue::Drop(departure) => {
                let number = departure.descriptor.handle as usize;
                self.fates[number] = Fate::Dropped;
                Ok(Turn::Dropped(number))
            }
            Dequeue::Wait(until) => {
                let until = Nanos(until.as_nanos().saturating_sub(BEGIN.get()));
                self.now = coming.map_or(until, |at| at.min(until)).max(self.now + Nanos(1));
                Ok(Turn::Waited)
            }
            Dequeue::Empty => match coming {
                Some(at) => {
                    self.now = self.now.max(at);
                    Ok(Turn::Waited)
                }
                None => Ok(Turn::Over),
            },
        }
    }

    /// Sets the time of the next turn to the end of a transmission of `bytes` that began at `began`.
    pub fn busy_from(&mut self, began: Nanos, bytes: Bytes) {
        self.now = began + self.policy.link.unwrap_or(LINK).time_for(bytes);
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

    /// The flow of a packet, by its number in the test; `None` if it has not arrived and is of a later policy.
    pub fn flow_of(&self, number: usize) -> Option<FlowId> {
        self.packet_flows.get(number).copied().flatten()
    }

    /// The packets in the order of their arrival.
    pub fn arrivals(&self) -> impl Iterator<Item = usize> {
        self.events.iter().filter_map(|event| event.place.1.then_some(event.number))
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

    /// The flow of a packet under the policy in force.
    fn flow(&mut self, packet: &'a TrialPacket) -> Result<FlowId, TrialError> {
        let class = class_of(packet, &self.policy)?;
        let key = (class, packet.flow.as_deref());
        if let Some(flow) = self.flows.get(&key) {
            return Ok(*flow);
        }
        let lane = self.policy.lane_of(class, &PacketMeta::default());
        let flow = self.scheduler.add_flow(lane, Weight::ONE)?;
        self.known += 1;
        self.flows.insert(key, flow);
        Ok(flow)
    }

    /// Records a departure, and makes the changes that follow it. Returns the packet's number.
    fn leaves(&mut self, departure: Departed) -> Result<usize, TrialError> {
        let number = departure.descriptor.handle as usize;
        self.fates[number] = Fate::Sent(self.now);
        self.sent.push(number);
        let name = &self.trial.packets[number].name;
        let trial = self.trial;
        for (number, change) in trial.changes.iter().enumerate() {
            if !self.changed[number] && matches!(&change.when, ChangeMoment::After(packet) if packet == name)
            {
                self.change(number, self.now)?;
            }
        }
        self.busy_from(self.now, departure.descriptor.len);
        Ok(number)
    }

    /// Puts the policy of a change in force.
    fn change(&mut self, number: usize, at: Nanos) -> Result<(), TrialError> {
        let path = &self.trial.changes[number].policy;
        let given = self.policies.and_then(|policies| policies.get(path));
        let new = given.ok_or_else(|| TrialError::UnknownPolicy { path: path.clone() })?;
        let change = renumber(&self.policy, new.clone());
        let prepared = PacketScheduler::prepare(&change.policy.program, &change.heirs, self.known)?;
        let changed = self.scheduler.change(prepared, engine_time(at));
        changed.map_err(|refused| TrialError::Change(refused.why))?;
        self.policy = change.policy;
        self.changed[number] = true;
        self.follow_heirs();
        Ok(())
    }

    /// Finds the flows of classes that are gone in the classes that took them over.
    fn follow_heirs(&mut self) {
        let flows = core::mem::take(&mut self.flows);
        let class_now = |flow| {
            let lane = self.scheduler.tree().lane_of(flow)?;
            self.policy.program.lanes.get(lane.index()).map(|lane| lane.class)
        };
        let here = |((class, name), flow)| (class_now(flow).unwrap_or(class), name, flow);
        let (stay, moved): (Vec<_>, Vec<_>) =
            flows.into_iter().map(|of| (of.0.0, here(of))).partition(|(before, (now, ..))| before == now);
        let mut known: BTreeMap<_, _> =
            stay.into_iter().map(|(_, (class, name, flow))| ((class, name), flow)).collect();
        for (_, (class, name, flow)) in moved {
            known.entry((class, name)).or_insert(flow);
        }
        self.flows = known;
    }

    fn end(self) -> Result<Outcome, TrialError> {
        if let Some(number) = self.changed.iter().position(|changed| !changed) {
            let change = &self.trial.changes[number];
            let ChangeMoment::After(packet) = &change.when else { return Err(TrialError::Endless) };
            return Err(TrialError::NoChange { path: change.policy.clone(), packet: packet.clone() });
        }
        Ok(self.outcome())
    }
}

/// The engine's time, `at` after the begin of a test.
pub fn engine_time(at: Nanos) -> Instant {
    Instant::from_nanos(BEGIN.get().saturating_add(at.get()))
}

fn class_of(packet: &TrialPacket, policy: &CompiledPolicy) -> Result<ClassId, TrialError> {
    let is = |known: &ClassInfo| match &packet.class {
        Some(class) => known.name == *class,
        None => !known.is_vacant(),
    };
    let found = policy.classes.iter().position(is);
    let known = || policy.classes.iter().filter(|class| !class.is_vacant()).map(|class| class.name.clone());
    found.map(ClassId::from_index).ok_or_else(|| TrialError::UnknownClass {
        packet: packet.name.clone(),
        class: packet.class.clone().unwrap_or_default(),
        known: known().collect(),
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
