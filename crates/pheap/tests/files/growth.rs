//! Heaps that grow, and objects of all sizes and alignments.
#![allow(clippy::unit_arg)] // `Ok(tx[p] = 1)` is a transaction in one line

use pheap::{Durability, Options, P, Persist, Result, Root};
use pheap_testkit::*;

#[derive(Persist)]
#[repr(C)]
struct Node<'r> {
    value: u64,
    next: Option<P<'r, Node<'r>>>,
}

#[derive(Persist, Default)]
#[repr(C)]
struct Data<'r> {
    list: Option<P<'r, Node<'r>>>,
    blocks: Option<P<'r, [P<'r, [u64]>]>>,
    count: u64,
}

/// Very small heaps.
fn tiny() -> Options {
    Options::new().arena_size(32 << 10).reserve(1 << 28).durability(Durability::Process)
}

#[test]
fn from_one_arena_through_many() -> Result<()> {
    let dir = tempdir();
    for (i, options) in [tiny(), tiny().pin_undo(true)].into_iter().enumerate() {
        let path = dir.path().join(i.to_string());
        for session in 0..3u64 {
            let heap = options.open(&path)?;
            let root: Root<Data> = heap.root("data")?;
            for round in 0..200u64 {
                root.txn(|tx, d| {
                    for i in 0..100 {
                        let node =
                            tx.alloc(Node { value: session * 20_000 + round * 100 + i, next: tx[d].list })?;
                        tx[d].list = Some(node);
                    }
                    tx[d].count += 100;
                    Ok(())
                })?;
            }
            assert!(heap.stats().file_bytes > (session + 1) * 320_000);
            heap.close()?;
        }
        let heap = options.open(&path)?;
        let root: Root<Data> = heap.existing_root("data")?;
        root.read(|view, d| {
            let (mut next, mut value) = (view[d].list, view[d].count);
            assert_eq!(value, 60_000);
            while let Some(node) = next {
                value -= 1;
                assert_eq!(view[node].value, value);
                next = view[node].next;
            }
            assert_eq!(value, 0);
        })?;
        assert_eq!(std::fs::metadata(&path).unwrap().len(), heap.stats().file_bytes);
    }
    Ok(())
}

#[test]
fn waits_for_growth_are_counted() -> Result<()> {
    let dir = tempdir();
    let heap = tiny().max_size(1 << 20).open(dir.path().join("x"))?;
    let root: Root<Data> = heap.root("data")?;
    let block = |len| root.txn(|tx, _| tx.alloc_slice(len, |_| 0u64).map(|_| ()));
    let before = heap.stats();
    // More than the file has, so it grows, once.
    block(8 << 10)?;
    let grown = heap.stats();
    assert!(grown.file_bytes > before.file_bytes);
    assert_eq!(grown.growth_waits, before.growth_waits + 1);
    // Growth that fails was waited for, too.
    block(1 << 20).unwrap_err();
    assert!(heap.stats().growth_waits > grown.growth_waits);
    assert_eq!(heap.stats().file_bytes, grown.file_bytes);
    Ok(())
}

#[test]
fn objects_larger_than_an_arena() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let sizes = [1, 100, 4000, 4096, 5000, 20_000, 100_000, 300_000];
    {
        let heap = tiny().open(&path)?;
        let root: Root<Data> = heap.root("data")?;
        root.txn(|tx, d| {
            let blocks: Vec<P<'_, [u64]>> =
                sizes.iter().map(|&n| tx.alloc_slice(n, |i| (i * n) as u64)).collect::<Result<_>>()?;
            let blocks = tx.alloc_slice_copy(&blocks)?;
            tx[d].blocks = Some(blocks);
            Ok(())
        })?;
        heap.close()?;
    }
    let heap = tiny().open(&path)?;
    let root: Root<Data> = heap.existing_root("data")?;
    let check = || {
        root.read(|view, d| {
            let blocks = view[d].blocks.unwrap();
            for (&n, &block) in sizes.iter().zip(&view[blocks]) {
                assert_eq!(block.len(view), n);
                assert!(view[block].iter().enumerate().all(|(i, &x)| x == (i * n) as u64));
            }
        })
    };
    check()?;
    // The whole of the largest is logged, in several segments, and rolled back.
    let aborted = root.txn(|tx, d| {
        let largest = tx[tx[d].blocks.unwrap()][sizes.len() - 1];
        tx[largest].fill(1);
        Err::<(), _>(pheap::Error::abort("no"))
    });
    assert!(aborted.is_err());
    check()
}

