//! The failures of a predecessor (go-pmem). Each of them was reproduced there with a killed process, and is
//! impossible here.
//!
//! There are tests for numbers 1 to 7, 9 and 10, and for most of the bugs that were found by reading its
//! source.
//!
//! Some have no test, because the program does not compile:
//! * 8 (`break` out of a transaction block): a transaction is a closure, and no `break` or `continue` leaves
//!   a closure. `return` and `?` do; see `leaving_a_transaction_early_ends_it`.
//! * a string constant stored in the heap: a `&str` is not `Persist` (tests/ui/field_reference.rs). The heap
//!   stores a copy; see `a_string_constant_comes_back_with_its_text`.
//! * half of 6 (a store that is not logged): a `&mut` into the heap comes from the transaction, which logs
//!   the old content or makes a copy first.
//!
//! Missing flushes (a new root that was not flushed, the second line of an object) cannot be seen here,
//! because the page cache survives a killed process. The explorer of crash images in `pheap-crash` looks for
//! these.
#![allow(clippy::unit_arg)] // `Ok(tx[p] = 1)` is a transaction in one line

use std::fs;
use std::path::Path;

use pheap::{Error, Heap, Options, P, Persist, Result, Root, Txn, View};
use pheap_testkit::*;

#[derive(Persist, Default)]
#[repr(C)]
struct Wide {
    words: [u64; 12],
    tail: u64,
}

#[derive(Persist)]
#[repr(C)]
struct Node<'r> {
    value: u64,
    next: Option<P<'r, Node<'r>>>,
}

#[derive(Persist, Default)]
#[repr(C)]
struct Data<'r> {
    bytes: Option<P<'r, [u8]>>,
    numbers: Option<P<'r, [u64]>>,
    wide: Option<P<'r, Wide>>,
    list: Option<P<'r, Node<'r>>>,
    text: Option<P<'r, str>>,
    count: u64,
}

fn fresh(heap: &Heap) -> Result<Root<Data<'static>>> {
    let root: Root<Data> = heap.root("data")?;
    root.txn(|tx, d| {
        let bytes = tx.alloc_slice(64, |i| i as u8)?;
        let numbers = tx.alloc_slice(1000, |i| i as u64)?;
        let wide = tx.alloc(Wide { words: [1; 12], tail: 2 })?;
        let mut list = None;
        for value in 0..10 {
            list = Some(tx.alloc(Node { value, next: list })?);
        }
        let text = tx.alloc_str("hello")?;
        tx[d] = Data {
            bytes: Some(bytes),
            numbers: Some(numbers),
            wide: Some(wide),
            list,
            text: Some(text),
            count: 0,
        };
        Ok(())
    })?;
    Ok(root)
}

/// All that there is, as one text.
fn dump<'r>(view: &View<'r>, d: P<'r, Data<'r>>) -> String {
    let d = &view[d];
    let wide = &view[d.wide.unwrap()];
    let mut list = Vec::new();
    let mut next = d.list;
    while let Some(node) = next {
        list.push(view[node].value);
        next = view[node].next;
    }
    format!(
        "{:?} {:?} {:?} {} {list:?} {:?} {}",
        &view[d.bytes.unwrap()],
        &view[d.numbers.unwrap()],
        wide.words,
        wide.tail,
        &view[d.text.unwrap()],
        d.count
    )
}

type Change = for<'r> fn(&mut Txn<'r>, P<'r, Data<'r>>) -> Result<()>;

