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
//! if sleeping, and sleeping.swap(0) was:    sleeping = 1 or 2 (exchange: a full barrier)
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
//! * While the link is busy, `sleeping` is 2: only a ring whose bit is set in `urgent` wakes the NIC, and the NIC checks
//!   only these bits before it sleeps. The NIC alone writes `urgent`, and never during a sleep.
//! * No wake-up is sent to a NIC that is awake: only a NIC about to sleep sets the flag, and only one posting side
//!   clears it.
//!
//! The state machine has no branch that drops anything, so it has no counters. Its users count wake-ups sent
//! (`wakeups`), sleeps (`sleeps`), and sleeps that timed out although a doorbell was posted (`wakeups_lost`, zero if
//! the protocol holds).

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// The values of `sleeping`: `WEFT_SLEEPS_*` in bpf/doorbell.h.
const AWAKE: u32 = 0;
const FOR_ANY: u32 = 1;
const FOR_URGENT: u32 = 2;

/// Posts `count` packets to the ring with the count `packets` and the bit `bit` of `ready`, a ring that is not urgent.
/// Returns true when the caller must wake the NIC.
pub fn ring(packets: &AtomicU64, count: u64, ready: &AtomicU64, bit: u32, sleeping: &AtomicU32) -> bool {
    ring_word(packets, count, (ready, 0), bit, sleeping)
}

/// Posts as [`ring`], with the word of the urgent rings.
pub fn ring_word(
    packets: &AtomicU64,
    count: u64,
    (ready, urgent): (&AtomicU64, u64),
    bit: u32,
    sleeping: &AtomicU32,
) -> bool {
    packets.fetch_add(count, Ordering::SeqCst);
    // A locked add is a full barrier on the machine; the language requires an explicit fence.
    fence(Ordering::SeqCst);
    if ready.load(Ordering::Relaxed) & (1 << bit) != 0 {
        return false;
    }
    ready.fetch_or(1 << bit, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    match sleeping.load(Ordering::Relaxed) {
        AWAKE => false,
        FOR_URGENT if urgent & (1 << bit) == 0 => false,
        _ => sleeping.swap(AWAKE, Ordering::SeqCst) != AWAKE,
    }
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

/// Announces sleep until any doorbell. Returns false when one was posted in between; the NIC must not sleep then.
pub fn prepare_sleep(ready: &[AtomicU64], sleeping: &AtomicU32) -> bool {
    announce_sleep(FOR_ANY, ready.iter().map(|word| (word, u64::MAX)), sleeping)
}

/// Announces sleep until a doorbell of the rings in `urgent`, as [`prepare_sleep`]. The doorbells of other rings set
/// their bits without a wake-up.
pub fn prepare_urgent_sleep(ready: &[AtomicU64], urgent: &[u64], sleeping: &AtomicU32) -> bool {
    announce_sleep(FOR_URGENT, ready.iter().zip(urgent.iter().copied()), sleeping)
}

fn announce_sleep<'a>(
    kind: u32,
    mut words: impl Iterator<Item = (&'a AtomicU64, u64)>,
    sleeping: &AtomicU32,
) -> bool {
    sleeping.swap(kind, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    if words.any(|(word, wakes)| word.load(Ordering::SeqCst) & wakes != 0) {
        sleeping.swap(AWAKE, Ordering::SeqCst);
        return false;
    }
    true
}

/// Ends sleep, whichever side woke the NIC.
pub fn awake(sleeping: &AtomicU32) {
    sleeping.swap(AWAKE, Ordering::SeqCst);
}
