//! The socket option for the deadline and the size of an application's message (`bpf/message.bpf.c`).
//!
//! The program is attached to the root of the cgroup hierarchy that this process sees, and only while an algorithm in force reads
//! its values; then every process below, whatever its rights, may set the option. What it sets is kept with the socket, in a map
//! that all ports' programs read.
//!
//! Without the kernel's type information, cgroup2 or the right to read a socket's field, the option is not offered, and
//! [`MessageOption::missing`] says why. Nothing else depends on it.

use super::fields::{self, KernelFields};
use crate::layout::Reads;
use std::sync::{Mutex, PoisonError};
use weft_host::bpf::{BpfError, CgroupLink, MapFd, Object, ObjectOptions};
use weft_host::cgroup::{CgroupError, Hierarchy};

/// The compiled eBPF object, built from `bpf/` by this crate's build script.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/message.bpf.o"));

/// The program's name.
const PROGRAM: &str = "weft_setsockopt";
/// The map of the sockets' messages.
pub(super) const MAP: &str = "messages";

/// The option, whether it is offered now or not.
#[derive(Debug)]
pub(super) struct MessageOption {
    program: Result<Object, BpfError>,
    offered: Mutex<Offer>,
}

#[derive(Debug)]
enum Offer {
    /// No algorithm reads its values.
    NotNeeded,
    /// It is offered until the link is dropped.
    Open(#[expect(dead_code, reason = "held for its drop")] CgroupLink),
    /// It cannot be offered, for this reason.
    Refused(OfferError),
}

/// An error of offering the option.
#[derive(Debug, thiserror::Error)]
enum OfferError {
    /// The program is not loaded.
    #[error("{0}")]
    Program(String),
    /// The kernel refuses to attach it.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// There is no cgroup to attach it to.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
}

impl MessageOption {
    /// Loads the program, which keeps messages in `map`.
    pub(super) fn load(map: &MapFd) -> Self {
        Self { program: load(map), offered: Mutex::new(Offer::NotNeeded) }
    }

    /// The offsets of the fields that the programs of ports read.
    pub(super) fn kernel_fields(&self) -> KernelFields {
        // What the option's program may read, those of the ports may, too.
        self.program.as_ref().map(|_| fields::of_kernel()).unwrap_or_default()
    }

    /// Offers the option if it gives anything of `reads`, and withdraws it otherwise.
    pub(super) fn offer(&self, reads: Reads) {
        let mut offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        *offered = match (!reads.reads_messages(), &*offered) {
            (true, _) => Offer::NotNeeded,
            (false, Offer::Open(_)) => return,
            (false, _) => self.attach().map_or_else(Offer::Refused, Offer::Open),
        };
    }

    fn attach(&self) -> Result<CgroupLink, OfferError> {
        let program = self.program.as_ref().map_err(|error| OfferError::Program(error.to_string()))?;
        let hierarchy = Hierarchy::detect()?;
        Ok(program.attach_cgroup(PROGRAM, hierarchy.mount_point())?)
    }

    /// The reason that it is not offered, although it is needed.
    pub(super) fn missing(&self) -> Option<String> {
        match &*self.offered.lock().unwrap_or_else(PoisonError::into_inner) {
            Offer::Refused(why) => Some(why.to_string()),
            Offer::NotNeeded | Offer::Open(_) => None,
        }
    }
}

fn load(map: &MapFd) -> Result<Object, BpfError> {
    let [write_sequence, _] = fields::of_sockets()?;
    let config = write_sequence.to_ne_bytes();
    let reuse = [(MAP, map)];
    let options =
        ObjectOptions { name: "message", rodata: Some(&config), reuse: &reuse, ..ObjectOptions::default() };
    Object::load_with(OBJECT, &options)
}
