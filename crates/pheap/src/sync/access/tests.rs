use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use pheap_testkit::process::{role, run_well};

use super::{RegionLock, upgrade_all};
use crate::sync::fence::heavy;
use crate::sync::gate::Closer;

/// How often a thread repeats an action.
const OFTEN: u64 = 1000;

struct Guarded {
    lock: RegionLock,
    /// The value that writers change, in two steps, so that one of two simultaneous changes may be lost.
    value: AtomicU64,
    /// A copy of `value`, which the writer changes together with it while it is alone.
    twin: AtomicU64,
}

impl Guarded {
    fn new() -> Guarded {
        Guarded { lock: RegionLock::new(), value: AtomicU64::new(0), twin: AtomicU64::new(0) }
    }

    /// Changes the values, and unlocks. This thread is the writer before the call, and not afterwards.
    fn change(&self) {
        let next = self.value.load(Relaxed) + 1;
        self.lock.upgrade();
        self.value.store(next, Relaxed);
        std::hint::spin_loop();
        self.twin.store(next, Relaxed);
        self.lock.unlock_upgradable();
    }

    fn change_often(&self, times: u64) {
        for _ in 0..times {
            self.lock.lock_upgradable(|| false).unwrap();
            self.change();
        }
    }

    fn read(&self) -> u64 {
        let entry = self.lock.lock_shared(false).unwrap();
        let value = self.value.load(Relaxed);
        assert_eq!(self.twin.load(Relaxed), value);
        self.lock.unlock_shared(entry);
        value
    }
}

#[test]
fn the_first_thread_is_the_owner_until_another_one_comes() {
    let first_uses: [fn(&Guarded); 4] = [
        |guarded| guarded.change_often(1),
        |guarded| assert_eq!(guarded.read() & 1, guarded.twin.load(Relaxed) & 1),
        |guarded| {
            guarded.lock.lock_quiescent(false).unwrap();
            guarded.lock.unlock_quiescent();
        },
        |guarded| {
            assert!(guarded.lock.try_lock_upgradable().unwrap());
            guarded.change();
        },
    ];
    for use_it in first_uses {
        let guarded = Guarded::new();
        use_it(&guarded);
        guarded.change_often(1);
        guarded.read();
        assert_eq!(guarded.lock.is_owned(), heavy().is_ok() && !crate::faults::watches_locks());
        // Another thread comes, with the same kind of access.
        thread::scope(|scope| scope.spawn(|| use_it(&guarded)).join().unwrap());
        assert!(!guarded.lock.is_owned());
        use_it(&guarded);
        assert!(!guarded.lock.is_owned());
    }
}

#[test]
fn nobody_meets_an_owner() {
    for round in 0..200 {
        let guarded = Guarded::new();
        let changed: u64 = thread::scope(|scope| {
            let threads = [(); 3].map(|()| {
                scope.spawn(|| {
                    guarded.change_often(50);
                    let has_it = match round % 2 {
                        0 => guarded.lock.try_lock_upgradable().unwrap(),
                        _ => guarded.lock.try_lock_for(Duration::from_micros(50)).unwrap(),
                    };
                    if has_it {
                        guarded.change();
                    }
                    let seen = guarded.read();
                    assert!(guarded.read() >= seen);
                    50 + u64::from(has_it)
                })
            });
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(guarded.read(), changed);
    }
}

#[test]
fn readers_of_all_kinds_see_no_change_in_halves() {
    let guarded = Guarded::new();
    let rounds = 40;
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut last = 0;
                for round in 0..rounds {
                    for _ in 0..OFTEN {
                        let seen = guarded.read();
                        assert!(seen >= last);
                        last = seen;
                    }
                    let entry = guarded.lock.lock_shared(false).unwrap();
                    let nested = guarded.lock.lock_shared(true).unwrap();
                    guarded.lock.unlock_shared(nested);
                    guarded.lock.unlock_shared(entry);
                    if round % 3 == 0 {
                        guarded.lock.lock_quiescent(false).unwrap();
                        guarded.lock.unlock_quiescent();
                    }
                }
            });
        }
        scope.spawn(|| (0..rounds).for_each(|round| guarded.change_often(OFTEN * (round % 3))));
    });
    assert_eq!(guarded.read(), (0..rounds).map(|round| OFTEN * (round % 3)).sum::<u64>());
}

