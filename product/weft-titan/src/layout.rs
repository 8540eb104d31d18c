//! The structures shared by the programs and this process, except the page of queues: `bpf/titan.h` in Rust. Both sides
//! assert the sizes.

use crate::flow_word;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use weft_host::bpf::SharedLayout;
use weft_units::{Bytes, Packets, TxQueueId};

/// The maximum number of cores with pools (`WEFT_CPUS`).
pub const CPUS: usize = 1024;
/// The size of a core's pool in its map.
pub const POOL_BYTES: usize = 4 + crate::page::QUEUES;

/// The programs' read-only data (`struct weft_titan_config`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProgramConfig {
    /// The number of queues of the device.
    pub queues: u32,
    /// Whether the least occupied queue is selected, instead of the queue of the flow's hash.
    pub least_occupied: bool,
    /// Whether the choice is limited to the queues of the sending core's pool.
    pub pooled: bool,
    /// The number of rows of the match table.
    pub rules: u32,
    /// The maximum number of active flows.
    pub most_flows: u32,
    /// Whether a tc action selects the packet's queue.
    pub with_action: bool,
    /// Whether the device is our NIC's port.
    pub device_holds: bool,
    /// The weight of flows when the table has one row.
    pub default_weight: u32,
    /// Whether the kernel has net_cls.
    pub net_cls: bool,
}

impl ProgramConfig {
    /// The minimum configuration, to test whether the programs load.
    pub(crate) const TRIAL: Self = Self {
        queues: 2,
        least_occupied: true,
        pooled: false,
        rules: 1,
        most_flows: 1,
        with_action: true,
        device_holds: false,
        default_weight: 1,
        net_cls: false,
    };

    /// The bytes in the programs' layout.
    pub fn to_bytes(self) -> [u8; 36] {
        let words = [
            self.queues,
            u32::from(self.least_occupied),
            u32::from(self.pooled),
            self.rules.max(1),
            self.most_flows,
            u32::from(self.with_action),
            u32::from(self.device_holds),
            self.default_weight,
            u32::from(self.net_cls),
        ];
        let mut bytes = [0; 36];
        for (slot, word) in bytes.chunks_exact_mut(4).zip(words) {
            slot.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

/// A core's pool in the programs' layout (`struct weft_titan_pool`). Queues beyond the 256th are omitted.
pub fn pool_bytes(queues: &[TxQueueId]) -> [u8; POOL_BYTES] {
    let mut bytes = [0; POOL_BYTES];
    let known: Vec<u8> = queues.iter().filter_map(|queue| u8::try_from(queue.0).ok()).collect();
    bytes[..4].copy_from_slice(&(known.len() as u32).to_ne_bytes());
    bytes[4..4 + known.len()].copy_from_slice(&known);
    bytes
}

/// The number of entries of the flow table (`WEFT_FLOWS`).
pub const FLOWS: usize = 1 << 18;

/// A flow's entry (`struct weft_titan_flow`): a cache line.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct TitanFlow {
    /// The kernel address of the socket; 0 for a free entry.
    pub socket: AtomicU64,
    /// The state word, as [`flow_word`] describes it.
    pub state: AtomicU64,
    /// The number of bytes assigned so far.
    pub bytes: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    pub(crate) weighed: AtomicU64,
    pub(crate) idle_since: AtomicU32,
    pub(crate) swept: AtomicU32,
    pub(crate) claim: AtomicU32,
    pub(crate) hash: AtomicU32,
    /// The local port in the lower half, the remote port in the upper.
    pub ports: AtomicU32,
    pad: AtomicU32,
}

const _: () = assert!(size_of::<TitanFlow>() == 64);

/// The flow table.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct TitanFlowTable {
    /// The entries.
    pub flows: [TitanFlow; FLOWS],
}

// SAFETY: repr(C), integer atomics only, and the layout of `struct weft_titan_flows` (sizes asserted on both sides).
unsafe impl SharedLayout for TitanFlowTable {}

/// The totals of the device (`struct weft_titan_totals`).
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct DeviceTotals {
    /// Flows that became active and kept their queue, since the NIC still held a packet.
    pub kept: AtomicU64,
    /// Packets left to the device's choice because the maximum number of flows was active or known.
    pub beyond: AtomicU64,
    /// Packets without a TCP or UDP socket, left to the device's choice.
    pub without_socket: AtomicU64,
    /// Packets of flows that had outstanding packets already, left to the device's choice.
    pub passed: AtomicU64,
    /// Flows counted out late, because departures were missed.
    pub repaired: AtomicU64,
    /// The flows among these counted out by the sweep, since their sockets had nothing to send.
    pub swept: AtomicU64,
    /// Retries because another core took the queue between selection and claim.
    pub retries: AtomicU64,
    /// Updates given up because other cores changed the word too often: a departure or its bytes were not counted.
    pub given_up: AtomicU64,
}

const _: () = assert!(size_of::<DeviceTotals>() == 64);

// SAFETY: repr(C), integer atomics only, and the layout of `struct weft_titan_totals` (sizes asserted on both sides).
unsafe impl SharedLayout for DeviceTotals {}

/// An entry of the flow table while its flow has it: the address of the flow's socket.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowEntryId(pub u64);

/// A flow at the time it was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowRecord {
    /// The entry's identity.
    pub id: FlowEntryId,
    /// The number of segments below the socket; the flow is active while it is not 0.
    pub segments: Packets,
    /// The current queue, or the last one.
    pub queue: TxQueueId,
    /// The weight.
    pub weight: u32,
    /// The bytes assigned since the flow got its entry.
    pub bytes: Bytes,
    /// The local port.
    pub local_port: u16,
    /// The remote port; 0 for a socket that is not connected.
    pub remote_port: u16,
}

