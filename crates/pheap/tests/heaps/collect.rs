//! Collections: unreachable objects become free, reachable objects stay.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use pheap::{Durability, Heap, Held, Options, P, Persist, Root, Txn, View};
use pheap_testkit::{copy_as_killed, forget_file};

type Slice<'r> = Option<P<'r, [u64]>>;

#[derive(Persist, Default)]
#[repr(C)]
struct Lists<'r> {
    first: Option<P<'r, Node<'r>>>,
    second: Option<P<'r, Node<'r>>>,
    many: Option<P<'r, [Slice<'r>]>>,
    shape: Option<P<'r, Shape<'r>>>,
}

#[derive(Persist)]
#[repr(C)]
struct Node<'r> {
    value: u64,
    next: Option<P<'r, Node<'r>>>,
}

#[derive(Persist)]
#[repr(u8)]
enum Shape<'r> {
    Number(u64),
    Text(P<'r, str>),
    Both { left: P<'r, Shape<'r>>, right: P<'r, Shape<'r>> },
}

fn list<'r>(tx: &Txn<'r>, values: std::ops::Range<u64>) -> pheap::Result<Option<P<'r, Node<'r>>>> {
    let mut next = None;
    for value in values.rev() {
        next = Some(tx.alloc(Node { value, next })?);
    }
    Ok(next)
}

fn values<'r>(view: &View<'r>, mut next: Option<P<'r, Node<'r>>>) -> Vec<u64> {
    let mut values = Vec::new();
    while let Some(node) = next {
        values.push(view[node].value);
        next = view[node].next;
    }
    values
}

fn small() -> Options {
    // So that a copy of the file is all that a crash leaves.
    Options::new().arena_size(1 << 20).reserve(1 << 32).durability(Durability::Process)
}

fn in_memory() -> (Heap, Root<Lists<'static>>) {
    let heap = small().in_memory().unwrap();
    let root = heap.root("lists").unwrap();
    (heap, root)
}

#[test]
fn what_is_unlinked_is_free_after_a_collection() {
    let (heap, root) = in_memory();
    let before = heap.stats();
    for _ in 0..3 {
        root.txn(|tx, p| {
            tx[p].first = list(tx, 0..1000)?;
            tx[p].second = list(tx, 0..10)?;
            Ok(())
        })
        .unwrap();
    }
    assert_eq!(heap.stats().live_objects, before.live_objects + 3 * 1010);
    root.collect().unwrap();
    let stats = heap.stats();
    assert_eq!((stats.live_objects, stats.collections), (before.live_objects + 1010, 1));
    assert_eq!(stats.live_bytes, before.live_bytes + 1010 * 16);
    root.read(|view, p| {
        assert_eq!(values(view, view[p].first), (0..1000).collect::<Vec<_>>());
        assert_eq!(values(view, view[p].second), (0..10).collect::<Vec<_>>());
    })
    .unwrap();
    root.txn(|tx, p| {
        tx[p].first = None;
        Ok(())
    })
    .unwrap();
    heap.collect().unwrap();
    assert_eq!(heap.stats().live_objects, before.live_objects + 10);
}

#[test]
fn freed_slots_and_spans_are_used_again() {
    let (heap, root) = in_memory();
    for round in 0..50 {
        root.txn(|tx, p| {
            tx[p].first = list(tx, 0..20_000)?;
            let many = tx.alloc_slice(20, |_| None)?;
            tx[p].many = Some(many);
            for i in 0..20 {
                let element = many.at(tx, i);
                tx[element] = Some(tx.alloc_slice(1 << (i / 2 + round % 7), |i| i as u64)?);
            }
            Ok(())
        })
        .unwrap();
        heap.collect().unwrap();
    }
    let stats = heap.stats();
    assert!(stats.file_bytes <= 4 << 20, "{stats:?}");
    assert_eq!(stats.collections, 50);
}

#[test]
fn regions_are_collected_by_themselves() {
    let (heap, root) = in_memory();
    root.txn(|tx, p| {
        tx[p].second = list(tx, 0..10_000)?;
        Ok(())
    })
    .unwrap();
    for _ in 0..4000 {
        root.txn(|tx, p| {
            tx[p].first = list(tx, 0..1000)?;
            Ok(())
        })
        .unwrap();
    }
    // 64 MB were allocated, of which 176 KB are live.
    let stats = heap.stats();
    assert!(stats.collections >= 5, "{stats:?}");
    assert!(stats.file_bytes <= 12 << 20, "{stats:?}");
    assert_eq!(root.read(|view, p| values(view, view[p].second).len()).unwrap(), 10_000);
}

