//! Control groups, version 2: the classes of a policy as the kernel sees them.
//!
//! The eBPF program compares a socket's cgroup with the [`Place`] of a class, an inode number at a level of the hierarchy.
//! This module finds and creates these cgroups. Its steps:
//!
//! 1. [`Hierarchy::detect`] finds the mount of cgroup2, or mounts it detached for this process. Hosts with cgroup
//!    version 1 mount it elsewhere, and `ip netns exec` hides it behind a new `/sys`.
//! 2. [`Hierarchy::create`] makes a cgroup and its missing parents; [`Hierarchy::open`] opens an existing one.
//! 3. A process joins by writing to `cgroup.procs`: before exec for programs started here (`crate::process`), or later with
//!    [`Cgroup::add_process`].
//! 4. [`Watch`] follows cgroups of services, whose paths vanish and return with new inode numbers.
//!
//! A `Node` owns one directory, and a child holds its parent, so the last value dropped removes the directories from the
//! bottom up. A directory that was found and not made has no owner here and is never removed.
//!
//! These rules hold:
//!
//! - A path stays within the hierarchy: it is relative, and has no empty part, `.` or `..`.
//! - The level of a place counts from the root of the whole hierarchy. A cgroup namespace hides that root, so the level is
//!   then unknown (`None`) and never guessed: eBPF would compare another ancestor.
//! - The kernel removes a cgroup only when it is empty, and a killed process leaves it with a delay. Removal retries for
//!   `REMOVE_PATIENCE`.
//!
//! Rare branches: a removal that fails on drop is left to [`cleanup_stale`](crate::cleanup_stale), whose report names it, since
//! a drop cannot return an error. Processes of other PID namespaces read as 0 and are skipped, since no call
//! could name them.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;

use crate::error::OsError;

mod watch;

pub use watch::Watch;

/// The time that a removal waits for dying processes to leave the cgroup.
const REMOVE_PATIENCE: Duration = Duration::from_millis(500);

/// An error of an operation on a control group.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// The kernel refused a call.
    #[error(transparent)]
    Os(#[from] OsError),
    /// No cgroup2 file system is mounted.
    #[error("no cgroup2 file system is mounted; mount one with: mount -t cgroup2 none /sys/fs/cgroup")]
    NotMounted,
    /// The path would leave the hierarchy or is empty.
    #[error("cgroup path {0:?} must be relative to the root of the hierarchy and without '.' or '..'")]
    BadPath(String),
    /// A cgroup of this path exists already.
    #[error("cgroup {0} exists already")]
    Exists(PathBuf),
    /// No cgroup has this path.
    #[error("there is no cgroup {0}")]
    NotFound(PathBuf),
}

/// The result of a cgroup operation.
pub type Result<T> = std::result::Result<T, CgroupError>;

/// The cgroup2 hierarchy of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    mount: PathBuf,
}

impl Hierarchy {
    /// Finds the mount point of cgroup2: `/sys/fs/cgroup` on most hosts, `/sys/fs/cgroup/unified` on hybrid ones. If it is hidden, as
    /// by the new `/sys` of `ip netns exec`, mounts it for this process alone.
    pub fn detect() -> Result<Hierarchy> {
        let mounts =
            fs::read_to_string("/proc/self/mounts").map_err(|e| OsError::new("read /proc/self/mounts", e))?;
        let mount = find_mount(&mounts).or_else(own_mount);
        mount.map(|mount| Hierarchy { mount }).ok_or(CgroupError::NotMounted)
    }

    /// The place of the cgroup at `path` below the root; `None` if it does not exist. The empty path is the root.
    pub fn place(&self, path: &str) -> Option<Place> {
        self.open(path).ok()?.place().ok()
    }

    /// The directory of the root cgroup.
    pub fn mount_point(&self) -> &Path {
        &self.mount
    }

    /// Makes the cgroup at `path` below the root, and its missing parents. They are removed when the value and all its
    /// [children](Cgroup::child) are dropped.
    pub fn create(&self, path: &str) -> Result<Cgroup> {
        let parts = split(path)?;
        let mut at = self.mount.clone();
        let mut parent = None;
        for (depth, part) in parts.iter().enumerate() {
            at.push(part);
            let last = depth + 1 == parts.len();
            if !last && at.is_dir() {
                continue;
            }
            parent = Some(Arc::new(Node::make(at.clone(), parent)?));
        }
        match parent {
            Some(node) => Ok(Cgroup { node, level: parts.len() as u32 }),
            None => Err(CgroupError::BadPath(path.to_string())),
        }
    }

