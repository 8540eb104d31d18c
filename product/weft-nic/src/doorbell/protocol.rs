//! The protocol of the doorbell: the order of accesses that loses no doorbell and no wake-up.
//!
//! The posting side is `ring_doorbell` in `bpf/doorbell.bpf.c`. [`Bell::post`] is the same in Rust. It is used where
//! this process posts, and by the model checker (`tests/loom_doorbell.rs`, `tests/loom_ports.rs`).
//!
//! ```text
//! posting side                              NIC
//! ------------                              ---
//! packets += n           (locked add)       ready_ports.swap(0)      (exchange)
//! if ready & bit: done                      of each port: ready.swap(0)
//! ready |= bit           (locked or)        packets.load()
//! unless ready_ports & port_bit:            ... before sleeping:
//!     ready_ports |= port_bit (locked or)   sleeping = 1 or 2 (exchange: a full barrier)
//! full barrier                              if ready_ports != 0: sleeping = 0, continue
//! if sleeping, and sleeping.swap(0) was:    sleep
//!     wake
//! ```
//!
//! Ownership: any core posts to `packets` and sets bits; only the NIC clears them. `ready` belongs to a port,
//! `ready_ports` and `sleeping` to all ports of a NIC. The NIC sets `sleeping`; the posting side or the NIC clears it.
//! `packets` only grows; the NIC keeps the number of completed packets elsewhere.
//!
//! Invariants:
//! * No doorbell is lost: the count is added before the ring's bit is read, and the ring's bit is cleared before the
//!   count is read. Either the NIC's load sees the packet, or the posting side sees the bit cleared and sets it again.
//! * No ring is lost: the same holds one level up, between the ring's bit and the port's. The ring's bit is set before
//!   the port's bit is read, and the port's bit is cleared before the rings' bits are taken. A core that finds the
//!   ring's bit set relies on the core that set it, which sets the port's bit, too.
//! * No wake-up is lost: the flag is set before the ports' bits are read, and a port's bit is set before the flag is
//!   read.
//! * While the link is busy, `sleeping` is 2: only a ring whose bit is set in `urgent` wakes the NIC, and the NIC checks
//!   only these bits of the ready ports before it sleeps. The NIC alone writes `urgent`, and never during a sleep. The
//!   core that set the port's bit may have posted a ring that is not urgent. A core that finds the port's bit set
//!   therefore reads the flag nevertheless, after a barrier.
//! * No wake-up is sent to a NIC that is awake: only a NIC about to sleep sets the flag, and only one posting side
//!   clears it.
//!
//! The claims of senders about a packet (`crate::claims`) are written after the count and before the ring's bit is read, and taken
//! before the count is read (`claims_and_count`). So they are those of a counted packet, and one that comes too late for a look
//! has its bit set again. In the other order a look can take the claims of a packet that it does not count, and the look that
//! counts the packet finds none.
//!
//! A port's bit without a ring's is harmless: the NIC finds nothing there. It remains when the rings of a port were
//! taken between the two writes of a posting side, and when a port is removed.
//!
//! The state machine has no branch that drops anything, so it has no counters. Its users count wake-ups sent
//! (`wakeups`), sleeps (`sleeps`), and sleeps that timed out although a doorbell was posted (`wakeups_lost`, zero if
//! the protocol holds).

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// The values of `sleeping`: `WEFT_SLEEPS_*` in bpf/doorbell.h.
const AWAKE: u32 = 0;
const FOR_ANY: u32 = 1;
const FOR_URGENT: u32 = 2;

