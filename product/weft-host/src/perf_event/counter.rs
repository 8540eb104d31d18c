//! Counts by hardware: a process's cache accesses, and the work of a thread.

use std::os::fd::OwnedFd;

use libbpf_rs::libbpf_sys::{self, perf_event_attr};

use super::ring::open_event;
use crate::error::OsError;

/// Accesses of processes to the last cache that the processor counts, and those that missed.
#[derive(Debug)]
pub struct CacheCounter {
    /// For each process: references, misses.
    events: Vec<[OwnedFd; 2]>,
}

/// Counts since the counter was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheCounts {
    /// Accesses.
    pub references: u64,
    /// Accesses that missed.
    pub misses: u64,
}

impl CacheCounts {
    /// The counts since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            references: self.references.saturating_sub(before.references),
            misses: self.misses.saturating_sub(before.misses),
        }
    }

    /// The share of accesses that missed; `None` without one.
    pub fn miss_rate(&self) -> Option<f64> {
        (self.references > 0).then(|| self.misses as f64 / self.references as f64)
    }
}

impl CacheCounter {
    /// Starts counting for these processes, on every processor and in the kernel too.
    ///
    /// # Errors
    /// If the machine has no such counter (many virtual machines), or rights are missing.
    pub fn open(pids: &[u32]) -> Result<Self, OsError> {
        const EVENTS: [u32; 2] =
            [libbpf_sys::PERF_COUNT_HW_CACHE_REFERENCES, libbpf_sys::PERF_COUNT_HW_CACHE_MISSES];
        let failed = |e: std::io::Error| OsError::new("count cache misses", e).needs("CAP_PERFMON");
        let one = |pid: &u32, event: u32| open_event(&attributes(event), *pid as libc::pid_t, -1);
        let both = |pid: &u32| Ok([one(pid, EVENTS[0])?, one(pid, EVENTS[1])?]);
        Ok(Self { events: pids.iter().map(both).collect::<Result<_, _>>().map_err(failed)? })
    }

    /// The counts so far. Counters that had to share the hardware are scaled by the time that they had.
    ///
    /// # Errors
    /// If a counter cannot be read.
    pub fn read(&self) -> Result<CacheCounts, OsError> {
        let mut all = CacheCounts::default();
        for [references, misses] in &self.events {
            all.references += read(references)?;
            all.misses += read(misses)?;
        }
        Ok(all)
    }
}

/// The work of the thread that opened it, in user space.
#[derive(Debug)]
pub struct WorkCounter {
    /// Instructions, cycles, misses.
    events: [OwnedFd; 3],
}

/// Counts since the counter was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorkCounts {
    /// Instructions that were retired.
    pub instructions: u64,
    /// Cycles of the processor.
    pub cycles: u64,
    /// Accesses that missed the last cache that the processor counts.
    pub misses: u64,
}

impl WorkCounts {
    /// The counts since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            instructions: self.instructions.saturating_sub(before.instructions),
            cycles: self.cycles.saturating_sub(before.cycles),
            misses: self.misses.saturating_sub(before.misses),
        }
    }
}

impl WorkCounter {
    /// Starts counting the calling thread's work.
    ///
    /// # Errors
    /// If the machine has no such counters (many virtual machines), or rights are missing.
    pub fn open() -> Result<Self, OsError> {
        let failed = |e: std::io::Error| OsError::new("count instructions", e).needs("CAP_PERFMON");
        let one = |event: u32| {
            let mut attributes = attributes(event);
            attributes.set_inherit(0);
            attributes.set_exclude_kernel(1);
            open_event(&attributes, 0, -1).map_err(failed)
        };
        Ok(Self {
            events: [
                one(libbpf_sys::PERF_COUNT_HW_INSTRUCTIONS)?,
                one(libbpf_sys::PERF_COUNT_HW_CPU_CYCLES)?,
                one(libbpf_sys::PERF_COUNT_HW_CACHE_MISSES)?,
            ],
        })
    }

    /// The counts so far. Counters that had to share the hardware are scaled by the time that they had.
    ///
    /// # Errors
    /// If a counter cannot be read.
    pub fn read(&self) -> Result<WorkCounts, OsError> {
        let [instructions, cycles, misses] = &self.events;
        Ok(WorkCounts { instructions: read(instructions)?, cycles: read(cycles)?, misses: read(misses)? })
    }
}

fn attributes(event: u32) -> perf_event_attr {
    let mut attributes = perf_event_attr {
        type_: libbpf_sys::PERF_TYPE_HARDWARE,
        size: size_of::<perf_event_attr>() as u32,
        config: u64::from(event),
        read_format: u64::from(
            libbpf_sys::PERF_FORMAT_TOTAL_TIME_ENABLED | libbpf_sys::PERF_FORMAT_TOTAL_TIME_RUNNING,
        ),
        ..perf_event_attr::default()
    };
    // Threads that the process starts later count too.
    attributes.set_inherit(1);
    attributes
}

/// Reads `{ u64 value; u64 time_enabled; u64 time_running; }`.
fn read(event: &OwnedFd) -> Result<u64, OsError> {
    let mut bytes = [0; 24];
    rustix::io::read(event, &mut bytes).map_err(|e| OsError::new("read a counter of cache misses", e))?;
    let [value, enabled, running] =
        [0, 8, 16].map(|at| bytes[at..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word)));
    match running {
        0 => Ok(0),
        running => Ok((u128::from(value) * u128::from(enabled) / u128::from(running)) as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn cache_misses_of_this_process_are_counted() {
        let name = "cache_misses_of_this_process_are_counted";
        if !testing::privileged(name) {
            return;
        }
        let counter = match CacheCounter::open(&[std::process::id()]) {
            Ok(counter) => counter,
            Err(why) => return testing::skip(name, why),
        };
        let before = counter.read().expect("read");
        let large: Vec<u64> = (0..1 << 20).collect();
        assert!(large.iter().sum::<u64>() > 0);
        let counts = counter.read().expect("read").since(&before);
        // The thread that counts is the process's first, which may have slept meanwhile.
        assert!(counts.miss_rate().is_none_or(|rate| (0.0..=1.5).contains(&rate)), "{counts:?}");
        assert_eq!(CacheCounts::default().miss_rate(), None);
    }

    #[test]
    fn work_of_this_thread_is_counted() {
        let name = "work_of_this_thread_is_counted";
        let counter = match WorkCounter::open() {
            Ok(counter) => counter,
            Err(why) => return testing::skip(name, why),
        };
        let before = counter.read().expect("read");
        let sum: u64 = std::hint::black_box((0..100_000_u64).map(std::hint::black_box)).sum();
        let counts = counter.read().expect("read").since(&before);
        assert!(sum > 0 && counts.instructions >= 100_000, "{counts:?}");
    }
}