    /// The existing cgroup at `path`, which is not removed on drop. The empty path is the root.
    pub fn open(&self, path: &str) -> Result<Cgroup> {
        let parts = if path.is_empty() { Vec::new() } else { split(path)? };
        let at = parts.iter().fold(self.mount.clone(), |at, part| at.join(part));
        if !at.is_dir() {
            return Err(CgroupError::NotFound(at));
        }
        let node = Arc::new(Node { path: at, owned: false, _parent: None });
        Ok(Cgroup { node, level: parts.len() as u32 })
    }
}

/// The inode of the root of the whole hierarchy (`kernfs_create_root`, fs/kernfs/dir.c). The root of a cgroup namespace has
/// another one.
const ROOT_INODE: u64 = 1;

/// A detached mount of cgroup2, which lasts as long as this process; `None` without the right to mount it.
fn own_mount() -> Option<PathBuf> {
    static MOUNT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let mount = || {
        use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
        let context = fsopen("cgroup2", FsOpenFlags::FSOPEN_CLOEXEC).ok()?;
        fsconfig_create(&context).ok()?;
        let root = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty()).ok()?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", root.as_raw_fd()));
        fs::metadata(path.join("cgroup.procs")).ok()?;
        // Kept open for the rest of the process: paths below it are in use.
        let _ = root.into_raw_fd();
        Some(path)
    };
    MOUNT.get_or_init(mount).clone()
}

