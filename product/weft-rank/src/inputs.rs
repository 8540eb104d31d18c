//! The inputs of a run: the time, the event, and what is known of packets.

use core::mem::offset_of;

use crate::effects::Rank;
use crate::operation::{Input, Metadatum, RankWord};
use weft_units::{Bytes, Instant, Packets};

/// The known metadata of a packet. Unknown metadata is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Metadata {
    /// A bit for each known metadatum, at its place in [`Metadatum::ALL`].
    known: u64,
    values: [u64; Metadatum::ALL.len()],
}

impl Metadata {
    /// No metadata.
    pub const UNKNOWN: Self = Self { known: 0, values: [0; Metadatum::ALL.len()] };

    /// The metadatum, if it is known.
    #[inline]
    pub fn get(&self, metadatum: Metadatum) -> Option<u64> {
        self.knows(metadatum).then(|| self.value(metadatum))
    }

    /// Whether the metadatum is known.
    #[inline]
    pub const fn knows(&self, metadatum: Metadatum) -> bool {
        self.known >> metadatum.index() & 1 == 1
    }

    /// The metadatum, or 0 if it is unknown.
    #[inline]
    pub const fn value(&self, metadatum: Metadatum) -> u64 {
        self.values[metadatum.index()]
    }

    /// Sets a metadatum.
    #[inline]
    pub const fn set(&mut self, metadatum: Metadatum, value: u64) {
        self.known |= 1 << metadatum.index();
        self.values[metadatum.index()] = value;
    }

    /// Removes a metadatum.
    #[inline]
    pub const fn clear(&mut self, metadatum: Metadatum) {
        self.known &= !(1 << metadatum.index());
        self.values[metadatum.index()] = 0;
    }

    /// The same metadata with one more.
    #[must_use]
    #[inline]
    pub const fn with(mut self, metadatum: Metadatum, value: u64) -> Self {
        self.set(metadatum, value);
        self
    }
}

/// The inputs of a run. An input that the part does not have is ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Inputs {
    /// The time.
    pub now: Instant,
    /// The bytes that the turn sent.
    pub bytes: Bytes,
    /// Whether the child has more to send after the turn.
    pub more: bool,
    /// The rank that won the turn.
    pub rank: Rank,
    /// The sum of the weights of the node's children, active or not.
    pub weights: u64,
    /// The least value of [`Aggregates::lowest`](crate::Aggregates::lowest) over the other active children; `u64::MAX` if
    /// no other child is active.
    pub lowest: u64,
    /// The bytes that wait in the child.
    pub queued_bytes: Bytes,
    /// The packets that wait in the child.
    pub queued_packets: Packets,
    /// The child's next packet.
    pub head: Metadata,
    /// The packet at hand, in `arrives` and `fetched`.
    pub packet: Metadata,
}

impl Inputs {
    /// The inputs at `now`, with everything else zero or unknown.
    pub fn at(now: Instant) -> Self {
        Self { now, lowest: u64::MAX, ..Self::default() }
    }

    /// The word of an input.
    #[inline]
    pub const fn word(&self, input: Input) -> u64 {
        match input {
            Input::Now => self.now.as_nanos(),
            Input::Bytes => self.bytes.get(),
            Input::More => self.more as u64,
            Input::Rank(RankWord::First) => self.rank.first,
            Input::Rank(RankWord::Second) => self.rank.second,
            Input::Weights => self.weights,
            Input::Lowest => self.lowest,
            Input::QueuedBytes => self.queued_bytes.get(),
            Input::QueuedPackets => self.queued_packets.get(),
            Input::Head(metadatum) => self.head.value(metadatum),
            Input::HeadKnown(metadatum) => self.head.knows(metadatum) as u64,
            Input::Packet(metadatum) => self.packet.value(metadatum),
            Input::PacketKnown(metadatum) => self.packet.knows(metadatum) as u64,
        }
    }

    /// The place of an input within the inputs, for compilers.
    pub const fn place(input: Input) -> Place {
        let (packet, metadatum, known) = match input {
            Input::Now => return Place::Word(offset_of!(Self, now)),
            Input::Bytes => return Place::Word(offset_of!(Self, bytes)),
            Input::More => return Place::Truth(offset_of!(Self, more)),
            Input::Rank(RankWord::First) => return Place::Word(offset_of!(Self, rank.first)),
            Input::Rank(RankWord::Second) => return Place::Word(offset_of!(Self, rank.second)),
            Input::Weights => return Place::Word(offset_of!(Self, weights)),
            Input::Lowest => return Place::Word(offset_of!(Self, lowest)),
            Input::QueuedBytes => return Place::Word(offset_of!(Self, queued_bytes)),
            Input::QueuedPackets => return Place::Word(offset_of!(Self, queued_packets)),
            Input::Head(metadatum) => (offset_of!(Self, head), metadatum, false),
            Input::HeadKnown(metadatum) => (offset_of!(Self, head), metadatum, true),
            Input::Packet(metadatum) => (offset_of!(Self, packet), metadatum, false),
            Input::PacketKnown(metadatum) => (offset_of!(Self, packet), metadatum, true),
        };
        match known {
            true => Place::Bit(packet + offset_of!(Metadata, known), metadatum.index() as u32),
            false => Place::Word(packet + offset_of!(Metadata, values) + 8 * metadatum.index()),
        }
    }
}

/// The place of an input, in bytes from the beginning of [`Inputs`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// A word at the offset.
    Word(usize),
    /// A byte at the offset, 0 or 1.
    Truth(usize),
    /// A bit of the word at the offset, counted from the least significant one.
    Bit(usize, u32),
}
