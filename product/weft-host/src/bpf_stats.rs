//! Run-time statistics of eBPF programs: the number of runs and their time.

use std::os::fd::{FromRawFd, OwnedFd};

use crate::error::OsError;

/// `BPF_ENABLE_STATS` of `enum bpf_cmd`.
const BPF_ENABLE_STATS: libc::c_long = 32;
/// `BPF_STATS_RUN_TIME` of `enum bpf_stats_type`.
const BPF_STATS_RUN_TIME: u32 = 0;

/// A request for statistics. While one exists, the kernel counts the runs of every eBPF program and their time (`run_cnt`,
/// `run_time_ns` in the program's information), which costs about 20 ns per run.
#[derive(Debug)]
pub struct BpfStats {
    _enabled: OwnedFd,
}

impl BpfStats {
    /// Turns the statistics on for the whole host until the value is dropped. Requests of other processes are
    /// independent.
    pub fn enable() -> Result<BpfStats, OsError> {
        enable_stats().map(|fd| BpfStats { _enabled: fd }).map_err(|e| {
            let error =
                OsError::new("enable the run-time statistics of eBPF programs", e).needs("CAP_SYS_ADMIN");
            match error.errno() {
                Some(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => error.remedy(
                    "this kernel is older than 5.8 or has no eBPF; use sysctl kernel.bpf_stats_enabled=1",
                ),
                _ => error,
            }
        })
    }
}

fn enable_stats() -> std::io::Result<OwnedFd> {
    let attribute: u32 = BPF_STATS_RUN_TIME;
    // SAFETY: bpf(BPF_ENABLE_STATS, attr, size) reads `size` bytes at `attr`, a live u32 that is
    // `union bpf_attr`'s `enable_stats.type`; the kernel takes shorter attributes as padded with zeros.
    let fd =
        unsafe { libc::syscall(libc::SYS_bpf, BPF_ENABLE_STATS, &raw const attribute, size_of::<u32>()) };
    match libc::c_int::try_from(fd) {
        // SAFETY: the call has just returned this new descriptor, which nothing else owns. The kernel sets
        // close-on-exec on it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn statistics_can_be_turned_on() {
        if !testing::privileged("statistics_can_be_turned_on") {
            return;
        }
        BpfStats::enable().expect("enable");
    }
}
