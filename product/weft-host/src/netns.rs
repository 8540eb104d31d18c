//! Network namespaces, by name or by descriptor, compatible with `ip netns`.
//!
//! A thread is in one network namespace, and a socket stays in the one where it was made. This process must remain in its own,
//! so all work elsewhere is done by scratch threads:
//!
//! 1. To make a namespace, a scratch thread calls unshare(2) and opens `/proc/thread-self/ns/net`. The descriptor keeps the
//!    namespace alive after the thread ends.
//! 2. A named namespace is also bind-mounted at `/run/netns/NAME`, exactly as `ip netns add` does, so that `ip netns exec` and other
//!    tools find it. The directory is first made a shared mount under iproute2's lock, so that mounts and unmounts
//!    reach existing mount namespaces.
//! 3. [`NetNs::run`] starts a scratch thread, enters the namespace with setns(2), runs the closure, and joins the thread. Sockets
//!    that the closure returns work from any thread.
//!
//! A [`NetNs`] owns one descriptor. Only the value that made a named namespace also owns its mount, and removes it on drop;
//! values from [`NetNs::named`], [`NetNs::open_path`] and [`NetNs::handle`] never do.
//!
//! These rules hold:
//!
//! - No thread of the caller ever changes its namespace, so no other code runs in the wrong one.
//! - The mount point is created exclusively: an existing namespace is an error and never reused. If a later step fails, the
//!   mount point is removed.
//! - A panic in a closure continues in the caller's thread.
//!
//! Rare branches: EINVAL from umount(2) means that nothing is mounted on the file, as after a killed run, and the file is still
//! removed. A removal that fails on drop is left to [`cleanup_stale`](crate::cleanup_stale), whose report names it.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::mount::{MountPropagationFlags, UnmountFlags};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use crate::error::OsError;

/// The directory in which named network namespaces are mounted.
pub const NETNS_DIR: &str = "/run/netns";

/// An error of an operation on a network namespace.
#[derive(Debug, thiserror::Error)]
pub enum NetNsError {
    /// The kernel refused a call.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The name is not a valid file name.
    #[error("network namespace name {0:?} must be 1 to 200 characters without '/' and not '.' or '..'")]
    BadName(String),
    /// A namespace of that name exists already.
    #[error("network namespace {0} exists already; choose another name, or remove it with: ip netns del {0}")]
    Exists(String),
    /// No namespace has that name.
    #[error("there is no network namespace {0} in {NETNS_DIR}; `ip netns list` shows those that exist")]
    NotFound(String),
}

/// The result of a namespace operation.
pub type Result<T> = std::result::Result<T, NetNsError>;

/// A network namespace, held open. One made by [`NetNs::create`] is removed when the value is dropped.
#[derive(Debug)]
pub struct NetNs {
    label: String,
    fd: OwnedFd,
    mount: Option<PathBuf>,
}

