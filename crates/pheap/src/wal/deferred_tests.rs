//! Tests: transactions and reads that do not wait for the disk, on a heap whose disk stands still while the
//! test wants it to.
#![allow(clippy::unit_arg)] // transactions of one assignment return its unit value

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use std::{io, thread};

use pheap_testkit::threads::{sleeps, this_thread};

use super::Wal;
use crate::{Commit, Durability, Error, Heap, Options, Result, Root, SyncPolicy};

/// A heap with two numbers, in a temporary folder.
pub(super) struct Setup {
    pub(super) folder: tempfile::TempDir,
    pub(super) heap: Heap,
    pub(super) a: Root<u64>,
    pub(super) b: Root<u64>,
}

pub(super) fn options(policy: SyncPolicy) -> Options {
    Options::new().durability(Durability::Wal).sync_policy(policy).arena_size(1 << 20).reserve(1 << 30)
}

impl Setup {
    fn new(options: &Options) -> Setup {
        let folder = tempfile::tempdir().unwrap();
        let heap = options.open(folder.path().join("heap")).unwrap();
        let [a, b] = ["a", "b"].map(|name| heap.root(name).unwrap());
        // After this sync, everything is durable, including the metadata.
        heap.sync().unwrap();
        Setup { folder, heap, a, b }
    }

    pub(super) fn every_commit() -> Setup {
        Setup::new(&options(SyncPolicy::EveryCommit))
    }

    pub(super) fn wal(&self) -> Arc<Wal> {
        self.heap.inner().wal().unwrap().clone()
    }
}

pub(super) fn add(root: &Root<u64>) -> Commit {
    root.txn_deferred(|tx, n| {
        tx[n] += 1;
        Ok(())
    })
    .unwrap()
    .1
}

pub(super) fn get(root: &Root<u64>) -> Result<u64> {
    root.read(|view, n| view[n])
}

/// Runs `f` while nothing can be written to the log, nor synced.
pub(crate) fn while_the_disk_stands_still<R>(wal: &Wal, f: impl FnOnce() -> R) -> R {
    /// Its drop ends the time in which the log looks as if another thread were writing and syncing.
    struct Busy<'w>(&'w Wal);
    impl Drop for Busy<'_> {
        fn drop(&mut self) {
            let mut state = self.0.state.lock();
            (state.writing, state.syncing) = (None, None);
            self.0.changed.notify_all();
        }
    }
    let mut state = wal.state.lock();
    while state.writing.is_some() || state.syncing.is_some() {
        wal.changed.wait(&mut state);
    }
    let written = wal.written();
    (state.writing, state.syncing) = (Some(written), Some(written));
    drop(state);
    let _busy = Busy(wal);
    f()
}

/// Takes all locks of a log.
pub(crate) fn lock_log(wal: &Wal) -> impl Sized + '_ {
    // The state is locked last, as everywhere, because a thread that waits for it may hold another of these
    // locks.
    let (folded, growth, beginning) = (wal.folded.lock(), wal.growth.lock(), wal.beginning.lock());
    (folded, growth, beginning, wal.state.lock())
}

/// Waits until the thread with this id sleeps.
pub(crate) fn until_it_sleeps(thread: i32) {
    while !sleeps(thread) {
        thread::yield_now();
    }
}

/// A waker that sends a message when it is woken.
struct Bell {
    rings: Mutex<Sender<()>>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let _ = self.rings.lock().unwrap_or_else(PoisonError::into_inner).send(());
    }
}

pub(super) fn bell() -> (Waker, Receiver<()>) {
    let (rings, rung) = mpsc::channel();
    (Waker::from(Arc::new(Bell { rings: Mutex::new(rings) })), rung)
}

pub(super) fn poll(commit: &mut Commit, waker: &Waker) -> Poll<Result<()>> {
    pin!(commit).poll(&mut Context::from_waker(waker))
}

