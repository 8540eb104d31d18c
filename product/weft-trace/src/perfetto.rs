//! Perfetto traces: tracks with spans, flows that join them, and counters.
//!
//! The format is the protocol buffers of github.com/google/perfetto, below `protos/perfetto/trace/`; each constant names its message
//! and field, the module its file. A packet of the trace is written whole when its span has ended, so a trace is not sorted by time;
//! its readers sort. Times are nanoseconds since an epoch of the writer's choice.

use crate::protobuf::Message;
use std::io::{self, Write};
use weft_units::Nanos;

/// `trace.proto`, `trace_packet.proto`.
mod packet {
    /// `Trace.packet`.
    pub(super) const PACKET: u32 = 1;
    /// `TracePacket.timestamp`.
    pub(super) const TIMESTAMP: u32 = 8;
    /// `TracePacket.trusted_packet_sequence_id`: all packets are one writer's.
    pub(super) const SEQUENCE: u32 = 10;
    /// `TracePacket.track_event`.
    pub(super) const TRACK_EVENT: u32 = 11;
    /// `TracePacket.sequence_flags`.
    pub(super) const SEQUENCE_FLAGS: u32 = 13;
    /// `TracePacket.SEQ_INCREMENTAL_STATE_CLEARED`: nothing before the first packet is needed.
    pub(super) const STATE_CLEARED: u64 = 1;
    /// `TracePacket.track_descriptor`.
    pub(super) const TRACK_DESCRIPTOR: u32 = 60;
}

/// `track_event/track_descriptor.proto`, `track_event/counter_descriptor.proto`.
mod descriptor {
    /// `TrackDescriptor.uuid`.
    pub(super) const UUID: u32 = 1;
    /// `TrackDescriptor.name`.
    pub(super) const NAME: u32 = 2;
    /// `TrackDescriptor.parent_uuid`.
    pub(super) const PARENT: u32 = 5;
    /// `TrackDescriptor.counter`.
    pub(super) const COUNTER: u32 = 8;
    /// `TrackDescriptor.child_ordering`.
    pub(super) const CHILD_ORDERING: u32 = 11;
    /// `TrackDescriptor.EXPLICIT`: by rank.
    pub(super) const EXPLICIT: u64 = 3;
    /// `TrackDescriptor.sibling_order_rank`.
    pub(super) const RANK: u32 = 12;
    /// `CounterDescriptor.unit`.
    pub(super) const UNIT: u32 = 3;
    /// `CounterDescriptor.UNIT_SIZE_BYTES`.
    pub(super) const BYTES: u64 = 3;
}

/// `track_event/track_event.proto`, `track_event/debug_annotation.proto`.
mod event {
    /// `TrackEvent.debug_annotations`.
    pub(super) const ANNOTATION: u32 = 4;
    /// `TrackEvent.type`.
    pub(super) const TYPE: u32 = 9;
    /// `TrackEvent.track_uuid`.
    pub(super) const TRACK: u32 = 11;
    /// `TrackEvent.name`.
    pub(super) const NAME: u32 = 23;
    /// `TrackEvent.counter_value`.
    pub(super) const COUNTER_VALUE: u32 = 30;
    /// `TrackEvent.flow_ids`.
    pub(super) const FLOW: u32 = 47;
    /// `TrackEvent.TYPE_SLICE_BEGIN`.
    pub(super) const BEGIN: u64 = 1;
    /// `TrackEvent.TYPE_SLICE_END`.
    pub(super) const END: u64 = 2;
    /// `TrackEvent.TYPE_INSTANT`.
    pub(super) const INSTANT: u64 = 3;
    /// `TrackEvent.TYPE_COUNTER`.
    pub(super) const COUNTER: u64 = 4;
    /// `DebugAnnotation.uint_value`.
    pub(super) const NUMBER: u32 = 3;
    /// `DebugAnnotation.string_value`.
    pub(super) const TEXT: u32 = 6;
    /// `DebugAnnotation.name`.
    pub(super) const KEY: u32 = 10;
}

/// The number of the only sequence; zero means no sequence.
const SEQUENCE: u64 = 1;
/// The bytes from which on they are written to the sink.
const CHUNK: usize = 65_536;

/// A track.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TrackId(u64);

/// The number of a flow in the sense of Perfetto, above zero: it joins spans, in the order of their begins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ArrowNumber(pub u64);

/// The value of a note at a span.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Note<'a> {
    /// A number.
    Number(u64),
    /// A text.
    Text(&'a str),
}

/// A place in the tree of tracks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TrackPlace<'a> {
    /// The track above; `None` at the top.
    pub parent: Option<TrackId>,
    /// The place among its siblings.
    pub rank: u32,
    /// The name. Tracks with the same name and parent are shown as one.
    pub name: &'a str,
}

