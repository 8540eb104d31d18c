//! The store: a folder with one file per result, which any number of processes and machines may fill at the same time.
//!
//! A result is at `results/AB/CD/REST.json`, where `ABCDREST` is its name: of ten million results, a folder has some 153. There is no lock
//! and no index. A file is written beside its place, synchronised with the disk and renamed, so it is there as a whole or not at all;
//! two processes that make one result write the same bytes. After a loss of power a name may be missing, and the result is made again.

use crate::key::ResultKey;
use crate::record::{ResultRecord, ResultRecordError};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use thiserror::Error;

/// The folder of the results within a store.
const RESULTS: &str = "results";

/// The end of a result's file name.
const SUFFIX: &str = ".json";

/// The end of the name of a file that is being written.
const UNFINISHED: &str = ".tmp";

/// The number of the next file that this process writes.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResultStore {
    root: PathBuf,
}

/// The reason that a store does not work.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ResultStoreError {
    /// The folder has other things.
    #[error("{} is not a campaign's folder: name a new or an empty one", .0.display())]
    NotAStore(PathBuf),
    /// There is no folder.
    #[error("{} has no results: name the folder that `weft campaign run --out` has filled", .0.display())]
    Absent(PathBuf),
    /// A file cannot be read or listed.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {error}; what was finished is kept: make room, and give the same command again", path.display())]
    Write {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

/// A look for a result.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Lookup {
    /// It is there.
    Whole(ResultRecord),
    /// The result does not exist.
    Missing,
    /// There is a file that is not the result.
    Broken(ResultRecordError),
}

impl ResultStore {
    /// Opens the store in a folder, which is made if it does not exist.
    ///
    /// # Errors
    /// If it cannot be made, or has other things than results.
    pub fn create(root: &Path) -> Result<Self, ResultStoreError> {
        let store = Self { root: root.to_owned() };
        let results = root.join(RESULTS);
        if results.is_dir() {
            return Ok(store);
        }
        let others = match fs::read_dir(root) {
            Ok(mut entries) => entries.next().is_some(),
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Err(ResultStoreError::Read { path: root.to_owned(), error }),
        };
        // Another process may have begun meanwhile.
        if others && !results.is_dir() {
            return Err(ResultStoreError::NotAStore(root.to_owned()));
        }
        fs::create_dir_all(&results).map_err(|error| ResultStoreError::Write { path: results, error })?;
        Ok(store)
    }

    /// Opens a store that exists.
    ///
    /// # Errors
    /// If the store does not exist.
    pub fn open(root: &Path) -> Result<Self, ResultStoreError> {
        if root.join(RESULTS).is_dir() {
            Ok(Self { root: root.to_owned() })
        } else {
            Err(ResultStoreError::Absent(root.to_owned()))
        }
    }

    /// Returns the path of a result's file.
    pub fn path(&self, key: &ResultKey) -> PathBuf {
        self.folder(key).join(format!("{}{SUFFIX}", &key.as_str()[4..]))
    }

    fn folder(&self, key: &ResultKey) -> PathBuf {
        let (first, rest) = key.as_str().split_at(2);
        self.root.join(RESULTS).join(first).join(&rest[..2])
    }

