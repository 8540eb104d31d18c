//! Times of arrival and deadlines: FIFO, earliest deadline, least slack, FIFO+, and priority with ageing.

use super::{algorithm, program};
use crate::algorithm::{Algorithm, Field, Kind};
use crate::operation::{Effect, Metadatum, Slot};
use crate::part::Part;

/// First in, first out over all children.
pub fn fifo() -> Algorithm {
    let rank = program(Part::Rank, |b| {
        let arrived = b.head(Metadatum::Arrived);
        b.rank(arrived);
    });
    algorithm("fifo", Kind::Algorithm, [rank])
}

/// Earliest deadline first; a packet without a deadline has one `budget` after its arrival.
pub fn edf() -> Algorithm {
    let rank = program(Part::Rank, |b| {
        let (arrived, budget) = (b.head(Metadatum::Arrived), b.parameter(0));
        let fallback = b.add(arrived, budget);
        let deadline = b.head_or(Metadatum::Deadline, fallback);
        b.rank(deadline);
    });
    Algorithm {
        parameters: vec![Field::unsigned("budget", 5_000_000)],
        ..algorithm("edf", Kind::Algorithm, [rank])
    }
}

/// Least slack time first (Sivaraman et al., SIGCOMM 2016, section 3.1).
pub fn lstf() -> Algorithm {
    let rank = program(Part::Rank, |b| {
        let (arrived, fallback) = (b.head(Metadatum::Arrived), b.parameter(0));
        let slack = b.head_or(Metadatum::Slack, fallback);
        let last = b.add(arrived, slack);
        b.rank(last);
    });
    Algorithm {
        parameters: vec![Field::unsigned("slack", 10_000_000)],
        ..algorithm("lstf", Kind::Algorithm, [rank])
    }
}

/// FIFO+ (Clark, Shenker and Zhang, SIGCOMM 1992): first in, first out by the time at which a packet would have arrived if no
/// earlier hop had been late.
pub fn fifo_plus() -> Algorithm {
    let rank = program(Part::Rank, |b| {
        let (arrived, late) = (b.head(Metadatum::Arrived), b.head(Metadatum::Late));
        // Ranks are unsigned: half of their range leaves room for times before the epoch.
        let half = b.constant(1 << 63);
        let shifted = b.add(arrived, half);
        let expected = b.sub(shifted, late);
        b.rank(expected);
    });
    algorithm("fifo_plus", Kind::Algorithm, [rank])
}

/// Least slack of messages: the deadline less the time that the remaining bytes take. The time cancels out, since all children
/// wait.
pub fn least_slack() -> Algorithm {
    let arrives = program(Part::Arrives, |b| {
        let one = b.constant(1);
        b.effect(Effect::Rerank(one));
    });
    let rank = program(Part::Rank, |b| {
        let (never, zero, line) = (b.constant(u64::MAX), b.constant(0), b.parameter(0));
        let deadline = b.head_or(Metadatum::Deadline, never);
        let left = b.head(Metadatum::Left);
        let span = b.scale(left, line, zero);
        let start = b.sub(deadline, span);
        b.rank(start);
    });
    Algorithm {
        parameters: vec![Field::unsigned("line", 0)],
        ..algorithm("least_slack", Kind::Algorithm, [arrives, rank])
    }
}

/// Strict priority with ageing: a child that has waited for `patience` goes first.
pub fn aged() -> Algorithm {
    let since = Slot::Child(0);
    let active = program(Part::Active, |b| {
        let now = b.now();
        b.store(since, now);
    });
    let rank = program(Part::Rank, |b| {
        let (level, patience, since, zero) = (b.parameter(0), b.parameter(1), b.load(since), b.constant(0));
        b.rank_pair(level, zero);
        let time = b.add(since, patience);
        b.effect(Effect::Until { time, rank: (zero, since) });
    });
    let sent = program(Part::Sent, |b| {
        let now = b.now();
        b.store(since, now);
    });
    Algorithm {
        parameters: vec![Field::unsigned("level", 1), Field::unsigned("patience", 50_000_000)],
        child: vec![Field::unsigned("since", 0)],
        ..algorithm("aged", Kind::Algorithm, [active, rank, sent])
    }
}
