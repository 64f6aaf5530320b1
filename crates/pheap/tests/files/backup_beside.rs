//! Copies that are made while transactions go on, with a write-ahead log; and copies that are sent somewhere.
#![allow(clippy::unit_arg)] // `Ok(tx[p] = 1)` is a transaction in one line

use std::cell::Cell;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc;

use pheap::{Backup, Durability, Error, Heap, Options, P, PVec, Persist, Result, Root};
use pheap_testkit::*;

/// Objects, and words of each: six megabytes.
const OBJECTS: usize = 12 << 10;
const EACH: usize = 64;

/// A number of words, some of which each transaction changes, and how many there were.
#[derive(Persist)]
#[repr(C)]
struct Words<'r> {
    transactions: u64,
    objects: P<'r, [Option<P<'r, [u64; EACH]>>]>,
}

fn options() -> Options {
    small().durability(Durability::Wal).log_limit(1 << 20).memory_limit(1 << 20)
}

/// The words that a transaction sets to its number.
fn changed(number: u64) -> impl Iterator<Item = usize> {
    let mut rng = Rng::from_seed(number);
    (0..=number % 200).map(move |_| rng.below(OBJECTS * EACH))
}

fn change(words: &Root<Words<'static>>) -> Result<()> {
    words.txn(|tx, words| {
        tx[words].transactions += 1;
        let (number, objects) = (tx[words].transactions, tx[words].objects);
        for at in changed(number) {
            let object = tx[objects][at / EACH].unwrap();
            tx[object][at % EACH] = number;
        }
        Ok(())
    })
}

fn words(heap: &Heap) -> Result<Root<Words<'static>>> {
    heap.root_or("words", |tx| {
        let objects = tx.alloc_slice(OBJECTS, |_| None)?;
        for i in 0..OBJECTS {
            tx[objects][i] = Some(tx.alloc([0; EACH])?);
        }
        Ok(Words { transactions: 0, objects })
    })
}

/// Asserts that the state is that after some transaction. Returns the number of that transaction.
fn state(heap: &Heap) -> Result<u64> {
    let report = heap.check()?;
    assert!(report.is_clean(), "{report}");
    heap.existing_root::<Words>("words")?.read(|view, words| {
        let number = view[words].transactions;
        let mut expected = vec![[0; EACH]; OBJECTS];
        (1..=number).for_each(|n| changed(n).for_each(|at| expected[at / EACH][at % EACH] = n));
        let objects = view[view[words].objects].iter().map(|object| view[object.unwrap()]);
        assert!(objects.eq(expected), "it is not the state after {number} transactions");
        number
    })
}

/// The thread that makes the copy also changes the heap between its steps, in several ways. So none of these
/// changes waits for the copy.
#[test]
fn transactions_go_on_while_pages_are_copied() -> Result<()> {
    for way in ["file", "stream"] {
        let dir = tempdir();
        let heap = options().open(dir.path().join("x"))?;
        let words = words(&heap)?;
        (0..50).try_for_each(|_| change(&words))?;
        let grown = heap.root::<PVec<u64>>("grown")?;
        let steps = Cell::new(0u64);
        let last = Cell::new((0, 0));
        let step = |done, total| {
            let n = steps.replace(steps.get() + 1);
            assert!(done <= total && done >= last.get().0);
            last.set((done, total));
            (0..20).try_for_each(|_| change(&words)).unwrap();
            // Not every time: some pages are to be read while the log holds much.
            match n % 5 {
                0 => heap.checkpoint().unwrap(),
                1 => drop(
                    heap.root_or::<Option<P<u64>>>(&format!("r{n}"), |tx| tx.alloc(n).map(Some)).unwrap(),
                ),
                2 if n > 5 => heap.remove_root(&format!("r{}", n - 1)).unwrap(),
                3 => grown.txn(|tx, grown| grown.extend(tx, (0..50_000).map(|i| i + n))).unwrap(),
                _ => grown.txn(|tx, grown| Ok(grown.clear(tx))).unwrap(),
            }
        };
        let copy = dir.path().join("copy");
        let backup = Backup::of(&heap).progress(step);
        if way == "file" {
            backup.write_file(&copy)?;
        } else {
            let mut stream = Vec::new();
            backup.write_to(&mut stream)?;
            Heap::restore(&stream[..], &copy)?;
        }
        let (done, total) = last.get();
        assert!(steps.get() > 6 && done == total, "{steps:?} {done} {total}");
        let all = state(&heap)?;
        let number = state(&small().open(&copy)?)?;
        // The copy has the commits of the first step, and lacks the last commit.
        assert!((50 + 20..all).contains(&number), "{way}: {number} of {all}");
        // The heap goes on.
        change(&words)?;
        heap.close()?;
        assert_eq!(state(&options().open(dir.path().join("x"))?)?, all + 1);
    }
    Ok(())
}

