//! The stores that keep the ports while no daemon runs: one for each uplink.
//!
//! A service manager has one list of descriptors for the daemon, whose names distinguish the uplinks. Keepers are a process
//! for each uplink, with a socket beside the control socket. The uplink of a configuration without names has the plain name.

use crate::config::{Config, Hold, UplinkConfig};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weft_host::store::{KeeperStore, Kept, ManagerStore, Room, Store, StoreError, part_of};

/// The room for the descriptors of a NIC without ports, which are stored before those of ports.
const OF_A_NIC: usize = 32;
/// The subcommand that is a keeper.
const KEEPER: &[&str] = &["keeper"];

/// A store, and what a former daemon has left in it.
pub type Opened = (Box<dyn Store>, Kept);

/// The service manager's part in holding.
#[derive(Debug, Default)]
pub struct Given {
    /// The manager's socket (`NOTIFY_SOCKET`).
    pub notify: Option<OsString>,
    /// The room for descriptors at the manager (`FDSTORE`, systemd 254 and later).
    room: Arc<Room>,
    /// Whether the manager has kept something, or says that it would.
    stores: bool,
    /// The parts that were opened.
    opened: BTreeSet<String>,
    /// The descriptors that it has handed over, by name.
    pub descriptors: Vec<(String, OwnedFd)>,
}

impl Given {
    /// The part that the environment and the handed over descriptors give.
    pub fn from_environment(descriptors: Vec<(String, OwnedFd)>) -> Self {
        let most: Option<usize> = std::env::var("FDSTORE").ok().and_then(|room| room.parse().ok());
        let stored = descriptors.iter().filter(|(name, _)| part_of(name).is_some()).count();
        let notify = std::env::var_os("NOTIFY_SOCKET");
        let stores = notify.is_some() && (most.is_some_and(|most| most > 0) || stored > 0);
        let room = Arc::new(Room::new(most, stored));
        Self { notify, room, stores, opened: BTreeSet::new(), descriptors }
    }

    /// Takes the descriptors of a part.
    fn take(&mut self, part: &str) -> Vec<(String, OwnedFd)> {
        let all = core::mem::take(&mut self.descriptors);
        let (ours, others) = all.into_iter().partition(|(name, _)| part_of(name) == Some(part));
        self.descriptors = others;
        ours
    }

    fn open(&mut self, part: &str) -> Result<Opened, StoreError> {
        let notify = self.notify.clone().ok_or(StoreError::NoRoom)?;
        let given = self.take(part);
        let (store, kept) = ManagerStore::open(&notify, &self.room, part, given)?;
        self.opened.insert(part.to_owned());
        Ok((Box::new(store), kept))
    }
}

/// The name of an uplink's part of the store.
fn part(uplink: &UplinkConfig) -> &str {
    uplink.name.as_deref().unwrap_or_default()
}

/// The socket of the keeper of a part: beside the control socket.
fn keeper_path(control: &Path, part: &str) -> PathBuf {
    let mut path = control.as_os_str().to_owned();
    path.push(".keeper");
    if !part.is_empty() {
        path.push(format!(".{part}"));
    }
    path.into()
}

/// Opens the configured store of an uplink. `None` without one; a keeper that an earlier configuration has left is opened all
/// the same, so that its ports can be removed.
///
/// # Errors
/// When the configured store cannot be had.
pub fn open(config: &Config, uplink: &UplinkConfig, given: &mut Given) -> Result<Option<Opened>, StoreError> {
    let part = part(uplink);
    let keeper = keeper_path(&config.socket, part);
    let by_manager = match config.hold {
        Hold::Systemd => true,
        Hold::Auto => given.stores,
        Hold::Keeper => false,
        Hold::Off if keeper.exists() => false,
        Hold::Off => return Ok(None),
    };
    if by_manager {
        let unopened =
            config.uplinks.iter().map(self::part).filter(|of| *of != part && !given.opened.contains(*of));
        given.room.reserve(unopened.count() * OF_A_NIC);
        return given.open(part).map(Some);
    }
    open_keeper(&keeper).map(Some)
}

fn open_keeper(path: &Path) -> Result<Opened, StoreError> {
    let (store, kept) = KeeperStore::open(path, KEEPER)?;
    Ok((Box::new(store), kept))
}

/// Opens the stores of uplinks that the configuration does not have any more.
pub fn open_left(config: &Config, given: &mut Given) -> Vec<Opened> {
    let known: BTreeSet<&str> = config.uplinks.iter().map(part).collect();
    let of_manager = given.descriptors.iter().filter_map(|(name, _)| part_of(name));
    let left: BTreeSet<String> = of_manager.filter(|part| !known.contains(part)).map(str::to_owned).collect();
    let by_manager: Vec<Opened> = left.iter().filter_map(|part| given.open(part).ok()).collect();
    let known: BTreeSet<PathBuf> = known.into_iter().map(|part| keeper_path(&config.socket, part)).collect();
    let keepers = keepers_beside(&config.socket).into_iter().filter(|path| !known.contains(path));
    by_manager.into_iter().chain(keepers.filter_map(|path| open_keeper(&path).ok())).collect()
}

/// The sockets of keepers beside the control socket.
fn keepers_beside(control: &Path) -> Vec<PathBuf> {
    let plain = keeper_path(control, "");
    let named = format!("{}.", plain.display());
    let entries = control.parent().and_then(|folder| std::fs::read_dir(folder).ok());
    let paths = entries.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| *path == plain || path.display().to_string().starts_with(&named)).collect()
}