impl FlowRecord {
    /// Reads an entry; `None` when it is free.
    pub fn read(flow: &TitanFlow) -> Option<Self> {
        let id = flow.socket.load(Ordering::Acquire);
        if id == 0 {
            return None;
        }
        let state = flow.state.load(Ordering::SeqCst);
        // With a flag set, segments do not count.
        let segments = if flow_word::is_active(state) { flow_word::out(state) } else { 0 };
        let ports = flow.ports.load(Ordering::Relaxed);
        Some(Self {
            id: FlowEntryId(id),
            segments: Packets(segments),
            queue: TxQueueId(flow_word::queue(state) as u32),
            weight: flow_word::weight(state) as u32,
            bytes: Bytes(flow.bytes.load(Ordering::Relaxed)),
            local_port: ports as u16,
            remote_port: (ports >> 16) as u16,
        })
    }

    /// Whether it has a packet below its socket.
    pub fn is_active(&self) -> bool {
        self.segments > Packets(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(socket: u64) -> TitanFlow {
        let word = |value| AtomicU64::new(value);
        TitanFlow {
            socket: word(socket),
            state: word(45 | flow_word::place(6, 3)),
            bytes: word(65_000),
            bytes_out: word(0),
            weighed: word(0),
            idle_since: AtomicU32::new(0),
            swept: AtomicU32::new(0),
            claim: AtomicU32::new(0),
            hash: AtomicU32::new(0),
            ports: AtomicU32::new(40_000 | 5201 << 16),
            pad: AtomicU32::new(0),
        }
    }

    #[test]
    fn an_entry_is_read_field_by_field() {
        let expected = FlowRecord {
            id: FlowEntryId(7),
            segments: Packets(45),
            queue: TxQueueId(6),
            weight: 3,
            bytes: Bytes(65_000),
            local_port: 40_000,
            remote_port: 5201,
        };
        assert_eq!(FlowRecord::read(&flow(7)), Some(expected));
        assert!(expected.is_active());
        let passing = flow(7);
        passing.state.fetch_or(flow_word::PASSING, Ordering::Relaxed);
        assert!(
            FlowRecord::read(&passing).is_some_and(|record| !record.is_active()),
            "added segments are subtracted again"
        );
        assert_eq!(FlowRecord::read(&flow(0)), None);
    }

    #[test]
    fn a_pool_holds_what_fits_a_byte() {
        let bytes = pool_bytes(&[TxQueueId(1), TxQueueId(255), TxQueueId(256)]);
        assert_eq!(bytes[..4], 2_u32.to_ne_bytes());
        assert_eq!(bytes[4..7], [1, 255, 0]);
    }
}
