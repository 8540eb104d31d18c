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
use weft_units::{BitsPerSec, ClassId, FlowId, Instant, Nanos, Weight};

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
    let mut scheduler = PacketScheduler::new(&policy.program)?;
    let flows = flows(trial, policy, &mut scheduler)?;
    let mut order: Vec<usize> = (0..trial.packets.len()).collect();
    order.sort_by_key(|at| trial.packets[*at].at);
    let rate = policy.link.unwrap_or(LINK);
    let (mut now, mut next, mut outcome) = (Nanos::ZERO, 0, Outcome::default());
    let mut left = vec![false; trial.packets.len()];
    for _ in 0..TURNS_MAX {
        while let Some(packet) = order.get(next).map(|at| &trial.packets[*at]).filter(|p| p.at <= now) {
            let descriptor = Descriptor { len: packet.bytes, handle: order[next] as u64 };
            let at = engine_time(packet.at);
            // A full class refuses: the packet then never leaves.
            let _ = scheduler.enqueue_with(flows[order[next]], descriptor, &metadata(packet), at);
            next += 1;
        }
        let arrival = order.get(next).map(|at| trial.packets[*at].at);
        match scheduler.dequeue(engine_time(now)) {
            Dequeue::Packet(departure) => {
                let at = departure.descriptor.handle as usize;
                let name = trial.packets[at].name.clone();
                outcome.sent.push(Departure { name, at: Some(now) });
                left[at] = true;
                now += rate.time_for(departure.descriptor.len);
            }
            Dequeue::Wait(until) => {
                let until = Nanos(until.as_nanos().saturating_sub(BEGIN.get()));
                now = arrival.map_or(until, |arrival| arrival.min(until)).max(now + Nanos(1));
            }
            Dequeue::Empty => match arrival {
                Some(arrival) => now = now.max(arrival),
                None => {
                    let lost = trial.packets.iter().zip(left).filter(|(_, left)| !left);
                    outcome.dropped = lost.map(|(packet, _)| packet.name.clone()).collect();
                    return Ok(outcome);
                }
            },
        }
    }
    Err(TrialError::Endless)
}

/// The engine's time, `at` after the begin of a test.
fn engine_time(at: Nanos) -> Instant {
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
