//! The owners of sockets (`bpf/process.bpf.c`, which calls them makers), for rows that test the process: the name of the process
//! that made the socket, as it was then. `xt_owner` of netfilter knows user and group alone.
//!
//! While a policy in force tests `process`, a program at the root of the cgroup hierarchy that this process sees notes the owner
//! of each socket, in a map that all ports' programs read. It is attached first; then an iterator runs once over all open files,
//! for the sockets that were there before. A name stays with its socket, so a change of the policy needs no new sockets.
//!
//! The kernel makes the subflows of MPTCP, and the program at the egress finds their owners by the connection's socket, where the
//! kernel shows it ([`with_mptcp`]).
//!
//! Without the kernel's type information, cgroup2 or the right to attach there, no owner is noted, rows that test one match
//! nothing, and [`SocketOwners::missing`] says why. Nothing else depends on it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use weft_host::bpf::{BpfError, CgroupLink, MapFd, Object, ObjectOptions, StructLayout};
use weft_host::cgroup::{CgroupError, Hierarchy};
use weft_packet::Attribute;
use weft_policy::CompiledPolicy;

/// The compiled eBPF object, built from `bpf/` by this crate's build script.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/process.bpf.o"));

/// The name of the program that sees new sockets.
const PROGRAM: &str = "weft_socket";
/// The name of the iterator over open files.
const OLDER: &str = "weft_older_socket";
/// The map of the sockets' owners. Kept descriptors have this name, also those of other versions.
pub(super) const MAP: &str = "makers";

/// The owners of sockets, whether they are noted now or not.
#[derive(Debug)]
pub(super) struct SocketOwners {
    map: MapFd,
    noting: Mutex<Noting>,
}

#[derive(Debug)]
enum Noting {
    /// No row tests them.
    NotNeeded,
    /// They are noted until the link is dropped.
    Attached(#[expect(dead_code, reason = "held for its drop")] CgroupLink),
    /// They cannot be noted, for this reason.
    Refused(NoteError),
}

/// An error of noting the owners of sockets.
#[derive(Debug, thiserror::Error)]
enum NoteError {
    /// The kernel refuses a program.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// There is no cgroup to attach it to.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
}

impl SocketOwners {
    /// The owners of sockets as `map` has them.
    pub(super) const fn over(map: MapFd) -> Self {
        Self { map, noting: Mutex::new(Noting::NotNeeded) }
    }

    /// Begins to note owners if rows of `policy` test them. To be called before its tables are in use.
    pub(super) fn begin(&self, policy: &CompiledPolicy) {
        let mut noting = self.noting.lock().unwrap_or_else(PoisonError::into_inner);
        if policy.tests(Attribute::Process) && !matches!(*noting, Noting::Attached(_)) {
            *noting = attach(&self.map).map_or_else(Noting::Refused, Noting::Attached);
        }
    }

    /// Ends to note owners if no row of `policy` tests them. To be called when its tables are in use.
    pub(super) fn end_unless_tested(&self, policy: &CompiledPolicy) {
        if !policy.tests(Attribute::Process) {
            *self.noting.lock().unwrap_or_else(PoisonError::into_inner) = Noting::NotNeeded;
        }
    }

    /// The reason that owners are not noted, although rows test them.
    pub(super) fn missing(&self) -> Option<String> {
        match &*self.noting.lock().unwrap_or_else(PoisonError::into_inner) {
            Noting::Refused(why) => Some(why.to_string()),
            Noting::Attached(_) if MPTCP_REFUSED.load(Ordering::Relaxed) => Some(
                "for sockets of MPTCP alone, since this kernel does not show programs their connections (Linux 5.19 does)"
                    .to_owned(),
            ),
            Noting::NotNeeded | Noting::Attached(_) => None,
        }
    }
}

/// Whether the kernel has MPTCP, but refused a program that requests a subflow's connection.
static MPTCP_REFUSED: AtomicBool = AtomicBool::new(false);

/// Loads the programs of a port, with the owners of MPTCP's subflows if the kernel has them. `load` takes whether to.
pub(super) fn with_mptcp<T>(load: impl Fn(bool) -> Result<T, BpfError>) -> Result<T, BpfError> {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    let known = *KNOWN.get_or_init(|| StructLayout::of_kernel("mptcp_sock").is_ok());
    if !known || MPTCP_REFUSED.load(Ordering::Relaxed) {
        return load(false);
    }
    load(true).or_else(|_| {
        let loaded = load(false)?;
        MPTCP_REFUSED.store(true, Ordering::Relaxed);
        Ok(loaded)
    })
}

fn attach(map: &MapFd) -> Result<CgroupLink, NoteError> {
    let reuse = [(MAP, map)];
    let options = ObjectOptions { name: "process", reuse: &reuse, ..ObjectOptions::default() };
    let object = Object::load_with(OBJECT, &options)?;
    let link = object.attach_cgroup(PROGRAM, Hierarchy::detect()?.mount_point())?;
    object.run_iterator(OLDER)?;
    Ok(link)
}
