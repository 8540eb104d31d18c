//! Linux as weftline uses it: namespaces, links, cgroups, processes, eBPF programs. Independent of policies.
//!
//! Each module is one kind of kernel object. A module removes what it created when the value is dropped, and never removes
//! anything else. A killed run leaves objects behind whose names carry its process ([`RunId`]); the next run removes
//! exactly those ([`cleanup_stale`]).
//!
//! Errors name the action, its object, the kernel's answer and a remedy.

pub mod affinity;
pub mod bpf;
pub mod bpf_stats;
pub mod bpffs;
pub mod caches;
pub mod cgroup;
pub mod cleanup;
pub mod clock;
pub mod cpus;
pub mod descriptors;
pub mod device_record;
pub mod doctor;
pub mod error;
pub mod ethtool;
pub mod kallsyms;
pub mod keeper;
pub mod life;
pub mod link;
pub mod macvtap;
pub mod net_counters;
pub mod net_shaper;

pub mod net_cls;
mod netlink;
pub mod netns;
pub mod netns_number;
pub mod peer;
pub mod perf_event;
pub mod process;
pub mod programs;
pub mod rights;
pub mod rps;
pub mod run_id;
pub mod sock_diag;
pub mod store;
pub mod sysctl;
pub mod tap;
mod tap_queue;
pub mod tasks;
pub mod tc;
pub mod testing;
pub mod transmit;
pub mod users;
pub mod xps;

pub use cgroup::{Cgroup, Hierarchy};
pub use cleanup::cleanup_stale;
pub use error::OsError;
pub use link::Mac;
pub use netns::NetNs;
pub use process::{Process, Spawn};
pub use rights::{RightsError, require_network_rights};
pub use run_id::RunId;
