//! Heaps that are mapped elsewhere than before.
#![allow(clippy::unit_arg)] // `Ok(tx[p] = 1)` is a transaction in one line

mod world;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use pheap::{Durability, Error, Heap, Options, P, Persist, Result, Root};
use pheap_testkit::*;
use world::*;

const RESERVED: u64 = 1 << 30;

/// A place for a heap that no other test has, and where neither heaps nor sanitizers are by themselves.
fn place() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new((84 << 40) / RESERVED);
    NEXT.fetch_add(1, Ordering::Relaxed) * RESERVED
}

fn at(base: u64) -> Options {
    small().base(base)
}

/// Whether the root, and what two of its pointers lead to, are in a heap at this base.
fn is_at(root: &Root<World<'static>>, base: u64) -> bool {
    let range = base..base + RESERVED;
    root.read(|view, w| {
        let world = &view[w];
        [address(w), address(world.element.unwrap()), address(world.words.unwrap())]
            .iter()
            .all(|address| range.contains(address))
    })
    .unwrap()
}

/// The bases that the newest header lists.
fn bases(path: &Path) -> Vec<u64> {
    let bytes = fs::read(path).unwrap();
    let slot = newest_slot(&bytes);
    (0..word(&bytes, slot + 72) as usize).map(|i| word(&bytes, slot + 80 + i * 8)).collect()
}

fn existing(heap: &Heap) -> Root<World<'static>> {
    heap.existing_root("world").unwrap()
}

fn push(root: &Root<World<'static>>, value: u64) -> Result<()> {
    root.txn(|tx, w| {
        let next = tx[w].list;
        let node = tx.alloc(Node { value, next })?;
        tx[w].list = Some(node);
        Ok(tx[w].count += 1)
    })
}

// --- tests -------------------------------------------------------------------------------------------------

#[test]
fn a_heap_moves_and_holds_the_same() -> Result<()> {
    for durability in [Durability::Process, Durability::Pmem] {
        for options in both() {
            let options = options.durability(durability);
            let dir = tempdir();
            let path = dir.path().join("x");
            let [first, second, third] = [place(), place(), place()];
            let heap = options.clone().base(first).open(&path)?;
            let root = fill(&heap, 300)?;
            assert!(is_at(&root, first));
            let mut expected = contents(&root);
            drop(root);
            heap.close()?;
            assert_eq!(bases(&path), [first]);
            for (i, base) in [second, second, third, first, second].into_iter().enumerate() {
                let heap = options.clone().base(base).open(&path)?;
                assert_eq!(bases(&path), [base]);
                let root = existing(&heap);
                assert!(is_at(&root, base));
                assert_eq!(contents(&root), expected);
                push(&root, i as u64)?;
                expected = contents(&root);
                assert_eq!(expected[..2], [301 + i as u64, i as u64]);
                drop(root);
                heap.close()?;
            }
            // It stays where it is if nothing else is said.
            let heap = options.open(&path)?;
            assert!(is_at(&existing(&heap), second));
        }
    }
    Ok(())
}

#[test]
fn what_the_logs_hold_moves_too() -> Result<()> {
    for (long, options) in [false, true].into_iter().zip(both()) {
        let dir = tempdir();
        let (path, copy) = (dir.path().join("x"), dir.path().join("copy"));
        let [first, second, third] = [place(), place(), place()];
        let heap = options.clone().base(first).open(&path)?;
        let root = fill(&heap, 20)?;
        let mut killed = Vec::new();
        // Killed between two transactions, and inside of one.
        let expected = contents(&root);
        killed.push(fs::read(&path).unwrap());
        if !long {
            // Words that are in a record, and have not been stored to their place.
            let world = root.read(|_, w| (address(w) - first) as usize)?;
            set_word(&mut killed[0], world, 0);
            set_word(&mut killed[0], world + 8, 0);
        }
        let aborted = root.txn(|tx, w| -> Result<()> {
            let words = tx[w].words.unwrap();
            tx.slice_mut(words, ..).reverse();
            (tx[w].list, tx[w].ring) = (None, None);
            killed.push(fs::read(&path).unwrap());
            Err(Error::abort("its log is all that is wanted"))
        });
        assert!(aborted.is_err());
        let (mut replayed, mut rolled_back) = (0, 0);
        for mut bytes in killed {
            forget_file(&mut bytes);
            fs::write(&copy, &bytes).unwrap();
            for base in [second, third, second] {
                let heap = options.clone().base(base).open(&copy)?;
                replayed += heap.stats().replayed_records;
                rolled_back += heap.stats().rolled_back_entries;
                let root = existing(&heap);
                assert!(is_at(&root, base));
                assert_eq!(contents(&root), expected);
                drop(root);
                heap.close()?;
            }
        }
        assert!(if long { rolled_back > 0 } else { replayed > 0 });
    }
    Ok(())
}

