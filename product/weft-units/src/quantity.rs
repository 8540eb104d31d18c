//! Quantities and the formulas that join them.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Sub, SubAssign};
use core::str::FromStr;

use crate::meant;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Nanoseconds in a second.
const NANOS_PER_SEC: u128 = 1_000_000_000;

/// Declares a quantity with saturating arithmetic: a counter that overflows must not wrap to a small value.
macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize, JsonSchema,
        )]
        #[serde(transparent)]
        #[schemars(inline)]
        #[repr(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// Zero.
            pub const ZERO: Self = Self(0);
            /// The largest value; means "never" or "unlimited".
            pub const MAX: Self = Self(u64::MAX);

            /// The bare number, for formatting and for foreign interfaces.
            #[inline]
            pub const fn get(self) -> u64 {
                self.0
            }

            /// `self - other`, or zero if `other` is larger.
            #[inline]
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }

        impl Add for $name {
            type Output = Self;
            #[inline]
            fn add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }
        impl AddAssign for $name {
            #[inline]
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }
        impl Sub for $name {
            type Output = Self;
            #[inline]
            fn sub(self, other: Self) -> Self {
                debug_assert!(self.0 >= other.0, "{self:?} - {other:?} is negative");
                self.saturating_sub(other)
            }
        }
        impl SubAssign for $name {
            #[inline]
            fn sub_assign(&mut self, other: Self) {
                *self = *self - other;
            }
        }
        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
                iter.fold(Self::ZERO, Add::add)
            }
        }
    };
}

quantity!(
    /// A number of bytes.
    Bytes
);
quantity!(
    /// A span of time, in nanoseconds. A point in time is an [`Instant`](crate::Instant).
    Nanos
);
quantity!(
    /// A number of packets.
    Packets
);
quantity!(
    /// A rate in bits per second, with decimal prefixes as usual in networks.
    BitsPerSec
);

/// A share in weighted fair queueing, at least 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Weight(core::num::NonZeroU32);

impl Weight {
    /// Weight 1.
    pub const ONE: Self = Self(core::num::NonZeroU32::MIN);

    /// The weight `value`; `None` for zero, which would silently starve its owner.
    pub const fn new(value: u32) -> Option<Self> {
        match core::num::NonZeroU32::new(value) {
            Some(v) => Some(Self(v)),
            None => None,
        }
    }