/// The words of one ring's doorbell.
#[derive(Clone, Copy)]
pub struct Bell<'a> {
    /// The ring's count of posted packets.
    pub packets: &'a AtomicU64,
    /// The word of the port's ready rings, with the ring's bit.
    pub ready: (&'a AtomicU64, u32),
    /// The word of the port's urgent rings.
    pub urgent: u64,
    /// The word of the ready ports, with the port's bit.
    pub ports: (&'a AtomicU64, u32),
    /// The NIC's request for a wake-up.
    pub sleeping: &'a AtomicU32,
}

impl Bell<'_> {
    /// Posts `count` packets. Returns true when the caller must wake the NIC.
    pub fn post(self, count: u64) -> bool {
        self.packets.fetch_add(count, Ordering::SeqCst);
        // A locked add is a full barrier on the machine; the language requires an explicit fence.
        fence(Ordering::SeqCst);
        let (ready, bit) = self.ready;
        if ready.load(Ordering::Relaxed) & (1 << bit) != 0 {
            return false;
        }
        ready.fetch_or(1 << bit, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let (ports, port_bit) = self.ports;
        if ports.load(Ordering::Relaxed) & (1 << port_bit) == 0 {
            ports.fetch_or(1 << port_bit, Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
        match self.sleeping.load(Ordering::Relaxed) {
            AWAKE => false,
            FOR_URGENT if self.urgent & (1 << bit) == 0 => false,
            _ => self.sleeping.swap(AWAKE, Ordering::SeqCst) != AWAKE,
        }
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

/// Takes the claims by `take`, and then reads the number of packets posted.
pub(crate) fn claims_and_count<T>(packets: &AtomicU64, take: impl FnOnce() -> T) -> (T, u64) {
    let claims = take();
    // A sender that leaves a word as it is, since a lesser claim is there, has counted its packet before.
    fence(Ordering::SeqCst);
    (claims, packets.load(Ordering::Acquire))
}

/// Takes the bits of one word: the ports, or the rings of a port, posted since the last call. What is read afterwards
/// (a port's rings, a ring's count) includes the doorbells whose bits were taken.
pub fn take(ready: &AtomicU64) -> u64 {
    if ready.load(Ordering::Relaxed) == 0 {
        return 0;
    }
    let bits = ready.swap(0, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    bits
}

/// Announces sleep until any doorbell. Returns false when one was posted in between; the NIC must not sleep then.
pub fn prepare_sleep(ready_ports: &[AtomicU64], sleeping: &AtomicU32) -> bool {
    announce_sleep(FOR_ANY, sleeping, || any_port(ready_ports, |_| true))
}

/// Announces sleep until a doorbell of an urgent ring, as [`prepare_sleep`]. The doorbells of other rings set their bits
/// without a wake-up. `is_urgent` returns whether an urgent ring of a port was posted ([`has_urgent`]).
pub fn prepare_urgent_sleep(
    ready_ports: &[AtomicU64],
    sleeping: &AtomicU32,
    is_urgent: impl Fn(usize) -> bool,
) -> bool {
    announce_sleep(FOR_URGENT, sleeping, || any_port(ready_ports, is_urgent))
}

fn announce_sleep(kind: u32, sleeping: &AtomicU32, posted: impl FnOnce() -> bool) -> bool {
    sleeping.swap(kind, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    if posted() {
        sleeping.swap(AWAKE, Ordering::SeqCst);
        return false;
    }
    true
}

/// Whether `wanted` holds for a port whose bit is set.
pub fn any_port(ready_ports: &[AtomicU64], wanted: impl Fn(usize) -> bool) -> bool {
    let of_word = |(word, ready): (usize, &AtomicU64)| {
        let mut bits = ready.load(Ordering::SeqCst);
        while bits != 0 {
            if wanted(word * 64 + bits.trailing_zeros() as usize) {
                return true;
            }
            bits &= bits - 1;
        }
        false
    };
    ready_ports.iter().enumerate().any(of_word)
}

/// Whether a ring of a port is posted that is in `urgent`.
pub fn has_urgent(ready: &[AtomicU64], urgent: &[u64]) -> bool {
    // After the port's bit was read: the rings that were posted before that are seen.
    fence(Ordering::SeqCst);
    ready.iter().zip(urgent).any(|(word, of)| word.load(Ordering::SeqCst) & of != 0)
}

/// Ends sleep, whichever side woke the NIC.
pub fn awake(sleeping: &AtomicU32) {
    sleeping.swap(AWAKE, Ordering::SeqCst);
}
