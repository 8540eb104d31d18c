//! The daemon's sockets: handed over by the service manager, or bound here.
//!
//! A socket of the file system is bound under a temporary name, gets its owner and mode, and is then renamed. So at no
//! moment may others open it, and a dead daemon's socket is replaced in one step. A lock beside it distinguishes a
//! living daemon from a dead one; the kernel releases it when its holder ends, however it ends.

use crate::access::PeerProcess;
use crate::config::Metrics;
use rustix::fs::{FlockOperation, Gid, Mode, Uid, chmod, chown, flock};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use weft_host::store::part_of;

/// The mode of a socket: its owner and its group.
const MODE: u32 = 0o660;
/// The name of the control socket from the service manager (`FileDescriptorName=`, systemd.socket(5)).
const CONTROL_NAME: &str = "control";
/// The name of the metrics socket from the service manager.
const METRICS_NAME: &str = "metrics";

/// Errors of a socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another daemon listens.
    #[error("a daemon runs already at {}{}; stop it, or give another --socket", path.display(), process(*.pid))]
    Living {
        /// The path.
        path: PathBuf,
        /// Its process, if known.
        pid: Option<i32>,
    },
    /// Another file has the name.
    #[error("{} exists and is no socket; remove it, or give another --socket", .0.display())]
    NoSocket(PathBuf),
    /// The system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Failed {
        /// The action.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The address could not be bound.
    #[error("cannot serve metrics at {at}: {source}")]
    Metrics {
        /// The address.
        at: String,
        /// The system's error.
        source: io::Error,
    },
    /// A socket of the service manager cannot be used.
    #[error("the service manager's sockets: {0}")]
    HandedOver(String),
}

fn process(pid: Option<i32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (process {pid})"))
}

/// A listening socket of the file system. Its file is removed with it, unless the service manager owns it.
#[derive(Debug)]
pub struct Bound {
    listener: UnixListener,
    /// The path to remove and the lock, if the socket was bound here.
    ours: Option<(PathBuf, File)>,
}

impl Bound {
    /// Binds `path` for root and `group`.
    ///
    /// # Errors
    /// When a daemon listens there, or the system refuses.
    pub fn bind(path: &Path, group: Option<u32>) -> Result<Self, SocketError> {
        let failed =
            |action| move |source: io::Error| SocketError::Failed { action, path: path.to_owned(), source };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed("make the folder of"))?;
        }
        let lock = lock(path)?;
        if let Ok(there) = fs::symlink_metadata(path) {
            use std::os::unix::fs::FileTypeExt;
            if !there.file_type().is_socket() {
                return Err(SocketError::NoSocket(path.to_owned()));
            }
            // A process that does not use the lock, such as the service manager.
            if let Ok(living) = UnixStream::connect(path) {
                return Err(SocketError::Living { path: path.to_owned(), pid: listener_of(&living) });
            }
        }
        let temporary = beside(path, "new");
        let _ = fs::remove_file(&temporary);
        let listener = UnixListener::bind(&temporary).map_err(failed("bind"))?;
        // Without root's rights the socket is the daemon's user's.
        let _ = chown(&temporary, Some(Uid::ROOT), group.map(Gid::from_raw));
        chmod(&temporary, Mode::from_raw_mode(MODE)).map_err(|e| failed("set the mode of")(e.into()))?;
        fs::rename(&temporary, path).map_err(failed("rename"))?;
        listener.set_nonblocking(true).map_err(failed("set"))?;
        Ok(Self { listener, ours: Some((path.to_owned(), lock)) })
    }

    fn handed_over(fd: OwnedFd) -> Result<Self, SocketError> {
        let listener = UnixListener::from(fd);
        listener.set_nonblocking(true).map_err(|e| SocketError::HandedOver(e.to_string()))?;
        Ok(Self { listener, ours: None })
    }

    /// The socket.
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if let Some((path, _)) = &self.ours {
            let _ = fs::remove_file(path);
            let _ = fs::remove_file(beside(path, "lock"));
        }
    }
}

fn beside(path: &Path, extension: &str) -> PathBuf {
    PathBuf::from(format!("{}.{extension}", path.display()))
}

/// Locks the path for this process.
fn lock(path: &Path) -> Result<File, SocketError> {
    let name = beside(path, "lock");
    let failed = |source: io::Error| SocketError::Failed { action: "lock", path: name.clone(), source };
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
    loop {
        let file = options.open(&name).map_err(failed)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let pid = UnixStream::connect(path).ok().and_then(|living| listener_of(&living));
            return Err(SocketError::Living { path: path.to_owned(), pid });
        }
        // A daemon that ended meanwhile has removed the file that was locked.
        use std::os::unix::fs::MetadataExt;
        let held = file.metadata().map_err(failed)?.ino();
        if fs::metadata(&name).is_ok_and(|there| there.ino() == held) {
            return Ok(file);
        }
    }
}

