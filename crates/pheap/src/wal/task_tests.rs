//! Tests: transactions and reads as futures, with small executors, on a heap whose disk stands still while
//! the test wants it to.
#![allow(clippy::unit_arg)] // transactions of one assignment return its unit value

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use super::deferred_tests::{Setup, add, bell, get, is_unknown, options, while_the_disk_stands_still};
use crate::{Durability, Error, Options, Result, Root, SyncPolicy, txn_async};

async fn add_async(root: &Root<u64>) -> Result<u64> {
    root.txn_async(|tx, n| {
        tx[n] += 1;
        Ok(tx[n])
    })
    .await
}

/// Returns the root's number, whether it is durable or not.
fn peek(root: &Root<u64>) -> u64 {
    root.read_deferred(|view, n| view[n]).unwrap().0
}

fn poll<F: Future + ?Sized>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

/// Polls the future once, and then only when its waker was called.
fn block_on<F: Future>(future: F) -> F::Output {
    let (mut future, (waker, rung)) = (pin!(future), bell());
    loop {
        if let Poll::Ready(output) = poll(future.as_mut(), &waker) {
            return output;
        }
        rung.recv().unwrap();
    }
}

/// The futures can go wherever a task goes, also when a function knows their type only as a parameter.
const _: fn(&Root<u64>) = |root| {
    fn can_go<T: Send>(_: T) {}
    can_go(root.txn_async(|tx, n| Ok(tx[n])));
    can_go(root.try_txn_async(|tx, n| Ok::<u64, Error>(tx[n])));
    can_go(root.read_async(|view, n| view[n]));
    can_go(txn_async((root, root), |((tx, n), _)| Ok(tx[n])));
};

#[test]
fn no_thread_waits_for_a_disk_that_stands_still() {
    let setup = Setup::every_commit();
    let Setup { a, b, .. } = &setup;
    let (waker, rung) = bell();
    let mut one = pin!(add_async(a));
    let mut both = pin!(txn_async((a, b), |((ta, a), (tb, b))| {
        tb[b] += ta[a];
        Ok(tb[b])
    }));
    let mut slice = pin!(txn_async(std::slice::from_ref(a), |mut roots| Ok(roots.with(0, |tx, n| tx[n]))));
    let mut seen = pin!(b.read_async(|view, n| view[n]));
    while_the_disk_stands_still(&setup.wal(), || {
        assert!(poll(one.as_mut(), &waker).is_pending());
        // A deferred read returns data that are not durable yet.
        assert_eq!(peek(a), 1);
        assert!(poll(both.as_mut(), &waker).is_pending());
        assert!(poll(slice.as_mut(), &waker).is_pending());
        assert!(poll(seen.as_mut(), &waker).is_pending());
    });
    (0..4).for_each(|_| rung.recv().unwrap());
    let done = [poll(one, &waker), poll(both, &waker), poll(slice, &waker), poll(seen, &waker)];
    assert!(done.iter().all(|done| matches!(done, Poll::Ready(Ok(1)))), "{done:?}");
}

