//! The lock of regions in a model: no reader is inside with a writer that is upgraded, no writer with another one; what one has written the next one sees; and nobody waits
//! for ever.

use std::sync::Arc;

use loom::cell::Cell;
use loom::thread;

use super::{Access, upgrade_all};
use crate::sync::Mistake;
use crate::sync::model::{Seed, explore, finds};
use crate::sync::thread::model::be;

struct Guarded {
    lock: Access,
    /// Of the writer: loom fails if two threads are at it, one of them to write.
    draft: Cell<u64>,
    /// What readers look at.
    value: Cell<u64>,
}

impl Guarded {
    /// After so many changes by thread 1.
    fn new(changes: u64) -> Arc<Guarded> {
        let lock = Access::new(1);
        let guarded = Arc::new(Guarded { lock, draft: Cell::new(0), value: Cell::new(0) });
        be(1);
        (0..changes).for_each(|_| guarded.change());
        guarded
    }

    fn publish(&self) {
        self.value.set(self.draft.get());
    }

    /// Changes it as the writer, which this thread is, and is not any more.
    fn changes(&self) {
        self.draft.set(self.draft.get() + 1);
        self.lock.upgrade();
        self.publish();
        self.lock.unlock_upgradable();
    }

    fn change(&self) {
        self.lock.lock_upgradable(|| false).unwrap();
        self.changes();
    }

    /// Two changes, beside readers in between.
    fn change_twice(&self) {
        self.lock.lock_upgradable(|| false).unwrap();
        for last in [false, true] {
            self.draft.set(self.draft.get() + 1);
            self.lock.upgrade();
            self.publish();
            if last {
                self.lock.unlock_upgradable();
            } else {
                self.lock.downgrade();
            }
        }
    }

    /// Looks at what the writer alone has, and changes nothing.
    fn look(&self) {
        self.lock.lock_upgradable(|| false).unwrap();
        self.draft.get();
        self.lock.unlock_upgradable();
    }

    fn change_in_time(&self) {
        if self.lock.try_lock_unbiased_for(std::time::Duration::ZERO).unwrap() {
            self.changes();
        }
    }

    fn read(&self) -> u64 {
        let entry = self.lock.lock_shared(false).unwrap();
        let value = self.value.get();
        self.lock.unlock_shared(entry);
        value
    }

    fn read_twice(&self) {
        self.read();
        self.read();
    }

    /// Looks at what the writer has, and what readers look at, while there is no writer.
    fn compare(&self) {
        self.lock.lock_quiescent(false).unwrap();
        assert_eq!(self.draft.get(), self.value.get());
        self.lock.unlock_quiescent();
    }
}

fn beside<T: 'static>(number: u64, guarded: &Arc<Guarded>, f: fn(&Guarded) -> T) -> thread::JoinHandle<T> {
    let guarded = guarded.clone();
    thread::spawn(move || {
        be(number);
        f(&guarded)
    })
}

/// The owner goes in and out while another thread wants to be the writer, and becomes the owner itself.
fn the_owner_and_another_one() {
    let guarded = Guarded::new(1);
    let other = beside(2, &guarded, |guarded| {
        guarded.change();
        guarded.change();
    });
    guarded.change();
    guarded.look();
    other.join().unwrap();
    assert_eq!(guarded.read(), 4);
}

/// Two readers evict the owner side by side.
fn the_owner_and_two_readers() {
    let guarded = Guarded::new(1);
    let readers = [2, 3].map(|me| beside(me, &guarded, Guarded::read));
    guarded.change();
    let seen = readers.map(|reader| reader.join().unwrap());
    assert!(seen.iter().all(|seen| (1..=2).contains(seen)), "{seen:?}");
    assert_eq!(guarded.read(), 2);
}

/// A reader evicts the owner inside, and another one waits to be the writer.
fn the_owner_a_reader_and_another_one() {
    let guarded = Guarded::new(1);
    let reader = beside(2, &guarded, Guarded::read);
    let writer = beside(3, &guarded, Guarded::change);
    guarded.change_twice();
    reader.join().unwrap();
    writer.join().unwrap();
    assert_eq!(guarded.read(), 4);
}

/// One that was the owner is stopped as it enters, and goes on when another one is inside as the owner, and a third one comes.
fn a_late_owner() {
    let guarded = Guarded::new(1);
    let others = [2, 3].map(|me| {
        beside(me, &guarded, |guarded| {
            guarded.change();
            if crate::sync::thread::this_thread() == 2 {
                guarded.change();
            }
        })
    });
    guarded.change();
    others.map(|other| other.join().unwrap());
    assert_eq!(guarded.read(), 5);
}

/// A thread becomes the owner while another one reads.
fn a_reader_and_a_new_owner() {
    let guarded = Guarded::new(0);
    let reader = beside(2, &guarded, Guarded::read);
    guarded.change();
    guarded.change();
    reader.join().unwrap();
}

/// Readers do without locked instructions, and then a writer comes.
fn readers_and_a_writer() {
    let guarded = Guarded::new(0);
    guarded.read();
    let reader = beside(2, &guarded, Guarded::read_twice);
    let writer = beside(3, &guarded, Guarded::change);
    reader.join().unwrap();
    writer.join().unwrap();
    assert_eq!(guarded.read(), 1);
}

