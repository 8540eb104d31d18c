//! The capabilities required for namespaces, links and their queues.

use rustix::thread::CapabilitySet;

/// The error for missing capabilities.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("making network namespaces and links needs {}, which this process lacks; run as root", .missing.join(" and "))]
pub struct RightsError {
    /// The names of the missing capabilities.
    pub missing: Vec<&'static str>,
}

/// Checks whether this process may make network namespaces, links and their queues.
pub fn require_network_rights() -> Result<(), RightsError> {
    let held = effective();
    let missing: Vec<_> =
        [("CAP_NET_ADMIN", CapabilitySet::NET_ADMIN), ("CAP_SYS_ADMIN", CapabilitySet::SYS_ADMIN)]
            .into_iter()
            .filter(|(_, capability)| !held.contains(*capability))
            .map(|(name, _)| name)
            .collect();
    if missing.is_empty() { Ok(()) } else { Err(RightsError { missing }) }
}

/// The effective capabilities of this thread.
pub(crate) fn effective() -> CapabilitySet {
    rustix::thread::capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective)
}