/// Bytes of a heap's stream.
fn stream(heap: &Heap) -> Result<Vec<u8>> {
    let mut stream = Vec::new();
    heap.backup_to(&mut stream)?;
    Ok(stream)
}

#[test]
fn streams_of_all_kinds_of_heaps_are_restored() -> Result<()> {
    for kind in ["memory", "process", "pmem", "wal", "reader"] {
        let dir = tempdir();
        let (path, copy) = (dir.path().join("x"), dir.path().join("copy"));
        let heap = match kind {
            "memory" => small().in_memory()?,
            "pmem" => small().durability(Durability::Pmem).open(&path)?,
            "wal" => options().open(&path)?,
            _ => small().open(&path)?,
        };
        let words = words(&heap)?;
        (0..30).try_for_each(|_| change(&words))?;
        drop(words);
        let heap = if kind == "reader" {
            heap.close()?;
            small().read_only(true).open(&path)?
        } else {
            heap
        };
        if kind != "memory" {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        }
        Heap::restore(&stream(&heap)?[..], &copy)?;
        let file = dir.path().join("file");
        heap.backup(&file)?;
        for path in [&copy, &file] {
            let mode = fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, if kind == "memory" { 0o600 } else { 0o640 }, "{kind}");
            let copy = small().read_only(true).open(path)?;
            assert_eq!(copy.info().in_use, None);
            assert_eq!(state(&copy)?, 30);
        }
    }
    Ok(())
}

#[test]
fn what_is_not_a_whole_stream_is_refused() -> Result<()> {
    let dir = tempdir();
    let heap = options().open(dir.path().join("x"))?;
    let root = heap.root::<u64>("n")?;
    root.txn(|tx, n| Ok(tx[n] = 1))?;
    // With records in it.
    let mut good = Vec::new();
    let step = |_, _| {
        root.txn(|tx, n| Ok(tx[n] += 1)).unwrap();
        heap.checkpoint().unwrap();
    };
    Backup::of(&heap).progress(step).write_to(&mut good)?;
    let files = || fs::read_dir(dir.path()).unwrap().count();
    let (before, copy) = (files(), dir.path().join("copy"));
    let refused = |bytes: &[u8]| {
        let error = Heap::restore(bytes, &copy).unwrap_err();
        assert_eq!(files(), before);
        error
    };
    for len in (0..64).chain((64..good.len()).step_by(97)).chain(good.len() - 40..good.len()) {
        let error = refused(&good[..len]);
        assert!(
            matches!(&error, Error::Io { source, .. } if source.kind() == ErrorKind::UnexpectedEof),
            "{error}"
        );
    }
    let mut bytes = good.clone();
    for at in (0..300).chain((300..good.len()).step_by(97)) {
        bytes[at] ^= 4;
        let error = refused(&bytes);
        let is_that = matches!(error, Error::Corrupt { .. } | Error::NewerFormat { .. });
        // A length may be anything.
        let is_short =
            matches!(&error, Error::Io { source, .. } if source.kind() == ErrorKind::UnexpectedEof);
        assert!(is_that || is_short, "{at}: {error}");
        bytes[at] ^= 4;
    }
    // A frame is missing, or comes twice.
    let frame = |at: usize| at + 32 + word(&good, at + 16) as usize;
    let (one, two) = (frame(64), frame(frame(64)));
    assert!(matches!(refused(&[&good[..one], &good[two..]].concat()), Error::Corrupt { .. }));
    assert!(matches!(refused(&[&good[..two], &good[one..]].concat()), Error::Corrupt { .. }));
    assert!(matches!(refused(&fs::read(dir.path().join("x")).unwrap()), Error::Corrupt { .. }));
    // The bytes behind it are not read, and an existing file is not replaced.
    let mut rest = &[&good[..], b"more"].concat()[..];
    Heap::restore(&mut rest, &copy)?;
    assert_eq!(rest, b"more");
    let error = Heap::restore(&good[..], &copy).unwrap_err();
    assert!(
        matches!(&error, Error::Io { source, .. } if source.kind() == ErrorKind::AlreadyExists),
        "{error}"
    );
    assert!(small().open(&copy)?.existing_root::<u64>("n")?.read(|view, n| view[n])? > 1);
    Ok(())
}