#[test]
fn all_kinds_of_pointers_are_followed() {
    let (heap, root) = in_memory();
    root.txn(|tx, p| {
        let text = tx.alloc_str("still here")?;
        let left = tx.alloc(Shape::Text(text))?;
        let right = tx.alloc(Shape::Number(u64::MAX))?;
        tx[p].shape = Some(tx.alloc(Shape::Both { left, right })?);
        let big = tx.alloc_slice(10_000, |i| i as u64)?;
        let many = tx.alloc_slice(5000, |_| None)?;
        let element = many.at(tx, 4999);
        tx[element] = Some(big);
        tx[p].many = Some(many);
        Ok(())
    })
    .unwrap();
    heap.collect().unwrap();
    // Much of what is free is written over.
    for _ in 0..20 {
        root.txn(|tx, _| {
            list(tx, 0..1000)?;
            tx.alloc_slice(10_000, |_| 7u64)?;
            tx.alloc_str("something else")?;
            tx.alloc(Shape::Number(3))?;
            Ok(())
        })
        .unwrap();
        heap.collect().unwrap();
    }
    root.read(|view, p| {
        let Shape::Both { left, right } = view[view[p].shape.unwrap()] else { panic!() };
        let Shape::Text(text) = view[left] else { panic!() };
        assert_eq!(&view[text], "still here");
        assert!(matches!(view[right], Shape::Number(u64::MAX)));
        let many = view[p].many.unwrap();
        let big = view[many][4999].unwrap();
        assert!(view[big].iter().copied().eq(0..10_000));
    })
    .unwrap();
}

#[test]
fn pointers_into_an_object_keep_it() {
    #[derive(Persist, Default)]
    #[repr(C)]
    struct Middle<'r> {
        at: Option<P<'r, u64>>,
    }
    let heap = small().in_memory().unwrap();
    let root = heap.root::<Middle>("middle").unwrap();
    root.txn(|tx, p| {
        let slice = tx.alloc_slice(100, |i| i as u64)?;
        tx[p].at = Some(slice.at(tx, 57));
        Ok(())
    })
    .unwrap();
    for _ in 0..3 {
        heap.collect().unwrap();
        root.txn(|tx, _| tx.alloc_slice(100, |_| 1u64).map(drop)).unwrap();
    }
    assert_eq!(root.read(|view, p| view[view[p].at.unwrap()]).unwrap(), 57);
}

#[test]
fn held_objects_stay_until_they_are_let_go() {
    let (heap, root) = in_memory();
    let nodes = |heap: &Heap| heap.stats().live_objects;
    let empty = nodes(&heap);
    let held: Held<Node> = root
        .txn(|tx, _| {
            let first = list(tx, 0..100)?.unwrap();
            Ok(tx.hold(first))
        })
        .unwrap();
    heap.collect().unwrap();
    assert_eq!(nodes(&heap), empty + 100);
    root.read(|view, _| {
        let first = view.get(&held).unwrap();
        assert_eq!(values(view, Some(first)), (0..100).collect::<Vec<_>>());
    })
    .unwrap();
    let copy = held.clone();
    drop(held);
    heap.collect().unwrap();
    assert_eq!(nodes(&heap), empty + 100);
    drop(copy);
    heap.collect().unwrap();
    assert_eq!(nodes(&heap), empty);
}

#[test]
fn what_a_transaction_took_back_is_free() {
    let (heap, root) = in_memory();
    root.txn(|tx, p| {
        tx[p].first = list(tx, 0..100)?;
        Ok(())
    })
    .unwrap();
    let before = heap.stats();
    for _ in 0..100 {
        root.txn(|tx, p| {
            tx[p].first = list(tx, 0..5000)?;
            tx.alloc_slice(20_000, |i| i as u64)?;
            Err::<(), _>(pheap::Error::abort("on purpose"))
        })
        .unwrap_err();
    }
    let after = heap.stats();
    assert_eq!(after.live_objects, before.live_objects);
    assert_eq!(after.file_bytes, before.file_bytes);
    assert_eq!(root.read(|view, p| values(view, view[p].first).len()).unwrap(), 100);
}

