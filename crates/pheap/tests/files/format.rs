//! Heaps of format 1, whose span tables are in the order of their pages, say nothing about their use, and have no checks. Made here of new ones.

use std::fs;

use crate::common::killed::*;
use crate::common::*;
use pheap::{Options, P, Persist, Result, Root};
use xxhash_rust::xxh3::xxh3_64;

#[derive(Persist, Default)]
#[repr(C)]
struct Item<'r> {
    number: u64,
    next: Option<P<'r, Item<'r>>>,
    rest: [u64; 14],
}

#[derive(Persist, Default)]
#[repr(C)]
struct Items<'r> {
    first: Option<P<'r, Item<'r>>>,
}

fn options() -> Options {
    small().arena_size(4 * MIB)
}

/// Adds items of 128 bytes until there are so many.
fn fill(root: &Root<Items<'static>>, from: u64, to: u64) -> Result<()> {
    root.txn(|tx, items| {
        for number in from..to {
            let item = tx.alloc(Item { number, next: tx[items].first, ..Item::default() })?;
            tx[items].first = Some(item);
        }
        Ok(())
    })
}

fn holds(root: &Root<Items<'static>>, count: u64) -> Result<()> {
    root.read(|view, items| {
        let (mut next, mut number) = (view[items].first, count);
        while let Some(item) = next {
            number -= 1;
            assert_eq!(view[item].number, number);
            next = view[item].next;
        }
        assert_eq!(number, 0);
    })
}

/// The closed heap, as it was in format 1.
fn in_format_1(bytes: &mut [u8]) {
    let salt = word(bytes, newest_slot(bytes) + 8 * 8);
    for slot in [0, PAGE] {
        patch_header(bytes, slot, 1, 1);
    }
    let mut start = 0;
    while start < bytes.len() {
        let head = if start == 0 { 2 * PAGE } else { start };
        let (size, table) = (word(bytes, head + 16) as usize, head + PAGE);
        let pages = size / PAGE;
        let first = (table + pages * 16).next_multiple_of(PAGE);
        let old = bytes[table..table + pages * 16].to_vec();
        bytes[table..table + pages * 16].fill(0);
        for page in (first..start + size).step_by(PAGE) {
            let r = (page - first) / PAGE;
            let number = (r % 256 / 4 * (pages / 256) + r / 256) * 4 + r % 4;
            let mut entry: [u8; 16] = old[number * 16..][..16].try_into().unwrap();
            entry[3] = 0;
            bytes[table + (page - start) / PAGE * 16..][..16].copy_from_slice(&entry);
        }
        assert_eq!(word(bytes, head + 24), 256);
        [24, 56, 64].into_iter().for_each(|at| set_word(bytes, head + at, 0));
        let sum = xxh3_64(&[&bytes[head..head + 64], &salt.to_le_bytes()].concat());
        set_word(bytes, head + 56, sum);
        start += size;
    }
}

#[test]
fn a_heap_of_format_1_goes_on() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let heap = options().open(&path)?;
    // Spans that grow to a fourth of what there is, roots between them, and a second arena.
    let names = ["a", "b", "c"];
    for name in names {
        fill(&heap.root(name)?, 0, 15_000)?;
    }
    assert!(heap.info().arenas >= 2 && heap.info().format == 3);
    heap.close()?;
    let mut bytes = fs::read(&path).unwrap();
    in_format_1(&mut bytes);
    fs::write(&path, &bytes).unwrap();

    let heap = options().read_only(true).open(&path)?;
    assert_eq!(heap.info().format, 1);
    drop(heap);
    assert!(fs::read(&path).unwrap() == bytes);

    let heap = options().verify(true).open(&path)?;
    let arenas = heap.info().arenas;
    for name in names {
        let root = heap.existing_root(name)?;
        holds(&root, 15_000)?;
        fill(&root, 15_000, 40_000)?;
    }
    assert!(heap.info().arenas > arenas, "arenas of both kinds");
    assert!(heap.check()?.is_clean());
    // As a crash would leave it.
    let killed = dir.path().join("killed");
    copy_as_killed(&path, &killed);
    heap.close()?;
    for path in [killed, path] {
        let heap = options().verify(true).open(&path)?;
        assert_eq!(heap.info().format, 3);
        for name in names {
            holds(&heap.existing_root(name)?, 40_000)?;
        }
        assert!(heap.check()?.is_clean());
        heap.collect()?;
        heap.remove_root("b")?;
        assert!(heap.check()?.is_clean());
        heap.close()?;
    }
    Ok(())
}
