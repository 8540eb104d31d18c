//! The protocol of the doorbell: the order of accesses by which no doorbell and no wake-up is lost.
//!
//! The posting side is `ring_doorbell` in `bpf/doorbell.bpf.c`. [`ring`] is the same in Rust. It is used where this
//! process posts, and by the model checker (`tests/loom_doorbell.rs`).
//!
//! ```text
//! posting side                              NIC
//! ------------                              ---
//! packets += n        (locked add)          ready.swap(0)     (exchange)
//! if ready & bit: done                      packets.load()
//! ready |= bit        (locked or)           ... before sleeping:
//! if sleeping, and sleeping.swap(0) was 1:  sleeping = 1      (exchange: a full barrier)
//!     wake                                  if ready != 0: sleeping = 0, continue
//!                                           sleep
//! ```
//!
//! Ownership: any core posts to `packets` and sets bits of `ready`; only the NIC clears them. The NIC sets `sleeping`;
//! the posting side or the NIC clears it. `packets` only grows; the NIC keeps the number of completed packets
//! elsewhere.
//!
//! Invariants:
//! * No doorbell is lost: the count is added before the bit is read, and the bit is cleared before the count is read.
//!   Either the NIC's load sees the packet, or the posting side sees the bit cleared and sets it again.
//! * No wake-up is lost: the flag is set before the bits are read, and the bit is set before the flag is read.
//! * No wake-up is sent to a NIC that is awake: only a NIC about to sleep sets the flag, and only one posting side
//!   clears it.
//!
//! The state machine has no branch that drops anything, so it has no counters. Its users count wake-ups sent
//! (`wakeups`), sleeps (`sleeps`), and sleeps that timed out although a doorbell was posted (`wakeups_lost`, zero if
//! the protocol holds).

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// Posts `count` packets to the ring with the count `packets` and the bit `bit` of `ready`. Returns true when the
/// caller must wake the NIC.
pub fn ring(packets: &AtomicU64, count: u64, ready: &AtomicU64, bit: u32, sleeping: &AtomicU32) -> bool {
    packets.fetch_add(count, Ordering::SeqCst);
    // A locked add is a full barrier on the machine; the language requires an explicit fence.
    fence(Ordering::SeqCst);
    if ready.load(Ordering::Relaxed) & (1 << bit) != 0 {
        return false;
    }
    ready.fetch_or(1 << bit, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    sleeping.load(Ordering::Relaxed) == 1 && sleeping.swap(0, Ordering::SeqCst) == 1
}

/// Takes places for `packets` packets, all or none, as `take_places` in `bpf/admit.h`. `let_in` counts all packets ever
/// admitted, and `done` those of them that are completed. The difference never exceeds `bound`, except by packets about
/// to be refused.
pub fn take_places(let_in: &AtomicU64, done: &AtomicU64, bound: u64, packets: u64) -> bool {
    let beyond = |sum: u64| sum.wrapping_sub(done.load(Ordering::SeqCst)) as i64 > bound as i64;
    if beyond(let_in.load(Ordering::Relaxed) + packets) {
        return false;
    }
    // Added before it is compared: of two posting sides that compete for the last place, the second sees the first.
    if beyond(let_in.fetch_add(packets, Ordering::SeqCst) + packets) {
        let_in.fetch_sub(packets, Ordering::SeqCst);
        return false;
    }
    true
}

/// Moves a flow from place `old` to `new`, as `relocate` in `bpf/moves.h`. Only the side whose exchange succeeds
/// changes the counts of the two lanes.
pub fn relocate(place: &AtomicU32, old: u32, new: u32, from: &AtomicU32, to: &AtomicU32) -> bool {
    if place.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst).is_err() {
        return false;
    }
    from.fetch_sub(1, Ordering::SeqCst);
    to.fetch_add(1, Ordering::SeqCst);
    true
}

/// Takes the bits of one word: the rings posted since the last call. Counts read afterwards include the doorbells whose
/// bits were taken.
pub fn take(ready: &AtomicU64) -> u64 {
    if ready.load(Ordering::Relaxed) == 0 {
        return 0;
    }
    let bits = ready.swap(0, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    bits
}

/// Announces sleep. Returns false when a doorbell was posted in between; the NIC must not sleep then.
pub fn prepare_sleep(ready: &[AtomicU64], sleeping: &AtomicU32) -> bool {
    sleeping.swap(1, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    if ready.iter().any(|word| word.load(Ordering::SeqCst) != 0) {
        sleeping.swap(0, Ordering::SeqCst);
        return false;
    }
    true
}

/// Ends sleep, whichever side woke the NIC.
pub fn awake(sleeping: &AtomicU32) {
    sleeping.swap(0, Ordering::SeqCst);
}
