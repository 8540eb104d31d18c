//! The names that every algorithm has: metadata of packets, what the engine counts, constants.

use super::types::Type;
use weft_packet::ethernet;
use weft_rank::{Input, Metadatum, Part, Scale};

/// Whether a packet always has a metadatum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Presence {
    Always,
    /// Only if the sender has given it: `or` says what holds without it.
    Perhaps,
}

/// A metadatum: its name behind `head.` or `p.`.
pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) of: Type,
    pub(crate) metadatum: Metadatum,
    pub(crate) presence: Presence,
}

/// The metadata of packets.
pub(crate) const METADATA: [Known; 9] = {
    const fn known(name: &'static str, of: Type, metadatum: Metadatum, presence: Presence) -> Known {
        Known { name, of, metadatum, presence }
    }
    use Presence::{Always, Perhaps};
    [
        known("len", Type::Bytes, Metadatum::Length, Always),
        known("arrived", Type::Time, Metadatum::Arrived, Always),
        known("deadline", Type::Time, Metadatum::Deadline, Perhaps),
        known("slack", Type::Duration, Metadatum::Slack, Perhaps),
        known("left", Type::Bytes, Metadatum::Left, Perhaps),
        known("late", Type::Duration, Metadatum::Late, Perhaps),
        known("prio", Type::Count, Metadatum::Priority, Always),
        known("txtime", Type::Time, Metadatum::SendTime, Perhaps),
        known("pace", Type::Rate, Metadatum::Pace, Perhaps),
    ]
};

/// The names that are the same in every part, but for those that the engine has in some parts only.
pub(crate) const NAMES: [&str; 12] = [
    "now",
    "bytes",
    "more",
    "rank",
    "rank.1",
    "rank.2",
    "weights",
    "queued.bytes",
    "queued.packets",
    "mtu",
    "most",
    "never",
];

/// The functions.
pub(crate) const FUNCTION_NAMES: &[&str] = &["min", "max", "over_sqrt"];

/// The constants, with their words.
pub(crate) fn constant(name: &str) -> Option<(Type, u64)> {
    Some(match name {
        "mtu" => (Type::Bytes, ethernet::frame_of(ethernet::MTU).get()),
        "most" => (Type::Number, u64::MAX),
        "never" => (Type::Time, u64::MAX),
        "unlimited" => (Type::Rate, Scale::ZERO.word()),
        _ => return None,
    })
}

/// An input of the engine, but for metadata and ranks.
pub(crate) fn input(name: &str) -> Option<(Type, Input)> {
    Some(match name {
        "now" => (Type::Time, Input::Now),
        "bytes" => (Type::Bytes, Input::Bytes),
        "more" => (Type::YesNo, Input::More),
        "weights" => (Type::Weight, Input::Weights),
        "queued.bytes" => (Type::Bytes, Input::QueuedBytes),
        "queued.packets" => (Type::Count, Input::QueuedPackets),
        _ => return None,
    })
}

/// Other words for the names, from papers and other systems.
pub(crate) const SYNONYMS: &[(&str, &str)] = &[
    ("time", "now"),
    ("clock", "now"),
    ("wall", "now"),
    ("size", "bytes"),
    ("length", "bytes"),
    ("infinity", "never"),
    ("inf", "never"),
    ("forever", "never"),
    ("max", "most"),
    ("head.length", "head.len"),
    ("head.size", "head.len"),
    ("head.bytes", "head.len"),
    ("head.remaining", "head.left"),
    ("head.due", "head.deadline"),
    ("head.priority", "head.prio"),
    ("head.arrival", "head.arrived"),
    ("head.time", "head.arrived"),
    ("head.rate", "head.pace"),
    ("p.length", "p.len"),
    ("p.size", "p.len"),
    ("p.bytes", "p.len"),
    ("p.remaining", "p.left"),
    ("p.due", "p.deadline"),
    ("p.priority", "p.prio"),
    ("p.arrival", "p.arrived"),
    ("p.rate", "p.pace"),
];

/// The parts in which `name` has a value, in words, if it does not have one in `part`.
pub(crate) fn elsewhere(name: &str, part: Part) -> Option<&'static str> {
    let (parts, words): (&[Part], &str) = match name {
        "bytes" | "more" => (&[Part::Sent], "`sent`"),
        "rank" | "rank.1" | "rank.2" => (&[Part::Begin, Part::Sent], "`begin` and `sent`"),
        _ if name.starts_with("p.") => (&[Part::Arrives, Part::Fetched], "`arrives` and `fetched`"),
        _ if name.starts_with("head.") => (
            &[Part::Active, Part::Rank, Part::Begin, Part::Sent],
            "`rank`, `from`, `active`, `begin` and `sent`",
        ),
        _ => return None,
    };
    (!parts.contains(&part)).then_some(words)
}
