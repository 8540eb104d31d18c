//! Shares and turns: strict priority, round robin, deficit round robin, start-time and worst-case fair queueing.

use super::{algorithm, program};
use crate::algorithm::{Aggregates, Algorithm, Field, Kind};
use crate::arithmetic::VIRTUAL_UNITS_PER_BYTE;
use crate::builder::ProgramBuilder;
use crate::operation::{Effect, Input, Metadatum, RankWord, Slot, Value};
use crate::part::Part;

/// Strict priority: the child of the least level.
pub fn strict() -> Algorithm {
    let rank = program(Part::Rank, |b| {
        let level = b.parameter(0);
        b.rank(level);
    });
    Algorithm {
        parameters: vec![Field::unsigned("level", 0)],
        ..algorithm("strict", Kind::Algorithm, [rank])
    }
}

/// Round robin: equal ranks, whose order is that in which references went in.
pub fn round_robin() -> Algorithm {
    let rank = program(Part::Rank, |b| {
        let zero = b.constant(0);
        b.rank_pair(zero, zero);
    });
    algorithm("round_robin", Kind::Algorithm, [rank])
}

/// Weighted round robin over turns: a child that has begun its round continues for `weight` turns.
pub fn weighted_round_robin() -> Algorithm {
    let (round, turn, left) = (Slot::Node(0), Slot::Child(0), Slot::Child(1));
    let active = program(Part::Active, |b| {
        let (now, one) = (b.load(round), b.constant(1));
        let next = b.add(now, one);
        b.store(turn, next);
        let weight = b.parameter(0);
        b.store(left, weight);
    });
    let rank = program(Part::Rank, |b| {
        let (turn, left, weight) = (b.load(turn), b.load(left), b.parameter(0));
        let fresh = b.eq(left, weight);
        b.rank_pair(turn, fresh);
    });
    let begin = program(Part::Begin, |b| {
        let now = b.load(turn);
        b.store(round, now);
    });
    let sent = program(Part::Sent, |b| {
        let (one, now, before, weight) = (b.constant(1), b.load(turn), b.load(left), b.parameter(0));
        let after = b.sub(before, one);
        let done = b.not(after);
        let next = b.add(now, one);
        b.store_if(done, turn, next);
        let after = b.select(done, weight, after);
        b.store(left, after);
    });
    Algorithm {
        parameters: vec![Field::unsigned("weight", 1)],
        node: vec![Field::unsigned("round", 0)],
        child: vec![Field::unsigned("turn", 0), Field::unsigned("left", 0)],
        ..algorithm("weighted_round_robin", Kind::Algorithm, [active, rank, begin, sent])
    }
}

/// Surplus round robin: deficit round robin that may overdraw, so that no length is needed in advance (Adiseshu et al., SIGCOMM
/// 1996; Shreedhar and Varghese, SIGCOMM 1995).
pub fn drr() -> Algorithm {
    let round = Slot::Node(0);
    let (turn, fresh, credit) = (Slot::Child(0), Slot::Child(1), Slot::Child(2));
    let active = program(Part::Active, |b| {
        let (now, one, quantum) = (b.load(round), b.constant(1), b.parameter(0));
        let next = b.add(now, one);
        b.store(turn, next);
        b.store(fresh, one);
        b.store(credit, quantum);
    });
    let rank = program(Part::Rank, |b| {
        let (turn, fresh) = (b.load(turn), b.load(fresh));
        b.rank_pair(turn, fresh);
    });
    let begin = program(Part::Begin, |b| {
        let (now, zero) = (b.load(turn), b.constant(0));
        b.store(round, now);
        b.store(fresh, zero);
    });
    let sent = program(Part::Sent, |b| {
        let (bytes, before, quantum, zero) =
            (b.input(Input::Bytes), b.load(credit), b.parameter(0), b.constant(0));
        let after = b.sub_signed(before, bytes);
        let spent = b.le_signed(after, zero);
        let owed = b.sub_signed(quantum, after);
        let rounds = b.div(owed, quantum);
        let granted = b.mul(rounds, quantum);
        let renewed = b.add_signed(after, granted);
        let after = b.select(spent, renewed, after);
        b.store(credit, after);
        let now = b.load(turn);
        let later = b.add(now, rounds);
        b.store_if(spent, turn, later);
        b.store_if(spent, fresh, spent);
    });
    Algorithm {
        parameters: vec![Field::unsigned("quantum", 1522)],
        node: vec![Field::unsigned("round", 0)],
        child: vec![Field::unsigned("turn", 0), Field::unsigned("fresh", 0), Field::signed("credit", 0)],
        ..algorithm("drr", Kind::Algorithm, [active, rank, begin, sent])
    }
}

