//! What this host offers, what is missing, and what each thing would bring.
//!
//! Everything is found out by looking or by trying, in a scratch namespace that is gone afterwards. It works without
//! any rights too: what could then not be tried is reported missing, with the reason.

mod kernel;
mod network;

use std::fmt;

use crate::programs;
use crate::rights;
use rustix::thread::CapabilitySet;

/// Something of the host that weftline can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facility {
    /// A stable name, for scripts: "macvtap", "program.iperf3".
    pub id: &'static str,
    /// What it is, for people.
    pub title: &'static str,
    /// Whether it is there.
    pub state: State,
    /// What it brings, or would bring.
    pub brings: &'static str,
    /// How to get it where it is missing.
    pub remedy: &'static str,
}

/// Whether a facility is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is there and worked where it was tried; a text says more, or is empty.
    Present(String),
    /// It is there, but not all of it.
    Limited(String),
    /// It is not there, or could not be tried, for this reason.
    Missing(String),
}

impl State {
    /// Present, with nothing more to say.
    pub const PRESENT: State = State::Present(String::new());

    /// True unless it is missing.
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

/// Looks at everything. Takes a few tens of milliseconds and never fails.
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
        // Before Linux 5.8, and still, CAP_SYS_ADMIN implies CAP_BPF.
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

/// The programs worth reporting: id, title, what they bring, remedy. The name is the id without "program.".
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
