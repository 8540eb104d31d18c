//! The operations on the lines that workers share, under every interleaving of their threads, with a few preemptions:
//!
//! ```text
//! cargo test -p weft-sched --test loom_workers
//! ```
//!
//! * The slots of a limit are disjoint, and none begins before its worker's earliest time.
//! * Time that was returned is taken again at most once, and what is lost of it is reported.
//! * The bytes of a class are those of all workers, and each worker learns those of each other once.
//!
//! Each operation has a twin here that is not atomic: the model must detect it, or the test is worthless.

use loom::thread;
use std::sync::Arc;
use sync::{AtomicU64, Ordering};

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
}

#[allow(unreachable_pub, dead_code, reason = "public in the crate that it is part of")]
#[path = "../src/workers/line.rs"]
mod line;

use line::{ClassLine, Known, LimitLine};

/// Runs `model` in all orders with up to three preemptions.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

fn fails(model: impl Fn() + Sync + Send + 'static) -> bool {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(model))).is_err()
}

/// Runs `work` in three threads, with their numbers.
fn three<T: Send + 'static>(work: impl Fn(u64) -> T + Clone + Send + 'static) -> Vec<T> {
    let spawn = |number| {
        let work = work.clone();
        thread::spawn(move || work(number))
    };
    let others = [spawn(1), spawn(2)];
    let mut found = vec![work(0)];
    found.extend(others.map(|thread| thread.join().expect("a worker")));
    found
}

/// Three workers with clocks that differ take a slot each, of 10, 11 and 12.
fn slots(take: fn(&Slots, u64, u64) -> u64) {
    let line = Arc::new(Slots { line: LimitLine::new(1), bare: AtomicU64::new(0) });
    let mut found = three(move |number| {
        let (span, earliest) = (10 + number, number * 5);
        let start = take(&line, span, earliest);
        assert!(start >= earliest);
        (start, start + span)
    });
    found.sort_unstable();
    assert!(found.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{found:?}");
}

/// A line, and a word for the twin that is not atomic.
struct Slots {
    line: LimitLine,
    bare: AtomicU64,
}

#[test]
fn slots_are_disjoint() {
    check(|| slots(|slots, span, earliest| slots.line.take(span, earliest)));
}

#[test]
fn the_model_notices_slots_that_are_read_and_written_apart() {
    assert!(fails(|| slots(|slots, span, earliest| {
        let start = slots.bare.load(Ordering::Relaxed).max(earliest);
        slots.bare.store(start + span, Ordering::Relaxed);
        start
    })));
}

/// The time that was taken, if nothing was lost of it.
fn taken(taken: line::Returned) -> u64 {
    assert_eq!(taken.lost, 0);
    taken.span
}

/// Each worker returns 5, of which the twin that is not atomic keeps 8 at most, and then takes up to 4.
fn returned(most: u64, give: fn(&Returned, u64, u64) -> u64, take: fn(&Returned, u64) -> u64) {
    let line = Arc::new(Returned { line: LimitLine::new(1), bare: AtomicU64::new(0) });
    let shared = line.clone();
    let found = three(move |_| {
        let lost = give(&shared, 5, most);
        (lost, take(&shared, 4))
    });
    let lost: u64 = found.iter().map(|(lost, _)| lost).sum();
    let taken: u64 = found.iter().map(|(_, taken)| taken).sum();
    let left = take(&line, 100);
    assert!(left <= most, "{left} were kept");
    assert_eq!(lost + taken + left, 15, "{found:?}");
}

/// A line, and a word for the twin that is not atomic.
struct Returned {
    line: LimitLine,
    bare: AtomicU64,
}

#[test]
fn returned_time_is_taken_once() {
    check(|| {
        returned(
            u64::MAX,
            |kept, span, _| {
                let lost = kept.line.give_back((span, 0), 0, u64::MAX);
                assert_eq!(lost, 0, "nothing is too old, so all is kept");
                lost
            },
            |kept, most| taken(kept.line.take_returned((1, most), 0, u64::MAX)),
        );
    });
}

/// The age up to which time is lent, in a model with origins: four words of 16 us each.
const AGE: u64 = 65_536;

/// Time of two origins lies in two words. Three workers take what only both together have, so two of them may take a part each,
/// find it not enough, and put it back: nothing is lost, and nothing is there twice.
#[test]
fn returned_time_of_two_origins_is_taken_once() {
    check(|| {
        let line = Arc::new(LimitLine::new(1));
        let now = 40_000;
        for origin in [0, 20_000] {
            assert_eq!(line.give_back((5, origin), now, AGE), 0);
        }
        let shared = line.clone();
        let found = three(move |number| {
            let least = if number == 0 { 1 } else { 8 };
            taken(shared.take_returned((least, 8), now, AGE))
        });
        assert!(found.iter().skip(1).all(|span| [0, 8].contains(span)), "{found:?}");
        let left = taken(line.take_returned((1, 100), now, AGE));
        assert_eq!(found.iter().sum::<u64>() + left, 10, "{found:?}");
    });
}

#[test]
fn time_that_is_too_old_is_void_and_what_is_newer_is_not() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(0);
    builder.check(|| {
        let line = LimitLine::new(1);
        for origin in [0, 20_000, 40_000] {
            assert_eq!(line.give_back((5, origin), 40_000, AGE), 0);
        }
        // The first is too old by now, and returning more of it is reported to be lost.
        let now = 70_000;
        assert_eq!(line.give_back((3, 0), now, AGE), 3);
        let got = line.take_returned((1, 100), now, AGE);
        assert_eq!((got.span, got.lost), (10, 0));
        assert!(got.origin <= 20_000 && got.origin + 8192 >= 20_000, "{got:?}");
        // The word of the first is used again, and what lies there was lost.
        assert_eq!(line.give_back((7, 66_000), now, AGE), 5);
        assert_eq!(line.take_returned((1, 100), now, AGE).span, 7);
    });
}