/// The virtual time of `bytes` at a weight, with the remainder that is carried in `rest` if `carries` holds; keeps the new one.
fn share(b: &mut ProgramBuilder, bytes: Value, weight: Value, carries: Value, rest: Slot) -> Value {
    let (units, carried, zero) = (b.constant(VIRTUAL_UNITS_PER_BYTE), b.load(rest), b.constant(0));
    let carried = b.select(carries, carried, zero);
    let work = b.mul(bytes, units);
    let work = b.add(work, carried);
    let remainder = b.rem(work, weight);
    b.store(rest, remainder);
    b.div(work, weight)
}

/// Start-time fair queueing (Goyal et al., SIGCOMM 1996).
pub fn stfq() -> Algorithm {
    let (v, f, rest) = (Slot::Node(0), Slot::Child(0), Slot::Child(1));
    let rank = program(Part::Rank, |b| {
        let (f, v) = (b.load(f), b.load(v));
        let start = b.max(f, v);
        b.rank(start);
    });
    let begin = program(Part::Begin, |b| {
        let (now, start) = (b.load(v), b.input(Input::Rank(RankWord::First)));
        let later = b.max(now, start);
        b.store(v, later);
    });
    let sent = program(Part::Sent, |b| {
        let (start, bytes) = (b.input(Input::Rank(RankWord::First)), b.input(Input::Bytes));
        let (before, weight) = (b.load(f), b.parameter(0));
        // A start tag that virtual time has raised begins a new busy period; the fraction belongs to the old one.
        let busy = b.eq(start, before);
        let span = share(b, bytes, weight, busy, rest);
        let finish = b.add(start, span);
        b.store(f, finish);
    });
    Algorithm {
        parameters: vec![Field::unsigned("weight", 1)],
        node: vec![Field::virtual_time("v")],
        child: vec![Field::virtual_time("f"), Field::unsigned("rest", 0)],
        aggregates: Aggregates { virtual_rank: Some(RankWord::First), ..Aggregates::default() },
        ..algorithm("stfq", Kind::Algorithm, [rank, begin, sent])
    }
}

/// Worst-case fair weighted fair queueing (WF2Q+: Bennett and Zhang, SIGCOMM 1996): the least finish tag among the children whose
/// start tag is reached.
pub fn wf2q() -> Algorithm {
    let (v, node_rest) = (Slot::Node(0), Slot::Node(1));
    let (s, f, rest) = (Slot::Child(0), Slot::Child(1), Slot::Child(2));
    let active = program(Part::Active, |b| {
        let (f, v) = (b.load(f), b.load(v));
        let start = b.max(f, v);
        b.store(s, start);
    });
    let rank = program(Part::Rank, |b| {
        let (start, weight, zero) = (b.load(s), b.parameter(0), b.constant(0));
        let length = b.head_or(Metadatum::Length, zero);
        let units = b.constant(VIRTUAL_UNITS_PER_BYTE);
        let work = b.mul(length, units);
        let span = b.div(work, weight);
        let finish = b.add(start, span);
        b.rank(finish);
        b.effect(Effect::FromVirtualTime(start));
    });
    let sent = program(Part::Sent, |b| {
        let (start, bytes, weight) = (b.load(s), b.input(Input::Bytes), b.parameter(0));
        let before = b.load(f);
        let busy = b.eq(start, before);
        let span = share(b, bytes, weight, busy, rest);
        let finish = b.add(start, span);
        b.store(s, finish);
        b.store(f, finish);
        let (now, weights, one) = (b.load(v), b.input(Input::Weights), b.constant(1));
        let span = share(b, bytes, weights, one, node_rest);
        let served = b.add(now, span);
        // The least start tag of the children that continue, this one included; none is no reason to jump.
        let (more, others, most, zero) =
            (b.input(Input::More), b.input(Input::Lowest), b.constant(u64::MAX), b.constant(0));
        let own = b.select(more, finish, most);
        let lowest = b.min(own, others);
        let none = b.eq(lowest, most);
        let lowest = b.select(none, zero, lowest);
        let later = b.max(served, lowest);
        b.store(v, later);
        // A jump leaves no fraction behind.
        let jumped = b.lt(served, lowest);
        b.store_if(jumped, node_rest, zero);
    });
    Algorithm {
        parameters: vec![Field::unsigned("weight", 1)],
        node: vec![Field::virtual_time("v"), Field::unsigned("rest", 0)],
        child: vec![Field::virtual_time("s"), Field::virtual_time("f"), Field::unsigned("rest", 0)],
        aggregates: Aggregates {
            weights: Some(0),
            lowest: Some(0),
            clock: Some(0),
            virtual_rank: Some(RankWord::First),
        },
        ..algorithm("wf2q", Kind::Algorithm, [active, rank, sent])
    }
}