/// Takes some bytes, and then no more.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A copy that ends early does not harm the heap.
#[test]
fn a_copy_that_fails_leaves_nothing() -> Result<()> {
    let dir = tempdir();
    let heap = options().open(dir.path().join("x"))?;
    let words = words(&heap)?;
    (0..10).try_for_each(|_| change(&words))?;
    let files = || fs::read_dir(dir.path()).unwrap().count();
    let before = files();
    for len in [0, 10, 100, 100_000] {
        let error = heap.backup_to(Full(len)).unwrap_err();
        assert!(
            matches!(&error, Error::Io { source, .. } if source.kind() == ErrorKind::BrokenPipe),
            "{error}"
        );
    }
    let panics = Backup::of(&heap).progress(|done, _| assert!(done < 1 << 20, "enough"));
    assert!(catch_unwind(AssertUnwindSafe(|| panics.write_file(dir.path().join("copy")))).is_err());
    assert_eq!(files(), before);
    change(&words)?;
    heap.checkpoint()?;
    heap.backup(dir.path().join("copy"))?;
    assert_eq!(state(&small().open(dir.path().join("copy"))?)?, 11);
    // The log is lost on the way.
    let other = dir.path().join("other");
    let lose = |_, _| {
        fs::write(&other, "precious").unwrap();
        fs::rename(&other, log_of(&dir.path().join("x"))).unwrap();
    };
    let before = files();
    let error = Backup::of(&heap).progress(lose).write_file(dir.path().join("copy 2")).unwrap_err();
    assert!(matches!(error, Error::Misplaced { .. } | Error::Failed { .. }), "{error}");
    assert_eq!(files(), before);
    Ok(())
}

#[test]
fn closing_waits_for_a_copy() -> Result<()> {
    let dir = tempdir();
    let (path, copy) = (dir.path().join("x"), dir.path().join("copy"));
    let heap = options().open(&path)?;
    let words = words(&heap)?;
    (0..10).try_for_each(|_| change(&words))?;
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| -> Result<()> {
        let closer = heap.clone();
        let closing = scope.spawn(move || {
            let thread: i32 = this_thread();
            tell.send(thread).unwrap();
            closer.close()
        });
        let thread = told.recv().unwrap();
        let step = |_, _| while !sleeps(thread) && !closing.is_finished() {};
        let made = Backup::of(&heap).progress(step).write_file(&copy);
        // One of both was first.
        match made {
            Ok(()) => assert_eq!(state(&small().open(&copy)?)?, 10),
            Err(error) => assert!(matches!(error, Error::Closed) && !copy.exists(), "{error}"),
        }
        closing.join().unwrap()
    })?;
    drop((words, heap));
    assert_eq!(state(&options().open(&path)?)?, 10);
    Ok(())
}

/// A program is killed while it makes a copy. The heap has lost nothing, and the next copy removes the
/// unfinished one.
#[test]
fn a_program_that_is_killed_while_it_copies_leaves_a_part() -> Result<()> {
    const TEST: &str = "backup_beside::a_program_that_is_killed_while_it_copies_leaves_a_part";
    let copy_of = |path: &Path| path.with_extension("copy");
    if let Some((_, path)) = role() {
        let heap = options().open(&path)?;
        let words = words(&heap)?;
        let mut steps = 0;
        let step = |_, _| {
            change(&words).unwrap();
            steps += 1;
            if steps == 5 {
                die()
            }
        };
        Backup::of(&heap).progress(step).write_file(copy_of(&path))?;
        return Ok(());
    }
    let dir = tempdir();
    let path = dir.path().join("x");
    run_killed(TEST, "copies", &path);
    let is_partial = |entry: &io::Result<fs::DirEntry>| {
        entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".partial")
    };
    let partial = || fs::read_dir(dir.path()).unwrap().filter(is_partial).count();
    assert_eq!(partial(), 1);
    let heap = options().open(&path)?;
    assert_eq!(state(&heap)?, 5);
    heap.backup(copy_of(&path))?;
    assert_eq!(partial(), 0);
    assert_eq!(state(&small().open(copy_of(&path))?)?, 5);
    Ok(())
}

