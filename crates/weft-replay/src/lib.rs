//! Replay: what a policy would have made of a captured stream of packets.
//!
//! A capture is read packet by packet, each packet is classified and scheduled in virtual time on a link of a given rate,
//! and written to another capture with the time at which it left. Nothing is kept but what waits in the queues, so the
//! memory is bounded by the policy's packet bounds and not by the file.
//!
//! **Time.** A packet arrives at its timestamp; one that is earlier than that of the packet before counts as the same
//! time ([`ReplayReport::late_timestamps`]). It leaves when its last bit and the gap behind it have passed: the written
//! timestamp is the capture's first timestamp plus that virtual time.
//!
//! **Bytes.** Classes, limits and weights count the frame as it was on the wire (`orig_len`, without check sequence), as `tc`
//! does. The link adds padding and 24 bytes for each frame ([`Framing::ETHERNET`]).
//!
//! **Flows.** A flow is a five-tuple; it stays in its queue, so its packets never overtake each other. A class has room
//! for a bounded number of flows. When it is full, the flows that come later share one queue of the class for the rest of
//! the run; so do, in every class, the packets that are not IP. A class whose packets wait in one FIFO has one queue anyway.
//!
//! **What cannot be read.** A packet whose headers are damaged or cut off is scheduled as one that is not IP, which
//! usually is class `default`, and counted in [`ReplayReport::unreadable`]; it is not dropped. A capture file that ends
//! inside a packet, or is damaged, ends the run: what came before is still sent and written, then the error is given,
//! with the report of what was written.

use std::collections::HashMap;
use std::io::{Read, Write};
use thiserror::Error;
use weft_packet::headers::parse_headers;
use weft_packet::pcap::{CapturedPacket, PcapError, PcapReader, PcapWriter};
use weft_policy::CompiledPolicy;
use weft_sched::{LeafDiscipline, PacketScheduler};
use weft_sim::{Departure, Framing, Scheduler, VirtualLink};
use weft_units::{BitsPerSec, Bytes, FlowId, FlowKey, Instant, LaneId, PacketMeta, Weight};

mod report;

pub use report::{ClassReport, Conservation, Count, ReplayReport};

/// How many flows of a class have a queue of their own unless the caller says otherwise.
pub const FLOWS_PER_CLASS: usize = 65_536;
/// How many packets lie between two reports of progress.
const PROGRESS_INTERVAL: u64 = 4096;

/// How far a replay has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Packets read.
    pub packets: u64,
    /// Bytes of the input file taken.
    pub input_bytes: u64,
}

/// What a caller may choose.
pub struct ReplayOptions<'a> {
    /// The link's rate; `None` takes the policy's.
    pub rate: Option<BitsPerSec>,
    /// How many flows of a class have a queue of their own.
    pub flows_per_class: usize,
    /// Called every few thousand packets and at the end of the input.
    pub progress: Option<&'a mut dyn FnMut(Progress)>,
}

impl Default for ReplayOptions<'_> {
    fn default() -> Self {
        Self { rate: None, flows_per_class: FLOWS_PER_CLASS, progress: None }
    }
}

/// Why a replay failed.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// Neither the policy nor the caller gives a rate.
    #[error("the policy states no link rate: pass one (--rate 1gbps) or begin the policy with `link 1gbps`")]
    NoRate,
    /// The rate is zero.
    #[error("the link rate is 0, on which nothing would ever leave: pass a larger one (--rate 1gbps)")]
    ZeroRate,
    /// The policy contradicts itself; the compiler never makes such a one.
    #[error("the compiled policy is not consistent: {0}")]
    Policy(String),
    /// The capture cannot be read, or not to its end.
    #[error("{source}")]
    Input {
        /// Why.
        source: PcapError,
        /// What was written of the packets before; `None` when not even the file header could be read.
        report: Option<Box<ReplayReport>>,
    },
    /// The result cannot be written.
    #[error("{0}")]
    Output(PcapError),
}

