//! Tests: threads that append to a mapped log without its mutex, in real files.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::deferred_tests::options;
use super::format::read_all;
use crate::{Heap, Root, SyncPolicy};

const THREADS: u64 = 4;
const ROUNDS: u64 = 500;

fn roots(heap: &Heap) -> Vec<Root<u64>> {
    (0..THREADS).map(|number| heap.root(&number.to_string()).unwrap()).collect()
}

/// The file has all that was committed, without a gap: nothing else is done for what the end of the process leaves.
#[test]
fn what_threads_append_side_by_side_is_in_the_file() {
    for policy in [SyncPolicy::OnDemand, SyncPolicy::Every(std::time::Duration::from_millis(1))] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("heap");
        let heap = options(policy).open(&path).unwrap();
        let roots_here = roots(&heap);
        let wal = heap.inner().wal().unwrap();
        let ends = AtomicBool::new(false);
        let mut more = 0;
        thread::scope(|scope| {
            let add = |root: &Root<u64>| {
                root.txn(|tx, n| {
                    tx[n] += 1;
                    Ok(())
                })
                .unwrap();
            };
            let threads: Vec<_> = roots_here
                .iter()
                .map(|root| scope.spawn(move || (0..ROUNDS).for_each(|_| add(root))))
                .collect();
            // Closes it again and again.
            let closer = scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    let (end, written) = (wal.end(), wal.tail.written.get());
                    assert!(end <= written || !wal.is_at_once(), "all that was appended is published");
                    thread::yield_now();
                }
            });
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            ends.store(true, Ordering::Relaxed);
            closer.join().unwrap();
            // Each of these opens it, and a thread in the background may close it at once.
            let opens = (0..1000).any(|_| {
                add(&roots_here[0]);
                more += 1;
                wal.tail.look(64).is_some()
            });
            // Not on file systems that do not overwrite what a file has.
            assert_eq!(opens, wal.is_at_once());
        });
        let found = read_all(wal.log(), wal.layout, wal.seed).unwrap();
        assert_eq!(found.end, wal.end(), "what the end of the process would leave");
        drop((heap, roots_here));
        let heap = options(policy).open(&path).unwrap();
        let found: Vec<_> = roots(&heap).iter().map(|root| root.read(|view, n| view[n]).unwrap()).collect();
        assert_eq!(found, [ROUNDS + more, ROUNDS, ROUNDS, ROUNDS]);
    }
}
