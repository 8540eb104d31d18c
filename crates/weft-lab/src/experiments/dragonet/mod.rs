//! Receive queues by policy: plans brought to devices and shown on packets, a plan verified by sending its flows, the isolation experiment with
//! memcached, and what the search costs.

use core::sync::atomic::{AtomicU32, Ordering};

mod frames;
pub mod isolation;
pub mod isolation_panels;
pub mod search_cost;
pub mod verification;
pub mod verify;

pub use frames::{NoPacket, frame_of};

/// A name for a testbed that no other of this process has: several may run at once.
fn role(name: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{name}{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