#[test]
fn a_hundred_thousand_objects_in_one_transaction() -> Result<()> {
    for options in both() {
        let heap = options.in_memory()?;
        let root: Root<Data> = heap.root("data")?;
        for commit in [false, true] {
            let result = root.txn(|tx, d| {
                for value in 0..100_000 {
                    let node = tx.alloc(Node { value, next: tx[d].list })?;
                    tx[d].list = Some(node);
                }
                if commit { Ok(()) } else { Err(pheap::Error::abort("no")) }
            });
            assert_eq!(result.is_ok(), commit);
        }
        // The space of rolled back transactions was used again.
        assert!(heap.stats().file_bytes < 5 * MIB, "{:?}", heap.stats());
        let count = root.read(|view, d| {
            let (mut next, mut count) = (view[d].list, 0);
            while let Some(node) = next {
                (next, count) = (view[node].next, count + 1);
            }
            count
        })?;
        assert_eq!(count, 100_000);
    }
    Ok(())
}

#[derive(Persist, Clone, Copy, PartialEq, Debug)]
#[repr(C, align(64))]
struct Line {
    byte: u8,
}

#[derive(Persist, Clone, Copy, PartialEq, Debug)]
#[repr(C, align(4096))]
struct Page {
    byte: u8,
}

#[derive(Persist, Clone, Copy, PartialEq, Debug)]
#[repr(C)]
struct Empty;

#[derive(Persist, Clone, Copy, PartialEq, Debug)]
#[repr(C, align(64))]
struct AlignedEmpty;

#[derive(Persist)]
#[repr(C)]
struct Kinds<'r> {
    wide: P<'r, [u128]>,
    one: P<'r, u128>,
    lines: P<'r, [Line]>,
    line: P<'r, Line>,
    pages: P<'r, [Page]>,
    page: P<'r, Page>,
    bytes: P<'r, [u8]>,
    byte: P<'r, u8>,
    empty: P<'r, [Empty]>,
    nothing: P<'r, Empty>,
    aligned: P<'r, [AlignedEmpty]>,
    none: P<'r, [u64]>,
    none_wide: P<'r, [u128]>,
    no_text: P<'r, str>,
    units: P<'r, [()]>,
}

fn aligned<T>(value: &T) {
    assert!(std::ptr::from_ref(value).is_aligned(), "{}", std::any::type_name::<T>());
}

