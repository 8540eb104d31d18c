//! Memory shared between the order check and its eBPF program: `bpf/order.h` in Rust. Both sides assert the sizes.

use core::net::{IpAddr, Ipv6Addr};
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use weft_host::bpf::SharedLayout;
use weft_units::{FlowKey, Protocol};

/// The most late packets kept as examples (`WEFT_ORDER_EXAMPLES`).
pub const EXAMPLES: usize = 64;
/// The most flows that a check remembers (`WEFT_ORDER_FLOWS`).
pub const FLOWS: u64 = 131_072;

/// A late packet (`struct weft_order_example`).
#[repr(C)]
#[derive(Debug)]
pub(super) struct Example {
    src: [AtomicU32; 4],
    dst: [AtomicU32; 4],
    sport: AtomicU16,
    dport: AtomicU16,
    protocol: AtomicU8,
    is_ip: AtomicU8,
    pad: AtomicU16,
    pub(super) time_ns: AtomicU64,
    pub(super) seen_ns: AtomicU64,
    pub(super) hash: AtomicU32,
    pub(super) cpu: AtomicU32,
    pub(super) seen_cpu: AtomicU32,
    pub(super) expected: AtomicU16,
    pub(super) id: AtomicU16,
    pub(super) segments: AtomicU32,
    pub(super) complete: AtomicU32,
}

/// The counts (`struct weft_order_page`).
#[repr(C)]
#[derive(Debug)]
pub(super) struct Page {
    pub(super) packets: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) late: AtomicU64,
    pub(super) at_once: AtomicU64,
    pub(super) gaps: AtomicU64,
    pub(super) unnumbered: AtomicU64,
    pub(super) beyond: AtomicU64,
    pub(super) flows: AtomicU64,
    pub(super) examples_taken: AtomicU64,
    pad: [AtomicU64; 7],
    pub(super) examples: [Example; EXAMPLES],
}

/// The number of flows in the table.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Held(pub(super) AtomicU64);

const _: () = assert!(size_of::<Example>() == 80);
const _: () = assert!(size_of::<Page>() == 128 + 80 * EXAMPLES);

// SAFETY: repr(C), integer atomics only, and the layout of `struct weft_order_page` (sizes asserted on both sides).
unsafe impl SharedLayout for Page {}
// SAFETY: repr(C), one integer atomic, as the map's value is one __u64.
unsafe impl SharedLayout for Held {}

impl Example {
    /// Returns the flow. IPv4 addresses are stored as `::ffff:a.b.c.d`.
    pub(super) fn flow(&self) -> FlowKey {
        FlowKey {
            src: address(&self.src),
            dst: address(&self.dst),
            sport: self.sport.load(Ordering::Relaxed),
            dport: self.dport.load(Ordering::Relaxed),
            protocol: Protocol(self.protocol.load(Ordering::Relaxed)),
        }
    }
}

fn address(words: &[AtomicU32; 4]) -> IpAddr {
    let mut octets = [0; 16];
    for (part, word) in octets.chunks_exact_mut(4).zip(words) {
        part.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
    }
    Ipv6Addr::from(octets).to_canonical()
}

/// Indices of `closed` and `last_ns` in an entry of the flow table (`struct weft_order_flow`, 32 bytes).
const CLOSED: usize = 7;
const LAST_NS: usize = 24;

/// Parses an entry of the flow table: whether it has closed, and when its last packet was recorded; `None` for other
/// data.
pub(super) fn entry(value: &[u8]) -> Option<(bool, u64)> {
    let last = value.get(LAST_NS..LAST_NS + 8)?.try_into().ok()?;
    Some((*value.get(CLOSED)? != 0, u64::from_ne_bytes(last)))
}
