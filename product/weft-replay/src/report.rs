//! The result of a replay.

use serde::Serialize;
use weft_facts::record::Conservation;
use weft_facts::replay::ReplayClass;

/// The result of a replay. Bytes are those of frames as they were on the wire, without check sequence.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ReplayOutcome {
    /// The link's rate, in bits per second.
    pub link_bps: u64,
    /// The departures by class, in the order of the policy.
    pub classes: Vec<ReplayClass>,
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
