//! The claims of senders about their packets, for algorithms that read them before a packet is fetched.
//!
//! A doorbell has one word for each kind of metadata, the least that senders claimed since the worker's last look
//! (`bpf/claims.h`). The worker takes the words and then reads the ring's count, so what it finds belongs to the packets counted
//! since the look before ([`ClaimMarks`]). A ring keeps its packets' order, so the next packet's is that of the first mark.
//!
//! Resolution: packets that are posted between two looks share the least of their claims. A ring remembers at most
//! [`MARKS`] different looks; beyond that, neighbours share. Nothing is lent further: a packet without a claim is ranked by
//! what the algorithm writes behind `or`.

use crate::layout::{RingBell, RingSocket};
use crate::sync::{AtomicU64, Ordering};
use std::collections::VecDeque;
use weft_rank::{Metadata, Metadatum, Scale};
use weft_units::{BitsPerSec, Instant};

/// The marks of a ring.
const MARKS: usize = 32;

/// The claims about some packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Claims {
    /// The least time that they request: a deadline or a time of sending, as the algorithm reads it.
    pub(crate) asked: Option<Instant>,
    /// The fewest bytes that they leave to send of a message or a flow.
    pub(crate) left: Option<u64>,
    /// The least priority of their sockets.
    pub(crate) priority: Option<u64>,
    /// The least pacing rate of their sockets, in bytes per second.
    pub(crate) pace: Option<u64>,
}

impl Claims {
    /// Takes the claims since the last call. Read the ring's count afterwards: a word that is found is that of a packet in the
    /// count, since a packet is counted before it claims. One that claims later sets the ring's bit afterwards, so the next
    /// look finds it.
    pub(crate) fn take(bell: &RingBell, socket: &RingSocket) -> Self {
        Self {
            asked: take(&bell.asked).map(Instant::from_nanos),
            left: take(&bell.last_or_left),
            priority: take(&socket.priority).map(|word| word - 1),
            pace: take(&socket.pace),
        }
    }

    /// The lesser of each kind.
    fn least(self, other: Self) -> Self {
        Self {
            asked: self.asked.into_iter().chain(other.asked).min(),
            left: self.left.into_iter().chain(other.left).min(),
            priority: self.priority.into_iter().chain(other.priority).min(),
            pace: self.pace.into_iter().chain(other.pace).min(),
        }
    }

    /// The metadata of a packet that arrived at `at`.
    pub(crate) fn metadata(self, at: Instant) -> Metadata {
        let arrived = Metadata::UNKNOWN.with(Metadatum::Arrived, at.as_nanos());
        let pace = |rate: u64| Scale::time_per_byte(BitsPerSec(rate.saturating_mul(8))).word();
        let known = [
            (Metadatum::Left, self.left),
            (Metadatum::Priority, self.priority),
            (Metadatum::Pace, self.pace.map(pace)),
        ];
        let known = known.into_iter().filter_map(|(of, value)| Some((of, value?)));
        let known = known.fold(arrived, |known, (of, value)| known.with(of, value));
        let Some(asked) = self.asked else { return known };
        known
            .with(Metadatum::Deadline, asked.as_nanos())
            .with(Metadatum::SendTime, asked.as_nanos())
            .with(Metadatum::Slack, asked.saturating_since(at).get())
    }
}

/// Takes a word; 0 means no claim.
fn take(word: &AtomicU64) -> Option<u64> {
    if word.load(Ordering::Relaxed) == 0 {
        return None;
    }
    Some(word.swap(0, Ordering::SeqCst)).filter(|value| *value != 0)
}

/// The packets after number `from` up to number `to`, and the claims about them.
#[derive(Clone, Copy, Debug)]
struct Mark {
    from: u64,
    to: u64,
    claims: Claims,
}

/// The claims about the packets that a ring holds. Without memory until the first claim.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClaimMarks {
    marks: VecDeque<Mark>,
    /// The packets posted until the last look.
    seen: u64,
    /// Those posted until the look before the one that found more.
    before: u64,
}

impl ClaimMarks {
    /// Notes that `count` packets were posted until now, and the claims since the last look.
    pub(crate) fn posted(&mut self, count: u64, claims: Claims) {
        let seen = core::mem::replace(&mut self.seen, count);
        if count > seen {
            self.before = seen;
        }
        if claims == Claims::default() {
            return;
        }
        if count <= seen {
            // Claimed a moment after its packet was counted, which is one of those that the last look found.
            match self.marks.back_mut() {
                Some(last) if last.to == count => last.claims = last.claims.least(claims),
                _ => self.push(Mark { from: self.before, to: count, claims }),
            }
            return;
        }
        self.push(Mark { from: seen, to: count, claims });
    }

    fn push(&mut self, mark: Mark) {
        if self.marks.len() == MARKS {
            self.halve();
        }
        self.marks.push_back(mark);
    }

    /// Joins pairs of marks.
    fn halve(&mut self) {
        for to in 0..MARKS / 2 {
            let (first, second) = (self.marks[2 * to], self.marks[2 * to + 1]);
            self.marks[to] =
                Mark { from: first.from, to: second.to, claims: first.claims.least(second.claims) };
        }
        self.marks.truncate(MARKS / 2);
    }

    /// The claims about the packet after the first `done`, which are forgotten.
    pub(crate) fn next(&mut self, done: u64) -> Claims {
        while self.marks.front().is_some_and(|mark| mark.to <= done) {
            self.marks.pop_front();
        }
        self.marks.front().filter(|mark| mark.from <= done).map_or_else(Claims::default, |mark| mark.claims)
    }

    /// The claims about the last packet posted.
    pub(crate) fn newest(&self) -> Claims {
        self.marks.back().filter(|mark| mark.to == self.seen).map_or_else(Claims::default, |mark| mark.claims)
    }
}

#[cfg(test)]
mod tests;
