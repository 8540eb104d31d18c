//! The arithmetic of programs, equal in every executor: 64 bits, saturating, without floating point.
//!
//! A signed value is the two's complement of its number. Each rule is a function here; the interpreter calls it, and the
//! compilers are tested against it.

use weft_units::{BIT_NANOS_PER_BYTE, BitsPerSec};

/// The unsigned quotient, rounded down; 0 if the divisor is 0.
#[inline]
pub const fn divide(dividend: u64, divisor: u64) -> u64 {
    match dividend.checked_div(divisor) {
        Some(quotient) => quotient,
        None => 0,
    }
}

/// The unsigned remainder; the dividend if the divisor is 0, so that `quotient * divisor + remainder` is the dividend.
#[inline]
pub const fn remainder(dividend: u64, divisor: u64) -> u64 {
    match dividend.checked_rem(divisor) {
        Some(rest) => rest,
        None => dividend,
    }
}

/// The signed sum, within the range of `i64`.
#[inline]
pub const fn add_signed(left: u64, right: u64) -> u64 {
    (left as i64).saturating_add(right as i64) as u64
}

/// The signed difference, within the range of `i64`.
#[inline]
pub const fn sub_signed(left: u64, right: u64) -> u64 {
    (left as i64).saturating_sub(right as i64) as u64
}

/// The signed product, within the range of `i64`.
#[inline]
pub const fn mul_signed(left: u64, right: u64) -> u64 {
    (left as i64).saturating_mul(right as i64) as u64
}

/// The signed quotient, rounded down (toward negative infinity) and within the range of `i64`; 0 if the divisor is 0.
#[inline]
pub const fn divide_signed(dividend: u64, divisor: u64) -> u64 {
    let (left, right) = (dividend as i64, divisor as i64);
    match (left.checked_div(right), left.checked_rem(right)) {
        (Some(quotient), Some(rest)) => {
            let below = rest != 0 && (rest < 0) != (right < 0);
            (quotient - below as i64) as u64
        }
        // Only the smallest number divided by -1 overflows.
        _ => (if right == 0 { 0 } else { i64::MAX }) as u64,
    }
}

/// A factor as one word: a multiplier of 32 bits in the upper half, and a shift to the right in the lowest six bits. The other
/// bits are 0 in a word that this type made; executors ignore them.
///
/// With `p = value * multiplier + carry` in unlimited precision, the scaled value is `p >> shift` ([`Scale::whole`]), at most
/// `u64::MAX`; the fraction is `p mod 2^shift` ([`Scale::rest`]). A sum of scaled values whose fractions are carried is as
/// exact as the multiplier: 31 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Scale(u64);

impl Scale {
    /// The factor 0: the time of bytes at an unlimited rate.
    pub const ZERO: Self = Self(0);

    /// The factor `multiplier / 2^shift`; the shift is taken modulo 64.
    pub const fn new(multiplier: u32, shift: u32) -> Self {
        Self((multiplier as u64) << 32 | (shift & 63) as u64)
    }

