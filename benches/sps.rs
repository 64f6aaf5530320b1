//! `sps` under criterion, with the cases of `workloads/sps.rs`, to watch changes of one workload closely.
#![allow(missing_docs)] // criterion_group! makes a public function

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pheap_suite::{Setup, sps};

fn sps(c: &mut Criterion) {
    let mut group = c.benchmark_group("sps");
    group.sample_size(10);
    for n in [10_000, 1_000_000] {
        group.throughput(Throughput::Elements(n));
        for mut case in sps::cases(&Setup::default(), n).expect("the heaps can be made") {
            group.bench_function(BenchmarkId::new(case.label(), n), |b| {
                b.iter_custom(|passes| case.time(passes))
            });
        }
    }
    group.finish();
}

criterion_group!(benches, sps);
criterion_main!(benches);
