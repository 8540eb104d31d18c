//! Levels at a device of the host: its settings are written to a journal before the first change, and restored from it.
//!
//! The journal is a file in [`FOLDER`], named by the namespace's inode and the device's number, so it outlives a process that is
//! killed. A guard, a process that waits beside this one, restores at once ([`restore_after`]); where that was killed too, [`restore`] of
//! a later one finishes the work. A setting that is neither as it was nor as a level has set it was changed by
//! another process and stays.
//!
//! The order keeps the promise at every point at which the process may end: the guard is started, and a level added to the journal, before
//! it is set, and the file is removed after all settings were read back as they were.

use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use weft_host::life::Life;
use weft_host::link::{self, LinkError};
use weft_host::netns::NetNsError;
use weft_host::process::guard::Guard;
use weft_host::{NetNs, OsError, RunId, clock};
use weft_units::Nanos;

use crate::level::{DeviceChange, DeviceSettings, Level, LevelError};

/// The folder of the journals.
pub const FOLDER: &str = "/run/weftline/profile";

/// The time allowed for a link to come up again.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time between two looks of a guard at a process that is ending.
const LOOK: Duration = Duration::from_millis(20);
/// The version of the file.
const VERSION: u32 = 1;
/// The longest file, in bytes: each level is in it once.
const LONGEST: u64 = 1 << 16;

/// An error of a journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A file could not be written, read or removed.
    #[error(transparent)]
    File(#[from] OsError),
    /// A setting could not be read or set.
    #[error(transparent)]
    Level(#[from] LevelError),
    /// A link could not be queried.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The namespace could not be queried.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// Another run has changed the device.
    #[error(
        "device {device} is in use by another run of `weft profile`, process {process}; wait for it, or end it"
    )]
    InUse {
        /// The device.
        device: String,
        /// The process.
        process: u32,
    },
    /// The file is no journal.
    #[error(
        "{path} is no journal of this version ({reason}); restore the device by hand and remove the file"
    )]
    Foreign {
        /// The file.
        path: String,
        /// The reason.
        reason: String,
    },
    /// The level cannot be shown at a device of a host.
    #[error(
        "level {0} binds the receive path by threads of a device of the run's own; between two hosts set aRFS at the receiver \
         yourself (ntuple filters and rps_flow_cnt), and measure without --levels"
    )]
    NotHere(&'static str),
}

/// The file of a changed device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Journal {
    version: u32,
    /// The run, as [`RunId`] writes it.
    run: String,
    device: String,
    before: DeviceSettings,
    /// The settings of all levels that were set, or were about to be.
    set: Vec<DeviceSettings>,
}

/// A device for levels.
#[derive(Clone, Copy, Debug)]
pub struct LevelDevice<'a> {
    /// Its name.
    pub name: &'a str,
    /// The arguments that make this program a guard, which calls [`restore_after`] with the run, given as one more argument.
    /// Without arguments there is no guard.
    pub guard: &'a [&'a str],
}

/// A device whose settings are restored when the value is dropped.
#[derive(Debug)]
pub struct ChangedDevice {
    ns: NetNs,
    device: String,
    path: PathBuf,
    /// The arguments of the guard.
    arguments: Vec<String>,
    /// The guard, from the first change on.
    guard: Option<Guard>,
    /// `None` as long as nothing was changed.
    journal: Option<Journal>,
}

/// A device that was restored after another run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restored {
    /// The device.
    pub device: String,
    /// The settings that another process had changed meanwhile, which stay.
    pub left: Vec<&'static str>,
}

impl ChangedDevice {
    /// A device of this namespace, unchanged as yet. What a run that was killed has left there is restored first.
    ///
    /// # Errors
    /// If there is no such device, another run uses it, or it cannot be restored.
    pub fn open(device: LevelDevice<'_>) -> Result<Self, JournalError> {
        let mut changed = Self::open_in(Path::new(FOLDER), NetNs::current()?, device.name)?;
        changed.arguments = device.guard.iter().map(|argument| (*argument).to_owned()).collect();
        Ok(changed)
    }

