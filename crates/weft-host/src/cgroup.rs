//! Control groups, version 2.

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

/// How long a removal waits for processes that are already dying to be gone.
const REMOVE_PATIENCE: Duration = Duration::from_millis(500);

/// What can go wrong with a control group.
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
    /// There is such a cgroup already.
    #[error("cgroup {0} exists already")]
    Exists(PathBuf),
    /// There is no such cgroup.
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
    /// Finds where cgroup2 is mounted: `/sys/fs/cgroup` on most hosts, `/sys/fs/cgroup/unified` on hybrid ones. Where it is
    /// hidden, as `ip netns exec` does by a `/sys` of its own, it is mounted for this process alone.
    pub fn detect() -> Result<Hierarchy> {
        let mounts =
            fs::read_to_string("/proc/self/mounts").map_err(|e| OsError::new("read /proc/self/mounts", e))?;
        let mount = find_mount(&mounts).or_else(own_mount);
        mount.map(|mount| Hierarchy { mount }).ok_or(CgroupError::NotMounted)
    }

    /// Where the cgroup at `path` below the root is; `None` when there is none. The empty path is the root.
    pub fn place(&self, path: &str) -> Option<Place> {
        self.open(path).ok()?.place().ok()
    }

    /// The directory of the root cgroup.
    pub fn mount_point(&self) -> &Path {
        &self.mount
    }

    /// Makes the cgroup at `path` below the root, and those above it that are missing. What was made is removed when
    /// the value and all its [children](Cgroup::child) are dropped.
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

    /// The cgroup at `path`, which is there already and is not removed on drop. The empty path is the root.
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

/// The inode of the root of the whole hierarchy (`kernfs_create_root`, fs/kernfs/dir.c); the root of a cgroup namespace has
/// another.
const ROOT_INODE: u64 = 1;

/// A mount of cgroup2 that hangs nowhere and stays as long as this process; `None` without the right to it.
fn own_mount() -> Option<PathBuf> {
    static MOUNT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let mount = || {
        use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
        let context = fsopen("cgroup2", FsOpenFlags::FSOPEN_CLOEXEC).ok()?;
        fsconfig_create(&context).ok()?;
        let root = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty()).ok()?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", root.as_raw_fd()));
        fs::metadata(path.join("cgroup.procs")).ok()?;
        // For the rest of the process: paths below it are in use.
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
            // Nobody can be told here; what is left behind is found again by cleanup_stale.
            let _ = remove_dir(&self.path);
        }
    }
}

/// Removes a cgroup, waiting a little for processes that are dying.
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

/// How eBPF knows a cgroup: `bpf_skb_ancestor_cgroup_id(skb, level) == id`. A path that goes and comes again, as that of a
/// service that starts again, has another id then.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Place {
    /// The inode of its directory.
    pub id: u64,
    /// Its depth below the root of the hierarchy, which is level 0; `None` where that root cannot be seen, in a cgroup
    /// namespace.
    pub level: Option<u32>,
}

/// A control group. One that was made here is removed when the value and its children are dropped.
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

    /// The number by which eBPF knows it (`bpf_skb_cgroup_id`): the inode of its directory.
    pub fn id(&self) -> Result<u64> {
        fs::metadata(&self.node.path).map(|m| m.ino()).map_err(|e| failed("look at", &self.node.path, e))
    }

    /// Its depth: 0 for the root, as `bpf_skb_ancestor_cgroup_id` counts.
    pub fn level(&self) -> u32 {
        self.level
    }

    /// How eBPF knows it.
    pub fn place(&self) -> Result<Place> {
        let root = self.node.path.ancestors().nth(self.level as usize).unwrap_or(&self.node.path);
        let inode = |path: &Path| fs::metadata(path).map(|m| m.ino()).map_err(|e| failed("look at", path, e));
        let level = (inode(root)? == ROOT_INODE).then_some(self.level);
        Ok(Place { id: self.id()?, level })
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

    /// The processes in it, not counting those of its children.
    pub fn processes(&self) -> Result<Vec<Pid>> {
        processes_in(&self.node.path).map_err(|e| failed("read the processes of", &self.node.path, e))
    }

    /// `cgroup.procs` opened for writing: a process that writes "0" there joins.
    pub(crate) fn open_procs(&self) -> Result<OwnedFd> {
        let path = self.node.path.join("cgroup.procs");
        rustix::fs::open(&path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| failed("open the processes of", &self.node.path, e.into()))
    }
}

/// The processes of the cgroup with this directory.
pub(crate) fn processes_in(path: &Path) -> io::Result<Vec<Pid>> {
    let text = fs::read_to_string(path.join("cgroup.procs"))?;
    // A process of another PID namespace reads as 0 and cannot be named here.
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
