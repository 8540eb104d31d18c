//! Receive steering on real devices and packets: a plan verified by sending its flows, the isolation experiment with
//! memcached, and the cost of the search.

use core::sync::atomic::{AtomicU32, Ordering};

mod frames;
pub mod isolation;
pub mod isolation_panels;
pub mod search_cost;
pub mod verification;
pub mod verify;

pub use frames::{NoPacket, frame_of};

/// Returns a name for a testbed that is unique in this process: several may run at once.
fn role(name: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{name}{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
