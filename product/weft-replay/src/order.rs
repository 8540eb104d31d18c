//! The order of packets that are known by their metadata: nothing is read or written.

use crate::flows::{FieldsOfFlow, Flows, Lookup};
use crate::link::{Framing, PacketFate, Scheduler, SentPacket, VirtualLink};
use crate::{DROPPER, PROGRESS_INTERVAL, Progress, ReplayError, ReplayOptions};
use std::collections::BTreeMap;
use weft_policy::CompiledPolicy;
use weft_sched::PacketScheduler;
use weft_units::{BitsPerSec, Bytes, ClassId, LaneId, Nanos, PacketMeta};

/// A packet that arrives.
#[derive(Clone, Debug, Default)]
pub struct ReplayArrival {
    /// Its time, on any clock; a time before that of the preceding packet counts as the same time.
    pub at: Nanos,
    /// Its length as a frame, without check sequence.
    pub len: Bytes,
    /// Its metadata.
    pub meta: PacketMeta,
    /// Its class, if it is known without the policy's rules.
    pub class: Option<ClassId>,
    /// The number of its flow within its lane, if flows are not distinguished by their five-tuples.
    pub flow: Option<u64>,
}

/// A packet that has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Departed {
    /// Its number among the arrivals, from 0.
    pub packet: usize,
    /// The time of the scheduler's decision, on the clock of the arrivals.
    pub start: Nanos,
    /// The end of its transmission.
    pub end: Nanos,
    /// Its lane.
    pub lane: LaneId,
}

/// The result of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReplayOrder {
    /// The link's rate.
    pub link: BitsPerSec,
    /// The packets that left, in their order.
    pub departed: Vec<Departed>,
    /// By reason, the numbers of the packets that a bound refused or a dropper dropped.
    pub dropped: BTreeMap<&'static str, Vec<usize>>,
    /// Packets whose time was before that of the preceding one.
    pub late: u64,
    /// Packets of flows that had no separate queue, because their class had too many.
    pub overflow_packets: u64,
}

impl ReplayOrder {
    /// Notes a packet that left the scheduler. The arrivals' clock began at `origin`.
    fn take(&mut self, fate: PacketFate, origin: Nanos) {
        match fate {
            PacketFate::Sent(departure) => self.departed.push(told(departure, origin)),
            PacketFate::Dropped { handle, .. } => {
                self.dropped.entry(DROPPER).or_default().push(handle as usize)
            }
        }
    }
}

/// A flow: its lane and, within it, a number or what it has in its headers.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Number(LaneId, u64),
    Fields(LaneId, FieldsOfFlow),
}

/// Schedules packets by a policy on a link, as [`crate::replay`] schedules those of a capture. Progress counts their bytes.
///
/// # Errors
/// If there is no rate, or a packet is of a class that the policy lacks.
pub fn order(
    policy: &CompiledPolicy,
    arrivals: impl IntoIterator<Item = ReplayArrival>,
    mut options: ReplayOptions<'_>,
) -> Result<ReplayOrder, ReplayError> {
    let rate = options.rate.or(policy.link).ok_or(ReplayError::NoRate)?;
    let lookup = Lookup::new(policy, options.port)?;
    let mut scheduler =
        PacketScheduler::new(&policy.program).map_err(|error| ReplayError::Policy(error.to_string()))?;
    let mut flows = Flows::new(policy, &mut scheduler, options.flows_per_class)?;
    let mut link = VirtualLink::new(scheduler, rate, Framing::ETHERNET).ok_or(ReplayError::ZeroRate)?;
    let mut done = ReplayOrder { link: rate, ..ReplayOrder::default() };
    let (mut origin, mut last, mut read) = (None, Nanos::ZERO, Progress { packets: 0, input_bytes: 0 });
    for (packet, arrival) in arrivals.into_iter().enumerate() {
        let origin = *origin.get_or_insert(arrival.at);
        let at = arrival.at.saturating_sub(origin);
        done.late += u64::from(at < last || arrival.at < origin);
        last = last.max(at);
        let (lane, key) = place(policy, &lookup, &arrival, packet)?;
        let mut left = |fate: PacketFate| done.take(fate, origin);
        // Packets that leave before this packet arrives make room for it.
        link.run_until(last, &mut left);
        let Some(flow) = flows.queue(link.scheduler_mut(), key, || lane) else {
            done.dropped.entry("no lane").or_default().push(packet);
            continue;
        };
        if let Err(refused) = link.arrive(last, (flow, arrival.len, packet as u64), &mut left) {
            let reason = <PacketScheduler as Scheduler>::reason(&refused);
            done.dropped.entry(reason).or_default().push(packet);
        }
        read.packets += 1;
        read.input_bytes = read.input_bytes.saturating_add(arrival.len.0);
        if read.packets % PROGRESS_INTERVAL == 0
            && let Some(progress) = &mut options.progress
        {
            progress(read);
        }
    }
    let origin = origin.unwrap_or_default();
    link.drain(|fate| done.take(fate, origin));
    done.overflow_packets = flows.overflow_packets();
    Ok(done)
}

/// Returns the lane and the flow of a packet.
fn place(
    policy: &CompiledPolicy,
    lookup: &Lookup<'_>,
    arrival: &ReplayArrival,
    packet: usize,
) -> Result<(LaneId, Option<Key>), ReplayError> {
    let lane = match arrival.class {
        None => lookup.lane(&arrival.meta),
        Some(class) if policy.classes.get(class.index()).is_some_and(|class| !class.is_vacant()) => {
            lookup.lane_of(class, &arrival.meta)
        }
        Some(class) => return Err(ReplayError::Class { packet, class, classes: policy.classes.len() }),
    };
    let key = match arrival.flow {
        Some(number) => Some(Key::Number(lane, number)),
        None => lookup.fields_of_flow(&arrival.meta).map(|fields| Key::Fields(lane, fields)),
    };
    Ok((lane, key))
}

fn told(departure: SentPacket, origin: Nanos) -> Departed {
    let on_the_clock = |at: Nanos| Nanos(at.0.saturating_add(origin.0));
    let SentPacket { start, end, lane, handle, .. } = departure;
    Departed { packet: handle as usize, start: on_the_clock(start), end: on_the_clock(end), lane }
}
