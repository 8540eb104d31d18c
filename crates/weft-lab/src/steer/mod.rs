//! Receive queues on real packets: a plan verified by sending its flows, and the isolation experiment with memcached.

use core::sync::atomic::{AtomicU32, Ordering};

mod frames;
pub mod isolation;
mod ledger;
pub mod verify;

pub use frames::{NoPacket, frame_of};
pub use ledger::conservation;

/// A name for a testbed that no other of this process has: several may run at once.
fn role(name: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{name}{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
