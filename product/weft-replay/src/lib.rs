//! Replay: a captured stream of packets, scheduled by a policy.
//!
//! A capture is read packet by packet. Each packet is classified and scheduled in virtual time on a link of a given
//! rate, and written to another capture with its departure time. Only waiting packets are stored, so memory is bounded
//! by the policy's packet bounds and not by the file.
//!
//! **Time.** A packet arrives at its timestamp. A timestamp before that of the preceding packet counts as the same time
//! ([`ReplayOutcome::late_timestamps`]). A packet departs when its last bit and the gap after it have passed. The
//! written timestamp is the capture's first timestamp plus that virtual time.
//!
//! **Bytes.** Classes, limits and weights count the frame as it was on the wire (`orig_len`, without check sequence),
//! as `tc` does. The link adds padding and 24 bytes per frame ([`Framing::ETHERNET`]).
//!
//! **Flows.** A flow is a five-tuple. It keeps its queue, so its packets never overtake each other. A class has room
//! for a bounded number of flows. When it is full, later flows share one queue of the class for the rest of the run. In
//! every class, packets that are not IP share that queue. A class whose packets wait in one FIFO has one queue anyway.
//!
//! [`order()`] does the same with packets that are known by their metadata, without captures.
//!
//! **Drops and marks.** A packet that a dropper of the policy drops is counted under [`DROPPER`], and takes no time of the link. A packet
//! that it marks is written with the mark of RFC 3168 if its transport is capable of ECN, and as it came otherwise.
//!
//! **Unreadable input.** A packet whose headers are damaged or truncated is scheduled as one that is not IP, usually in
//! class `default`. It is counted in [`ReplayOutcome::unreadable`] and not dropped. A capture file that ends inside a
//! packet, or is damaged, ends the run. The packets before are still sent and written; then the error is returned, with
//! the report of the written packets.

use crate::flows::{FieldsOfFlow, Flows, Lookup};
use crate::link::{Framing, PacketFate, Scheduler, SentPacket, VirtualLink};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use thiserror::Error;
use weft_facts::record::{Balance, Conservation};
use weft_facts::replay::ReplayClass;
use weft_packet::ecn::mark_congestion;
use weft_packet::headers::parse_headers;
use weft_packet::pcap::{CapturedPacket, PcapError, PcapReader, PcapWriter};
use weft_policy::CompiledPolicy;
use weft_sched::PacketScheduler;
use weft_units::{BitsPerSec, Bytes, ClassId, Counted, Instant, LaneId, PacketMeta};

mod engine;
mod flows;
pub mod link;
mod order;
mod report;

pub use order::{Departed, ReplayArrival, ReplayOrder, order};
pub use report::ReplayOutcome;

/// The default number of flows of a class with their own queue.
pub const FLOWS_PER_CLASS: usize = 65_536;
/// The reason of drops by a dropper of the policy.
pub const DROPPER: &str = "dropper";
/// The number of packets between two reports of progress.
const PROGRESS_INTERVAL: u64 = 4096;

/// The progress of a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Packets read.
    pub packets: u64,
    /// Bytes read from the input file.
    pub input_bytes: u64,
}

/// The options of a replay.
pub struct ReplayOptions<'a> {
    /// The link's rate; `None` takes the policy's.
    pub rate: Option<BitsPerSec>,
    /// The maximum number of flows of a class with their own queue.
    pub flows_per_class: usize,
    /// The name of the port at which the packets leave, for policies that test it.
    pub port: &'a str,
    /// A callback for every few thousand packets and for the end of the input.
    pub progress: Option<&'a mut dyn FnMut(Progress)>,
}

impl Default for ReplayOptions<'_> {
    fn default() -> Self {
        Self { rate: None, flows_per_class: FLOWS_PER_CLASS, port: "", progress: None }
    }
}

/// Errors of a replay.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// Neither the policy nor the caller gives a rate.
    #[error("the policy has no link rate: pass one (--rate 1gbps) or begin the policy with `link 1gbps`")]
    NoRate,
    /// The rate is zero.
    #[error("the link rate is 0, so no packet would ever leave: pass a larger one (--rate 1gbps)")]
    ZeroRate,
    /// The policy is inconsistent; the compiler never produces such a policy.
    #[error("the compiled policy is not consistent: {0}")]
    Policy(String),
    /// A packet is said to be of a class that the policy lacks.
    #[error("packet {packet} is of class number {class}, and the policy has {classes}, counted from 0")]
    Class {
        /// The packet's number, from 0.
        packet: usize,
        /// The class.
        class: ClassId,
        /// The number of classes.
        classes: usize,
    },
    /// The capture cannot be read completely.
    #[error("{source}")]
    Input {
        /// The error.
        source: PcapError,
        /// The report of the packets written before; `None` when the file header could not be read.
        report: Option<Box<ReplayOutcome>>,
    },
    /// The output cannot be written.
    #[error("{0}")]
    Output(PcapError),
}

