//! Which users may open a heap, and how.
#![allow(clippy::unit_arg)] // `Ok(tx[p] = 1)` is a transaction in one line

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use pheap::{Durability, Error, Options, P, Persist, Result, Root};
use pheap_testkit::sample::*;
use pheap_testkit::*;

#[test]
fn locked_by_another_process() -> Result<()> {
    if let Some((_, path)) = role() {
        let heap = small().open(&path)?;
        ready_and_wait(&path);
        return heap.close();
    }
    let dir = tempdir();
    let path = dir.path().join("x");
    sample(&path);
    let child = start("access::locked_by_another_process", "holder", &path);
    for options in [small(), small().read_only(true)] {
        assert!(matches!(options.open(&path), Err(Error::Locked { .. })));
    }
    release(child);
    small().open(&path)?.close()
}

#[test]
fn opened_twice_in_this_process() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let (hard, soft) = (dir.path().join("hard"), dir.path().join("soft"));
    let heap = small().open(&path)?;
    fs::hard_link(&path, &hard).unwrap();
    std::os::unix::fs::symlink(&path, &soft).unwrap();
    for name in [&path, &hard, &soft] {
        for options in [small(), small().read_only(true)] {
            assert!(matches!(options.open(name), Err(Error::AlreadyOpen { path, .. }) if path == *name));
        }
    }
    heap.close()?;
    small().open(&soft)?.close()?;
    // The last handle closes it, too.
    drop(small().open(&hard)?);
    small().open(&path)?.close()
}

#[test]
fn a_failed_opening_lets_go_of_the_file() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    fs::write(&path, "a text").unwrap();
    assert!(small().open(&path).is_err());
    assert!(matches!(small().open(&path), Err(Error::NotAHeap { .. })));
    fs::write(&path, "").unwrap();
    small().open(&path)?.close()
}

/// Runs the rest as a user without privileges. False (with a note) if that is not possible.
fn become_nobody() -> bool {
    // SAFETY: plain system calls, in a separate process.
    unsafe {
        if libc::geteuid() != 0 {
            return true;
        }
        let ok =
            libc::setgroups(0, std::ptr::null()) == 0 && libc::setgid(65534) == 0 && libc::setuid(65534) == 0;
        if !ok {
            eprintln!("skipped: root here, and cannot become another user");
        }
        ok
    }
}

#[test]
fn no_permission() -> Result<()> {
    if let Some((_, path)) = role() {
        if become_nobody() {
            assert!(matches!(small().open(&path), Err(Error::NoPermission { .. })));
            let heap = small().read_only(true).open(&path)?;
            assert_eq!(heap.existing_root::<Record>("record")?.read(|view, r| view[r].number)?, 7);
            heap.close()?;
            let new = path.with_file_name("new");
            assert!(matches!(small().open(&new), Err(Error::NoPermission { .. })));
            assert!(!new.exists());
        }
        return Ok(());
    }
    let dir = tempdir();
    let path = dir.path().join("x");
    let before = sample(&path);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o555)).unwrap();
    run_well("access::no_permission", "user", &path);
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(fs::read(&path).unwrap() == before);
    Ok(())
}

#[test]
fn the_addresses_are_in_use() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let before = sample(&path);
    let base = base_of(&before);
    // SAFETY: an anonymous map where nothing is mapped (`MAP_FIXED_NOREPLACE`), removed again below.
    let map = unsafe {
        libc::mmap(
            std::ptr::without_provenance_mut(base as usize + (5 << 20)),
            PAGE,
            libc::PROT_READ,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
            -1,
            0,
        )
    };
    assert_eq!(map.addr() as u64, base + (5 << 20));
    let error = small().base(base).open(&path).unwrap_err();
    assert!(
        matches!(error, Error::AddressInUse { base: b, size } if b == base && size == 1 << 30),
        "{error}"
    );
    assert!(fs::read(&path).unwrap() == before);
    // Unless it must be there, the heap goes elsewhere.
    small().open(&path)?.close()?;
    assert_ne!(base_of(&fs::read(&path).unwrap()), base);
    // SAFETY: the map from above.
    unsafe { libc::munmap(map, PAGE) };
    small().base(base).open(&path)?.close()
}

