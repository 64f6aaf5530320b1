//! Held pointers in a model: several threads make, copy and release them. At most one of the threads has the
//! region.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

use loom::thread;

use super::{Held, HeldState, HeldTable};
use crate::error::Error;
use crate::gc::versions::RootVersion;
use crate::layout::Pointee;
use crate::sync::model::{SeededMistake, explore, finds};
use crate::sync::{AtomicU64, Mistake, Mutex, mistake};

/// The parts of a region that held pointers need.
#[derive(Clone)]
struct Region {
    table: Arc<HeldTable>,
    lock: Arc<Mutex<()>>,
}

impl Region {
    fn new() -> Region {
        Region { table: Arc::default(), lock: Arc::default() }
    }

    /// Runs a transaction that holds the objects at `addresses`, and drops the pointers that `kept` does not
    /// return.
    fn txn(
        &self,
        addresses: &[usize],
        commits: bool,
        kept: impl FnOnce(Vec<Held<u64>>) -> Vec<Held<u64>>,
    ) -> Vec<Held<u64>> {
        let _locked = self.lock.lock();
        let held: Vec<Held<u64>> = addresses.iter().map(|&address| self.table.hold(address, false)).collect();
        let mut made = held.iter().map(Held::table_slot).collect();
        let kept = kept(held);
        self.table.end_transaction(&mut made, commits);
        kept
    }

    /// Returns the addresses with which a collection begins.
    fn collect(&self) -> Vec<usize> {
        let _locked = self.lock.lock();
        let mut found = Vec::new();
        self.table.for_each(|address| found.push(address));
        found.sort_unstable();
        found
    }

    fn get<T: Pointee>(&self, held: &Held<T>) -> Option<usize> {
        match self.table.get(held, true) {
            Ok(address) => Some(address),
            Err(Error::NotHeld) => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Checks that no pointer is held, that no slot is lost, and that none is free twice.
    fn is_empty(&self) {
        assert_eq!(self.collect(), []);
        let mut table = self.table.slots.lock();
        table.free.sort_unstable();
        let all: Vec<u32> = (0..table.slots.len() as u32).collect();
        assert_eq!(table.free, all);
        assert!(table.slots.iter().all(|slot| slot.references == 0 && slot.state == HeldState::Dead));
    }
}

/// A thread clones a held pointer and drops the original, while another thread holds another object, and
/// begins a collection. The collection finds the held object, and the copy keeps its address.
fn a_copy_outlives_the_original() {
    let region = Region::new();
    let held = region.txn(&[8], true, |held| held).pop().unwrap();
    let other = {
        let region = region.clone();
        thread::spawn(move || {
            let copy = held.clone();
            drop(held);
            assert_eq!(region.get(&copy), Some(8));
            copy
        })
    };
    let more = region.txn(&[16], true, |held| held).pop().unwrap();
    assert_eq!(region.collect(), [8, 16]);
    let copy = other.join().unwrap();
    assert_eq!((region.get(&copy), region.get(&more)), (Some(8), Some(16)));
    drop((copy, more));
    region.is_empty();
}

/// Another thread drops a pointer that a transaction has made, before or after that transaction ends.
fn let_go_of_elsewhere() {
    let region = Region::new();
    let mut others = Vec::new();
    for round in 0..2 {
        let kept = region.txn(&[8, 16], true, |mut held| {
            let gone = held.pop();
            others.push(thread::spawn(move || drop(gone)));
            held
        });
        let found = region.collect();
        assert!(found.contains(&8), "{found:?} in round {round}");
        assert_eq!(region.get(&kept[0]), Some(8));
    }
    for other in others {
        other.join().unwrap();
    }
    region.is_empty();
}

/// A transaction is rolled back while another thread uses a pointer that it has made, and a third thread
/// holds another object.
fn rolled_back_beside_a_user() {
    let region = Region::new();
    let other = {
        let region = region.clone();
        thread::spawn(move || {
            let held = region.txn(&[24], true, |held| held).pop().unwrap();
            assert_eq!(region.get(&held), Some(24));
            assert!(region.collect().contains(&24));
        })
    };
    let mut user = None;
    let held = region.txn(&[8], false, |held| {
        let (region, held_there) = (region.clone(), held[0].clone());
        user = Some(thread::spawn(move || assert!(matches!(region.get(&held_there), Some(8) | None))));
        held
    });
    assert_eq!(region.get(&held[0]), None);
    assert!(!region.collect().contains(&8));
    drop(held);
    user.unwrap().join().unwrap();
    other.join().unwrap();
    region.is_empty();
}

/// A collection begins while a thread asks for the durable version, and a newer version becomes durable. The
/// collection finds the version that the thread gets.
fn a_version_that_was_asked_for() {
    let (region, durable) = (Region::new(), Arc::new(AtomicU64::new(1)));
    for number in [1, 2] {
        let version = RootVersion { ty: 0, words: [0, 0, number * 8], position: number };
        region.table.note_version(version, &[1]);
    }
    let reader = {
        let (region, durable) = (region.clone(), durable.clone());
        thread::spawn(move || {
            let early = durable.load(Acquire);
            let end = || if mistake(Mistake::LookUnlocked) { early } else { durable.load(Acquire) };
            let found = region.table.durable_version(end);
            found.and_then(|(_, held)| held).expect("one is durable, and has a top")
        })
    };
    durable.store(2, Release);
    let mut found = Vec::new();
    region.table.for_each_version(|| durable.load(Acquire), |top| found.push(top));
    region.table.for_each(|address| found.push(address));
    let top = region.get(&reader.join().unwrap()).expect("it is held");
    assert!(found.contains(&top), "{top} was asked for, and is not one of {found:?}");
}

#[test]
fn versions_in_every_order() {
    explore("a version that was asked for", 3, a_version_that_was_asked_for);
    assert!(finds(SeededMistake::Mistake(Mistake::LookUnlocked), 3, a_version_that_was_asked_for));
}

#[test]
fn held_pointers_in_every_order() {
    let programs: [(&str, fn()); 3] = [
        ("a copy outlives the original", a_copy_outlives_the_original),
        ("let go of elsewhere", let_go_of_elsewhere),
        ("rolled back beside a user", rolled_back_beside_a_user),
    ];
    for (name, program) in programs {
        explore(name, 3, program);
    }
    assert!(finds(SeededMistake::Mistake(Mistake::LetGoTwice), 3, rolled_back_beside_a_user));
}
