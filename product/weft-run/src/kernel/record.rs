//! The record of a policy in the kernel.

use crate::session::AuthoredPolicy;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use weft_host::device_record::{DeviceRecord, age, seconds_since_1970};
use weft_host::tc::{Handle, Qdisc, Saved, TcPlace};
use weft_policy::Numbers;
use weft_policy::kernel::KernelQdiscs;

/// The folder of the records.
pub const FOLDER: &str = "/run/weftline/kernel";

/// The record of a policy in the kernel at a device.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelRecord {
    /// The name of the device when the policy was applied.
    pub device: String,
    /// The interface number.
    pub ifindex: u32,
    /// The inode number of its network namespace.
    pub netns: u64,
    /// The name of the namespace, if it was named.
    pub netns_name: Option<String>,
    /// The policy.
    pub policy: AuthoredPolicy,
    /// Its numbers, from which handles follow.
    pub numbers: Numbers,
    /// The qdiscs of the kernel for which it was lowered.
    pub qdiscs: KernelQdiscs,
    /// The former root, the messages that make it.
    pub(super) former: Vec<FormerQdisc>,
    /// The place of the classifier.
    pub(super) attachment: Attachment,
    /// The id of the classifier in the kernel.
    pub(super) program: u32,
    /// The folder of the pins.
    pub(super) pins: PathBuf,
    /// The change that is under way, until it is complete.
    pub(super) under_way: Option<UnderWay>,
    /// The number of the policy: 1 for the first, one more with each change.
    pub generation: u64,
    /// The time of the first policy, in seconds since 1970.
    pub since: u64,
}

impl DeviceRecord for KernelRecord {
    fn place(&self) -> (u64, u32) {
        (self.netns, self.ifindex)
    }
}

/// A change of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum UnderWay {
    /// The first policy comes, or the last one goes: the device becomes what it was before.
    Whole,
    /// The tree is edited: it becomes that of the policy in the record.
    Edit,
}

/// The place of the classifier at the device's egress.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Attachment {
    /// A tcx program (Linux 6.6).
    Tcx,
    /// A filter of a clsact.
    Filter {
        /// Its priority.
        priority: u16,
        /// Whether the clsact is ours.
        clsact_added: bool,
    },
}

/// A qdisc of the former root.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct FormerQdisc {
    parent: u32,
    handle: u32,
    kind: String,
    /// In hexadecimal digits.
    options: String,
}

impl FormerQdisc {
    /// The qdiscs of a root that was saved.
    pub(super) fn all(saved: &Saved) -> Vec<Self> {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let former = |(place, qdisc): &(TcPlace, Qdisc)| Self {
            parent: place.parent.raw(),
            handle: place.handle.raw(),
            kind: qdisc.kind().to_owned(),
            options: hex(&qdisc.encode().unwrap_or_default()),
        };
        saved.messages().iter().map(former).collect()
    }

    fn message(&self) -> (TcPlace, Qdisc) {
        let place = TcPlace { parent: Handle::from_raw(self.parent), handle: Handle::from_raw(self.handle) };
        let digits =
            self.options.as_bytes().chunks_exact(2).filter_map(|pair| core::str::from_utf8(pair).ok());
        let options = digits.filter_map(|pair| u8::from_str_radix(pair, 16).ok()).collect();
        (place, Qdisc::Other { kind: self.kind.clone(), options })
    }
}

impl KernelRecord {
    /// The former root.
    pub(super) fn saved(&self) -> Saved {
        Saved::new(self.former.iter().map(FormerQdisc::message).collect())
    }

    /// Whether no change is under way.
    pub fn is_complete(&self) -> bool {
        self.under_way.is_none()
    }

    /// The kind of the former root; `None` for the kernel's default.
    pub fn former_kind(&self) -> Option<&str> {
        self.former.first().map(|root| root.kind.as_str())
    }

    /// The time since the policy was applied, in seconds.
    pub fn age_s(&self) -> u64 {
        seconds_since_1970().saturating_sub(self.since)
    }

    /// The time since the policy was applied, for display.
    pub fn since(&self) -> String {
        age(self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_former_root_is_read_as_it_was_written() {
        let place = TcPlace { parent: Handle::ROOT, handle: Handle::qdisc(0x8001) };
        let qdisc = Qdisc::Other { kind: "fq_codel".to_owned(), options: vec![0, 0xab, 0xff] };
        let saved = Saved::new(vec![(place, qdisc)]);
        let former = FormerQdisc::all(&saved);
        assert_eq!(former[0].options, "00abff");
        assert_eq!(Saved::new(former.iter().map(FormerQdisc::message).collect()), saved);
    }
}
