//! `nbody` under criterion, with the cases of `workloads/nbody.rs`, to watch changes of one workload closely.
#![allow(missing_docs)] // criterion_group! makes a public function

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pheap_suite::{Setup, nbody};

fn nbody(c: &mut Criterion) {
    let mut group = c.benchmark_group("nbody");
    group.sample_size(10);
    for n in [10_000] {
        group.throughput(Throughput::Elements(n));
        for mut case in nbody::cases(&Setup::default(), n).expect("the heaps can be made") {
            group.bench_function(BenchmarkId::new(case.label(), n), |b| {
                b.iter_custom(|passes| case.time(passes))
            });
        }
    }
    group.finish();
}

criterion_group!(benches, nbody);
criterion_main!(benches);