#[test]
fn sizes_and_alignments() -> Result<()> {
    let dir = tempdir();
    for (i, options) in both().into_iter().enumerate() {
        let path = dir.path().join(i.to_string());
        for session in 0..2u8 {
            let heap = options.open(&path)?;
            let root: Root<Kinds> = heap.root_or("kinds", |tx| {
                tx.alloc(1u8)?;
                Ok(Kinds {
                    wide: tx.alloc_slice(5, |i| i as u128)?,
                    one: tx.alloc(1)?,
                    lines: tx.alloc_slice(3, |i| Line { byte: i as u8 })?,
                    line: tx.alloc(Line { byte: 9 })?,
                    pages: tx.alloc_slice(2, |i| Page { byte: i as u8 })?,
                    page: tx.alloc(Page { byte: 7 })?,
                    bytes: tx.alloc_slice(3, |i| i as u8)?,
                    byte: tx.alloc(5)?,
                    empty: tx.alloc_slice(1000, |_| Empty)?,
                    nothing: tx.alloc(Empty)?,
                    aligned: tx.alloc_slice(3, |_| AlignedEmpty)?,
                    none: tx.alloc_slice(0, |_| unreachable!())?,
                    none_wide: tx.alloc_slice(0, |_| unreachable!())?,
                    no_text: tx.alloc_str("")?,
                    units: tx.alloc_slice(usize::MAX >> 44, |_| ())?,
                })
            })?;
            root.txn(|tx, k| {
                let Kinds {
                    wide,
                    one,
                    lines,
                    line,
                    pages,
                    page,
                    bytes,
                    byte,
                    empty,
                    nothing,
                    aligned: zero,
                    none,
                    none_wide,
                    no_text,
                    units,
                } = tx[k];
                // Reads before any write, then with all of it written.
                for _ in 0..2 {
                    tx[wide].iter().for_each(aligned);
                    tx[lines].iter().for_each(aligned);
                    tx[pages].iter().for_each(aligned);
                    tx[zero].iter().for_each(aligned);
                    aligned(&tx[one]);
                    aligned(&tx[line]);
                    aligned(&tx[page]);
                    aligned(&tx[zero.at(tx, 2)]);
                    assert_eq!(
                        (tx[wide].len(), tx[lines].len(), tx[pages].len(), tx[bytes].len()),
                        (5, 3, 2, 3)
                    );
                    assert_eq!(
                        (tx[empty].len(), tx[zero].len(), tx[units].len()),
                        (1000, 3, usize::MAX >> 44)
                    );
                    assert_eq!(
                        (tx[empty.at(tx, 999)], tx[nothing], tx[units.at(tx, 77)]),
                        (Empty, Empty, ())
                    );
                    assert!(tx[none].is_empty() && tx[none_wide].is_empty() && tx[no_text].is_empty());
                    assert!(none.is_empty(tx) && no_text.is_empty(tx) && none.get(tx, 0).is_none());
                    assert!(tx[none_wide].as_ptr().is_aligned() && tx[none].as_ptr().is_aligned());
                    assert!(empty.get(tx, 999).is_some() && empty.get(tx, 1000).is_none());
                    for i in 0..5 {
                        let element = wide.at(tx, i);
                        tx[element] += 1 << 100;
                        aligned(&tx[wide.at(tx, i)]);
                    }
                    tx[one] += 1;
                    let element = lines.at(tx, 1);
                    tx[element].byte += 1;
                    tx[line].byte += 1;
                    let element = pages.at(tx, 1);
                    tx[element].byte += 1;
                    tx[page].byte += 1;
                    let element = bytes.at(tx, 2);
                    tx[element] += 1;
                    tx[byte] += 1;
                    tx[nothing] = Empty;
                    let element = empty.at(tx, 3);
                    tx[element] = Empty;
                    tx[empty].fill(Empty);
                    tx[zero].reverse();
                    tx[none].sort();
                    tx[no_text].make_ascii_uppercase();
                    tx.swap(empty.at(tx, 0), empty.at(tx, 1));
                    assert!(tx.slice_mut(none, ..).is_empty());
                    assert_eq!(tx.slice_mut(empty, 5..10).len(), 5);
                }
                Ok(())
            })?;
            root.read(|view, k| {
                let times = 2 * (session + 1);
                let k = &view[k];
                assert_eq!(view[k.wide][3], 3 + (u128::from(times) << 100));
                assert_eq!(
                    (view[k.one], view[k.byte], view[k.bytes][2]),
                    (1 + u128::from(times), 5 + times, 2 + times)
                );
                assert_eq!(
                    (view[k.line].byte, view[k.lines][1].byte, view[k.lines][2].byte),
                    (9 + times, 1 + times, 2)
                );
                assert_eq!(
                    (view[k.page].byte, view[k.pages][1].byte, view[k.pages][0].byte),
                    (7 + times, 1 + times, 0)
                );
                view[k.pages].iter().for_each(aligned);
            })?;
            heap.close()?;
        }
    }
    Ok(())
}

