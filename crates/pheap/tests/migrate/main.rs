//! Roots that get another type.
#![allow(clippy::unit_arg)] // `Ok(tx[p] = 1)` is a transaction in one line

mod collection;
mod files;
mod handles;
mod old_file;
mod versions;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pheap::{Error, Heap, Held, P, Persist, Result, Root};
use pheap_testkit::*;
use versions::*;

/// Asserts that a heap holds what the first version has made, as a root of the first or second version.
fn holds(heap: &Heap, second: bool, n: u64) {
    assert_eq!(contents(heap), counted(n));
    assert_eq!(heap.existing_root::<v2::List>("list").is_ok(), second);
    assert_eq!(heap.existing_root::<v1::List>("list").is_ok(), !second);
    let report = heap.check().unwrap();
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.objects, n + 1);
}

#[test]
fn a_root_gets_another_type_and_keeps_its_objects() -> Result<()> {
    let dir = tempdir();
    for (i, options) in both().into_iter().enumerate() {
        let path = dir.path().join(i.to_string());
        let heap = options.open(&path)?;
        let list = make(&heap, 100)?;
        let node: Held<Node> = list.txn(|tx, list| Ok(tx.hold(tx[list].head.unwrap())))?;
        assert!(to_second(&heap)?);
        holds(&heap, true, 100);
        assert!(!to_second(&heap)?);
        let list: Second = heap.existing_root("list")?;
        list.txn(|tx, list| {
            let head = tx[list].head.unwrap();
            assert!(tx.get(&node)? == head); // the same object
            push2(tx, list, 100)
        })?;
        holds(&heap, true, 101);
        drop((list, node));
        heap.close()?;

        let heap = options.open(&path)?;
        holds(&heap, true, 101);
        // And back, to a type that the table has already.
        assert!(to_first(&heap)?);
        holds(&heap, false, 101);
        drop(heap); // closes it as well
        let heap = options.open(&path)?;
        holds(&heap, false, 101);
        heap.close()?;
    }
    Ok(())
}

#[test]
fn each_version_opens_what_any_older_one_has_written() -> Result<()> {
    for options in both() {
        for version in 1..=3 {
            let heap = options.in_memory()?;
            make(&heap, 50)?;
            if version > 1 {
                open_second(&heap)?;
            }
            if version > 2 {
                open_third(&heap)?;
            }
            for _ in 0..2 {
                let list = open_third(&heap)?;
                list.read(|view, list| {
                    assert_eq!(view[view[list].values], counted(50));
                    assert_eq!(view[list].sum, 49 * 50 / 2);
                })?;
            }
            let report = heap.check()?;
            assert!(report.is_clean() && report.objects == 2, "{report}");
            // The second version does not know the third.
            assert!(matches!(open_second(&heap), Err(Error::TypeMismatch { .. })));
        }
    }
    Ok(())
}

#[test]
fn what_has_another_layout_or_is_not_there_is_left_alone() -> Result<()> {
    let heap = small().in_memory()?;
    let number: Root<u64> = heap.root("list")?;
    number.txn(|tx, p| Ok(tx[p] = 5))?;
    assert!(!to_second(&heap)? && !to_third(&heap)?);
    assert!(!heap.migrate::<v1::List, v2::List>("nothing", |_, _| panic!("there is no such root"))?);
    assert!(!heap.migrate::<v1::List, v2::List>("", |_, _| panic!("there is no such root"))?);
    assert!(!heap.migrate::<u64, u64>("list", |_, _| panic!("it has this layout"))?);
    assert_eq!(number.read(|view, p| view[p])?, 5);
    let error = open_third(&heap).unwrap_err();
    assert!(error.to_string().contains("`Heap::migrate`"), "{error}");
    // Two types of one layout.
    mod other {
        use super::*;
        #[derive(Persist)]
        #[repr(C)]
        #[persist(id = "List")]
        pub(crate) struct Same<'r> {
            pub(crate) head: Option<P<'r, Node<'r>>>,
            pub(crate) len: u64,
        }
    }
    heap.remove_root("list")?;
    make(&heap, 3)?;
    assert!(!heap.migrate::<v1::List, other::Same>("list", |_, _| panic!("they are the same"))?);
    heap.existing_root::<other::Same>("list")?.read(|view, list| assert_eq!(view[list].len, 3))
}

