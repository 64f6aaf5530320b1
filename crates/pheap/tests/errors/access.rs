//! Who may open a heap, and how.
#![allow(clippy::unit_arg)] // `Ok(tx[p] = 1)` is a transaction in one line

use std::fs;
use std::os::unix::fs::PermissionsExt;

use pheap::{Error, Options, Result};
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
    // SAFETY: plain system calls, in a process of its own.
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