#[test]
fn collecting_inside_a_transaction_is_an_error() {
    let (heap, root) = in_memory();
    root.txn(|_, _| {
        assert!(matches!(heap.collect(), Err(pheap::Error::Nested)));
        assert!(matches!(root.collect(), Err(pheap::Error::Nested)));
        assert!(matches!(heap.wait_ready(), Err(pheap::Error::Nested)));
        Ok(())
    })
    .unwrap();
    heap.close().unwrap();
    assert!(matches!(root.collect(), Err(pheap::Error::Closed)));
}

#[test]
fn an_orderly_close_makes_marking_unnecessary() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("heap");
    let heap = small().open(&path).unwrap();
    let root = heap.root::<Lists>("lists").unwrap();
    root.txn(|tx, p| {
        tx[p].first = list(tx, 0..1000)?;
        Ok(())
    })
    .unwrap();
    root.txn(|tx, p| {
        tx[p].first = list(tx, 0..10)?;
        Ok(())
    })
    .unwrap();
    heap.collect().unwrap();
    let before = heap.stats();
    drop(root);
    heap.close().unwrap();

    let heap = small().open(&path).unwrap();
    let stats = heap.stats();
    assert!(stats.ready && stats.collections == 0, "{stats:?}");
    assert_eq!((stats.live_objects, stats.live_bytes), (before.live_objects, before.live_bytes));
    let root = heap.existing_root::<Lists>("lists").unwrap();
    root.txn(|tx, p| {
        tx[p].second = list(tx, 0..500)?;
        Ok(())
    })
    .unwrap();
    root.read(|view, p| {
        assert_eq!(values(view, view[p].first), (0..10).collect::<Vec<_>>());
        assert_eq!(values(view, view[p].second), (0..500).collect::<Vec<_>>());
    })
    .unwrap();
    // The 500 fit where the 1000 were.
    assert!(stats.free_bytes - heap.stats().free_bytes <= 8192, "more than the log has grown");
}

/// A copy of the file of an open heap is what a crash leaves.
#[test]
fn what_a_crash_leaves_behind_is_found_and_freed() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("heap"), dir.path().join("copy"));
    let heap = small().open(&path).unwrap();
    let root = heap.root::<Lists>("lists").unwrap();
    root.txn(|tx, p| {
        tx[p].first = list(tx, 0..30_000)?;
        Ok(())
    })
    .unwrap();
    root.txn(|tx, p| {
        tx[p].first = list(tx, 0..100)?;
        Ok(())
    })
    .unwrap();
    copy_as_killed(&path, &copy);
    let live = heap.stats().live_objects - 30_000;
    drop(root);
    heap.close().unwrap();

    let heap = small().open(&copy).unwrap();
    let root = heap.existing_root::<Lists>("lists").unwrap();
    // Usable at once.
    root.txn(|tx, p| {
        tx[p].second = list(tx, 0..50)?;
        Ok(())
    })
    .unwrap();
    heap.wait_ready().unwrap();
    let stats = heap.stats();
    assert!(stats.ready);
    assert_eq!(stats.live_objects, live + 50);
    root.read(|view, p| {
        assert_eq!(values(view, view[p].first), (0..100).collect::<Vec<_>>());
        assert_eq!(values(view, view[p].second), (0..50).collect::<Vec<_>>());
    })
    .unwrap();
}

/// Threads change a tree while others collect it: reachable objects keep their content.
#[test]
fn collections_run_beside_transactions() {
    let (heap, root) = in_memory();
    root.txn(|tx, p| {
        let many = tx.alloc_slice(500, |_| None)?;
        tx[p].many = Some(many);
        Ok(())
    })
    .unwrap();
    thread::scope(|scope| {
        for thread in 0..2u64 {
            let root = root.clone();
            scope.spawn(move || {
                let mut random = thread + 1;
                for step in 0..3000u64 {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    let (slot, other) = ((random >> 33) as usize % 500, (random >> 20) as usize % 500);
                    root.txn(|tx, p| {
                        let many = tx[p].many.unwrap();
                        // The content of each slice follows from its length.
                        let len = 1 + (random >> 50) as usize % 60;
                        let new = tx.alloc_slice(len, |i| (len + i) as u64)?;
                        let old = tx[many.at(tx, slot)];
                        let element = many.at(tx, slot);
                        tx[element] = Some(new);
                        if step % 3 == 0 {
                            let element = many.at(tx, other);
                            tx[element] = old; // moved behind the back of the marker
                        }
                        if step % 7 == 0 {
                            return Err(pheap::Error::abort("on purpose"));
                        }
                        Ok(())
                    })
                    .ok();
                }
            });
        }
        for _ in 0..60 {
            heap.collect().unwrap();
        }
    });
    heap.collect().unwrap();
    root.read(|view, p| {
        for slice in view[view[p].many.unwrap()].iter().flatten() {
            let len = slice.len(view) as u64;
            assert!(view[*slice].iter().copied().eq(len..2 * len));
        }
    })
    .unwrap();
}