impl NetNs {
    /// A new namespace, mounted at `/run/netns/NAME`, with all its links down.
    pub(crate) fn named_and_down(name: &str) -> Result<NetNs> {
        check_name(name)?;
        let failed = |step: &str, e: io::Error| {
            OsError::new(format!("create network namespace {name}: {step}"), e).needs("CAP_SYS_ADMIN")
        };
        prepare_netns_dir().map_err(|e| failed("prepare /run/netns", e))?;
        let path = Path::new(NETNS_DIR).join(name);
        let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(_) => {}
            Err(rustix::io::Errno::EXIST) => return Err(NetNsError::Exists(name.to_string())),
            Err(e) => return Err(failed("make its mount point", e.into()).into()),
        }
        match unshared(|fd| {
            rustix::mount::mount_bind("/proc/thread-self/ns/net", &path)?;
            Ok(fd)
        }) {
            Ok(fd) => Ok(NetNs { label: name.to_string(), fd, mount: Some(path) }),
            Err(e) => {
                let _ = rustix::fs::unlink(&path);
                Err(failed("unshare and mount", e).into())
            }
        }
    }

    /// A new namespace without a name, with all its links down.
    pub(crate) fn unnamed_and_down() -> Result<NetNs> {
        let fd =
            unshared(Ok).map_err(|e| OsError::new("create a network namespace", e).needs("CAP_SYS_ADMIN"))?;
        Ok(NetNs { label: "(unnamed)".to_string(), fd, mount: None })
    }

    /// The namespace of the calling thread.
    pub fn current() -> Result<NetNs> {
        let mut ns = NetNs::open_path(Path::new("/proc/thread-self/ns/net"))?;
        ns.label = "(current)".to_string();
        Ok(ns)
    }

    /// The namespace of a descriptor that another process has handed over, which errors call `label`.
    pub fn received(fd: OwnedFd, label: &str) -> NetNs {
        NetNs { label: label.to_owned(), fd, mount: None }
    }

    /// The namespace of a file such as `/proc/PID/ns/net`.
    pub fn open_path(path: &Path) -> Result<NetNs> {
        let fd = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| OsError::new(format!("open network namespace {}", path.display()), e))?;
        Ok(NetNs { label: path.display().to_string(), fd, mount: None })
    }

    /// The namespace that `ip netns list` shows as `name`, or that of the file at an absolute path, as container runtimes
    /// name theirs. It is not removed on drop.
    pub fn named(name: &str) -> Result<NetNs> {
        if name.starts_with('/') {
            return NetNs::open_path(Path::new(name));
        }
        check_name(name)?;
        let path = Path::new(NETNS_DIR).join(name);
        if !path.exists() {
            return Err(NetNsError::NotFound(name.to_string()));
        }
        let mut ns = NetNs::open_path(&path)?;
        ns.label = name.to_string();
        Ok(ns)
    }

    /// A second handle of the same namespace, which does not remove it when dropped.
    pub fn handle(&self) -> Result<NetNs> {
        let fd = rustix::io::fcntl_dupfd_cloexec(&self.fd, 0)
            .map_err(|e| OsError::new(format!("duplicate network namespace {}", self.label), e))?;
        Ok(NetNs { label: self.label.clone(), fd, mount: None })
    }

    /// The name; for a namespace without one, a description in parentheses.
    pub fn name(&self) -> &str {
        &self.label
    }

    /// The open namespace file.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The inode number, which identifies the namespace in `/proc/PID/ns/net`.
    pub fn inode(&self) -> Result<u64> {
        let stat = rustix::fs::fstat(&self.fd)
            .map_err(|e| OsError::new(format!("look at network namespace {}", self.label), e))?;
        Ok(stat.st_ino)
    }

    /// Runs `f` inside the namespace on a scratch thread. The calling thread does not change its namespace. Sockets that `f` returns
    /// remain in the namespace.
    pub fn run<R: Send>(&self, f: impl FnOnce() -> R + Send) -> Result<R> {
        let enter = || {
            rustix::thread::move_into_link_name_space(self.fd.as_fd(), Some(LinkNameSpaceType::Network))
                .map(|()| f())
                .map_err(io::Error::from)
        };
        on_scratch_thread(enter).map_err(|e| {
            OsError::new(format!("enter network namespace {}", self.label), e).needs("CAP_SYS_ADMIN").into()
        })
    }
}

impl fmt::Display for NetNs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}

impl Drop for NetNs {
    fn drop(&mut self) {
        if let Some(path) = self.mount.take() {
            // A drop cannot report an error. cleanup_stale removes the mount later.
            let _ = remove_mount(&path);
        }
    }
}

/// Unmounts and unlinks a namespace file in [`NETNS_DIR`].
pub(crate) fn remove_mount(path: &Path) -> io::Result<()> {
    match rustix::mount::unmount(path, UnmountFlags::DETACH) {
        // EINVAL: the file exists, but nothing is mounted on it.
        Ok(()) | Err(rustix::io::Errno::INVAL) => {}
        Err(e) => return Err(e.into()),
    }
    Ok(rustix::fs::unlink(path)?)
}

fn check_name(name: &str) -> Result<()> {
    let bad = name.is_empty() || name.len() > 200 || name == "." || name == "..";
    if bad || name.contains(['/', '\0']) { Err(NetNsError::BadName(name.to_string())) } else { Ok(()) }
}

/// Makes `/run/netns` a shared mount, as `ip netns add` does. Mounts and unmounts of namespaces then reach mount
/// namespaces that already exist. The lock is that of iproute2.
fn prepare_netns_dir() -> io::Result<()> {
    match rustix::fs::mkdir(NETNS_DIR, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(e) => return Err(e.into()),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let lock = rustix::fs::open(NETNS_DIR, flags, Mode::empty())?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
    let share = MountPropagationFlags::SHARED | MountPropagationFlags::REC;
    match rustix::mount::mount_change(NETNS_DIR, share) {
        Ok(()) => Ok(()),
        // EINVAL: not yet a mount point.
        Err(rustix::io::Errno::INVAL) => {
            rustix::mount::mount_bind_recursive(NETNS_DIR, NETNS_DIR)?;
            Ok(rustix::mount::mount_change(NETNS_DIR, share)?)
        }
        Err(e) => Err(e.into()),
    }
}

/// Runs `f` with the descriptor of a new network namespace, on a scratch thread in that namespace.
fn unshared(f: impl FnOnce(OwnedFd) -> io::Result<OwnedFd> + Send) -> io::Result<OwnedFd> {
    on_scratch_thread(|| {
        unshare_thread(UnshareFlags::NEWNET)?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        f(rustix::fs::open("/proc/thread-self/ns/net", flags, Mode::empty())?)
    })
}

fn unshare_thread(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: only CLONE_NEWNET is passed (never CLONE_FILES, the flag that makes this call unsafe: the descriptor
    // table stays shared with the other threads).
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

fn on_scratch_thread<R: Send>(f: impl FnOnce() -> io::Result<R> + Send) -> io::Result<R> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("weft-netns".into()).spawn_scoped(scope, f)?;
        match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
