//! The protocol of the doorbell under every interleaving of two posting threads and the NIC, with up to three
//! preemptions:
//!
//! ```text
//! cargo test -p weft-nic --test loom_doorbell
//! ```
//!
//! A lost doorbell or wake-up leaves the NIC asleep for ever, which loom reports as a deadlock. Each rule of the
//! protocol has a twin here that breaks it: the model must detect it, or the test is worthless.

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

/// The parts of the shared pages that one ring uses, and the model of the kernel's wake-up.
struct Page {
    packets: AtomicU64,
    ready: [AtomicU64; 1],
    ports: [AtomicU64; 1],
    sleeping: AtomicU32,
    wake: Notify,
    wakes: AtomicUsize,
    sleeps: AtomicUsize,
}

/// Posts a packet. Returns whether the caller must wake the NIC.
type Ring = fn(&Page) -> bool;
/// Takes the bits and reads the count, up to which all packets have been seen.
type Look = fn(&Page) -> Option<u64>;
type Sleep = fn(&Page) -> bool;

fn ring_of(page: &Page, urgent: u64) -> bool {
    let (packets, sleeping) = (&page.packets, &page.sleeping);
    protocol::Bell { packets, ready: (&page.ready[0], 0), urgent, ports: (&page.ports[0], 0), sleeping }
        .post(1)
}

fn ring(page: &Page) -> bool {
    ring_of(page, 0)
}

fn look(page: &Page) -> Option<u64> {
    protocol::take(&page.ports[0]);
    (protocol::take(&page.ready[0]) != 0).then(|| page.packets.load(Ordering::Relaxed))
}

fn sleep(page: &Page) -> bool {
    protocol::prepare_sleep(&page.ports, &page.sleeping)
}

/// Two threads post `doorbells` times each; the NIC must see all of them, and sleeps when it sees none.
fn model(doorbells: u64, ring: Ring, look: Look, sleep: Sleep) {
    model_of(doorbells, ring, look, (sleep, 1));
}

/// The model of a `sleep` that announces up to `announced` sleeps in a row.
fn model_of(doorbells: u64, ring: Ring, look: Look, (sleep, announced): (Sleep, usize)) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let page = Arc::new(Page {
            packets: AtomicU64::new(0),
            ready: [AtomicU64::new(0)],
            ports: [AtomicU64::new(0)],
            sleeping: AtomicU32::new(0),
            wake: Notify::new(),
            wakes: AtomicUsize::new(0),
            sleeps: AtomicUsize::new(0),
        });
        let ringing: Vec<_> = (0..2)
            .map(|_| {
                let page = Arc::clone(&page);
                thread::spawn(move || {
                    for _ in 0..doorbells {
                        if ring(&page) {
                            page.wakes.fetch_add(1, Plain::SeqCst);
                            page.wake.notify();
                        }
                    }
                })
            })
            .collect();
        serve(&page, 2 * doorbells, look, sleep);
        for thread in ringing {
            thread.join().expect("a ringing thread");
        }
        let (wakes, sleeps) = (page.wakes.load(Plain::SeqCst), announced * page.sleeps.load(Plain::SeqCst));
        assert!(wakes <= sleeps, "{wakes} wake-ups for {sleeps} sleeps");
    });
}

/// The NIC: polls until it has seen `all` packets, and sleeps when it sees none.
fn serve(page: &Page, all: u64, look: Look, sleep: Sleep) {
    let mut seen = 0;
    while seen < all {
        if let Some(count) = look(page) {
            assert!(count >= seen && count <= all, "{count} packets, {seen} seen before");
            seen = count;
            continue;
        }
        page.sleeps.fetch_add(1, Plain::SeqCst);
        if sleep(page) {
            page.wake.wait();
            protocol::awake(&page.sleeping);
        }
    }
}

/// Runs a model that must fail.
fn fails(doorbells: u64, ring: Ring, look: Look, sleep: Sleep) -> bool {
    std::panic::catch_unwind(|| model(doorbells, ring, look, sleep)).is_err()
}