#[test]
fn a_writer_lets_readers_in_until_it_is_upgraded() {
    let guarded = Guarded::new();
    // This thread writes first as the owner of the lock, and then as any other writer.
    for times in 0..2 {
        guarded.lock.lock_upgradable(|| false).unwrap();
        // A reader that has to revoke the lock also comes in.
        thread::scope(|scope| assert_eq!(scope.spawn(|| guarded.read()).join().unwrap(), 2 * times));
        guarded.lock.upgrade();
        thread::scope(|scope| {
            let reader = scope.spawn(|| guarded.read());
            thread::sleep(Duration::from_millis(20));
            assert!(!reader.is_finished());
            guarded.lock.downgrade();
            reader.join().unwrap();
            let others = scope.spawn(|| guarded.lock.try_lock_for(Duration::from_millis(1)).unwrap());
            assert!(!others.join().unwrap());
        });
        guarded.change();
        assert!(guarded.lock.try_lock_upgradable().unwrap());
        guarded.change();
    }
}

#[test]
fn others_wait_for_an_owner_or_give_up() {
    let guarded = Guarded::new();
    for _ in 0..2 {
        guarded.lock.lock_upgradable(|| false).unwrap();
        thread::scope(|scope| {
            let tries = scope.spawn(|| {
                let patience = Duration::from_millis(1);
                guarded.lock.try_lock_upgradable().unwrap() || guarded.lock.try_lock_for(patience).unwrap()
            });
            assert!(!tries.join().unwrap());
            let quiescent = scope.spawn(|| {
                guarded.lock.lock_quiescent(false).unwrap();
                guarded.lock.unlock_quiescent();
            });
            thread::sleep(Duration::from_millis(5));
            assert!(!quiescent.is_finished());
            guarded.change();
            quiescent.join().unwrap();
        });
        assert!(guarded.lock.try_lock_upgradable().unwrap());
        guarded.change();
    }
    assert_eq!(guarded.read(), 4);
}

#[test]
fn an_owner_reads_and_enters_again() {
    let guarded = Guarded::new();
    // A thread that has the lock already does not get it a second time.
    guarded.lock.lock_upgradable(|| false).unwrap();
    assert!(!guarded.lock.try_lock_for(Duration::from_millis(1)).unwrap());
    guarded.change();
    guarded.change_often(1);
    let entry = guarded.lock.lock_shared(false).unwrap();
    thread::scope(|scope| {
        // Another thread becomes the writer during this read, but is not upgraded.
        scope.spawn(|| {
            guarded.lock.lock_collected().unwrap();
            assert!(!guarded.lock.try_upgrade());
            guarded.lock.unlock_upgradable();
        });
    });
    guarded.lock.unlock_shared(entry);
    guarded.lock.lock_collected().unwrap();
    guarded.change();
    assert_eq!(guarded.read(), 3);
}

impl Guarded {
    /// Waits until a writer waits to be upgraded.
    fn until_somebody_waits(&self) {
        while self.lock.word.load(Relaxed) & super::CLOSED == 0 {
            thread::yield_now();
        }
    }
}

#[test]
fn who_has_nothing_reads_after_a_transaction_that_waits() {
    let guarded = Guarded::new();
    let order = Mutex::new(Vec::new());
    let note = |who| order.lock().unwrap().push(who);
    let entry = guarded.lock.lock_shared(false).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            guarded.lock.lock_upgradable(|| false).unwrap();
            guarded.lock.upgrade();
            note("transaction");
            guarded.lock.unlock_upgradable();
        });
        guarded.until_somebody_waits();
        scope.spawn(|| {
            let entry = guarded.lock.lock_shared(false).unwrap();
            note("read");
            guarded.lock.unlock_shared(entry);
        });
        // A nested read must not wait for a writer that waits for this thread. Neither must a read of a
        // thread that reads another region.
        let nested = guarded.lock.lock_shared(true).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                let entry = guarded.lock.lock_shared(true).unwrap();
                guarded.lock.unlock_shared(entry);
            });
        });
        note("nested");
        guarded.lock.unlock_shared(nested);
        // The read of the other thread has time to take the lock, if the lock lets it.
        thread::sleep(Duration::from_millis(30));
        guarded.lock.unlock_shared(entry);
    });
    assert_eq!(*order.lock().unwrap(), ["nested", "transaction", "read"]);
}