/// An error may tell of unsynced data, so it is returned once these data are durable. The failed transaction
/// has nothing to commit.
#[test]
fn an_error_is_told_when_what_it_tells_of_is_durable() {
    let setup = Setup::every_commit();
    let Setup { a, b, .. } = &setup;
    let (waker, rung) = bell();
    let mut one = pin!(a.try_txn_async(|tx, n| -> Result<(), Error> {
        tx[n] += 1;
        Err(Error::abort(format!("it was {}", tx[n])))
    }));
    let mut both = pin!(txn_async((b, a), |((tb, b), (ta, a))| -> Result<()> {
        tb[b] = 7;
        Err(Error::abort(format!("it was {}", ta[a])))
    }));
    while_the_disk_stands_still(&setup.wal(), || {
        drop(add(a));
        assert!(poll(one.as_mut(), &waker).is_pending());
        assert!(poll(both.as_mut(), &waker).is_pending());
        assert_eq!((peek(a), peek(b)), (1, 0));
    });
    (0..2).for_each(|_| rung.recv().unwrap());
    let said = |done: Poll<Result<()>>| match done {
        Poll::Ready(Err(error @ Error::Aborted(_))) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(said(poll(one, &waker)).contains("it was 2") && said(poll(both, &waker)).contains("it was 1"));
    assert_eq!((get(a).unwrap(), get(b).unwrap()), (1, 0));
}

#[test]
fn a_future_that_is_dropped_has_done_nothing_or_all() {
    let setup = Setup::every_commit();
    drop(add_async(&setup.a));
    assert_eq!(get(&setup.a).unwrap(), 0);
    while_the_disk_stands_still(&setup.wal(), || {
        let mut polled = Box::pin(add_async(&setup.a));
        assert!(poll(polled.as_mut(), Waker::noop()).is_pending());
    });
    // No thread waits, and the transaction becomes durable.
    let end = setup.wal().end_position();
    while !setup.wal().is_durable(end) {
        thread::yield_now();
    }
    assert_eq!(get(&setup.a).unwrap(), 1);
}

/// If too many bytes are unsynced, a task waits before its transaction begins, and no thread waits.
#[test]
fn what_is_not_synced_is_bounded_for_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let heap = options(SyncPolicy::EveryCommit).unsynced_limit(0).open(folder.path().join("heap")).unwrap();
    let (root, other): (Root<u64>, Root<u64>) = (heap.root("n").unwrap(), heap.root("other").unwrap());
    heap.sync().unwrap();
    let wal = heap.inner().wal().unwrap().clone();
    let (waker, rung) = bell();
    let began = Cell::new(0);
    let begins = || began.set(began.get() + 1);
    let mut first = pin!(root.txn_async(|tx, n| Ok(tx[n] = 1)));
    let mut second = pin!(other.txn_async(|tx, n| {
        begins();
        Ok(tx[n] = 2)
    }));
    let mut both = pin!(txn_async((&root, &other), |_| Ok(begins())));
    while_the_disk_stands_still(&wal, || {
        assert!(poll(first.as_mut(), &waker).is_pending());
        for _ in 0..3 {
            assert!(poll(second.as_mut(), &waker).is_pending());
            assert!(poll(both.as_mut(), &waker).is_pending());
        }
        assert_eq!((peek(&root), peek(&other), began.get()), (1, 0, 0));
    });
    rung.recv().unwrap();
    block_on(async {
        first.await.unwrap();
        second.await.unwrap();
        both.await.unwrap();
    });
    assert_eq!((get(&root).unwrap(), get(&other).unwrap(), began.get()), (1, 2, 2));
}

#[test]
fn what_waits_for_no_disk_is_ready_at_once() {
    fn check(root: &Root<u64>, other: &Root<u64>) {
        assert!(matches!(poll(pin!(add_async(root)), Waker::noop()), Poll::Ready(Ok(1))));
        let both = pin!(txn_async((root, other), |((tx, n), _)| Ok(tx[n])));
        assert!(matches!(poll(both, Waker::noop()), Poll::Ready(Ok(1))));
        assert!(matches!(poll(pin!(root.read_async(|view, n| view[n])), Waker::noop()), Poll::Ready(Ok(1))));
    }
    let heap = Options::new().reserve(1 << 30).in_memory().unwrap();
    check(&heap.root("n").unwrap(), &heap.root("other").unwrap());
    for policy in [SyncPolicy::OnDemand, SyncPolicy::Every(Duration::MAX)] {
        let folder = tempfile::tempdir().unwrap();
        let heap = options(policy).durability(Durability::Wal).open(folder.path().join("heap")).unwrap();
        check(&heap.root("n").unwrap(), &heap.root("other").unwrap());
    }
}

