//! Time that threads were runnable but had no core: the second number of `/proc/PID/task/TID/schedstat`
//! (Documentation/scheduler/sched-stats.rst). Kernels without `CONFIG_SCHED_INFO` do not count it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The thread name of the software NIC's transmit worker.
pub(crate) const TRANSMIT_WORKER: &str = "weft-transmit";

/// Returns the seconds that the thread in `folder` was runnable but had no core.
pub(crate) fn waited(folder: &Path) -> Option<f64> {
    let text = fs::read_to_string(folder.join("schedstat")).ok()?;
    let nanos: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(nanos as f64 / 1e9)
}

/// Returns the folders of those threads in `folder`, such as `/proc/self/task`, whose name begins with `name`.
pub(crate) fn threads_named(folder: &str, name: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let has_name =
        |path: &PathBuf| fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.starts_with(name));
    entries.map(|entry| entry.path()).filter(has_name).collect()
}

/// Waits of some threads, each counted from the thread's start.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct ThreadWaits(BTreeMap<PathBuf, f64>);

impl ThreadWaits {
    /// Reads all threads of the processes, and the threads in `others`.
    pub(crate) fn read(pids: &[i32], others: Vec<PathBuf>) -> Self {
        let of_processes = pids.iter().flat_map(|pid| threads_named(&format!("/proc/{pid}/task"), ""));
        let read = |path: PathBuf| waited(&path).map(|waited| (path, waited));
        Self(of_processes.chain(others).filter_map(read).collect())
    }

    /// Returns the longest wait of one thread since `before`, in seconds; `None` without a thread that is in both.
    pub(crate) fn longest_since(&self, before: &Self) -> Option<f64> {
        let both = self.0.iter().filter_map(|(path, now)| Some(now - before.0.get(path)?));
        both.reduce(f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_a_core_are_counted_and_only_grow() {
        let own = std::process::id() as i32;
        let before = ThreadWaits::read(&[own], Vec::new());
        let busy: Vec<_> = (0..8).map(|_| std::thread::spawn(|| (0..2_000_000_u64).sum::<u64>())).collect();
        busy.into_iter().for_each(|thread| assert!(thread.join().is_ok()));
        let after = ThreadWaits::read(&[own], Vec::new());
        assert!(after.longest_since(&before).expect("this thread is in both") >= 0.0);
        assert_eq!(after.longest_since(&ThreadWaits::default()), None);
        assert_eq!(threads_named("/proc/self/task", "no such name"), Vec::<PathBuf>::new());
    }

    #[test]
    fn the_thread_that_waited_longest_decides() {
        let of = |pairs: &[(&str, f64)]| {
            ThreadWaits(pairs.iter().map(|(path, waited)| (PathBuf::from(path), *waited)).collect())
        };
        let before = of(&[("a", 10.0), ("b", 0.0), ("ended", 5.0)]);
        let after = of(&[("a", 10.5), ("b", 2.0), ("new", 9.0)]);
        assert_eq!(after.longest_since(&before), Some(2.0));
    }
}