#[test]
fn no_doorbell_and_no_wake_up_is_lost() {
    model(1, ring, look, sleep);
}

#[test]
fn nor_when_each_thread_rings_twice() {
    model(2, ring, look, sleep);
}

#[test]
fn the_model_notices_a_count_read_before_the_bit_is_cleared() {
    fn count_first(page: &Page) -> Option<u64> {
        let count = page.packets.load(Ordering::Relaxed);
        fence(Ordering::SeqCst);
        protocol::take(&page.ports[0]);
        (protocol::take(&page.ready[0]) != 0).then_some(count)
    }
    assert!(fails(1, ring, count_first, sleep));
}

/// Sets the port's bit and wakes the NIC, as the protocol.
fn to_the_port(page: &Page) -> bool {
    if page.ports[0].load(Ordering::Relaxed) & 1 == 0 {
        page.ports[0].fetch_or(1, Ordering::SeqCst);
    }
    fence(Ordering::SeqCst);
    page.sleeping.load(Ordering::Relaxed) == 1 && page.sleeping.swap(0, Ordering::SeqCst) == 1
}

#[test]
fn the_model_notices_a_bit_read_before_the_count_is_added() {
    fn bit_first(page: &Page) -> bool {
        let was_set = page.ready[0].fetch_or(1, Ordering::SeqCst) & 1 != 0;
        fence(Ordering::SeqCst);
        page.packets.fetch_add(1, Ordering::SeqCst);
        !was_set && to_the_port(page)
    }
    assert!(fails(1, bit_first, look, sleep));
}

#[test]
fn the_model_notices_a_missing_barrier_between_count_and_bit() {
    fn no_fence(page: &Page) -> bool {
        page.packets.fetch_add(1, Ordering::Relaxed);
        if page.ready[0].load(Ordering::Relaxed) & 1 != 0 {
            return false;
        }
        page.ready[0].fetch_or(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        to_the_port(page)
    }
    assert!(fails(2, no_fence, look, sleep));
}

#[test]
fn the_model_notices_bits_read_before_the_flag_is_set() {
    fn bits_first(page: &Page) -> bool {
        if page.ports[0].load(Ordering::SeqCst) != 0 {
            return false;
        }
        fence(Ordering::SeqCst);
        page.sleeping.swap(1, Ordering::SeqCst);
        true
    }
    assert!(fails(1, ring, look, bits_first));
}

#[test]
fn the_model_notices_a_flag_that_every_thread_takes_for_its_own() {
    fn all_wake(page: &Page) -> bool {
        page.packets.fetch_add(1, Ordering::SeqCst);
        page.ready[0].fetch_or(1, Ordering::SeqCst);
        page.ports[0].fetch_or(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        page.sleeping.load(Ordering::Relaxed) == 1
    }
    assert!(fails(1, all_wake, look, sleep));
}

/// Two threads take a place each, twice, while the NIC returns one: the number of admitted packets never exceeds
/// `bound`.
fn places(take: fn(&AtomicU64, &AtomicU64, u64, u64) -> bool) {
    const BOUND: u64 = 2;
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let counts = Arc::new((AtomicU64::new(1), AtomicU64::new(0), AtomicU64::new(1)));
        let enter = move |counts: &(AtomicU64, AtomicU64, AtomicU64)| {
            if take(&counts.0, &counts.1, BOUND, 1) {
                // The packets ever admitted, and the most that were completed by then.
                let entered = counts.2.fetch_add(1, Ordering::SeqCst) + 1;
                let gone = counts.1.load(Ordering::SeqCst);
                assert!(entered - gone <= BOUND, "{entered} let in, {gone} gone");
            }
        };
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let counts = Arc::clone(&counts);
                thread::spawn(move || {
                    enter(&counts);
                    enter(&counts);
                })
            })
            .collect();
        counts.1.fetch_add(1, Ordering::SeqCst);
        threads.into_iter().for_each(|thread| thread.join().expect("a sender"));
        assert_eq!(
            counts.0.load(Ordering::SeqCst),
            counts.2.load(Ordering::SeqCst),
            "what was refused is taken back"
        );
        // Afterwards, exactly the remaining places can be taken.
        while take(&counts.0, &counts.1, BOUND, 1) {}
        assert_eq!(counts.0.load(Ordering::SeqCst) - counts.1.load(Ordering::SeqCst), BOUND);
    });
}

