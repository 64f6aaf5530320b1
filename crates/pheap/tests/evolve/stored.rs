//! `Migrate` sees the values that the program has stored, each once, and nothing else.

use std::cell::Cell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use pheap::{
    Durability, Heap, Migrate, P, PBTreeMap, PHashMap, PSnapMap, PVec, PVecDeque, Persist, Result, field,
};
use pheap_testkit::*;

thread_local! {
    /// How often the function has seen each value.
    static SEEN: Cell<HashMap<u64, u64>> = Cell::default();
}

/// A value with a number, which may be 0.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
#[persist(id = "Item")]
struct Old {
    number: u64,
}

#[derive(Persist, Clone, Copy, Debug, PartialEq)]
#[repr(C)]
#[persist(id = "Item")]
struct New {
    number: u64,
    /// `number + 1`.
    next: u64,
}

impl Migrate<Old> for New {
    fn migrate(old: Old) -> New {
        let mut seen = SEEN.take();
        *seen.entry(old.number).or_default() += 1;
        SEEN.set(seen);
        New { number: old.number, next: old.number + 1 }
    }
}

macro_rules! top {
    ($name:ident, $item:ident) => {
        #[derive(Persist, Default)]
        #[repr(C)]
        #[persist(id = "Top")]
        struct $name<'r> {
            list: PVec<'r, $item>,
            lists: PVec<'r, P<'r, PVec<'r, $item>>>,
            ring: PVecDeque<'r, $item>,
            few: PHashMap<'r, u64, $item>,
            many: PHashMap<'r, u64, $item>,
            tree: PBTreeMap<'r, u64, $item>,
            slice: Option<P<'r, [$item]>>,
            alone: Option<P<'r, $item>>,
        }
    };
}
top!(Before, Old);
top!(After, New);

/// Stores `each` values in most places, numbered from 0, and removes others. Returns how many numbers it has
/// given out. The ring has dropped some of these values again.
fn fill(heap: &Heap, each: u64) -> Result<u64> {
    let mut next = 0;
    let mut item = || {
        next += 1;
        Old { number: next - 1 }
    };
    const REMOVED: Old = Old { number: u64::MAX / 2 };
    heap.root::<Before>("top")?.txn(|tx, top| {
        let (list, lists, ring) = (field!(top.list), field!(top.lists), field!(top.ring));
        let (few, many, tree) = (field!(top.few), field!(top.many), field!(top.tree));
        // An element in front is removed each time: so the ring begins in the middle, and goes round.
        (0..5).try_for_each(|_| ring.push_back(tx, REMOVED))?;
        for i in 0..each {
            list.push(tx, item())?;
            let inner = tx.alloc(PVec::new())?;
            inner.push(tx, item())?;
            lists.push(tx, inner)?;
            ring.push_back(tx, item())?;
            ring.pop_front(tx);
            many.insert(tx, i, item())?;
            tree.insert(tx, i, item())?;
            list.push(tx, REMOVED)?;
            list.pop(tx);
            many.insert(tx, each + i, REMOVED)?;
            tree.insert(tx, each + i, REMOVED)?;
            if i % 7 == 0 {
                many.remove(tx, &(each + i));
                tree.remove(tx, &(each + i));
            }
        }
        for _ in 0..5 {
            ring.push_back(tx, item())?;
            ring.pop_front(tx);
        }
        for i in 0..each {
            many.remove(tx, &(each + i));
            tree.remove(tx, &(each + i));
        }
        for key in 0..3 {
            few.insert(tx, key, item())?;
            few.insert(tx, key + 3, REMOVED)?;
            few.remove(tx, &(key + 3));
        }
        let slice = tx.alloc_slice(each as usize, |_| item())?;
        let alone = tx.alloc(item())?;
        (tx[top].slice, tx[top].alone) = (Some(slice), Some(alone));
        // Of these the program keeps nothing.
        tx.alloc(REMOVED)?;
        let _ = catch_unwind(AssertUnwindSafe(|| tx.alloc_slice::<Old>(3, |_| resume_unwind(Box::new(())))));
        Ok(())
    })?;
    Ok(next)
}

