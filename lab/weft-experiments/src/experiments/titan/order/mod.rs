//! A check for packets of a flow that overtake each other, and for the place where they do.
//!
//! An [`OrderCheck`] is an eBPF program at one hook of one device (`bpf/order.bpf.c`). It reads the number that a
//! connected socket gives each packet in the IPv4 header's identification field (`ip_select_ident_segs`,
//! include/net/ip.h) and counts those that arrive after a higher one of their five-tuple. Several checks along a path
//! are [`Stages`]: the first with a late packet follows the place of the overtaking.
//!
//! # Checked packets
//! IPv4 TCP and UDP of connected sockets of the sender. Unconnected UDP sockets number by other rules, and a
//! five-tuple that a new UDP socket takes over starts at another number: neither may be on the path. Differences are
//! signed and of 16 bits, so a packet must not be overtaken by 2^15 or more of its flow; windows and socket buffers
//! are far smaller.
//!
//! # Capacity
//! A check remembers at most [`FLOWS`] flows. Packets of further flows are not checked but counted as
//! [`OrderCounts::beyond`]. [`OrderCheck::forget_closed`] frees entries.

pub(crate) mod experiment;
mod page;
mod policy;
mod run;
mod stages;

use core::sync::atomic::Ordering;
use core::time::Duration;
pub use page::{EXAMPLES, FLOWS};
use page::{Held, Page};
pub use run::{OrderProgress, OrderReport, OrderRunError, OrderSettings, run};
pub use stages::{NamespacedDevice, OrderStage, PacketPath, StageReport, Stages};
use weft_host::bpf::{BpfError, Object, SharedValue, Table};
use weft_host::{NetNs, clock, link, netns::NetNsError};
use weft_units::{Bytes, FlowKey, Instant, Packets};

/// The compiled program.
static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/order.bpf.o"));

/// Errors of an order check.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// The eBPF program could not be loaded.
    #[error("order check: {0}")]
    Bpf(#[from] BpfError),
    /// A step on the device failed.
    #[error("order check: {0}")]
    Link(#[from] link::LinkError),
    /// A step on the namespace failed.
    #[error("order check: {0}")]
    NetNs(#[from] NetNsError),
}

/// The hooks of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hook {
    /// Packets that the device receives, before the stack.
    Ingress,
    /// Packets sent to the device, before its qdisc.
    Egress,
}

/// Counts of a check. Packets are segments: a super-packet counts as the number of its segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OrderCounts {
    /// Packets checked.
    pub packets: Packets,
    /// Frame bytes of the packets checked, before segmentation.
    pub bytes: Bytes,
    /// Packets overtaken by a packet of their flow before this hook.
    pub late: Packets,
    /// Packets of one flow that two cores had in the check at the same time, where the lock let the later one pass
    /// first. Whether the path would have is unknown here; a later stage shows it.
    pub at_once: Packets,
    /// Numbers skipped: those of late packets, and of packets that never arrived.
    pub gaps: u64,
    /// Packets without a socket's number, hence not checked: SYN-ACKs, resets and acknowledgements sent by no socket,
    /// fragments.
    pub unnumbered: u64,
    /// Packets of flows beyond the capacity, hence not checked.
    pub beyond: Packets,
    /// Flows; a five-tuple that closes and is used again counts again.
    pub flows: u64,
}

/// An overtaken packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LatePacket {
    /// The flow.
    pub flow: FlowKey,
    /// Time of arrival, on the monotonic clock.
    pub at: Instant,
    /// Time at which the overtaking packet was recorded.
    pub overtaken_at: Instant,
    /// The core on which it arrived.
    pub cpu: u32,
    /// The core of the overtaking packet.
    pub overtaken_on: u32,
    /// The least expected number.
    pub expected: u16,
    /// The packet's number.
    pub seen: u16,
    /// The number of its segments.
    pub segments: u32,
    /// `skb->hash` at the hook, which selects the queue; 0 if unset.
    pub hash: u32,
}

/// A check at one hook. The program stays at the device after the value is dropped, and is removed with the device.
#[derive(Debug)]
pub struct OrderCheck {
    page: SharedValue<Page>,
    held: SharedValue<Held>,
    flows: Table,
    _object: Object,
}

impl OrderCheck {
    /// Attaches a check to `link` of `ns`. It must be attached last: programs attached later run before it, and one
    /// that returns anything but `TC_ACT_UNSPEC` hides packets from it.
    ///
    /// # Errors
    /// Fails when the link does not exist, or the kernel refuses the program.
    pub fn attach(ns: &NetNs, link: &str, hook: Hook) -> Result<Self, OrderError> {
        Self::attach_bounded(ns, link, hook, FLOWS)
    }

    fn attach_bounded(ns: &NetNs, link: &str, hook: Hook, flows: u64) -> Result<Self, OrderError> {
        let index = link::index(ns, link)?;
        let object = Object::load(PROGRAM, &flows.min(FLOWS).to_ne_bytes())?;
        ns.run(|| match hook {
            Hook::Ingress => object.attach_ingress("weft_order", index),
            Hook::Egress => object.attach_egress("weft_order", index),
        })??;
        let (page, held) = (object.shared("order")?, object.shared("order_held")?);
        Ok(Self { page, held, flows: object.table("order_flows")?, _object: object })
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> OrderCounts {
        let page = &*self.page;
        let get = |count: &core::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        OrderCounts {
            packets: Packets(get(&page.packets)),
            bytes: Bytes(get(&page.bytes)),
            late: Packets(get(&page.late)),
            at_once: Packets(get(&page.at_once)),
            gaps: get(&page.gaps),
            unnumbered: get(&page.unnumbered),
            beyond: Packets(get(&page.beyond)),
            flows: get(&page.flows),
        }
    }

    /// Returns the first late packets, at most [`EXAMPLES`].
    pub fn late(&self) -> Vec<LatePacket> {
        let complete = self.page.examples.iter().filter(|e| e.complete.load(Ordering::Acquire) != 0);
        let read = complete.map(|e| LatePacket {
            flow: e.flow(),
            at: Instant::from_nanos(e.time_ns.load(Ordering::Relaxed)),
            overtaken_at: Instant::from_nanos(e.seen_ns.load(Ordering::Relaxed)),
            cpu: e.cpu.load(Ordering::Relaxed),
            overtaken_on: e.seen_cpu.load(Ordering::Relaxed),
            expected: e.expected.load(Ordering::Relaxed),
            seen: e.id.load(Ordering::Relaxed),
            segments: e.segments.load(Ordering::Relaxed),
            hash: e.hash.load(Ordering::Relaxed),
        });
        read.collect()
    }

    /// Returns the number of five-tuples in the table.
    pub fn remembered(&self) -> u64 {
        self.held.0.load(Ordering::Relaxed)
    }

    /// Removes the flows that sent a FIN or a reset and nothing for `idle` since. Returns their number. Even later
    /// packets begin a new series and are not checked against the old one, so `idle` must exceed a packet's longest
    /// transit.
    pub fn forget_closed(&self, idle: Duration) -> u64 {
        let before = clock::now().saturating_sub(idle.into()).as_nanos();
        let mut forgotten = 0;
        self.flows.retain(0, FLOWS as usize, |_, value| {
            let old = page::entry(value).is_some_and(|(closed, last)| closed && last < before);
            forgotten += u64::from(old);
            !old
        });
        self.held.0.fetch_sub(forgotten, Ordering::Relaxed);
        forgotten
    }
}

#[cfg(test)]
mod tests;