#[test]
fn two_copies_of_a_file_can_be_open_at_once() -> Result<()> {
    let dir = tempdir();
    let paths = ["a", "b", "c"].map(|name| dir.path().join(name));
    let heap = small().open(&paths[0])?;
    drop(fill(&heap, 200)?);
    heap.close()?;
    for copy in &paths[1..] {
        fs::copy(&paths[0], copy).unwrap();
    }
    let heaps = paths.each_ref().map(|path| small().open(path).unwrap());
    let roots = heaps.each_ref().map(existing);
    let expected = contents(&roots[0]);
    for (i, root) in roots.iter().enumerate() {
        assert_eq!(contents(root), expected);
        push(root, 1000 + i as u64)?;
    }
    for (i, root) in roots.iter().enumerate() {
        let now = contents(root);
        assert_eq!(now[..2], [201, 1000 + i as u64]);
        assert_eq!(now[2..], expected[1..]);
    }
    drop(roots);
    for heap in heaps {
        heap.close()?;
    }
    let places = paths.each_ref().map(|path| bases(path)[0]);
    assert!(places[0] != places[1] && places[1] != places[2] && places[0] != places[2]);
    Ok(())
}

#[test]
fn a_copy_that_is_only_read_moves_in_memory() -> Result<()> {
    let dir = tempdir();
    let (path, copy) = (dir.path().join("x"), dir.path().join("copy"));
    let heap = small().open(&path)?;
    let root = fill(&heap, 200)?;
    let expected = contents(&root);
    copy_as_killed(&path, &copy); // with records in its log
    let bytes = fs::read(&copy).unwrap();
    for options in [small(), at(place())] {
        let reader = options.read_only(true).open(&copy)?;
        assert!(reader.stats().replayed_records > 0);
        assert_eq!(contents(&existing(&reader)), expected);
        assert!(!is_at(&existing(&reader), base_of(&bytes)));
        assert!(matches!(push(&existing(&reader), 1), Err(Error::ReadOnly)));
        reader.close()?;
        assert!(fs::read(&copy).unwrap() == bytes);
    }
    assert_eq!(contents(&root), expected);
    Ok(())
}

#[test]
fn bases_that_cannot_be() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let first = place();
    let heap = at(first).open(&path)?;
    drop(fill(&heap, 1)?);
    heap.close()?;
    let bytes = fs::read(&path).unwrap();
    for base in [0, 1, PAGE as u64, first + RESERVED / 2, (1 << 47) - RESERVED / 2, 1 << 47, !0 << 30, !0] {
        for options in [at(base), at(base).read_only(true)] {
            let error = options.open(&path).expect_err("no heap can be there");
            assert!(matches!(error, Error::InvalidOption(_)), "{base:#x}: {error}");
        }
        assert!(matches!(at(base).in_memory(), Err(Error::InvalidOption(_))));
    }
    let other = at(place()).in_memory()?;
    let taken =
        format!("{other:?}").split("mapped_at: 0x").nth(1).unwrap()[..].split(',').next().unwrap().to_owned();
    let taken = u64::from_str_radix(taken.trim_end_matches([' ', '}']), 16).unwrap();
    for options in [at(taken), at(taken).read_only(true)] {
        let error = options.open(&path).expect_err("another heap is there");
        assert!(matches!(error, Error::AddressInUse { base, .. } if base == taken), "{error}");
    }
    assert!(fs::read(&path).unwrap() == bytes);
    // What an interrupted creation leaves, which is created anew otherwise.
    let zeros = vec![0; 10 * PAGE];
    fs::write(&path, &zeros).unwrap();
    assert!(matches!(at(taken).open(&path), Err(Error::AddressInUse { .. })));
    assert!(matches!(at(taken + 1).open(&path), Err(Error::InvalidOption(_))));
    assert!(fs::read(&path).unwrap() == zeros);
    at(place()).open(&path)?.close()
}

/// Has a header list these bases.
fn list_bases<'b>(bytes: &mut [u8], slot: usize, bases: impl ExactSizeIterator<Item = &'b u64>) {
    patch_header(bytes, slot, 9, bases.len() as u64);
    for (i, &base) in bases.enumerate() {
        patch_header(bytes, slot, 10 + i, base);
    }
}