#[test]
fn invalid_options() {
    let bad = [
        Options::new().arena_size(0),
        Options::new().arena_size(3 << 20),
        Options::new().arena_size(4096),
        Options::new().arena_size(16 << 10),
        Options::new().reserve(0),
        Options::new().reserve(3 << 30),
        Options::new().arena_size(1 << 30).reserve(1 << 29),
        Options::new().reserve(1 << 44),
        Options::new().reserve(u64::MAX),
    ];
    let dir = tempdir();
    let path = dir.path().join("x");
    for options in bad {
        assert!(matches!(options.open(&path), Err(Error::InvalidOption(_))), "{options:?}");
        assert!(matches!(options.in_memory(), Err(Error::InvalidOption(_))), "{options:?}");
    }
    assert!(!path.exists());
}

#[test]
fn no_log_can_be_made() -> Result<()> {
    if let Some((_, path)) = role() {
        if become_nobody() {
            let error = small()
                .durability(Durability::Wal)
                .open(&path)
                .and_then(|heap| heap.root::<u64>("new").map(drop));
            assert!(
                matches!(&error, Err(Error::NoPermission { path: of }) if *of == log_of(&path)),
                "{error:?}"
            );
            small().read_only(true).open(&path)?.close()?;
        }
        return Ok(());
    }
    let dir = tempdir();
    let path = dir.path().join("x");
    let before = sample(&path);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o555)).unwrap();
    run_well("access::no_log_can_be_made", "user", &path);
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(fs::read(&path).unwrap() == before);
    Ok(())
}

#[test]
fn names_that_are_too_long() -> Result<()> {
    let dir = tempdir();
    let [longest, longer] = [251, 252].map(|len| dir.path().join("x".repeat(len)));
    let wal = small().durability(Durability::Wal);
    let heap = wal.open(&longest)?;
    heap.root_or::<u64>("number", |_| Ok(7))?;
    let error = wal.open(&longer).unwrap_err();
    assert!(error.to_string().contains("choose a shorter one"), "{error}");
    assert_eq!(fs::metadata(&longer).unwrap().len(), 0);
    assert!(
        small()
            .open(dir.path().join("x".repeat(256)))
            .unwrap_err()
            .to_string()
            .contains("choose a shorter one")
    );
    // Other durabilities need no log, and a backup can have any name that a file can have.
    small().open(&longer)?.close()?;
    let copy = dir.path().join("y".repeat(255));
    heap.backup(&copy)?;
    assert_eq!(small().open(&copy)?.existing_root::<u64>("number")?.read(|view, n| view[n])?, 7);
    Ok(())
}

#[test]
fn few_addresses() -> Result<()> {
    if let Some((_, path)) = role() {
        let limit = libc::rlimit { rlim_cur: 1 << 30, rlim_max: 1 << 30 };
        // SAFETY: a plain system call, in a separate process.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
        let error = small().reserve(1 << 30).open(&path).unwrap_err().to_string();
        assert!(error.contains("`Options::reserve`") && error.contains("ulimit -v"), "{error}");
        return small().reserve(64 << 20).open(&path)?.close();
    }
    let dir = tempdir();
    run_well("access::few_addresses", "limited", &dir.path().join("x"));
    Ok(())
}

