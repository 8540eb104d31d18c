//! A wheel of members that take turns: plain round robin, or round robin by bytes with credits that may be overdrawn.

/// A member.
#[derive(Clone, Debug, Default)]
struct Member {
    /// Bytes that it may still send in this visit; below zero: what it owes.
    credit: i64,
    /// What a visit adds.
    quantum: i64,
    /// How many visits were settled; valid while it is idle.
    settled: u64,
}

/// Members in a fixed cyclic order, of which some take part.
#[derive(Clone, Debug, Default)]
pub(super) struct Wheel {
    members: Vec<Member>,
    /// Bit i: member i takes part.
    active: Vec<u64>,
    count: usize,
    /// The member that is visited, or was visited last.
    at: usize,
    /// Full turns of the wheel.
    round: u64,
}

/// Above this no quantum makes a difference, and far below it sums stay within 64 bits.
const QUANTUM_MAX: u64 = 1 << 40;

impl Wheel {
    /// Adds a member that does not take part. May allocate.
    pub(super) fn add(&mut self, quantum: u64) -> usize {
        let index = self.members.len();
        self.members.push(Member::default());
        self.active.resize(self.members.len().div_ceil(64), 0);
        self.set_quantum(index, quantum);
        index
    }

    /// Sets what each visit of a member adds, from the next visit on; at least one byte.
    pub(super) fn set_quantum(&mut self, index: usize, quantum: u64) {
        if !self.is_active(index) {
            self.settle(index);
        }
        self.members[index].quantum = quantum.clamp(1, QUANTUM_MAX) as i64;
    }

    /// Forgets all credits and debts.
    pub(super) fn forget(&mut self) {
        for member in &mut self.members {
            member.credit = 0;
        }
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
        let visits = self.visits(index);
        let member = &mut self.members[index];
        let missed = i64::try_from(visits.saturating_sub(member.settled)).unwrap_or(i64::MAX);
        member.credit = member.credit.saturating_add(missed.saturating_mul(member.quantum)).min(0);
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
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let credit = &mut self.members[index].credit;
        *credit = credit.saturating_sub(bytes).max(i64::MIN / 2);
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
                self.members[at].credit += self.members[at].quantum;
                if has_credit(self) {
                    return at;
                }
            }
            self.skip_rounds();
        }
    }

    /// Nobody has credit: does at once what the rounds would do in which still nobody has. One more round then finds one.
    fn skip_rounds(&mut self) {
        let rounds = |m: &Member| -m.credit / m.quantum;
        let skip = self.each_active().map(|i| rounds(&self.members[i])).min().unwrap_or(0);
        let mut next = self.active_from(0);
        while let Some(at) = next {
            let member = &mut self.members[at];
            member.credit += skip * member.quantum;
            next = self.active_from(at + 1);
        }
        self.round += skip as u64;
    }

    fn each_active(&self) -> impl Iterator<Item = usize> + '_ {
        core::iter::successors(self.active_from(0), |&at| self.active_from(at + 1))
    }
}
