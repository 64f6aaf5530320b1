//! Forks while the mutexes of a heap are locked. In the child, calls are refused, drops do nothing, and no
//! call waits.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use pheap_testkit::forks::{end_without, ended, in_child, split};

use crate::gc::held::tests::lock_table;
use crate::wal::deferred_tests::lock_log;
use crate::{
    Commit, Durability, Error, Heap, HeapInfo, Held, Options, PSnapMap, Result, Root, Snapshot, Stats,
    SyncPolicy,
};

type Map = PSnapMap<'static, u64, u64>;

/// The handles that a program may have of a heap.
#[derive(Clone)]
struct Handles {
    heap: Heap,
    root: Root<Map>,
    other: Root<u64>,
    held: Held<Map>,
    snapshot: Snapshot<u64, u64>,
    commit: Commit,
}

fn made(durability: Durability, folder: &std::path::Path) -> Result<Handles> {
    let options = Options::new().arena_size(1 << 20).reserve(1 << 30).durability(durability);
    let heap = options.sync_policy(SyncPolicy::OnDemand).open(folder.join(format!("{durability:?}")))?;
    let (root, other): (Root<Map>, Root<u64>) = (heap.root("map")?, heap.root("other")?);
    let held = root.txn(|tx, map| Ok(tx.hold(map)))?;
    let snapshot = root.read(|view, map| view[map].snapshot(view))??;
    // With `Wal`, the commit is not durable: the log is synced on demand.
    let ((), commit) = root.txn_deferred(|tx, map| map.insert(tx, &1, &1).map(drop))?;
    Ok(Handles { heap, root, other, held, snapshot, commit })
}

/// Runs `f` while this thread holds the mutexes of the heap and of a root. `f` returns true in a forked
/// child, which then keeps the locks for ever.
fn while_locked(handles: &Handles, f: impl FnOnce() -> bool) {
    let (heap, region) = (handles.heap.inner(), &handles.root.region);
    let of_heap = (heap.copies.write(), heap.creation.lock(), heap.shown.entries());
    let workers = heap.workers.0.each_ref().map(|thread| thread.lock());
    let of_root = (lock_table(&region.held), region.name.lock());
    let of_log = heap.wal().map(|wal| lock_log(wal));
    let last = (heap.tables.lock(), heap.directory.lock());
    if f() {
        std::mem::forget((of_heap, workers, of_root, of_log, last));
    }
}

fn is_forked<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error::Forked))
}

/// Calls methods of each handle. Returns whether they do what they should do in a forked child.
fn refuses(handles: &Handles) -> bool {
    let Handles { heap, root, other, held, snapshot, commit } = handles;
    let polled = |commit: Commit| match pin!(commit).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Ok(()),
    };
    let has_log = heap.durability() == Durability::Wal;
    drop((handles.clone(), root.watch(|| {})));
    heap.stats() == Stats::default()
        && heap.info() == HeapInfo::default()
        && heap.types().is_empty()
        && heap.roots().is_empty()
        && heap.holders().is_empty()
        && root.name().is_empty()
        && !format!("{heap:?} {root:?} {held:?} {commit:?}").is_empty()
        && is_forked(root.txn(|_, _| Ok(())))
        && is_forked(root.txn_deferred(|_, _| Ok(())))
        && is_forked(root.read(|_, _| ()))
        && is_forked(root.read_deferred(|_, _| ()))
        && is_forked(root.collect())
        && is_forked(root.durable_snapshot())
        && is_forked(snapshot.read(|_| ()))
        && is_forked(crate::txn((root, other), |_| Ok(())))
        && is_forked(crate::txn_deferred((root, other), |_| Ok(())))
        && is_forked(heap.root::<u64>("new"))
        && is_forked(heap.root_or::<u64>("new", |_| Ok(1)))
        && is_forked(heap.existing_root::<u64>("other"))
        && is_forked(heap.rename_root("other", "x"))
        && is_forked(heap.remove_root("other"))
        && is_forked(heap.migrate::<u64, i64>("other", |_, _| Ok(1)))
        && is_forked(heap.evolve::<i64>("other").run())
        && is_forked(heap.inspect("other", |_| ()))
        && is_forked(heap.check())
        && is_forked(heap.backup("/never made"))
        && is_forked(heap.backup_to(std::io::sink()))
        && is_forked(heap.collect())
        && is_forked(heap.wait_ready())
        && is_forked(heap.sync())
        && is_forked(heap.set_sync_policy(SyncPolicy::EveryCommit))
        && is_forked(heap.checkpoint())
        && is_forked(heap.fold_log())
        && is_forked(heap.close())
        && is_forked(commit.wait()) == has_log
        && is_forked(polled(commit.clone())) == has_log
}

/// Forks while the mutexes of the heap are locked. Returns whether this process is the child; the parent
/// waits until the child has ended.
fn is_child(handles: &Handles) -> bool {
    let mut is_child = false;
    while_locked(handles, || {
        let child = split();
        is_child = child == 0;
        if !is_child {
            ended(child).expect("the child");
        }
        is_child
    });
    is_child
}

#[test]
fn a_child_waits_for_nothing_that_is_locked() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    for durability in [Durability::Process, Durability::Wal] {
        let handles = made(durability, folder.path())?;
        while_locked(&handles, || {
            in_child(|| end_without(&handles, refuses(&handles))).expect("the child");
            false
        });
        handles.root.txn(|tx, map| map.insert(tx, &2, &2).map(drop))?;
        handles.commit.wait()?;
        assert!(handles.heap.check()?.is_clean());
        handles.heap.close()?;
    }
    Ok(())
}

#[test]
fn a_child_within_something_waits_for_nothing_that_is_locked() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    for durability in [Durability::Process, Durability::Wal] {
        let handles = made(durability, folder.path())?;
        let Handles { root, other, snapshot, .. } = &handles;
        let finish = |well: bool| end_without(&handles, well && refuses(&handles));
        // The process forks within transactions: one that commits, one that fails and one that panics, each
        // on one root and on two.
        for kind in 0..6 {
            let mut child = false;
            let mut what = || {
                child = is_child(&handles);
                match kind / 2 {
                    1 if child => Err(Error::abort("in the child")),
                    2 if child => resume_unwind(Box::new("in the child")),
                    _ => Ok(()),
                }
            };
            let result = catch_unwind(AssertUnwindSafe(|| match kind % 2 {
                0 => root.txn(|tx, map| map.insert(tx, &kind, &kind).and_then(|_| what())),
                _ => crate::txn((root, other), |((tx, map), _)| {
                    map.insert(tx, &kind, &kind).and_then(|_| what())
                }),
            }));
            if child {
                finish(match kind / 2 {
                    0 => matches!(result, Ok(Err(Error::Forked))),
                    1 => matches!(result, Ok(Err(Error::Aborted(_)))),
                    _ => result.is_err(),
                });
            }
            result.unwrap()?;
        }
        // The process forks within reads.
        let child = root.read(|_, _| is_child(&handles));
        if matches!(child, Ok(true) | Err(Error::Forked)) {
            finish(true);
        }
        let child = root.read_deferred(|_, _| is_child(&handles));
        if matches!(child, Ok((true, _)) | Err(Error::Forked)) {
            finish(true);
        }
        if snapshot.read(|_| is_child(&handles))? {
            finish(true);
        }
        assert!(handles.heap.check()?.is_clean());
        handles.heap.close()?;
    }
    Ok(())
}