#[test]
fn an_object_freed_at_commit_is_used_again() {
    let (heap, root) = in_memory();
    root.txn(|tx, p| {
        tx[p].first = list(tx, 0..10)?;
        Ok(())
    })
    .unwrap();
    let pages = heap.stats().free_bytes;
    for value in 0..100_000 {
        root.txn(|tx, p| {
            let old = tx[p].first.unwrap();
            let next = tx[old].next;
            tx[p].first = Some(tx.alloc(Node { value, next })?);
            // SAFETY: nothing points to it any more.
            unsafe { tx.__free_at_commit(old) };
            Ok(())
        })
        .unwrap();
    }
    assert_eq!(heap.stats().collections, 0);
    // Some wait until the log is emptied.
    assert!(heap.stats().live_objects < 10_000);
    assert!(pages - heap.stats().free_bytes <= 1 << 20, "what was freed is not used again");
    assert_eq!(root.read(|view, p| values(view, view[p].first)).unwrap()[0], 99_999);
}

#[test]
fn large_objects_freed_at_commit_are_used_again() {
    let (heap, root) = in_memory();
    let wanted = 100 << 10;
    for round in 0..100 {
        root.txn(|tx, p| {
            let new = tx.alloc_slice(wanted / 8, |_| round)?;
            let many = tx.alloc_slice(1, |_| Some(new))?;
            if let Some(old) = tx[p].many.replace(many) {
                let large = tx[old.at(tx, 0)].unwrap();
                // SAFETY: nothing points to them any more.
                unsafe {
                    tx.__free_at_commit(large);
                    tx.__free_at_commit(old);
                }
            }
            Ok(())
        })
        .unwrap();
    }
    assert_eq!(heap.stats().collections, 0);
    assert!(heap.info().file_bytes <= 3 << 20, "{:?}", heap.info());
    assert!(heap.check().unwrap().is_clean());
    let last = root.read(|view, p| view[view[view[p].many.unwrap().at(view, 0)].unwrap()][0]).unwrap();
    assert_eq!(last, 99);
}

/// The older header must not bring back the bitmaps of live objects from when the heap was closed.
#[test]
fn a_damaged_header_brings_no_stale_bitmaps_back() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("heap"), dir.path().join("copy"));
    let heap = small().open(&path).unwrap();
    let root = heap.root::<Lists>("lists").unwrap();
    root.txn(|tx, p| {
        tx[p].first = list(tx, 0..100)?;
        Ok(())
    })
    .unwrap();
    drop(root);
    heap.close().unwrap();

    let heap = small().open(&path).unwrap();
    let root = heap.existing_root::<Lists>("lists").unwrap();
    root.txn(|tx, p| {
        tx[p].second = list(tx, 0..50)?;
        Ok(())
    })
    .unwrap();
    for slot in 0..2 {
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[slot * 4096 + 20] ^= 1;
        forget_file(&mut bytes);
        std::fs::write(&copy, &bytes).unwrap();
        let heap = small().open(&copy).unwrap();
        assert!(
            !heap.stats().ready || heap.stats().collections > 0,
            "the bitmaps of slot {} are believed",
            1 - slot
        );
        heap.wait_ready().unwrap();
        let root = heap.existing_root::<Lists>("lists").unwrap();
        root.txn(|tx, _| list(tx, 0..200).map(drop)).unwrap();
        root.read(|view, p| assert_eq!(values(view, view[p].second), (0..50).collect::<Vec<_>>())).unwrap();
        assert!(heap.check().unwrap().is_clean());
    }
}

