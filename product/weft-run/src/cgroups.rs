//! The cgroups of a policy on this host, resolved and kept up to date.
//!
//! The egress program compares cgroups by inode number and level, and a policy names them by path. A restarted service
//! has a new cgroup under the same path, so the table must follow.
//!
//! Steps of the [`Follower`], in its own thread:
//! 1. Wait for an event in a watched directory, for at most `LOOK`. The timeout covers events that the watch misses.
//! 2. Resolve all paths again, and take those whose cgroup was created, removed or replaced.
//! 3. Write each change into the program's table. The program then classifies every flow again with its next packet.
//! 4. Rest for `REST`, whatever happens. Users to whom a cgroup is delegated make and remove directories as often as they
//!    like; this bounds the looks, and the changes of the table, that they cause.
//!
//! Ownership: the thread owns the watch, and the table belongs to the NIC's programs. The thread ends when the follower
//! is dropped. A path without a cgroup has an empty entry, which matches nothing. The only failing branch is a write to
//! an unknown index. It cannot occur, since the indices are the policy's, so it has no counter.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use weft_host::cgroup::{Place, Watch};
use weft_host::{Cgroup, Hierarchy};
use weft_nic::doorbell::CgroupEntry;
use weft_nic::nic::CgroupTable;
use weft_policy::CompiledPolicy;

/// The interval after which all paths are resolved again, whatever the watch reports.
const LOOK: Duration = Duration::from_millis(250);

/// The least time between two looks: at most 100 a second. A look resolves at most 64 paths, each a few system calls, in about
/// a tenth of a millisecond, so a storm of events costs some percent of a processor. A cgroup that is made between two looks
/// has its class so much later.
pub const REST: Duration = Duration::from_millis(10);

/// Converts a cgroup to the form that the egress program compares.
fn entry(place: Place) -> CgroupEntry {
    CgroupEntry { id: place.id, level: place.level.unwrap_or(CgroupEntry::ANY_LEVEL) }
}

/// Resolves the policy's cgroups. A path with a leading slash is relative to the root of the hierarchy, others to
/// `base`. `None` for a cgroup that does not exist; its rules then match nothing.
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

/// Resolves the policy's cgroups, with paths relative to the root of the hierarchy, and watches them.
pub fn watch(policy: &CompiledPolicy) -> Watch {
    Watch::new(policy.cgroups.iter().map(String::as_str))
}

/// The table entries of `watch`.
pub fn entries(watch: &Watch) -> Vec<Option<CgroupEntry>> {
    watch.places().iter().map(|place| place.map(entry)).collect()
}

/// The thread that keeps the cgroups of a running NIC up to date, until it is dropped.
#[derive(Debug)]
pub struct Follower {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// The state that the thread shares with its owner.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    looks: AtomicU64,
}

impl Follower {
    /// Starts from the entries of `watch`, which the NIC has already. A policy without cgroups needs no thread.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(mut watch: Watch, table: CgroupTable) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        if watch.places().is_empty() {
            return Ok(Self { shared, thread: None });
        }
        let own = Arc::clone(&shared);
        let run = move || {
            while !own.stop.load(Ordering::Relaxed) {
                own.looks.fetch_add(1, Ordering::Relaxed);
                for index in watch.look() {
                    let place = watch.places().get(index).copied().flatten();
                    // It fails only for an index that the policy does not have, and these are the policy's.
                    let _ = table.set(index, place.map(entry));
                }
                std::thread::sleep(REST);
                watch.wait(LOOK);
            }
        };
        let thread = std::thread::Builder::new().name("weft-cgroups".to_owned()).spawn(run)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// The number of times that the thread has resolved all paths.
    pub fn looks(&self) -> u64 {
        self.shared.looks.load(Ordering::Relaxed)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
