//! What the programs share besides the page of queues: `bpf/titan.h` in Rust. Both sides assert the sizes.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::sync::atomic::AtomicU64;
use weft_host::bpf::SharedLayout;
use weft_units::{Bytes, Packets, Protocol, QueueId};

/// Most cores whose pools are known (`WEFT_CPUS`).
pub const CPUS: usize = 1024;
/// Size of a core's pool in its map.
pub const POOL_BYTES: usize = 4 + crate::page::QUEUES;

/// The programs' read-only data (`struct weft_titan_config`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Queues of the device.
    pub queues: u32,
    /// Whether the least occupied queue is chosen; else that of the flow's hash.
    pub least_occupied: bool,
    /// Whether only the queues of the sending core's pool are chosen from.
    pub pooled: bool,
    /// Rows of the match table.
    pub rules: u32,
    /// Cgroups that rows name.
    pub cgroups: u32,
    /// Flows that may be active at once.
    pub most_flows: u32,
    /// Whether a tc action puts packets into queues.
    pub with_action: bool,
    /// Whether the device is our NIC.
    pub device_holds: bool,
    /// The weight of flows when there is one row only.
    pub default_weight: u32,
}

impl Config {
    /// As the programs read it.
    pub fn to_bytes(self) -> [u8; 36] {
        let words = [
            self.queues,
            u32::from(self.least_occupied),
            u32::from(self.pooled),
            self.rules.max(1),
            self.cgroups.max(1),
            self.most_flows,
            u32::from(self.with_action),
            u32::from(self.device_holds),
            self.default_weight,
        ];
        let mut bytes = [0; 36];
        for (slot, word) in bytes.chunks_exact_mut(4).zip(words) {
            slot.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

/// A core's pool as the programs read it (`struct weft_titan_pool`). Queues beyond the 256th are left out.
pub fn pool_bytes(queues: &[QueueId]) -> [u8; POOL_BYTES] {
    let mut bytes = [0; POOL_BYTES];
    let known: Vec<u8> = queues.iter().filter_map(|queue| u8::try_from(queue.0).ok()).collect();
    bytes[..4].copy_from_slice(&(known.len() as u32).to_ne_bytes());
    bytes[4..4 + known.len()].copy_from_slice(&known);
    bytes
}

/// Sums over the device (`struct weft_titan_totals`).
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Totals {
    /// Flows counted in now.
    pub active: AtomicU64,
    /// Flows that became active.
    pub activations: AtomicU64,
    /// Of them, to another queue than before.
    pub moves: AtomicU64,
    /// Of them, kept where they were since the NIC still held a packet.
    pub kept: AtomicU64,
    /// Activations beyond the bound of flows, left to the device's own choice.
    pub beyond: AtomicU64,
    /// Packets that are charged to no socket of TCP or UDP, left to the device's own choice.
    pub without_socket: AtomicU64,
    /// Packets of flows that were under way already, left to the device's own choice.
    pub passed: AtomicU64,
    /// Flows counted out late, because departures had not been seen.
    pub repaired: AtomicU64,
    /// Another core took the same queue between look and claim.
    pub retries: AtomicU64,
    /// Flows for which there was no memory.
    pub unstored: AtomicU64,
    pad: [AtomicU64; 6],
}

const _: () = assert!(size_of::<Totals>() == 128);

// SAFETY: repr(C), integer atomics only, and the layout of `struct weft_titan_totals` (sizes asserted on both sides).
unsafe impl SharedLayout for Totals {}

/// Size of a record of the iterator.
pub const RECORD_BYTES: usize = 80;

/// A flow as the iterator tells it (`struct weft_titan_record`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowRecord {
    /// The socket's cookie.
    pub cookie: u64,
    /// Segments below the socket; the flow is active while there are any.
    pub segments: Packets,
    /// Its queue now, or the last one.
    pub queue: QueueId,
    /// Its weight.
    pub weight: u32,
    /// Assigned so far.
    pub bytes: Bytes,
    /// Bytes charged to the socket for packets below it: buffers' sizes.
    pub charged: Bytes,
    /// The transport protocol.
    pub protocol: Protocol,
    /// The near end.
    pub local: SocketAddr,
    /// The far end; unspecified for a socket that is not connected.
    pub remote: SocketAddr,
}

/// `AF_INET` of the system's headers.
const AF_INET: u16 = 2;

impl FlowRecord {
    /// Reads a record.
    pub fn parse(bytes: &[u8; RECORD_BYTES]) -> Self {
        let u64_at = |at: usize| u64::from_ne_bytes(core::array::from_fn(|i| bytes[at + i]));
        let u16_at = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let state = u64_at(8);
        let address = |at: usize| -> IpAddr {
            let octets: [u8; 16] = core::array::from_fn(|i| bytes[at + i]);
            if u16_at(40) == AF_INET {
                IpAddr::V4(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]))
            } else {
                IpAddr::V6(Ipv6Addr::from(octets)).to_canonical()
            }
        };
        Self {
            cookie: u64_at(0),
            segments: Packets(state & 0xffff_ffff),
            queue: QueueId((state >> 32 & 0xff) as u32),
            weight: (state >> 40) as u32,
            bytes: Bytes(u64_at(16)),
            charged: Bytes(u64::from(u32::from_ne_bytes(core::array::from_fn(|i| bytes[32 + i])))),
            protocol: Protocol(u16_at(42) as u8),
            local: SocketAddr::new(address(48), u16_at(44)),
            remote: SocketAddr::new(address(64), u16_at(46)),
        }
    }