/// Runs a transaction with `change` in it, on both paths. If it ends in an error, in a panic, or in
/// `kill -9`, nothing of it is left. If it commits, all of it is there, also after a `kill -9`.
fn all_or_nothing(test: &str, change: Change) {
    let options = |name: &str| small().pin_undo(name.contains("long"));
    if let Some((role, path)) = role() {
        let heap = options(&role).open(&path).unwrap();
        let root: Root<Data> = heap.existing_root("data").unwrap();
        let _ = root.txn(|tx, d| {
            change(tx, d)?;
            if role.contains("inside") {
                die();
            }
            Ok(())
        });
        die();
    }
    let dir = tempdir();
    for path in ["short", "long"] {
        let file = dir.path().join(path);
        let heap = options(path).open(&file).unwrap();
        let root = fresh(&heap).unwrap();
        let before = root.read(dump).unwrap();

        let aborted = root.txn(|tx, d| {
            change(tx, d)?;
            assert_ne!(dump(tx, d), before);
            Err::<(), _>(Error::abort("no"))
        });
        assert!(matches!(aborted, Err(Error::Aborted(_))));
        assert_eq!(root.read(dump).unwrap(), before, "{path}: after an error");

        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            root.txn(|tx, d| -> Result<()> {
                change(tx, d)?;
                std::panic::resume_unwind(Box::new("no"))
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(root.read(dump).unwrap(), before, "{path}: after a panic");

        // What the file holds in the middle of the transaction is what a crash at that moment leaves.
        let mut images = Vec::new();
        let _ = root.txn(|tx, d| {
            images.push(as_killed(&file));
            change(tx, d)?;
            images.push(as_killed(&file));
            Err::<(), _>(Error::abort("no"))
        });
        drop(root);
        heap.close().unwrap();
        for (i, image) in images.iter().enumerate() {
            let copy = dir.path().join("image");
            fs::write(&copy, image).unwrap();
            assert_eq!(open(&options(path), &copy).read(dump).unwrap(), before, "{path}: image {i}");
        }

        run_killed(test, &format!("inside {path}"), &file);
        assert_eq!(open(&options(path), &file).read(dump).unwrap(), before, "{path}: after a kill inside");

        run_killed(test, &format!("after {path}"), &file);
        let root = open(&options(path), &file);
        let after = root.read(dump).unwrap();
        assert_ne!(after, before, "{path}: after a kill after the transaction");
        drop(root);
        assert_eq!(open(&small(), &file).read(dump).unwrap(), after);
    }
}

fn open(options: &Options, path: &Path) -> Root<Data<'static>> {
    options.open(path).unwrap().existing_root("data").unwrap()
}

#[test]
fn n1_stores_to_bytes_0_2_1_of_a_word() {
    all_or_nothing("predecessor::n1_stores_to_bytes_0_2_1_of_a_word", |tx, d| {
        let bytes = tx[d].bytes.unwrap();
        for i in [0, 2, 1] {
            let byte = bytes.at(tx, i);
            tx[byte] = 0xff;
        }
        Ok(())
    });
}

#[test]
fn n2_an_object_across_two_lines_then_a_field_in_the_second() {
    all_or_nothing("predecessor::n2_an_object_across_two_lines_then_a_field_in_the_second", |tx, d| {
        let wide = tx[d].wide.unwrap();
        tx[wide] = Wide { words: [7; 12], tail: 8 };
        tx[wide].words[11] = 9;
        tx[wide].tail = 10;
        Ok(())
    });
}

#[test]
fn n2_with_the_field_by_itself() {
    #[pheap::txn]
    fn change<'r>(tx: &mut Txn<'r>, d: P<'r, Data<'r>>) -> Result<()> {
        let wide = tx[d].wide.unwrap();
        tx[wide] = Wide { words: [7; 12], tail: 8 };
        tx[wide].words[11] = 9;
        tx[wide].tail = 10;
        tx[d].count += 1;
        Ok(())
    }
    all_or_nothing("predecessor::n2_with_the_field_by_itself", change);
}

#[test]
fn n3_a_pointer_set_to_none_then_new_allocations() {
    all_or_nothing("predecessor::n3_a_pointer_set_to_none_then_new_allocations", |tx, d| {
        tx[d].list = None;
        for value in 0..5000 {
            let node = tx.alloc(Node { value: value + 1_000_000, next: None })?;
            if value % 1000 == 0 {
                tx[d].list = Some(node);
            }
        }
        tx[d].list = None;
        Ok(())
    });
}