/// Relocations that were cut short leave several bases in the header, and pointers relative to any of them.
#[test]
fn what_an_interrupted_relocation_left_is_completed() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let listed = [place(), place(), place(), place()];
    let heap = at(listed[0]).open(&path)?;
    let root = fill(&heap, 300)?;
    let expected = contents(&root);
    drop(root);
    heap.close()?;
    let whole = fs::read(&path).unwrap();
    for (count, bases_after) in
        [(2, [listed[1], place()]), (3, [listed[2], listed[0]]), (4, [listed[3], place()])]
    {
        let mut bytes = whole.clone();
        let slot = newest_slot(&bytes);
        let mut rng = Rng::from_seed(count as u64);
        // Each pointer is relative to one of the bases, at random.
        for at in (0..bytes.len() / 8).map(|word| word * 8).filter(|&at| !(slot..slot + PAGE).contains(&at)) {
            let value = word(&bytes, at);
            let is_number = word(&bytes, at.saturating_sub(8)) & 0xffff == 7; // the tag of a `Shape::Number`
            if (listed[0]..listed[0] + RESERVED).contains(&value) && !is_number {
                set_word(&mut bytes, at, value - listed[0] + listed[rng.below(count)]);
            }
        }
        list_bases(&mut bytes, slot, listed[..count].iter().rev());
        for base in [None, Some(bases_after[0]), Some(bases_after[1])] {
            fs::write(&path, &bytes).unwrap();
            let options = base.map_or(small(), at);
            let reader = options.clone().read_only(true).open(&path)?;
            assert_eq!(contents(&existing(&reader)), expected);
            reader.close()?;
            assert!(fs::read(&path).unwrap() == bytes);
            let heap = options.open(&path)?;
            let root = existing(&heap);
            assert_eq!(contents(&root), expected);
            assert!(is_at(&root, base.unwrap_or(listed[count - 1])));
            assert_eq!(bases(&path).len(), 1);
            drop(root);
            heap.close()?;
        }
    }
    Ok(())
}

/// So many relocations were cut short that the list of bases is full. The heap would have to complete the
/// last one before it moves to the address that the caller wants. That address is taken, so opening fails,
/// and must complete nothing.
#[test]
fn an_opening_that_fails_completes_no_relocation() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let listed = [place(), place(), place(), place()];
    let heap = at(listed[0]).open(&path)?;
    drop(fill(&heap, 1)?);
    heap.close()?;
    let mut bytes = fs::read(&path).unwrap();
    let slot = newest_slot(&bytes);
    list_bases(&mut bytes, slot, listed.iter());
    fs::write(&path, &bytes).unwrap();
    let taken = place();
    let other = at(taken).in_memory()?;
    for durability in [Durability::Process, Durability::Wal] {
        let error = at(taken).durability(durability).open(&path).expect_err("another heap is there");
        assert!(matches!(error, Error::AddressInUse { base, .. } if base == taken), "{error}");
        assert_eq!(bases(&path), listed);
    }
    drop(other);
    at(taken).open(&path)?.close()?;
    assert_eq!(bases(&path), [taken]);
    Ok(())
}

#[test]
fn a_list_of_bases_that_contradicts_itself_is_refused() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let first = place();
    let heap = at(first).open(&path)?;
    drop(fill(&heap, 1)?);
    heap.close()?;
    let bytes = fs::read(&path).unwrap();
    let slot = newest_slot(&bytes);
    for list in [&[first, first][..], &[first, 0], &[first, first + 4096], &[first, 1 << 47], &[]] {
        let mut bytes = bytes.clone();
        for (i, &base) in list.iter().enumerate() {
            patch_header(&mut bytes, slot, 10 + i, base);
        }
        patch_header(&mut bytes, slot, 9, list.len() as u64);
        fs::write(&path, &bytes).unwrap();
        assert!(matches!(small().open(&path), Err(Error::Corrupt { .. })), "{list:x?}");
        assert!(fs::read(&path).unwrap() == bytes);
    }
    Ok(())
}

/// While words move, one header slot may be lost, too.
#[test]
fn both_headers_know_of_the_new_base() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let [first, second] = [place(), place()];
    let heap = at(first).open(&path)?;
    drop(fill(&heap, 1)?);
    heap.close()?;
    let heap = at(second).open(&path)?;
    let bytes = fs::read(&path).unwrap();
    for slot in [0, PAGE] {
        assert!((0..word(&bytes, slot + 72) as usize).any(|i| word(&bytes, slot + 80 + i * 8) == second));
    }
    heap.close()
}

