//! The receive side of the software NIC: packets from the wire are steered to receive queues by a NIC model.
//!
//! ```text
//! wire (veth, macvtap) -> headers -> steering -> queue's ring -> budget -> host (TAP)
//!                                                 tail drop
//! ```
//!
//! A queue serves a fixed number of packets per second, the capacity of a processor that polls it. On a machine with
//! few cores this replaces a core per queue, and it is the same in every mode that is compared. Packets from the host
//! are sent to the wire unchanged.

pub mod budget;
pub mod counters;
pub mod headers;
mod nic;
mod queues;
mod worker;

pub use budget::Budget;
pub use counters::{Imbalance, QueueTotals, ReceiveTotals};
pub use headers::packet_headers;
pub use nic::{ReceiveConfig, ReceiveError, ReceiveNic};
pub use worker::Steer;

use weft_packet::vnet::VnetHeader;

/// The bytes before each frame.
const VNET: usize = VnetHeader::LEN;

/// The length of the Ethernet frame in a read, virtio-net header excluded.
fn frame_bytes(read: &[u8]) -> u64 {
    weft_packet::tap::frame_bytes(read.len()).map_or(0, weft_units::Bytes::get)
}
