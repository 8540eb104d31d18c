//! The arithmetic of rates, bursts and quanta.

use weft_packet::ethernet;
use weft_units::{BitsPerSec, Bytes, Nanos, Weight};

/// A full frame, as the kernel counts it.
pub const FRAME: Bytes = ethernet::frame_of(ethernet::MTU);
/// The bytes around a frame on the link: check sequence, preamble and gap. HTB adds them to each packet.
pub const OVERHEAD: Bytes = ethernet::AROUND;
/// The most payload of a super-packet, which the kernel sends whole.
pub const SUPER_PACKET: Bytes = Bytes(65_536);
/// The rate of a class without a guarantee: HTB has no class without a rate.
const LEAST_RATE: BitsPerSec = BitsPerSec(8_000);
/// The burst of such a class.
pub(super) const LEAST_BURST: Bytes = Bytes(1_600);
/// The smallest rate of HTB, a byte per second.
pub(super) const BYTE_PER_SECOND: BitsPerSec = BitsPerSec(8);
/// The quantum of HTB classes outside of weights, as measured.
pub(super) const QUANTUM: Bytes = Bytes(60_000);
/// The least and the largest quantum of HTB classes that share by weights. Larger weights make the least one smaller, down to a frame.
const QUANTA: (u64, u64) = (16_000, 200_000);
/// The time of link that a round of drr takes, where full frames do not need more.
const ROUND: Nanos = Nanos::from_millis(1);
/// The time of a link or a limit that may be sent at once: a timer may be late by this.
const LATE: Nanos = Nanos::from_millis(2);
/// The longest burst. The kernel counts bursts in 32 bits of 64 ns, which are 274 s.
const BURST_TIME: Nanos = Nanos::from_secs(200);
/// The largest ratio of weights of one drr qdisc, so that a turn fits 32 bits.
pub(super) const RATIO_MAX: u64 = 1 << 20;
/// CoDel's own target.
const TARGET: Nanos = Nanos::from_millis(5);
/// A whole, in the fixed point of [`Fraction`].
const WHOLE: u64 = 1 << 48;

/// `rate` in whole bytes per second, as the kernel keeps it, and at least one.
pub(super) fn whole(rate: BitsPerSec) -> BitsPerSec {
    BitsPerSec(rate.get() / 8 * 8).max(BYTE_PER_SECOND)
}

/// The least rate of each leaf, where the rates of `leaves` of them must fit into `rate`.
pub(super) fn least_rate(rate: BitsPerSec, leaves: usize) -> BitsPerSec {
    whole(LEAST_RATE.min(BitsPerSec(rate.get() / leaves.max(1) as u64)))
}

/// The burst of a rate or a ceiling: a super-packet and a frame, or what the rate sends while a timer is late. A smaller burst
/// loses part of the rate.
pub(super) fn burst(rate: BitsPerSec, stated: Bytes) -> Bytes {
    let least = (SUPER_PACKET + FRAME).max(rate.bytes_in(LATE)).max(stated);
    fitting(rate, least)
}

/// The burst of a limit, for which 2 ms are in `stated` unless the policy says otherwise.
pub(super) fn limit_burst(rate: BitsPerSec, stated: Bytes) -> Bytes {
    fitting(rate, (SUPER_PACKET + FRAME).max(stated))
}

/// `burst`, or the bytes of the longest time that the kernel can keep at `rate`.
pub(super) fn fitting(rate: BitsPerSec, burst: Bytes) -> Bytes {
    burst.min(rate.bytes_in(BURST_TIME)).max(Bytes(1))
}

/// The waiting time at which CoDel begins to drop in a class of `rate`: its own, or two frames.
pub(super) fn target(rate: BitsPerSec) -> Nanos {
    TARGET.max(rate.time_for(FRAME + FRAME))
}

