//! The users to whom cgroups are delegated, who may change the files of their tenants.

use weft_host::{Hierarchy, users};

/// The user to whom a cgroup is delegated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delegation {
    /// This one.
    To(u32),
    /// No user: the directory and `cgroup.procs` have different owners, or one that this user namespace does not map.
    Nobody,
    /// There is no such cgroup.
    Missing,
}

/// The user to whom the cgroup at `path` below the root of the hierarchy is delegated.
pub fn delegation(path: &str) -> Delegation {
    let cgroup = Hierarchy::detect().and_then(|hierarchy| hierarchy.open(path.trim_start_matches('/')));
    let Ok(owner) = cgroup.and_then(|cgroup| cgroup.owner()) else { return Delegation::Missing };
    owner.filter(|owner| Some(*owner) != users::unknown()).map_or(Delegation::Nobody, Delegation::To)
}
