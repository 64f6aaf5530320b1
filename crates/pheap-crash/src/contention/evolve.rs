//! Threads that use a heap while its roots get other types.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::yield_now;

use pheap::{Error, Heap, Migrate, P, PSnapMap, PVec, Persist, Root, field};

use super::{in_memory, run};

#[derive(Persist, Default)]
#[repr(C)]
#[persist(id = "contention::Root")]
struct Before<'r> {
    items: PVec<'r, P<'r, Old>>,
}

#[derive(Persist)]
#[repr(C)]
#[persist(id = "contention::Item")]
struct Old {
    id: u64,
}

/// The same root with larger items.
#[derive(Persist, Default)]
#[repr(C)]
#[persist(id = "contention::Root")]
struct After<'r> {
    items: PVec<'r, P<'r, New>>,
}

#[derive(Persist)]
#[repr(C)]
#[persist(id = "contention::Item")]
struct New {
    id: u64,
    twice: u64,
}

/// Whether the next conversion of the item in the middle panics.
static CUT_SHORT: AtomicBool = AtomicBool::new(false);

impl Migrate<Old> for New {
    fn migrate(old: Old) -> New {
        if old.id == ITEMS / 2 && CUT_SHORT.swap(false, Ordering::Relaxed) {
            resume_unwind(Box::new("cut short"));
        }
        New { id: old.id, twice: 2 * old.id }
    }
}

/// A root of two words. [`NewName`] has another name for the first.
#[derive(Persist, Default)]
#[repr(C)]
#[persist(id = "contention::Named")]
struct OldName<'r> {
    a: u64,
    number: Option<P<'r, u64>>,
}

#[derive(Persist, Default)]
#[repr(C)]
#[persist(id = "contention::Named")]
struct NewName<'r> {
    #[persist(was = "a")]
    b: u64,
    number: Option<P<'r, u64>>,
}

/// Returns whether a thread may get this result while other threads change the root.
fn is_expected<T>(result: &pheap::Result<T>) -> bool {
    matches!(
        result,
        Ok(_)
            | Err(Error::NoSuchRoot(_)
                | Error::Migrated { .. }
                | Error::Closed
                | Error::Unfinished { .. }
                | Error::HeldPointers { .. }
                | Error::TypeMismatch { .. })
    )
}

fn is_fine<T>(result: pheap::Result<T>) {
    let error = result.as_ref().err().map(ToString::to_string);
    assert!(is_expected(&result), "{error:?}");
}

/// Opens a root as a compatible type, which is accepted without a conversion.
pub(super) fn accepted() -> Result<(), String> {
    let heap = in_memory();
    let old = || {
        is_fine(heap.root::<OldName>("x").and_then(|root| {
            for _ in 0..20 {
                // Gives other threads time to come.
                root.txn(|tx, named| {
                    tx[named].a += 1;
                    yield_now();
                    Ok(())
                })?;
            }
            let held = root.txn(|tx, named| {
                let number = tx.alloc(5)?;
                tx[named].number = Some(number);
                Ok(tx.hold(number))
            })?;
            (0..1000).for_each(|_| drop(held.clone()));
            Ok(())
        }));
    };
    let new = || {
        is_fine(heap.existing_root::<NewName>("x").and_then(|root| root.read(|view, named| view[named].b)));
    };
    let look = || {
        is_fine(
            heap.existing_root::<OldName>("x")
                .and_then(|root| root.read(|_, _| (0..20).for_each(|_| yield_now()))),
        );
    };
    let again = |_| {
        old();
        new();
        drop(heap.remove_root("x"));
    };
    let others = |_| {
        drop(heap.stats());
        is_fine(heap.root::<u64>("other"));
    };
    run(60, &[&again], &[&|_| new(), &|_| old(), &|_| look(), &others])
}

