//! Processor time of the machine and of its threads, from /proc.
//!
//! The time in use is the time of all cores less their idle time: an idle core's time is exact (`get_idle_time`,
//! fs/proc/stat.c), in units of 10 ms, while the division into user and system counts timer ticks. A thread's time is
//! exact, in nanoseconds (`schedstat`), and includes interrupts that the kernel handles while it runs. Time stolen by
//! other machines is in both: neither the kernel's idle time nor the threads' times show it apart.
//!
//! Time of others is the sum over all processes of their own time and that of their ended children. A process that ends
//! moves its time to its parent, so the sum changes only by time that was used. Kernel threads belong to no one: their
//! time is the stack's.

use super::error::CostError;
use crate::testbed::cpu_times::{CpuTimes, TICK_S};
use crate::testbed::schedstat::threads_named;
use std::fs;
use std::path::Path;
use weft_host::clock;
use weft_report::bench::cost::DISTURBED_MAX;
use weft_units::Instant;

/// `PF_KTHREAD` of include/linux/sched.h, in a process's flags.
const KERNEL_THREAD: u64 = 0x0020_0000;
/// The thread name of the NIC's receive thread, and of the forwarder's.
pub(super) const RECEIVE_THREAD: &str = "weft-receive";
/// The beginning of the names of the threads of requests.
pub(super) const REQUEST_THREAD: &str = "cost-req";

/// Times since the start of machine and threads, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    at: Instant,
    machine: CpuTimes,
    application_s: f64,
    worker_s: f64,
    receive_s: f64,
}

/// Processor time within a span, in seconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Usage {
    pub(super) span_s: f64,
    pub(super) core_s: f64,
    pub(super) application_s: f64,
    pub(super) worker_s: f64,
    pub(super) receive_s: f64,
    pub(super) foreign_s: f64,
    pub(super) stolen_s: f64,
}

impl Usage {
    /// Whether others used enough to distort a figure.
    pub(super) fn is_disturbed(&self) -> bool {
        self.foreign_s + self.stolen_s > DISTURBED_MAX * self.span_s
    }
}

impl Reading {
    /// Reads the counters. `applications` are the processes of the bulk flows.
    pub(super) fn take(applications: &[i32]) -> Result<Self, CostError> {
        let (application, worker_s, receive_s) = own_threads();
        let bulk: f64 = applications.iter().map(|pid| ran_in(&format!("/proc/{pid}/task"), "")).sum();
        let machine = CpuTimes::read()?;
        Ok(Self { at: clock::now(), machine, application_s: application + bulk, worker_s, receive_s })
    }

    /// The use from `self` to `later`, and `foreign_s` of others. Counters of threads that have ended can make a
    /// difference negative; it is zero then.
    pub(super) fn until(&self, later: &Self, foreign_s: f64) -> Usage {
        let span_s = later.at.saturating_since(self.at).as_secs_f64();
        let (a, b) = (&self.machine, &later.machine);
        let core_s = (span_s * f64::from(b.cores) - (b.idle_s() - a.idle_s())).max(0.0);
        Usage {
            span_s,
            core_s,
            application_s: (later.application_s - self.application_s).max(0.0),
            worker_s: (later.worker_s - self.worker_s).max(0.0),
            receive_s: (later.receive_s - self.receive_s).max(0.0),
            // Others cannot have more than the machine; a process missed in one reading would seem to.
            foreign_s: foreign_s.clamp(0.0, core_s),
            stolen_s: (b.stolen_s() - a.stolen_s()).max(0.0),
        }
    }
}

/// The time of this process's threads: requests, receive thread, and all others.
fn own_threads() -> (f64, f64, f64) {
    let of = |name: &str| ran_in("/proc/self/task", name);
    let (application, receive) = (of(REQUEST_THREAD), of(RECEIVE_THREAD));
    (application, of("") - application - receive, receive)
}

/// The time of those threads in `folder` whose name begins with `name`.
fn ran_in(folder: &str, name: &str) -> f64 {
    threads_named(folder, name).iter().filter_map(|thread| ran(thread)).sum()
}

