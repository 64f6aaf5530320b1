use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::{LockMode, RawRwLock};

/// A time limit that is longer than any wait in these tests should take.
const LONG: Duration = Duration::from_secs(60);

struct Guarded {
    lock: RawRwLock,
    /// Two values that are equal while no thread changes them. A change of a value has two steps, so one of
    /// two simultaneous changes may be lost.
    values: [AtomicU64; 2],
}

impl Guarded {
    fn new() -> Guarded {
        Guarded { lock: RawRwLock::new(), values: [const { AtomicU64::new(0) }; 2] }
    }

    /// Changes the values, and unlocks. This thread has the lock exclusively.
    fn changes(&self) {
        for value in &self.values {
            value.store(value.load(Relaxed) + 1, Relaxed);
        }
        self.lock.unlock_exclusive();
    }

    fn change(&self) {
        self.lock.lock(LockMode::Exclusive);
        self.changes();
    }

    /// Returns the value, and unlocks. This thread shares the lock.
    fn reads(&self) -> u64 {
        let [one, other] = self.values.each_ref().map(|value| value.load(Relaxed));
        self.lock.unlock_shared();
        assert_eq!(one, other);
        one
    }

    fn read(&self, want: LockMode) -> u64 {
        self.lock.lock(want);
        self.reads()
    }
}

/// Waits until `count` threads wait for `lock`.
fn until_waiting(lock: &RawRwLock, count: usize) {
    while lock.queue().waiters.len() != count {
        thread::yield_now();
    }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_millis(1)
}

fn is_as_new(lock: &RawRwLock) -> bool {
    lock.word.load(Relaxed) == 0 && lock.queue().waiters.is_empty()
}

#[test]
fn many_threads_come_for_everything() {
    const ROUNDS: u64 = 2000;
    let guarded = Guarded::new();
    let changed: u64 = thread::scope(|scope| {
        let threads = [(); 6].map(|()| {
            scope.spawn(|| {
                let mut changed = 0;
                for round in 0..ROUNDS {
                    match round % 5 {
                        0 => guarded.change(),
                        1 if guarded.lock.try_lock(LockMode::Exclusive) => guarded.changes(),
                        2 if guarded.lock.try_lock_until(LockMode::Exclusive, soon()) => guarded.changes(),
                        3 => {
                            guarded.lock.lock(LockMode::Shared);
                            let seen = guarded.read(LockMode::Nested);
                            assert_eq!(guarded.reads(), seen);
                            continue;
                        }
                        _ => {
                            if guarded.lock.try_lock_until(LockMode::Shared, soon()) {
                                guarded.reads();
                            }
                            continue;
                        }
                    }
                    changed += 1;
                }
                changed
            })
        });
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(guarded.read(LockMode::Shared), changed);
    assert!(changed >= 6 * ROUNDS / 5);
    assert!(is_as_new(&guarded.lock));
}

#[test]
fn served_in_the_order_of_coming() {
    let guarded = Guarded::new();
    let served = Mutex::new(Vec::new());
    guarded.lock.lock(LockMode::Exclusive);
    thread::scope(|scope| {
        for number in 0..4 {
            let (guarded, served) = (&guarded, &served);
            scope.spawn(move || {
                guarded.lock.lock(LockMode::Exclusive);
                served.lock().unwrap().push(number);
                guarded.lock.unlock_exclusive();
            });
            until_waiting(&guarded.lock, number + 1);
        }
        guarded.lock.unlock_exclusive();
    });
    assert_eq!(*served.lock().unwrap(), [0, 1, 2, 3]);
    assert!(is_as_new(&guarded.lock));
}

#[test]
fn nested_readers_pass_writers_that_wait_and_others_do_not() {
    let guarded = Guarded::new();
    guarded.lock.lock(LockMode::Shared);
    thread::scope(|scope| {
        scope.spawn(|| guarded.change());
        until_waiting(&guarded.lock, 1);
        assert!(!guarded.lock.try_lock(LockMode::Shared));
        assert!(!guarded.lock.try_lock_until(LockMode::Shared, soon()));
        assert_eq!(guarded.read(LockMode::Nested), 0);
        let reader = scope.spawn(|| guarded.read(LockMode::Shared));
        until_waiting(&guarded.lock, 2);
        assert_eq!(guarded.reads(), 0);
        assert_eq!(reader.join().unwrap(), 1);
    });
    assert!(is_as_new(&guarded.lock));
}

#[test]
fn who_gives_up_keeps_nobody_waiting() {
    let guarded = Guarded::new();
    guarded.lock.lock(LockMode::Shared);
    thread::scope(|scope| {
        let impatient = scope.spawn(|| {
            let in_time =
                guarded.lock.try_lock_until(LockMode::Exclusive, Instant::now() + Duration::from_millis(50));
            assert!(!in_time);
        });
        // Waits until the impatient thread is in the queue, unless it has given up already.
        while guarded.lock.queue().waiters.is_empty() && !impatient.is_finished() {
            thread::yield_now();
        }
        let readers = [(); 2].map(|()| scope.spawn(|| guarded.read(LockMode::Shared)));
        for reader in readers {
            assert_eq!(reader.join().unwrap(), 0);
        }
        impatient.join().unwrap();
    });
    assert_eq!(guarded.reads(), 0);
    assert!(is_as_new(&guarded.lock));
}

#[test]
fn those_who_share_it_meet() {
    let guarded = Guarded::new();
    guarded.lock.lock(LockMode::Exclusive);
    let (inside, seen) = mpsc::channel();
    thread::scope(|scope| {
        let leave = [(); 2].map(|()| {
            let inside = inside.clone();
            let (leave, left) = mpsc::channel::<()>();
            scope.spawn({
                let guarded = &guarded;
                move || {
                    guarded.lock.lock(LockMode::Shared);
                    inside.send(()).unwrap();
                    left.recv_timeout(LONG).unwrap();
                    guarded.reads();
                }
            });
            leave
        });
        until_waiting(&guarded.lock, 2);
        guarded.lock.unlock_exclusive();
        for _ in 0..2 {
            seen.recv_timeout(LONG).unwrap();
        }
        assert!(!guarded.lock.try_lock(LockMode::Exclusive));
        for leave in leave {
            leave.send(()).unwrap();
        }
    });
    assert!(is_as_new(&guarded.lock));
}

/// A thread gets the lock, however often other threads take it in turns without a gap.
#[test]
fn nobody_is_overtaken_for_ever() {
    let guarded = Guarded::new();
    for (often, once) in [
        (LockMode::Shared, LockMode::Exclusive),
        (LockMode::Exclusive, LockMode::Shared),
        (LockMode::Exclusive, LockMode::Exclusive),
    ] {
        let is_over = AtomicBool::new(false);
        let work = |want| {
            guarded.lock.lock(want);
            match want {
                LockMode::Exclusive => guarded.changes(),
                LockMode::Shared | LockMode::Nested => drop(guarded.reads()),
            }
        };
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !is_over.load(Relaxed) {
                        work(often);
                    }
                });
            }
            for _ in 0..20 {
                work(once);
            }
            is_over.store(true, Relaxed);
        });
    }
    assert!(is_as_new(&guarded.lock));
}