    /// The bare number.
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

impl Nanos {
    /// `s` seconds.
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }
    /// `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }
    /// `us` microseconds.
    pub const fn from_micros(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }
    /// Seconds as a float, for reports.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl From<core::time::Duration> for Nanos {
    fn from(d: core::time::Duration) -> Self {
        Self(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for core::time::Duration {
    fn from(n: Nanos) -> Self {
        Self::from_nanos(n.0)
    }
}

impl BitsPerSec {
    /// The transmission time of `bytes` at this rate, rounded up: `bytes * 8 / rate`. `Nanos::MAX` for a rate of zero.
    pub fn time_for(self, bytes: Bytes) -> Nanos {
        if self.0 == 0 {
            return Nanos::MAX;
        }
        let nanos = (u128::from(bytes.0) * 8 * NANOS_PER_SEC).div_ceil(u128::from(self.0));
        Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The whole bytes that this rate carries in `span`: `rate * span / 8`, rounded down.
    pub fn bytes_in(self, span: Nanos) -> Bytes {
        let bytes = u128::from(self.0) * u128::from(span.0) / 8 / NANOS_PER_SEC;
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// The rate that carries `bytes` in `span`; zero if `span` is zero.
    pub fn from_bytes_over(bytes: Bytes, span: Nanos) -> Self {
        if span.0 == 0 {
            return Self::ZERO;
        }
        let rate = u128::from(bytes.0) * 8 * NANOS_PER_SEC / u128::from(span.0);
        Self(u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

/// The error for a quantity that cannot be parsed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseUnitError {
    /// The text that was given.
    pub given: String,
    /// A description of valid texts.
    pub expected: &'static str,
    /// The text as it was meant, if there is no doubt ([`crate::meant`]).
    pub meant: Option<String>,
}

impl fmt::Display for ParseUnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not {}", self.given, self.expected)?;
        self.meant.iter().try_for_each(|meant| write!(f, "; write `{meant}`"))
    }
}

impl core::error::Error for ParseUnitError {}

/// Parses `<number><suffix>`. The number may have a fraction, and is scaled by the suffix's factor. `meant` corrects other texts.
fn scaled(
    text: &str,
    suffixes: &[(&str, u64)],
    expected: &'static str,
    meant: fn(&str) -> Option<String>,
) -> Result<u64, ParseUnitError> {
    let value = number_of(text, suffixes);
    value.ok_or_else(|| ParseUnitError { given: text.to_owned(), expected, meant: meant(text) })
}

fn number_of(text: &str, suffixes: &[(&str, u64)]) -> Option<u64> {
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
    let (number, suffix) = trimmed.split_at(split);
    let suffix = suffix.trim().to_ascii_lowercase();
    let factor = suffixes.iter().find(|(s, _)| *s == suffix)?.1;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.len() > 12 || number.ends_with('.') {
        return None;
    }
    let whole: u128 = whole.parse().ok()?;
    let part: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let value = whole
        .checked_mul(u128::from(factor))
        .and_then(|v| v.checked_add(part * u128::from(factor) / 10_u128.pow(fraction.len() as u32)));
    u64::try_from(value?).ok()
}

impl FromStr for BitsPerSec {
    type Err = ParseUnitError;

    /// Parses `500mbps`, `2.5gbps`, `64kbps`, `1000bps`, and `mbit` as tc writes it. A bare number is refused, since its
    /// unit would be a guess.
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        const SUFFIXES: [(&str, u64); 10] = [
            ("bps", 1),
            ("kbps", 1_000),
            ("mbps", 1_000_000),
            ("gbps", 1_000_000_000),
            ("tbps", 1_000_000_000_000),
            ("bit", 1),
            ("kbit", 1_000),
            ("mbit", 1_000_000),
            ("gbit", 1_000_000_000),
            ("tbit", 1_000_000_000_000),
        ];
        scaled(text, &SUFFIXES, "a rate such as 500mbps or 2.5gbps", meant::rate).map(Self)
    }
}

impl FromStr for Nanos {
    type Err = ParseUnitError;

    /// Parses `10s`, `250ms`, `50us`, `900ns`; a bare number is in seconds.
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        const SUFFIXES: [(&str, u64); 6] = [
            ("", 1_000_000_000),
            ("s", 1_000_000_000),
            ("ms", 1_000_000),
            ("us", 1_000),
            ("ns", 1),
            ("m", 60_000_000_000),
        ];
        scaled(text, &SUFFIXES, "a time such as 10s, 250ms or 50us", meant::time).map(Self)
    }
}

impl FromStr for Bytes {
    type Err = ParseUnitError;

    /// Parses `1500`, `1500b`, `16kb` (1000), `16kib` (1024), `4mb`, `4mib`.
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        const SUFFIXES: [(&str, u64); 8] = [
            ("", 1),
            ("b", 1),
            ("kb", 1_000),
            ("mb", 1_000_000),
            ("gb", 1_000_000_000),
            ("kib", 1 << 10),
            ("mib", 1 << 20),
            ("gib", 1 << 30),
        ];
        scaled(text, &SUFFIXES, "a size such as 1500, 16kib or 4mb", meant::size).map(Self)
    }
}

/// Writes `value` in the largest unit in which it is at least 1, with at most three significant decimals.
fn human(f: &mut fmt::Formatter<'_>, value: u64, units: &[(u64, &str)]) -> fmt::Result {
    let (factor, unit) = units.iter().find(|(factor, _)| value >= *factor).unwrap_or(&units[units.len() - 1]);
    let scaled = value as f64 / *factor as f64;
    let decimals = if *factor == 1 || scaled >= 100.0 {
        0
    } else if scaled >= 10.0 {
        1
    } else {
        2
    };
    let text = format!("{scaled:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    f.pad(&format!("{text} {unit}"))
}

impl fmt::Display for BitsPerSec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        human(f, self.0, &[(1_000_000_000, "Gb/s"), (1_000_000, "Mb/s"), (1_000, "kb/s"), (1, "b/s")])
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        human(f, self.0, &[(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB"), (1, "B")])
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        human(f, self.0, &[(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")])
    }
}

impl fmt::Display for Packets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_frame_on_ten_gigabit_takes_1230_4_ns() {
        assert_eq!(BitsPerSec(10_000_000_000).time_for(Bytes(1538)), Nanos(1231));
        assert_eq!(BitsPerSec(10_000_000_000).bytes_in(Nanos(1231)), Bytes(1538));
        assert_eq!(BitsPerSec::ZERO.time_for(Bytes(1)), Nanos::MAX);
    }

    #[test]
    fn rates_read_and_print() {
        assert_eq!("2.5gbps".parse(), Ok(BitsPerSec(2_500_000_000)));
        assert_eq!("500Mbit".parse(), Ok(BitsPerSec(500_000_000)));
        assert_eq!(BitsPerSec(2_500_000_000).to_string(), "2.5 Gb/s");
        assert_eq!(BitsPerSec(500_000_000).to_string(), "500 Mb/s");
        assert_eq!(Bytes(0).to_string(), "0 B");
        for bad in
            ["500", "mbps", "-1mbps", "1..5gbps", "1.gbps", "99999999999999999999tbps", "5 parsecs", ""]
        {
            let error = bad.parse::<BitsPerSec>().expect_err(bad);
            assert!(error.to_string().contains("is not a rate"), "{error}");
        }
    }

    #[test]
    fn times_and_sizes_read() {
        assert_eq!("1.5s".parse(), Ok(Nanos(1_500_000_000)));
        assert_eq!("20".parse(), Ok(Nanos::from_secs(20)));
        assert_eq!("50us".parse(), Ok(Nanos::from_micros(50)));
        assert_eq!("16kib".parse(), Ok(Bytes(16384)));
        assert!("16kbit".parse::<Bytes>().is_err());
    }
}
