//! The state file of a device, which records all changes until they are undone, so that a later process can detach.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The folder of the state files.
pub const FOLDER: &str = "/run/weftline/titan";

/// The extension of the lock of a device's driver sync, named for `weft titan actuate`. The lock is what keeps a process of another
/// version away, so the name stays.
pub(crate) const LOCK: &str = "actuator";

/// The segment limits of a device, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentLimits {
    /// `gso_max_size`.
    pub max: u32,
    /// `gso_ipv4_max_size`, where the kernel has it.
    pub ipv4_max: Option<u32>,
}

/// The record of the changes to a device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeRecord {
    /// The name of the device when it was attached.
    pub device: String,
    /// The interface number.
    pub ifindex: u32,
    /// The inode number of its network namespace.
    pub netns: u64,
    /// The path or name of the namespace, for display.
    pub place: String,
    /// The number of assigned transmit queues.
    pub queues: u32,
    /// The names of the enabled parts.
    pub parts: Vec<String>,
    /// The method of queue selection, for display.
    pub assignment: String,
    /// The priority of our filter.
    pub priority: u16,
    /// The handle of our filter.
    pub handle: u32,
    /// Whether we created the clsact qdisc.
    pub clsact_added: bool,
    /// The ids of our programs in the kernel.
    pub programs: Vec<u32>,
    /// The source of departure events: `destructors` or `tracepoints`.
    pub departures: String,
    /// Whether the device is our software NIC's port.
    pub software_nic: bool,
    /// The largest segment under DSOS in bytes; 0 without it.
    pub segment_bytes: u32,
    /// The minimum interval of weight updates, in nanoseconds.
    pub update_interval_ns: u64,
    /// The segment limits of the device before driver sync changed them.
    pub segments_before: Option<SegmentLimits>,
    /// The folder of the pins.
    pub pins: PathBuf,
    /// The time of the attachment, in seconds since 1970.
    pub since: u64,
}

/// Errors of reading or writing a state file.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// A file or folder operation failed.
    #[error("{action} {path}: {source}")]
    File {
        /// The operation.
        action: &'static str,
        /// The file.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is not a valid state file.
    #[error(
        "{path} is not a state file of this version of weft ({reason}); remove it if nothing is attached"
    )]
    Foreign {
        /// The file.
        path: String,
        /// The error.
        reason: String,
    },
}

fn failed<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(std::io::Error) -> StateError + 'a {
    move |source| StateError::File { action, path: path.display().to_string(), source }
}

/// Takes the lock for attaching, detaching or cleaning up: one process at a time. Waits for others.
///
/// # Errors
/// When the folder or its lock cannot be created.
pub fn lock(folder: &Path) -> Result<std::fs::File, StateError> {
    std::fs::create_dir_all(folder).map_err(failed("create the folder", folder))?;
    let path = folder.join("lock");
    let file = std::fs::File::create(&path).map_err(failed("make", &path))?;
    file.lock().map_err(failed("lock", &path))?;
    Ok(file)
}

/// The path of a device's state file.
pub fn path(folder: &Path, netns: u64, ifindex: u32) -> PathBuf {
    folder.join(format!("{netns}-{ifindex}.json"))
}

impl ChangeRecord {
    /// Writes the file atomically.
    ///
    /// # Errors
    /// When the folder cannot be created or written.
    pub fn write(&self, folder: &Path) -> Result<(), StateError> {
        std::fs::create_dir_all(folder).map_err(failed("create the folder", folder))?;
        let path = path(folder, self.netns, self.ifindex);
        let new = path.with_extension("new");
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| StateError::Foreign { path: path.display().to_string(), reason: e.to_string() })?;
        std::fs::write(&new, text).map_err(failed("write", &new))?;
        std::fs::rename(&new, &path).map_err(failed("write", &path))
    }

    /// Reads the state of a device; `None` if it has none.
    ///
    /// # Errors
    /// When the file cannot be read or is invalid.
    pub fn read(folder: &Path, netns: u64, ifindex: u32) -> Result<Option<Self>, StateError> {
        Self::read_file(&path(folder, netns, ifindex))
    }

    fn read_file(path: &Path) -> Result<Option<Self>, StateError> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("read", path)(error)),
        };
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|e| StateError::Foreign { path: path.display().to_string(), reason: e.to_string() })
    }

    /// Reads all states, in the order of their file names.
    ///
    /// # Errors
    /// When a file cannot be read or is invalid.
    pub fn all(folder: &Path) -> Result<Vec<Self>, StateError> {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed("read the folder", folder)(error)),
        };
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        paths.sort();
        paths.iter().filter_map(|path| Self::read_file(path).transpose()).collect()
    }

    /// Removes the file. A missing file is no error.
    pub fn remove(&self, folder: &Path) {
        let path = path(folder, self.netns, self.ifindex);
        let _ = std::fs::remove_file(path.with_extension(LOCK));
        let _ = std::fs::remove_file(path);
    }
}

/// The wall clock's time, in seconds since 1970.
pub(crate) fn seconds_since_1970() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl ChangeRecord {
    /// The time since the attachment, for display.
    pub fn since(&self) -> String {
        let seconds = seconds_since_1970().saturating_sub(self.since);
        match seconds {
            0..120 => format!("{seconds} s"),
            120..7200 => format!("{} min", seconds / 60),
            _ => format!("{} h", seconds / 3600),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn state() -> ChangeRecord {
        ChangeRecord {
            device: "eth0".to_owned(),
            ifindex: 7,
            netns: 4_026_531_840,
            place: "this network namespace".to_owned(),
            queues: 8,
            parts: vec!["dqa".to_owned()],
            assignment: "least occupied".to_owned(),
            priority: 1,
            handle: 1,
            clsact_added: true,
            programs: vec![12, 13],
            departures: "tracepoints".to_owned(),
            software_nic: true,
            segment_bytes: 16_384,
            update_interval_ns: 1_000_000,
            segments_before: Some(SegmentLimits { max: 65_536, ipv4_max: None }),
            pins: PathBuf::from("pins"),
            since: 1,
        }
    }

    #[test]
    fn what_was_written_is_read_and_removed() {
        let folder = std::env::temp_dir().join(format!("weft-titan-state-{}", std::process::id()));
        let state = state();
        assert_eq!(ChangeRecord::all(&folder).expect("none"), []);
        state.write(&folder).expect("written");
        assert_eq!(ChangeRecord::read(&folder, state.netns, 7).expect("read"), Some(state.clone()));
        assert_eq!(ChangeRecord::read(&folder, state.netns, 8).expect("read"), None);
        assert_eq!(ChangeRecord::all(&folder).expect("one"), std::slice::from_ref(&state));
        std::fs::write(folder.join("1-1.json"), "{}").expect("a foreign file");
        let text = ChangeRecord::all(&folder).expect_err("foreign").to_string();
        assert!(text.contains("1-1.json") && text.contains("missing field"), "{text}");
        state.remove(&folder);
        assert_eq!(ChangeRecord::read(&folder, state.netns, 7).expect("read"), None);
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
