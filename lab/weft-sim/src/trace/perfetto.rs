//! A packet's way as a Perfetto trace: spans for each stage of each queue, joined by flows, and the queues' backlogs.
//!
//! | track | a span is |
//! |---|---|
//! | host, sockets | a segment that a socket is charged for, until the driver frees it |
//! | host, queue, qdisc | a segment in the queue's qdisc |
//! | host, queue, ring | a segment in the queue's ring, until the NIC's scheduler has picked it |
//! | host, NIC | a segment from the fetch of its first packet to the last bit of its last; others interleave |
//! | host, wire | a packet, from its first to its last bit |
//! | host, network | a packet from its sender's last bit until the stack of this host takes it |
//! | host, drops | a segment that a qdisc dropped, or a packet dropped at this host; of no length |
//!
//! All spans of a segment are in one flow. What is under way when the run ends has spans up to the last event.
//!
//! In memory are the segments that are not freed and the packets on their way.

use super::{Observer, PacketEvent, PacketEventKind};
use crate::ids::{HostId, StreamId};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use weft_trace::gauge::TraceGauge;
use weft_trace::lanes::Lanes;
use weft_trace::perfetto::{ArrowNumber, Note, Perfetto, TraceEvent, TrackId, TrackPlace};
use weft_units::{Nanos, TxQueueId};

/// The most time that changes of a backlog may be out of order: far above a unit of work of a processor.
const ORDER: Nanos = Nanos::from_millis(10);

/// A segment that is not freed.
#[derive(Debug)]
struct Waiting {
    name: String,
    flow: ArrowNumber,
    host: HostId,
    queue: TxQueueId,
    created: Nanos,
    first: u64,
    packets: u64,
    bytes: u64,
    /// The times at which it came into the ring, and its first packet into the NIC.
    posted_at: Nanos,
    fetched_at: Nanos,
    /// Packets that have come so far.
    posted: u64,
    fetched: u64,
    sent: u64,
    freed: u64,
}

impl Waiting {
    /// Whether an event can be the segment's next.
    fn awaits(&self, event: &PacketEvent) -> bool {
        let of_it = event.number.wrapping_sub(self.first) < self.packets;
        let next = match event.kind {
            PacketEventKind::Posted => self.posted < self.packets,
            PacketEventKind::Fetched => self.fetched < self.posted,
            PacketEventKind::Sent => self.sent < self.fetched,
            PacketEventKind::Freed => self.freed < self.sent,
            PacketEventKind::Dropped => self.posted == 0,
            PacketEventKind::Queued | PacketEventKind::Delivered => false,
        };
        // Acknowledgements and probes of a stream may have equal numbers; they leave in the order in which they came.
        next && self.created == event.created && (of_it || event.group.is_none())
    }

    fn notes(&self) -> [(&'static str, Note<'static>); 4] {
        [
            ("first packet", Note::Number(self.first)),
            ("packets", Note::Number(self.packets)),
            ("bytes", Note::Number(self.bytes)),
            ("queue", Note::Number(self.queue.0.into())),
        ]
    }
}

/// The tracks of a transmit queue.
#[derive(Debug)]
struct QueueTracks {
    qdisc: Lanes,
    ring: Lanes,
    in_qdisc: TraceGauge,
    in_ring: TraceGauge,
}

impl QueueTracks {
    fn new<W: Write>(trace: &mut Perfetto<W>, host: TrackId, queue: TxQueueId) -> Self {
        let name = format!("queue {queue}");
        let parent = Some(trace.track(&TrackPlace { parent: Some(host), rank: queue.0 + 1, name: &name }));
        let mut counter =
            |rank, name| TraceGauge::new(trace.bytes_counter(&TrackPlace { parent, rank, name }));
        Self {
            in_qdisc: counter(0, "qdisc backlog"),
            in_ring: counter(2, "ring backlog"),
            qdisc: Lanes::new(&TrackPlace { parent, rank: 1, name: "qdisc" }),
            ring: Lanes::new(&TrackPlace { parent, rank: 3, name: "ring" }),
        }
    }
}

/// The tracks of a host.
#[derive(Debug)]
struct HostTracks {
    host: TrackId,
    sockets: Lanes,
    nic: Lanes,
    wire: Lanes,
    network: Lanes,
    drops: Lanes,
    queues: BTreeMap<TxQueueId, QueueTracks>,
}

