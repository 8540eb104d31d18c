//! Whether the kernel shows tracing programs all that happens.
//!
//! Departures by tracepoints rest on it. The kernel counts the events that it keeps from a program because the same one is running on
//! the core (`recursion_misses`); others it may keep back without a count. On one host no tracing program ran in interrupts
//! that came while a thread of process 1 had the core. So a test that wants exact counts watches a device beside it: what the device has received, by
//! its own count, against what a tracing program was shown of it.

use weft_host::bpf::{BpfError, MapFd, Object, TracingLink, program_info};
use weft_host::link::{self, LinkError};
use weft_host::netns::{NetNs, NetNsError};
use weft_units::Packets;

static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tracing_check.bpf.o"));

/// Why it cannot be said.
#[derive(Debug, thiserror::Error)]
pub enum TracingCheckError {
    /// The program.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The device.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Its namespace.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
}

/// A device that is watched.
#[derive(Debug)]
pub struct TracingCheck {
    ns: NetNs,
    device: String,
    before: Packets,
    seen: MapFd,
    link: TracingLink,
    _object: Object,
}

impl TracingCheck {
    /// Watches the packets that `device` of `ns` receives from now on. Nothing may be under way to it.
    ///
    /// # Errors
    /// When there is no such device, or the kernel refuses the program.
    pub fn attach(ns: &NetNs, device: &str) -> Result<Self, TracingCheckError> {
        let index = link::index(ns, device)?;
        // The kernel's numbers of namespaces have 32 bits (`struct ns_common`).
        let netns = ns.inode()? as u32;
        let mut config = index.to_ne_bytes().to_vec();
        config.extend(netns.to_ne_bytes());
        let object = Object::load(PROGRAM, &config)?;
        let link = object.attach_tracing("weft_received")?;
        Ok(Self {
            ns: ns.handle()?,
            device: device.to_owned(),
            before: link::stats(ns, device)?.rx_packets,
            seen: object.map_fd("seen")?,
            link,
            _object: object,
        })
    }

    /// Packets that the device has received and the program was not shown. Right when nothing is under way.
    ///
    /// # Errors
    /// When the device is gone.
    pub fn unreported(&self) -> Result<Packets, TracingCheckError> {
        let received = link::stats(&self.ns, &self.device)?.rx_packets.saturating_sub(self.before);
        Ok(received.saturating_sub(self.seen()?))
    }

    /// The value of the program's only map: 64 bits in the host's order.
    fn seen(&self) -> Result<Packets, BpfError> {
        let value = self.seen.lookup(&0u32.to_ne_bytes())?.unwrap_or_default();
        Ok(Packets(value.first_chunk().copied().map_or(0, u64::from_ne_bytes)))
    }

    /// Those of them that the kernel says it kept back, because the program was running on the core.
    ///
    /// # Errors
    /// When the kernel does not tell of the program.
    pub fn counted_as_missed(&self) -> Result<Packets, TracingCheckError> {
        Ok(Packets(program_info(self.link.program_id()?)?.recursion_misses))
    }
}