/// Objects of many pages, several threads.
#[test]
fn large_heaps_and_large_objects_move() -> Result<()> {
    type Slice<'r> = P<'r, [Option<P<'r, u64>>]>;
    #[derive(Persist, Default)]
    #[repr(C)]
    struct Large<'r> {
        pointers: Option<Slice<'r>>,
        shapes: Option<P<'r, [Shape<'r>]>>,
        slices: Option<P<'r, [Slice<'r>]>>,
    }
    const MANY: usize = 400_000;
    for durability in [Durability::Process, Durability::Pmem] {
        let dir = tempdir();
        let path = dir.path().join("x");
        let options = small().durability(durability);
        let heap = options.clone().base(place()).open(&path)?;
        let root: Root<Large> = heap.root("large")?;
        root.txn(|tx, large| {
            let numbers = tx.alloc_slice(MANY, |i| i as u64)?;
            let pointers = tx.alloc_slice(MANY, |i| (i % 3 != 0).then(|| numbers.at(tx, i)))?;
            tx[large].pointers = Some(pointers);
            let text = tx.alloc_str("text")?;
            let shapes = tx.alloc_slice(MANY, |i| match i % 3 {
                0 => Shape::Number(i as u64),
                1 => Shape::Text(text),
                _ => Shape::Empty,
            })?;
            tx[large].shapes = Some(shapes);
            // Slots of half a page and more.
            let slices = (0..300)
                .map(|i| tx.alloc_slice(300 + i * 10, |j| Some(numbers.at(tx, i * 1000 + j))))
                .collect::<Result<Vec<_>>>()?;
            let slices = tx.alloc_slice_copy(&slices)?;
            tx[large].slices = Some(slices);
            Ok(())
        })?;
        drop(root);
        heap.close()?;
        let heap = options.base(place()).open(&path)?;
        let root: Root<Large> = heap.existing_root("large")?;
        root.read(|view, large| {
            for (i, pointer) in view[view[large].pointers.unwrap()].iter().enumerate() {
                assert_eq!(pointer.map(|p| view[p]), (i % 3 != 0).then_some(i as u64));
            }
            for (i, shape) in view[view[large].shapes.unwrap()].iter().enumerate() {
                match *shape {
                    Shape::Number(number) => assert_eq!(number, i as u64),
                    Shape::Text(text) => assert_eq!(&view[text], "text"),
                    _ => assert_eq!(i % 3, 2),
                }
            }
            for (i, &slice) in view[view[large].slices.unwrap()].iter().enumerate() {
                for (j, p) in view[slice].iter().enumerate() {
                    assert_eq!(view[p.unwrap()], (i * 1000 + j) as u64);
                }
            }
        })?;
    }
    Ok(())
}

/// Slots that a collection has freed may still have their old content.
#[test]
fn a_heap_with_dead_slots_moves() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let heap = at(place()).open(&path)?;
    let root = fill(&heap, 500)?;
    root.collect()?;
    for i in 0..200 {
        push(&root, i)?;
    }
    let expected = contents(&root);
    drop(root);
    heap.close()?;
    for _ in 0..2 {
        let heap = at(place()).open(&path)?;
        let root = existing(&heap);
        assert_eq!(contents(&root), expected);
        root.collect()?;
        assert_eq!(contents(&root), expected);
        drop(root);
        heap.close()?;
    }
    Ok(())
}

#[test]
fn a_pointer_to_nowhere_is_left_alone() -> Result<()> {
    const NOWHERE: u64 = 0x7777_0000_1238;
    let dir = tempdir();
    let path = dir.path().join("x");
    let base = place();
    let heap = at(base).open(&path)?;
    let root = fill(&heap, 1)?;
    let world = root.read(|_, w| (address(w) - base) as usize)?;
    drop(root);
    heap.close()?;
    let mut bytes = fs::read(&path).unwrap();
    assert!((base..base + RESERVED).contains(&word(&bytes, world + 24)));
    set_word(&mut bytes, world + 24, NOWHERE); // `element`
    fs::write(&path, &bytes).unwrap();
    at(place()).open(&path)?.close()?;
    assert_eq!(word(&fs::read(&path).unwrap(), world + 24), NOWHERE);
    Ok(())
}