    /// Looks for a result.
    ///
    /// # Errors
    /// If there is a file that cannot be read.
    pub fn look(&self, key: &ResultKey) -> Result<Lookup, ResultStoreError> {
        let path = self.path(key);
        match fs::read(&path) {
            Ok(text) => Ok(match ResultRecord::read(&text, key) {
                Ok(record) => Lookup::Whole(record),
                Err(error) => Lookup::Broken(error),
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Lookup::Missing),
            Err(error) => Err(ResultStoreError::Read { path, error }),
        }
    }

    /// Writes results, each with the text of its file; all are synchronised before the first is renamed. Returns the number of those
    /// that are in the store, the first ones, and the reason why others are not.
    pub fn write(&self, results: &[(ResultKey, String)]) -> (usize, Option<ResultStoreError>) {
        let mut begun: Vec<(PathBuf, File, PathBuf)> = Vec::new();
        let mut failed = None;
        for (key, text) in results {
            match self.begin(key, text) {
                Ok(unfinished) => begun.push(unfinished),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        for at in 0..begun.len() {
            let (unfinished, file, _) = &begun[at];
            if let Err(error) = file.sync_data() {
                failed = Some(ResultStoreError::Write { path: unfinished.clone(), error });
                for (unfinished, ..) in begun.drain(at..) {
                    let _ = fs::remove_file(unfinished);
                }
                break;
            }
        }
        for (at, (unfinished, _, path)) in begun.iter().enumerate() {
            match fs::rename(unfinished, path) {
                Ok(()) => clear_leftovers(path),
                // Another process made the same result and took this file for a leftover.
                Err(error) if error.kind() == ErrorKind::NotFound && path.is_file() => {}
                Err(error) => return (at, Some(ResultStoreError::Write { path: path.clone(), error })),
            }
        }
        (begun.len(), failed)
    }

    /// Writes the text of a result beside its place. Returns the path of that file, the file, and the place.
    fn begin(&self, key: &ResultKey, text: &str) -> Result<(PathBuf, File, PathBuf), ResultStoreError> {
        let (folder, path) = (self.folder(key), self.path(key));
        let failed = |path: &Path, error| ResultStoreError::Write { path: path.to_owned(), error };
        let process = std::process::id();
        let mut made = false;
        let (unfinished, mut file) = loop {
            // Each file gets a separate number, so that no two threads ever use the same file.
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let unfinished = folder.join(format!("{}.{process}-{number}{UNFINISHED}", &key.as_str()[4..]));
            match OpenOptions::new().write(true).create_new(true).open(&unfinished) {
                Ok(file) => break (unfinished, file),
                Err(error) if error.kind() == ErrorKind::NotFound && !made => {
                    fs::create_dir_all(&folder).map_err(|error| failed(&folder, error))?;
                    made = true;
                }
                // A process with the same number, on another machine or before.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(&unfinished, error)),
            }
        };
        if let Err(error) = file.write_all(text.as_bytes()) {
            let _ = fs::remove_file(&unfinished);
            return Err(failed(&path, error));
        }
        Ok((unfinished, file, path))
    }

    /// Returns the names of all results, in order. Unfinished files are left out.
    pub fn keys(&self) -> Keys<'_> {
        Keys { store: self, folders: 0, here: Vec::new().into_iter() }
    }
}

/// Removes the files of a result that processes which died have left. What cannot be listed or removed harms nothing.
fn clear_leftovers(path: &Path) {
    let (Some(folder), Some(stem)) = (path.parent(), path.file_stem().and_then(|stem| stem.to_str())) else {
        return;
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_str().unwrap_or_default();
        if name.starts_with(stem) && name.ends_with(UNFINISHED) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The names of a store's results; at any time only one folder's are in memory.
#[derive(Debug)]
pub struct Keys<'a> {
    store: &'a ResultStore,
    /// The next folder, of 65,536.
    folders: u32,
    here: std::vec::IntoIter<ResultKey>,
}

impl Iterator for Keys<'_> {
    type Item = Result<ResultKey, ResultStoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(key) = self.here.next() {
                return Some(Ok(key));
            }
            if self.folders > 0xffff {
                return None;
            }
            let (first, second) =
                (format!("{:02x}", self.folders >> 8), format!("{:02x}", self.folders & 0xff));
            let above = self.store.root.join(RESULTS).join(&first);
            if self.folders & 0xff == 0 && !above.is_dir() {
                self.folders += 0x100;
                continue;
            }
            self.folders += 1;
            match names(&above.join(&second), &format!("{first}{second}")) {
                Ok(keys) => self.here = keys.into_iter(),
                Err(error) => {
                    return Some(Err(ResultStoreError::Read { path: above.join(second), error }));
                }
            }
        }
    }
}

/// Returns the names of the results in a folder, in order.
fn names(folder: &Path, prefix: &str) -> io::Result<Vec<ResultKey>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut keys = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let rest = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
        keys.extend(rest.and_then(|rest| ResultKey::from_hex(format!("{prefix}{rest}"))));
    }
    keys.sort();
    Ok(keys)
}
