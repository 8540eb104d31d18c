//! The host's users.

use std::sync::OnceLock;

/// The text of `/etc/passwd`, which has the host's own users; empty if it cannot be read. Users of a directory service are not
/// in it.
pub fn passwd() -> String {
    std::fs::read_to_string("/etc/passwd").unwrap_or_default()
}

/// The number of all users who are not in this process's user namespace (`overflowuid`, user_namespaces(7)). `None` where
/// all users are known, so that it is a user like others.
pub fn unknown() -> Option<u32> {
    static UNKNOWN: OnceLock<Option<u32>> = OnceLock::new();
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    *UNKNOWN.get_or_init(|| {
        let all: Vec<u64> =
            read("/proc/self/uid_map").split_whitespace().filter_map(|n| n.parse().ok()).collect();
        // The map of the first namespace: every number means itself.
        let is_first = all == [0, 0, u64::from(u32::MAX)];
        (!is_first).then(|| read("/proc/sys/kernel/overflowuid").trim().parse().unwrap_or(65_534))
    })
}