/// The process that listens at the other end.
fn listener_of(stream: &UnixStream) -> Option<i32> {
    PeerProcess::of(stream).ok()?.pid.map(|pid| pid.as_raw_nonzero().get())
}

/// The number of a group, by its name or number, from group(5).
pub fn group_id(name: &str) -> Option<u32> {
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    let by_name = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    by_name.or_else(|| name.parse().ok())
}

/// The place where metrics are served.
#[derive(Debug)]
pub enum MetricsSocket {
    /// A socket of the file system.
    Unix(Bound),
    /// A loopback address.
    Tcp(TcpListener),
}

/// The sockets of a daemon.
#[derive(Debug)]
pub struct Sockets {
    /// The control socket.
    pub control: Bound,
    /// The metrics, if they are served.
    pub metrics: Option<MetricsSocket>,
    /// The descriptors that the service manager has kept for the data path, by name.
    pub kept: Vec<(String, OwnedFd)>,
}

impl Sockets {
    /// Takes the sockets that the service manager hands over, and binds the others.
    ///
    /// # Errors
    /// When a socket cannot be had.
    pub fn open(control: &Path, group: Option<u32>, metrics: &Metrics) -> Result<Self, SocketError> {
        let (mut control_fd, mut metrics_fd, mut kept) = (None, None, Vec::new());
        let handed = sd_listen_fds::get().map_err(|e| SocketError::HandedOver(e.to_string()))?;
        for (name, fd) in handed {
            let fd = fd.into_std();
            match name.as_deref() {
                Some(name) if part_of(name).is_some() => kept.push((name.to_owned(), fd)),
                Some(METRICS_NAME) => metrics_fd = Some(fd),
                Some(CONTROL_NAME) | None if control_fd.is_none() => control_fd = Some(fd),
                // A single socket may have the name of its unit.
                Some(_) if control_fd.is_none() => control_fd = Some(fd),
                _ => {
                    return Err(SocketError::HandedOver(format!(
                        "name them {CONTROL_NAME} and {METRICS_NAME}"
                    )));
                }
            }
        }
        let control = match control_fd {
            Some(fd) => Bound::handed_over(fd)?,
            None => Bound::bind(control, group)?,
        };
        let metrics = match (metrics_fd, metrics) {
            (Some(fd), _) => Some(MetricsSocket::Unix(Bound::handed_over(fd)?)),
            (None, Metrics::Off) => None,
            (None, Metrics::Unix(path)) => Some(MetricsSocket::Unix(Bound::bind(path, group)?)),
            (None, Metrics::Loopback(address)) => {
                let failed = |source| SocketError::Metrics { at: address.to_string(), source };
                let listener = TcpListener::bind(address).map_err(failed)?;
                listener.set_nonblocking(true).map_err(failed)?;
                Some(MetricsSocket::Tcp(listener))
            }
        };
        Ok(Self { control, metrics, kept })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_dead_socket_is_replaced_and_a_living_one_named() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("below/io.weft");
        fs::create_dir_all(path.parent().expect("a folder")).expect("folder");
        drop(UnixListener::bind(&path).expect("a socket whose owner is gone"));
        let bound = Bound::bind(&path, None).expect("replaces it");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, MODE);
        let error = Bound::bind(&path, None).unwrap_err().to_string();
        assert!(error.contains(&format!("(process {})", std::process::id())), "{error}");
        drop(bound);
        assert_eq!(fs::read_dir(folder.path().join("below")).expect("folder").count(), 0, "nothing is left");
        Bound::bind(&path, None).expect("free again");
    }

    #[test]
    fn others_files_stay() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("file");
        fs::write(&path, "precious").expect("write");
        let error = Bound::bind(&path, None).unwrap_err().to_string();
        assert!(error.contains("is no socket"), "{error}");
        assert_eq!(fs::read_to_string(&path).expect("still there"), "precious");
        let other = folder.path().join("other");
        let _living = UnixListener::bind(&other).expect("without our lock");
        assert!(matches!(Bound::bind(&other, None), Err(SocketError::Living { .. })));
    }

    #[test]
    fn groups_are_known_by_name_or_number() {
        assert_eq!(group_id("root"), Some(0));
        assert_eq!(group_id("4711"), Some(4711));
        assert_eq!(group_id("no such group"), None);
    }
}