#[test]
fn n4_copies_into_a_slice() {
    all_or_nothing("predecessor::n4_copies_into_a_slice", |tx, d| {
        let (bytes, numbers) = (tx[d].bytes.unwrap(), tx[d].numbers.unwrap());
        tx[bytes][3..9].copy_from_slice(b"copied");
        tx[bytes].copy_within(..10, 40);
        tx[numbers].copy_within(500.., 0);
        tx[numbers][1..3].clone_from_slice(&[1, 1]);
        Ok(())
    });
}

#[test]
fn n5_appending() {
    fn append<'r>(tx: &mut Txn<'r>, d: P<'r, Data<'r>>, value: u64) -> Result<()> {
        let old = tx[d].numbers.unwrap();
        let new =
            tx.alloc_slice(old.len(tx) + 1, |i| if i < old.len(tx) { tx[old.at(tx, i)] } else { value })?;
        tx[d].numbers = Some(new);
        Ok(())
    }
    all_or_nothing("predecessor::n5_appending", |tx, d| {
        for i in 0..10 {
            append(tx, d, 10_000 + i)?;
        }
        Ok(())
    });
}

#[test]
fn n6_functions_that_know_nothing_of_transactions() {
    fn scramble(numbers: &mut [u64]) {
        numbers.reverse();
        numbers[10..].sort_unstable();
        std::mem::take(&mut numbers[0]);
    }
    fn wipe(wide: &mut Wide) {
        *wide = Wide::default();
        wide.tail = 5;
    }
    all_or_nothing("predecessor::n6_functions_that_know_nothing_of_transactions", |tx, d| {
        let (numbers, wide) = (tx[d].numbers.unwrap(), tx[d].wide.unwrap());
        scramble(&mut tx[numbers]);
        wipe(&mut tx[wide]);
        Ok(())
    });
}

#[test]
fn n7_after_a_panic_the_next_transaction_stands_for_itself() -> Result<()> {
    let options = |role: &str| small().pin_undo(role.contains("long"));
    if let Some((role, path)) = role() {
        let root = open(&options(&role), &path);
        for i in 0..5 {
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                root.txn(|tx, d| -> Result<()> {
                    tx[d].count = 1_000_000;
                    let numbers = tx[d].numbers.unwrap();
                    tx[numbers].fill(1);
                    std::panic::resume_unwind(Box::new(()))
                })
            }));
            assert!(panicked.is_err());
            root.txn(|tx, d| {
                assert_eq!(tx[d].count, i);
                tx[d].count += 1;
                Ok(())
            })?;
        }
        die();
    }
    let dir = tempdir();
    for path in ["short", "long"] {
        let file = dir.path().join(path);
        drop(fresh(&options(path).open(&file)?)?);
        run_killed("predecessor::n7_after_a_panic_the_next_transaction_stands_for_itself", path, &file);
        let root = open(&options(path), &file);
        let seen =
            root.read(|view, d| (view[d].count, view[view[d].numbers.unwrap()].iter().sum::<u64>()))?;
        assert_eq!(seen, (5, 499_500));
    }
    Ok(())
}

/// The rest of number 8: `return` and `?`.
#[test]
fn leaving_a_transaction_early_ends_it() -> Result<()> {
    for options in both() {
        let heap = options.in_memory()?;
        let root = fresh(&heap)?;
        for i in 0..10u64 {
            let result = root.txn(|tx, d| {
                for j in 0.. {
                    tx[d].count += 1;
                    if j == i && i % 2 == 0 {
                        return Ok("well");
                    }
                    if j == i {
                        Err(Error::abort("?"))?;
                    }
                }
                unreachable!()
            });
            assert_eq!(result.is_ok(), i % 2 == 0);
        }
        assert_eq!(root.read(|view, d| view[d].count)?, 1 + 3 + 5 + 7 + 9);
    }
    Ok(())
}

