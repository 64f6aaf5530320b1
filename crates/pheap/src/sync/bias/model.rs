//! A biased lock in a model: nobody is inside with somebody else, what one has written the next one sees, and nobody waits for ever.

use std::sync::Arc;

use loom::cell::Cell;
use loom::sync::{RwLock, RwLockWriteGuard};
use loom::thread;

use super::Bias;
use crate::sync::Mistake;
use crate::sync::model::{Seed, explore, finds};

/// The lock, taken. What a model finds is a panic, and loom cannot do anything more after that.
struct Taken<'a>(Option<RwLockWriteGuard<'a, ()>>);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::mem::forget(self.0.take());
        }
    }
}

/// What a region is, as far as its lock goes.
struct Guarded {
    bias: Bias,
    lock: RwLock<()>,
    /// Loom fails if two threads are at it, one of them to write.
    value: Cell<u64>,
}

impl Guarded {
    fn new() -> Arc<Guarded> {
        Arc::new(Guarded { bias: Bias::new(1), lock: RwLock::new(()), value: Cell::new(0) })
    }

    fn change(&self, me: u64) {
        let taken = (!self.bias.enter(me)).then(|| {
            let guard = Taken(Some(self.lock.write().unwrap()));
            assert!(self.bias.evict(|| None));
            self.bias.note(me);
            guard
        });
        self.value.set(self.value.get() + 1);
        assert_ne!(self.bias.leave(), taken.is_some());
        if taken.is_some() {
            self.bias.before_unlock();
        }
    }

    fn read(&self, me: u64) -> u64 {
        let _taken = self.lock.read().unwrap();
        self.bias.has_shared(me);
        self.value.get()
    }
}

/// The owner goes in and out while another thread wants to be in, and becomes the owner itself.
fn the_owner_and_another_one() {
    let guarded = Guarded::new();
    guarded.change(1);
    let other = {
        let guarded = guarded.clone();
        thread::spawn(move || {
            guarded.change(2);
            guarded.change(2);
        })
    };
    guarded.change(1);
    guarded.change(1);
    other.join().unwrap();
    assert_eq!(guarded.read(1), 5);
}

/// Two readers evict the owner side by side.
fn the_owner_and_two_readers() {
    let guarded = Guarded::new();
    guarded.change(1);
    let readers = [2, 3].map(|me| {
        let guarded = guarded.clone();
        thread::spawn(move || guarded.read(me))
    });
    guarded.change(1);
    let seen = readers.map(|reader| reader.join().unwrap());
    assert!(seen.iter().all(|seen| (1..=2).contains(seen)), "{seen:?}");
    assert_eq!(guarded.read(1), 2);
}

/// One that was the owner is stopped as it enters, and goes on when another one is inside as the owner, and a third one comes.
fn a_late_owner() {
    let guarded = Guarded::new();
    guarded.change(1);
    let others = [2, 3].map(|me| {
        let guarded = guarded.clone();
        thread::spawn(move || {
            guarded.change(me);
            if me == 2 {
                guarded.change(me);
            }
        })
    });
    guarded.change(1);
    for other in others {
        other.join().unwrap();
    }
    assert_eq!(guarded.read(1), 5);
}

#[test]
fn a_biased_lock_in_every_order() {
    let programs: [(&str, usize, fn()); 3] = [
        ("the owner and another one", 4, the_owner_and_another_one),
        ("the owner and two readers", 3, the_owner_and_two_readers),
        ("a late owner", 3, a_late_owner),
    ];
    for (name, preemptions, program) in programs {
        for place in explore(name, preemptions, program) {
            assert!(finds(Seed::Dropped(place), preemptions, program), "{name}: {place}");
        }
    }
    assert!(finds(Seed::Mistake(Mistake::NoHeavyFence), 4, the_owner_and_another_one));
    assert!(finds(Seed::Mistake(Mistake::NoSecondLook), 4, the_owner_and_another_one));
    assert!(finds(Seed::Mistake(Mistake::WakeEvictedOnly), 3, the_owner_and_two_readers));
    assert!(finds(Seed::Mistake(Mistake::OneSlot), 3, a_late_owner));
}
