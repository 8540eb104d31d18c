//! Counts of packets with their bytes.

use weft_units::{Bytes, Packets};

/// A number of packets and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// The number of packets.
    pub packets: Packets,
    /// Their bytes.
    pub bytes: Bytes,
}

impl Traffic {
    #[inline]
    pub(crate) fn add(&mut self, len: Bytes) {
        self.packets += Packets(1);
        self.bytes += len;
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }

    pub(crate) fn remove(&mut self, other: Self) {
        self.packets = self.packets.saturating_sub(other.packets);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }
}
