//! A wheel of members that take turns: plain round robin, or round robin by bytes with credits that may be overdrawn.
//!
//! A visit gives the heaviest member the wheel's credit, and each other one so much less as its weight is less. What a round gives
//! therefore follows from the ratios of the weights and not from their size, and no member waits for more than its share says.
//! Credits are counted in bytes times the largest weight, so that all ratios are exact.

/// A member.
#[derive(Clone, Debug)]
struct Member {
    /// What it may still send in this visit, in bytes times [`DeficitRoundRobin::scale`]; below zero: what it owes.
    credit: i128,
    /// Its part of what a visit gives: at least 1.
    weight: u64,
    /// How many visits were settled; valid while it is idle.
    settled: u64,
}

/// Members in a fixed cyclic order, of which some take part.
#[derive(Clone, Debug)]
pub(super) struct DeficitRoundRobin {
    /// Bytes that a visit gives the heaviest member.
    unit: u64,
    /// The largest weight of all members.
    scale: u64,
    members: Vec<Member>,
    /// Bit i: member i takes part.
    active: Vec<u64>,
    count: usize,
    /// The member that is visited, or was visited last.
    at: usize,
    /// Full turns of the wheel.
    round: u64,
}

/// Above these nothing makes a difference, and products stay far within 128 bits.
const UNIT_MAX: u64 = 1 << 40;
const WEIGHT_MAX: u64 = 1 << 44;
const DEBT_MAX: i128 = 1 << 80;

impl DeficitRoundRobin {
    /// A wheel without members, a visit of which gives the heaviest `unit` bytes, at least one.
    pub(super) fn new(unit: u64) -> Self {
        let (members, active) = (Vec::new(), Vec::new());
        Self { unit: unit.clamp(1, UNIT_MAX), scale: 1, members, active, count: 0, at: 0, round: 0 }
    }

    /// Adds a member of weight 1 that does not take part. May allocate.
    pub(super) fn add(&mut self) -> usize {
        let index = self.members.len();
        self.members.push(Member { credit: 0, weight: 1, settled: 0 });
        self.active.resize(self.members.len().div_ceil(64), 0);
        self.settle(index);
        index
    }

    /// Sets what a visit gives the heaviest member, and forgets all credits and debts.
    pub(super) fn restart(&mut self, unit: u64) {
        self.unit = unit.clamp(1, UNIT_MAX);
        self.members.iter_mut().for_each(|member| member.credit = 0);
    }

    /// Sets a member's weight, from its next visit on; 0 counts as 1.
    pub(super) fn set_weight(&mut self, index: usize, weight: u64) {
        if !self.is_active(index) {
            self.settle(index);
        }
        let weight = weight.clamp(1, WEIGHT_MAX);
        let before = core::mem::replace(&mut self.members[index].weight, weight);
        if weight > self.scale {
            self.set_scale(weight, index);
        } else if before == self.scale && weight < before {
            let largest = self.members.iter().map(|member| member.weight).max().unwrap_or(1);
            self.set_scale(largest, index);
        }
    }

    /// Counts credits by another largest weight; what idle members owe is settled first, but for `settled`, which is. What
    /// members earn by a visit is the same number as before.
    fn set_scale(&mut self, scale: u64, settled: usize) {
        for index in 0..self.members.len() {
            if index != settled && !self.is_active(index) {
                self.settle(index);
            }
            let credit = &mut self.members[index].credit;
            *credit = (*credit * i128::from(scale)).div_euclid(i128::from(self.scale));
        }
        self.scale = scale;
    }

    /// What a visit gives a member, as credits are counted.
    fn quantum(&self, index: usize) -> i128 {
        i128::from(self.unit) * i128::from(self.members[index].weight)
    }

