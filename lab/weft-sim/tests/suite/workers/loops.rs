//! Loops of two workers, which agree on the time before each exchange: the benchmark of a user-defined policy.

use crate::workers::scenes::gigabits;
use std::sync::Arc;
use weft_sched::workers::{Settings, Shared, Worker};
use weft_sim::engine_load::{LinkLoop, limit_lanes, wfq_program};
use weft_units::{Bytes, Instant, Nanos};

const LEN: Bytes = Bytes(594);

/// The limit of both lanes together is that of one engine, though one worker is much slower than the other: its link is idle meanwhile.
#[test]
fn loops_that_agree_on_the_time_have_the_limits_of_one() {
    let (rate, link) = (gigabits(1.0), gigabits(5.0));
    let mut program = wfq_program(2);
    limit_lanes(&mut program, 1, rate);
    program.lanes[1].limits = program.lanes[0].limits.clone();
    let settings = Settings { segment: LEN, ..Settings::default() };
    let shared = Arc::new(Shared::new(&program, settings).expect("a program to share"));
    let worker = |seed| {
        let mut engine = LinkLoop::new(&program, 64, link, LEN, seed).expect("a loop");
        let handle = Worker::join(&shared, engine.scheduler_mut(), Instant::ZERO).expect("a worker");
        (engine, handle, Instant::ZERO)
    };
    let (mut workers, mut clock, mut packets) = ([worker(1), worker(2)], Instant::ZERO, 0);
    let until = Instant::ZERO + Nanos::from_millis(100);
    let mut round = 0;
    while clock < until {
        round += 1;
        for (at, (engine, handle, due)) in workers.iter_mut().enumerate() {
            if at == 1 && round % 3 != 0 {
                continue;
            }
            packets += engine.run_before(*due, 160);
            clock = clock.max(engine.now());
            engine.idle_until(clock);
            assert_eq!(engine.now(), clock, "a loop is never ahead of the clock of all");
            *due = handle.exchange(engine.scheduler_mut(), clock);
        }
    }
    let allowed = rate.bytes_in(clock.saturating_since(Instant::ZERO)).get();
    let (sent, excess) = (packets * LEN.get(), settings.excess(rate, Bytes(3000)).get());
    assert!(sent <= allowed + excess && sent * 100 >= allowed * 97, "{sent} of {allowed} bytes");
}