/// 9: what a crash in the middle of the creation leaves is created anew.
#[test]
fn n9_killed_during_the_first_initialisation() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    small().open(&path)?.close()?;
    let whole = fs::read(&path).unwrap();
    // The order of the stores: magic, arena, span entry, then the header in slot 1, any part of it.
    let mut images = vec![Vec::new(), vec![0; whole.len()]];
    let mut image = vec![0; whole.len()];
    image[..8].copy_from_slice(&whole[..8]);
    images.push(image.clone());
    image[2 * PAGE..3 * PAGE].copy_from_slice(&whole[2 * PAGE..3 * PAGE]);
    images.push(image.clone());
    image[3 * PAGE..4 * PAGE].copy_from_slice(&whole[3 * PAGE..4 * PAGE]);
    images.push(image.clone());
    for words in [1, 2, 6, 20, 63] {
        let mut torn = image.clone();
        torn[PAGE..PAGE + words * 8].copy_from_slice(&whole[..words * 8]);
        images.push(torn);
    }
    for (i, image) in images.iter().enumerate() {
        fs::write(&path, image).unwrap();
        let heap = small().open(&path).unwrap_or_else(|e| panic!("image {i}: {e}"));
        assert_eq!(heap.roots(), []);
        let root: Root<u64> = heap.root("n")?;
        root.txn(|tx, n| Ok(tx[n] = 3))?;
        drop(root);
        heap.close()?;
        let heap = small().open(&path)?;
        assert_eq!(heap.existing_root::<u64>("n")?.read(|view, n| view[n])?, 3);
        heap.close()?;
    }
    Ok(())
}

#[test]
fn n9_killed_while_the_first_root_is_made() -> Result<()> {
    const TEST: &str = "predecessor::n9_killed_while_the_first_root_is_made";
    if let Some((role, path)) = role() {
        let heap = small().open(&path)?;
        if role == "opened" {
            die();
        }
        heap.root_or::<Data>("data", |tx| {
            for i in 0..2000 {
                tx.alloc(Node { value: i, next: None })?;
            }
            if role == "inside" {
                die();
            }
            Ok(Data { count: 77, ..Data::default() })
        })?;
        die();
    }
    let dir = tempdir();
    let path = dir.path().join("x");
    for _ in 0..2 {
        run_killed(TEST, "opened", &path);
        run_killed(TEST, "inside", &path);
        let heap = small().open(&path)?;
        assert_eq!(heap.roots(), []);
        heap.close()?;
    }
    run_killed(TEST, "inside", &path);
    run_killed(TEST, "made", &path);
    let heap = small().open(&path)?;
    assert_eq!(heap.existing_root::<Data>("data")?.read(|view, d| view[d].count)?, 77);
    assert_eq!(heap.stats().file_bytes, MIB, "nothing leaks");
    Ok(())
}

#[test]
fn n10_much_ordinary_memory_before_opening() -> Result<()> {
    if let Some((_, path)) = role() {
        // 200 MB that is touched, 400 maps, and 16 TB of addresses.
        let touched = vec![1u8; 200 << 20];
        let mut maps = Vec::new();
        for i in 0..400 {
            let len = if i < 16 { 1usize << 40 } else { 16 << 20 };
            // SAFETY: anonymous maps wherever the kernel likes; they stay until the process ends.
            let map = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    len,
                    libc::PROT_NONE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                    -1,
                    0,
                )
            };
            if map != libc::MAP_FAILED {
                maps.push(map);
            }
        }
        assert!(maps.len() > 300);
        let root = open(&small(), &path);
        root.txn(|tx, d| Ok(tx[d].count = touched.iter().map(|&b| u64::from(b)).sum()))?;
        return Ok(());
    }
    let dir = tempdir();
    let path = dir.path().join("x");
    drop(fresh(&small().open(&path)?)?);
    run_well("predecessor::n10_much_ordinary_memory_before_opening", "hoarder", &path);
    assert_eq!(open(&small(), &path).read(|view, d| view[d].count)?, 200 << 20);
    Ok(())
}

// --- read in its source ------------------------------------------------------------------------------------

/// Offset of the only region in the file; its log follows in the next page.
fn region(bytes: &[u8]) -> usize {
    let found = find(bytes, b"\x89PREGIO\n");
    assert_eq!(found.len(), 1);
    found[0]
}

