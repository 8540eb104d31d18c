//! The report of a replay.

use serde::Serialize;
use std::collections::BTreeMap;
use weft_units::Bytes;

/// Packets and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes of frames as they were on the wire, without check sequence.
    pub bytes: u64,
}

impl Count {
    pub(super) fn add(&mut self, bytes: Bytes) {
        self.packets += 1;
        self.bytes = self.bytes.saturating_add(bytes.0);
    }
}

/// The departures and the drops of a class.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ClassReport {
    /// The name in the policy.
    pub class: String,
    /// Packets that left.
    pub packets: u64,
    /// Bytes that left.
    pub bytes: u64,
    /// Drops by reason.
    pub dropped: BTreeMap<&'static str, Count>,
    /// The departure of the first packet, in seconds after the first arrival of the capture; `None` without departures.
    pub first_s: Option<f64>,
    /// The departure of the last packet.
    pub last_s: Option<f64>,
}

/// The balance of the packets read.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Conservation {
    /// Packets read.
    pub in_packets: u64,
    /// Bytes read.
    pub in_bytes: u64,
    /// Packets written.
    pub out_packets: u64,
    /// Bytes written.
    pub out_bytes: u64,
    /// Packets dropped.
    pub dropped_packets: u64,
    /// Bytes dropped.
    pub dropped_bytes: u64,
    /// Packets that would never have left.
    pub held_packets: u64,
    /// Bytes that would never have left.
    pub held_bytes: u64,
    /// Drops by reason.
    pub dropped_by_reason: BTreeMap<&'static str, Count>,
}

impl Conservation {
    /// Whether in = out + dropped + held, in packets and in bytes, and the reasons add up to the drops.
    pub fn holds(&self) -> bool {
        let packets = self.out_packets + self.dropped_packets + self.held_packets;
        let bytes = self.out_bytes + self.dropped_bytes + self.held_bytes;
        let reasons = self.dropped_by_reason.values();
        let dropped = reasons.fold((0, 0), |sum, count| (sum.0 + count.packets, sum.1 + count.bytes));
        (packets, bytes) == (self.in_packets, self.in_bytes)
            && dropped == (self.dropped_packets, self.dropped_bytes)
    }
}

/// The result of a replay.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ReplayReport {
    /// The link's rate, in bits per second.
    pub link_bps: u64,
    /// The departures by class, in the order of the policy.
    pub classes: Vec<ClassReport>,
    /// The balance of the packets read.
    pub conservation: Conservation,
    /// Packets whose headers could not be read; they were scheduled as packets that are not IP.
    pub unreadable: u64,
    /// Packets with a timestamp before that of the preceding packet.
    pub late_timestamps: u64,
    /// Flows with their own queue.
    pub flows: u64,
    /// Packets that shared a queue because their class was full of flows.
    pub overflow_packets: u64,
}
