//! The planner against Dragonet's searches on the workload of the slides, and alone with many flows.

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use weft_steer::policy::{Balance, PolicyFile};
use weft_steer::search::{Options, Planner, SteeredFlowId, dragonet, workload};

/// Dragonet's options: queue 0 is only the catch-all.
fn options() -> Options {
    Options { reserve_default: true, ..Options::default() }
}

fn planner(flows: u16) -> (Planner, Vec<SteeredFlowId>) {
    let mut planner = Planner::new(workload::dragonet_nic(10), Balance::default(), options()).expect("fits");
    let ids = planner.set(workload::slides(flows));
    (planner, ids)
}

fn slides(criterion: &mut Criterion) {
    let (nic, policy) = (workload::dragonet_nic(10), PolicyFile::default());
    let mut group = criterion.benchmark_group("slides");
    group.sample_size(10);
    for n in [10, 100, 250, 500] {
        let flows = workload::slides(n);
        if n <= 100 {
            group.bench_function(BenchmarkId::new("naive", n), |b| {
                b.iter(|| black_box(dragonet::naive(&nic, &policy, &options(), &flows)));
            });
        }
        group.bench_function(BenchmarkId::new("incremental", n), |b| {
            b.iter(|| {
                let mut search = dragonet::Incremental::new(&nic, &policy, &options());
                flows.iter().for_each(|flow| {
                    search.add(flow);
                });
                black_box(search.found())
            });
        });
        group.bench_function(BenchmarkId::new("planner", n), |b| b.iter(|| black_box(planner(n))));
        group.bench_function(BenchmarkId::new("planner, one more and one less", n), |b| {
            b.iter_batched_ref(
                || planner(n).0,
                |planner| {
                    let ids = planner.add(workload::slides_more(1, 1));
                    planner.remove(&ids);
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

fn many(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("1024 queues");
    group.sample_size(10);
    for n in [1_000, 10_000, 100_000] {
        let flows = workload::many(n);
        let nic = workload::both_nic(1_024, 8_192, 4_096);
        let mut planner = Planner::new(nic, Balance::default(), Options::default()).expect("fits");
        group.bench_function(BenchmarkId::new("set", n), |b| b.iter(|| planner.set(flows.clone())));
        group.bench_function(BenchmarkId::new("one more and one less", n), |b| {
            b.iter(|| {
                let ids = planner.add(workload::slides_more(1, 1));
                planner.remove(&ids);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, slides, many);
criterion_main!(benches);
