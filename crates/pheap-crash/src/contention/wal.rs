//! Threads that share a write-ahead log.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use pheap::sim::disk::{Call, DiskImage, Fault, SimDisk, Which};
use pheap::{Commit, Durability, Error, Heap, Options, P, Root, SyncPolicy};
use pheap_testkit::tempdir;

use super::heaps::closed_while;
use super::{add, in_folder, outcome, run, small};

const THREADS: [&str; 3] = ["a", "b", "c"];

fn with_log() -> Options {
    small().durability(Durability::Wal)
}

fn counters(heap: &Heap) -> [Root<u64>; 3] {
    THREADS.map(|name| heap.root::<u64>(name).unwrap())
}

/// Creates a root with an array for each of [`THREADS`].
fn arrays(heap: &Heap, words: usize) -> [Root<P<'static, [u64]>>; 3] {
    THREADS.map(|name| heap.root_or::<P<'static, [u64]>>(name, |tx| tx.alloc_slice(words, |_| 0)).unwrap())
}

fn fill(root: &Root<P<'static, [u64]>>, number: u64) -> pheap::Result<()> {
    root.txn(|tx, array| {
        let array = tx[array];
        tx.slice_mut(array, ..).fill(number);
        Ok(())
    })
}

/// Commits, makes checkpoints, and reads, which waits for the commits that it sees.
pub(super) fn group_commit() -> Result<(), String> {
    let (folder, heap) = in_folder(&with_log());
    let [a, b, c] = &counters(&heap);
    let read = |_| assert!(a.read(|view, n| view[n]).unwrap() <= 15);
    run(
        15,
        &[
            &|_| add(a).unwrap(),
            &|_| add(b).unwrap(),
            &|_| add(c).unwrap(),
            &|_| heap.checkpoint().unwrap(),
            &|_| heap.checkpoint().unwrap(),
        ],
        &[&read, &|_| drop(heap.stats())],
    )?;
    let path = folder.path().join("heap");
    heap.close().unwrap();
    let heap = with_log().open(&path).unwrap();
    for root in counters(&heap) {
        assert_eq!(root.read(|view, n| view[n]).unwrap(), 15);
    }
    Ok(())
}

/// Syncs on demand.
pub(super) fn syncs() -> Result<(), String> {
    let (_folder, heap) = in_folder(&with_log().sync_policy(SyncPolicy::OnDemand));
    let [a, b, _] = &counters(&heap);
    let sync = |_| heap.sync().unwrap();
    run(20, &[&|_| add(a).unwrap(), &|_| add(b).unwrap(), &sync], &[&sync])
}

/// Runs a transaction, and polls its commit once as a task does.
fn polled(root: &Root<u64>) -> Pin<Box<Commit>> {
    let mut commit = Box::pin(root.txn_deferred(|tx, n| Ok(tx[n] += 1)).unwrap().1);
    let _ = commit.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    commit
}

/// Runs deferred transactions. Tasks poll some, nobody waits for others, and a thread waits for the rest.
/// Some are the first of their heap.
pub(super) fn deferred() -> Result<(), String> {
    let folder = tempdir();
    for number in 0..12 {
        let policy = if number == 0 { SyncPolicy::Every(Duration::ZERO) } else { SyncPolicy::EveryCommit };
        let heap = with_log().sync_policy(policy).open(folder.path().join(number.to_string())).unwrap();
        let [a, b, c] = &counters(&heap);
        let add = |root: &Root<u64>| root.txn_deferred(|tx, n| Ok(tx[n] += 1)).unwrap().1;
        let work = |root| drop(polled(root));
        let rounds = if number < 2 { 15 } else { 1 };
        run(rounds, &[&|_| work(a), &|_| work(b), &|_| drop(add(c))], &[&|_| add(c).wait().unwrap()])?;
    }
    outcome()
}

/// Runs deferred reads while other threads commit and wait.
pub(super) fn deferred_reads() -> Result<(), String> {
    let (_folder, heap) = in_folder(&with_log());
    let [a, b, c] = &counters(&heap);
    let read = |root: &Root<u64>| assert!(root.read_deferred(|view, n| view[n]).unwrap().0 <= 15);
    run(
        15,
        &[&|_| add(a).unwrap(), &|_| add(b).unwrap(), &|_| add(c).unwrap()],
        &[&|_| read(a), &|_| read(b), &|_| read(c)],
    )
}

/// Closes a heap while tasks stop waiting for their commits.
pub(super) fn closing_beside_tasks() -> Result<(), String> {
    let (_folder, heap) = in_folder(&with_log());
    let [a, ..] = &counters(&heap);
    let tasks: Mutex<Vec<_>> = Mutex::new((0..1000).map(|_| polled(a)).collect());
    let stop = |_| {
        let task = tasks.lock().unwrap().pop();
        drop(task);
        std::thread::sleep(Duration::from_micros(100)); // so that there are some until the end
    };
    run(1, &[&|_| heap.clone().close().unwrap()], &[&stop])
}

/// Fills a log that is too short for its writers.
pub(super) fn full() -> Result<(), String> {
    let options = with_log().sync_policy(SyncPolicy::OnDemand).log_limit(64 << 10);
    let (_folder, heap) = in_folder(&options);
    let [a, b, c] = &arrays(&heap, 2 << 10);
    let fill = |root: &Root<_>, number| fill(root, number).unwrap();
    run(40, &[&|n| fill(a, n), &|n| fill(b, n), &|n| fill(c, n)], &[&|_| heap.sync().unwrap()])
}

/// Changes more memory than may be private.
pub(super) fn memory() -> Result<(), String> {
    let options = with_log().sync_policy(SyncPolicy::OnDemand).log_limit(1 << 20).memory_limit(64 << 10);
    let (_folder, heap) = in_folder(&options);
    let [a, b, c] = &arrays(&heap, 8 << 10);
    let fill = |root: &Root<_>, number| fill(root, number).unwrap();
    // Short transactions, each of which changes a word of another page.
    let scatter = |root: &Root<P<'static, [u64]>>, number| {
        for page in 0..16 {
            root.txn(|tx, array| {
                let element = tx[array].at(tx, page << 9);
                Ok(tx[element] = number)
            })
            .unwrap();
        }
    };
    let read = |root: &Root<P<'static, [u64]>>| {
        assert_eq!(root.read(|view, array| view[view[array]].len()).unwrap(), 8 << 10)
    };
    run(
        20,
        &[&|n| fill(a, n), &|n| fill(b, n), &|n| scatter(c, n)],
        &[&|_| read(a), &|_| read(b), &|n| scatter(c, n), &|_| drop(heap.stats())],
    )
}