/// A `Commit` can go wherever a task goes.
const _: fn() = || {
    fn can_go<T: Send + Sync + Unpin + 'static>() {}
    can_go::<Commit>();
};

pub(super) fn is_unknown(result: &Result<()>) -> bool {
    matches!(result, Err(Error::OutcomeUnknown { .. }))
}

#[test]
fn nobody_waits_for_a_disk_that_stands_still() {
    let setup = Setup::every_commit();
    let Setup { a, b, .. } = &setup;
    let (first, both, seen) = while_the_disk_stands_still(&setup.wal(), || {
        let first = add(a);
        let (sum, both) = crate::txn_deferred((a, b), |((ta, pa), (tb, pb))| {
            tb[pb] += ta[pa];
            Ok(ta[pa] + tb[pb])
        })
        .unwrap();
        let (n, seen) = b.read_deferred(|view, n| view[n]).unwrap();
        assert_eq!((sum, n), (2, 1));
        assert_eq!([&first, &both, &seen].map(Commit::is_durable), [false; 3]);
        (first, both, seen)
    });
    seen.wait().unwrap();
    // The read has seen the commit `both`, so waiting for `seen` waits for that one. The log becomes durable
    // in order, so `first`, the commit before it, is durable, too.
    assert_eq!([&first, &both, &seen].map(Commit::is_durable), [true; 3]);
    first.wait().unwrap();
    assert!(a.read_deferred(|_, _| ()).unwrap().1.is_durable());
}

/// A heap in memory never waits for a disk.
#[test]
fn other_durabilities_are_durable_at_once() {
    let heap = Options::new().reserve(1 << 30).in_memory().unwrap();
    let root: Root<u64> = heap.root("n").unwrap();
    let mut commit = add(&root);
    assert!(commit.is_durable() && root.read_deferred(|view, n| view[n]).unwrap().1.is_durable());
    commit.wait().unwrap();
    assert!(matches!(poll(&mut commit, Waker::noop()), Poll::Ready(Ok(()))));
}

#[test]
fn what_fails_is_no_commit() {
    let Setup { a, heap, .. } = &Setup::every_commit();
    let given_up = a.try_txn_deferred(|tx, n| -> Result<(), Error> {
        tx[n] = 7;
        Err(Error::abort("no"))
    });
    assert!(matches!(given_up, Err(Error::Aborted(_))));
    let nested = a.read_deferred(|_, _| a.txn_deferred(|_, _| Ok(())).map(drop)).unwrap().0;
    assert!(matches!(nested, Err(Error::Nested)));
    let twice = crate::txn_deferred((a, a), |_| Ok(()));
    assert!(matches!(twice, Err(Error::DuplicateRoot { .. })));
    assert_eq!(get(a).unwrap(), 0);
    heap.clone().close().unwrap();
    assert!(matches!(a.txn_deferred(|_, _| Ok(())), Err(Error::Closed)));
    assert!(matches!(a.read_deferred(|_, _| ()), Err(Error::Closed)));
}

/// No thread waits for the commits, or polls them.
#[test]
fn a_commit_that_is_dropped_becomes_durable() {
    let setup = Setup::new(&options(SyncPolicy::EveryCommit));
    for _ in 0..10 {
        let watched = add(&setup.a);
        drop(add(&setup.b));
        let end = setup.wal().end_position();
        while !setup.wal().is_durable(end) {
            thread::yield_now();
        }
        assert!(watched.is_durable());
    }
}

