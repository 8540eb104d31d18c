//! Removal of objects that killed runs have left behind.
//!
//! An object is removed only if its name is that of a run ([`RunId`]) and the run's process is proven dead. A run that is not
//! visible here, such as one in a container with its own `/run`, is left alone.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal};

use crate::cgroup::{Hierarchy, processes_in, remove_dir};
use crate::error::OsError;
use crate::life::{self, Life};
use crate::link::{self, LinkError};
use crate::netns::{NETNS_DIR, NetNs, remove_mount};
use crate::run_id::RunId;

/// The time that killed processes have to leave their cgroup.
const KILL_PATIENCE: Duration = Duration::from_secs(2);

/// The removed objects, and the failures.
#[derive(Debug, Default)]
pub struct Report {
    /// The named network namespaces.
    pub namespaces: Vec<String>,
    /// The directories of the cgroups, children before their parents.
    pub cgroups: Vec<PathBuf>,
    /// The links of the current namespace.
    pub links: Vec<String>,
    /// The processes that were killed.
    pub killed: Vec<Pid>,
    /// Objects left alone because the state of their run is unknown.
    pub unproven: Vec<String>,
    /// Failures. Objects that vanished during the cleanup are not included.
    pub failed: Vec<OsError>,
}

impl Report {
    /// Whether nothing was removed and nothing failed. Objects left alone do not count.
    pub fn is_empty(&self) -> bool {
        self.namespaces.is_empty()
            && self.cgroups.is_empty()
            && self.links.is_empty()
            && self.killed.is_empty()
            && self.failed.is_empty()
    }

    fn note(&mut self, action: String, result: io::Result<()>) -> bool {
        match result {
            Ok(()) => true,
            Err(e) if e.kind() == io::ErrorKind::NotFound => false,
            Err(e) => {
                self.failed.push(OsError::new(action, e).needs("CAP_SYS_ADMIN"));
                false
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.namespaces.len(), "network namespace"),
            (self.cgroups.len(), "cgroup"),
            (self.links.len(), "link"),
        ];
        let removed: Vec<_> = counts
            .iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, what)| format!("{n} {what}{}", plural(*n)))
            .collect();
        match removed.as_slice() {
            [] => f.write_str("nothing was left behind by an earlier run")?,
            removed => write!(f, "removed what earlier runs left behind: {}", removed.join(", "))?,
        }
        if !self.killed.is_empty() {
            write!(
                f,
                "; killed {} process{}",
                self.killed.len(),
                if self.killed.len() == 1 { "" } else { "es" }
            )?;
        }
        if !self.unproven.is_empty() {
            write!(
                f,
                "; left alone what runs made of which nothing is known here: {}",
                self.unproven.join(", ")
            )?;
        }
        self.failed.iter().try_for_each(|error| write!(f, "; could not {error}"))
    }
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

/// Removes the objects of runs whose process is dead: cgroups, links of the current namespace, and named namespaces.
/// Processes still in those cgroups are killed first. Objects of live runs, and objects whose names are merely similar, are left
/// alone. A failure does not stop the cleanup; the report lists it.
pub fn cleanup_stale() -> Report {
    let mut report = Report::default();
    if let Ok(hierarchy) = Hierarchy::detect() {
        for name in stale_entries(hierarchy.mount_point(), &mut report) {
            clean_cgroup(&hierarchy.mount_point().join(name), &mut report);
        }
    }
    clean_links(&mut report);
    for name in stale_entries(Path::new(NETNS_DIR), &mut report) {
        let removed = remove_mount(&Path::new(NETNS_DIR).join(&name));
        if report.note(format!("remove network namespace {name}"), removed) {
            report.namespaces.push(name);
        }
    }
    life::sweep(Path::new(life::FOLDER));
    report
}

/// Whether the owner is dead. Reports objects whose owner cannot be determined.
fn is_stale(owner: Option<RunId>, name: &str, report: &mut Report) -> bool {
    match owner.map(|run| run.life()) {
        Some(Life::Dead) => true,
        Some(Life::Unknown) => {
            report.unproven.push(name.to_owned());
            false
        }
        Some(Life::Alive) | None => false,
    }
}

/// The entries of a directory that belong to dead runs. The cgroups of a run are below one with its name, at the root.
fn stale_entries(directory: &Path, report: &mut Report) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| is_stale(RunId::owner_of_name(name), name, report)).collect()
}

/// Kills the processes in the cgroup and below it, then removes it, children first.
fn clean_cgroup(path: &Path, report: &mut Report) {
    if let Ok(entries) = fs::read_dir(path) {
        let below = entries.filter_map(Result::ok).filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
        below.for_each(|entry| clean_cgroup(&entry.path(), report));
    }
    let deadline = Instant::now() + KILL_PATIENCE;
    while let Ok(processes) = processes_in(path)
        && !processes.is_empty()
        && Instant::now() < deadline
    {
        for pid in processes {
            let killed = kill_if_in(pid, path);
            if report.note(format!("kill process {}", pid.as_raw_nonzero()), killed)
                && !report.killed.contains(&pid)
            {
                report.killed.push(pid);
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    if report.note(format!("remove cgroup {}", path.display()), remove_dir(path)) {
        report.cgroups.push(path.to_path_buf());
    }
}

/// Kills the process if it is in the cgroup. The check comes after the process is held by descriptor, so that a reused
/// process number does no harm. Never kills this process.
fn kill_if_in(pid: Pid, cgroup: &Path) -> io::Result<()> {
    if pid == rustix::process::getpid() {
        return Err(io::Error::other("it is this process; move it to another cgroup"));
    }
    let gone = |e: rustix::io::Errno| match e {
        rustix::io::Errno::SRCH => io::ErrorKind::NotFound.into(),
        e => io::Error::from(e),
    };
    let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).map_err(gone)?;
    if !processes_in(cgroup)?.contains(&pid) {
        return Err(io::ErrorKind::NotFound.into());
    }
    rustix::process::pidfd_send_signal(&pidfd, Signal::KILL).map_err(gone)
}

fn clean_links(report: &mut Report) {
    let Ok(here) = NetNs::current() else { return };
    let links = match link::list(&here) {
        Ok(links) => links,
        Err(LinkError::Os(e)) => return report.failed.push(e),
        Err(_) => return,
    };
    for link in links {
        if !is_stale(link.alias.as_deref().and_then(RunId::owner_of_alias), &link.name, report) {
            continue;
        }
        match link::delete(&here, &link.name) {
            Ok(()) => report.links.push(link.name),
            Err(LinkError::Os(e)) => report.failed.push(e),
            // The other end of a veth that was just deleted.
            Err(_) => {}
        }
    }
}