/// Fills a log, which grows, during checkpoints and syncs.
pub(super) fn grows() -> Result<(), String> {
    for policy in [SyncPolicy::EveryCommit, SyncPolicy::OnDemand] {
        let options = with_log().sync_policy(policy).log_limit(2 << 20);
        let (_folder, heap) = in_folder(&options);
        let [a, b, c] = &arrays(&heap, 8 << 10);
        let fill = |root: &Root<_>, number| fill(root, number).unwrap();
        let (checkpoint, sync) = (|_| heap.checkpoint().unwrap(), |_| heap.sync().unwrap());
        run(10, &[&|n| fill(a, n), &|n| fill(b, n), &|n| fill(c, n)], &[&checkpoint, &sync])?;
    }
    Ok(())
}

/// Closes a heap while other threads commit.
pub(super) fn closing() -> Result<(), String> {
    let folder = tempdir();
    for checkpoints in [true, false, false, true, false, false] {
        let options = with_log().log_limit(256 << 10);
        closed_while(checkpoints, &options, |options| options.open(folder.path().join("heap")).unwrap())?;
    }
    Ok(())
}

/// Makes the first changes of a heap after it was opened, during a sync and a close. All acknowledged changes
/// must be there later.
pub(super) fn first_changes() -> Result<(), String> {
    let folder = tempdir();
    let open = || with_log().open(folder.path().join("heap")).unwrap();
    counters(&open());
    let done = AtomicU64::new(0);
    for _ in 0..10 {
        let heap = open();
        let [a, b, _] = &counters(&heap);
        let change = |root: &Root<u64>| {
            let changed = add(root);
            done.fetch_add(u64::from(changed.is_ok()), Ordering::Relaxed);
            is_fine(changed);
        };
        let close = |_| is_fine(heap.clone().close());
        run(1, &[&|_| change(a), &|_| change(b), &|_| is_fine(heap.sync()), &close], &[])?;
    }
    let there: u64 = counters(&open()).iter().map(|root| root.read(|view, n| view[n]).unwrap()).sum();
    assert_eq!(there, done.into_inner());
    Ok(())
}

/// Checks that a thread may get this result when the disk fails, or the heap is closed.
fn is_fine(result: pheap::Result<()>) {
    assert!(
        matches!(
            result,
            Ok(())
                | Err(Error::OutcomeUnknown { .. } | Error::Failed { .. } | Error::Closed | Error::Io { .. })
        ),
        "{result:?}"
    );
}

fn on_failing_disk(which: Which, call: Call, after: usize) -> Result<(), String> {
    let disk = Arc::new(SimDisk::new(DiskImage::default()));
    let options = with_log().sync_policy(SyncPolicy::OnDemand).log_limit(256 << 10);
    let heap = options.simulate_disk(&disk).unwrap();
    let [a, b, c] = &arrays(&heap, 2 << 10);
    disk.fail(Fault { which, call, after, times: usize::MAX, error: 5 });
    let work = |root: &Root<_>, number| {
        is_fine(fill(root, number));
        is_fine(heap.sync());
    };
    let others = |_| {
        is_fine(heap.checkpoint());
        is_fine(heap.root::<u64>("new").map(drop));
        is_fine(heap.remove_root("new").or(Ok(())));
    };
    run(10, &[&|n| work(a, n), &|n| work(b, n), &|n| work(c, n), &others], &[])
}

/// Fails writes and syncs of the log and of the heap's file from several moments on.
pub(super) fn failing() -> Result<(), String> {
    for (which, call) in [
        (Which::Log, Call::Datasync),
        (Which::Log, Call::Write),
        (Which::Data, Call::Datasync),
        (Which::Data, Call::Write),
    ] {
        for after in [0, 1, 2, 5] {
            on_failing_disk(which, call, after)?;
        }
    }
    outcome()
}

/// Fails extensions of the log, and then its syncs, which are those after it has grown.
pub(super) fn failing_alone() -> Result<(), String> {
    for after in 0..2 {
        on_failing_disk(Which::Log, Call::Extend, after)?;
        let disk = Arc::new(SimDisk::new(DiskImage::default()));
        let heap =
            with_log().sync_policy(SyncPolicy::OnDemand).log_limit(1 << 20).simulate_disk(&disk).unwrap();
        let [a, b, c] = &arrays(&heap, 2 << 10);
        let small = heap.root::<u64>("small").unwrap();
        // The transactions do not sync the log: its growth does.
        disk.fail(Fault { which: Which::Log, call: Call::Datasync, after, times: usize::MAX, error: 5 });
        let work = |root: &Root<_>, number| is_fine(fill(root, number));
        run(20, &[&|n| work(a, n), &|n| work(b, n), &|n| work(c, n)], &[&|_| is_fine(add(&small))])?;
        assert!(matches!(add(&small), Err(Error::Failed { .. })));
    }
    outcome()
}