/// A packet that waits.
#[derive(Debug, Default)]
struct Held {
    data: Vec<u8>,
    orig_len: Bytes,
}

/// The packets that wait, by handle. Buffers are used again, so that a long run allocates no more than its peak.
#[derive(Debug, Default)]
struct Waiting {
    packets: Vec<Held>,
    free: Vec<u64>,
}

impl Waiting {
    fn put(&mut self, packet: &CapturedPacket<'_>) -> u64 {
        let handle = self.free.pop().unwrap_or_else(|| {
            self.packets.push(Held::default());
            self.packets.len() as u64 - 1
        });
        if let Some(held) = self.packets.get_mut(handle as usize) {
            held.data.clear();
            held.data.extend_from_slice(packet.data);
            held.orig_len = packet.orig_len;
        }
        handle
    }

    fn release(&mut self, handle: u64) {
        self.free.push(handle);
    }
}

/// What is done with departures.
struct Sink<W: Write> {
    writer: PcapWriter<W>,
    waiting: Waiting,
    /// The class of each lane.
    class_of_lane: Vec<usize>,
    classes: Vec<ClassReport>,
    /// The capture's first timestamp.
    origin: Instant,
    out: Count,
    error: Option<PcapError>,
}

impl<W: Write> Sink<W> {
    fn depart(&mut self, departure: Departure) {
        let Some(held) = self.waiting.packets.get(departure.handle as usize) else { return };
        if self.error.is_none()
            && let Err(error) = self.writer.write(self.origin + departure.end, held.orig_len, &held.data)
        {
            self.error = Some(error);
        }
        self.out.add(held.orig_len);
        let class = self.class_of_lane.get(departure.lane.index());
        if let Some(class) = class.and_then(|class| self.classes.get_mut(*class)) {
            let at = departure.end.as_secs_f64();
            class.packets += 1;
            class.bytes += held.orig_len.0;
            class.first_s.get_or_insert(at);
            class.last_s = Some(at);
        }
        self.waiting.release(departure.handle);
    }
}

/// The flows of the capture, each with its queue.
struct Flows {
    /// The queue of each flow; the lane follows from the key, since a capture has no other metadata.
    queues: HashMap<FlowKey, FlowId>,
    lanes: Vec<LaneFlows>,
    bound: usize,
    overflow_packets: u64,
}

/// The flows of one lane.
struct LaneFlows {
    /// The queue of what is not IP and of flows beyond the bound.
    shared: FlowId,
    /// Whether a flow may have a queue of its own, and how many do.
    fair: bool,
    count: usize,
}

impl Flows {
    fn new<S: Scheduler>(
        policy: &CompiledPolicy,
        scheduler: &mut S,
        bound: usize,
    ) -> Result<Self, ReplayError> {
        let mut lanes = Vec::with_capacity(policy.program.lanes.len());
        for (i, lane) in policy.program.lanes.iter().enumerate() {
            let shared = scheduler
                .add_flow(LaneId::from_index(i), Weight::ONE)
                .map_err(|refused| ReplayError::Policy(format!("lane {i}: {}", S::reason(&refused))))?;
            let leaf = policy.program.leaves.get(lane.leaf.index());
            let fair = leaf.is_some_and(|leaf| leaf.discipline == LeafDiscipline::Fair);
            lanes.push(LaneFlows { shared, fair, count: 0 });
        }
        Ok(Self { queues: HashMap::new(), lanes, bound, overflow_packets: 0 })
    }

    /// The queue of a packet.
    fn queue<S: Scheduler>(
        &mut self,
        policy: &CompiledPolicy,
        scheduler: &mut S,
        key: Option<FlowKey>,
    ) -> Option<FlowId> {
        if let Some(flow) = key.and_then(|key| self.queues.get(&key)) {
            return Some(*flow);
        }
        let lane = policy.classify(&PacketMeta { key, ..PacketMeta::default() });
        let flows = self.lanes.get_mut(lane.index())?;
        let Some(key) = key.filter(|_| flows.fair) else { return Some(flows.shared) };
        if flows.count < self.bound
            && let Ok(flow) = scheduler.add_flow(lane, Weight::ONE)
        {
            flows.count += 1;
            self.queues.insert(key, flow);
            return Some(flow);
        }
        self.overflow_packets += 1;
        Some(flows.shared)
    }
}