    fn open_in(folder: &Path, ns: NetNs, device: &str) -> Result<Self, JournalError> {
        let index = link::index(&ns, device)?;
        let path = folder.join(format!("{}-{index}.json", ns.inode()?));
        if let Some(left) = read(&path)? {
            if let Some(process) = owner(&left) {
                return Err(JournalError::InUse { device: device.to_owned(), process });
            }
            put_back(&ns, &path, &left)?;
        }
        Ok(Self { ns, device: device.to_owned(), path, arguments: Vec::new(), guard: None, journal: None })
    }

    /// The device's name.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// The bytes that the device has sent.
    ///
    /// # Errors
    /// If it is gone.
    pub fn sent(&self) -> Result<u64, LinkError> {
        Ok(link::stats(&self.ns, &self.device)?.tx_bytes.get())
    }

    /// Sets a level, and reads it back.
    ///
    /// # Errors
    /// If the journal cannot be written, or the device does not follow.
    pub fn set(&mut self, level: Level) -> Result<(), JournalError> {
        if level == Level::Arfs {
            return Err(JournalError::NotHere(level.name()));
        }
        self.set_to(level.name(), |before| level.settings(before))
    }

    /// Makes a change to the settings that the device had before the first one, and reads it back. `name` is for errors.
    ///
    /// # Errors
    /// As [`Self::set`].
    pub fn change(&mut self, name: &'static str, change: DeviceChange) -> Result<(), JournalError> {
        self.set_to(name, |before| change.settings(before))
    }

    fn set_to(
        &mut self,
        name: &'static str,
        wanted: impl Fn(&DeviceSettings) -> DeviceSettings,
    ) -> Result<(), JournalError> {
        let mut journal = match self.journal.take() {
            Some(journal) => journal,
            None => Journal {
                version: VERSION,
                run: RunId::current().to_string(),
                device: self.device.clone(),
                before: DeviceSettings::read(&self.ns, &self.device)?,
                set: Vec::new(),
            },
        };
        let guarded = self.start_guard(&journal.run);
        let settings = wanted(&journal.before);
        if !journal.set.contains(&settings) {
            journal.set.push(settings);
        }
        // Kept before it is written: what was written halfway has changed nothing.
        let written = write(&self.path, &journal);
        self.journal = Some(journal);
        written?;
        guarded?;
        settings.apply(&self.ns, &self.device, name)?;
        // Drivers restart their link for an MTU.
        Ok(link::wait_running(&self.ns, &self.device, PATIENCE)?)
    }

    /// Starts the guard before the first change.
    fn start_guard(&mut self, run: &str) -> Result<(), JournalError> {
        if self.guard.is_some() || self.arguments.is_empty() {
            return Ok(());
        }
        let arguments = self.arguments.iter().map(String::as_str).chain([run]);
        let started = Guard::start(arguments).map_err(|error| {
            OsError::new(
                format!("start a process that restores device {} if this one is killed", self.device),
                error,
            )
        });
        self.guard = Some(started?);
        Ok(())
    }

    /// Restores the device.
    ///
    /// # Errors
    /// If a setting cannot be restored; the journal stays for `weft profile restore`.
    pub fn restore(mut self) -> Result<Vec<&'static str>, JournalError> {
        match self.journal.take() {
            Some(journal) => put_back(&self.ns, &self.path, &journal),
            None => Ok(Vec::new()),
        }
    }
}

impl Drop for ChangedDevice {
    fn drop(&mut self) {
        if let Some(journal) = self.journal.take() {
            // What fails here stays in the journal.
            let _ = put_back(&self.ns, &self.path, &journal);
        }
    }
}

/// Restores the devices of this namespace that runs have left changed. Devices of living runs are left alone.
///
/// # Errors
/// If a journal cannot be read, or a device cannot be restored.
pub fn restore() -> Result<Vec<Restored>, JournalError> {
    restore_in(Path::new(FOLDER), &NetNs::current()?, |_| true)
}

/// Restores the devices of this namespace that a run has left changed, once its process has ended; waits for that. The guard of a run
/// calls it.
///
/// # Errors
/// As [`restore`].
pub fn restore_after(run: &str) -> Result<Vec<Restored>, JournalError> {
    let ended = |run: &RunId| run.life() != Life::Alive;
    let deadline = clock::now() + Nanos::from(PATIENCE);
    // The process gives back its pipe before the lock that proves that it lives.
    while run.parse::<RunId>().is_ok_and(|run| !ended(&run)) && clock::now() < deadline {
        std::thread::sleep(LOOK);
    }
    restore_in(Path::new(FOLDER), &NetNs::current()?, |journal| journal.run == run)
}

