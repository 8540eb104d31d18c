//! Cgroups that are removed and made again under the same path, as those of services are.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use super::{Hierarchy, Place};

/// The places of the cgroups at a list of paths, kept current. inotify watches the directories above them; each
/// [`look`](Watch::look) reads all paths again, independent of the events.
///
/// ```no_run
/// use core::time::Duration;
/// let mut watch = weft_host::cgroup::Watch::new(["/system.slice/ssh.service"]);
/// loop {
///     watch.wait(Duration::from_millis(250));
///     for index in watch.look() {
///         println!("{index}: {:?}", watch.places()[index]);
///     }
/// }
/// ```
#[derive(Debug)]
pub struct Watch {
    hierarchy: Option<Hierarchy>,
    paths: Vec<String>,
    places: Vec<Option<Place>>,
    /// An inotify descriptor; without it, only the periodic reads find changes.
    events: Option<OwnedFd>,
}

impl Watch {
    /// Watches `paths`, which start at the root of the hierarchy with or without a leading slash, and reads their places.
    pub fn new(paths: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let paths: Vec<String> =
            paths.into_iter().map(|path| path.into().trim_start_matches('/').to_owned()).collect();
        let places = vec![None; paths.len()];
        let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        let mut watch = Self { hierarchy: None, paths, places, events };
        watch.look();
        watch
    }

    /// The places of the cgroups, in the order of the paths; `None` for a missing one.
    pub fn places(&self) -> &[Option<Place>] {
        &self.places
    }

    /// Whether the host has a cgroup2 hierarchy.
    pub fn has_hierarchy(&self) -> bool {
        self.hierarchy.is_some()
    }

    /// Reads all paths again; returns the indices of those whose place has changed.
    pub fn look(&mut self) -> Vec<usize> {
        if self.paths.is_empty() {
            return Vec::new();
        }
        // It may be mounted later.
        if self.hierarchy.is_none() {
            self.hierarchy = Hierarchy::detect().ok();
        }
        let Some(hierarchy) = &self.hierarchy else { return Vec::new() };
        if let Some(events) = &self.events {
            drain(events);
            // Before the paths are read, so that a change in between causes an event.
            self.paths.iter().for_each(|path| watch_above(events, hierarchy, path));
        }
        let mut changed = Vec::new();
        for (index, (path, place)) in self.paths.iter().zip(&mut self.places).enumerate() {
            let now = hierarchy.place(path);
            if now != *place {
                *place = now;
                changed.push(index);
            }
        }
        changed
    }

    /// Waits until a directory above one of the cgroups has changed, at most `timeout`.
    pub fn wait(&self, timeout: Duration) {
        match &self.events {
            Some(events) => {
                let timeout =
                    Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
                let _ = poll(&mut [PollFd::new(events, PollFlags::IN)], Some(&timeout));
            }
            None => std::thread::sleep(timeout),
        }
    }
}

/// Discards the events: only their existence matters.
fn drain(events: &OwnedFd) {
    let mut buffer = [0_u8; 4096];
    while rustix::io::read(events, &mut buffer).is_ok_and(|n| n > 0) {}
}

/// Watches the existing directories above `path`. Watching one again has no effect.
fn watch_above(events: &OwnedFd, hierarchy: &Hierarchy, path: &str) {
    let mut at: PathBuf = hierarchy.mount_point().to_owned();
    let flags = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVE | WatchFlags::ONLYDIR;
    for part in path.split('/') {
        if inotify::add_watch(events, &at, flags).is_err() {
            return;
        }
        at.push(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use std::time::Instant;

    #[test]
    fn a_cgroup_that_comes_again_is_found_again() {
        if !testing::privileged("a_cgroup_that_comes_again_is_found_again") {
            return;
        }
        let hierarchy = Hierarchy::detect().expect("cgroup2");
        let name = testing::unique("watch");
        let mut watch = Watch::new([format!("/{name}/service")]);
        assert_eq!(watch.places(), [None]);
        let mut next = |what: &str| {
            let until = Instant::now() + Duration::from_secs(10);
            while Instant::now() < until {
                watch.wait(Duration::from_secs(10));
                if watch.look() == [0] {
                    return watch.places()[0];
                }
            }
            panic!("{what} was not noticed");
        };
        let above = hierarchy.create(&name).expect("above");
        let service = above.child("service").expect("service");
        let first = next("a cgroup that is made").expect("it is there");
        assert_eq!(Some(first), service.place().ok());
        drop(service);
        assert_eq!(next("a cgroup that is removed"), None);
        let service = above.child("service").expect("service");
        let second = next("a cgroup that is made again").expect("it is there");
        assert_ne!(first.id, second.id);
        assert_eq!(first.level, second.level);
        drop(service);
    }

    #[test]
    fn the_level_counts_from_the_root_of_all() {
        if !testing::privileged("the_level_counts_from_the_root_of_all") {
            return;
        }
        let hierarchy = Hierarchy::detect().expect("cgroup2");
        let outer = hierarchy.create(&testing::unique("lvl")).expect("cgroup");
        let inner = outer.child("inner").expect("inner");
        let root = std::fs::metadata(hierarchy.mount_point()).expect("root");
        let seen = std::os::unix::fs::MetadataExt::ino(&root) == super::super::ROOT_INODE;
        assert_eq!(inner.place().expect("place").level, seen.then_some(2));
        // In a cgroup namespace, the depth is unknown.
        let below = Hierarchy { mount: outer.path().to_owned() };
        let place = below.place("inner").expect("there");
        assert_eq!((place.id, place.level), (inner.id().expect("id"), None));
    }
}
