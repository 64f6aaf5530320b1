//! Models of the lock at which writers queue. They check that no thread has the lock together with an
//! exclusive holder, that each holder sees what earlier holders have written, and that no thread waits for
//! ever.

use std::sync::Arc;
use std::time::Instant;

use loom::cell::Cell;
use loom::thread;

use super::{LockMode, RawRwLock};
use crate::sync::Mistake;
use crate::sync::model::{SeededMistake, explore, finds};

struct Guarded {
    lock: RawRwLock,
    /// The value under the lock. Loom fails if two threads access it at the same time, and one of them
    /// writes.
    value: Cell<u64>,
}

impl Guarded {
    fn new() -> Arc<Guarded> {
        Arc::new(Guarded { lock: RawRwLock::new(), value: Cell::new(0) })
    }

    fn changes(&self) {
        self.value.set(self.value.get() + 1);
        self.lock.unlock_exclusive();
    }

    fn change(&self) {
        self.lock.lock(LockMode::Exclusive);
        self.changes();
    }

    /// Changes the value, if this thread gets the lock in time. Returns whether it did.
    fn change_in_time(&self) -> bool {
        let in_time = self.lock.try_lock_until(LockMode::Exclusive, Instant::now());
        if in_time {
            self.changes();
        }
        in_time
    }

    fn read(&self) -> u64 {
        self.lock.lock(LockMode::Shared);
        let value = self.value.get();
        self.lock.unlock_shared();
        value
    }

    /// Reads within a read. A writer that waits for the lock must not prevent the inner read.
    fn read_nested(&self) {
        self.lock.lock(LockMode::Shared);
        self.lock.lock(LockMode::Nested);
        self.value.get();
        self.lock.unlock_shared();
        self.lock.unlock_shared();
    }
}

fn beside<T: 'static>(guarded: &Arc<Guarded>, f: fn(&Guarded) -> T) -> thread::JoinHandle<T> {
    let guarded = guarded.clone();
    thread::spawn(move || f(&guarded))
}

fn two_change() {
    let guarded = Guarded::new();
    let other = beside(&guarded, |guarded| {
        guarded.change();
        guarded.change();
    });
    guarded.change();
    guarded.change();
    other.join().unwrap();
    assert_eq!(guarded.read(), 4);
}

fn three_change() {
    let guarded = Guarded::new();
    let others = [(); 2].map(|()| beside(&guarded, Guarded::change));
    guarded.change();
    for other in others {
        other.join().unwrap();
    }
    assert_eq!(guarded.read(), 3);
}

fn two_read_and_one_changes() {
    let guarded = Guarded::new();
    let others = [(); 2].map(|()| beside(&guarded, Guarded::read));
    guarded.change();
    let seen = others.map(|other| other.join().unwrap());
    assert!(seen.iter().all(|seen| *seen <= 1), "{seen:?}");
}

fn one_reads_nested() {
    let guarded = Guarded::new();
    let other = beside(&guarded, Guarded::read_nested);
    guarded.change();
    other.join().unwrap();
}

/// While one thread reads, a writer gives up waiting, and a reader may wait behind it.
fn one_gives_up() {
    let guarded = Guarded::new();
    guarded.lock.lock(LockMode::Shared);
    let impatient = beside(&guarded, Guarded::change_in_time);
    let reader = beside(&guarded, Guarded::read);
    reader.join().unwrap(); // a writer that has given up keeps no reader out
    guarded.lock.unlock_shared();
    let changed = impatient.join().unwrap();
    assert_eq!(guarded.read(), u64::from(changed));
}

#[test]
fn a_lock_in_every_order() {
    let programs: [(&str, usize, fn()); 5] = [
        ("two change", 3, two_change),
        ("three change", 3, three_change),
        ("two read and one changes", 2, two_read_and_one_changes),
        ("one reads, nested", 3, one_reads_nested),
        ("one gives up", 2, one_gives_up),
    ];
    for (name, preemptions, program) in programs {
        explore(name, preemptions, program);
    }
    assert!(finds(SeededMistake::Mistake(Mistake::WaitUnseen), 3, two_change));
    assert!(finds(SeededMistake::Mistake(Mistake::GiveUpQuietly), 2, one_gives_up));
}