/// The commits of many clients share one sync, for which their server asks by the last commit.
#[test]
fn who_asks_for_the_last_commit_has_asked_for_all() {
    struct Nobody;
    impl Wake for Nobody {
        fn wake(self: Arc<Self>) {}
    }
    for policy in [SyncPolicy::OnDemand, SyncPolicy::Every(Duration::MAX)] {
        let setup = Setup::new(&options(policy));
        let syncs = || setup.heap.stats().syncs;
        let before = syncs();
        for _ in 0..10 {
            let (first, mut last) = (add(&setup.a), add(&setup.b));
            let copy = last.clone();
            let (_, seen) = setup.a.read_deferred(|_, _| ()).unwrap();
            assert!(seen.is_before(&first) && first.is_before(&last) && !last.is_before(&seen));
            assert!(!first.is_durable() && !last.is_durable());
            let polled = Pin::new(&mut last).poll(&mut Context::from_waker(&Waker::from(Arc::new(Nobody))));
            assert!(matches!(polled, Poll::Pending | Poll::Ready(Ok(()))));
            while !first.is_durable() {
                thread::yield_now();
            }
            // One sync has made both durable.
            assert!(copy.is_durable());
        }
        assert_eq!(syncs(), before + 10, "{policy:?}");
    }
}

/// A read has also seen records for which no thread waits, such as that of the end of a collection.
#[test]
fn what_a_read_has_seen_becomes_durable() {
    let Setup { heap, a, .. } = &Setup::every_commit();
    a.txn(|tx, _| tx.alloc_slice(1 << 14, |_| 0u64).map(drop)).unwrap();
    heap.collect().unwrap();
    let (_, seen) = a.read_deferred(|_, _| ()).unwrap();
    while !seen.is_durable() {
        thread::yield_now();
    }
}

#[test]
fn a_task_is_woken_when_its_commit_is_durable() {
    let setup = Setup::every_commit();
    let ((first, never), (second, rung)) = (bell(), bell());
    let mut commit = while_the_disk_stands_still(&setup.wal(), || {
        let mut commit = add(&setup.a);
        assert!(poll(&mut commit, &first).is_pending());
        // Only the newest waker is called.
        assert!(poll(&mut commit, &second).is_pending());
        drop(first);
        assert!(never.try_recv().is_err_and(|e| e == mpsc::TryRecvError::Disconnected));
        commit
    });
    rung.recv().unwrap();
    for _ in 0..2 {
        assert!(matches!(poll(&mut commit, &second), Poll::Ready(Ok(()))));
    }
    assert!(get(&setup.a).is_ok_and(|n| n == 1));
}

#[test]
fn a_commit_that_is_dropped_forgets_its_waker() {
    let setup = Setup::every_commit();
    let (waker, rung) = bell();
    while_the_disk_stands_still(&setup.wal(), || {
        let mut commit = add(&setup.a);
        assert!(poll(&mut commit, &waker).is_pending());
        drop((commit, waker));
        assert!(rung.try_recv().is_err_and(|e| e == mpsc::TryRecvError::Disconnected));
    });
}

/// The tasks poll in the reverse order of their commits, and all are woken.
#[test]
fn many_tasks_wait() {
    let setup = Setup::every_commit();
    let (waker, rung) = bell();
    let mut commits: Vec<Commit> = while_the_disk_stands_still(&setup.wal(), || {
        let mut commits: Vec<Commit> =
            (0..50).map(|i| add(if i % 2 == 0 { &setup.a } else { &setup.b })).collect();
        commits.iter_mut().rev().for_each(|commit| assert!(poll(commit, &waker).is_pending()));
        commits
    });
    for _ in &commits {
        rung.recv().unwrap();
    }
    commits.iter_mut().for_each(|commit| assert!(matches!(poll(commit, &waker), Poll::Ready(Ok(())))));
}

#[test]
fn a_broken_disk_is_told_to_all() {
    let setup = Setup::every_commit();
    let (waker, rung) = bell();
    let wal = setup.wal();
    let durable = add(&setup.b);
    durable.wait().unwrap();
    let mut commit = while_the_disk_stands_still(&wal, || {
        let mut commit = add(&setup.a);
        assert!(poll(&mut commit, &waker).is_pending());
        wal.poison("syncing the log", &io::Error::from_raw_os_error(libc::EIO));
        commit
    });
    rung.recv().unwrap();
    let check = |commit: &mut Commit| {
        for _ in 0..2 {
            assert!(is_unknown(&commit.wait()) && !commit.is_durable());
            assert!(matches!(poll(commit, &waker), Poll::Ready(result) if is_unknown(&result)));
        }
    };
    check(&mut commit);
    durable.wait().unwrap();
    assert!(matches!(setup.a.txn_deferred(|_, _| Ok(())), Err(Error::Failed { .. })));
    assert!(matches!(setup.a.read_deferred(|_, _| ()), Err(Error::Failed { .. })));
    let Setup { folder: _folder, heap, a, b } = setup;
    drop((a, b));
    heap.close().unwrap_err();
    check(&mut commit);
    durable.wait().unwrap();
}