#[test]
fn no_place_is_given_twice() {
    places(protocol::take_places);
}

#[test]
fn the_model_notices_a_place_that_is_looked_at_and_then_taken() {
    fn look_first(let_in: &AtomicU64, done: &AtomicU64, bound: u64, packets: u64) -> bool {
        if let_in.load(Ordering::SeqCst) + packets - done.load(Ordering::SeqCst) > bound {
            return false;
        }
        let_in.fetch_add(packets, Ordering::SeqCst);
        true
    }
    assert!(std::panic::catch_unwind(|| places(look_first)).is_err());
}

type Relocate = fn(&AtomicU32, u32, u32, &AtomicU32, &AtomicU32) -> bool;

/// Two threads move a flow from lane 0 to lanes 1 and 2 at the same time; a third may remove it from the table. The
/// lanes' counts agree with its place.
fn lanes(relocate: Relocate) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let flow = Arc::new(AtomicU32::new(0));
        let counts: Arc<[AtomicU32; 4]> = Arc::new([1, 0, 0, 0].map(AtomicU32::new));
        let threads: Vec<_> = [1, 2, 3]
            .into_iter()
            .map(|to: u32| {
                let (flow, counts) = (Arc::clone(&flow), Arc::clone(&counts));
                thread::spawn(move || {
                    let from = flow.load(Ordering::SeqCst);
                    // Lane 3 represents the flows that are not in the table.
                    if from != 3 {
                        relocate(&flow, from, to, &counts[from as usize], &counts[to as usize]);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("a mover"));
        let mut expected = [0; 4];
        expected[flow.load(Ordering::SeqCst) as usize] = 1;
        assert_eq!([0, 1, 2, 3].map(|i: usize| counts[i].load(Ordering::SeqCst)), expected);
    });
}

#[test]
fn the_counts_of_the_lanes_are_those_of_the_places() {
    lanes(protocol::relocate);
}

#[test]
fn the_model_notices_a_mover_that_did_not_decide_and_counts() {
    fn all_count(place: &AtomicU32, old: u32, new: u32, from: &AtomicU32, to: &AtomicU32) -> bool {
        if place.load(Ordering::SeqCst) != old {
            return false;
        }
        place.store(new, Ordering::SeqCst);
        from.fetch_sub(1, Ordering::SeqCst);
        to.fetch_add(1, Ordering::SeqCst);
        true
    }
    assert!(std::panic::catch_unwind(|| lanes(all_count)).is_err());
}

/// A sender posts to the old ring while another core moves the flow: one of the two sees the other and keeps the flow
/// waiting.
fn moved_meanwhile(look_again: bool) {
    loom::model(move || {
        let page = Arc::new((AtomicU32::new(0), AtomicU64::new(0), AtomicU32::new(0)));
        let sender = thread::spawn({
            let page = Arc::clone(&page);
            move || {
                let place = page.0.load(Ordering::Relaxed);
                if place != 0 {
                    return false;
                }
                page.1.fetch_add(1, Ordering::SeqCst);
                fence(Ordering::SeqCst);
                if look_again && page.0.load(Ordering::Relaxed) != place {
                    page.2.store(1, Ordering::SeqCst);
                }
                true
            }
        });
        // The ring was empty when the mover checked.
        let lanes = [1, 0].map(AtomicU32::new);
        assert!(protocol::relocate(&page.0, 0, 1, &lanes[0], &lanes[1]));
        fence(Ordering::SeqCst);
        if page.1.load(Ordering::Relaxed) != 0 {
            page.2.store(1, Ordering::SeqCst);
        }
        let rang = sender.join().expect("a sender");
        assert_eq!(rang, page.2.load(Ordering::SeqCst) == 1, "who left something behind waits for it");
    });
}

#[test]
fn a_packet_that_is_posted_during_a_move_is_waited_for() {
    moved_meanwhile(true);
}

#[test]
fn the_model_notices_a_sender_that_does_not_look_again() {
    assert!(std::panic::catch_unwind(|| moved_meanwhile(false)).is_err());
}

/// The doorbell of an urgent ring while the link is busy.
fn urgent(page: &Page) -> bool {
    ring_of(page, 1)
}

/// A sleep for the doorbells of ring 0.
fn urgent_sleep(page: &Page) -> bool {
    protocol::prepare_urgent_sleep(&page.ports, &page.sleeping, |_| protocol::has_urgent(&page.ready, &[1]))
}

#[test]
fn no_wake_up_of_an_urgent_ring_is_lost() {
    model(1, urgent, look, urgent_sleep);
}

#[test]
fn nor_when_the_nic_sleeps_for_any_doorbell_in_between() {
    fn either(page: &Page) -> bool {
        urgent_sleep(page) && {
            // The link became free before the wake-up: the NIC continues and sleeps for any doorbell.
            protocol::awake(&page.sleeping);
            sleep(page)
        }
    }
    model_of(1, urgent, look, (either, 2));
}

#[test]
fn the_model_notices_a_ring_that_is_not_urgent_and_wakes_nobody() {
    assert!(fails(1, ring, look, urgent_sleep));
}

#[test]
fn the_model_notices_urgent_bits_that_are_not_checked_before_the_sleep() {
    fn unchecked(page: &Page) -> bool {
        protocol::prepare_urgent_sleep(&page.ports, &page.sleeping, |_| false)
    }
    assert!(fails(1, urgent, look, unchecked));
}

/// The claim and the count of a look.
type LookAtClaims = fn(packets: &AtomicU64, claim: &AtomicU64) -> (u64, u64);

/// A packet with a claim waits, and a sender posts another one while the NIC looks twice, and once after the last bit. Each packet
/// must be among those to which a claim is attributed (`ClaimMarks` of `src/claims.rs`).
fn model_of_claims(look: LookAtClaims) {
    loom::model(move || {
        let page = Arc::new((AtomicU64::new(1), AtomicU64::new(1)));
        let sender = {
            let page = Arc::clone(&page);
            thread::spawn(move || {
                page.0.fetch_add(1, Ordering::SeqCst);
                // Atomic operations of the kernel are full barriers.
                fence(Ordering::SeqCst);
                // `lower` of bpf/claims.h, for equal claims.
                let _ = page.1.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst);
            })
        };
        let (mut marks, mut seen, mut before) = (Vec::new(), 0, 0);
        let mut note = |(claim, count): (u64, u64)| {
            if count > seen {
                (before, seen) = (seen, count);
            }
            if claim != 0 {
                marks.push(before..count);
            }
        };
        note(look(&page.0, &page.1));
        note(look(&page.0, &page.1));
        sender.join().expect("the sender");
        note(look(&page.0, &page.1));
        assert!((0..2).all(|packet| marks.iter().any(|mark| mark.contains(&packet))), "{marks:?}");
    });
}

#[test]
fn each_packet_has_its_claim() {
    model_of_claims(|packets, claim| protocol::claims_and_count(packets, || claim.swap(0, Ordering::SeqCst)));
}

#[test]
fn a_count_read_before_the_claims_loses_one() {
    let fails = std::panic::catch_unwind(|| {
        model_of_claims(|packets, claim| {
            let count = packets.load(Ordering::Acquire);
            fence(Ordering::SeqCst);
            (claim.swap(0, Ordering::SeqCst), count)
        });
    });
    assert!(fails.is_err(), "the model must detect it");
}