/// A waiting packet.
#[derive(Debug, Default)]
struct Held {
    data: Vec<u8>,
    orig_len: Bytes,
}

/// The waiting packets, by handle. Buffers are reused, so that a long run allocates no more than its peak.
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

/// The processing of packets that leave the scheduler.
struct Sink<W: Write> {
    writer: PcapWriter<W>,
    waiting: Waiting,
    /// The class of each lane.
    class_of_lane: Vec<usize>,
    classes: Vec<ReplayClass>,
    /// The capture's first timestamp.
    origin: Instant,
    entered: Counted,
    left: Counted,
    dropped: Counted,
    /// The drops by reason, counted beside their sum.
    drops: BTreeMap<String, Counted>,
    error: Option<PcapError>,
}

impl<W: Write> Sink<W> {
    fn take(&mut self, fate: PacketFate) {
        match fate {
            PacketFate::Sent(departure) => self.depart(departure),
            PacketFate::Dropped { lane, handle, .. } => {
                let len = self.waiting.packets.get(handle as usize).map_or(Bytes::ZERO, |held| held.orig_len);
                self.drop(lane, len, DROPPER);
                self.waiting.release(handle);
            }
        }
    }

    /// Counts a packet that is dropped.
    fn drop(&mut self, lane: LaneId, len: Bytes, reason: &'static str) {
        self.dropped += Counted::one(len);
        *self.drops.entry(reason.to_owned()).or_default() += Counted::one(len);
        if let Some(class) = self.class(lane) {
            *class.dropped.entry(reason.to_owned()).or_default() += Counted::one(len);
        }
    }

    /// The class of a lane.
    fn class(&mut self, lane: LaneId) -> Option<&mut ReplayClass> {
        self.classes.get_mut(*self.class_of_lane.get(lane.index())?)
    }

    fn depart(&mut self, departure: SentPacket) {
        let Some(held) = self.waiting.packets.get_mut(departure.handle as usize) else { return };
        if departure.marked
            && let Ok(headers) = parse_headers(&held.data)
        {
            mark_congestion(&mut held.data, &headers);
        }
        if self.error.is_none()
            && let Err(error) = self.writer.write(self.origin + departure.end, held.orig_len, &held.data)
        {
            self.error = Some(error);
        }
        let len = held.orig_len;
        self.left += Counted::one(len);
        if let Some(class) = self.class(departure.lane) {
            let at = departure.end.as_secs_f64();
            class.packets += 1;
            class.bytes += len.0;
            class.first_s.get_or_insert(at);
            class.last_s = Some(at);
        }
        self.waiting.release(departure.handle);
    }
}

/// A running replay.
struct Replay<'a, S, W: Write> {
    lookup: Lookup<'a>,
    link: VirtualLink<S>,
    flows: Flows<FieldsOfFlow>,
    sink: Sink<W>,
    unreadable: u64,
    late_timestamps: u64,
    last: Instant,
}

impl<'a, S: Scheduler, W: Write> Replay<'a, S, W> {
    fn new(
        policy: &'a CompiledPolicy,
        mut scheduler: S,
        rate: BitsPerSec,
        (flow_bound, port): (usize, &str),
        output: W,
    ) -> Result<Self, ReplayError> {
        let lookup = Lookup::new(policy, port)?;
        let flows = Flows::new(policy, &mut scheduler, flow_bound)?;
        let link = VirtualLink::new(scheduler, rate, Framing::ETHERNET).ok_or(ReplayError::ZeroRate)?;
        let class = |name: &String| ReplayClass { class: name.clone(), ..ReplayClass::default() };
        let sink = Sink {
            writer: PcapWriter::new(output).map_err(ReplayError::Output)?,
            waiting: Waiting::default(),
            class_of_lane: policy.program.lanes.iter().map(|lane| lane.class.index()).collect(),
            classes: policy.classes.iter().map(|info| class(&info.name)).collect(),
            origin: Instant::ZERO,
            entered: Counted::ZERO,
            left: Counted::ZERO,
            dropped: Counted::ZERO,
            drops: BTreeMap::new(),
            error: None,
        };
        Ok(Self { lookup, link, flows, sink, unreadable: 0, late_timestamps: 0, last: Instant::ZERO })
    }