/// A task has left a waker, and the sync thread must call it when the heap is closed by a call or by its last
/// handle.
#[test]
fn closing_makes_everything_durable_and_says_so() {
    for calls in [true, false] {
        let setup = Setup::every_commit();
        let (wal, (waker, rung)) = (setup.wal(), bell());
        let path = setup.folder.path().join("heap");
        let (mut polled, unpolled, folder) = thread::scope(|scope| {
            let (tell, told) = mpsc::channel();
            let (polled, unpolled, closing) = while_the_disk_stands_still(&wal, || {
                let (mut polled, unpolled) = (add(&setup.a), add(&setup.b));
                assert!(poll(&mut polled, &waker).is_pending());
                let Setup { folder, heap, a, b } = setup;
                let closing = scope.spawn(move || {
                    tell.send(this_thread()).unwrap();
                    drop((a, b));
                    if calls {
                        heap.close().unwrap()
                    } else {
                        drop(heap)
                    }
                    folder
                });
                until_it_sleeps(told.recv().unwrap());
                (polled, unpolled, closing)
            });
            (polled, unpolled, closing.join().unwrap())
        });
        rung.recv().unwrap();
        assert!(matches!(poll(&mut polled, &waker), Poll::Ready(Ok(()))));
        assert!(unpolled.is_durable());
        let heap = options(SyncPolicy::EveryCommit).open(path).unwrap();
        assert_eq!(["a", "b"].map(|name| get(&heap.root(name).unwrap()).unwrap()), [1, 1]);
        drop((heap, folder));
    }
}

/// Runs `work`, which notes its steps, in a thread that meets unsynced commits. When that thread has noted
/// the steps `first` and sleeps, `meanwhile` runs; then the disk goes on.
pub(super) fn until_it_waits(
    setup: &Setup,
    first: &[&str],
    work: impl FnOnce(&dyn Fn(&'static str)) + Send,
    meanwhile: impl FnOnce(),
) {
    let steps: Mutex<Vec<&str>> = Mutex::default();
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        while_the_disk_stands_still(&setup.wal(), || {
            drop(add(&setup.b));
            let worker = scope.spawn(|| {
                tell.send(this_thread()).unwrap();
                work(&|step| steps.lock().unwrap().push(step));
            });
            let thread = told.recv().unwrap();
            while steps.lock().unwrap().len() < first.len() {
                thread::yield_now();
            }
            while !sleeps(thread) && !worker.is_finished() {
                thread::yield_now();
            }
            assert_eq!(*steps.lock().unwrap(), first);
            meanwhile();
        });
    });
    assert_eq!(*steps.lock().unwrap().last().unwrap(), "told");
}

/// A read waits after it has released the roots, so that other threads go on. The same holds of a read that
/// is nested in another read, even if only the nested read has seen unsynced data.
#[test]
fn a_read_keeps_nobody_away_while_it_waits() {
    for panics in [false, true] {
        let setup = &Setup::every_commit();
        let Setup { a, b, .. } = setup;
        let nested = |note: &dyn Fn(&'static str)| {
            let look = |n| if panics { panic!("{n}, in a test") } else { n };
            let found = catch_unwind(AssertUnwindSafe(|| b.read(|view, n| look(view[n])).unwrap()));
            note("nested");
            found.unwrap_or(1)
        };
        let work = |note: &dyn Fn(&'static str)| {
            let found = a.read(|view, n| view[n] + nested(note)).unwrap();
            note("told");
            assert_eq!(found, 1);
        };
        until_it_waits(setup, &["nested"], work, || drop([add(a), add(b)]));
    }
}