#[test]
fn roots_of_all_sizes() -> Result<()> {
    let heap = small().in_memory()?;
    let unit: Root<()> = heap.root("unit")?;
    unit.txn(|tx, p| Ok(tx[p] = ()))?;
    unit.read(|view, p| view[p])?;
    let large: Root<[[u64; 32]; 32]> = heap.root("large")?; // 8 KiB
    large.txn(|tx, p| {
        tx[p][31][31] = 1;
        tx[p][0][0] = 2;
        Ok(())
    })?;
    assert_eq!(large.read(|view, p| view[p].iter().flatten().sum::<u64>())?, 3);
    let line: Root<Line> = heap.root_or("line", |_| Ok(Line { byte: 3 }))?;
    line.read(|view, p| aligned(&view[p]))
}

#[test]
fn bounds_are_checked() -> Result<()> {
    let heap = small().in_memory()?;
    #[derive(Persist)]
    #[repr(C)]
    struct Bytes<'r> {
        bytes: P<'r, [u8]>,
    }
    let root: Root<Bytes> =
        heap.root_or("bytes", |tx| Ok(Bytes { bytes: tx.alloc_slice(10, |i| i as u8)? }))?;
    root.txn(|tx, k| {
        let bytes = tx[k].bytes;
        let mut check = |range: (std::ops::Bound<usize>, std::ops::Bound<usize>), ok: bool| {
            let result =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tx.slice_mut(bytes, range).len()));
            assert_eq!(result.is_ok(), ok, "{range:?}");
        };
        use std::ops::Bound::{Excluded, Included, Unbounded};
        check((Unbounded, Unbounded), true);
        check((Included(10), Unbounded), true);
        check((Included(0), Excluded(10)), true);
        check((Excluded(9), Unbounded), true);
        check((Included(11), Unbounded), false);
        check((Included(0), Excluded(11)), false);
        check((Included(0), Included(10)), false);
        check((Included(5), Excluded(4)), false);
        check((Unbounded, Included(usize::MAX)), false);
        check((Excluded(usize::MAX), Unbounded), false);
        check((Included(usize::MAX), Excluded(usize::MAX)), false);
        Ok(())
    })?;
    for (len, index) in [(10, 10), (10, usize::MAX)] {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            root.read(|view, k| {
                assert_eq!(view[k].bytes.len(view), len);
                view[view[k].bytes.at(view, index)]
            })
        }));
        assert!(result.is_err());
    }
    root.read(|view, k| assert!(view[k].bytes.get(view, 10).is_none()))
}

#[test]
fn a_file_is_shorter_when_its_end_is_free() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("heap");
    let options = pheap::Options::new().arena_size(1 << 20).reserve(1 << 30);
    let heap = options.open(&path).unwrap();
    let keep: pheap::Root<u64> = heap.root("keep").unwrap();
    keep.txn(|tx, p| Ok(tx[p] = 77)).unwrap();
    heap.root_or::<Option<pheap::P<'static, [u64]>>>("large", |tx| {
        Ok(Some(tx.alloc_slice(1_000_000, |i| i as u64)?))
    })
    .unwrap();
    let grown = heap.stats().file_bytes;
    assert!(grown > 8 << 20);
    heap.remove_root("large").unwrap();
    drop(keep);
    heap.close().unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 1 << 20);

    let heap = options.open(&path).unwrap();
    assert_eq!(heap.stats().file_bytes, 1 << 20);
    assert!(heap.check().unwrap().is_clean());
    let keep = heap.existing_root::<u64>("keep").unwrap();
    assert_eq!(keep.read(|view, p| view[p]).unwrap(), 77);
    // And it grows again.
    heap.root_or::<Option<pheap::P<'static, [u64]>>>("large", |tx| {
        Ok(Some(tx.alloc_slice(1_000_000, |i| i as u64)?))
    })
    .unwrap();
    assert!(heap.check().unwrap().is_clean());
}
