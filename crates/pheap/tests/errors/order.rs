//! What an opening checks, it checks before it writes anything, also what only the logs know.

use std::fs;

use pheap::{Error, P, Result, Root};
use pheap_testkit::sample::*;
use pheap_testkit::*;

/// Offset of the span table of the first arena.
const TABLE: usize = 3 * PAGE;

fn is_corrupt(error: &Error, what: &str) {
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains(what), "{error}");
}

/// Offsets of the entries of the first span table that are of this kind.
fn entries(bytes: &[u8], kind: u8) -> Vec<usize> {
    let entries = (TABLE..TABLE + bytes.len() / PAGE * 16).step_by(16);
    entries.filter(|&at| bytes[at] == kind).collect()
}

fn region(bytes: &[u8]) -> usize {
    find(bytes, b"\x89PREGIO\n")[0]
}

/// A heap that was killed when its only record was the one that creates its root.
fn killed() -> Vec<u8> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let heap = small().open(&path).unwrap();
    let _root: Root<Record> = heap.root("record").unwrap();
    as_killed(&path)
}

#[test]
fn a_span_of_an_unknown_type() {
    for entry in entries(&killed(), 4) {
        let error = altered(|bytes| set_word(bytes, entry + 8, u64::MAX));
        is_corrupt(&error, "is of a type that is not in the type table");
        // The same, seen by what the older header slot says.
        let error = altered(|bytes| {
            let newest = newest_slot(bytes);
            bytes[newest] ^= 1;
            set_word(bytes, entry + 8, u64::MAX);
        });
        is_corrupt(&error, "is of a type that is not in the type table");
    }
}

/// A multiplication finds the number of an object in a span of small ones. Its result would be wrong for
/// spans as long as this one.
#[test]
fn a_span_of_small_objects_is_not_large() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let heap = small().arena_size(4 << 20).open(&path)?;
    heap.root_or::<P<[u64]>>("words", |tx| tx.alloc_slice(1 << 18, |_| 0))?;
    heap.close()?;
    let mut bytes = fs::read(&path).unwrap();
    let [large] = entries(&bytes, 5)[..] else { panic!("there is one") };
    let small_of_64_bytes = word(&bytes, large) & !(0xff << 24) ^ 5 ^ 4 ^ 64 << 8;
    set_word(&mut bytes, large, small_of_64_bytes | (small_of_64_bytes % 255 + 1) << 24);
    is_corrupt(&opening(&bytes), "a span of small objects has 513 pages");
    Ok(())
}

/// Opening without `verify` does not look for a span inside of another: the outer span hides its entry. When
/// the outer span is freed, the entry goes with it.
#[test]
fn a_span_inside_of_another() -> Result<()> {
    let mut bytes = killed();
    let [region] = entries(&bytes, 1)[..] else { panic!("there is one, of two pages") };
    bytes.copy_within(region..region + 16, region + 16);
    let [types] = entries(&bytes, 3)[..] else { panic!("there is one, of a page") };
    assert_eq!((types, region), (TABLE, TABLE + 16));
    let dir = tempdir();
    let path = dir.path().join("x");
    fs::write(&path, &bytes).unwrap();
    is_corrupt(&small().verify(true).open(&path).unwrap_err(), "overlap");
    assert!(fs::read(&path).unwrap() == bytes);
    let heap = small().open(&path)?;
    assert!(!heap.check()?.is_clean());
    heap.remove_root("record")?;
    assert!(heap.check()?.is_clean());
    heap.close()?;
    let heap = small().open(&path)?;
    assert!(heap.roots().is_empty() && heap.check()?.is_clean());
    heap.close()?;
    assert!(entries(&fs::read(&path).unwrap(), 1).is_empty());
    Ok(())
}

/// Nor for this, as long as nothing there was ever used.
#[test]
fn a_span_where_nothing_was_ever_used() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let mut bytes = sample(&path);
    let last = TABLE + (bytes.len() / PAGE - 4 - 1) * 16;
    for (at, byte) in [(last, 9), (last - 16, 4), (last - 32 + 5, 1)] {
        assert!(bytes[at & !15..][..16] == [0; 16]);
        bytes[at] = byte;
    }
    fs::write(&path, &bytes).unwrap();
    is_corrupt(&small().verify(true).open(&path).unwrap_err(), "where nothing was ever used");
    let heap = small().open(&path)?;
    let root: Root<Record> = heap.root("record")?;
    // All that is left of the arena.
    let left = heap.stats().free_bytes;
    root.txn(|tx, r| {
        let items = tx.alloc_slice(left as usize / 8 - 1, |_| 1)?;
        tx[r].items = Some(items);
        Ok(())
    })?;
    assert_eq!((heap.stats().free_bytes, heap.info().arenas), (0, 1));
    assert!(heap.check()?.is_clean());
    root.txn(|tx, r| {
        tx[r].items = None;
        Ok(())
    })?;
    drop(root);
    heap.collect()?;
    heap.close()?;
    let heap = small().verify(true).open(&path)?;
    assert!(heap.check()?.is_clean());
    heap.close()
}

