//! Tests: threads that append to a log that is mapped, where the file system allows it, in real files.

use std::thread;

use super::deferred_tests::options;
use super::format::read_all;
use crate::{Heap, Root, SyncPolicy};

const THREADS: u64 = 4;
const ROUNDS: u64 = 500;

fn roots(heap: &Heap) -> Vec<Root<u64>> {
    (0..THREADS).map(|number| heap.root(&number.to_string()).unwrap()).collect()
}

/// The file has all commits, without a gap. Nothing else makes them survive the end of the process.
#[test]
fn what_threads_append_side_by_side_is_in_the_file() {
    for policy in [SyncPolicy::OnDemand, SyncPolicy::Every(std::time::Duration::from_millis(1))] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("heap");
        let heap = options(policy).open(&path).unwrap();
        let roots_here = roots(&heap);
        let wal = heap.inner().wal().unwrap();
        thread::scope(|scope| {
            for root in &roots_here {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        root.txn(|tx, n| {
                            tx[n] += 1;
                            Ok(())
                        })
                        .unwrap();
                    }
                });
            }
        });
        let found = read_all(wal.log(), wal.layout, wal.seed).unwrap();
        assert_eq!(found.end, wal.end_position(), "what the end of the process would leave");
        drop((heap, roots_here));
        let heap = options(policy).open(&path).unwrap();
        let found: Vec<_> = roots(&heap).iter().map(|root| root.read(|view, n| view[n]).unwrap()).collect();
        assert_eq!(found, [ROUNDS; THREADS as usize]);
    }
}