fn restore_in(
    folder: &Path,
    ns: &NetNs,
    of: impl Fn(&Journal) -> bool,
) -> Result<Vec<Restored>, JournalError> {
    let mut all = Vec::new();
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(all),
        Err(error) => return Err(failed("read the folder", folder, error).into()),
    };
    let here = format!("{}-", ns.inode()?);
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let Some(index) = path.file_name().and_then(|name| number(name.to_str()?, &here)) else { continue };
        let Some(mut journal) = read(&path)? else { continue };
        if !of(&journal) || owner(&journal).is_some() {
            continue;
        }
        // The device may have another name by now.
        match link::list(ns)?.into_iter().find(|link| link.index == index) {
            Some(link) => {
                journal.device = link.name;
                let left = put_back(ns, &path, &journal)?;
                all.push(Restored { device: journal.device, left });
            }
            // Its settings went with it.
            None => remove(&path)?,
        }
    }
    Ok(all)
}

/// The device's number in a file's name, if it is of the namespace.
fn number(name: &str, here: &str) -> Option<u32> {
    name.strip_prefix(here)?.strip_suffix(".json")?.parse().ok()
}

/// The living process that the journal belongs to. A run of which nothing is known cannot restore.
fn owner(journal: &Journal) -> Option<u32> {
    let run: RunId = journal.run.parse().ok()?;
    (run != RunId::current() && run.life() == Life::Alive).then_some(run.pid)
}

/// Restores a device and removes the journal. Returns the settings that another process has changed.
fn put_back(ns: &NetNs, path: &Path, journal: &Journal) -> Result<Vec<&'static str>, JournalError> {
    let now = DeviceSettings::read(ns, &journal.device)?;
    let (wanted, left) = now.restored(&journal.before, &journal.set);
    wanted.apply(ns, &journal.device, "as it was")?;
    remove(path)?;
    Ok(left)
}

fn failed(action: &str, path: &Path, error: io::Error) -> OsError {
    OsError::new(format!("{action} {}", path.display()), error).needs("root")
}

fn read(path: &Path) -> Result<Option<Journal>, JournalError> {
    let foreign = |reason: String| JournalError::Foreign { path: path.display().to_string(), reason };
    match fs::metadata(path) {
        Ok(found) if found.len() > LONGEST => return Err(foreign("it is too long".to_owned())),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("read", path, error).into()),
    }
    let text = fs::read_to_string(path).map_err(|error| failed("read", path, error))?;
    let journal: Journal = serde_json::from_str(&text).map_err(|error| foreign(error.to_string()))?;
    if journal.version != VERSION {
        return Err(foreign(format!("version {}", journal.version)));
    }
    Ok(Some(journal))
}

/// Writes a journal whole or not at all, also if the machine loses its power.
fn write(path: &Path, journal: &Journal) -> Result<(), OsError> {
    let text = serde_json::to_string(journal).map_err(|error| failed("write", path, error.into()))?;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| failed("make the folder", folder, error))?;
    }
    let new = path.with_extension("new");
    let write = || {
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    write().map_err(|error| failed("write", path, error))
}

