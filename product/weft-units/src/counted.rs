//! Packets with their bytes, as every stage counts them.

use crate::{Bytes, Packets};
use core::iter::Sum;
use core::ops::{Add, AddAssign, SubAssign};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A number of packets, and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Counted {
    /// Packets.
    pub packets: Packets,
    /// Their bytes.
    pub bytes: Bytes,
}

impl Counted {
    /// No packets.
    pub const ZERO: Self = Self { packets: Packets::ZERO, bytes: Bytes::ZERO };

    /// Returns the count of numbers that a kernel or a program keeps.
    pub const fn new(packets: u64, bytes: u64) -> Self {
        Self { packets: Packets(packets), bytes: Bytes(bytes) }
    }

    /// Returns the count of one packet.
    #[inline]
    pub const fn one(bytes: Bytes) -> Self {
        Self { packets: Packets(1), bytes }
    }

    /// Returns the difference of two counts; zero where `other` is larger.
    #[inline]
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self {
            packets: self.packets.saturating_sub(other.packets),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

impl Add for Counted {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}

impl AddAssign for Counted {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Counted {
    #[inline]
    fn sub_assign(&mut self, part: Self) {
        self.packets -= part.packets;
        self.bytes -= part.bytes;
    }
}

impl Sum for Counted {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}