/// The owner reads, and is evicted.
fn an_owner_that_reads() {
    let guarded = Guarded::new(1);
    guarded.read();
    let writer = beside(2, &guarded, Guarded::change);
    guarded.read_twice();
    writer.join().unwrap();
    assert_eq!(guarded.read(), 2);
}

/// Two look when there is no writer.
fn the_owner_and_those_who_do_not_write() {
    let guarded = Guarded::new(1);
    let others = [2, 3].map(|me| beside(me, &guarded, Guarded::compare));
    guarded.change();
    others.map(|other| other.join().unwrap());
}

/// One gives up waiting for the owner, and another one reads.
fn the_owner_and_one_who_gives_up() {
    let guarded = Guarded::new(1);
    let impatient = beside(2, &guarded, Guarded::change_in_time);
    let reader = beside(3, &guarded, Guarded::read);
    guarded.change();
    impatient.join().unwrap();
    reader.join().unwrap();
}

/// A reader waits for one that has another region, beside a writer.
fn a_nested_reader_is_waited_for() {
    let guarded = Guarded::new(0);
    let entry = guarded.lock.lock_shared(false).unwrap();
    let writer = beside(2, &guarded, Guarded::change);
    let nested = beside(3, &guarded, |guarded| {
        let entry = guarded.lock.lock_shared(true).unwrap();
        guarded.value.get();
        guarded.lock.unlock_shared(entry);
    });
    nested.join().unwrap();
    guarded.lock.unlock_shared(entry);
    writer.join().unwrap();
}

/// Two threads read two regions, one inside of the other, in opposite orders, beside a writer of both.
fn nested_readers_beside_a_group() {
    let regions = [Guarded::new(0), Guarded::new(0)];
    let nest = |me, outer: &Arc<Guarded>, inner: &Arc<Guarded>| {
        let (outer, inner) = (outer.clone(), inner.clone());
        thread::spawn(move || {
            be(me);
            let entry = outer.lock.lock_shared(false).unwrap();
            let nested = inner.lock.lock_shared(true).unwrap();
            assert_eq!(outer.value.get(), inner.value.get());
            inner.lock.unlock_shared(nested);
            outer.lock.unlock_shared(entry);
        })
    };
    let readers = [nest(2, &regions[0], &regions[1]), nest(3, &regions[1], &regions[0])];
    regions.iter().for_each(|one| one.lock.lock_upgradable(|| false).unwrap());
    upgrade_all(&regions.each_ref().map(|one| &one.lock));
    regions.iter().for_each(|one| one.value.set(1));
    regions.iter().for_each(|one| one.lock.unlock_upgradable());
    readers.map(|reader| reader.join().unwrap());
}

#[test]
fn the_lock_of_a_region_in_every_order() {
    let programs: [(&str, usize, fn()); 11] = [
        ("the owner and another one", 3, the_owner_and_another_one),
        ("the owner and two readers", 2, the_owner_and_two_readers),
        ("the owner, a reader and another one", 2, the_owner_a_reader_and_another_one),
        ("a late owner", 2, a_late_owner),
        ("a reader and a new owner", 3, a_reader_and_a_new_owner),
        ("readers and a writer", 2, readers_and_a_writer),
        ("an owner that reads", 3, an_owner_that_reads),
        ("the owner and those who do not write", 2, the_owner_and_those_who_do_not_write),
        ("the owner and one who gives up", 2, the_owner_and_one_who_gives_up),
        ("a nested reader is waited for", 2, a_nested_reader_is_waited_for),
        ("nested readers beside a group", 1, nested_readers_beside_a_group),
    ];
    for (name, preemptions, program) in programs {
        explore(name, preemptions, program);
    }
    let mistakes: [(Mistake, usize, fn()); 11] = [
        (Mistake::NoHeavyFence, 3, the_owner_and_another_one),
        (Mistake::NoSecondLook, 3, the_owner_and_another_one),
        (Mistake::NoThirdLook, 2, the_owner_and_two_readers),
        (Mistake::NoHeavyFenceOfReaders, 2, the_owner_and_two_readers),
        (Mistake::OnePlace, 3, a_late_owner),
        (Mistake::WakeEvictedOnly, 3, the_owner_and_those_who_do_not_write),
        (Mistake::OwnerBesideReaders, 3, a_reader_and_a_new_owner),
        (Mistake::NoHeavyFenceOfWriters, 2, readers_and_a_writer),
        (Mistake::NoHeavyFenceOfSleepers, 3, an_owner_that_reads),
        (Mistake::NoFenceOfReaders, 3, a_reader_and_a_new_owner),
        (Mistake::NestedReadersWait, 2, a_nested_reader_is_waited_for),
    ];
    for (mistake, preemptions, program) in mistakes {
        assert!(finds(Seed::Mistake(mistake), preemptions, program), "{mistake:?}");
    }
    for (mistake, program) in [
        (Mistake::NoFenceOfWriters, a_reader_and_a_new_owner as fn()),
        (Mistake::SleepersUncounted, the_owner_a_reader_and_another_one),
    ] {
        assert!(finds(Seed::Mistake(mistake), 3, program), "{mistake:?}");
    }
}
