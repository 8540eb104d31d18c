//! Nanoseconds per packet (one enqueue and one dequeue) in closed loops, one core; and the pause of a change.
#![allow(clippy::disallowed_methods, reason = "it measures time")]

use core::hint::black_box;
use core::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use weft_sched::{LaneSpec, PolicyTree, Program};
use weft_sim::engine_load::{ClosedLoop, Refill, chain_program, figure1_program, limit_lanes, wfq_program};
use weft_units::{BitsPerSec, LaneId, Weight};

/// Packets per iteration: enough that the clock reads do not count.
const PACKETS: u64 = 32_000;

fn group(c: &mut Criterion, name: &str, program: &Program, sizes: &[u32]) {
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Elements(PACKETS));
    group.sample_size(10).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    for &flows in sizes {
        for (loop_name, refill) in [("same", Refill::Same), ("rand", Refill::Shuffled)] {
            let mut closed = ClosedLoop::new(program, flows, refill, 1).expect("the program runs");
            // Past the start, when all flows of a leaf have the same tag.
            closed.run(4 * u64::from(flows));
            group.bench_function(BenchmarkId::new(loop_name, flows), |b| {
                b.iter(|| black_box(closed.run(PACKETS)));
            });
        }
    }
    group.finish();
}

fn engine(c: &mut Criterion) {
    group(c, "figure1", &figure1_program(), &[10, 1_000, 10_000, 100_000, 1_000_000]);
    group(c, "wfq64", &wfq_program(64), &[10_000]);
    for depth in [1, 2, 5, 10] {
        group(c, &format!("depth{depth}"), &chain_program(depth), &[1_000]);
    }
    for limits in [0, 100, 10_000] {
        let mut program = wfq_program(10_000);
        // Above what a lane's share comes to, so that no limit binds.
        limit_lanes(&mut program, limits, BitsPerSec(1_000_000_000_000));
        group(c, &format!("limits{limits}"), &program, &[10_000]);
    }
}

/// The pause of a worker by a change of 10,000 lanes with 4096 waiting flows: to the same program, and with every second lane
/// handing its flows to the next one.
fn change(c: &mut Criterion) {
    let program = wfq_program(10_000);
    let mut moved = program.clone();
    let mut heirs = Vec::new();
    for at in (0..moved.lanes.len()).step_by(2) {
        moved.lanes[at] = LaneSpec::vacant();
        heirs.push((LaneId::from_index(at), LaneId::from_index(at + 1)));
    }
    let mut group = c.benchmark_group("change");
    group.sample_size(10);
    for (name, new, heirs) in [("same", &program, &[][..]), ("heirs", &moved, &heirs)] {
        group.bench_function(name, |b| {
            b.iter_custom(|runs| (0..runs).map(|_| pause(&program, new, heirs)).sum());
        });
    }
    group.finish();
}

fn pause(old: &Program, new: &Program, heirs: &[(LaneId, LaneId)]) -> Duration {
    let mut tree = PolicyTree::new(old).expect("the program runs");
    for at in 0..4096 {
        let flow = tree.add_flow(LaneId(at * 2 % 10_000), Weight::ONE).expect("a lane");
        tree.activate(flow);
    }
    let prepared = PolicyTree::prepare(new, heirs, 4096).expect("the program runs");
    let begin = std::time::Instant::now();
    let changed = tree.change(prepared, weft_units::Instant::ZERO);
    let took = begin.elapsed();
    black_box(changed.expect("nothing is outstanding").moved);
    took
}

criterion_group!(benches, engine, change);
criterion_main!(benches);
