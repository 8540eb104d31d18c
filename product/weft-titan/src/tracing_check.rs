//! A check that the kernel reports all events to tracing programs.
//!
//! Departures by tracepoints depend on it. The kernel counts the events that it withholds because the same program is
//! running on the core (`recursion_misses`); it may withhold others without counting them. On one host no tracing
//! program ran in interrupts that arrived while a thread of process 1 had the core. A test that needs exact counts
//! therefore watches a second device. It compares the packets that the device received, by its own counter, with those
//! reported to a tracing program.

use weft_host::bpf::{BpfError, MapFd, Object, TracingLink, program_info};
use weft_host::link::{self, LinkError};
use weft_host::netns::{NetNs, NetNsError};
use weft_units::Packets;

static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tracing_check.bpf.o"));

/// Errors of the check.
#[derive(Debug, thiserror::Error)]
pub enum TracingCheckError {
    /// The program failed to load or attach.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The device failed.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The device's namespace failed.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
}

/// A watched device.
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
    /// Watches the packets that `device` of `ns` receives from now on. No packet may be on its way to the device.
    ///
    /// # Errors
    /// When the device does not exist, or the kernel rejects the program.
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

    /// The number of packets that the device received and the program did not see. Exact when no packet is on its way.
    ///
    /// # Errors
    /// When the device no longer exists.
    pub fn unreported(&self) -> Result<Packets, TracingCheckError> {
        let received = link::stats(&self.ns, &self.device)?.rx_packets.saturating_sub(self.before);
        Ok(received.saturating_sub(self.seen()?))
    }

    /// The value of the program's only map: 64 bits in the host's order.
    fn seen(&self) -> Result<Packets, BpfError> {
        let value = self.seen.lookup(&0u32.to_ne_bytes())?.unwrap_or_default();
        Ok(Packets(value.first_chunk().copied().map_or(0, u64::from_ne_bytes)))
    }

    /// The number of these that the kernel reports as withheld, because the program was running on the core.
    ///
    /// # Errors
    /// When the kernel cannot be queried for the program.
    pub fn counted_as_missed(&self) -> Result<Packets, TracingCheckError> {
        Ok(Packets(program_info(self.link.program_id()?)?.recursion_misses))
    }
}