/// Checks that every index of the policy's tables names something.
fn check_policy(policy: &CompiledPolicy) -> Result<(), ReplayError> {
    let program = &policy.program;
    if program.lanes.is_empty() {
        return Err(ReplayError::Policy("it has no lanes".to_owned()));
    }
    for (i, lane) in program.lanes.iter().enumerate() {
        if lane.class.index() >= policy.classes.len() {
            return Err(ReplayError::Policy(format!(
                "lane {i} names class {}, which does not exist",
                lane.class
            )));
        }
    }
    for (i, rule) in policy.rules.iter().enumerate() {
        if rule.lane.index() >= program.lanes.len() {
            return Err(ReplayError::Policy(format!(
                "rule {i} names lane {}, which does not exist",
                rule.lane
            )));
        }
    }
    Ok(())
}

/// A replay under way.
struct Replay<'a, S, W: Write> {
    policy: &'a CompiledPolicy,
    link: VirtualLink<S>,
    flows: Flows,
    sink: Sink<W>,
    conservation: Conservation,
    unreadable: u64,
    late_timestamps: u64,
    last: Instant,
}

impl<'a, S: Scheduler, W: Write> Replay<'a, S, W> {
    fn new(
        policy: &'a CompiledPolicy,
        mut scheduler: S,
        rate: BitsPerSec,
        flow_bound: usize,
        output: W,
    ) -> Result<Self, ReplayError> {
        check_policy(policy)?;
        let flows = Flows::new(policy, &mut scheduler, flow_bound)?;
        let link = VirtualLink::new(scheduler, rate, Framing::ETHERNET).ok_or(ReplayError::ZeroRate)?;
        let class = |name: &String| ClassReport {
            class: name.clone(),
            packets: 0,
            bytes: 0,
            first_s: None,
            last_s: None,
        };
        let sink = Sink {
            writer: PcapWriter::new(output).map_err(ReplayError::Output)?,
            waiting: Waiting::default(),
            class_of_lane: policy.program.lanes.iter().map(|lane| lane.class.index()).collect(),
            classes: policy.classes.iter().map(|info| class(&info.name)).collect(),
            origin: Instant::ZERO,
            out: Count::default(),
            error: None,
        };
        let conservation = Conservation::default();
        Ok(Self {
            policy,
            link,
            flows,
            sink,
            conservation,
            unreadable: 0,
            late_timestamps: 0,
            last: Instant::ZERO,
        })
    }

    /// Offers one packet to the link.
    fn packet(&mut self, packet: &CapturedPacket<'_>) -> Result<(), ReplayError> {
        if self.conservation.in_packets == 0 {
            self.sink.origin = packet.timestamp;
            self.last = packet.timestamp;
        }
        self.conservation.in_packets += 1;
        self.conservation.in_bytes += packet.orig_len.0;
        self.late_timestamps += u64::from(packet.timestamp < self.last);
        self.last = self.last.max(packet.timestamp);
        let at = self.last.saturating_since(self.sink.origin);

        let key = match parse_headers(packet.data) {
            Ok(headers) => headers.flow_key,
            Err(_) => {
                self.unreadable += 1;
                None
            }
        };
        let sink = &mut self.sink;
        let Some(flow) = self.flows.queue(self.policy, self.link.scheduler_mut(), key) else {
            self.drop(packet.orig_len, "no lane");
            return Ok(());
        };
        // What leaves before this packet arrives makes room for it.
        self.link.run_until(at, |departure| sink.depart(departure));
        let handle = sink.waiting.put(packet);
        let offered = (flow, packet.orig_len, handle);
        if let Err(refused) = self.link.arrive(at, offered, |departure| sink.depart(departure)) {
            sink.waiting.release(handle);
            self.drop(packet.orig_len, S::reason(&refused));
        }
        self.sink.error.take().map_or(Ok(()), |error| Err(ReplayError::Output(error)))
    }

