//! Virtual time: the arithmetic of start-time fair queueing.
//!
//! A child of weight w that sends b bytes advances its tag by `b * SCALE / w`. The remainder of the division is carried
//! to the child's next charge, so the long-run shares are exact for every weight. The error of a tag is less than one
//! unit, that is `w / SCALE` bytes of service: below one byte for weights up to 4096, 16 bytes at 65,536 and 1 MiB at
//! 2^32 - 1. It does not grow with time.
//!
//! A tag is a `u64`. A single child of weight 1 on a 100 Gb/s link advances virtual time by 5.1e13 a second and would
//! wrap it after four days. Therefore a node rebases its tags when its virtual time reaches [`REBASE_AT`]: after a day
//! at that speed, later for larger weights. A rebase preserves the order of all tags within
//! [`BEHIND_MAX`].

use weft_units::{Bytes, Weight};

/// Units of virtual time for one byte at weight 1.
pub(crate) const SCALE: u64 = 1 << 12;

/// The maximum charge of one turn: 1 TiB, far above any segment. It bounds the distance of a tag ahead of virtual time,
/// so that no sum below overflows.
pub(crate) const CHARGE_MAX: u64 = 1 << 40;

/// The virtual time at which a node rebases.
pub(crate) const REBASE_AT: u64 = 1 << 62;

/// The maximum distance of a start tag behind virtual time that a rebase preserves. Older tags (of a lane delayed by
/// its rate limit for hours while its neighbours sent) become equal, and equal ranks leave in the order of insertion.
const BEHIND_MAX: u64 = 1 << 61;

const _: () = assert!(CHARGE_MAX.checked_mul(SCALE).is_some());
const _: () = assert!(REBASE_AT < u64::MAX - 2 * CHARGE_MAX * SCALE);

/// The account of one child of a fair queueing node, or of one flow of a fair leaf: 16 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    /// The finish tag of the last service.
    finish: u64,
    /// The remainder of the divisions so far, below `weight`.
    remainder: u32,
    weight: u32,
}

impl Account {
    pub(crate) fn new(weight: Weight) -> Self {
        Self { finish: 0, remainder: 0, weight: weight.get() }
    }

    /// The start tag of a reference inserted now: no credit from the past, no debt forgiven.
    #[inline]
    pub(crate) fn start(&self, virtual_time: u64) -> u64 {
        self.finish.max(virtual_time)
    }

    /// The start tag of a child that takes part from now on, as [`Self::start`]. It becomes the finish tag too, so that
    /// [`Self::charge_on`] can do without it. That changes no later tag: virtual time does not fall below it.
    #[inline]
    pub(crate) fn enter(&mut self, virtual_time: u64) -> u64 {
        if self.finish < virtual_time {
            (self.finish, self.remainder) = (virtual_time, 0);
        }
        self.finish
    }

    /// Lets a child take part with the start tag that it had before.
    #[inline]
    pub(crate) fn enter_at(&mut self, start: u64) {
        if self.finish != start {
            (self.finish, self.remainder) = (start, 0);
        }
    }

    /// The start tag of a child that takes part since [`Self::enter`].
    #[inline]
    pub(crate) fn entered(&self) -> u64 {
        self.finish
    }

    /// Charges a service of `bytes` to a child that takes part since [`Self::enter`]. Returns its next start tag.
    #[inline]
    pub(crate) fn charge_on(&mut self, bytes: Bytes) -> u64 {
        let units = bytes.get().min(CHARGE_MAX) * SCALE + u64::from(self.remainder);
        let weight = u64::from(self.weight);
        self.finish += units / weight;
        self.remainder = (units % weight) as u32;
        self.finish
    }

    /// Charges a service of `bytes` that began at tag `start`.
    #[inline]
    pub(crate) fn charge(&mut self, start: u64, bytes: Bytes) {
        // A start tag raised to virtual time begins a new busy period; the fraction belongs to the old one.
        let carried = if start == self.finish { u64::from(self.remainder) } else { 0 };
        let units = bytes.get().min(CHARGE_MAX) * SCALE + carried;
        let weight = u64::from(self.weight);
        self.finish = start + units / weight;
        self.remainder = (units % weight) as u32;
    }

    /// Charges `units` of service that was had elsewhere by a child that takes part, or may soon, with a tag that ends at most at
    /// `most`. The tag never goes back.
    #[inline]
    pub(crate) fn postpone(&mut self, units: u64, most: u64) {
        self.finish = self.finish.max(self.finish.saturating_add(units).min(most));
    }

    /// Changes the weight, with effect from the next charge.
    pub(crate) fn set_weight(&mut self, weight: Weight) {
        self.weight = weight.get();
        self.remainder = 0;
    }

    /// Takes over the tags of `old`, under the weight of `self`. The remainder keeps its part of a unit.
    pub(crate) fn carry(&mut self, old: &Self) {
        self.finish = old.finish;
        let scaled = u64::from(old.remainder) * u64::from(self.weight) / u64::from(old.weight.max(1));
        self.remainder = scaled as u32;
    }

    /// Forgets all service, for a flow that enters another leaf.
    pub(crate) fn restart(&mut self) {
        (self.finish, self.remainder) = (0, 0);
    }

    pub(crate) fn weight(&self) -> Weight {
        Weight::new(self.weight).unwrap_or(Weight::ONE)
    }

    /// Moves the finish tag into the frame of a rebase. A tag before the base is also before virtual time, so clamping
    /// it to zero changes no [`Self::start`].
    pub(crate) fn rebase(&mut self, base: u64) {
        self.finish = self.finish.saturating_sub(base);
    }

    #[cfg(test)]
    pub(crate) fn shift(&mut self, by: u64) {
        self.finish += by;
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.weight > 0 && self.remainder < self.weight
    }
}

/// The amount that a rebase subtracts from all tags of a node. It brings the oldest waiting start tag to zero, and in
/// any case leaves virtual time room to advance.
pub(crate) fn rebase_base(virtual_time: u64, oldest_start: u64) -> u64 {
    oldest_start.min(virtual_time).max(virtual_time.saturating_sub(BEHIND_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remainder_is_carried_for_every_weight() {
        for weight in [1, 3, 7, 4096, 1_000_003, u32::MAX] {
            let mut account = Account::new(Weight::new(weight).unwrap());
            let mut bytes = 0_u128;
            for i in 0..10_000_u64 {
                let len = 64 + i * 7919 % 65_473;
                bytes += u128::from(len);
                account.charge(account.finish, Bytes(len));
                assert!(account.is_valid());
            }
            assert_eq!(u128::from(account.finish), bytes * u128::from(SCALE) / u128::from(weight));
        }
    }

    #[test]
    fn a_monstrous_charge_does_not_overflow() {
        let mut account = Account::new(Weight::ONE);
        account.charge(REBASE_AT, Bytes::MAX);
        assert_eq!(account.finish, REBASE_AT + CHARGE_MAX * SCALE);
    }
}