#[test]
fn the_model_notices_time_that_is_taken_twice() {
    fn give(kept: &Returned, span: u64, most: u64) -> u64 {
        let sum = (kept.bare.fetch_add(span, Ordering::Relaxed) + span).min(most);
        let before = kept.bare.swap(sum, Ordering::Relaxed);
        before - sum.min(before)
    }
    fn take(kept: &Returned, most: u64) -> u64 {
        let taken = kept.bare.load(Ordering::Relaxed).min(most);
        kept.bare.fetch_sub(taken, Ordering::Relaxed);
        taken
    }
    assert!(fails(|| returned(8, give, take)));
}

/// Each of three workers exchanges twice, and once more when all have ended.
fn bytes(exchange: fn(&mut Known, &Bytes, u64) -> u64) {
    let line = Arc::new(Bytes { line: ClassLine::new(), bare: AtomicU64::new(0) });
    let shared = line.clone();
    let found = three(move |number| {
        let mut known = Known::default();
        let own = [1, 10, 100][number as usize];
        let learnt = exchange(&mut known, &shared, own) + exchange(&mut known, &shared, own);
        (known, own * 2, learnt)
    });
    for (mut known, own, learnt) in found {
        assert_eq!(own + learnt + exchange(&mut known, &line, 0), 222);
    }
}

/// A line, and a word for the twin that is not atomic.
struct Bytes {
    line: ClassLine,
    bare: AtomicU64,
}

#[test]
fn each_worker_learns_the_bytes_of_the_others_once() {
    check(|| bytes(|known, bytes, own| known.exchange(&bytes.line, own)));
}

#[test]
fn the_model_notices_bytes_that_are_read_and_written_apart() {
    assert!(fails(|| bytes(|known, bytes, own| {
        let before = bytes.bare.load(Ordering::Relaxed);
        bytes.bare.store(before + own, Ordering::Relaxed);
        let class = ClassLine::new();
        class.add(before);
        known.exchange(&class, own)
    })));
}
