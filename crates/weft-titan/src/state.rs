//! What was done to a device, kept in a file until it is taken back: a later process detaches what an earlier one attached.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Where the files are.
pub const FOLDER: &str = "/run/weftline/titan";

/// A device's limits of segments, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentLimits {
    /// `gso_max_size`.
    pub max: u32,
    /// `gso_ipv4_max_size`, where the kernel has it.
    pub ipv4_max: Option<u32>,
}

/// What was done to a device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// The device's name when it was attached.
    pub device: String,
    /// Its interface number.
    pub ifindex: u32,
    /// The inode number of its network namespace.
    pub netns: u64,
    /// The path or name of that namespace, for people.
    pub place: String,
    /// Number of transmit queues that are assigned.
    pub queues: u32,
    /// The parts that are on.
    pub parts: Vec<String>,
    /// How a queue is chosen, for people.
    pub assignment: String,
    /// The priority of our filter.
    pub priority: u16,
    /// The handle of our filter.
    pub handle: u32,
    /// Whether the clsact was made by us.
    pub clsact_added: bool,
    /// Ids of our programs in the kernel.
    pub programs: Vec<u32>,
    /// How departures are seen: `destructors` or `tracepoints`.
    pub departures: String,
    /// Whether the device is our software NIC's port.
    pub software_nic: bool,
    /// The largest segment of DSOS in bytes; 0 without it.
    pub segment_bytes: u32,
    /// Nanoseconds between two updates of weights, at least.
    pub update_interval_ns: u64,
    /// The device's limits of segments before `driver_sync` changed them.
    pub segments_before: Option<SegmentLimits>,
    /// Where programs and maps are pinned.
    pub pins: PathBuf,
    /// When it was attached, in seconds since 1970.
    pub since: u64,
}

/// Why a file could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// A file or folder.
    #[error("{action} {path}: {source}")]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// A file that is no state of ours.
    #[error("{path} is not what this version of weft writes ({reason}); remove it if nothing is attached")]
    Foreign {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
}

fn failed<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(std::io::Error) -> StateError + 'a {
    move |source| StateError::File { action, path: path.display().to_string(), source }
}

/// Held while something is attached, detached or tidied: one process at a time. Waits for others.
///
/// # Errors
/// When the folder or its lock cannot be made.
pub fn lock(folder: &Path) -> Result<std::fs::File, StateError> {
    std::fs::create_dir_all(folder).map_err(failed("make the folder", folder))?;
    let path = folder.join("lock");
    let file = std::fs::File::create(&path).map_err(failed("make", &path))?;
    file.lock().map_err(failed("lock", &path))?;
    Ok(file)
}

/// The file of a device.
pub fn path(folder: &Path, netns: u64, ifindex: u32) -> PathBuf {
    folder.join(format!("{netns}-{ifindex}.json"))
}

impl State {
    /// Writes it. The file is there whole or not at all.
    ///
    /// # Errors
    /// When the folder cannot be made or written.
    pub fn write(&self, folder: &Path) -> Result<(), StateError> {
        std::fs::create_dir_all(folder).map_err(failed("make the folder", folder))?;
        let path = path(folder, self.netns, self.ifindex);
        let new = path.with_extension("new");
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| StateError::Foreign { path: path.display().to_string(), reason: e.to_string() })?;
        std::fs::write(&new, text).map_err(failed("write", &new))?;
        std::fs::rename(&new, &path).map_err(failed("write", &path))
    }

    /// Reads that of a device; none when nothing was done to it.
    ///
    /// # Errors
    /// When the file cannot be read or is not ours.
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

    /// All there are, in the order of their names.
    ///
    /// # Errors
    /// When a file cannot be read or is not ours.
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

    /// Removes the file. One that is gone already is no error.
    pub fn remove(&self, folder: &Path) {
        let path = path(folder, self.netns, self.ifindex);
        let _ = std::fs::remove_file(path.with_extension("actuator"));
        let _ = std::fs::remove_file(path);
    }
}

/// The time of the wall clock, in seconds since 1970.
pub(crate) fn seconds_since_1970() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl State {
    /// How long ago it was attached, for people.
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

    pub(crate) fn state() -> State {
        State {
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
        assert_eq!(State::all(&folder).expect("none"), []);
        state.write(&folder).expect("written");
        assert_eq!(State::read(&folder, state.netns, 7).expect("read"), Some(state.clone()));
        assert_eq!(State::read(&folder, state.netns, 8).expect("read"), None);
        assert_eq!(State::all(&folder).expect("one"), std::slice::from_ref(&state));
        std::fs::write(folder.join("1-1.json"), "{}").expect("a foreign file");
        let text = State::all(&folder).expect_err("foreign").to_string();
        assert!(text.contains("1-1.json") && text.contains("missing field"), "{text}");
        state.remove(&folder);
        assert_eq!(State::read(&folder, state.netns, 7).expect("read"), None);
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
