//! `binary_trees` under criterion, with the cases of `workloads/binary_trees.rs`, to watch changes of one
//! workload closely.
#![allow(missing_docs)] // criterion_group! makes a public function

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use pheap_suite::{Setup, binary_trees};

fn binary_trees(c: &mut Criterion) {
    let mut group = c.benchmark_group("binary_trees");
    group.sample_size(10);
    for n in [10, 12] {
        for mut case in binary_trees::cases(&Setup::default(), n).expect("the heaps can be made") {
            group.bench_function(BenchmarkId::new(case.label(), n), |b| {
                b.iter_custom(|passes| case.time(passes))
            });
        }
    }
    group.finish();
}

criterion_group!(benches, binary_trees);
criterion_main!(benches);