impl HostTracks {
    fn new<W: Write>(trace: &mut Perfetto<W>, host: HostId) -> Self {
        let name = format!("host {host}");
        let host = trace.track(&TrackPlace { parent: None, rank: host.0, name: &name });
        // Behind the queues, of which a NIC has at most some hundreds.
        let last =
            |rank: u32, name| Lanes::new(&TrackPlace { parent: Some(host), rank: 100_000 + rank, name });
        Self {
            host,
            sockets: Lanes::new(&TrackPlace { parent: Some(host), rank: 0, name: "sockets" }),
            nic: last(0, "NIC"),
            wire: last(1, "wire"),
            network: last(2, "network"),
            drops: last(3, "drops"),
            queues: BTreeMap::new(),
        }
    }
}

/// The tracks of all hosts.
type Tracks = BTreeMap<HostId, HostTracks>;

/// Returns the tracks of a host, which are made for its first event.
fn tracks<'a, W: Write>(all: &'a mut Tracks, trace: &mut Perfetto<W>, host: HostId) -> &'a mut HostTracks {
    all.entry(host).or_insert_with(|| HostTracks::new(trace, host))
}

/// A packet on its way: its stream, creation and number, and a number among equal ones.
type OnItsWay = (StreamId, Nanos, u64, u32);

/// Writes a Perfetto trace of a run. Time 0 is the start of the run.
#[derive(Debug)]
pub struct PerfettoTrace<W: Write> {
    trace: Perfetto<W>,
    groups: Vec<String>,
    hosts: Tracks,
    waiting: BTreeMap<StreamId, VecDeque<Waiting>>,
    under_way: BTreeMap<OnItsWay, (Nanos, ArrowNumber)>,
    flows: u64,
    /// The time of the latest event.
    last: Nanos,
}

impl<W: Write> PerfettoTrace<W> {
    /// Starts a trace of a run with flow groups of these names. Writes are buffered.
    pub fn new(sink: W, groups: Vec<String>) -> Self {
        Self {
            trace: Perfetto::new(sink),
            groups,
            hosts: BTreeMap::new(),
            waiting: BTreeMap::new(),
            under_way: BTreeMap::new(),
            flows: 0,
            last: Nanos::ZERO,
        }
    }

    /// Ends the spans of what is under way, writes the rest, and returns the sink.
    ///
    /// # Errors
    /// The first error of any write.
    pub fn finish(mut self) -> io::Result<W> {
        let last = self.last;
        for segment in std::mem::take(&mut self.waiting).into_values().flatten() {
            let of = tracks(&mut self.hosts, &mut self.trace, segment.host);
            let Some(queue) = of.queues.get_mut(&segment.queue) else { continue };
            let (lanes, since) = match (segment.posted, segment.fetched) {
                (0, _) => (&mut queue.qdisc, segment.created),
                (_, 0) => (&mut queue.ring, segment.posted_at),
                _ => (&mut of.nic, segment.fetched_at),
            };
            let notes = segment.notes();
            let event = TraceEvent { name: &segment.name, flow: Some(segment.flow), notes: &notes };
            if segment.sent < segment.packets {
                lanes.span(&mut self.trace, (since, last), &event);
            }
            of.sockets.span(&mut self.trace, (segment.created, last), &event);
        }
        for queue in self.hosts.values_mut().flat_map(|host| host.queues.values_mut()) {
            queue.in_qdisc.finish(&mut self.trace);
            queue.in_ring.finish(&mut self.trace);
        }
        self.trace.finish()
    }

    /// Returns the name of the spans of an event's flow.
    fn name(&self, event: &PacketEvent) -> String {
        let group = event.group.and_then(|group| self.groups.get(group.index()));
        group
            .map_or_else(|| format!("ack or probe {}", event.flow), |group| format!("{group} {}", event.flow))
    }

    fn queued(&mut self, event: &PacketEvent) {
        let Some(queue) = event.queue else { return };
        self.flows += 1;
        let segment = Waiting {
            name: self.name(event),
            flow: ArrowNumber(self.flows),
            host: event.host,
            queue,
            created: event.created,
            first: event.number,
            packets: event.packets.into(),
            bytes: event.len.0,
            posted_at: event.at,
            fetched_at: event.at,
            posted: 0,
            fetched: 0,
            sent: 0,
            freed: 0,
        };
        let of = tracks(&mut self.hosts, &mut self.trace, event.host);
        let of = of.queues.entry(queue).or_insert_with(|| QueueTracks::new(&mut self.trace, of.host, queue));
        change(&mut of.in_qdisc, &mut self.trace, event.at, segment.bytes as i64);
        self.waiting.entry(event.flow).or_default().push_back(segment);
    }

