//! The cgroups of a policy on this host.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use weft_host::cgroup::{Place, Watch};
use weft_host::{Cgroup, Hierarchy};
use weft_nic::doorbell::CgroupEntry;
use weft_nic::nic::CgroupTable;
use weft_policy::CompiledPolicy;

/// How often all paths are looked up again, whatever the watch of their directories says.
const LOOK: Duration = Duration::from_millis(250);

/// A cgroup as the program at the egress compares it.
fn entry(place: Place) -> CgroupEntry {
    CgroupEntry { id: place.id, level: place.level.unwrap_or(CgroupEntry::ANY_LEVEL) }
}

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
        hierarchy.place(&below_root.to_string_lossy()).map(entry)
    };
    policy.cgroups.iter().map(find).collect()
}

/// The policy's cgroups, whose paths count from the root of the hierarchy, as they are now.
pub fn watch(policy: &CompiledPolicy) -> Watch {
    Watch::new(policy.cgroups.iter().map(String::as_str))
}

/// The entries of `watch`.
pub fn entries(watch: &Watch) -> Vec<Option<CgroupEntry>> {
    watch.places().iter().map(|place| place.map(entry)).collect()
}

/// Keeps the cgroups of a running NIC up to date, in a thread of its own, until it is dropped: a service that starts again has
/// another cgroup under the same path, and one that starts later has none yet.
#[derive(Debug)]
pub struct Follower {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Follower {
    /// Starts with what `watch` has found, which the NIC knows. A policy without cgroups needs no thread.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(mut watch: Watch, table: CgroupTable) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        if watch.places().is_empty() {
            return Ok(Self { stop, thread: None });
        }
        let stopped = Arc::clone(&stop);
        let run = move || {
            while !stopped.load(Ordering::Relaxed) {
                for index in watch.look() {
                    let place = watch.places().get(index).copied().flatten();
                    // It fails for an index that the policy does not have, and these are the policy's.
                    let _ = table.set(index, place.map(entry));
                }
                watch.wait(LOOK);
            }
        };
        let thread = std::thread::Builder::new().name("weft-cgroups".to_owned()).spawn(run)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