    /// The scale of a word. Every word is a scale.
    #[inline]
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// The word, as a parameter, a constant or a metadatum.
    #[inline]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// The multiplier.
    #[inline]
    pub const fn multiplier(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The shift to the right.
    #[inline]
    pub const fn shift(self) -> u32 {
        (self.0 & 63) as u32
    }

    /// The least scale that is not below `numerator / denominator` and has a multiplier of at least 2^31 where the shift
    /// allows it. The relative error is below 2^-31 from a factor of 2^-32 on. Factors above `u32::MAX`, and a denominator of
    /// 0, give the factor `u32::MAX`.
    pub const fn at_least(numerator: u64, denominator: u64) -> Self {
        if numerator == 0 {
            return Self::ZERO;
        }
        let mut shift = 63;
        loop {
            let scaled = ((numerator as u128) << shift).div_ceil(if denominator == 0 {
                1
            } else {
                denominator as u128
            });
            if denominator != 0 && scaled <= u32::MAX as u128 {
                return Self::new(scaled as u32, shift);
            }
            if shift == 0 {
                return Self::new(u32::MAX, 0);
            }
            shift -= 1;
        }
    }

    /// The scale from bytes to the nanoseconds that they take at `rate`, rounded up by less than 2^-31 of itself. A rate below
    /// two bits per second counts as the slowest one that a scale has.
    pub const fn time_per_byte(rate: BitsPerSec) -> Self {
        Self::at_least(BIT_NANOS_PER_BYTE, rate.get())
    }

    /// The scale from nanoseconds to the bytes that `rate` sends in them, rounded up by less than 2^-31 of itself.
    pub const fn bytes_per_nano(rate: BitsPerSec) -> Self {
        Self::at_least(rate.get(), BIT_NANOS_PER_BYTE)
    }

    /// The product of `value` and the multiplier, plus `carry`: less than 2^97.
    #[inline]
    const fn product(self, value: u64, carry: u64) -> u128 {
        value as u128 * self.multiplier() as u128 + carry as u128
    }

    /// The whole units of the scaled value, at most `u64::MAX`.
    #[inline]
    pub const fn whole(self, value: u64, carry: u64) -> u64 {
        let whole = self.product(value, carry) >> self.shift();
        if whole > u64::MAX as u128 { u64::MAX } else { whole as u64 }
    }

    /// The fraction of the scaled value, in units of `1 / 2^shift`.
    #[inline]
    pub const fn rest(self, value: u64, carry: u64) -> u64 {
        self.product(value, carry) as u64 & ((1 << self.shift()) - 1)
    }
}

/// Units of virtual time for one byte at weight 1. The native disciplines of the engine have the same.
pub const VIRTUAL_UNITS_PER_BYTE: u64 = 1 << 12;

/// The bits of the fraction in [`OVER_SQRT`].
pub const OVER_SQRT_BITS: u32 = 31;

/// The numbers `2^31 / sqrt(i)`, rounded down, for `i` up to 255. The first is that of 1, too.
pub const OVER_SQRT: [u32; 256] = {
    let mut table = [1 << OVER_SQRT_BITS; 256];
    let mut count = 1;
    while count < table.len() {
        table[count] = ((1 << (2 * OVER_SQRT_BITS)) / count as u64).isqrt() as u32;
        count += 1;
    }
    table
};

/// `interval / sqrt(count)`, as CoDel needs it.
///
/// The count is halved in pairs of bits until it is below 256: `count >> 2j` with the least such `j`. The result is
/// `interval * OVER_SQRT[count >> 2j] >> (31 + j)`. It is exact to 2^-26 up to a count of 255, and to 1/64 above. A count of 0
/// is as 1.
#[inline]
pub const fn over_sqrt(interval: u64, count: u64) -> u64 {
    let bits = u64::BITS - count.leading_zeros();
    let pairs = if bits > 8 { (bits - 7) / 2 } else { 0 };
    let factor = OVER_SQRT[(count >> (2 * pairs)) as usize & 255];
    ((interval as u128 * factor as u128) >> (OVER_SQRT_BITS + pairs)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(value: i64) -> u64 {
        value as u64
    }

    #[test]
    fn division_by_zero_is_defined() {
        assert_eq!((divide(7, 0), remainder(7, 0)), (0, 7));
        assert_eq!((divide(7, 2), remainder(7, 2)), (3, 1));
        assert_eq!(divide_signed(signed(-7), 0), 0);
    }

    #[test]
    fn signed_division_rounds_down() {
        for (dividend, divisor, quotient) in [
            (7, 2, 3),
            (-7, 2, -4),
            (7, -2, -4),
            (-7, -2, 3),
            (-6, 2, -3),
            (i64::MIN, -1, i64::MAX),
            (i64::MIN, 1, i64::MIN),
            (i64::MAX, -1, -i64::MAX),
            (1, i64::MIN, -1),
        ] {
            assert_eq!(
                divide_signed(signed(dividend), signed(divisor)),
                signed(quotient),
                "{dividend}/{divisor}"
            );
        }
    }

    #[test]
    fn signed_sums_and_products_saturate() {
        assert_eq!(add_signed(signed(i64::MAX), 1), signed(i64::MAX));
        assert_eq!(sub_signed(signed(i64::MIN), 1), signed(i64::MIN));
        assert_eq!(sub_signed(3, 5), signed(-2));
        assert_eq!(mul_signed(signed(i64::MIN), signed(-1)), signed(i64::MAX));
        assert_eq!(mul_signed(signed(i64::MAX), signed(-2)), signed(i64::MIN));
    }

    #[test]
    fn a_scale_is_the_time_of_bytes_at_a_rate() {
        let ten = Scale::time_per_byte(BitsPerSec(10_000_000_000));
        assert_eq!(ten.whole(1500, 0), 1200);
        assert_eq!(Scale::time_per_byte(BitsPerSec(8_000_000_000)).whole(1000, 0), 1000);
        assert_eq!(Scale::time_per_byte(BitsPerSec(1_000_000_000)), Scale::new(1 << 31, 28));
        assert_eq!(Scale::bytes_per_nano(BitsPerSec(8_000_000_000)).whole(1538, 0), 1538);
        assert_eq!(Scale::ZERO.whole(u64::MAX, 5), 5, "a shift of 0 carries whole units");
    }

    /// Frames of 64 bytes at 100 Gb/s take 5.12 ns each: without the carry they would be 2.3 % too fast.
    #[test]
    fn fractions_are_carried() {
        let scale = Scale::time_per_byte(BitsPerSec(100_000_000_000));
        let (mut time, mut carry) = (0, 0);
        for _ in 0..1_000_000 {
            time += scale.whole(64, carry);
            carry = scale.rest(64, carry);
        }
        assert_eq!(time, 5_120_000);
    }

    #[test]
    fn extreme_scales() {
        assert_eq!(Scale::time_per_byte(BitsPerSec(0)), Scale::new(u32::MAX, 0));
        assert_eq!(Scale::time_per_byte(BitsPerSec(1)), Scale::new(u32::MAX, 0));
        assert_eq!(Scale::time_per_byte(BitsPerSec(2)), Scale::new(4_000_000_000, 0));
        assert_eq!(Scale::new(u32::MAX, 0).whole(u64::MAX, u64::MAX), u64::MAX);
        assert_eq!(Scale::new(1, 63).whole(u64::MAX, u64::MAX), 3);
        assert_eq!(Scale::new(1, 63).rest(u64::MAX, 0), u64::MAX >> 1);
        assert_eq!(Scale::from_word(u64::MAX), Scale::from_word(u64::MAX));
        assert_eq!(Scale::from_word(u64::MAX).shift(), 63);
        let fastest = Scale::time_per_byte(BitsPerSec(u64::MAX));
        assert!(fastest.multiplier() >= 1 << 31, "{fastest:?}");
    }

    #[test]
    fn codels_intervals() {
        let interval = 100_000_000;
        let after = |count| over_sqrt(interval, count);
        assert_eq!(
            [after(0), after(1), after(4), after(16)],
            [100_000_000, 100_000_000, 50_000_000, 25_000_000]
        );
        assert!(after(2).abs_diff(70_710_678) <= 1, "{}", after(2));
        assert!(after(3).abs_diff(57_735_026) <= 1, "{}", after(3));
        assert_eq!(after(1 << 20), interval >> 10);
        assert_eq!(over_sqrt(u64::MAX, u64::MAX), ((u64::MAX as u128 * OVER_SQRT[255] as u128) >> 59) as u64);
    }
}
