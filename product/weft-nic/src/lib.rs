//! The software NIC: ports, descriptor rings, doorbells, segmentation and the transmit worker.
//!
//! The path of a packet through this crate:
//!
//! ```text
//! port's egress          descriptor rings       transmit worker
//! bpf/doorbell.bpf.c --> queues of a macvtap    doorbell -> engine (weft-sched) -> fetch -> segment -> uplink
//!    |                                          ^
//!    +-- bit and count in a shared page --------+
//! ```
//!
//! A NIC has any number of ports, each with its own page and rings, one worker, and one uplink ([`nic::SoftwareNic`]).
//! A packet stays in its ring, charged to its socket, until its turn: the fetch is the completion that TCP small queues
//! waits for. [`nic`] assembles the stages; [`worker`] is the loop.

mod claims;
mod commands;
pub mod counters;
pub mod departures;
pub mod doorbell;
mod expiry;
mod flow_records;
mod in_hand;
mod kernel_counters;
mod late;
pub mod layout;
pub mod link;
pub mod multiqueue;
pub mod nic;
pub mod pass_through;
pub mod plan;
pub mod port;
mod port_watch;
pub mod receive;
pub mod redirect;
mod ring;
mod ring_accounting;
mod rx;
pub mod sampler;
pub mod sojourn;
pub mod testbed;
mod totals;
pub mod worker;

/// The atomics of the doorbell, imported in one place: the model checker compiles `doorbell/protocol.rs` against loom's
/// instead (`tests/loom_doorbell.rs`).
mod sync {
    pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}