#[test]
fn readers_that_sleep_come_in_before_the_next_upgrade() {
    let guarded = Guarded::new();
    // After these two reads the lock has no owner. Readers that wait for an owner do not count as sleeping
    // readers, for which this test waits.
    guarded.read();
    thread::scope(|scope| scope.spawn(|| guarded.read()).join().unwrap());
    guarded.lock.lock_upgradable(|| false).unwrap();
    guarded.lock.upgrade();
    thread::scope(|scope| {
        let readers = [(); 3].map(|()| scope.spawn(|| guarded.read()));
        while guarded.lock.waiting().readers < 3 {
            thread::yield_now();
        }
        for _ in 0..3 {
            guarded.lock.downgrade();
            guarded.lock.upgrade();
            let next = guarded.value.load(Relaxed) + 1;
            guarded.value.store(next, Relaxed);
            guarded.twin.store(next, Relaxed);
        }
        assert!(readers.map(|reader| reader.join().unwrap()).iter().all(|&seen| seen == 0));
        guarded.lock.unlock_upgradable();
    });
}

/// Two threads read two regions, one within the other, in both orders, during transactions on both.
#[test]
fn writers_of_several_regions_are_upgraded_among_readers_that_nest() {
    let regions = [Guarded::new(), Guarded::new()];
    let [a, b] = &regions;
    let rounds = 2000;
    thread::scope(|scope| {
        for [outer, inner] in [[a, b], [b, a]] {
            scope.spawn(move || {
                for _ in 0..rounds {
                    let entry = outer.lock.lock_shared(false).unwrap();
                    let nested = inner.lock.lock_shared(true).unwrap();
                    assert_eq!(outer.value.load(Relaxed), inner.value.load(Relaxed));
                    inner.lock.unlock_shared(nested);
                    outer.lock.unlock_shared(entry);
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..rounds {
                regions.iter().for_each(|one| one.lock.lock_upgradable(|| false).unwrap());
                upgrade_all(&regions.each_ref().map(|one| &one.lock));
                for one in &regions {
                    one.value.store(one.value.load(Relaxed) + 1, Relaxed);
                    one.twin.store(one.twin.load(Relaxed) + 1, Relaxed);
                }
                regions.iter().for_each(|one| one.lock.unlock_upgradable());
            }
        });
    });
    assert_eq!(regions.each_ref().map(Guarded::read), [rounds, rounds]);
}

#[test]
fn a_nested_read_passes_a_closed_gate() {
    let (guarded, closer) = (Guarded::new(), Closer::patient());
    guarded.lock.gate.close(closer);
    let entry = guarded.lock.lock_shared(true).unwrap();
    thread::scope(|scope| {
        let read = scope.spawn(|| guarded.read());
        thread::sleep(Duration::from_millis(10));
        assert!(!read.is_finished());
        guarded.lock.gate.open(closer);
    });
    guarded.lock.unlock_shared(entry);
    guarded.change_often(1);
}

/// Runs in a separate process: other tests of this process need slots, too.
#[test]
fn more_threads_read_than_have_slots_and_others_get_theirs() {
    const THIS: &str = "sync::access::tests::more_threads_read_than_have_slots_and_others_get_theirs";
    if role().is_none() {
        return run_well(THIS, "readers", Path::new(""));
    }
    let guarded = Guarded::new();
    let (rounds, threads, writers) = (3, 100, 2);
    for _ in 0..rounds {
        let all_there = std::sync::Barrier::new(threads + writers);
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    guarded.read();
                    all_there.wait();
                    let entry = guarded.lock.lock_shared(false).unwrap();
                    let seen = guarded.value.load(Relaxed);
                    (0..20).for_each(|_| {
                        let nested = guarded.lock.lock_shared(true).unwrap();
                        assert_eq!(guarded.twin.load(Relaxed), seen);
                        guarded.lock.unlock_shared(nested);
                    });
                    guarded.lock.unlock_shared(entry);
                    for _ in 0..20 {
                        guarded.read();
                    }
                });
            }
            for _ in 0..writers {
                scope.spawn(|| {
                    all_there.wait();
                    guarded.change_often(100);
                });
            }
        });
    }
    assert_eq!(guarded.read(), (rounds * writers * 100) as u64);
}