/// The statistics of live objects, in the copied file of a heap that was not closed.
#[test]
fn statistics_know_what_they_do_not_know() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("heap"), dir.path().join("copy"));
    let heap = small().open(&path).unwrap();
    let root = heap.root::<Lists>("lists").unwrap();
    root.txn(|tx, p| {
        tx[p].first = list(tx, 0..40_000)?;
        Ok(())
    })
    .unwrap();
    copy_as_killed(&path, &copy);
    let live = heap.stats().live_objects;
    let frozen = small().read_only(true).open(&copy).unwrap();
    assert!(!frozen.stats().ready);
    frozen.close().unwrap();

    // The transaction needs more than there is, so it may have to complete the marking.
    let heap = small().open(&copy).unwrap();
    let root = heap.existing_root::<Lists>("lists").unwrap();
    root.txn(|tx, p| {
        tx[p].second = list(tx, 0..200_000)?;
        Ok(())
    })
    .unwrap();
    heap.wait_ready().unwrap();
    assert_eq!(heap.stats().live_objects, live + 200_000);
    heap.collect().unwrap();
    assert_eq!(heap.stats().live_objects, live + 200_000);
}

/// A heap that may not grow has garbage. The transaction that finds no room fails; then the collection has
/// made room.
#[test]
fn a_full_heap_is_collected() {
    let heap = small().max_size(3 << 20).in_memory().unwrap();
    let root = heap.root::<Lists>("lists").unwrap();
    let mut failures = 0;
    for i in 0..1000 {
        let result = root.txn(|tx, p| {
            let slice = tx.alloc_slice(10_000, |_| i)?;
            tx[p].many = Some(tx.alloc_slice(1, |_| Some(slice))?);
            Ok(())
        });
        failures += usize::from(result.is_err());
    }
    assert!(failures < 200, "{failures} failures: {:?}", heap.stats());
    root.read(|view, p| assert_eq!(view[view[view[p].many.unwrap()][0].unwrap()].len(), 10_000)).unwrap();
}

/// The transaction that makes a root marks the new objects, as any other transaction does. Otherwise the next
/// transaction would mark them.
#[test]
fn who_makes_a_root_of_much_marks_it() {
    let heap = small().in_memory().unwrap();
    let root: Root<Option<P<Node>>> = heap.root_or("list", |tx| list(tx, 0..1_000_000)).unwrap();
    assert!(heap.stats().pauses.count() > 0, "no cycle has begun");
    heap.collect().unwrap();
    assert_eq!(root.live().objects, 1_000_001);
}

/// A transaction over two roots has much to mark in one of them. Readers of the other root do not wait for
/// that.
#[test]
fn who_reads_another_root_does_not_wait_while_much_is_marked() {
    let (heap, lists) = in_memory();
    let number = heap.root::<u64>("number").unwrap();
    let over = AtomicBool::new(false);
    let seen = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = 0;
            while !over.load(Relaxed) {
                seen += number.read(|view, p| view[p]).unwrap();
            }
            seen
        });
        let result = pheap::txn((&lists, &number), |((ta, a), (tb, b))| {
            ta[a].first = list(ta, 0..4_000_000)?;
            tb[b] = 1;
            Ok(())
        });
        over.store(true, Relaxed);
        result.unwrap();
        reader.join().unwrap()
    });
    let marking = heap.stats().collecting;
    assert!(seen > 100, "{seen} reads, in {marking:?}");
}

#[test]
fn what_is_alive_of_a_root() {
    let heap = Heap::in_memory().unwrap();
    let [one, two] = ["one", "two"].map(|name| heap.root::<Lists>(name).unwrap());
    let (before, other) = (one.live(), two.live());
    let set = |list: std::ops::Range<u64>| {
        one.txn(|tx, lists| {
            tx[lists].first = self::list(tx, list)?;
            Ok(())
        })
        .unwrap();
    };
    set(0..100);
    let full = one.live();
    assert_eq!((full.objects, full.bytes), (before.objects + 100, before.bytes + 1600));
    set(0..1);
    assert_eq!(one.live().objects, full.objects + 1, "what is not found yet counts");
    one.collect().unwrap();
    assert_eq!((one.live().objects, one.live().bytes), (before.objects + 1, before.bytes + 16));
    assert_eq!(two.live(), other);
    let stats = heap.stats();
    assert_eq!(stats.live_bytes, one.live().bytes + other.bytes);
    assert_eq!(stats.live_objects, one.live().objects + other.objects);
}