/// The read waits before it returns: a transaction on another heap, which uses the data that the read has
/// seen, may become durable earlier.
#[test]
fn a_read_within_a_transaction_on_another_heap_waits_before_it_returns() {
    let (setup, other) = (&Setup::every_commit(), &Setup::every_commit());
    let Setup { a, b, .. } = setup;
    let work = |note: &dyn Fn(&'static str)| {
        let within = || {
            note("begins");
            let found = get(b).unwrap();
            note("told");
            found
        };
        // The read is nested in a transaction of another heap, within a read of this one.
        a.read(|_, _| other.a.txn(|tx, n| Ok(tx[n] = within())).unwrap()).unwrap();
    };
    until_it_waits(setup, &["begins"], work, || {});
    assert_eq!(get(&other.a).unwrap(), 1);
}

#[test]
fn a_read_of_what_may_be_lost_fails() {
    let setup = &Setup::every_commit();
    let work = |note: &dyn Fn(&'static str)| {
        note("begins");
        let found = get(&setup.b).map(drop);
        assert!(is_unknown(&found), "{found:?}");
        note("told");
    };
    let fails = || setup.wal().poison("syncing the log", &io::Error::from_raw_os_error(libc::EIO));
    until_it_waits(setup, &["begins"], work, fails);
    assert!(matches!(get(&setup.a), Err(Error::Failed { .. })));
}

/// With `OnDemand`, the heap syncs only when it is asked to.
#[test]
fn one_transaction_of_many_asks_to_be_durable() {
    let setup = Setup::new(&options(SyncPolicy::OnDemand));
    let syncs = || setup.heap.stats().syncs;
    let before = syncs();
    setup.a.txn(|tx, n| Ok(tx[n] = 1)).unwrap();
    let (_, seen) = setup.a.read_deferred(|_, _| ()).unwrap();
    assert!(!seen.is_durable() && syncs() == before);
    seen.wait().unwrap();
    assert!(seen.is_durable() && syncs() == before + 1);
    add(&setup.b).wait().unwrap();
    assert_eq!(syncs(), before + 2);
}

/// The log is synced although no thread waits or asks for it.
#[test]
fn a_policy_syncs_at_intervals() {
    let setup = Setup::new(&options(SyncPolicy::Every(Duration::from_millis(1))));
    for _ in 0..5 {
        setup.a.txn(|tx, n| Ok(tx[n] += 1)).unwrap();
        let (_, seen) = setup.a.read_deferred(|_, _| ()).unwrap();
        while !seen.is_durable() {
            thread::yield_now();
        }
    }
    // With the longest interval, the log is not synced during this test. Closing the heap syncs it.
    let setup = Setup::new(&options(SyncPolicy::Every(Duration::MAX)));
    let before = setup.heap.stats().syncs;
    setup.a.txn(|tx, n| Ok(tx[n] += 1)).unwrap();
    let (_, seen) = setup.a.read_deferred(|_, _| ()).unwrap();
    assert!(!seen.is_durable() && setup.heap.stats().syncs == before);
    setup.heap.close().unwrap();
    assert!(seen.is_durable());
}

/// When a deferred transaction has returned, no more bytes are unsynced than `unsynced_limit` allows.
#[test]
fn what_is_not_synced_is_bounded() {
    let at_once = Setup::new(&options(SyncPolicy::EveryCommit).unsynced_limit(0));
    assert!((0..10).all(|_| add(&at_once.a).is_durable()));
    let setup = Setup::new(&options(SyncPolicy::EveryCommit).unsynced_limit(1000));
    for _ in 0..100 {
        let position = {
            add(&setup.a);
            setup.wal().end_position()
        };
        assert!(setup.wal().is_durable(position - 1000));
    }
}