/// Log entries of several lines could be torn without notice.
#[test]
fn a_torn_record_is_noticed() -> Result<()> {
    let dir = tempdir();
    let (path, copy) = (dir.path().join("x"), dir.path().join("copy"));
    let heap = small().open(&path)?;
    let root = fresh(&heap)?;
    root.txn(|tx, d| Ok(tx[d].count = 1))?;
    let (before, old) = (as_killed(&path), root.read(dump)?);
    root.txn(|tx, d| {
        let (bytes, wide) = (tx[d].bytes.unwrap(), tx[d].wide.unwrap());
        tx[bytes].fill(0xee);
        tx[wide] = Wide { words: [5; 12], tail: 6 };
        tx[d].count = 2;
        Ok(())
    })?;
    let (after, new) = (fs::read(&path).unwrap(), root.read(dump)?);
    drop(root);
    heap.close()?;

    let log = region(&after) + PAGE..region(&after) + 2 * PAGE;
    let lines: Vec<usize> =
        log.clone().step_by(64).filter(|&at| before[at..at + 64] != after[at..at + 64]).collect();
    assert!(lines.len() >= 4, "a record of several lines: {lines:?}");
    // The whole record, none of the data: it is replayed.
    let mut image = before.clone();
    image[log.clone()].copy_from_slice(&after[log]);
    fs::write(&copy, &image).unwrap();
    assert_eq!(open(&small(), &copy).read(dump)?, new);
    // All but one of its lines (or with one bit wrong): it never was.
    for &line in &lines {
        for torn in [true, false] {
            let mut image = image.clone();
            if torn {
                image[line..line + 64].copy_from_slice(&before[line..line + 64]);
            } else {
                image[line + 9] ^= 0x20;
            }
            fs::write(&copy, &image).unwrap();
            let heap = small().open(&copy)?;
            assert_eq!(heap.existing_root::<Data>("data")?.read(dump)?, old, "line {line}");
            // And it does not come back to life behind the next record.
            heap.existing_root::<Data>("data")?.txn(|tx, d| Ok(tx[d].count = 1))?;
            heap.close()?;
            assert_eq!(open(&small(), &copy).read(dump)?, old, "line {line}, after another session");
        }
    }
    Ok(())
}

/// A record behind a torn one must not come back to life.
#[test]
fn a_record_behind_a_torn_one_stays_dead() -> Result<()> {
    let dir = tempdir();
    let (path, copy) = (dir.path().join("x"), dir.path().join("copy"));
    let heap = small().open(&path)?;
    let root: Root<u64> = heap.root("n")?;
    let mut images = vec![as_killed(&path)];
    for i in 1..=3 {
        root.txn(|tx, n| Ok(tx[n] = i))?;
        images.push(fs::read(&path).unwrap());
    }
    drop(root);
    heap.close()?;
    let log = region(&images[3]) + PAGE..region(&images[3]) + 2 * PAGE;
    let differing =
        |a: &[u8], b: &[u8]| log.clone().step_by(64).find(|&at| a[at..at + 64] != b[at..at + 64]).unwrap();
    let second = differing(&images[1], &images[2]);
    let mut image = images[0].clone();
    image[log.clone()].copy_from_slice(&images[3][log.clone()]);
    image[second..second + 64].fill(0);
    fs::write(&copy, &image).unwrap();
    for round in 0..3u64 {
        let heap = small().open(&copy)?;
        let root: Root<u64> = heap.existing_root("n")?;
        assert_eq!(root.read(|view, n| view[n])?, 1 + 10 * round);
        root.txn(|tx, n| Ok(tx[n] = 100))?;
        root.txn(|tx, n| Ok(tx[n] = 11 + 10 * round))?;
        std::mem::drop((heap, root));
    }
    Ok(())
}