fn remove(path: &Path) -> Result<(), OsError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path, error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_host::link::VethOptions;
    use weft_host::testing::privileged;
    use weft_units::Bytes;

    fn world() -> (tempfile::TempDir, NetNs, NetNs) {
        let (near, far) = (NetNs::anonymous().expect("near"), NetNs::anonymous().expect("far"));
        link::create_veth((&near, "d0"), (&far, "d1"), &VethOptions::default()).expect("veth");
        link::set_up(&near, "d0").expect("up");
        link::set_up(&far, "d1").expect("up");
        (tempfile::tempdir().expect("folder"), near, far)
    }

    fn settings(ns: &NetNs) -> DeviceSettings {
        DeviceSettings::read(ns, "d0").expect("settings")
    }

    #[test]
    fn a_device_is_as_it_was_however_the_value_ends() {
        if !privileged("a_device_is_as_it_was_however_the_value_ends") {
            return;
        }
        let (folder, near, _far) = world();
        link::set_mtu(&near, "d0", 1400).expect("MTU");
        let before = settings(&near);
        let open =
            || ChangedDevice::open_in(folder.path(), near.handle().expect("handle"), "d0").expect("open");
        let mut changed = open();
        assert!(
            fs::read_dir(folder.path()).expect("folder").next().is_none(),
            "nothing changed, nothing written"
        );
        for level in [Level::NoOpt, Level::Jumbo, Level::NoOpt] {
            changed.set(level).expect("set");
            assert_eq!(settings(&near), level.settings(&before));
        }
        assert!(matches!(changed.set(Level::Arfs), Err(JournalError::NotHere("arfs"))));
        assert_eq!(changed.restore().expect("restored"), Vec::<&str>::new());
        assert_eq!(settings(&near), before);
        let mut changed = open();
        changed.set(Level::NoOpt).expect("set");
        drop(changed);
        assert_eq!(settings(&near), before);
        assert!(fs::read_dir(folder.path()).expect("folder").next().is_none());
    }

    /// A change counts from the settings before the first, so each takes back the one before it.
    #[test]
    fn changes_of_segments_and_small_queues_are_restored() {
        if !privileged("changes_of_segments_and_small_queues_are_restored") {
            return;
        }
        let (folder, near, _far) = world();
        let before = settings(&near);
        let open =
            || ChangedDevice::open_in(folder.path(), near.handle().expect("handle"), "d0").expect("open");
        let mut changed = open();
        let (segment, small) =
            (DeviceChange::Segment(Bytes(20_000)), DeviceChange::SmallQueue(Bytes(99_000)));
        for change in [segment, small, DeviceChange::NoTso, DeviceChange::Present, segment] {
            changed.change("a change", change).expect("set");
            assert_eq!(settings(&near), change.settings(&before), "{change:?}");
        }
        assert!(settings(&near) != before);
        changed.change("a change", small).expect("set");
        std::mem::forget(changed);
        let restored = restore_in(folder.path(), &near, |_| true).expect("restore");
        assert_eq!(restored, [Restored { device: "d0".to_owned(), left: Vec::new() }]);
        assert_eq!(settings(&near), before);
        // A journal of a version without these settings leaves them alone.
        let old = DeviceSettings { gso_max_size: None, gso_ipv4_max_size: None, small_queue: None, ..before };
        assert_eq!(before.restored(&old, &[]), (before, Vec::new()));
    }

    #[test]
    fn a_forgotten_device_is_restored_but_for_what_others_changed() {
        if !privileged("a_forgotten_device_is_restored_but_for_what_others_changed") {
            return;
        }
        let (folder, near, _far) = world();
        let before = settings(&near);
        let open = || ChangedDevice::open_in(folder.path(), near.handle().expect("handle"), "d0");
        let mut changed = open().expect("open");
        changed.set(Level::Jumbo).expect("set");
        // As a killed process leaves it.
        std::mem::forget(changed);
        link::set_mtu(&near, "d0", 4000).expect("MTU by somebody else");
        let restored = restore_in(folder.path(), &near, |_| true).expect("restore");
        assert_eq!(restored, [Restored { device: "d0".to_owned(), left: vec!["MTU"] }]);
        assert_eq!(settings(&near), DeviceSettings { mtu: 4000, ..before });
        assert_eq!(restore_in(folder.path(), &near, |_| true).expect("nothing left"), []);
        link::set_mtu(&near, "d0", before.mtu).expect("MTU");
        let mut changed = open().expect("open");
        changed.set(Level::NoOpt).expect("set");
        std::mem::forget(changed);
        drop(open().expect("the next run restores"));
        assert_eq!(settings(&near), before);
        let index = link::index(&near, "d0").expect("index");
        let path = folder.path().join(format!("{}-{index}.json", near.inode().expect("inode")));
        fs::write(&path, "{}").expect("write");
        assert!(matches!(open(), Err(JournalError::Foreign { .. })));
        assert!(restore_in(folder.path(), &near, |_| true).is_err());
    }
}