/// The time of a thread: the first number of `schedstat`, in nanoseconds.
fn ran(thread: &Path) -> Option<f64> {
    let text = fs::read_to_string(thread.join("schedstat")).ok()?;
    let nanos: u64 = text.split_whitespace().next()?.parse().ok()?;
    Some(nanos as f64 / 1e9)
}

/// The time of all processes but this one, `applications` and kernel threads, with their ended children. It takes
/// milliseconds to read, so it is read before and after the measured span.
///
/// A process that ends while its parent has been read already is missed, with all its time. The larger of two readings
/// is therefore the right one.
pub(super) fn foreign(applications: &[i32]) -> f64 {
    let [a, b] = [(); 2].map(|()| scan(applications));
    a.max(b)
}

fn scan(applications: &[i32]) -> f64 {
    let own = std::process::id() as i32;
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let others = pids.filter(|pid| *pid != own && !applications.contains(pid));
    let times = others.filter_map(|pid| process(&fs::read(format!("/proc/{pid}/stat")).ok()?));
    times.sum()
}

/// Parses /proc/PID/stat: the time of the process and its ended children; `None` for a kernel thread. The second field
/// is the name in parentheses and may contain any character.
fn process(stat: &[u8]) -> Option<f64> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let text = core::str::from_utf8(stat.get(name_end + 1..)?).ok()?;
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    // Fields 9 and 14 to 17 of proc_pid_stat(5); the first here is field 3.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    if number(9)? & KERNEL_THREAD != 0 {
        return None;
    }
    let ticks: u64 = (14..=17).filter_map(number).sum();
    Some(ticks as f64 * TICK_S)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_process_counts_with_its_ended_children_and_a_kernel_thread_does_not() {
        let line =
            |flags: u64| format!("7 (a) b) S 1 7 7 0 -1 {flags} 1 0 0 0 100 20 3000 400 20 0 1 0 98765");
        assert_eq!(process(line(4_194_560).as_bytes()), Some(35.2));
        assert_eq!(process(line(4_194_560 | KERNEL_THREAD).as_bytes()), None);
        assert_eq!(process(b"7 no name"), None);
    }

    #[test]
    fn a_difference_is_of_the_span() {
        let at = |s: u64, idle_s: f64, worker_s: f64| Reading {
            at: Instant::from_secs(s),
            machine: CpuTimes::of(2, idle_s, 0.1 * s as f64),
            worker_s,
            ..Reading::default()
        };
        let usage = at(1, 10.0, 1.0).until(&at(3, 12.5, 1.6), 0.06);
        assert!((usage.span_s - 2.0).abs() < 1e-9 && (usage.core_s - 1.5).abs() < 1e-9, "{usage:?}");
        assert!((at(1, 10.0, 1.0).until(&at(3, 12.5, 1.6), 9.0).foreign_s - 1.5).abs() < 1e-9);
        assert!((usage.worker_s - 0.6).abs() < 1e-9 && usage.receive_s == 0.0, "{usage:?}");
        // 0.06 s of others and 0.2 s stolen, in 2 s.
        assert!(usage.is_disturbed() && !at(1, 1.0, 1.0).until(&at(1, 1.0, 1.0), 0.0).is_disturbed());
    }

    /// A thread that burns a core shows in the machine's time and in its part, whatever else runs.
    #[test]
    fn a_thread_that_burns_a_core_shows_in_its_part() {
        let begin = Reading::take(&[]).expect("a reading");
        let (told, burnt) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let burn = move || {
            let used = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            let seconds = || used().tv_sec as f64 + used().tv_nsec as f64 / 1e9;
            while seconds() < 0.2 {}
            told.send(seconds()).expect("the test waits");
            // The thread must still exist when it is read.
            let _ = ended.recv();
        };
        let thread =
            std::thread::Builder::new().name(RECEIVE_THREAD.to_owned()).spawn(burn).expect("a thread");
        let burnt = burnt.recv_timeout(Duration::from_secs(60)).expect("burnt");
        let usage = begin.until(&Reading::take(&[]).expect("a reading"), 0.0);
        drop(end);
        thread.join().expect("joined");
        assert!((0.199..burnt + 0.05).contains(&usage.receive_s), "{usage:?}, {burnt}");
        // Idle time has a resolution of 10 ms per core.
        assert!(usage.core_s >= usage.receive_s - 0.05, "{usage:?}");
    }
}