    /// All records of a text of the iterator; a rest that is no whole record is left out.
    pub fn parse_all(bytes: &[u8]) -> Vec<Self> {
        bytes.as_chunks().0.iter().map(Self::parse).collect()
    }

    /// Whether it has a packet below its socket.
    pub fn is_active(&self) -> bool {
        self.segments > Packets(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_field_by_field() {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..8].copy_from_slice(&7_u64.to_ne_bytes());
        bytes[8..16].copy_from_slice(&(45_u64 | 6 << 32 | 3 << 40).to_ne_bytes());
        bytes[16..24].copy_from_slice(&65_000_u64.to_ne_bytes());
        bytes[32..36].copy_from_slice(&2304_u32.to_ne_bytes());
        bytes[40..42].copy_from_slice(&2_u16.to_ne_bytes());
        bytes[42..44].copy_from_slice(&6_u16.to_ne_bytes());
        bytes[44..46].copy_from_slice(&40_000_u16.to_ne_bytes());
        bytes[46..48].copy_from_slice(&5201_u16.to_ne_bytes());
        bytes[48..52].copy_from_slice(&[10, 0, 0, 1]);
        bytes[64..68].copy_from_slice(&[10, 0, 0, 2]);
        let mut text = bytes.to_vec();
        text.push(0);
        let flows = FlowRecord::parse_all(&text);
        assert_eq!(flows.len(), 1, "a rest is no record");
        let flow = flows[0];
        assert_eq!((flow.cookie, flow.segments, flow.queue, flow.weight), (7, Packets(45), QueueId(6), 3));
        assert_eq!((flow.bytes, flow.charged, flow.protocol), (Bytes(65_000), Bytes(2304), Protocol::TCP));
        assert_eq!(flow.local.to_string(), "10.0.0.1:40000");
        assert_eq!(flow.remote.to_string(), "10.0.0.2:5201");
    }

    #[test]
    fn a_pool_holds_what_fits_a_byte() {
        let bytes = pool_bytes(&[QueueId(1), QueueId(255), QueueId(256)]);
        assert_eq!(bytes[..4], 2_u32.to_ne_bytes());
        assert_eq!(bytes[4..7], [1, 255, 0]);
    }
}
