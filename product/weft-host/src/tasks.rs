//! Running processes: names, cgroups, users and network namespaces, from `/proc`.
//!
//! A process may end between two reads. What could not be read is then absent, and never an error.

use std::fs;
use std::os::unix::fs::MetadataExt;

/// The facts of a process.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Task {
    /// The command, as the kernel has it: at most 15 bytes.
    pub command: String,
    /// The path of its cgroup (version 2) below the root of the hierarchy, with a leading slash.
    pub cgroup: Option<String>,
    /// The user of its accesses to files, and the owner of its sockets.
    pub user: Option<u32>,
    /// The inode number of its network namespace.
    pub netns: Option<u64>,
}

impl Task {
    /// The facts of process `pid`; `None` if it does not exist.
    pub fn of(pid: u32) -> Option<Self> {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}"));
        let command = read("comm").ok()?.trim_end().to_owned();
        Some(Self {
            command,
            cgroup: read("cgroup").ok().and_then(|text| cgroup(&text).map(str::to_owned)),
            user: read("status").ok().and_then(|text| user(&text)),
            netns: netns(pid),
        })
    }
}

/// The inode number of a process's network namespace.
pub fn netns(pid: u32) -> Option<u64> {
    fs::metadata(format!("/proc/{pid}/ns/net")).ok().map(|found| found.ino())
}

/// The processes of this PID namespace.
pub fn processes() -> Vec<u32> {
    numbers("/proc")
}

/// The threads of a process, each with its name.
pub fn threads(pid: u32) -> Vec<(u32, String)> {
    let named = |thread: u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/task/{thread}/comm")).ok()?;
        Some((thread, name.trim_end().to_owned()))
    };
    numbers(&format!("/proc/{pid}/task")).into_iter().filter_map(named).collect()
}

/// The entries of a directory that are numbers.
fn numbers(directory: &str) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The line of version 2 begins with `0::`; the others are of hierarchies of version 1.
fn cgroup(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("0::"))
}

/// The line `Uid:` has the real, the effective, the saved and the file system's user.
fn user(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_files_are_read() {
        assert_eq!(cgroup("12:cpu:/v1\n0::/system.slice/a.service\n"), Some("/system.slice/a.service"));
        assert_eq!(cgroup("12:cpu:/v1\n"), None);
        assert_eq!(user("Name:\tx\nUid:\t1\t2\t3\t4\nGid:\t5\t5\t5\t5\n"), Some(4));
        assert_eq!(user("Name:\tx\n"), None);
    }

    #[test]
    fn this_process_has_facts() {
        let own = std::process::id();
        let task = Task::of(own).expect("running");
        assert!(!task.command.is_empty() && task.user.is_some() && task.netns == netns(own), "{task:?}");
        assert!(processes().contains(&own));
        assert!(threads(own).iter().any(|(thread, _)| *thread == own));
        assert_eq!(Task::of(u32::MAX), None);
    }
}
