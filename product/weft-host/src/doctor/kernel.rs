//! The kernel itself: release, cores, cgroups, eBPF.

use std::{fs, io};

use super::{Facility, State};
use crate::bpf_stats::BpfStats;
use crate::cgroup::Hierarchy;
use crate::sysctl::release;

const BTF: &str = "/sys/kernel/btf/vmlinux";
/// The type that the kernel creates for eBPF qdiscs; present in BTF if and only if CONFIG_NET_SCH_BPF is set.
const BPF_QDISC_TYPE: &[u8] = b"\0bpf_struct_ops_Qdisc_ops\0";

pub(super) fn survey() -> Vec<Facility> {
    let btf = fs::read(BTF);
    let programs = cgroup_programs(&btf);
    let mut all = vec![
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
    ];
    all.extend(programs);
    all
}

/// The facilities of programs at cgroups.
fn cgroup_programs(types: &io::Result<Vec<u8>>) -> [Facility; 2] {
    let hierarchy = || Hierarchy::detect().map(drop).map_err(|e| e.to_string());
    let known = |unknown| types.as_ref().map(drop).map_err(|_| unknown);
    [
        Facility {
            id: "message-option",
            title: "messages told by a socket option",
            state: cgroup_program(
                known("the place of a message in a TCP stream is unknown"),
                hierarchy(),
                crate::bpf::has_socket_option_programs().map_err(|e| e.to_string()),
            ),
            brings: "deadlines and sizes of messages from applications, for algorithms that read them",
            remedy: "run as root on a kernel with CONFIG_CGROUP_BPF and CONFIG_DEBUG_INFO_BTF, with cgroup2 mounted",
        },
        Facility {
            id: "socket-makers",
            title: "processes that make sockets",
            state: cgroup_program(
                known("the place of a process's name is unknown"),
                hierarchy(),
                crate::bpf::has_new_socket_programs().map_err(|e| e.to_string()),
            ),
            brings: "classes by the name of a process",
            remedy: "run as root on a kernel with CONFIG_CGROUP_BPF and CONFIG_DEBUG_INFO_BTF, with cgroup2 mounted, or test cgroups",
        },
    ]
}

/// The state of what a program at a cgroup brings: it needs the kernel's types, or else something is unknown, a cgroup and its
/// program type.
fn cgroup_program(
    btf: Result<(), &str>,
    hierarchy: Result<(), String>,
    programs: Result<bool, String>,
) -> State {
    match (hierarchy, programs) {
        (Err(why), _) | (_, Err(why)) => State::Missing(why),
        (_, Ok(false)) => State::Missing("the kernel has no such programs at cgroups".to_string()),
        _ => btf.map_or_else(|unknown| State::Missing(format!("without BTF {unknown}")), |()| State::PRESENT),
    }
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
    fn what_a_program_at_a_cgroup_lacks_is_named() {
        let said = |btf, hierarchy: Result<(), &str>, programs: Result<bool, &str>| {
            let btf = if btf { Ok(()) } else { Err("the place is unknown") };
            cgroup_program(btf, hierarchy.map_err(str::to_string), programs.map_err(str::to_string))
                .to_string()
        };
        assert_eq!(said(true, Ok(()), Ok(true)), "present");
        assert_eq!(said(true, Err("no cgroup2"), Ok(true)), "missing: no cgroup2");
        assert_eq!(said(true, Ok(()), Err("it needs root")), "missing: it needs root");
        assert!(said(true, Ok(()), Ok(false)).contains("no such programs at cgroups"));
        assert!(said(false, Ok(()), Ok(true)).contains("without BTF"));
    }

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
