//! Threads that could wait for ever: because later threads overtake them, or for each other.
//!
//! Most threads do not wait for a time: a thread stays inside until another one is found asleep, which is
//! taken to mean that it waits for the lock.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64};
use std::thread;
use std::time::Duration;

use pheap::sim::{Bug, set_bug};
use pheap::{Heap, Root};
use pheap_testkit::forks::in_child;
use pheap_testkit::{sleeps, this_thread};

use super::{in_memory, outcome};

/// A thread counts as waiting after this many consecutive looks have found it asleep.
const LOOKS: u32 = 20;
/// One in this many visits looks whether the waiting thread sleeps.
const EVERY: u64 = 16;

fn roots() -> (Heap, [Root<u64>; 2]) {
    let heap = in_memory();
    let roots = ["a", "b"].map(|name| heap.root(name).unwrap());
    (heap, roots)
}

/// The thread that waits for roots.
#[derive(Default)]
struct Crowd {
    waiting: AtomicI32,
    done: AtomicBool,
    /// Estimate of the number of visits that began while it slept.
    overtaken: AtomicU64,
}

/// Two threads that visit one root. One of them is always inside, if the lock permits it.
#[derive(Default)]
struct Visitors {
    threads: [AtomicI32; 2],
    begun: AtomicU64,
}

impl Visitors {
    /// Stays inside until the other thread has come in as well, seems to wait for the lock, or all is done.
    fn stay(&self, me: usize, crowd: &Crowd) {
        let mine = self.begun.fetch_add(1, Relaxed) + 1;
        if mine.is_multiple_of(EVERY) && sleeps(crowd.waiting.load(Relaxed)) {
            crowd.overtaken.fetch_add(EVERY, Relaxed);
        }
        let mut looks = 0;
        while looks < LOOKS && self.begun.load(Relaxed) == mine && !crowd.done.load(Relaxed) {
            looks = if sleeps(self.threads[1 - me].load(Relaxed)) { looks + 1 } else { 0 };
            thread::yield_now();
        }
    }
}

/// Runs `waits` in one thread while two threads for each of two roots `visit` it. Fails if about `enough`
/// visits begin while one call of `waits` sleeps.
fn overtaken(
    bug: Option<Bug>,
    enough: u64,
    visit: impl Fn(&Root<u64>, &dyn Fn()) + Sync,
    waits: &[fn(&[Root<u64>; 2])],
) -> Result<(), String> {
    let (_heap, roots) = roots();
    let (crowd, visitors) = (Crowd::default(), [Visitors::default(), Visitors::default()]);
    let is_kept_away = || crowd.overtaken.load(Relaxed) >= enough;
    let come = |root: &Root<u64>, visitors: &Visitors, me: usize| {
        set_bug(bug);
        visitors.threads[me].store(this_thread(), Relaxed);
        while !crowd.done.load(Relaxed) {
            visit(root, &|| visitors.stay(me, &crowd));
            crowd.done.fetch_or(is_kept_away(), Relaxed);
        }
    };
    thread::scope(|scope| {
        for (root, visitors) in roots.iter().zip(&visitors) {
            (0..2).for_each(|me| drop(scope.spawn(move || come(root, visitors, me))));
        }
        scope.spawn(|| {
            set_bug(bug);
            while visitors.iter().any(|visitors| visitors.begun.load(Relaxed) < 2) {
                thread::yield_now();
            }
            crowd.waiting.store(this_thread(), Relaxed);
            for wait in waits {
                if !is_kept_away() {
                    crowd.overtaken.store(0, Relaxed);
                }
                wait(&roots);
            }
            crowd.done.store(true, Relaxed);
        });
    });
    if is_kept_away() { Err("who came later has kept a transaction away".to_owned()) } else { outcome() }
}

fn add_to_one([a, _]: &[Root<u64>; 2]) {
    a.txn(|tx, n| Ok(tx[n] += 1)).unwrap();
}

fn add_to_both([a, b]: &[Root<u64>; 2]) {
    let both = pheap::txn((a, b), |((ta, a), (tb, b))| {
        ta[a] += 1;
        Ok(tb[b] += 1)
    });
    both.unwrap();
}

/// Reads that overlap, with transactions on one root and on both.
pub(super) fn turns(bug: Option<Bug>) -> Result<(), String> {
    let read = |root: &Root<u64>, stay: &dyn Fn()| root.read(|_, _| stay()).unwrap();
    overtaken(bug, 100_000, read, &[add_to_one, add_to_both].repeat(3))
}

/// Long transactions on each root, so that the lock passes between threads, with a transaction on both.
pub(super) fn transactions(bug: Option<Bug>) -> Result<(), String> {
    let change = |root: &Root<u64>, stay: &dyn Fn()| {
        let transaction = root.txn(|tx, n| {
            // Longer than the time during which the lock lets threads overtake waiting ones.
            thread::sleep(Duration::from_millis(2));
            stay();
            Ok(tx[n] += 1)
        });
        transaction.unwrap();
    };
    overtaken(bug, 300, change, &[add_to_both])
}

/// Nested reads in opposite orders, with transactions on each root.
pub(super) fn nested(bug: Option<Bug>) -> Result<(), String> {
    in_child(|| {
        let (_heap, [a, b]) = roots();
        thread::scope(|scope| {
            for (first, second) in [(&a, &b), (&b, &a), (&a, &a)] {
                scope.spawn(move || {
                    set_bug(bug);
                    for _ in 0..2000 {
                        let inner = first.read(|_, _| {
                            thread::yield_now();
                            second.read(|view, n| view[n]).unwrap()
                        });
                        assert!(inner.unwrap() <= 4000);
                    }
                });
            }
            for root in [&a, &b] {
                scope.spawn(move || (0..2000).for_each(|_| root.txn(|tx, n| Ok(tx[n] += 1)).unwrap()));
            }
        });
        true
    })?;
    outcome()
}
