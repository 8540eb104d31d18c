//! A survey of the host: available features, missing features, and the use of each.
//!
//! Each feature is found by reading the system or by trying it, in a scratch namespace that is removed afterwards. The survey
//! also works without capabilities: features that cannot be tried are then reported missing, with the reason.

mod kernel;
mod network;

use std::fmt;

use crate::programs;
use crate::rights;
use rustix::thread::CapabilitySet;

/// A feature of the host that weftline can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facility {
    /// A stable name, for scripts: "macvtap", "program.iperf3".
    pub id: &'static str,
    /// Its title, for people.
    pub title: &'static str,
    /// Whether it is available.
    pub state: State,
    /// Its use.
    pub brings: &'static str,
    /// The way to enable it if it is missing.
    pub remedy: &'static str,
}

/// The availability of a feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is available, and worked where it was tried. The text has details and may be empty.
    Present(String),
    /// It is available in part.
    Limited(String),
    /// It is missing or could not be tried, for this reason.
    Missing(String),
}

impl State {
    /// Available, without details.
    pub const PRESENT: State = State::Present(String::new());

    /// Whether it is at least partly available.
    pub fn usable(&self) -> bool {
        !matches!(self, State::Missing(_))
    }

    fn tried<T, E: fmt::Display>(result: Result<T, E>) -> State {
        match result {
            Ok(_) => State::PRESENT,
            Err(e) => State::Missing(e.to_string()),
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, text) = match self {
            State::Present(text) => ("present", text),
            State::Limited(text) => ("limited", text),
            State::Missing(text) => ("missing", text),
        };
        if text.is_empty() { f.write_str(word) } else { write!(f, "{word}: {text}") }
    }
}

/// Surveys the host. Takes a few tens of milliseconds and never fails.
pub fn survey() -> Vec<Facility> {
    let mut facilities = kernel::survey();
    facilities.extend(survey_rights());
    facilities.extend(network::survey());
    facilities.extend(survey_programs());
    facilities
}

fn survey_rights() -> Vec<Facility> {
    let held = rights::effective();
    let state = |capability: CapabilitySet| {
        // CAP_SYS_ADMIN implies CAP_BPF, as before Linux 5.8.
        let implied = capability == CapabilitySet::BPF && held.contains(CapabilitySet::SYS_ADMIN);
        match held.contains(capability) || implied {
            true => State::PRESENT,
            false => State::Missing("this process does not have it".to_string()),
        }
    };
    let remedy = "run as root";
    let right =
        |id, title, capability, brings| Facility { id, title, state: state(capability), brings, remedy };
    vec![
        right("rights.net_admin", "CAP_NET_ADMIN", CapabilitySet::NET_ADMIN, "making and configuring links"),
        right("rights.sys_admin", "CAP_SYS_ADMIN", CapabilitySet::SYS_ADMIN, "making network namespaces"),
        right("rights.bpf", "CAP_BPF", CapabilitySet::BPF, "loading eBPF programs"),
    ]
}

/// The programs in the survey: id, title, use, remedy. The program's name is the id without "program.".
const PROGRAMS: [(&str, &str, &str, &str); 12] = [
    ("program.iperf3", "iperf3", "bulk TCP and UDP traffic for measurements", "apt-get install iperf3"),
    ("program.sockperf", "sockperf", "latency of small messages", "apt-get install sockperf"),
    ("program.memcached", "memcached", "a key-value store as a workload", "apt-get install memcached"),
    ("program.tshark", "tshark", "an independent reader of what we capture", "apt-get install tshark"),
    ("program.tcpreplay", "tcpreplay", "replaying captures", "apt-get install tcpreplay"),
    ("program.ethtool", "ethtool", "looking at NICs", "apt-get install ethtool"),
    ("program.ip", "ip (iproute2)", "looking at links and namespaces", "apt-get install iproute2"),
    ("program.tc", "tc (iproute2)", "looking at qdiscs", "apt-get install iproute2"),
    ("program.clang", "clang", "building the eBPF programs", "apt-get install clang"),
    ("program.bpftool", "bpftool", "looking at eBPF programs and maps", "apt-get install bpftool"),
    ("program.perf", "perf", "where the CPU's time goes", "apt-get install linux-perf"),
    ("program.qemu-system-x86_64", "QEMU", "trying newer kernels", "apt-get install qemu-system-x86"),
];

fn survey_programs() -> Vec<Facility> {
    PROGRAMS
        .into_iter()
        .map(|(id, title, brings, remedy)| {
            let state = match programs::find(id.strip_prefix("program.").unwrap_or(id)) {
                Some(path) => State::Present(path.display().to_string()),
                None => State::Missing("not installed".to_string()),
            };
            Facility { id, title, state, brings, remedy }
        })
        .collect()
}