/// A program that keeps all of its memory has a heap with a log as others do, and its pages are given back
/// all the same.
#[test]
fn all_memory_is_kept() -> Result<()> {
    const TEST: &str = "access::all_memory_is_kept";
    const PAGES: usize = 16 << 10;
    let Some((when, path)) = role() else {
        for when in ["before", "after"] {
            let dir = tempdir();
            let path = dir.path().join("x");
            run_well(TEST, when, &path);
            // What the run has left.
            let heap = small().verify(true).open(&path)?;
            heap.existing_root::<P<[u64]>>("words")?.read(|view, p| {
                assert!(view[view[p]].iter().step_by(512).all(|&n| n == 2));
            })?;
        }
        return Ok(());
    };
    let keep_all = || {
        // SAFETY: a plain system call, in a separate process.
        let kept = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } == 0;
        if !kept {
            eprintln!("skipped: memory cannot be kept: {}", std::io::Error::last_os_error());
        }
    };
    if when == "before" {
        keep_all();
    }
    let heap = small().durability(Durability::Wal).memory_limit(4 << 20).log_limit(4 << 20).open(&path)?;
    let root = heap.root_or::<P<[u64]>>("words", |tx| tx.alloc_slice(PAGES * 512, |_| 0u64))?;
    heap.checkpoint()?;
    if when == "after" {
        keep_all();
    }
    for _ in 0..2 {
        for first in (0..PAGES).step_by(64) {
            root.txn(|tx, p| {
                let words = tx[p];
                Ok((first..first + 64).for_each(|page| {
                    let element = words.at(tx, page * 512);
                    tx[element] += 1
                }))
            })?;
        }
    }
    heap.checkpoint()?;
    // The pages have 64 MiB.
    let copies = copied(&path);
    assert!(copies < 8 << 10, "{copies} kB, and {} bytes as counted", heap.stats().private_bytes);
    heap.close()
}

/// Kilobytes of private copies of the pages of a file that is mapped.
fn copied(path: &Path) -> u64 {
    let (mut is_its, mut sum) = (false, 0);
    for line in fs::read_to_string("/proc/self/smaps").unwrap().lines() {
        let (first, rest) = line.split_once(' ').unwrap();
        match first {
            "Anonymous:" if is_its => sum += rest.trim().trim_end_matches(" kB").parse::<u64>().unwrap(),
            // The line that a mapping begins with.
            _ if !first.ends_with(':') => is_its = rest.ends_with(path.to_str().unwrap()),
            _ => {}
        }
    }
    sum
}

/// Many threads would help, and no further one can be started.
#[test]
fn no_more_threads() -> Result<()> {
    if let Some((_, path)) = role() {
        // SAFETY: plain system calls, in a separate process.
        if unsafe { libc::geteuid() } == 0 && !become_nobody() {
            return Ok(());
        }
        let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: as before.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &raw const limit) }, 0);
        if std::thread::Builder::new().spawn(|| ()).is_ok() {
            eprintln!("skipped: threads cannot be forbidden");
        }
        for base in [0x2000_0000_0000, 0x3000_0000_0000] {
            let heap = small().base(base).open(&path)?;
            let root = heap.existing_root::<List>("list")?;
            heap.collect()?;
            assert!(heap.check()?.is_clean());
            root.read(|view, list| assert_eq!(length(view, view[list].first), LONG))?;
            heap.close()?;
        }
        return Ok(());
    }
    let dir = tempdir();
    let path = dir.path().join("x");
    let heap = small().open(&path)?;
    let root: Root<List> = heap.root("list")?;
    for _ in 0..LONG / 1000 {
        root.txn(|tx, list| {
            for _ in 0..1000 {
                let next = tx[list].first;
                tx[list].first = Some(tx.alloc(Node { next, rest: [0; 15] })?);
            }
            Ok(())
        })?;
    }
    drop(root);
    heap.close()?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    run_well("access::no_more_threads", "limited", &path);
    Ok(())
}

/// Number of nodes of 128 bytes: 13 MB.
const LONG: usize = 100_000;

#[derive(Persist, Default)]
#[repr(C)]
struct List<'r> {
    first: Option<P<'r, Node<'r>>>,
}

#[derive(Persist)]
#[repr(C)]
struct Node<'r> {
    next: Option<P<'r, Node<'r>>>,
    rest: [u64; 15],
}

fn length<'r>(view: &pheap::View<'r>, first: Option<P<'r, Node<'r>>>) -> usize {
    std::iter::successors(first, |node| view[*node].next).count()
}
