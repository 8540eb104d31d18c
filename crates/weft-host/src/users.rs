//! The host's users.

/// The text of `/etc/passwd`, which has the host's own users; empty if it cannot be read. Users of a directory service are not
/// in it.
pub fn passwd() -> String {
    std::fs::read_to_string("/etc/passwd").unwrap_or_default()
}