/// The quanta of drr classes with these weights at a link of `rate`, in the exact ratio of the weights, and at least a frame. `None` if the
/// ratio is too large.
pub(super) fn quanta(weights: &[Weight], rate: BitsPerSec) -> Option<Vec<Bytes>> {
    let divisor = weights.iter().fold(0, |divisor, weight| common_divisor(divisor, u64::from(weight.get())));
    let reduced: Vec<u64> = weights.iter().map(|weight| u64::from(weight.get()) / divisor.max(1)).collect();
    let (least, most) = (reduced.iter().min().copied()?, reduced.iter().max().copied()?);
    if most / least > RATIO_MAX {
        return None;
    }
    let sum: u64 = reduced.iter().sum();
    let unit = FRAME.get().div_ceil(least).max(rate.bytes_in(ROUND).get() / sum.max(1));
    let unit = unit.min(u64::from(u32::MAX) / most).max(1);
    Some(reduced.iter().map(|weight| Bytes(weight * unit)).collect())
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// A part of a group that shares by weights: a product of fractions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Fraction(u64);

impl Fraction {
    pub(super) const ALL: Self = Self(WHOLE);

    /// The part of a child with `weight` of `sum`.
    pub(super) fn of(self, weight: u64, sum: u64) -> Self {
        let part = u128::from(self.0) * u128::from(weight) / u128::from(sum.max(1));
        Self(u64::try_from(part).unwrap_or(u64::MAX).max(1))
    }

    /// The part of `rate`.
    pub(super) fn rate(self, rate: BitsPerSec) -> BitsPerSec {
        let part = u128::from(rate.get()) * u128::from(self.0) / u128::from(WHOLE);
        BitsPerSec(u64::try_from(part).unwrap_or(u64::MAX))
    }

    /// The quantum of an HTB leaf with this part, in a group whose parts are between `least` and `most`.
    pub(super) fn quantum(self, least: Self, most: Self) -> Bytes {
        let scaled = |value: u64, by: u64, of: Self| {
            u64::try_from(u128::from(value) * u128::from(by) / u128::from(of.0.max(1))).unwrap_or(u64::MAX)
        };
        let first = scaled(QUANTA.1, least.0, most).clamp(FRAME.get(), QUANTA.0);
        Bytes(scaled(first, self.0, least).clamp(FRAME.get(), QUANTA.1))
    }
}

/// The bounds of a child that shares a rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub(super) weight: u64,
    /// The rate that it must have.
    pub(super) floor: BitsPerSec,
    /// The most that it can use.
    pub(super) most: BitsPerSec,
}

/// Divides `rate` by weights. No child gets less than its floor, or more than it can use while others can use more. The sum is at most
/// `rate`, if that of the floors is.
pub(super) fn divide(rate: BitsPerSec, claims: &[Claim]) -> Vec<BitsPerSec> {
    let mut parts: Vec<Option<BitsPerSec>> = vec![None; claims.len()];
    loop {
        let fixed: BitsPerSec = parts.iter().flatten().copied().sum();
        let left = rate.saturating_sub(fixed);
        let open = || claims.iter().enumerate().filter(|(at, _)| parts.get(*at) == Some(&None));
        let sum: u128 = open().map(|(_, claim)| u128::from(claim.weight)).sum();
        let share = |claim: &Claim| {
            let share = u128::from(left.get()) * u128::from(claim.weight) / sum.max(1);
            BitsPerSec(u64::try_from(share).unwrap_or(u64::MAX))
        };
        let mut settled: Vec<(usize, BitsPerSec)> =
            open().filter(|(_, of)| share(of) < of.floor).map(|(at, of)| (at, of.floor)).collect();
        if settled.is_empty() {
            settled = open().filter(|(_, of)| share(of) > of.most).map(|(at, of)| (at, of.most)).collect();
        }
        if settled.is_empty() {
            settled = open().map(|(at, claim)| (at, share(claim))).collect();
        }
        if settled.is_empty() {
            return parts.into_iter().map(Option::unwrap_or_default).collect();
        }
        for (at, part) in settled {
            if let Some(slot) = parts.get_mut(at) {
                *slot = Some(part);
            }
        }
    }
}
