//! The choice of the core whose backlog a packet passes on its way through a veth.
//!
//! `veth_xmit` (drivers/net/veth.c) puts a packet into the receive backlog of the sending core, so two packets of a
//! flow sent from two cores may be reordered. Receive packet steering selects the core by the packet's hash instead
//! (`get_rps_cpu`, net/core/dev.c): one flow, one backlog.

use rustix::io::Errno;
use std::collections::BTreeSet;
use weft_host::cpus::CpusError;
use weft_host::error::OsError;
use weft_host::netns::{NetNs, NetNsError};
use weft_host::rps::{self, RpsError};

/// Errors from setting the backlog.
#[derive(Debug, thiserror::Error)]
pub enum BacklogError {
    /// The kernel refused a call.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The namespace could not be entered.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// The processors are unknown.
    #[error(transparent)]
    Cpus(#[from] CpusError),
    /// The kernel did not follow.
    #[error(transparent)]
    Steering(RpsError),
    /// The kernel has no receive packet steering.
    #[error(
        "link {link} of {ns} has no receive packet steering (CONFIG_RPS), so a flow that sends from two cores may be \
         reordered; use a kernel that has it, or do not ask for a single backlog"
    )]
    NoSteering {
        /// The link.
        link: String,
        /// The namespace of the link.
        ns: String,
    },
}

/// Selects the core of a packet's backlog by its hash, among `cpus`, for packets received by link `name` of `ns`.
pub(super) fn by_hash(ns: &NetNs, name: &str, cpus: &BTreeSet<u32>) -> Result<(), BacklogError> {
    let none = || BacklogError::NoSteering { link: name.to_owned(), ns: ns.to_string() };
    rps::steer(ns, name, cpus).map_err(|error| match error {
        RpsError::NoSteering { .. } => none(),
        RpsError::Os(error) if error.errno() == Some(Errno::NOENT) => none(),
        RpsError::Os(error) => error.into(),
        RpsError::NetNs(error) => error.into(),
        other => BacklogError::Steering(other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_host::link::{self, VethOptions};

    #[test]
    fn the_far_end_is_steered_by_hash() {
        if !weft_host::testing::privileged("the_far_end_is_steered_by_hash") {
            return;
        }
        let (near, far) = (NetNs::anonymous().expect("near"), NetNs::anonymous().expect("far"));
        link::create_veth((&near, "near"), (&far, "far"), &VethOptions::default()).expect("veth");
        let count = || {
            let queues = rps::processors(&far, "far").expect("processors");
            queues.iter().map(|cpus| cpus.len()).collect::<Vec<_>>()
        };
        assert_eq!(count(), [0]);
        let online = weft_host::cpus::online().expect("processors");
        by_hash(&far, "far", &online).expect("set");
        let cores = std::thread::available_parallelism().expect("cores").get();
        assert!(count()[0] >= cores, "{:?}", count());
        assert!(matches!(by_hash(&far, "nothing", &online), Err(BacklogError::NoSteering { .. })));
    }
}