/// Fresh log memory may hold entries of a log that was there before.
#[test]
fn stale_entries_in_the_memory_of_a_new_log_are_dead() -> Result<()> {
    const TEST: &str = "predecessor::stale_entries_in_the_memory_of_a_new_log_are_dead";
    if let Some((role, path)) = role() {
        let heap = small().open(&path)?;
        for round in 0..20u64 {
            let root: Root<u64> = heap.root("n")?;
            for i in 0..=round {
                root.txn(|tx, n| Ok(tx[n] = 1000 + i))?;
            }
            heap.remove_root("n")?;
        }
        let root: Root<u64> = heap.root("n")?;
        if role == "written" {
            root.txn(|tx, n| Ok(tx[n] = 5))?;
        }
        die();
    }
    let dir = tempdir();
    for (role, expected) in [("made", 0), ("written", 5)] {
        let path = dir.path().join(role);
        run_killed(TEST, role, &path);
        for _ in 0..2 {
            let heap = small().open(&path)?;
            assert_eq!(heap.existing_root::<u64>("n")?.read(|view, n| view[n])?, expected);
            heap.close()?;
        }
    }
    Ok(())
}

/// A new root was not flushed: it is there when `root` has returned.
#[test]
fn a_new_root_survives() -> Result<()> {
    const TEST: &str = "predecessor::a_new_root_survives";
    if let Some((role, path)) = role() {
        let heap = small().open(&path)?;
        match role.as_str() {
            "root" => drop(heap.root_or::<u64>("n", |_| Ok(9))?),
            "rename" => heap.rename_root("n", "m")?,
            _ => heap.remove_root("m")?,
        }
        die();
    }
    let dir = tempdir();
    let path = dir.path().join("x");
    for (role, expected) in [("root", Some("n")), ("rename", Some("m")), ("remove", None)] {
        run_killed(TEST, role, &path);
        let heap = small().open(&path)?;
        let names: Vec<String> = heap.roots().into_iter().map(|root| root.name).collect();
        assert_eq!(names.first().map(String::as_str), expected);
        if let Some(name) = expected {
            assert_eq!(heap.existing_root::<u64>(name)?.read(|view, n| view[n])?, 9);
        }
        heap.close()?;
    }
    Ok(())
}

/// Types were found by the place that the binary gave them: a rebuild confused them.
#[test]
fn types_are_found_by_their_layout() -> Result<()> {
    fn make<T: Persist + Default>(heap: &Heap, name: &str) -> Result<()> {
        heap.root::<T>(name).map(drop)
    }
    let dir = tempdir();
    let path = dir.path().join("x");
    type Make = (&'static str, fn(&Heap, &str) -> Result<()>);
    let makes: [Make; 6] = [
        ("a", make::<u64>),
        ("b", make::<Data>),
        ("c", make::<[u32; 7]>),
        ("d", make::<Wide>),
        ("e", make::<Option<P<'static, [Node<'static>]>>>),
        ("f", make::<i8>),
    ];
    for turn in 0..makes.len() {
        let heap = small().open(&path)?;
        let mut order = makes;
        order.rotate_left(turn);
        for (name, make) in order {
            make(&heap, name)?;
        }
        for (name, make) in makes {
            for (other, _) in makes.iter().filter(|(other, _)| *other != name) {
                assert!(matches!(make(&heap, other), Err(Error::TypeMismatch { .. })), "{name} {other}");
            }
        }
        let _ = heap.remove_root(makes[turn].0);
        heap.close()?;
    }
    Ok(())
}

#[test]
fn a_string_constant_comes_back_with_its_text() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    const TEXT: &str = "a constant of the program, öäü 💾";
    if let Some((_, path)) = role() {
        let root = fresh(&small().open(&path)?)?;
        root.txn(|tx, d| {
            let text = tx.alloc_str(TEXT)?;
            tx[d].text = Some(text);
            Ok(())
        })?;
        die();
    }
    run_killed("predecessor::a_string_constant_comes_back_with_its_text", "writer", &path);
    let root = open(&small(), &path);
    root.read(|view, d| {
        let text = view[d].text.unwrap();
        assert_eq!((&view[text], text.len(view)), (TEXT, TEXT.len()));
    })
}
