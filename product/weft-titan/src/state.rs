//! The state file of a device, which records all changes until they are undone, so that a later process can detach.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use weft_host::device_record::{self, DeviceRecord};

/// The folder of the state files.
pub const FOLDER: &str = "/run/weftline/titan";

/// The extension of the lock of a device's driver sync, named for `weft titan actuate`. The lock is what keeps a process of another
/// version away, so the name stays.
pub(crate) const LOCK: &str = "actuator";

/// The segment limits of a device, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentLimits {
    /// `gso_max_size`.
    pub max: u32,
    /// `gso_ipv4_max_size`, where the kernel has it.
    pub ipv4_max: Option<u32>,
}

/// The record of the changes to a device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeRecord {
    /// The name of the device when it was attached.
    pub device: String,
    /// The interface number.
    pub ifindex: u32,
    /// The inode number of its network namespace.
    pub netns: u64,
    /// The path or name of the namespace, for display.
    pub place: String,
    /// The number of assigned transmit queues.
    pub queues: u32,
    /// The names of the enabled parts.
    pub parts: Vec<String>,
    /// The method of queue selection, for display.
    pub assignment: String,
    /// The priority of our filter.
    pub priority: u16,
    /// The handle of our filter.
    pub handle: u32,
    /// Whether we created the clsact qdisc.
    pub clsact_added: bool,
    /// The ids of our programs in the kernel.
    pub programs: Vec<u32>,
    /// The source of departure events: `destructors` or `tracepoints`.
    pub departures: String,
    /// Whether the device is our software NIC's port.
    pub software_nic: bool,
    /// The largest segment under DSOS in bytes; 0 without it.
    pub segment_bytes: u32,
    /// The minimum interval of weight updates, in nanoseconds.
    pub update_interval_ns: u64,
    /// The segment limits of the device before driver sync changed them.
    pub segments_before: Option<SegmentLimits>,
    /// The folder of the pins.
    pub pins: PathBuf,
    /// The time of the attachment, in seconds since 1970.
    pub since: u64,
}

impl DeviceRecord for ChangeRecord {
    const BESIDE: &'static [&'static str] = &[LOCK];

    fn place(&self) -> (u64, u32) {
        (self.netns, self.ifindex)
    }
}

impl ChangeRecord {
    /// The time since the attachment, for display.
    pub fn since(&self) -> String {
        device_record::age(self.since)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn state() -> ChangeRecord {
        ChangeRecord {
            device: "eth0".to_owned(),
            ifindex: 7,
            netns: 4_026_531_840,
            place: "this network namespace".to_owned(),
            queues: 8,
            parts: vec!["dqa".to_owned()],
            assignment: "least occupied".to_owned(),
            priority: 1,
            handle: 1,
            clsact_added: true,
            programs: vec![12, 13],
            departures: "tracepoints".to_owned(),
            software_nic: true,
            segment_bytes: 16_384,
            update_interval_ns: 1_000_000,
            segments_before: Some(SegmentLimits { max: 65_536, ipv4_max: None }),
            pins: PathBuf::from("pins"),
            since: 1,
        }
    }
}
