//! Shapers: a rate with a burst, the sender's own departure times, and pacing.

use super::{algorithm, program};
use crate::algorithm::{Algorithm, Field, Kind};
use crate::operation::{Effect, Input, Metadatum, Slot};
use crate::part::Part;

/// A rate limit by the generic cell rate algorithm (ITU-T I.371). The parameters are the rate, as the word of a scale from bytes to
/// nanoseconds, and the burst in bytes.
pub fn bucket() -> Algorithm {
    let (tat, rest) = (Slot::Node(0), Slot::Node(1));
    let rank = program(Part::Rank, |b| {
        let (tat, rate, burst, zero) = (b.load(tat), b.parameter(0), b.parameter(1), b.constant(0));
        let tolerance = b.scale(burst, rate, zero);
        let from = b.sub(tat, tolerance);
        b.effect(Effect::FromTime(from));
    });
    let sent = program(Part::Sent, |b| {
        let (before, now, carried, zero) = (b.load(tat), b.now(), b.load(rest), b.constant(0));
        let (bytes, rate) = (b.input(Input::Bytes), b.parameter(0));
        // A pause ends the busy period, whose fraction of a nanosecond is no debt of the next one.
        let paused = b.lt(before, now);
        let carry = b.select(paused, zero, carried);
        let start = b.max(before, now);
        let span = b.scale(bytes, rate, carry);
        let after = b.add(start, span);
        b.store(tat, after);
        let carry = b.scale_rest(bytes, rate, carry);
        b.store(rest, carry);
    });
    Algorithm {
        parameters: vec![Field::unsigned("rate", 0), Field::unsigned("burst", 0)],
        node: vec![Field::unsigned("tat", 0), Field::unsigned("rest", 0)],
        ..algorithm("bucket", Kind::Shaper, [rank, sent])
    }
}

/// Earliest departure time (Saeed et al., SIGCOMM 2017): the sender's, within a horizon.
pub fn edt() -> Algorithm {
    let rank = program(Part::Rank, |b| {
        let (now, horizon) = (b.now(), b.parameter(0));
        let asked = b.head_or(Metadatum::SendTime, now);
        let latest = b.add(now, horizon);
        let from = b.min(asked, latest);
        b.effect(Effect::FromTime(from));
    });
    Algorithm {
        parameters: vec![Field::unsigned("horizon", 10_000_000_000)],
        ..algorithm("edt", Kind::Shaper, [rank])
    }
}

/// Pacing of each child by the rate that its flow has; a flow without one is not held.
pub fn paced() -> Algorithm {
    let (next, rest) = (Slot::Child(0), Slot::Child(1));
    let rank = program(Part::Rank, |b| {
        let next = b.load(next);
        b.effect(Effect::FromTime(next));
    });
    let sent = program(Part::Sent, |b| {
        let (before, now, bytes, carried) = (b.load(next), b.now(), b.input(Input::Bytes), b.load(rest));
        let (zero, pace) = (b.constant(0), b.head(Metadatum::Pace));
        let paused = b.lt(before, now);
        let carry = b.select(paused, zero, carried);
        let start = b.max(before, now);
        let span = b.scale(bytes, pace, carry);
        let after = b.add(start, span);
        b.store(next, after);
        let carry = b.scale_rest(bytes, pace, carry);
        b.store(rest, carry);
    });
    Algorithm {
        child: vec![Field::unsigned("next", 0), Field::unsigned("rest", 0)],
        ..algorithm("paced", Kind::Shaper, [rank, sent])
    }
}
