//! Floors with ceilings, and controlled delay.

use super::{algorithm, program};
use crate::algorithm::{Aggregates, Algorithm, Field, Kind};
use crate::arithmetic::VIRTUAL_UNITS_PER_BYTE;
use crate::operation::{Effect, Input, Metadatum, RankWord, Slot};
use crate::part::Part;

/// A least rate, a ceiling, and a weight for the remainder, as mClock (Gulati et al., OSDI 2010) reads them. The parameters are the least
/// rate and the ceiling as words of scales from bytes to nanoseconds, the weight, and the grace: the longest wait for a busy
/// link that a guarantee makes up for.
pub fn floors() -> Algorithm {
    let v = Slot::Node(0);
    let (finish, floor, ceiling) = (Slot::Child(0), Slot::Child(1), Slot::Child(2));
    let rank = program(Part::Rank, |b| {
        let (one, zero, f, v) = (b.constant(1), b.constant(0), b.load(finish), b.load(v));
        let start = b.max(f, v);
        b.rank_pair(one, start);
        let (ceiling, floor) = (b.load(ceiling), b.load(floor));
        b.effect(Effect::FromTime(ceiling));
        b.effect(Effect::Until { time: floor, rank: (zero, zero) });
    });
    let begin = program(Part::Begin, |b| {
        let (by_share, start, now) =
            (b.input(Input::Rank(RankWord::First)), b.input(Input::Rank(RankWord::Second)), b.load(v));
        let later = b.max(now, start);
        b.store_if(by_share, v, later);
    });
    let sent = program(Part::Sent, |b| {
        let (bytes, zero, now) = (b.input(Input::Bytes), b.constant(0), b.now());
        let [least, most, weight, grace] = [0, 1, 2, 3].map(|index| b.parameter(index));
        let (f, v) = (b.load(finish), b.load(v));
        let start = b.max(f, v);
        let units = b.constant(VIRTUAL_UNITS_PER_BYTE);
        let work = b.mul(bytes, units);
        let share = b.div(work, weight);
        let f = b.add(start, share);
        b.store(finish, f);
        let past = b.sub(now, grace);
        for (slot, rate) in [(floor, least), (ceiling, most)] {
            let before = b.load(slot);
            let start = b.max(before, past);
            let span = b.scale(bytes, rate, zero);
            let after = b.add(start, span);
            b.store(slot, after);
        }
    });
    Algorithm {
        parameters: vec![
            Field::unsigned("min", 0),
            Field::unsigned("max", 0),
            Field::unsigned("weight", 1),
            Field::unsigned("grace", 0),
        ],
        node: vec![Field::virtual_time("v")],
        aggregates: Aggregates { virtual_rank: Some(RankWord::Second), ..Aggregates::default() },
        child: vec![Field::virtual_time("f"), Field::unsigned("g", 0), Field::unsigned("c", 0)],
        ..algorithm("floors", Kind::Algorithm, [rank, begin, sent])
    }
}

/// Controlled delay (CoDel: Nichols and Jacobson; RFC 8289), with a count that begins anew in each episode. The parameters are the target,
/// the interval, and the backlog below which nothing is dropped.
pub fn codel() -> Algorithm {
    let (above, next, count) = (Slot::Node(0), Slot::Node(1), Slot::Node(2));
    let never = u64::MAX;
    let fetched = program(Part::Fetched, |b| {
        let [target, interval, least] = [0, 1, 2].map(|index| b.parameter(index));
        let (now, arrived, queued) =
            (b.now(), b.input(Input::Packet(Metadatum::Arrived)), b.input(Input::QueuedBytes));
        let (never, one) = (b.constant(never), b.constant(1));
        let [old_above, old_next, old_count] = [above, next, count].map(|slot| b.load(slot));
        let sojourn = b.sub(now, arrived);
        let short = b.lt(sojourn, target);
        let small = b.le(queued, least);
        let good = b.or(short, small);
        let bad = b.not(good);
        b.store_if(good, above, never);
        b.store_if(good, next, never);
        // The first packet of an episode starts the interval.
        let fresh = b.eq(old_above, never);
        let begins = b.and(bad, fresh);
        let end = b.add(now, interval);
        b.store_if(begins, above, end);
        // No drop yet: the first comes at the interval's end. `never` is later than any time, so the end exists then.
        let none = b.eq(old_next, never);
        let over = b.le(old_above, now);
        let first = b.and(none, over);
        let first = b.and(bad, first);
        let due = b.le(old_next, now);
        let again = b.and(bad, due);
        b.store_if(first, count, one);
        b.store_if(first, next, end);
        let more = b.add(old_count, one);
        let gap = b.over_sqrt(interval, more);
        let later = b.add(old_next, gap);
        b.store_if(again, count, more);
        b.store_if(again, next, later);
        let drops = b.or(first, again);
        b.effect(Effect::Drop(drops));
    });
    Algorithm {
        parameters: vec![
            Field::unsigned("target", 5_000_000),
            Field::unsigned("interval", 100_000_000),
            Field::unsigned("least", 1_514),
        ],
        node: vec![
            Field::unsigned("above", never),
            Field::unsigned("next", never),
            Field::unsigned("count", 0),
        ],
        ..algorithm("codel", Kind::Dropper, [fetched])
    }
}
