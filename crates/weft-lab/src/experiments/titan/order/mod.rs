//! Whether packets of a flow overtake each other, and where.
//!
//! An [`OrderCheck`] is an eBPF program at one hook of one device (`bpf/order.bpf.c`). It reads the number that a connected
//! socket gives each packet in the IPv4 header's identification field (`ip_select_ident_segs`, include/net/ip.h) and counts
//! those that come behind a higher one of their five-tuple. Several checks along a path are [`Stages`]: the first with a late
//! packet is behind where it was overtaken.
//!
//! # What is judged
//! IPv4 TCP and UDP of connected sockets of the sender. UDP sockets that are not connected number by other rules, and a
//! five-tuple that a new UDP socket takes over begins at another number: neither may be on the path. Differences are signed and
//! of 16 bits, so a packet must not be overtaken by 2^15 or more of its flow; windows and socket buffers are far smaller.
//!
//! # Room
//! A check remembers [`FLOWS`] flows at most. A flow for which there is no room is not judged; its packets are counted
//! as [`Counts::beyond`]. [`OrderCheck::forget_closed`] makes room.

pub(crate) mod experiment;
mod page;
mod run;
mod stages;

use core::sync::atomic::Ordering;
use core::time::Duration;
pub use page::{EXAMPLES, FLOWS};
use page::{Held, Page};
pub use run::{OrderReport, OrderRunError, OrderSettings, Progress, run};
pub use stages::{Device, Path, Stage, StageReport, Stages};
use weft_host::bpf::{BpfError, Object, SharedValue, Table};
use weft_host::{NetNs, clock, link, netns::NetNsError};
use weft_units::{Bytes, FlowKey, Instant, Packets};

/// The compiled program.
static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/order.bpf.o"));

/// What can go wrong with an order check.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// The eBPF program.
    #[error("order check: {0}")]
    Bpf(#[from] BpfError),
    /// The device.
    #[error("order check: {0}")]
    Link(#[from] link::LinkError),
    /// Its namespace.
    #[error("order check: {0}")]
    NetNs(#[from] NetNsError),
}

/// The hook of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hook {
    /// What the device receives, before the stack has it.
    Ingress,
    /// What is sent to the device, before its qdisc.
    Egress,
}

/// What a check has counted. Packets are segments: one of a super-packet counts as many as it will be cut into.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Judged.
    pub packets: Packets,
    /// Frame bytes of the judged, before segmentation.
    pub bytes: Bytes,
    /// Overtaken by a packet of their flow before they came here.
    pub late: Packets,
    /// Two cores had packets of one flow in the check at the same time, and the lock let the later one first: whether the path
    /// would have is unknown here; a stage further on tells.
    pub at_once: Packets,
    /// Numbers that were skipped: of late packets, and of those that never came.
    pub gaps: u64,
    /// Without a number of a socket, hence not judged: SYN-ACKs, resets and acknowledgements that no socket has sent, fragments.
    pub unnumbered: u64,
    /// Of flows for which there was no room, hence not judged.
    pub beyond: Packets,
    /// Flows; a five-tuple that closes and is used again counts again.
    pub flows: u64,
}

/// A packet that was overtaken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LatePacket {
    /// Its flow.
    pub flow: FlowKey,
    /// When it came, on the monotonic clock.
    pub at: Instant,
    /// When the one that had overtaken it was recorded.
    pub overtaken_at: Instant,
    /// The core on which it came.
    pub cpu: u32,
    /// The core of the one that had overtaken it.
    pub overtaken_on: u32,
    /// The number that was expected at least.
    pub expected: u16,
    /// The number it has.
    pub seen: u16,
    /// Its segments.
    pub segments: u32,
    /// `skb->hash`, which says its queue, as it came to the hook. 0: none.
    pub hash: u32,
}

/// A check at one hook. The program stays at the device after the value is dropped and goes away with the device.
#[derive(Debug)]
pub struct OrderCheck {
    page: SharedValue<Page>,
    held: SharedValue<Held>,
    flows: Table,
    _object: Object,
}

impl OrderCheck {
    /// Attaches a check to `link` of `ns`. Programs that are attached later run before it, and one that does not answer
    /// `TC_ACT_UNSPEC` keeps packets from it: attach it last.
    ///
    /// # Errors
    /// When there is no such link, or the kernel refuses the program.
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

    /// What has been counted so far.
    pub fn counts(&self) -> Counts {
        let page = &*self.page;
        let get = |count: &core::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        Counts {
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

    /// The first late packets, at most [`EXAMPLES`].
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

    /// Five-tuples that are in the table now.
    pub fn remembered(&self) -> u64 {
        self.held.0.load(Ordering::Relaxed)
    }

    /// Forgets the flows that have sent a FIN or a reset and nothing for `idle` since. Returns how many. Packets that are later
    /// still begin a series of their own and are not judged late: `idle` must be longer than a packet can be under way.
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
