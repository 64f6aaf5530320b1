//! A thread that waits for a root gets it, whichever other threads come. The tests count turns, because a
//! test with a clock measures how busy the machine is.
#![allow(clippy::unit_arg)] // `Ok(tx[p] = 1)` is a transaction in one line

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use pheap::{Heap, Result, Root};
use pheap_testkit::*;

/// Reads that may begin before a transaction that waits has its turn.
const ENOUGH: u64 = 20_000;
/// How long a read waits for the next one to begin. Nothing but the time that a test takes depends on it.
const PATIENCE: Duration = Duration::from_millis(2);

/// Two readers of a root. One of them is always inside, unless the lock keeps both out.
struct Relay<'a> {
    root: &'a Root<u64>,
    begun: AtomicU64,
    /// The number of reads that had begun when the other thread began to wait. `u64::MAX` before that.
    waits_since: AtomicU64,
}

impl<'a> Relay<'a> {
    fn new(root: &'a Root<u64>) -> Relay<'a> {
        Relay { root, begun: AtomicU64::new(0), waits_since: AtomicU64::new(u64::MAX) }
    }

    fn run(&self, done: &AtomicBool) {
        while !done.load(Ordering::Relaxed) && !self.is_over() {
            let stay = |_: &pheap::View<'_>, _: pheap::P<'_, u64>| {
                let (mine, start) = (self.begun.fetch_add(1, Ordering::Relaxed) + 1, Instant::now());
                while self.begun.load(Ordering::Relaxed) == mine && start.elapsed() < PATIENCE {
                    thread::yield_now();
                }
            };
            self.root.read(stay).unwrap();
        }
    }

    fn turns(&self) -> u64 {
        self.begun.load(Ordering::Relaxed).saturating_sub(self.waits_since.load(Ordering::Relaxed))
    }

    fn is_over(&self) -> bool {
        self.turns() > ENOUGH
    }

    fn somebody_waits(&self) {
        self.waits_since.store(self.begun.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// How many reads of each root begin before `work` is done, which has begun to wait.
fn turns(roots: &[&Root<u64>], work: impl FnOnce() + Send) -> Vec<u64> {
    let relays: Vec<Relay<'_>> = roots.iter().map(|root| Relay::new(root)).collect();
    let (done, worker) = (AtomicBool::new(false), AtomicI32::new(0));
    thread::scope(|scope| {
        for relay in &relays {
            (0..2).for_each(|_| drop(scope.spawn(|| relay.run(&done))));
        }
        while relays.iter().any(|relay| relay.begun.load(Ordering::Relaxed) < 10) {
            thread::yield_now();
        }
        scope.spawn(|| {
            worker.store(this_thread(), Ordering::Relaxed);
            work();
            done.store(true, Ordering::Relaxed);
        });
        while !done.load(Ordering::Relaxed) && !sleeps(worker.load(Ordering::Relaxed)) {
            thread::yield_now();
        }
        relays.iter().for_each(Relay::somebody_waits);
    });
    relays.iter().map(Relay::turns).collect()
}

fn two_roots() -> Result<(Heap, Root<u64>, Root<u64>)> {
    let heap = small().in_memory()?;
    let (a, b) = (heap.root("a")?, heap.root("b")?);
    Ok((heap, a, b))
}

fn add(root: &Root<u64>) {
    root.txn(|tx, n| Ok(tx[n] += 1)).unwrap();
}

#[test]
fn a_transaction_beside_reads_that_overlap() -> Result<()> {
    let (heap, a, _) = two_roots()?;
    // In the first round, the lock may have an owner. In the second, it has none any more.
    for before in [0, 3000] {
        (0..before).for_each(|_| add(&a));
        let turns = turns(&[&a], || add(&a));
        let collected = self::turns(&[&a], || heap.collect().unwrap());
        // Not none: some may come in after it has let go of the lock, and before that is known.
        assert!(turns[0].max(collected[0]) < ENOUGH, "{turns:?} {collected:?}");
    }
    Ok(())
}

#[test]
fn a_transaction_over_two_roots_beside_reads_of_both() -> Result<()> {
    let (_heap, a, b) = two_roots()?;
    let both = || {
        pheap::txn((&a, &b), |((ta, a), (tb, b))| {
            ta[a] += 1;
            Ok(tb[b] += 1)
        })
        .unwrap();
    };
    for _ in 0..3 {
        let turns = turns(&[&a, &b], both);
        assert!(turns.iter().all(|&turns| turns < ENOUGH), "{turns:?}");
    }
    Ok(())
}

/// Returns how many turns on each root begin while `both` runs a transaction over them. On each root,
/// `threads` threads take one turn after the other, until `both` has returned or one root has had `enough`
/// turns.
fn turns_beside(
    roots: [&Root<u64>; 2],
    threads: usize,
    enough: u64,
    turn: impl Fn(&Root<u64>) + Sync,
    both: impl FnOnce(),
) -> [u64; 2] {
    let (begun, done) = ([const { AtomicU64::new(0) }; 2], AtomicBool::new(false));
    let count = |begun: &AtomicU64| begun.load(Ordering::Relaxed);
    let goes_on = || !done.load(Ordering::Relaxed) && begun.iter().all(|begun| count(begun) < enough);
    let (goes_on, turn) = (&goes_on, &turn);
    let before = thread::scope(|scope| {
        for (root, begun) in roots.into_iter().zip(&begun) {
            for _ in 0..threads {
                scope.spawn(move || {
                    while goes_on() {
                        begun.fetch_add(1, Ordering::Relaxed);
                        turn(root);
                    }
                });
            }
        }
        while begun.iter().any(|begun| count(begun) < threads as u64) {
            thread::yield_now();
        }
        let before = begun.each_ref().map(count);
        both();
        done.store(true, Ordering::Relaxed);
        before
    });
    std::array::from_fn(|i| count(&begun[i]) - before[i])
}

/// Longer than the lock lets others overtake: the lock goes from one thread that waits to the next.
const LONG: Duration = Duration::from_millis(2);

#[test]
fn a_transaction_over_two_roots_beside_transactions_on_each() -> Result<()> {
    let (_heap, a, b) = two_roots()?;
    let enough = 400;
    let stay = |root: &Root<u64>| {
        let done = root.txn(|tx, n| {
            thread::sleep(LONG);
            Ok(tx[n] += 1)
        });
        done.unwrap();
    };
    let both = || pheap::txn((&a, &b), |((ta, a), (tb, b))| Ok((ta[a] += 1, tb[b] += 1))).map(drop).unwrap();
    // With one thread, the lock is free for a moment between two transactions, but a waiting thread hardly
    // ever sees it free.
    for threads in [1, 2, 3] {
        let turns = turns_beside([&a, &b], threads, enough, stay, both);
        assert!(turns.iter().all(|&turns| turns < enough / 2), "{threads} threads: {turns:?}");
    }
    Ok(())
}

/// The reads take longer than new readers wait at first. There are so many that one should always be inside.
#[test]
fn a_transaction_over_two_roots_beside_many_long_reads() -> Result<()> {
    let (_heap, a, b) = two_roots()?;
    let enough = 200;
    let both = || pheap::txn((&a, &b), |((ta, a), (tb, b))| Ok((ta[a] += 1, tb[b] += 1))).map(drop).unwrap();
    let stay = |root: &Root<u64>| root.read(|_, _| thread::sleep(Duration::from_millis(150))).unwrap();
    let turns = turns_beside([&a, &b], 8, enough, stay, both);
    assert!(turns.iter().all(|&turns| turns < enough / 2), "{turns:?}");
    Ok(())
}

/// Runs `work`, and fails if it does not end within two minutes.
fn ends(work: impl FnOnce() + Send + 'static) {
    let (tell, told) = mpsc::channel();
    let worker = thread::spawn(move || {
        work();
        tell.send(()).unwrap();
    });
    if told.recv_timeout(Duration::from_secs(120)) == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!("threads wait for one another");
    }
    worker.join().unwrap();
}

#[test]
fn nested_reads_in_opposite_orders_beside_transactions() -> Result<()> {
    let (_heap, a, b) = two_roots()?;
    let (_other, c, d) = two_roots()?;
    ends(move || {
        thread::scope(|scope| {
            // Of one heap, of two, and of one root twice.
            let orders = [[&a, &b, &a], [&b, &a, &b], [&a, &c, &b], [&c, &a, &d], [&d, &b, &c]];
            for [first, second, third] in orders {
                scope.spawn(move || {
                    for _ in 0..2000 {
                        let sum = first.read(|view, x| {
                            thread::yield_now();
                            let inner = second.read(|view, x| {
                                thread::yield_now();
                                view[x] + third.read(|view, x| view[x]).unwrap()
                            });
                            view[x] + inner.unwrap()
                        });
                        assert!(sum.unwrap() < 1_000_000);
                    }
                });
            }
            for root in [&a, &b, &c, &d] {
                scope.spawn(move || (0..1000).for_each(|_| add(root)));
            }
            for (one, other) in [(&a, &b), (&d, &c)] {
                scope.spawn(move || {
                    for _ in 0..500 {
                        let both = pheap::txn((one, other), |((ta, a), (tb, b))| {
                            ta[a] += 1;
                            Ok(tb[b] += 1)
                        });
                        both.unwrap();
                    }
                });
            }
            // A transaction that reads a root of another heap.
            scope.spawn(|| {
                for _ in 0..500 {
                    a.txn(|tx, x| Ok(tx[x] += c.read(|view, y| view[y])? % 2)).unwrap();
                }
            });
        });
        let seen = [&b, &c, &d].map(|root| root.read(|view, x| view[x]).unwrap());
        assert_eq!(seen, [1500, 1500, 1500]);
    });
    Ok(())
}

/// A transaction over `a` and `b` waits for a transaction on `b`, which waits for a lock that a reader of `a`
/// has. So the transaction over both must not keep the reader away until it has had its turn.
#[test]
fn a_read_that_the_other_root_waits_for() -> Result<()> {
    let (_heap, a, b) = two_roots()?;
    ends(move || {
        let (own, both) = (Mutex::new(()), AtomicI32::new(0));
        let (b_is_taken, own_is_taken) = (&AtomicBool::new(false), &AtomicBool::new(false));
        let until = |flag: &AtomicBool| {
            while !flag.load(Ordering::Relaxed) {
                thread::yield_now();
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                let waits = b.txn(|tx, b| {
                    b_is_taken.store(true, Ordering::Relaxed);
                    until(own_is_taken);
                    let _own = own.lock().unwrap();
                    Ok(tx[b] += 1)
                });
                waits.unwrap();
            });
            until(b_is_taken);
            let guard = own.lock().unwrap();
            own_is_taken.store(true, Ordering::Relaxed);
            scope.spawn(|| {
                both.store(this_thread(), Ordering::Relaxed);
                pheap::txn((&a, &b), |((ta, a), _)| Ok(ta[a] += 1)).unwrap();
            });
            while !sleeps(both.load(Ordering::Relaxed)) {
                thread::yield_now();
            }
            assert_eq!(a.read(|view, a| view[a]).unwrap(), 0);
            drop(guard);
        });
        assert_eq!(a.read(|view, a| view[a]).unwrap() + b.read(|view, b| view[b]).unwrap(), 2);
    });
    Ok(())
}

#[test]
fn reads_beside_transactions_that_overlap() -> Result<()> {
    let (_heap, a, b) = two_roots()?;
    ends(move || {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for turn in 0..4 {
                let (a, b, done) = (&a, &b, &done);
                scope.spawn(move || {
                    while !done.load(Ordering::Relaxed) {
                        let roots = if turn % 2 == 0 { (a, b) } else { (b, a) };
                        match turn {
                            0 | 1 => pheap::txn(roots, |((tx, x), _)| Ok(tx[x] += 1)).unwrap(),
                            _ => add(a),
                        }
                    }
                });
            }
            (0..20).for_each(|_| assert!(a.read(|view, x| view[x]).unwrap() < u64::MAX));
            done.store(true, Ordering::Relaxed);
        });
    });
    Ok(())
}
