//! The store of systemd: descriptors that the service manager keeps over restarts of a service
//! (docs/FILE_DESCRIPTOR_STORE.md of systemd, sd_notify(3)).
//!
//! A descriptor travels with a notice (`FDSTORE=1`), and comes back at the next start among those of `LISTEN_FDS`. Notices
//! have no answer; a barrier (`BARRIER=1`) shows that all before it were read. The manager would take a descriptor that
//! reports an error out of its store, as those of a device that is down do, so it is asked not to poll (`FDPOLL=0`).
//!
//! The state is in a memfd, one of the descriptors. It has two places, and a head that says which is valid. A new state is
//! written to the other place, and then the head, so a crash leaves either state whole.

use super::{Kept, Store, StoreError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, sendmsg_addr, socket_with,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The name of the memfd.
const STATE: &str = "state";
/// The beginning of names in the store, which distinguishes them from sockets of the service.
const PREFIX: &str = "weft.";
/// The beginning of names in a part of the store; the part's name and a dot follow.
const PART: &str = "weft@";
/// The head: the begin and the length of the valid state.
const HEAD: usize = 16;
/// The place of the first state; the second begins at twice that or behind the first.
const FIRST: u64 = 4096;
/// The longest wait for the manager to read the notices so far.
const PATIENCE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// The store of the service manager.
#[derive(Debug)]
pub struct ManagerStore {
    socket: OwnedFd,
    address: SocketAddrUnix,
    memfd: OwnedFd,
    /// Whether the manager has the memfd.
    stored: bool,
    names: BTreeSet<String>,
    /// The beginning of its names at the manager.
    prefix: String,
    room: Arc<Room>,
}

/// The room of a manager's store, which all parts share.
#[derive(Debug, Default)]
pub struct Room {
    /// The most descriptors (`FDSTORE`); `None` if the manager does not say, as systemd before 254.
    most: Option<usize>,
    /// Those that are stored.
    stored: AtomicUsize,
    /// The room for parts that are not opened yet.
    reserved: AtomicUsize,
}

impl Room {
    /// The room of a manager that has `stored` descriptors of `most`.
    pub fn new(most: Option<usize>, stored: usize) -> Self {
        Self { most, stored: stored.into(), reserved: 0.into() }
    }

    /// Keeps room for `count` descriptors, which [`Store::keep`] may use and [`Store::check_room`] does not count.
    pub fn reserve(&self, count: usize) {
        self.reserved.store(count, Ordering::Relaxed);
    }

    /// Whether the manager stores nothing for this service. One that has kept something has room.
    fn stores_nothing(&self) -> bool {
        self.most.map_or(self.stored.load(Ordering::Relaxed) == 0, |most| most == 0)
    }

    fn check(&self, needed: usize, reserved: usize) -> Result<(), StoreError> {
        let Some(most) = self.most else { return Ok(()) };
        let left = most.saturating_sub(self.stored.load(Ordering::Relaxed) + reserved);
        if needed > left { Err(StoreError::Full { most, left, needed }) } else { Ok(()) }
    }

    fn add(&self) {
        self.stored.fetch_add(1, Ordering::Relaxed);
    }

    fn remove(&self) {
        self.stored.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The beginning of the names of a part.
fn prefix(part: &str) -> String {
    if part.is_empty() { PREFIX.to_owned() } else { format!("{PART}{part}.") }
}

/// The part of the service's store that the manager's descriptor `name` belongs to, empty for the part without a name;
/// `None` if it belongs to no store.
pub fn part_of(name: &str) -> Option<&str> {
    if name.starts_with(PREFIX) {
        return Some("");
    }
    name.strip_prefix(PART)?.split_once('.').map(|(part, _)| part)
}

impl ManagerStore {
    /// The store of the manager at `notify` (`NOTIFY_SOCKET`), and what it has kept: those of `given` (name and
    /// descriptor, from `LISTEN_FDS`) that are its own. `room` is that of all parts. A service with several stores
    /// gives each a `part`, a name without dots; one has the empty name.
    ///
    /// # Errors
    /// When the manager stores nothing for this service, or the system refuses a descriptor.
    pub fn open(
        notify: &OsStr,
        room: &Arc<Room>,
        part: &str,
        given: Vec<(String, OwnedFd)>,
    ) -> Result<(Self, Kept), StoreError> {
        let prefix = prefix(part);
        if room.stores_nothing() {
            return Err(StoreError::NoRoom);
        }
        let failed = |error: Errno| StoreError::Manager(error.into());
        let address = match notify.as_bytes() {
            [b'@', name @ ..] => SocketAddrUnix::new_abstract_name(name),
            _ => SocketAddrUnix::new(notify),
        };
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None).map_err(failed)?;
        let mut descriptors: BTreeMap<String, OwnedFd> = given
            .into_iter()
            .filter_map(|(name, fd)| Some((name.strip_prefix(prefix.as_str())?.to_owned(), fd)))
            .collect();
        let names: BTreeSet<String> = descriptors.keys().cloned().collect();
        let kept = descriptors.remove(STATE);
        let state = kept.as_ref().map(read_state).unwrap_or_default();
        let stored = kept.is_some();
        let memfd = match kept {
            Some(memfd) => memfd,
            None => memfd_create("weft-state", MemfdFlags::CLOEXEC).map_err(failed)?,
        };
        let address = address.map_err(failed)?;
        let room = Arc::clone(room);
        Ok((Self { socket, address, memfd, stored, names, prefix, room }, Kept { state, descriptors }))
    }

    fn send(&self, text: &str, descriptor: Option<BorrowedFd<'_>>) -> Result<(), StoreError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors = descriptor.map(|descriptor| [descriptor]);
        if let Some(descriptors) = &descriptors {
            ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let bytes = [IoSlice::new(text.as_bytes())];
        loop {
            match sendmsg_addr(&self.socket, &self.address, &bytes, &mut ancillary, SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(StoreError::Manager(error.into())),
            }
        }
    }

    /// Waits until the manager has read the notices so far: it then closes the pipe that it is given.
    fn settle(&self) -> Result<(), StoreError> {
        let (near, far) = io::pipe().map_err(StoreError::Manager)?;
        self.send("BARRIER=1", Some(far.as_fd()))?;
        drop(far);
        loop {
            match poll(&mut [PollFd::new(&near, PollFlags::empty())], Some(&PATIENCE)) {
                Ok(0) => return Err(StoreError::Manager(io::ErrorKind::TimedOut.into())),
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(StoreError::Manager(error.into())),
            }
        }
    }

    fn store(&self, name: &str, descriptor: BorrowedFd<'_>) -> Result<(), StoreError> {
        let prefix = &self.prefix;
        self.send(&format!("FDSTORE=1\nFDPOLL=0\nFDNAME={prefix}{name}"), Some(descriptor))
    }
}

/// The head of the memfd.
fn head(memfd: &OwnedFd) -> Option<(u64, u64)> {
    let mut head = [0; HEAD];
    let read = rustix::io::pread(memfd, &mut head, 0).ok()?;
    let (begin, length) = head.split_first_chunk::<8>()?;
    let length = length.first_chunk::<8>()?;
    (read == HEAD).then(|| (u64::from_ne_bytes(*begin), u64::from_ne_bytes(*length)))
}

fn read_state(memfd: &OwnedFd) -> Vec<u8> {
    let Some((begin, length)) = head(memfd) else { return Vec::new() };
    let length = usize::try_from(length).unwrap_or(0).min(crate::descriptors::MESSAGE_MAX);
    let mut state = vec![0; length];
    match rustix::io::pread(memfd, &mut state, begin) {
        Ok(read) if read == length => state,
        _ => Vec::new(),
    }
}

fn write_state(memfd: &OwnedFd, state: &[u8]) -> rustix::io::Result<()> {
    let (begin, length) = head(memfd).unwrap_or((FIRST, 0));
    let bytes = state.len() as u64;
    // Before the valid state if there is room, otherwise behind it.
    let at = if begin >= FIRST + bytes { FIRST } else { (begin + length).max(FIRST) };
    ftruncate(memfd, (at + bytes).max(begin + length))?;
    let mut written = 0;
    while written < state.len() {
        written += rustix::io::pwrite(memfd, &state[written..], at + written as u64)?;
    }
    let head = [at.to_ne_bytes(), bytes.to_ne_bytes()].concat();
    rustix::io::pwrite(memfd, &head, 0).map(|_| ())
}

impl Store for ManagerStore {
    fn keep(&mut self, name: &str, descriptor: BorrowedFd<'_>) -> Result<(), StoreError> {
        if self.names.contains(name) {
            self.forget(name)?;
        }
        self.room.check(1, 0)?;
        self.store(name, descriptor)?;
        self.names.insert(name.to_owned());
        self.room.add();
        Ok(())
    }

    fn check_room(&self, count: usize) -> Result<(), StoreError> {
        self.room.check(count, self.room.reserved.load(Ordering::Relaxed))
    }

    fn forget(&mut self, name: &str) -> Result<(), StoreError> {
        if self.names.remove(name) {
            self.room.remove();
        }
        self.send(&format!("FDSTOREREMOVE=1\nFDNAME={}{name}", self.prefix), None)
    }

    fn set_state(&mut self, state: &[u8]) -> Result<(), StoreError> {
        self.settle()?;
        write_state(&self.memfd, state).map_err(|error| StoreError::Manager(error.into()))?;
        if !self.stored {
            self.room.check(1, 0)?;
            self.store(STATE, self.memfd.as_fd())?;
            self.names.insert(STATE.to_owned());
            self.room.add();
            self.settle()?;
            self.stored = true;
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<(), StoreError> {
        write_state(&self.memfd, &[]).map_err(|error| StoreError::Manager(error.into()))?;
        for name in self.names.clone().into_iter().filter(|name| name != STATE) {
            self.forget(&name)?;
        }
        self.settle()
    }

    fn end(mut self: Box<Self>) -> Result<(), StoreError> {
        self.clear()?;
        self.forget(STATE)?;
        self.settle()
    }
}

#[cfg(test)]
mod tests;
