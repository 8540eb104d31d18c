//! The receive side of the software NIC: what comes from the wire is steered to receive queues, as a NIC model says.
//!
//! ```text
//! wire (veth, macvtap) -> headers -> steering -> queue's ring -> budget -> host (TAP)
//!                                                 tail drop
//! ```
//!
//! A queue serves so many packets a second and no more: what a processor that polls it could do. On a machine with
//! few cores this takes the place of a core for each queue, and it is the same in every mode that is compared. What the host sends
//! goes to the wire as it is.

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

/// Bytes before each frame.
const VNET: usize = VnetHeader::LEN;

/// Length of the Ethernet frame in what was read, virtio-net header included.
fn frame_bytes(read: &[u8]) -> u64 {
    weft_packet::tap::frame_bytes(read.len()).map_or(0, weft_units::Bytes::get)
}
