//! Tests: threads that append to a mapped log without its mutex, in real files.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::deferred_tests::options;
use crate::{Heap, Root, SyncPolicy};

const THREADS: u64 = 4;
const ROUNDS: u64 = 500;

fn roots(heap: &Heap) -> Vec<Root<u64>> {
    (0..THREADS).map(|number| heap.root(&number.to_string()).unwrap()).collect()
}

/// What the end of the process leaves has all that was committed: nothing else was done for it.
#[test]
fn what_threads_append_side_by_side_is_in_the_file() {
    for policy in [SyncPolicy::OnDemand, SyncPolicy::Every(std::time::Duration::from_millis(1))] {
        let [folder, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let heap = options(policy).open(folder.path().join("heap")).unwrap();
        let roots_here = roots(&heap);
        let wal = heap.inner().wal().unwrap();
        let ends = AtomicBool::new(false);
        thread::scope(|scope| {
            let add = |root: &Root<u64>| root.txn(|tx, n| Ok(tx[n] += 1)).unwrap();
            let threads: Vec<_> = roots_here
                .iter()
                .map(|root| scope.spawn(move || (0..ROUNDS).for_each(|_| add(root))))
                .collect();
            // Closes it again and again.
            let closer = scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    let (end, written) = (wal.end(), wal.tail.written.get());
                    assert!(end <= written || !wal.at_once, "all that was appended is published");
                    thread::yield_now();
                }
            });
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            ends.store(true, Ordering::Relaxed);
            closer.join().unwrap();
            add(&roots_here[0]);
            // Not on file systems that do not overwrite what a file has.
            assert_eq!(wal.tail.look(64).is_some(), wal.at_once, "the log is open");
        });
        for file in fs::read_dir(folder.path()).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), other.path().join(file.file_name())).unwrap();
        }
        let copy = options(policy).open(other.path().join("heap")).unwrap();
        let found: Vec<_> = roots(&copy).iter().map(|root| root.read(|view, n| view[n]).unwrap()).collect();
        assert_eq!(found, [ROUNDS + 1, ROUNDS, ROUNDS, ROUNDS]);
    }
}