#[test]
fn a_task_is_told_of_a_broken_disk() {
    let setup = Setup::every_commit();
    let (wal, (waker, rung)) = (setup.wal(), bell());
    let mut future = pin!(add_async(&setup.a));
    while_the_disk_stands_still(&wal, || {
        assert!(poll(future.as_mut(), &waker).is_pending());
        wal.poison("syncing the log", &io::Error::from_raw_os_error(libc::EIO));
    });
    rung.recv().unwrap();
    assert!(matches!(poll(future, &waker).map_ok(drop), Poll::Ready(result) if is_unknown(&result)));
    assert!(matches!(block_on(add_async(&setup.a)), Err(Error::Failed { .. })));
}

#[test]
fn a_panic_comes_out_of_the_poll_and_leaves_nothing() {
    let setup = Setup::every_commit();
    let panics = setup.a.txn_async(|tx, n| -> Result<()> {
        tx[n] = 7;
        panic!("in a test")
    });
    catch_unwind(AssertUnwindSafe(|| block_on(panics))).unwrap_err();
    assert_eq!(block_on(add_async(&setup.a)).unwrap(), 1);
    let nested = setup.a.txn(|_, _| Ok(block_on(add_async(&setup.b)))).unwrap();
    assert!(matches!(nested, Err(Error::Nested)));
}

/// A small executor of several threads.
#[derive(Default)]
struct Executor {
    ready: Mutex<VecDeque<Arc<Task>>>,
    /// Notified when a task is ready or complete.
    changed: Condvar,
    left: Mutex<usize>,
}

struct Task {
    /// The task's future, `None` when the task is complete.
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    executor: Arc<Executor>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let executor = self.executor.clone();
        executor.ready.lock().unwrap().push_back(self);
        executor.changed.notify_all();
    }
}

impl Executor {
    fn spawn(self: &Arc<Self>, future: impl Future<Output = ()> + Send + 'static) {
        *self.left.lock().unwrap() += 1;
        Arc::new(Task { future: Mutex::new(Some(Box::pin(future))), executor: self.clone() }).wake();
    }

    fn run(&self) {
        loop {
            let mut ready = self.ready.lock().unwrap();
            let task = loop {
                if *self.left.lock().unwrap() == 0 {
                    return;
                }
                match ready.pop_front() {
                    Some(task) => break task,
                    None => ready = self.changed.wait(ready).unwrap(),
                }
            };
            drop(ready);
            let waker = Waker::from(task.clone());
            let mut future = task.future.lock().unwrap();
            let is_complete = future.as_mut().is_some_and(|future| poll(future.as_mut(), &waker).is_ready());
            if is_complete {
                *future = None;
                // `ready` is locked, so that a thread that has just looked at `left` does not miss the
                // notification.
                let _ready = self.ready.lock().unwrap();
                *self.left.lock().unwrap() -= 1;
                self.changed.notify_all();
            }
        }
    }
}

#[test]
fn many_tasks_share_the_syncs_of_two_threads() {
    const TASKS: u64 = 40;
    const TIMES: u64 = 10;
    let setup = Setup::every_commit();
    let executor = Arc::new(Executor::default());
    let before = setup.heap.stats().syncs;
    while_the_disk_stands_still(&setup.wal(), || {
        for task in 0..TASKS {
            let (a, b) = (setup.a.clone(), setup.b.clone());
            executor.spawn(async move {
                for _ in 0..TIMES {
                    add_async(if task % 2 == 0 { &a } else { &b }).await.unwrap();
                }
                let sum = txn_async((&a, &b), |((ta, a), (tb, b))| Ok(ta[a] + tb[b])).await.unwrap();
                assert!(sum >= TIMES);
            });
        }
    });
    thread::scope(|scope| {
        (0..2).for_each(|_| drop(scope.spawn(|| executor.run())));
    });
    assert_eq!(get(&setup.a).unwrap() + get(&setup.b).unwrap(), TASKS * TIMES);
    let syncs = setup.heap.stats().syncs - before;
    assert!(syncs > 0 && syncs <= TASKS * TIMES, "{syncs} syncs");
}
