//! The directory of roots.
#![allow(clippy::unit_arg)] // `Ok(tx[p] = 1)` is a transaction in one line

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pheap::{Error, Heap, P, PVec, Persist, Result, Root};
use pheap_testkit::*;

#[derive(Persist, Default)]
#[repr(C)]
struct Items<'r> {
    items: Option<P<'r, [u64]>>,
    id: u64,
}

fn names(heap: &Heap) -> Vec<String> {
    heap.roots().into_iter().map(|root| root.name).collect()
}

#[test]
fn list_rename_remove_create_again() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let heap = small().open(&path)?;
    assert_eq!(heap.roots(), []);
    for (i, name) in ["b", "a", "c"].into_iter().enumerate() {
        heap.root::<u64>(name)?.txn(|tx, p| Ok(tx[p] = i as u64))?;
    }
    heap.root::<Items>("d")?;
    assert_eq!(names(&heap), ["a", "b", "c", "d"]);
    let types: Vec<String> = heap.roots().into_iter().map(|root| root.type_name).collect();
    assert_eq!(types, ["u64", "u64", "u64", "Items"]);

    let a: Root<u64> = heap.existing_root("a")?;
    heap.rename_root("a", "z")?;
    assert_eq!((a.name(), a.read(|view, p| view[p])?), ("z".to_owned(), 1));
    assert!(matches!(heap.rename_root("a", "y"), Err(Error::NoSuchRoot(_))));
    assert!(matches!(heap.rename_root("b", "c"), Err(Error::RootExists(_))));
    heap.rename_root("c", "c")?;
    heap.remove_root("b")?;
    assert_eq!(heap.root::<u64>("b")?.read(|view, p| view[p])?, 0);
    heap.remove_root("d")?;
    heap.root::<[u8; 3]>("d")?;
    heap.rename_root("z", "m")?;
    heap.rename_root("m", "n")?; // each of the two slots of the name, again
    drop(a);
    heap.close()?;

    let heap = small().open(&path)?;
    assert_eq!(names(&heap), ["b", "c", "d", "n"]);
    assert_eq!(heap.root::<u64>("n")?.read(|view, p| view[p])?, 1);
    assert!(matches!(heap.root::<Items>("d"), Err(Error::TypeMismatch { .. })));
    heap.close()
}

#[test]
fn long_and_strange_names() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let mut all = vec![
        "x".repeat(255),
        "ä".repeat(127) + "y",
        "\0".to_owned(),
        " ".to_owned(),
        "a/b\\c\n".to_owned(),
        "💾".to_owned(),
        "x".repeat(254),
    ];
    let heap = small().open(&path)?;
    for (i, name) in all.iter().enumerate() {
        heap.root::<u64>(name)?.txn(|tx, p| Ok(tx[p] = i as u64))?;
    }
    // From the longest to the shortest and back.
    heap.rename_root(&all[0], "s")?;
    heap.rename_root("s", &all[0])?;
    heap.close()?;
    let heap = small().open(&path)?;
    for (i, name) in all.iter().enumerate() {
        assert_eq!(heap.existing_root::<u64>(name)?.read(|view, p| view[p])?, i as u64, "{name:?}");
    }
    all.sort();
    assert_eq!(names(&heap), all);
    Ok(())
}

#[test]
fn many_roots() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let heap = small().open(&path)?;
    let roots: Vec<Root<Items>> =
        (0..300).map(|i| heap.root(&format!("root {i:03}"))).collect::<Result<_>>()?;
    pheap::txn(&roots, |mut shards| {
        for i in 0..shards.len() {
            shards.with(i, |tx, r| -> Result<()> {
                tx[r].id = i as u64;
                let items = tx.alloc_slice(10, |j| (i * j) as u64)?;
                tx[r].items = Some(items);
                Ok(())
            })?;
        }
        Ok(())
    })?;
    for i in (0..300).step_by(3) {
        heap.remove_root(&format!("root {i:03}"))?;
    }
    drop(roots);
    heap.close()?;
    let heap = small().open(&path)?;
    assert_eq!(heap.roots().len(), 200);
    for i in (0..300).filter(|i| i % 3 != 0) {
        let root: Root<Items> = heap.existing_root(&format!("root {i:03}"))?;
        let seen = root.read(|view, r| (view[r].id, view[view[r].items.unwrap()][9]))?;
        assert_eq!(seen, (i, 9 * i));
    }
    Ok(())
}

/// Runs something that must not leave anything behind: neither a root nor pages.
fn leaves_nothing(path: &std::path::Path, what: impl FnOnce(&Heap)) {
    let heap = small().open(path).unwrap();
    drop(heap.root::<Items>("other").unwrap());
    let _ = heap.root_or::<Items>("warm up the type table", |tx| {
        tx.alloc_slice(1, |_| 0u64)?;
        Err(Error::abort("no"))
    });
    let (roots, free) = (names(&heap), heap.stats().free_bytes);
    what(&heap);
    assert_eq!(names(&heap), roots);
    assert_eq!(heap.stats().free_bytes, free);
    heap.close().unwrap();
    let heap = small().open(path).unwrap();
    assert_eq!(names(&heap), roots);
    assert_eq!(heap.stats().free_bytes, free);
    heap.root::<Items>("it").unwrap();
}

#[test]
fn an_error_in_root_or_leaves_nothing() {
    let dir = tempdir();
    for size in [1, 1000, 20_000] {
        leaves_nothing(&dir.path().join(size.to_string()), |heap| {
            for _ in 0..3 {
                let result = heap.root_or::<Items>("it", |tx| {
                    tx.alloc_slice(size, |i| i as u64)?;
                    Err(Error::abort("no"))
                });
                assert!(matches!(result, Err(Error::Aborted(_))));
                assert!(matches!(heap.existing_root::<Items>("it"), Err(Error::NoSuchRoot(_))));
            }
        });
    }
}

