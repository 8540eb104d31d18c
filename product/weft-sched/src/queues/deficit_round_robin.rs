//! Round robin over a fixed set of members: plain, or by bytes with credits that may be overdrawn.
//!
//! A visit gives the heaviest member a fixed credit, and the other members credit in proportion to their weights. The
//! bytes of a round therefore follow from the ratios of the weights and not from their magnitude, and no member waits
//! longer than its share implies. Credits are counted in bytes times the largest weight, so that all ratios are exact.

/// A member.
#[derive(Clone, Debug)]
struct Member {
    /// The credit left in this visit, in bytes times [`DeficitRoundRobin::scale`]; a negative credit is a debt.
    credit: i128,
    /// The member's part of the credit per visit: at least 1.
    weight: u64,
    /// The number of settled visits; valid while the member is idle.
    settled: u64,
}

/// Members in a fixed cyclic order, some of which take part.
#[derive(Clone, Debug)]
pub(super) struct DeficitRoundRobin {
    /// The credit in bytes that a visit gives the heaviest member.
    unit: u64,
    /// The largest weight of all members.
    scale: u64,
    members: Vec<Member>,
    /// Bit i: member i takes part.
    active: Vec<u64>,
    count: usize,
    /// The member visited now or last.
    at: usize,
    /// The number of completed rounds.
    round: u64,
}

/// The largest credit and weight. Larger values make no difference, and products stay far within 128 bits.
const UNIT_MAX: u64 = 1 << 40;
const WEIGHT_MAX: u64 = 1 << 44;
const DEBT_MAX: i128 = 1 << 80;

impl DeficitRoundRobin {
    /// Builds a round robin without members. A visit gives the heaviest member `unit` bytes, at least one.
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

    /// Sets the credit per visit of the heaviest member, and resets all credits and debts.
    pub(super) fn restart(&mut self, unit: u64) {
        self.unit = unit.clamp(1, UNIT_MAX);
        self.members.iter_mut().for_each(|member| member.credit = 0);
    }

    /// Sets a member's weight, with effect from its next visit; 0 counts as 1.
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

    /// Changes the largest weight, which credits are counted by. First settles the debts of idle members, except that
    /// of `settled`, which is settled already. The credit that members gain by a visit keeps its number.
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

    /// The credit per visit of a member, in counted units.
    fn quantum(&self, index: usize) -> i128 {
        i128::from(self.unit) * i128::from(self.members[index].weight)
    }

    /// Whether no member takes part.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn is_active(&self, index: usize) -> bool {
        self.active[index / 64] & (1 << (index % 64)) != 0
    }

    /// Lets a member take part. The visits that it missed have repaid its debt and stored no credit.
    pub(super) fn enter(&mut self, index: usize) {
        if self.is_active(index) {
            return;
        }
        self.settle(index);
        self.active[index / 64] |= 1 << (index % 64);
        self.count += 1;
    }

    /// The number of visits of a member so far, idle or not.
    fn visits(&self, index: usize) -> u64 {
        (self.round + u64::from(self.at >= index)).saturating_sub(1)
    }

    /// Repays the debt of an idle member by the visits that it missed.
    fn settle(&mut self, index: usize) {
        let (visits, quantum) = (self.visits(index), self.quantum(index));
        let member = &mut self.members[index];
        let missed = i128::from(visits.saturating_sub(member.settled));
        member.credit = member.credit.saturating_add(missed.saturating_mul(quantum)).min(0);
        member.settled = visits;
    }

    /// Removes the visited member: it keeps its debt and loses its credit.
    pub(super) fn leave(&mut self, index: usize) {
        debug_assert!(self.is_active(index) && index == self.at, "only the visited member leaves");
        self.members[index].credit = self.members[index].credit.min(0);
        self.members[index].settled = self.visits(index);
        self.active[index / 64] &= !(1 << (index % 64));
        self.count -= 1;
    }

    /// Subtracts bytes from a member's credit.
    pub(super) fn charge(&mut self, index: usize, bytes: u64) {
        let cost = i128::from(bytes) * i128::from(self.scale);
        let credit = &mut self.members[index].credit;
        *credit = (*credit - cost).max(-DEBT_MAX);
    }

    /// Advances to the next member that takes part, possibly the same. At least one must take part.
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

    /// Stays with the visited member while it has credit. Otherwise advances, adding its quantum to each member on the
    /// way, until one has credit. At least one must take part.
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

    /// Applies all rounds in which no member would gain credit at once. One more round then finds a member with credit.
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

/// The quotient `a / b` of numbers that are not negative, in 64 bits where they fit, which is many times as fast.
fn quotient(a: i128, b: i128) -> i128 {
    match (u64::try_from(a), u64::try_from(b)) {
        (Ok(a), Ok(b)) => i128::from(a / b),
        _ => a / b,
    }
}
