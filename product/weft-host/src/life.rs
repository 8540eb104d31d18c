//! Proof that a run is alive: a lock on its own file, which ends with the process and is valid in every PID namespace.
//!
//! A process number proves nothing if processes of other namespaces are hidden. The file is in [`FOLDER`], beside the named network
//! namespaces, and only its owner may open it: who may read a file may lock it (flock(2)), and would keep what a dead run has left.
//! A run without a file here may be alive in a container with another `/run`; its state is unknown, and its
//! objects are left alone.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::run_id::RunId;

/// The folder of the files.
pub const FOLDER: &str = "/run/weftline/runs";

/// The most files kept for dead runs. Objects of such a run in other network namespaces can be removed while its file exists.
const DEAD_KEPT: usize = 1024;

/// The state of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// Its lock is held.
    Alive,
    /// Its file exists, and no process holds the lock.
    Dead,
    /// It has no file here.
    Unknown,
}

impl RunId {
    /// The run of this process. From the first call on, this process holds the lock that proves that it is alive.
    pub fn current() -> RunId {
        static CURRENT: OnceLock<RunId> = OnceLock::new();
        static FORKED: Mutex<Option<RunId>> = Mutex::new(None);
        let pid = std::process::id();
        let cached = *CURRENT.get_or_init(|| RunId::begin(pid));
        if cached.pid == pid {
            return cached;
        }
        // After a fork, the child is another process.
        let mut forked = FORKED.lock().unwrap_or_else(PoisonError::into_inner);
        match *forked {
            Some(known) if known.pid == pid => known,
            _ => *forked.insert(RunId::begin(pid)),
        }
    }

    /// Takes the lock. If that fails, no process can prove this run dead, and its objects remain.
    fn begin(pid: u32) -> RunId {
        /// Runs in as many PID namespaces may have the same numbers.
        const TRIES: u64 = 64;
        let start_time = crate::run_id::own_start_time().unwrap_or(0);
        let ids = (0..TRIES).map(|later| RunId { pid, start_time: start_time + later });
        let free = |id: &RunId| hold(Path::new(FOLDER), *id).unwrap_or(true);
        ids.into_iter().find(free).unwrap_or(RunId { pid, start_time })
    }

    /// The state of the process according to its lock. Its number is ignored, since it means nothing in another PID namespace.
    pub fn life(&self) -> Life {
        life(Path::new(FOLDER), *self)
    }
}

/// The locks that this process holds.
static HELD: Mutex<Vec<(RunId, File)>> = Mutex::new(Vec::new());

impl RunId {
    /// A duplicate of this process's proof of life. The process that holds it keeps the objects of this run from being taken for
    /// left behind, also after this process. `None` if the proof could not be made.
    pub fn proof(&self) -> Option<OwnedFd> {
        let held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, file) = held.iter().find(|(id, _)| id == self)?;
        file.as_fd().try_clone_to_owned().ok()
    }
}

/// Takes the lock of a run for the rest of this process's life. Returns false if another process holds it.
///
/// # Errors
/// The folder or the file cannot be made. Then no process can prove the run dead, and its objects remain.
pub(crate) fn hold(folder: &Path, id: RunId) -> io::Result<bool> {
    fs::create_dir_all(folder)?;
    let path = path(folder, id);
    loop {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // The file may have been removed before it was locked; the lock would then be on a file without a name.
        let found = fs::metadata(&path).map(|found| found.ino()).ok();
        if found == Some(file.metadata()?.ino()) {
            HELD.lock().unwrap_or_else(PoisonError::into_inner).push((id, file));
            return Ok(true);
        }
    }
}

/// The state of a run.
pub(crate) fn life(folder: &Path, id: RunId) -> Life {
    // Opened read-only: it belongs to the other run.
    let Ok(file) = File::open(path(folder, id)) else { return Life::Unknown };
    match file.try_lock_shared() {
        Ok(()) => Life::Dead,
        Err(TryLockError::WouldBlock) => Life::Alive,
        Err(TryLockError::Error(_)) => Life::Unknown,
    }
}

/// Removes the oldest files of dead runs beyond the limit.
pub(crate) fn sweep(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut dead: Vec<_> = entries
        .filter_map(|entry| {
            let id = entry.file_name().into_string().ok()?.parse().ok()?;
            let since = entry.metadata().ok()?.modified().ok()?;
            (life(folder, id) == Life::Dead).then(|| (since, entry.path()))
        })
        .collect();
    dead.sort();
    let surplus = dead.len().saturating_sub(DEAD_KEPT);
    for (_, path) in dead.into_iter().take(surplus) {
        // A file that cannot be removed is kept.
        let _ = fs::remove_file(path);
    }
}

fn path(folder: &Path, id: RunId) -> PathBuf {
    folder.join(id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_proof_of_life() {
        let folder = std::env::temp_dir().join(format!("weft-life-{}", std::process::id()));
        let id = |pid| RunId { pid, start_time: 7 };
        assert_eq!(life(&folder, id(1)), Life::Unknown, "no folder");
        assert!(hold(&folder, id(1)).expect("made"));
        assert!(!hold(&folder, id(1)).expect("made"), "held already");
        assert_eq!((life(&folder, id(1)), life(&folder, id(2))), (Life::Alive, Life::Unknown));
        fs::write(path(&folder, id(2)), "").expect("a file that nobody locks");
        assert_eq!(life(&folder, id(2)), Life::Dead);
        assert_eq!(life(&folder, id(2)), Life::Dead, "looking locks nothing for long");
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn another_user_does_not_keep_a_dead_run_alive() {
        use std::os::unix::process::CommandExt;
        if !crate::testing::privileged("another_user_does_not_keep_a_dead_run_alive") {
            return;
        }
        let folder = std::env::temp_dir().join(format!("weft-life-user-{}", std::process::id()));
        let id = RunId { pid: 1, start_time: 7 };
        assert!(hold(&folder, id).expect("made"));
        HELD.lock().expect("held").retain(|(held, _)| *held != id);
        assert_eq!(life(&folder, id), Life::Dead);
        // It locks the file if it can open it, and says so by its exit code.
        let mut flock = std::process::Command::new("flock");
        flock.args(["--exclusive", "--nonblock"]).arg(path(&folder, id)).arg("true").uid(65_534);
        assert!(
            !flock.output().expect("flock of util-linux").status.success(),
            "another user locks the file"
        );
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn only_surplus_files_of_dead_runs_are_removed() {
        let folder = std::env::temp_dir().join(format!("weft-life-sweep-{}", std::process::id()));
        let id = |pid| RunId { pid, start_time: 7 };
        assert!(hold(&folder, id(1)).expect("made"));
        for pid in 2..DEAD_KEPT as u32 + 5 {
            fs::write(path(&folder, id(pid)), "").expect("a file");
        }
        fs::write(folder.join("another"), "").expect("somebody else's");
        sweep(&folder);
        assert_eq!(life(&folder, id(1)), Life::Alive);
        let left = fs::read_dir(&folder).expect("folder").count();
        assert_eq!(left, DEAD_KEPT + 2, "the dead that are kept, the live one and somebody else's");
        fs::remove_dir_all(&folder).expect("removed");
    }
}