/// Converts objects in several threads at a time.
pub(super) fn converted() -> Result<(), String> {
    let heap = in_memory();
    let fill = || {
        let root = heap.root::<Before>("x");
        is_fine(root.and_then(|root| {
            root.txn(|tx, before| {
                for id in 0..ITEMS {
                    let item = tx.alloc(Old { id })?;
                    field!(before.items).push(tx, item)?;
                }
                Ok(())
            })
        }));
    };
    let convert = || is_fine(heap.evolve::<After>("x").with::<Old, New>().run());
    // Without a conversion of the items, this cannot convert the root.
    let mistaken = || is_fine(heap.evolve::<After>("x").run());
    let look = |_| {
        let ids = heap.existing_root::<After>("x").and_then(|root| {
            root.read(|view, after| {
                view[after].items.iter(view).map(|&item| view[item].twice - view[item].id).sum()
            })
        });
        // The sum is 0 if another thread converted the root before it was filled.
        assert!(matches!(ids, Ok(0 | ITEM_SUM)) || is_expected::<u64>(&ids) && ids.is_err(), "{ids:?}");
    };
    let again = |round| {
        fill();
        mistaken();
        if round % 2 == 0 {
            CUT_SHORT.store(true, Ordering::Relaxed);
            let _ = catch_unwind(AssertUnwindSafe(convert));
            CUT_SHORT.store(false, Ordering::Relaxed); // another thread may have been faster
        }
        convert();
        drop(heap.remove_root("x"));
    };
    let others = |_| {
        drop(heap.stats());
        is_fine(heap.root::<u64>("other"));
    };
    run(20, &[&again], &[&|_| drop(catch_unwind(AssertUnwindSafe(convert))), &look, &others, &others])
}

/// Values of a map. They are renamed first, and then become larger.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct First(u64);

#[derive(Persist, Clone, Copy)]
#[repr(C)]
#[persist(was = "First")]
struct Second(u64);

#[derive(Persist, Clone, Copy)]
#[repr(C)]
#[persist(was = "Second")]
struct Third(u64, u64);

impl Migrate<Second> for Third {
    fn migrate(old: Second) -> Third {
        Third(old.0, old.0)
    }
}

type Map<V> = PSnapMap<'static, u64, V>;

/// Reads durable versions of maps while the maps are converted.
pub(super) fn maps() -> Result<(), String> {
    let heap = in_memory();
    let again = |_| {
        let fill = heap.root::<Map<First>>("x").and_then(|map| {
            for from in (0..ITEMS).step_by(50) {
                map.txn(|tx, map| {
                    (from..from + 50).try_for_each(|n| map.insert(tx, &n, &First(n)).map(drop))
                })?;
            }
            // So that a search for held pointers has many slots to look at.
            let many: Vec<_> = (0..5000).map(|_| map.durable_snapshot()).collect();
            drop(many);
            Ok(())
        });
        // A thread that opens the map as the second type may have converted it before.
        let is_full = match fill {
            Ok(()) => true,
            Err(Error::Migrated { .. }) => false,
            Err(error) => panic!("{error}"),
        };
        // Repeats until no thread holds a snapshot.
        while let Err(Error::HeldPointers { .. }) = heap.root::<Map<Second>>("x") {}
        while let Err(Error::HeldPointers { .. }) =
            heap.evolve::<Map<Third>>("x").with::<Second, Third>().run()
        {}
        let third = heap.existing_root::<Map<Third>>("x").unwrap();
        let sum: u64 = third.read(|view, map| view[map].values(view).map(|v| v.1).sum()).unwrap();
        assert!(sum == ITEM_SUM || !is_full, "{sum}");
        heap.remove_root("x").unwrap();
    };
    run(
        10,
        &[&again],
        &[&|_| look_at::<First>(&heap, |v| v.0), &|_| look_at::<Second>(&heap, |v| v.0), &|_| {
            look_at::<Third>(&heap, |v| v.1)
        }],
    )
}

/// Reads durable versions of a map with these values.
fn look_at<V>(heap: &Heap, value: fn(&V) -> u64)
where
    V: 'static + Copy + Send + Sync + pheap::Plain + for<'r> Persist<At<'r> = V>,
{
    let Ok(map): pheap::Result<Root<Map<V>>> = heap.existing_root("x") else { return };
    // Goes on after the map was converted: the calls then fail, and take locks.
    for _ in 0..1000 {
        if let Ok(version) = map.durable_snapshot() {
            let seen = version.read(|map| map.iter().all(|(n, v)| *n == value(v)));
            assert!(!matches!(seen, Ok(false)), "a version has changed");
        }
        let _ = map.read(|_, _| yield_now());
    }
}

const ITEMS: u64 = 300;
const ITEM_SUM: u64 = ITEMS * (ITEMS - 1) / 2;