    /// Whether nobody takes part.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn is_active(&self, index: usize) -> bool {
        self.active[index / 64] & (1 << (index % 64)) != 0
    }

    /// Lets a member take part. The visits that it has missed have paid off what it owed, and banked nothing.
    pub(super) fn enter(&mut self, index: usize) {
        if self.is_active(index) {
            return;
        }
        self.settle(index);
        self.active[index / 64] |= 1 << (index % 64);
        self.count += 1;
    }

    /// How often the wheel has come to a member, idle or not.
    fn visits(&self, index: usize) -> u64 {
        (self.round + u64::from(self.at >= index)).saturating_sub(1)
    }

    /// Lets the visits that an idle member has missed pay off what it owes.
    fn settle(&mut self, index: usize) {
        let (visits, quantum) = (self.visits(index), self.quantum(index));
        let member = &mut self.members[index];
        let missed = i128::from(visits.saturating_sub(member.settled));
        member.credit = member.credit.saturating_add(missed.saturating_mul(quantum)).min(0);
        member.settled = visits;
    }

    /// Takes the member that is visited out: its debt stays, its credit does not.
    pub(super) fn leave(&mut self, index: usize) {
        debug_assert!(self.is_active(index) && index == self.at, "only who is visited leaves");
        self.members[index].credit = self.members[index].credit.min(0);
        self.members[index].settled = self.visits(index);
        self.active[index / 64] &= !(1 << (index % 64));
        self.count -= 1;
    }

    /// Takes bytes off a member's credit.
    pub(super) fn charge(&mut self, index: usize, bytes: u64) {
        let cost = i128::from(bytes) * i128::from(self.scale);
        let credit = &mut self.members[index].credit;
        *credit = (*credit - cost).max(-DEBT_MAX);
    }

    /// Goes on to the next member that takes part, which may be the same. Somebody takes part.
    pub(super) fn advance(&mut self) -> usize {
        let next = self.active_from(self.at + 1).or_else(|| {
            self.round += 1;
            self.active_from(0)
        });
        self.at = next.unwrap_or(self.at);
        self.at
    }

    /// The first member from `start` on that takes part.
    fn active_from(&self, start: usize) -> Option<usize> {
        let (first, mut mask) = (start / 64, u64::MAX << (start % 64));
        for (word, bits) in self.active.iter().enumerate().skip(first) {
            let bits = bits & mask;
            if bits != 0 {
                return Some(word * 64 + bits.trailing_zeros() as usize);
            }
            mask = u64::MAX;
        }
        None
    }

    /// Stays with the member that is visited while it has credit; otherwise goes on, adding its quantum to each member
    /// that is visited, until one has credit. Somebody takes part.
    pub(super) fn visit(&mut self) -> usize {
        let has_credit = |wheel: &Self| wheel.members[wheel.at].credit > 0;
        if self.is_active(self.at) && has_credit(self) {
            return self.at;
        }
        loop {
            for _ in 0..self.count {
                let at = self.advance();
                self.members[at].credit += self.quantum(at);
                if has_credit(self) {
                    return at;
                }
            }
            self.skip_rounds();
        }
    }

    /// Nobody has credit: does at once what the rounds would do in which still nobody has. One more round then finds one.
    fn skip_rounds(&mut self) {
        let rounds = |i: usize| quotient(-self.members[i].credit, self.quantum(i));
        let skip = self.each_active().map(rounds).min().unwrap_or(0);
        let mut next = self.active_from(0);
        while let Some(at) = next {
            self.members[at].credit += skip * self.quantum(at);
            next = self.active_from(at + 1);
        }
        self.round = self.round.saturating_add(u64::try_from(skip).unwrap_or(u64::MAX));
    }

    fn each_active(&self) -> impl Iterator<Item = usize> + '_ {
        core::iter::successors(self.active_from(0), |&at| self.active_from(at + 1))
    }
}

/// `a / b` of numbers that are not below zero, in 64 bits where they fit: that is many times as fast.
fn quotient(a: i128, b: i128) -> i128 {
    match (u64::try_from(a), u64::try_from(b)) {
        (Ok(a), Ok(b)) => i128::from(a / b),
        _ => a / b,
    }
}