    fn drop(&mut self, len: Bytes, reason: &'static str) {
        self.conservation.dropped_packets += 1;
        self.conservation.dropped_bytes += len.0;
        self.conservation.dropped_by_reason.entry(reason).or_default().add(len);
    }

    /// Sends what waits and closes the output.
    fn finish(mut self, rate: BitsPerSec) -> Result<ReplayReport, ReplayError> {
        let sink = &mut self.sink;
        self.link.drain(|departure| sink.depart(departure));
        if let Some(error) = self.sink.error {
            return Err(ReplayError::Output(error));
        }
        self.sink.writer.finish().map_err(ReplayError::Output)?;
        let mut conservation = self.conservation;
        conservation.out_packets = self.sink.out.packets;
        conservation.out_bytes = self.sink.out.bytes;
        // Counted where they lie, not as the difference: the equation is there to be checked.
        let mut waits = vec![true; self.sink.waiting.packets.len()];
        for handle in &self.sink.waiting.free {
            waits[*handle as usize] = false;
        }
        for (held, _) in self.sink.waiting.packets.iter().zip(waits).filter(|(_, waits)| *waits) {
            conservation.held_packets += 1;
            conservation.held_bytes += held.orig_len.0;
        }
        Ok(ReplayReport {
            link_bps: rate.0,
            classes: self.sink.classes,
            conservation,
            unreadable: self.unreadable,
            late_timestamps: self.late_timestamps,
            flows: self.flows.queues.len() as u64,
            overflow_packets: self.flows.overflow_packets,
        })
    }
}

/// Replays `input` through `policy` with the engine, and writes what leaves to `output`.
///
/// # Errors
/// See [`ReplayError`]; what `output` then holds is told at the head of this module.
pub fn replay(
    policy: &CompiledPolicy,
    input: impl Read,
    output: impl Write,
    options: ReplayOptions<'_>,
) -> Result<ReplayReport, ReplayError> {
    let scheduler = PacketScheduler::new(&policy.program);
    let scheduler = scheduler.map_err(|error| ReplayError::Policy(error.to_string()))?;
    replay_with(policy, scheduler, input, output, options)
}

/// Replays `input` through `policy` with a scheduler of the caller's choice, and writes what leaves to `output`.
///
/// # Errors
/// See [`ReplayError`]; what `output` then holds is told at the head of this module.
pub fn replay_with<S: Scheduler>(
    policy: &CompiledPolicy,
    scheduler: S,
    input: impl Read,
    output: impl Write,
    mut options: ReplayOptions<'_>,
) -> Result<ReplayReport, ReplayError> {
    let rate = options.rate.or(policy.link).ok_or(ReplayError::NoRate)?;
    let unread = |source| ReplayError::Input { source, report: None };
    let mut reader = PcapReader::new(input).map_err(unread)?;
    let mut replay = Replay::new(policy, scheduler, rate, options.flows_per_class, output)?;
    let broken = loop {
        match reader.next_packet() {
            Ok(Some(packet)) => replay.packet(&packet)?,
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
        if reader.packets() % PROGRESS_INTERVAL == 0
            && let Some(progress) = &mut options.progress
        {
            progress(Progress { packets: reader.packets(), input_bytes: reader.offset() });
        }
    };
    if let Some(progress) = &mut options.progress {
        progress(Progress { packets: reader.packets(), input_bytes: reader.offset() });
    }
    let report = replay.finish(rate)?;
    match broken {
        None => Ok(report),
        Some(source) => Err(ReplayError::Input { source, report: Some(Box::new(report)) }),
    }
}