#[test]
fn each_value_is_seen_once() -> Result<()> {
    for each in [0, 1, 2, 3, 30, 1000] {
        let heap = small().in_memory()?;
        let made = fill(&heap, each)?;
        SEEN.take();
        // Cut after each transaction: the next call goes on with the rest.
        loop {
            let evolution = heap.evolve::<After>("top").with::<Old, New>();
            let evolution = evolution.on_progress(|_| resume_unwind(Box::new("enough")));
            if let Ok(done) = catch_unwind(AssertUnwindSafe(|| evolution.run())) {
                assert!(done?);
                break;
            }
        }
        let seen = SEEN.take();
        let in_heap = heap.existing_root::<After>("top")?.read(|view, top| {
            let top = &view[top];
            let mut all: Vec<New> = top.list.iter(view).copied().collect();
            all.extend(top.lists.iter(view).flat_map(|list| view[*list].iter(view)).copied());
            all.extend(top.ring.iter(view).copied());
            all.extend(top.few.values(view).chain(top.many.values(view)).copied());
            all.extend(top.tree.values(view).copied());
            all.extend(view[top.slice.unwrap()].iter().copied());
            all.push(view[top.alone.unwrap()]);
            all
        })?;
        assert!(in_heap.iter().all(|item| item.next == item.number + 1));
        let expected: HashMap<u64, u64> = in_heap.iter().map(|item| (item.number, 1)).collect();
        assert_eq!(seen, expected, "{each} in each place");
        assert!(in_heap.len() as u64 <= made && heap.check()?.is_clean());
    }
    Ok(())
}

/// Its nodes repeat their last value.
#[test]
fn a_map_with_versions() -> Result<()> {
    let heap = small().in_memory()?;
    let map = heap.root::<PSnapMap<u64, Old>>("map")?;
    map.txn(|tx, map| {
        (0..200).try_for_each(|n| map.insert(tx, &n, &Old { number: n }).map(drop))?;
        (0..50).try_for_each(|n| map.remove(tx, &(n * 4)).map(drop))
    })?;
    SEEN.take();
    assert!(heap.evolve::<PSnapMap<u64, New>>("map").with::<Old, New>().run()?);
    let seen = SEEN.take();
    assert_eq!(seen, (0..200).filter(|n| n % 4 != 0).map(|n| (n, 1)).collect());
    heap.existing_root::<PSnapMap<u64, New>>("map")?.read(|view, map| {
        assert_eq!(view[map].len(), 150);
        assert!(view[map].iter(view).all(|(key, item)| (item.number, item.next) == (*key, key + 1)));
    })
}

/// Slots that transactions leave unwritten, when a conversion begins.
#[test]
fn memory_that_nobody_has_written_is_not_seen() -> Result<()> {
    #[derive(Persist, Clone, Copy, Debug)]
    #[repr(u64)]
    enum Kind {
        One = 1,
        Two = 2,
    }
    #[derive(Persist, Default)]
    #[repr(C)]
    #[persist(id = "All")]
    struct Start<'r> {
        list: Option<P<'r, [Short<'r>]>>,
        rounds: u64,
    }
    #[derive(Persist, Default)]
    #[repr(C)]
    #[persist(id = "All")]
    struct End<'r> {
        list: Option<P<'r, [Long<'r>]>>,
        rounds: u64,
    }
    #[derive(Persist)]
    #[repr(C)]
    #[persist(id = "Rec")]
    struct Short<'r> {
        p: P<'r, [u64]>,
        kind: Kind,
    }
    #[derive(Persist)]
    #[repr(C)]
    #[persist(id = "Rec")]
    struct Long<'r> {
        p: P<'r, [u64]>,
        kind: Kind,
        two: u64,
    }
    impl<'r> Migrate<Short<'r>> for Long<'r> {
        fn migrate(old: Short<'r>) -> Self {
            let tag = old.kind as u64;
            assert!(
                (1..=2).contains(&tag) && !format!("{:?}", old.p).ends_with("(0x0)"),
                "{tag}, {:?}",
                old.p
            );
            Long { p: old.p, kind: Kind::Two, two: tag + 1 }
        }
    }

    for _ in 0..50 {
        let heap = small().durability(Durability::Process).in_memory()?;
        let old = heap.root::<Start>("all")?;
        old.txn(|tx, all| {
            let p = tx.alloc_slice(3, |i| i as u64)?;
            let list = tx.alloc_slice(2, |_| Short { p, kind: Kind::One })?;
            tx[all].list = Some(list);
            Ok(())
        })?;
        let started = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let unwritten = || {
                    old.txn(|tx, all| {
                        let panics = |_| resume_unwind(Box::new("not made"));
                        let _ = catch_unwind(AssertUnwindSafe(|| tx.alloc_slice::<Short>(3, panics)));
                        tx[all].rounds += 1;
                        Ok(())
                    })
                };
                while unwritten().is_ok() {
                    started.store(true, Ordering::Relaxed);
                }
            });
            while !started.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            assert!(heap.evolve::<End>("all").with::<Short, Long>().run()?);
            Ok(())
        })?;
        heap.existing_root::<End>("all")?.read(|view, all| {
            assert!(
                view[view[all].list.unwrap()].iter().all(|long| long.two == 2 && view[long.p].len() == 3)
            );
        })?;
    }
    Ok(())
}