/// The mount point of the first cgroup2 line. `/proc/mounts` writes white space as octal escapes.
fn find_mount(mounts: &str) -> Option<PathBuf> {
    let target = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let target = fields.nth(1)?;
        (fields.next()? == "cgroup2").then_some(target)
    })?;
    Some(PathBuf::from(target.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")))
}

fn split(path: &str) -> Result<Vec<&str>> {
    let parts: Vec<&str> = path.split('/').collect();
    let bad = |part: &&str| part.is_empty() || *part == "." || *part == ".." || part.contains('\0');
    if parts.iter().any(bad) { Err(CgroupError::BadPath(path.to_string())) } else { Ok(parts) }
}

/// A directory of the hierarchy. Children hold their parent, so it is removed after them.
#[derive(Debug)]
struct Node {
    path: PathBuf,
    owned: bool,
    _parent: Option<Arc<Node>>,
}

impl Node {
    fn make(path: PathBuf, parent: Option<Arc<Node>>) -> Result<Node> {
        match fs::create_dir(&path) {
            Ok(()) => Ok(Node { path, owned: true, _parent: parent }),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(CgroupError::Exists(path)),
            Err(e) => Err(failed("create", &path, e)),
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.owned {
            // A drop cannot report an error. cleanup_stale removes the directory later.
            let _ = remove_dir(&self.path);
        }
    }
}

/// Removes a cgroup, and waits a short time for dying processes to leave it.
pub(crate) fn remove_dir(path: &Path) -> io::Result<()> {
    let deadline = Instant::now() + REMOVE_PATIENCE;
    loop {
        match fs::remove_dir(path) {
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => return other,
        }
    }
}

fn failed(deed: &str, path: &Path, error: io::Error) -> CgroupError {
    let error = OsError::new(format!("{deed} cgroup {}", path.display()), error);
    error.needs("or as the owner of the cgroup above it").into()
}

/// The identity of a cgroup in eBPF: `bpf_skb_ancestor_cgroup_id(skb, level) == id`. A path that is removed and made again, as
/// when a service restarts, has another id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Place {
    /// The inode of its directory.
    pub id: u64,
    /// Its depth below the root of the hierarchy, which is level 0; `None` in a cgroup namespace, where that root is
    /// hidden.
    pub level: Option<u32>,
}

/// A control group. One that was made through this value is removed when the value and its children are dropped.
#[derive(Clone, Debug)]
pub struct Cgroup {
    node: Arc<Node>,
    level: u32,
}

impl Cgroup {
    /// Makes a cgroup directly below this one.
    pub fn child(&self, name: &str) -> Result<Cgroup> {
        match split(name)?.as_slice() {
            [name] => {
                let node = Node::make(self.node.path.join(name), Some(self.node.clone()))?;
                Ok(Cgroup { node: Arc::new(node), level: self.level + 1 })
            }
            _ => Err(CgroupError::BadPath(name.to_string())),
        }
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.node.path
    }

    /// Its id in eBPF (`bpf_skb_cgroup_id`): the inode of its directory.
    pub fn id(&self) -> Result<u64> {
        fs::metadata(&self.node.path).map(|m| m.ino()).map_err(|e| failed("look at", &self.node.path, e))
    }

    /// Its depth as `bpf_skb_ancestor_cgroup_id` counts it: 0 for the root.
    pub fn level(&self) -> u32 {
        self.level
    }

    /// Its identity in eBPF.
    pub fn place(&self) -> Result<Place> {
        let root = self.node.path.ancestors().nth(self.level as usize).unwrap_or(&self.node.path);
        let inode = |path: &Path| fs::metadata(path).map(|m| m.ino()).map_err(|e| failed("look at", path, e));
        let level = (inode(root)? == ROOT_INODE).then_some(self.level);
        Ok(Place { id: self.id()?, level })
    }

    /// The user to whom it is delegated: the owner of its directory and of its `cgroup.procs`, as systemd sets them with
    /// `Delegate=` and `User=` (systemd.resource-control(5)). `None` if the two have different owners.
    pub fn owner(&self) -> Result<Option<u32>> {
        let owner = |path: &Path| fs::metadata(path).map(|m| m.uid()).map_err(|e| failed("look at", path, e));
        let (of_directory, of_procs) =
            (owner(&self.node.path)?, owner(&self.node.path.join("cgroup.procs"))?);
        Ok((of_directory == of_procs).then_some(of_directory))
    }

    /// Moves a process into it.
    pub fn add_process(&self, pid: Pid) -> Result<()> {
        let deed = format!("move process {pid} into", pid = pid.as_raw_nonzero());
        let mut file = fs::OpenOptions::new()
            .write(true)
            .open(self.node.path.join("cgroup.procs"))
            .map_err(|e| failed(&deed, &self.node.path, e))?;
        let text = pid.as_raw_nonzero().to_string();
        file.write_all(text.as_bytes()).map_err(|e| failed(&deed, &self.node.path, e))
    }

    /// The processes in it, without those of its children.
    pub fn processes(&self) -> Result<Vec<Pid>> {
        processes_in(&self.node.path).map_err(|e| failed("read the processes of", &self.node.path, e))
    }

    /// `cgroup.procs` opened for writing. A process that writes "0" to it joins the cgroup.
    pub(crate) fn open_procs(&self) -> Result<OwnedFd> {
        let path = self.node.path.join("cgroup.procs");
        rustix::fs::open(&path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| failed("open the processes of", &self.node.path, e.into()))
    }
}

/// The processes in the cgroup of this directory.
pub(crate) fn processes_in(path: &Path) -> io::Result<Vec<Pid>> {
    let text = fs::read_to_string(path.join("cgroup.procs"))?;
    // A process of another PID namespace reads as 0 and has no number here.
    Ok(text.lines().filter_map(|line| line.parse().ok().and_then(Pid::from_raw)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn the_mount_is_found_on_hybrid_and_on_unified_hosts() {
        let hybrid = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(find_mount(hybrid), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        let unified = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n";
        assert_eq!(find_mount(unified), Some(PathBuf::from("/sys/fs/cgroup")));
        assert_eq!(find_mount("none /a\\040b cgroup2 rw 0 0"), Some(PathBuf::from("/a b")));
        assert_eq!(find_mount("cgroup /cgroup2 cgroup rw 0 0\n"), None);
    }

    #[test]
    fn paths_that_leave_the_hierarchy_are_refused() {
        for path in ["", "/a", "a//b", "../a", "a/.", "a/"] {
            assert!(matches!(split(path), Err(CgroupError::BadPath(_))), "{path:?}");
        }
    }

    #[test]
    fn only_what_was_made_is_removed() {
        if !testing::privileged("only_what_was_made_is_removed") {
            return;
        }
        let hierarchy = Hierarchy::detect().expect("cgroup2");
        let name = testing::unique("cg");
        let outer = hierarchy.create(&name).expect("outer");
        let inner = hierarchy.create(&format!("{name}/a/b")).expect("inner");
        assert_eq!((outer.level(), inner.level()), (1, 3));
        assert_ne!(outer.id().expect("id"), inner.id().expect("id"));
        assert_eq!(outer.owner().expect("an owner"), Some(0));
        let give = |path: &Path| std::os::unix::fs::chown(path, Some(4711), None).expect("chown");
        give(outer.path());
        assert_eq!(outer.owner().expect("owners"), None, "the directory alone is not enough");
        give(&outer.path().join("cgroup.procs"));
        assert_eq!(outer.owner().expect("an owner"), Some(4711));
        assert!(matches!(hierarchy.create(&name), Err(CgroupError::Exists(_))));
        let opened = hierarchy.open(&name).expect("open");
        let above = inner.path().parent().expect("parent").to_path_buf();
        drop(inner);
        assert!(!above.exists(), "the missing parent was made, so it is removed");
        drop(opened);
        assert!(outer.path().exists(), "an opened cgroup is not ours to remove");
        let child = outer.child("c").expect("child");
        let (outer_path, child_path) = (outer.path().to_path_buf(), child.path().to_path_buf());
        drop(outer);
        assert!(child_path.exists() && outer_path.exists(), "the child holds its parent");
        drop(child);
        assert!(!outer_path.exists());
    }
}
