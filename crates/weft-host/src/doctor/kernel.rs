//! The kernel itself: release, cores, cgroups, eBPF.

use std::fs;

use super::{Facility, State};
use crate::bpf_stats::BpfStats;
use crate::cgroup::Hierarchy;
use crate::sysctl::release;

const BTF: &str = "/sys/kernel/btf/vmlinux";
/// The type that the kernel creates for eBPF qdiscs; present in BTF if and only if CONFIG_NET_SCH_BPF is set.
const BPF_QDISC_TYPE: &[u8] = b"\0bpf_struct_ops_Qdisc_ops\0";

pub(super) fn survey() -> Vec<Facility> {
    let btf = fs::read(BTF);
    vec![
        Facility {
            id: "kernel",
            title: "Linux kernel",
            state: kernel(&release()),
            brings: "everything",
            remedy: "use Linux 6.1 or later",
        },
        Facility {
            id: "cores",
            title: "CPU cores",
            state: cores(),
            brings: "sender, software NIC and receiver beside each other",
            remedy: "use a host with 4 or more cores; with fewer, rates are lower and latencies longer",
        },
        Facility {
            id: "cgroup2",
            title: "control groups, version 2",
            state: match Hierarchy::detect() {
                Ok(hierarchy) => State::Present(hierarchy.mount_point().display().to_string()),
                Err(e) => State::Missing(e.to_string()),
            },
            brings: "classes by cgroup, and ending all programs of a run",
            remedy: "mount -t cgroup2 none /sys/fs/cgroup",
        },
        Facility {
            id: "btf",
            title: "kernel type information (BTF)",
            state: match &btf {
                Ok(bytes) => State::Present(format!("{} KiB", bytes.len() >> 10)),
                Err(e) => State::Missing(format!("{BTF}: {}", crate::error::errno_text(e))),
            },
            brings: "eBPF programs that fit this kernel without being rebuilt",
            remedy: "use a kernel with CONFIG_DEBUG_INFO_BTF",
        },
        Facility {
            id: "bpf-qdisc",
            title: "qdiscs written in eBPF",
            state: match btf {
                Ok(bytes) if contains(&bytes, BPF_QDISC_TYPE) => State::PRESENT,
                Ok(_) => State::Missing(format!("kernel {} was built without it", release())),
                Err(_) => State::Missing("without BTF it cannot be used".to_string()),
            },
            brings: "the policy carried out in the kernel itself",
            remedy: "use Linux 6.16 or later with CONFIG_NET_SCH_BPF",
        },
        Facility {
            id: "bpf-stats",
            title: "run-time statistics of eBPF programs",
            state: State::tried(BpfStats::enable()),
            brings: "the cost of classification, in ns for each packet",
            remedy: "run as root on Linux 5.8 or later",
        },
    ]
}

fn kernel(release: &str) -> State {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    match version {
        (6.., 1..) | (7.., _) => State::Present(release.to_string()),
        _ => State::Limited(format!("{release} is older than what this was tried on (6.1)")),
    }
}

fn cores() -> State {
    match std::thread::available_parallelism().map_or(1, usize::from) {
        1 => State::Limited("1: sender, software NIC and receiver take turns".to_string()),
        few @ 2..4 => State::Limited(format!("{few}: the parts of a measured path share them")),
        many => State::Present(many.to_string()),
    }
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_told_apart() {
        for release in ["6.1.0-18-amd64", "6.18.44", "7.0.0", "10.2-rc1"] {
            assert_eq!(kernel(release), State::Present(release.to_string()));
        }
        for release in ["6.0.19", "5.15.0-91-generic", "?"] {
            assert!(matches!(kernel(release), State::Limited(_)), "{release}");
        }
    }
}
