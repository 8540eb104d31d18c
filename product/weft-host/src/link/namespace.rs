//! New network namespaces, with `lo` set up.

use super::{LinkError, set_up};
use crate::error::OsError;
use crate::netns::{NetNs, NetNsError, Result};
use std::io;

impl NetNs {
    /// Makes a new namespace, mounts it at `/run/netns/NAME` and sets its `lo` up.
    ///
    /// # Errors
    /// If the name is taken or the kernel refuses.
    pub fn create(name: &str) -> Result<Self> {
        loopback_up(Self::named_and_down(name)?)
    }

    /// Makes a new namespace without a name. It exists as long as the value or a process in it.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn anonymous() -> Result<Self> {
        loopback_up(Self::unnamed_and_down()?)
    }
}

fn loopback_up(ns: NetNs) -> Result<NetNs> {
    match set_up(&ns, "lo") {
        Ok(()) => Ok(ns),
        Err(LinkError::Os(e)) => Err(NetNsError::Os(e)),
        Err(LinkError::NetNs(e)) => Err(e),
        Err(other) => {
            let what = format!("set lo of network namespace {ns} up");
            Err(NetNsError::Os(OsError::new(what, io::Error::other(other))))
        }
    }
}
