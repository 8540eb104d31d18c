//! Nanoseconds per packet (one enqueue and one dequeue) in closed loops, one core.

use core::hint::black_box;
use core::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use weft_sched::Program;
use weft_sched::workload::{ClosedLoop, Refill, figure1_program, wfq_program};

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
}

criterion_group!(benches, engine);
criterion_main!(benches);