#[test]
fn a_panic_in_root_or_leaves_nothing() {
    let dir = tempdir();
    leaves_nothing(&dir.path().join("x"), |heap| {
        for _ in 0..3 {
            let result = catch_unwind(AssertUnwindSafe(|| {
                heap.root_or::<Items>("it", |tx| {
                    tx.alloc_slice(1000, |i| i as u64)?;
                    resume_unwind(Box::new(()))
                })
            }));
            assert!(result.is_err());
        }
    });
}

#[test]
fn no_space_for_a_root_leaves_nothing() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let heap = small().max_size(MIB).open(&path)?;
    let mut count = 0;
    let error = loop {
        match heap.root::<u64>(&count.to_string()) {
            Ok(root) => root.txn(|tx, p| Ok(tx[p] = count))?,
            Err(error) => break error,
        }
        count += 1;
    };
    assert!(matches!(error, Error::OutOfSpace { .. }), "{error}");
    assert!(count > 50);
    assert_eq!(heap.roots().len() as u64, count);
    heap.remove_root("0")?;
    heap.root::<u64>("again")?;
    heap.close()?;
    let heap = small().open(&path)?;
    assert_eq!(heap.roots().len() as u64, count);
    for i in 1..count {
        assert_eq!(heap.existing_root::<u64>(&i.to_string())?.read(|view, p| view[p])?, i);
    }
    Ok(())
}

#[test]
fn the_initial_value_is_made_once() -> Result<()> {
    let heap = small().in_memory()?;
    let mut made = 0;
    for _ in 0..3 {
        let root: Root<Items> = heap.root_or("r", |tx| {
            made += 1;
            Ok(Items { items: Some(tx.alloc_slice(5, |i| i as u64)?), id: 9 })
        })?;
        root.read(|view, r| assert_eq!((view[r].id, view[view[r].items.unwrap()].len()), (9, 5)))?;
    }
    assert_eq!(made, 1);
    // Many threads at a time: one of them makes it, all get it.
    let made = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let root: Root<u64> = heap
                    .root_or("s", |_| {
                        made.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        Ok(100)
                    })
                    .unwrap();
                root.txn(|tx, p| Ok(tx[p] += 1)).unwrap();
            });
        }
    });
    assert_eq!(made.into_inner(), 1);
    assert_eq!(heap.existing_root::<u64>("s")?.read(|view, p| view[p])?, 108);
    Ok(())
}

#[test]
fn removing_roots_gives_their_pages_back() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let heap = small().open(&path)?;
    for round in 0..1000u64 {
        let root: Root<Items> = heap.root("r")?;
        root.txn(|tx, r| {
            tx[r].id = round;
            let items = tx.alloc_slice(500 + round as usize % 100, |i| i as u64 ^ round)?;
            tx[r].items = Some(items);
            Ok(())
        })?;
        if round % 50 == 0 {
            // A log of several segments.
            root.txn(|tx, r| {
                let items = tx.alloc_slice(10_000, |i| i as u64)?;
                tx[r].items = Some(items);
                Ok(())
            })?;
            root.txn(|tx, r| {
                let items = tx[r].items.unwrap();
                tx[items].fill(round);
                Ok(())
            })?;
        }
        heap.remove_root("r")?;
    }
    assert_eq!(heap.stats().file_bytes, MIB);
    let free = heap.stats().free_bytes;
    heap.close()?;
    assert_eq!(std::fs::metadata(&path).unwrap().len(), MIB);
    let heap = small().open(&path)?;
    assert_eq!(heap.stats().free_bytes, free);
    assert!(free > MIB - (64 << 10), "{free}");
    Ok(())
}

#[test]
fn removal_waits_for_readers_and_writers() -> Result<()> {
    let heap = small().in_memory()?;
    for _ in 0..20 {
        let root: Root<u64> = heap.root("r")?;
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let reader = root.clone();
            scope.spawn(move || {
                reader
                    .read(|view, p| {
                        send.send(()).unwrap();
                        for _ in 0..100 {
                            assert_eq!(view[p], 0);
                            std::thread::yield_now();
                        }
                    })
                    .unwrap();
            });
            receive.recv().unwrap();
            heap.remove_root("r").unwrap();
            assert!(matches!(root.read(|_, _| ()), Err(Error::Closed)));
        });
    }
    Ok(())
}

/// Handles are `UnwindSafe`: a server catches the panic of a request as it is, and goes on.
#[test]
fn a_panic_is_caught_around_handles() -> Result<()> {
    fn is_unwind_safe<T: std::panic::UnwindSafe + std::panic::RefUnwindSafe>() {}
    is_unwind_safe::<Heap>();
    is_unwind_safe::<Root<PVec<'static, u64>>>();
    let heap = Heap::in_memory()?;
    let list: Root<PVec<u64>> = heap.root("list")?;
    let caught = catch_unwind(|| {
        list.txn(|tx, list| {
            list.push(tx, 1)?;
            panic!("as a handler may do");
            #[allow(unreachable_code)]
            Ok(())
        })
    });
    assert!(caught.is_err());
    assert!(catch_unwind(|| list.read(|_, _| -> () { panic!("as well") })).is_err());
    list.txn(|tx, list| list.push(tx, 2))?;
    list.read(|view, list| assert_eq!(list.as_slice(view, ..), [2]))?;
    assert!(catch_unwind(|| heap.check().map(|report| report.problems)).unwrap()?.is_empty());
    Ok(())
}
