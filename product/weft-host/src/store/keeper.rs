//! The store of a keeper, a weftline process that is started with its first user.

use super::{Store, StoreError};
use crate::keeper::{Keeper, KeeperError, Kept};
use std::collections::BTreeSet;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The store of the keeper at a socket.
#[derive(Debug)]
pub struct KeeperStore {
    keeper: Keeper,
    path: PathBuf,
    names: BTreeSet<String>,
    /// The keeper's process, if this process started it.
    child: Option<Child>,
}

impl KeeperStore {
    /// Connects to the keeper at `path`, and returns what it keeps. Where none answers, starts one: this program with
    /// `arguments`, whose standard input is the listening socket. The caller holds a lock, so no other does the same.
    ///
    /// # Errors
    /// When it cannot be started, or is of another version.
    pub fn open(path: &Path, arguments: &[&str]) -> Result<(Self, Kept), StoreError> {
        let (keeper, child) = match Keeper::connect(path) {
            Ok(keeper) => (keeper, None),
            Err(KeeperError::Absent { .. }) => {
                let child = start(path, arguments).map_err(StoreError::Start)?;
                (Keeper::connect(path)?, Some(child))
            }
            Err(other) => return Err(other.into()),
        };
        let kept = keeper.give()?;
        let names = kept.descriptors.keys().cloned().collect();
        Ok((Self { keeper, path: path.to_owned(), names, child }, kept))
    }
}

/// Starts a keeper that listens at `path`.
fn start(path: &Path, arguments: &[&str]) -> std::io::Result<Child> {
    // The keeper has another working directory, and looks for the file from there.
    let path = std::path::absolute(path)?;
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path)?;
    // The running program, also if its file was replaced since.
    let mut command = Command::new("/proc/self/exe");
    command.args(arguments).current_dir("/");
    command.stdin(OwnedFd::from(listener)).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn()
}

impl Store for KeeperStore {
    fn keep(&mut self, name: &str, descriptor: BorrowedFd<'_>) -> Result<(), StoreError> {
        self.keeper.keep(name, descriptor)?;
        self.names.insert(name.to_owned());
        Ok(())
    }

    fn forget(&mut self, name: &str) -> Result<(), StoreError> {
        self.names.remove(name);
        Ok(self.keeper.forget(name)?)
    }

    fn set_state(&mut self, state: &[u8]) -> Result<(), StoreError> {
        Ok(self.keeper.set_state(state)?)
    }

    fn clear(&mut self) -> Result<(), StoreError> {
        // First, so that no state names a descriptor that is gone.
        self.keeper.set_state(&[])?;
        for name in core::mem::take(&mut self.names) {
            self.keeper.forget(&name)?;
        }
        Ok(())
    }

    fn end(self: Box<Self>) -> Result<(), StoreError> {
        self.keeper.quit()?;
        let _ = std::fs::remove_file(&self.path);
        if let Some(mut child) = self.child {
            let _ = child.wait();
        }
        Ok(())
    }
}
