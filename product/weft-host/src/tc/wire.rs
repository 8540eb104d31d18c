//! Values in the kernel's fields: words of 32 bits, rates, bucket depths, times in microseconds.

use weft_units::{BitsPerSec, Bytes, Nanos};

use super::error::{Result, TcError};
use crate::netlink::{Attributes, u16_at, u32_at};

/// `NLA_F_NESTED`, and the mask of an attribute's type: `linux/netlink.h`.
pub(super) const NESTED: u16 = 0x8000;
pub(super) const TYPE_MASK: u16 = 0x3fff;

/// The kernel counts bucket depths in ticks of 64 ns (`PSCHED_SHIFT`, include/net/pkt_sched.h).
const NANOS_PER_TICK: u64 = 64;
/// `TC_LINKLAYER_ETHERNET`: the kernel computes with the rate itself and needs no rate table.
const LINKLAYER_ETHERNET: u8 = 1;

/// Returns the value of an attribute of 32 bits; `None` if it has another length.
pub(super) fn u32_of(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_ne_bytes)
}

/// Returns the value of an attribute of 64 bits; `None` if it has another length.
pub(super) fn u64_of(value: &[u8]) -> Option<u64> {
    value.try_into().ok().map(u64::from_ne_bytes)
}

/// Returns `value` as a field of 32 bits.
pub(super) fn word(object: &'static str, what: &str, value: u64) -> Result<u32> {
    let refuse = |_| TcError::invalid(object, format!("the {what} must be below 4294967296, not {value}"));
    u32::try_from(value).map_err(refuse)
}

/// Returns whole microseconds in a field of 32 bits, as most of the kernel's times are. Rounds down.
pub(super) fn micros(object: &'static str, what: &str, value: Nanos) -> Result<u32> {
    let refuse = |_| TcError::invalid(object, format!("the {what} must be below 4294 s, not {value}"));
    u32::try_from(value.0 / 1000).map_err(refuse)
}

/// Returns the time of a field in microseconds.
pub(super) fn of_micros(micros: u32) -> Nanos {
    Nanos::from_micros(micros.into())
}

/// Returns a rate as bytes per second in a field of 32 bits, which ends at 34 Gb/s. Rounds down.
pub(super) fn byte_rate(object: &'static str, what: &str, rate: BitsPerSec) -> Result<u32> {
    let refuse = |_| TcError::invalid(object, format!("the {what} must be at most 34.3 Gb/s, not {rate}"));
    u32::try_from(rate.0 / 8).map_err(refuse)
}

/// Returns the rate of a field in bytes per second.
pub(super) fn of_byte_rate(bytes_per_sec: u64) -> BitsPerSec {
    BitsPerSec(bytes_per_sec.saturating_mul(8))
}

/// The most bytes of options that fit into an attribute, whose length has 16 bits, with room for what is beside them.
const OPTIONS_MAX: usize = 60_000;

/// Returns options that have no type.
pub(super) fn raw(object: &'static str, options: &[u8]) -> Result<Vec<u8>> {
    match options.len() <= OPTIONS_MAX {
        true => Ok(options.to_vec()),
        false => Err(TcError::invalid(object, format!("{} bytes of options do not fit", options.len()))),
    }
}

/// Attributes of one object, which are left away where there is no value.
pub(super) struct Options {
    object: &'static str,
    attributes: Attributes,
}

impl Options {
    pub(super) fn of(object: &'static str) -> Self {
        Self { object, attributes: Attributes::default() }
    }

    pub(super) fn with(mut self, attribute: u16, value: &[u8]) -> Self {
        self.attributes = self.attributes.with(attribute, value);
        self
    }

    /// Adds a field of 32 bits.
    pub(super) fn word(self, attribute: u16, what: &str, value: Option<u64>) -> Result<Self> {
        let Some(value) = value else { return Ok(self) };
        let word = word(self.object, what, value)?;
        Ok(self.with(attribute, &word.to_ne_bytes()))
    }

    /// Adds a time in microseconds.
    pub(super) fn micros(self, attribute: u16, what: &str, value: Option<Nanos>) -> Result<Self> {
        let Some(value) = value else { return Ok(self) };
        let word = micros(self.object, what, value)?;
        Ok(self.with(attribute, &word.to_ne_bytes()))
    }

    /// Adds a rate in bytes per second.
    pub(super) fn byte_rate(self, attribute: u16, what: &str, rate: Option<BitsPerSec>) -> Result<Self> {
        let Some(rate) = rate else { return Ok(self) };
        let word = byte_rate(self.object, what, rate)?;
        Ok(self.with(attribute, &word.to_ne_bytes()))
    }

    pub(super) fn bytes(self) -> Vec<u8> {
        self.attributes.bytes()
    }
}

/// A rate with what each packet counts for: `struct tc_ratespec`. Rates above 2^32 bytes per second are in an attribute of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RateSpec {
    pub(super) rate: BitsPerSec,
    pub(super) overhead: u16,
    pub(super) mpu: u16,
}

impl RateSpec {
    pub(super) const LEN: usize = 12;

    /// cell_log, linklayer, overhead, cell_align, mpu, rate in bytes per second.
    pub(super) fn bytes(&self) -> [u8; Self::LEN] {
        let mut spec = [0; Self::LEN];
        spec[1] = LINKLAYER_ETHERNET;
        spec[2..4].copy_from_slice(&self.overhead.to_ne_bytes());
        spec[6..8].copy_from_slice(&self.mpu.to_ne_bytes());
        spec[8..].copy_from_slice(&u32::try_from(self.rate.0 / 8).unwrap_or(u32::MAX).to_ne_bytes());
        spec
    }

    /// Reads a specification; `None` for the cells of ATM. `wide` is the attribute of 64 bits.
    pub(super) fn parse(bytes: &[u8], wide: Option<u64>) -> Option<Self> {
        let linklayer = *bytes.get(1)?;
        if bytes.len() < Self::LEN || linklayer > LINKLAYER_ETHERNET {
            return None;
        }
        let rate = of_byte_rate(wide.unwrap_or_else(|| u32_at(bytes, 8).into()));
        Some(Self { rate, overhead: u16_at(bytes, 2), mpu: u16_at(bytes, 6) })
    }
}

/// Returns the depth of a bucket as the time that its bytes take at the rate, in ticks.
pub(super) fn ticks(rate: BitsPerSec, depth: Bytes) -> u32 {
    u32::try_from(rate.time_for(depth).0 / NANOS_PER_TICK).unwrap_or(u32::MAX)
}

/// Returns the least depth with so many [`ticks`]. It is exact up to 125 Mb/s, where a byte takes a tick, and less than a tick's bytes
/// below the depth that was set at higher rates.
pub(super) fn bytes_of_ticks(rate: BitsPerSec, ticks: u32) -> Bytes {
    match (u64::from(ticks) * NANOS_PER_TICK).checked_sub(1) {
        None => Bytes::ZERO,
        Some(before) => rate.bytes_in(Nanos(before)) + Bytes(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn depths_keep_their_ticks(rate in 8_u64..1_000_000_000_000, depth in 0_u64..2_000_000) {
            let (rate, depth) = (BitsPerSec(rate), Bytes(depth));
            let before = ticks(rate, depth);
            prop_assume!(before < u32::MAX);
            let read = bytes_of_ticks(rate, before);
            prop_assert_eq!(ticks(rate, read), before);
            prop_assert!(read <= depth && depth.0 - read.0 <= rate.0 / 125_000_000, "{} {}", depth, read);
        }
    }
}
