//! A reader of Perfetto traces for tests, by the wire format of protocol buffers and the numbers of the published fields. It uses
//! nothing of the writer.
//!
//! It panics at what no trace may have: other wire types, fields cut short, spans that do not nest or do not end.

use std::collections::{BTreeMap, BTreeSet};

/// The value of a field.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Value {
    Number(u64),
    Bytes(Vec<u8>),
}

/// Fields of a message by their numbers, in order.
type Message = Vec<(u64, Value)>;

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().expect("a byte");
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return value;
        }
    }
    panic!("a varint of more than ten bytes");
}

fn decode(mut bytes: &[u8]) -> Message {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let value = match tag & 7 {
            0 => Value::Number(varint(&mut bytes)),
            1 => {
                let (number, rest) = bytes.split_at(8);
                bytes = rest;
                Value::Number(u64::from_le_bytes(number.try_into().expect("eight bytes")))
            }
            2 => {
                let length = varint(&mut bytes) as usize;
                let (content, rest) = bytes.split_at(length);
                bytes = rest;
                Value::Bytes(content.to_vec())
            }
            other => panic!("wire type {other}"),
        };
        fields.push((tag >> 3, value));
    }
    fields
}

fn all(message: &Message, field: u64) -> impl Iterator<Item = &Value> {
    message.iter().filter(move |(number, _)| *number == field).map(|(_, value)| value)
}

fn number(message: &Message, field: u64) -> Option<u64> {
    all(message, field).next().map(|value| match value {
        Value::Number(number) => *number,
        Value::Bytes(_) => panic!("field {field} is no number"),
    })
}

fn text(message: &Message, field: u64) -> Option<String> {
    all(message, field).next().map(|value| match value {
        Value::Bytes(bytes) => String::from_utf8(bytes.clone()).expect("UTF-8"),
        Value::Number(_) => panic!("field {field} is no text"),
    })
}

fn inner(message: &Message, field: u64) -> Option<Message> {
    all(message, field).next().map(|value| match value {
        Value::Bytes(bytes) => decode(bytes),
        Value::Number(_) => panic!("field {field} is no message"),
    })
}

/// A track: its name, its parent, and whether it is a counter of bytes.
pub type Track = (String, Option<u64>, bool);

/// A span.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    /// Its track.
    pub track: u64,
    /// Its begin and end, in nanoseconds.
    pub times: (u64, u64),
    /// Its name.
    pub name: String,
    /// The flow that it is part of.
    pub flow: Option<u64>,
    /// The number of its notes.
    pub notes: usize,
}

/// The contents of a trace for a viewer.
#[derive(Default, Debug)]
pub struct Seen {
    /// The tracks by their identities.
    pub tracks: BTreeMap<u64, Track>,
    /// All spans.
    pub spans: Vec<Span>,
    /// The number of instants.
    pub instants: usize,
    /// By counter, its times and values.
    pub counts: BTreeMap<u64, Vec<(u64, u64)>>,
}

impl Seen {
    /// The spans on tracks of this name.
    pub fn on(&self, name: &str) -> Vec<&Span> {
        let on = |span: &&Span| self.tracks[&span.track].0 == name;
        self.spans.iter().filter(on).collect()
    }

    /// The flows.
    pub fn flows(&self) -> BTreeSet<u64> {
        self.spans.iter().filter_map(|span| span.flow).collect()
    }
}

/// Reads a trace as Perfetto does: packets sorted by time, equal times in the order of the file, and spans of a track nested.
///
/// # Panics
/// If it is no trace.
pub fn read(bytes: &[u8]) -> Seen {
    let mut seen = Seen::default();
    let mut events = Vec::new();
    for (index, (field, value)) in decode(bytes).into_iter().enumerate() {
        let Value::Bytes(packet) = value else { panic!("packets are messages") };
        assert_eq!(field, 1);
        let packet = decode(&packet);
        assert_eq!(number(&packet, 10), Some(1), "of one sequence");
        assert_eq!(number(&packet, 13), (index == 0).then_some(1));
        if let Some(track) = inner(&packet, 60) {
            let bytes = inner(&track, 8).map(|counter| number(&counter, 3));
            assert!(bytes.is_none() || bytes == Some(Some(3)));
            let uuid = number(&track, 1).expect("an identity");
            let known = (text(&track, 2).expect("a name"), number(&track, 5), bytes.is_some());
            assert!(known.1.is_none_or(|parent| seen.tracks.contains_key(&parent)), "parents come first");
            assert_eq!(seen.tracks.insert(uuid, known), None);
        }
        if let Some(event) = inner(&packet, 11) {
            events.push((number(&packet, 8).expect("a time"), event));
        }
    }
    events.sort_by_key(|(at, _)| *at);
    let mut open: BTreeMap<u64, Vec<(u64, Message)>> = BTreeMap::new();
    for (at, event) in events {
        let track = number(&event, 11).expect("a track");
        assert!(seen.tracks.contains_key(&track));
        match number(&event, 9).expect("a type") {
            1 => open.entry(track).or_default().push((at, event)),
            2 => {
                let (begin, of) = open.get_mut(&track).and_then(Vec::pop).expect("an open span");
                let (name, flow) = (text(&of, 23).expect("a name"), number(&of, 47));
                let notes = all(&of, 4).count();
                seen.spans.push(Span { track, times: (begin, at), name, flow, notes });
            }
            3 => seen.instants += 1,
            4 => seen.counts.entry(track).or_default().push((at, number(&event, 30).expect("a value"))),
            other => panic!("type {other}"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "each span has ended");
    seen
}