#[test]
fn the_directory_knows_the_new_type() -> Result<()> {
    let heap = small().in_memory()?;
    drop(heap.root::<u32>("n")?);
    assert!(heap.migrate::<u32, [u64; 3]>("n", |tx, old| Ok([u64::from(tx[old]); 3]))?);
    let roots = heap.roots();
    assert_eq!((roots.len(), roots[0].type_name.as_str()), (1, "[u64; 3]"));
    assert!(matches!(heap.root::<u32>("n"), Err(Error::TypeMismatch { .. })));
    assert_eq!(heap.inspect("n", |object| object.type_name().to_owned())?, "[u64; 3]");
    heap.rename_root("n", "m")?;
    assert!(heap.migrate::<[u64; 3], ()>("m", |_, _| Ok(()))?);
    assert!(heap.migrate::<(), u8>("m", |_, _| Ok(9))?);
    assert_eq!(heap.root::<u8>("m")?.read(|view, p| view[p])?, 9);
    assert!(heap.check()?.is_clean());
    heap.remove_root("m")?;
    heap.root::<u32>("m").map(drop)
}

#[test]
fn an_error_or_a_panic_leaves_all_as_it_was() -> Result<()> {
    for options in both() {
        let heap = options.in_memory()?;
        let list = make(&heap, 20)?;
        heap.collect()?;
        let (before, types) = (heap.stats(), heap.types().len());
        for panics in [false, true, false] {
            for size in [1, 1000, 20_000] {
                let migrated = catch_unwind(AssertUnwindSafe(|| {
                    heap.migrate::<v1::List, v2::List>("list", |tx, old| {
                        tx[old].len = 0;
                        let head = tx[old].head.unwrap();
                        tx[head].value = 77;
                        tx.alloc_slice(size, |i| i as u64)?;
                        if panics {
                            resume_unwind(Box::new("as it should"));
                        }
                        Err(Error::abort("as it should"))
                    })
                }));
                match migrated {
                    Err(_) => assert!(panics),
                    Ok(result) => assert!(matches!(result, Err(Error::Aborted(_))) && !panics),
                }
                holds(&heap, false, 20);
                assert_eq!(contents_of_first(&list), counted(20)); // the handle is good
            }
        }
        // Nothing new is left, except in the type table.
        assert!(heap.types().len() <= types + 2, "{:?}", heap.types());
        heap.collect()?;
        let after = heap.stats();
        assert_eq!((before.live_objects, before.live_bytes), (after.live_objects, after.live_bytes));
        assert!(to_second(&heap)?);
        holds(&heap, true, 20);
    }
    Ok(())
}

#[test]
fn it_sees_and_changes_what_there_is() -> Result<()> {
    for options in both() {
        let heap = options.in_memory()?;
        make(&heap, 3000)?;
        // More than a write set takes. The migration also changes objects that it keeps.
        let migrated = heap.migrate::<v1::List, v2::List>("list", |tx, old| {
            let mut next = tx[old].head;
            while let Some(node) = next {
                tx[node].value *= 2;
                next = tx[node].next;
            }
            let first = tx.alloc(Node { value: 1, next: tx[old].head })?;
            tx[old].head = Some(first);
            tx[old].len += 1;
            second(tx, old)
        })?;
        assert!(migrated);
        let expected: Vec<u64> =
            std::iter::once(1).chain(counted(3000).iter().map(|value| value * 2)).collect();
        assert_eq!(contents(&heap), expected);
        assert!(heap.check()?.is_clean());
    }
    Ok(())
}

