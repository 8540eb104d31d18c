//! The store that keeps the ports while no daemon runs.

use crate::config::{Config, Hold};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use weft_host::store::{KeeperStore, Kept, ManagerStore, Store, StoreError};

/// The subcommand that is a keeper.
const KEEPER: &[&str] = &["keeper"];

/// A store, and what a former daemon has left in it.
pub type Opened = (Box<dyn Store>, Kept);

/// The service manager's part in holding.
#[derive(Debug, Default)]
pub struct Given {
    /// The manager's socket (`NOTIFY_SOCKET`).
    pub notify: Option<OsString>,
    /// The number of descriptors that the manager stores (`FDSTORE`, systemd 254 and later).
    pub room: Option<usize>,
    /// The descriptors that it has handed over, by name.
    pub descriptors: Vec<(String, OwnedFd)>,
}

impl Given {
    /// The part that the environment and the handed over descriptors tell.
    pub fn from_environment(descriptors: Vec<(String, OwnedFd)>) -> Self {
        let room = std::env::var("FDSTORE").ok().and_then(|room| room.parse().ok());
        // A manager that has kept something has room.
        let kept = (!descriptors.is_empty()).then_some(descriptors.len());
        Self { notify: std::env::var_os("NOTIFY_SOCKET"), room: room.or(kept), descriptors }
    }
}

/// The socket of the keeper: beside the control socket.
fn keeper_path(control: &Path) -> PathBuf {
    let mut path = control.as_os_str().to_owned();
    path.push(".keeper");
    path.into()
}

/// Opens the configured store. `None` without one; a keeper that an earlier configuration has left is opened all the same,
/// so that its ports can be removed.
///
/// # Errors
/// When the configured store cannot be had.
pub fn open(config: &Config, given: Given) -> Result<Option<Opened>, StoreError> {
    let keeper = keeper_path(&config.socket);
    let by_manager = match config.hold {
        Hold::Systemd => true,
        Hold::Auto => given.notify.is_some() && given.room.is_some_and(|room| room > 0),
        Hold::Keeper => false,
        Hold::Off if keeper.exists() => false,
        Hold::Off => return Ok(None),
    };
    if by_manager {
        let notify = given.notify.ok_or(StoreError::NoRoom)?;
        let (store, kept) = ManagerStore::open(&notify, given.room, given.descriptors)?;
        return Ok(Some((Box::new(store), kept)));
    }
    let (store, kept) = KeeperStore::open(&keeper, KEEPER)?;
    Ok(Some((Box::new(store), kept)))
}