/// A copy is moved to the name of a killed heap. Opening the copy must not remove the heap's log: when the
/// heap is moved back, it has lost nothing.
#[test]
fn a_copy_in_the_place_of_its_heap_leaves_the_log_alone() -> Result<()> {
    let dir = tempdir();
    let [path, killed, copy, aside] = ["x", "killed", "copy", "aside"].map(|name| dir.path().join(name));
    let heap = options().open(&path)?;
    let words = words(&heap)?;
    heap.backup(&copy)?;
    change(&words)?;
    copy_as_killed(&path, &killed);
    copy_as_killed(&log_of(&path), &log_of(&killed));
    fs::rename(&killed, &aside).unwrap();
    fs::rename(&copy, &killed).unwrap();
    for options in [options(), small()] {
        let error = options.open(&killed).unwrap_err();
        assert!(matches!(error, Error::ForeignLog { .. }), "{error}");
    }
    fs::rename(&killed, &copy).unwrap();
    fs::rename(&aside, &killed).unwrap();
    assert_eq!((state(&options().open(&killed)?)?, state(&small().open(&copy)?)?), (1, 0));
    Ok(())
}

/// The file of the records that are kept for a copy must not end the program when it hits a limit.
#[test]
fn a_file_for_records_that_may_not_grow_fails_the_copy_alone() -> Result<()> {
    const WORDS: usize = 512 << 10;
    if let Some((_, path)) = role() {
        let heap = options().open(&path)?;
        let words = heap.root_or::<PVec<u64>>("words", |tx| PVec::from_slice(tx, &vec![0; WORDS]))?;
        let limit = libc::rlimit { rlim_cur: 32 << 20, rlim_max: 32 << 20 };
        // SAFETY: a plain system call, in a separate process.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
        let set = |number: u64| words.txn(|tx, words| Ok(words.as_mut_slice(tx, ..).fill(number)));
        let mut steps = 0;
        // In the first step, 80 MiB are written: more records than the copy keeps in memory. It puts the rest
        // into a file, which hits the limit.
        let step = |_, _| {
            steps += 1;
            (0..if steps == 1 { 20 } else { 0 }).try_for_each(set).unwrap();
        };
        let error = Backup::of(&heap).progress(step).write_file(path.with_extension("copy")).unwrap_err();
        assert!(matches!(error, Error::OutOfSpace { .. }), "{error}");
        set(20)?;
        return heap.close();
    }
    let dir = tempdir();
    let path = dir.path().join("x");
    run_well("backup_beside::a_file_for_records_that_may_not_grow_fails_the_copy_alone", "limited", &path);
    let heap = options().open(&path)?;
    let words = heap.existing_root::<PVec<u64>>("words")?;
    assert!(words.read(|view, words| view[words].iter(view).all(|&word| word == 20))?);
    Ok(())
}

/// The records that are kept for a copy count as bytes to read: a copy has read all only when `done` equals
/// `total`.
#[test]
fn progress_counts_what_is_kept() -> Result<()> {
    const WORDS: usize = 512 << 10;
    let dir = tempdir();
    let heap = options().open(dir.path().join("x"))?;
    let words = heap.root_or::<PVec<u64>>("words", |tx| PVec::from_slice(tx, &vec![0; WORDS]))?;
    let mut calls = Vec::new();
    // More than is kept in memory, once.
    let step = |done, total| {
        if calls.is_empty() {
            let set = |number| words.txn(|tx, words| Ok(words.as_mut_slice(tx, ..).fill(number)));
            (1..20).try_for_each(set).unwrap();
            heap.checkpoint().unwrap();
        }
        calls.push((done, total));
    };
    Backup::of(&heap).progress(step).write_file(dir.path().join("copy"))?;
    let all = calls.last().unwrap().0;
    let early = calls.iter().find(|&&(done, total)| done == total && done < all);
    assert_eq!((early, all > 64 << 20), (None, true), "{calls:?}");
    Ok(())
}