#[test]
fn the_old_root_object_may_stay() -> Result<()> {
    /// Keeps the old root.
    #[derive(Persist)]
    #[repr(C)]
    struct Versioned<'r> {
        list: P<'r, v1::List<'r>>,
        version: u64,
    }
    let heap = small().in_memory()?;
    let list = make(&heap, 10)?;
    let held: Held<v1::List> = list.txn(|tx, list| Ok(tx.hold(list)))?;
    assert!(heap.migrate::<v1::List, Versioned>("list", |_, list| Ok(Versioned { list, version: 2 }))?);
    heap.collect()?;
    let root: Root<Versioned> = heap.existing_root("list")?;
    root.txn(|tx, root| {
        let list = tx[root].list;
        assert!(tx.get(&held)? == list);
        push(tx, list, 10)
    })?;
    root.read(|view, root| assert_eq!(values(view, view[view[root].list].head), counted(11)))?;
    // Back to the first type: not the same object, which is held, but an equal one.
    assert!(heap.migrate::<Versioned, v1::List>("list", |tx, root| {
        let list = tx[root].list;
        Ok(v1::List { head: tx[list].head, len: tx[list].len })
    })?);
    heap.collect()?;
    holds(&heap, false, 11);
    assert_eq!(heap.stats().live_objects, 13);
    list.read(|view, list| {
        let old = view.get(&held).unwrap();
        assert!(old != list);
        assert_eq!(view[old].len, 11);
    })
}

#[test]
fn without_space_nothing_happens() -> Result<()> {
    for options in both() {
        let heap = options.max_size(MIB).in_memory()?;
        let list = make(&heap, 10)?;
        let full = |heap: &Heap| {
            heap.migrate::<v1::List, v3::List>("list", |tx, _| {
                let values = tx.alloc_slice(200_000, |_| 0)?;
                Ok(v3::List { values, sum: 0 })
            })
        };
        assert!(matches!(full(&heap), Err(Error::OutOfSpace { .. })));
        holds(&heap, false, 10);
        // Not even for the root.
        let filler: Root<Filler> = heap.root("other")?;
        for size in [20_000, 2000, 200, 20] {
            while filler
                .txn(|tx, filler| {
                    let more = tx.alloc_slice(size, |_| 0)?;
                    let next = tx.alloc(Filler { more: Some(more), next: tx[filler].next })?;
                    Ok(tx[filler].next = Some(next))
                })
                .is_ok()
            {}
        }
        let migrated = to_second(&heap);
        assert!(matches!(migrated, Err(Error::OutOfSpace { .. })), "{migrated:?}");
        assert_eq!(contents_of_first(&list), counted(10));
        heap.remove_root("other")?;
        assert!(to_second(&heap)?);
        holds(&heap, true, 10);
    }
    Ok(())
}

#[derive(Persist, Default)]
#[repr(C)]
struct Filler<'r> {
    more: Option<P<'r, [u64]>>,
    next: Option<P<'r, Filler<'r>>>,
}

#[test]
fn nested_it_fails_if_there_is_something_to_do() -> Result<()> {
    let heap = small().in_memory()?;
    let (list, other) = (make(&heap, 10)?, heap.root::<u64>("other")?);
    let is_nested = || matches!(to_second(&heap), Err(Error::Nested));
    other.txn(|_, _| Ok(assert!(is_nested())))?;
    list.txn(|_, _| Ok(assert!(is_nested())))?;
    list.read(|_, _| assert!(is_nested()))?;
    assert_eq!(contents_of_first(&list), counted(10));
    let migrated = heap.migrate::<v1::List, v2::List>("list", |tx, old| {
        assert!(is_nested());
        assert!(matches!(heap.rename_root("list", "x"), Err(Error::Nested)));
        assert!(matches!(heap.root::<u64>("new"), Err(Error::Nested)));
        assert!(matches!(heap.clone().close(), Err(Error::Nested)));
        assert!(matches!(list.read(|_, _| ()), Err(Error::Nested)));
        heap.existing_root::<v1::List>("list")?; // the directory has the old type as long
        second(tx, old)
    })?;
    assert!(migrated);
    other.txn(|_, _| Ok(assert!(!to_second(&heap)?)))
}
