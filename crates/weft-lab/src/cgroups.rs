//! The cgroups of a policy on this host.

use weft_host::{Cgroup, Hierarchy};
use weft_nic::doorbell::CgroupEntry;
use weft_policy::CompiledPolicy;

/// Finds the policy's cgroups: a path with a leading slash counts from the root of the hierarchy, one without from `base`.
/// `None` for one that does not exist; its rules then match nothing.
pub fn resolve(policy: &CompiledPolicy, hierarchy: &Hierarchy, base: &Cgroup) -> Vec<Option<CgroupEntry>> {
    let root = hierarchy.mount_point();
    let base = base.path().strip_prefix(root).unwrap_or(base.path()).to_path_buf();
    let find = |path: &String| {
        let below_root = match path.strip_prefix('/') {
            Some(absolute) => absolute.into(),
            None => base.join(path),
        };
        let cgroup = hierarchy.open(&below_root.to_string_lossy()).ok()?;
        Some(CgroupEntry { id: cgroup.id().ok()?, level: cgroup.level() })
    };
    policy.cgroups.iter().map(find).collect()
}