    /// Offers one packet to the link.
    fn packet(&mut self, packet: &CapturedPacket<'_>) -> Result<(), ReplayError> {
        if self.sink.entered == Counted::ZERO {
            self.sink.origin = packet.timestamp;
            self.last = packet.timestamp;
        }
        self.sink.entered += Counted::one(packet.orig_len);
        self.late_timestamps += u64::from(packet.timestamp < self.last);
        self.last = self.last.max(packet.timestamp);
        let at = self.last.saturating_since(self.sink.origin);

        let meta = match parse_headers(packet.data) {
            Ok(headers) => headers.meta(),
            Err(_) => {
                self.unreadable += 1;
                PacketMeta::default()
            }
        };
        let (sink, lookup) = (&mut self.sink, &self.lookup);
        let key = lookup.fields_of_flow(&meta);
        let Some(flow) = self.flows.queue(self.link.scheduler_mut(), key, || lookup.lane(&meta)) else {
            sink.drop(lookup.lane(&meta), packet.orig_len, "no lane");
            return Ok(());
        };
        // Packets that leave before this packet arrives make room for it.
        self.link.run_until(at, |fate| sink.take(fate));
        let handle = sink.waiting.put(packet);
        let offered = (flow, packet.orig_len, handle);
        if let Err(refused) = self.link.arrive(at, offered, |fate| sink.take(fate)) {
            sink.waiting.release(handle);
            sink.drop(lookup.lane(&meta), packet.orig_len, S::reason(&refused));
        }
        self.sink.error.take().map_or(Ok(()), |error| Err(ReplayError::Output(error)))
    }

    /// Sends the waiting packets and closes the output.
    fn finish(mut self, rate: BitsPerSec) -> Result<ReplayOutcome, ReplayError> {
        let sink = &mut self.sink;
        self.link.drain(|fate| sink.take(fate));
        if let Some(error) = self.sink.error {
            return Err(ReplayError::Output(error));
        }
        self.sink.writer.finish().map_err(ReplayError::Output)?;
        // Counted in the scheduler, and their bytes in the table of packets, not as the difference: the equation is there to
        // be checked. A packet that the scheduler has lost is in the table alone.
        let mut held = Counted { packets: self.link.scheduler_mut().held(), bytes: Bytes::ZERO };
        let mut waits = vec![true; self.sink.waiting.packets.len()];
        for handle in &self.sink.waiting.free {
            waits[*handle as usize] = false;
        }
        for (packet, _) in self.sink.waiting.packets.iter().zip(waits).filter(|(_, waits)| *waits) {
            held.bytes += packet.orig_len;
        }
        let Sink { entered, left, dropped, drops, .. } = self.sink;
        let total = Balance::of(entered, left, dropped, held);
        Ok(ReplayOutcome {
            link_bps: rate.0,
            classes: self.sink.classes,
            conservation: Conservation { total, drops, ..Conservation::default() },
            unreadable: self.unreadable,
            late_timestamps: self.late_timestamps,
            flows: self.flows.count(),
            overflow_packets: self.flows.overflow_packets(),
        })
    }
}

/// Replays `input` through `policy` with the engine, and writes the departures to `output`.
///
/// # Errors
/// See [`ReplayError`]; the head of this module describes the output in that case.
pub fn replay(
    policy: &CompiledPolicy,
    input: impl Read,
    output: impl Write,
    options: ReplayOptions<'_>,
) -> Result<ReplayOutcome, ReplayError> {
    let scheduler = begin(policy, options.rate)?;
    replay_with(policy, scheduler, input, output, options)
}

/// Checks that a replay can run `policy`, on a link of `rate` if it is given.
///
/// # Errors
/// The error that [`replay()`] returns when it refuses the policy before it reads the capture.
pub fn can_replay(policy: &CompiledPolicy, rate: Option<BitsPerSec>) -> Result<(), ReplayError> {
    begin(policy, rate).map(drop)
}

fn begin(policy: &CompiledPolicy, rate: Option<BitsPerSec>) -> Result<PacketScheduler, ReplayError> {
    match rate.or(policy.link) {
        None => return Err(ReplayError::NoRate),
        Some(BitsPerSec::ZERO) => return Err(ReplayError::ZeroRate),
        Some(_) => {}
    }
    flows::check_policy(policy)?;
    PacketScheduler::new(&policy.program).map_err(|error| ReplayError::Policy(error.to_string()))
}

/// Replays `input` through `policy` with a scheduler of the caller's choice, and writes the departures to `output`.
///
/// # Errors
/// See [`ReplayError`]; the head of this module describes the output in that case.
pub fn replay_with<S: Scheduler>(
    policy: &CompiledPolicy,
    scheduler: S,
    input: impl Read,
    output: impl Write,
    mut options: ReplayOptions<'_>,
) -> Result<ReplayOutcome, ReplayError> {
    let rate = options.rate.or(policy.link).ok_or(ReplayError::NoRate)?;
    let unread = |source| ReplayError::Input { source, report: None };
    let mut reader = PcapReader::new(input).map_err(unread)?;
    let mut replay = Replay::new(policy, scheduler, rate, (options.flows_per_class, options.port), output)?;
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
