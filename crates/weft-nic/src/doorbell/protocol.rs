//! The protocol of the doorbell: who writes what, in which order, so that no doorbell and no wake-up is lost.
//!
//! The ringing side stands in `bpf/doorbell.bpf.c` (`ring_doorbell`); [`ring`] is the same in Rust, used where the ringing side
//! is this process, and by the model checker (`tests/loom_doorbell.rs`).
//!
//! ```text
//! ringing side                              NIC
//! ------------                              ---
//! packets += n        (locked add)          ready.swap(0)     (exchange)
//! if ready & bit: done                      packets.load()
//! ready |= bit        (locked or)           ... going to sleep:
//! if sleeping, and sleeping.swap(0) was 1:  sleeping = 1      (exchange: a full barrier)
//!     wake                                  if ready != 0: sleeping = 0, go on
//!                                           sleep
//! ```
//!
//! *No doorbell is lost*: the count is added before the bit is read, and the bit is cleared before the count is read. Either
//! the NIC's load sees the packet, or the ringing side sees the bit clear and sets it again.
//! *No wake-up is lost*: the flag is set before the bits are read, and the bit is set before the flag is read.
//! *No wake-up while the NIC is awake*: the flag is only set by a NIC that is about to sleep, and only one ringing side
//! gets to take it down.

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// Rings the doorbell of the ring whose count is `packets` and whose bit is `bit` of `ready`. Returns true when the caller
/// must wake the NIC.
pub fn ring(packets: &AtomicU64, count: u64, ready: &AtomicU64, bit: u32, sleeping: &AtomicU32) -> bool {
    packets.fetch_add(count, Ordering::SeqCst);
    // A locked add is a full barrier on the machine; the language needs it said.
    fence(Ordering::SeqCst);
    if ready.load(Ordering::Relaxed) & (1 << bit) != 0 {
        return false;
    }
    ready.fetch_or(1 << bit, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    sleeping.load(Ordering::Relaxed) == 1 && sleeping.swap(0, Ordering::SeqCst) == 1
}

/// Takes places for `packets`, all or none: `take_places` in `bpf/admit.h`. `let_in` is what was ever let in, `done` what of
/// that is gone; no more than `bound` are ever between the two, but for what is about to be taken back.
pub fn take_places(let_in: &AtomicU64, done: &AtomicU64, bound: u64, packets: u64) -> bool {
    let beyond = |sum: u64| sum.wrapping_sub(done.load(Ordering::SeqCst)) as i64 > bound as i64;
    if beyond(let_in.load(Ordering::Relaxed) + packets) {
        return false;
    }
    // Added before it is compared: of two that find the last place, the second sees the first.
    if beyond(let_in.fetch_add(packets, Ordering::SeqCst) + packets) {
        let_in.fetch_sub(packets, Ordering::SeqCst);
        return false;
    }
    true
}

/// Moves a flow from place `old` to `new`: `relocate` in `bpf/moves.h`. Who succeeds, and nobody else, changes the counts of
/// the two lanes.
pub fn relocate(place: &AtomicU32, old: u32, new: u32, from: &AtomicU32, to: &AtomicU32) -> bool {
    if place.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst).is_err() {
        return false;
    }
    from.fetch_sub(1, Ordering::SeqCst);
    to.fetch_add(1, Ordering::SeqCst);
    true
}

/// Takes the bits of one word: the rings that were posted since the last look. Counts read afterwards are at least those of
/// the doorbells whose bits were taken.
pub fn take(ready: &AtomicU64) -> u64 {
    if ready.load(Ordering::Relaxed) == 0 {
        return 0;
    }
    let bits = ready.swap(0, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    bits
}

/// Announces sleep. Returns false when a doorbell has come in between: then the NIC must not sleep.
pub fn prepare_sleep(ready: &[AtomicU64], sleeping: &AtomicU32) -> bool {
    sleeping.swap(1, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    if ready.iter().any(|word| word.load(Ordering::SeqCst) != 0) {
        sleeping.swap(0, Ordering::SeqCst);
        return false;
    }
    true
}

/// Ends sleep, whoever ended it.
pub fn awake(sleeping: &AtomicU32) {
    sleeping.swap(0, Ordering::SeqCst);
}