    /// Moves a segment on.
    fn moves(&mut self, event: &PacketEvent) {
        let Some(segments) = self.waiting.get_mut(&event.flow) else { return };
        let Some(index) = segments.iter().position(|segment| segment.awaits(event)) else { return };
        let segment = &mut segments[index];
        let of = tracks(&mut self.hosts, &mut self.trace, segment.host);
        let Some(queue) = of.queues.get_mut(&segment.queue) else { return };
        let (trace, at, notes, bytes) = (&mut self.trace, event.at, segment.notes(), segment.bytes as i64);
        let name = segment.name.clone();
        let span = TraceEvent { name: &name, flow: Some(segment.flow), notes: &notes };
        match event.kind {
            PacketEventKind::Posted => {
                if segment.posted == 0 {
                    segment.posted_at = at;
                    queue.qdisc.span(trace, (segment.created, at), &span);
                    change(&mut queue.in_qdisc, trace, at, -bytes);
                }
                change(&mut queue.in_ring, trace, at, event.len.0 as i64);
                segment.posted += u64::from(event.packets);
            }
            PacketEventKind::Fetched => {
                if segment.fetched == 0 {
                    segment.fetched_at = at;
                    queue.ring.span(trace, (segment.posted_at, at), &span);
                }
                segment.fetched += 1;
                change(&mut queue.in_ring, trace, at, -(event.len.0 as i64));
            }
            PacketEventKind::Sent => {
                segment.sent += 1;
                if segment.sent == segment.packets {
                    of.nic.span(trace, (segment.fetched_at, at), &span);
                }
            }
            PacketEventKind::Freed => segment.freed += u64::from(event.packets),
            _ => {
                queue.qdisc.span(trace, (segment.created, at), &span);
                of.drops.span(trace, (at, at), &span);
                change(&mut queue.in_qdisc, trace, at, -bytes);
                segment.freed = segment.packets;
            }
        }
        if segment.freed == segment.packets {
            of.sockets.span(trace, (segment.created, at), &span);
            segments.remove(index);
        }
    }

    /// Writes a packet's time on the wire.
    fn sent(&mut self, event: &PacketEvent) {
        let segments = self.waiting.get(&event.flow).into_iter().flatten();
        let flow = segments.into_iter().find(|segment| segment.awaits(event)).map(|segment| segment.flow);
        let name = self.name(event);
        let notes = [("packet", Note::Number(event.number)), ("bytes", Note::Number(event.len.0))];
        let of = tracks(&mut self.hosts, &mut self.trace, event.host);
        of.wire.span(
            &mut self.trace,
            (event.begin, event.at),
            &TraceEvent { name: &name, flow, notes: &notes },
        );
        let Some(flow) = flow else { return };
        let equal = self.under_way.range(keys(event)).next_back();
        let next = equal.map_or(0, |((.., index), _)| index + 1);
        self.under_way.insert((event.flow, event.created, event.number, next), (event.at, flow));
    }

    /// Ends a packet's way over the network, where it arrived or was lost.
    fn arrived(&mut self, event: &PacketEvent) {
        let Some(key) = self.under_way.range(keys(event)).next().map(|(key, _)| *key) else { return };
        let Some((since, flow)) = self.under_way.remove(&key) else { return };
        let name = self.name(event);
        let notes = [("packet", Note::Number(event.number)), ("bytes", Note::Number(event.len.0))];
        let of = tracks(&mut self.hosts, &mut self.trace, event.host);
        let span = TraceEvent { name: &name, flow: Some(flow), notes: &notes };
        if event.kind == PacketEventKind::Dropped {
            of.drops.span(&mut self.trace, (event.at, event.at), &span);
        } else {
            of.network.span(&mut self.trace, (since, event.at), &span);
        }
    }
}

/// The keys of equal packets on their way.
fn keys(event: &PacketEvent) -> core::ops::RangeInclusive<OnItsWay> {
    let key = |index| (event.flow, event.created, event.number, index);
    key(0)..=key(u32::MAX)
}

/// Changes a backlog.
fn change<W: Write>(gauge: &mut TraceGauge, trace: &mut Perfetto<W>, at: Nanos, bytes: i64) {
    gauge.add(at, bytes);
    gauge.settle(trace, at.saturating_sub(ORDER));
}

impl<W: Write> Observer for PerfettoTrace<W> {
    fn packet(&mut self, event: &PacketEvent) {
        if self.trace.has_failed() {
            return;
        }
        self.last = self.last.max(event.at);
        match event.kind {
            PacketEventKind::Queued => self.queued(event),
            PacketEventKind::Delivered => self.arrived(event),
            PacketEventKind::Dropped if event.queue.is_none() => self.arrived(event),
            PacketEventKind::Sent => {
                self.sent(event);
                self.moves(event);
            }
            PacketEventKind::Posted
            | PacketEventKind::Fetched
            | PacketEventKind::Freed
            | PacketEventKind::Dropped => self.moves(event),
        }
    }
}
