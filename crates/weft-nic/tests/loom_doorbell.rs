//! The protocol of the doorbell under every interleaving of two ringing threads and the NIC, as far as three preemptions
//! make them:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release -p weft-nic --test loom_doorbell --target-dir target-loom
//! ```
//!
//! A bell or a wake-up that is lost leaves the NIC asleep for ever, which loom reports as a deadlock. Each rule of the
//! protocol has a twin here that breaks it: the model must find that out, or it checks nothing.
#![cfg(loom)]

use loom::sync::Notify;
use loom::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering as Plain};
use sync::{AtomicU32, AtomicU64, Ordering, fence};

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}

#[allow(unreachable_pub, reason = "public in the crate that it is part of")]
#[path = "../src/doorbell/protocol.rs"]
mod protocol;

/// The part of the shared page that one ring touches, and what stands for the kernel's wake-up.
struct Page {
    packets: AtomicU64,
    ready: [AtomicU64; 1],
    sleeping: AtomicU32,
    wake: Notify,
    wakes: AtomicUsize,
    sleeps: AtomicUsize,
}

type Ring = fn(&AtomicU64, u64, &AtomicU64, u32, &AtomicU32) -> bool;
/// Takes the bits and reads the count: what it returns has been seen.
type Look = fn(&Page) -> Option<u64>;
type Sleep = fn(&[AtomicU64], &AtomicU32) -> bool;

fn look(page: &Page) -> Option<u64> {
    (protocol::take(&page.ready[0]) != 0).then(|| page.packets.load(Ordering::Relaxed))
}

/// Two threads ring `bells` times each; the NIC must come to know of all of them, and sleeps when it sees nothing.
fn model(bells: u64, ring: Ring, look: Look, sleep: Sleep) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let page = Arc::new(Page {
            packets: AtomicU64::new(0),
            ready: [AtomicU64::new(0)],
            sleeping: AtomicU32::new(0),
            wake: Notify::new(),
            wakes: AtomicUsize::new(0),
            sleeps: AtomicUsize::new(0),
        });
        let ringing: Vec<_> = (0..2)
            .map(|_| {
                let page = Arc::clone(&page);
                thread::spawn(move || {
                    for _ in 0..bells {
                        if ring(&page.packets, 1, &page.ready[0], 0, &page.sleeping) {
                            page.wakes.fetch_add(1, Plain::SeqCst);
                            page.wake.notify();
                        }
                    }
                })
            })
            .collect();
        serve(&page, 2 * bells, look, sleep);
        for thread in ringing {
            thread.join().expect("a ringing thread");
        }
        let (wakes, sleeps) = (page.wakes.load(Plain::SeqCst), page.sleeps.load(Plain::SeqCst));
        assert!(wakes <= sleeps, "{wakes} wake-ups for {sleeps} sleeps");
    });
}

/// The NIC: until it has seen `all` packets it looks, and sleeps when there is nothing.
fn serve(page: &Page, all: u64, look: Look, sleep: Sleep) {
    let mut seen = 0;
    while seen < all {
        if let Some(count) = look(page) {
            assert!(count >= seen && count <= all, "{count} packets, {seen} seen before");
            seen = count;
            continue;
        }
        page.sleeps.fetch_add(1, Plain::SeqCst);
        if sleep(&page.ready, &page.sleeping) {
            page.wake.wait();
            protocol::awake(&page.sleeping);
        }
    }
}

/// Runs a model that must fail.
fn fails(bells: u64, ring: Ring, look: Look, sleep: Sleep) -> bool {
    std::panic::catch_unwind(|| model(bells, ring, look, sleep)).is_err()
}

#[test]
fn no_bell_and_no_wake_up_is_lost() {
    model(1, protocol::ring, look, protocol::prepare_sleep);
}

#[test]
fn nor_when_each_thread_rings_twice() {
    model(2, protocol::ring, look, protocol::prepare_sleep);
}

#[test]
fn the_model_notices_a_count_read_before_the_bit_is_cleared() {
    fn count_first(page: &Page) -> Option<u64> {
        let count = page.packets.load(Ordering::Relaxed);
        fence(Ordering::SeqCst);
        (protocol::take(&page.ready[0]) != 0).then_some(count)
    }
    assert!(fails(1, protocol::ring, count_first, protocol::prepare_sleep));
}

#[test]
fn the_model_notices_a_bit_read_before_the_count_is_added() {
    fn bit_first(packets: &AtomicU64, count: u64, ready: &AtomicU64, bit: u32, sleeping: &AtomicU32) -> bool {
        let was_set = ready.fetch_or(1 << bit, Ordering::SeqCst) & (1 << bit) != 0;
        fence(Ordering::SeqCst);
        packets.fetch_add(count, Ordering::SeqCst);
        !was_set && sleeping.load(Ordering::Relaxed) == 1 && sleeping.swap(0, Ordering::SeqCst) == 1
    }
    assert!(fails(1, bit_first, look, protocol::prepare_sleep));
}

#[test]
fn the_model_notices_a_missing_barrier_between_count_and_bit() {
    fn no_fence(packets: &AtomicU64, count: u64, ready: &AtomicU64, bit: u32, sleeping: &AtomicU32) -> bool {
        packets.fetch_add(count, Ordering::Relaxed);
        if ready.load(Ordering::Relaxed) & (1 << bit) != 0 {
            return false;
        }
        ready.fetch_or(1 << bit, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        sleeping.load(Ordering::Relaxed) == 1 && sleeping.swap(0, Ordering::SeqCst) == 1
    }
    assert!(fails(2, no_fence, look, protocol::prepare_sleep));
}

#[test]
fn the_model_notices_bits_read_before_the_flag_is_set() {
    fn bits_first(ready: &[AtomicU64], sleeping: &AtomicU32) -> bool {
        if ready.iter().any(|word| word.load(Ordering::SeqCst) != 0) {
            return false;
        }
        fence(Ordering::SeqCst);
        sleeping.swap(1, Ordering::SeqCst);
        true
    }
    assert!(fails(1, protocol::ring, look, bits_first));
}

#[test]
fn the_model_notices_a_flag_that_every_thread_takes_for_its_own() {
    fn all_wake(packets: &AtomicU64, count: u64, ready: &AtomicU64, bit: u32, sleeping: &AtomicU32) -> bool {
        packets.fetch_add(count, Ordering::SeqCst);
        ready.fetch_or(1 << bit, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        sleeping.load(Ordering::Relaxed) == 1
    }
    assert!(fails(1, all_wake, look, protocol::prepare_sleep));
}