/// A span or an instant.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TraceEvent<'a> {
    /// The name.
    pub name: &'a str,
    /// The flow that it is part of.
    pub flow: Option<ArrowNumber>,
    /// Notes, shown with it.
    pub notes: &'a [(&'a str, Note<'a>)],
}

/// A trace being written.
#[derive(Debug)]
pub struct Perfetto<W: Write> {
    sink: W,
    out: Message,
    tracks: u64,
    /// Whether the first packet was written.
    begun: bool,
    /// The first error; nothing is written after it.
    failed: Option<io::Error>,
}

impl<W: Write> Perfetto<W> {
    /// Starts a trace. Writes are buffered.
    pub fn new(sink: W) -> Self {
        Self { sink, out: Message::default(), tracks: 0, begun: false, failed: None }
    }

    /// Makes a track for spans that do not overlap, or for other tracks, which are ordered by their ranks.
    pub fn track(&mut self, place: &TrackPlace<'_>) -> TrackId {
        self.describe(place, |of| of.number(descriptor::CHILD_ORDERING, descriptor::EXPLICIT))
    }

    /// Makes a track for a counter of bytes.
    pub fn bytes_counter(&mut self, place: &TrackPlace<'_>) -> TrackId {
        self.describe(place, |of| {
            of.message(descriptor::COUNTER, |counter| counter.number(descriptor::UNIT, descriptor::BYTES));
        })
    }

    fn describe(&mut self, place: &TrackPlace<'_>, more: impl FnOnce(&mut Message)) -> TrackId {
        self.tracks += 1;
        let uuid = self.tracks;
        self.packet(None, packet::TRACK_DESCRIPTOR, |of| {
            of.number(descriptor::UUID, uuid);
            of.text(descriptor::NAME, place.name);
            if let Some(parent) = place.parent {
                of.number(descriptor::PARENT, parent.0);
            }
            of.number(descriptor::RANK, place.rank.into());
            more(of);
        });
        TrackId(uuid)
    }

    /// Writes a span.
    pub fn span(&mut self, track: TrackId, (from, to): (Nanos, Nanos), event: &TraceEvent<'_>) {
        self.event(from, event::BEGIN, track, |of| describe(of, event));
        self.event(to.max(from), event::END, track, |_| ());
    }

    /// Writes an instant.
    pub fn instant(&mut self, track: TrackId, at: Nanos, event: &TraceEvent<'_>) {
        self.event(at, event::INSTANT, track, |of| describe(of, event));
    }

    /// Writes the value of a counter from a time on.
    pub fn count(&mut self, counter: TrackId, at: Nanos, value: u64) {
        self.event(at, event::COUNTER, counter, |of| of.number(event::COUNTER_VALUE, value));
    }

    /// Writes the rest, and returns the sink.
    ///
    /// # Errors
    /// The first error of any write.
    pub fn finish(mut self) -> io::Result<W> {
        self.write_out();
        match self.failed {
            Some(error) => Err(error),
            None => {
                self.sink.flush()?;
                Ok(self.sink)
            }
        }
    }

    /// Whether writing has failed, so that more is not written; [`finish`](Self::finish) has the error.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    fn event(&mut self, at: Nanos, kind: u64, track: TrackId, more: impl FnOnce(&mut Message)) {
        self.packet(Some(at), packet::TRACK_EVENT, |of| {
            of.number(event::TYPE, kind);
            of.number(event::TRACK, track.0);
            more(of);
        });
    }

    fn packet(&mut self, at: Option<Nanos>, content: u32, write: impl FnOnce(&mut Message)) {
        let first = !std::mem::replace(&mut self.begun, true);
        self.out.message(packet::PACKET, |packet| {
            if let Some(at) = at {
                packet.number(packet::TIMESTAMP, at.0);
            }
            packet.number(packet::SEQUENCE, SEQUENCE);
            if first {
                packet.number(packet::SEQUENCE_FLAGS, packet::STATE_CLEARED);
            }
            packet.message(content, write);
        });
        if self.out.bytes().len() >= CHUNK {
            self.write_out();
        }
    }

    fn write_out(&mut self) {
        if self.failed.is_none() {
            self.failed = self.sink.write_all(self.out.bytes()).err();
        }
        self.out.clear();
    }
}

fn describe(of: &mut Message, event: &TraceEvent<'_>) {
    of.text(event::NAME, event.name);
    if let Some(flow) = event.flow {
        of.fixed64(event::FLOW, flow.0);
    }
    for (key, note) in event.notes {
        of.message(event::ANNOTATION, |of| {
            of.text(event::KEY, key);
            match note {
                Note::Number(number) => of.number(event::NUMBER, *number),
                Note::Text(text) => of.text(event::TEXT, text),
            }
        });
    }
}
