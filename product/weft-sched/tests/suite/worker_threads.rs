//! Workers in threads that stall at random: nothing is lost, and limits hold in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::change;
use weft_sched::workers::{LeaseCounters, Settings, Shared, Worker};
use weft_sched::{Dequeue, Descriptor, LimitSpec, PacketScheduler, Program};
use weft_units::testing::Rng;
use weft_units::{BIT_NANOS_PER_BYTE, BitsPerSec, Bytes, FlowId, Instant, LaneId, LimitId, Weight};

const THREADS: u64 = 4;
const LANES: usize = 4;
/// Of virtual time, which all threads' steps add up to.
const SPAN: u64 = 50_000_000;
/// A step of a thread: a packet at the link's rate, in nanoseconds.
const STEP: u64 = 300;

struct Ended {
    sent: Vec<u64>,
    counters: LeaseCounters,
    spending: Bytes,
    holds: u128,
}

/// Fair queueing over lanes, of which the first has a limit.
fn limited() -> Program {
    let mut program = change::program(&[1, 2, 3, 4]);
    let rate = BitsPerSec(1_000_000_000);
    program.limits.push(LimitSpec { name: "limit".to_owned(), rate, burst: Bytes(3000) });
    program.lanes[0].limits.push(LimitId(0));
    program
}

/// One worker: sends while virtual time lasts, which its own steps move on.
fn work(number: u64, shared: &Arc<Shared>, time: &AtomicU64) -> Ended {
    let program = limited();
    let mut packets = PacketScheduler::new(&program).expect("a valid program");
    let mut rng = Rng::new(number + 1);
    let mut handle = Worker::join(shared, &mut packets, Instant::ZERO).expect("the same program");
    let flows: Vec<FlowId> = (0..LANES)
        .map(|lane| packets.add_flow(LaneId::from_index(lane), Weight::ONE).expect("a lane"))
        .collect();
    let (mut sent, mut enqueued) = (vec![0; LANES], 0);
    let mut due = Instant::ZERO;
    loop {
        let now = time.fetch_add(STEP / THREADS, Ordering::Relaxed);
        if now >= SPAN {
            break;
        }
        let now = Instant::from_nanos(now);
        for flow in &flows {
            if !packets.tree().is_active(*flow) && rng.below(8) > 0 {
                let descriptor = Descriptor { len: Bytes(64 + u64::from(rng.below(1400))), handle: 0 };
                packets.enqueue(*flow, descriptor, now).expect("no bound");
                enqueued += 1;
            }
        }
        if due <= now {
            due = handle.exchange(&mut packets, now);
        }
        if let Dequeue::Packet(departure) = packets.dequeue(now) {
            sent[departure.lane.index()] += departure.descriptor.len.get();
            enqueued -= 1;
        }
        if rng.below(500) == 0 {
            (0..rng.below(20)).for_each(|_| std::thread::yield_now());
        }
    }
    assert_eq!(packets.held().get(), enqueued, "packets");
    packets.check_invariants().expect("an invariant");
    let limit = LimitId(0);
    let (spending, holds) = (handle.spending(&packets, limit), handle.holds(&packets, limit));
    Ended { sent, counters: handle.counters(limit).expect("the limit"), spending, holds }
}

#[test]
fn threads_that_stall_lose_nothing_and_keep_a_limit() {
    let program = limited();
    let settings = Settings::default();
    let shared = Arc::new(Shared::new(&program, settings).expect("a valid program"));
    let time = AtomicU64::new(0);
    let ended: Vec<Ended> = std::thread::scope(|scope| {
        let spawn = |number| {
            scope.spawn({
                let (shared, time) = (&shared, &time);
                move || work(number, shared, time)
            })
        };
        let threads: Vec<_> = (0..THREADS).map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().expect("a worker")).collect()
    });
    let rate = program.limits[0].rate;
    let mut sent = 0;
    for worker in &ended {
        let LeaseCounters { taken, returned, spent, .. } = worker.counters;
        sent += worker.sent[0];
        assert_eq!(spent + worker.spending, Bytes(worker.sent[0]), "bytes by leases and by packets");
        let time = u128::from(taken.get() - returned.get()) * u128::from(rate.get());
        assert_eq!(
            time,
            u128::from(worker.sent[0]) * u128::from(BIT_NANOS_PER_BYTE) + worker.holds,
            "time taken is sent, returned or held"
        );
    }
    let span = weft_units::Nanos(SPAN + 10 * STEP);
    let most = rate.bytes_in(span) + settings.excess(rate, program.limits[0].burst);
    assert!(sent <= most.get(), "{sent} bytes, {most:?} allowed");
    assert!(sent > 0);
}
