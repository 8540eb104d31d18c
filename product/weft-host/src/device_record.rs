//! Files that record what a command has changed at a device, so that a later process can undo it.
//!
//! A record is written before the change and removed after it is undone. A killed process therefore leaves no change without a record,
//! at most a record without a change. One process at a time changes devices: it holds the [`lock`] of the folder.

use crate::error::OsError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// An error of reading or writing a record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A file or folder operation failed.
    #[error("{action} {path}: {source}")]
    File {
        /// The operation.
        action: &'static str,
        /// The file.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The file is no valid record.
    #[error("{path} is not a record of this version of weft ({reason}); remove it if nothing is attached")]
    Foreign {
        /// The file.
        path: String,
        /// The error.
        reason: String,
    },
}

impl From<RecordError> for OsError {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::File { action, path, source } => {
                Self::new(format!("{action} {path}"), source).needs("root")
            }
            RecordError::Foreign { .. } => Self::new("read a record", io::Error::other(error.to_string())),
        }
    }
}

fn failed<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> RecordError + 'a {
    move |source| RecordError::File { action, path: path.display().to_string(), source }
}

fn foreign(path: &Path, error: &serde_json::Error) -> RecordError {
    RecordError::Foreign { path: path.display().to_string(), reason: error.to_string() }
}

/// Takes the lock of a folder of records. Waits for other processes.
///
/// # Errors
/// When the folder or its lock cannot be created.
pub fn lock(folder: &Path) -> Result<File, RecordError> {
    std::fs::create_dir_all(folder).map_err(failed("create the folder", folder))?;
    let path = folder.join("lock");
    let file = File::create(&path).map_err(failed("make", &path))?;
    file.lock().map_err(failed("lock", &path))?;
    Ok(file)
}

/// The path of a device's record.
pub fn path(folder: &Path, netns: u64, ifindex: u32) -> PathBuf {
    folder.join(format!("{netns}-{ifindex}.json"))
}

/// The wall clock's time, in seconds since 1970.
pub fn seconds_since_1970() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The time since `then`, in seconds since 1970, for display: `3 min`.
pub fn age(then: u64) -> String {
    let seconds = seconds_since_1970().saturating_sub(then);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

/// The record of a device, as JSON in a file of its own.
pub trait DeviceRecord: Serialize + DeserializeOwned {
    /// The extensions of further files of a device, which are removed with the record.
    const BESIDE: &'static [&'static str] = &[];

    /// The inode number of the device's network namespace, and its number there.
    fn place(&self) -> (u64, u32);

    /// Writes the file atomically.
    ///
    /// # Errors
    /// When the folder cannot be created or written.
    fn write(&self, folder: &Path) -> Result<(), RecordError> {
        std::fs::create_dir_all(folder).map_err(failed("create the folder", folder))?;
        let (netns, ifindex) = self.place();
        let path = path(folder, netns, ifindex);
        let new = path.with_extension("new");
        let text = serde_json::to_string_pretty(self).map_err(|error| foreign(&path, &error))?;
        std::fs::write(&new, text).map_err(failed("write", &new))?;
        std::fs::rename(&new, &path).map_err(failed("write", &path))
    }

    /// Reads the record of a device; `None` if it has none.
    ///
    /// # Errors
    /// When the file cannot be read or is invalid.
    fn read(folder: &Path, netns: u64, ifindex: u32) -> Result<Option<Self>, RecordError> {
        read_file(&path(folder, netns, ifindex))
    }

    /// Reads all records of a folder, in the order of their file names.
    ///
    /// # Errors
    /// When a file cannot be read or is invalid.
    fn all(folder: &Path) -> Result<Vec<Self>, RecordError> {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed("read the folder", folder)(error)),
        };
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        paths.sort();
        paths.iter().filter_map(|path| read_file(path).transpose()).collect()
    }

    /// Removes the file. A missing file is no error.
    fn remove(&self, folder: &Path) {
        let (netns, ifindex) = self.place();
        let path = path(folder, netns, ifindex);
        for extension in Self::BESIDE {
            let _ = std::fs::remove_file(path.with_extension(extension));
        }
        let _ = std::fs::remove_file(path);
    }
}

fn read_file<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, RecordError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("read", path)(error)),
    };
    serde_json::from_str(&text).map(Some).map_err(|error| foreign(path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
    struct Change {
        netns: u64,
        ifindex: u32,
    }

    impl DeviceRecord for Change {
        const BESIDE: &'static [&'static str] = &["beside"];

        fn place(&self) -> (u64, u32) {
            (self.netns, self.ifindex)
        }
    }

    #[test]
    fn what_was_written_is_read_and_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let change = Change { netns: 4_026_531_840, ifindex: 7 };
        assert_eq!(Change::all(&folder.join("absent")).expect("none"), []);
        change.write(folder).expect("written");
        std::fs::write(folder.join("4026531840-7.beside"), "").expect("a file beside it");
        assert_eq!(Change::read(folder, change.netns, 7).expect("read"), Some(change.clone()));
        assert_eq!(Change::read(folder, change.netns, 8).expect("read"), None);
        assert_eq!(Change::all(folder).expect("one"), std::slice::from_ref(&change));
        std::fs::write(folder.join("1-1.json"), "{}").expect("a foreign file");
        let text = Change::all(folder).expect_err("foreign").to_string();
        assert!(text.contains("1-1.json") && text.contains("missing field"), "{text}");
        std::fs::remove_file(folder.join("1-1.json")).expect("removed");
        change.remove(folder);
        assert_eq!(std::fs::read_dir(folder).expect("a folder").count(), 0);
    }

    #[test]
    fn an_age_is_in_a_unit_of_its_size() {
        let now = seconds_since_1970();
        let ages = [5, 300, 3 * 3600].map(|seconds| age(now - seconds));
        assert!(ages[0].ends_with(" s") && ages[1..] == ["5 min", "3 h"], "{ages:?}");
    }
}