/// Without what the log brings back, there is no root.
#[test]
fn spans_and_roots_may_be_in_a_log_only() -> Result<()> {
    let mut bytes = killed();
    let (region, spans) = (region(&bytes), entries(&bytes, 4));
    assert_eq!(spans.len(), 1);
    set_word(&mut bytes, region + 24, 0);
    for word in [0, 8] {
        set_word(&mut bytes, spans[0] + word, 0);
    }
    let dir = tempdir();
    let path = dir.path().join("x");
    fs::write(&path, &bytes).unwrap();
    for read_only in [true, false] {
        let heap = small().read_only(read_only).open(&path)?;
        assert_eq!(heap.stats().replayed_records, 1);
        let root: Root<Record> = heap.existing_root("record")?;
        assert_eq!(root.read(|view, r| view[r].number)?, 0);
        drop(root);
        heap.close()?;
        assert_eq!(fs::read(&path).unwrap() == bytes, read_only);
    }
    Ok(())
}

/// Numbers of roots are counted, and one must always be left.
#[test]
fn the_last_number_that_a_root_can_have() -> Result<()> {
    let with_id = |bytes: &mut Vec<u8>, id: u64| {
        for entry in [1, 4, 5].map(|kind| entries(bytes, kind)).concat() {
            let ty = word(bytes, entry + 8) as u32;
            set_word(bytes, entry + 8, u64::from(ty) | id << 32);
        }
        let (region, salt) = (region(bytes), word(bytes, newest_slot(bytes) + 64));
        let words = [word(bytes, region), id, word(bytes, region + 16), salt];
        let sum = xxhash_rust::xxh3::xxh3_64(&words.map(u64::to_le_bytes).concat());
        set_word(bytes, region + 8, id);
        set_word(bytes, region + 56, sum);
    };
    for id in [0, u64::from(u32::MAX), 1 << 32, 1 << 32 | 1] {
        is_corrupt(&altered(|bytes| with_id(bytes, id)), "a region has the number");
    }
    let dir = tempdir();
    let path = dir.path().join("x");
    let mut bytes = sample(&path);
    with_id(&mut bytes, u64::from(u32::MAX) - 1);
    fs::write(&path, &bytes).unwrap();
    let heap = small().verify(true).open(&path)?;
    assert!(matches!(heap.root::<u64>("another"), Err(Error::OutOfSpace { .. })));
    heap.existing_root::<Record>("record")?.txn(|tx, r| {
        tx[r].number += 1;
        Ok(())
    })?;
    assert!(heap.check()?.is_clean());
    heap.close()
}

#[test]
fn what_is_wrong_only_when_the_log_is_replayed() {
    let killed = killed();
    let (region, span) = (region(&killed), entries(&killed, 4)[0]);
    let salt = word(&killed, newest_slot(&killed) + 64);
    let mut bytes = killed.clone();
    set_word(&mut bytes, region + 24, 0);
    // The root that the log brings is of the first type of the table, not of this one.
    let ty = word(&bytes, region + 16) + 1;
    set_word(&mut bytes, region + 16, ty);
    let words = [word(&bytes, region), word(&bytes, region + 8), ty, salt];
    let sum = xxhash_rust::xxh3::xxh3_64(&words.map(u64::to_le_bytes).concat());
    set_word(&mut bytes, region + 56, sum);
    is_corrupt(&opening(&bytes), "is not where it should be");

    // Metadata where the log has objects.
    for kind in [1, 2, 3] {
        let mut bytes = killed.clone();
        // With the check of a span that is one of these.
        let entry = word(&bytes, span) & !(0xff << 24 | 0xff) | kind;
        set_word(&mut bytes, span, entry | (entry % 255 + 1) << 24);
        let error = opening(&bytes);
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
        assert!(kind == 1 || error.to_string().contains("lies over the metadata"), "{error}");
    }
}
