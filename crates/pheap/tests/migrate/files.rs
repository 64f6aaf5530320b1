//! The content of the file: after crashes, at other addresses, in copies, and with each durability.

use std::fs;

use pheap::{Durability, Options};

use super::*;

fn after_kill(test: &str, options: &Options) -> Result<()> {
    if let Some((role, path)) = role() {
        let heap = options.open(&path)?;
        make(&heap, 100)?;
        if role == "before" {
            let _ = heap.migrate::<v1::List, v2::List>("list", |tx, old| {
                tx[old].len = 0;
                let _ = tx.alloc_slice(10_000, |i| i as u64)?;
                die()
            });
        }
        assert!(to_second(&heap)?);
        let list: Second = heap.existing_root("list")?;
        if role == "later" {
            list.txn(|tx, list| push2(tx, list, 100))?;
            assert!(to_first(&heap)?);
        }
        die();
    }
    let dir = tempdir();
    for role in ["before", "after", "later"] {
        let path = dir.path().join(role);
        run_killed(test, role, &path);
        let heap = options.open(&path)?;
        heap.wait_ready()?;
        holds(&heap, role == "after", if role == "later" { 101 } else { 100 });
        if role == "before" {
            assert!(to_second(&heap)?);
        }
        heap.close()?;
        let heap = options.clone().verify(true).open(&path)?;
        holds(&heap, role != "later", if role == "later" { 101 } else { 100 });
    }
    Ok(())
}

#[test]
fn after_a_kill_it_has_happened_or_not() -> Result<()> {
    after_kill("files::after_a_kill_it_has_happened_or_not", &small())
}

#[test]
fn also_if_it_is_long() -> Result<()> {
    after_kill("files::also_if_it_is_long", &small().pin_undo(true))
}

#[test]
fn also_with_a_write_ahead_log() -> Result<()> {
    after_kill("files::also_with_a_write_ahead_log", &small().durability(Durability::Wal))
}

#[test]
fn also_with_a_write_ahead_log_if_it_is_long() -> Result<()> {
    let options = small().durability(Durability::Wal).pin_undo(true);
    after_kill("files::also_with_a_write_ahead_log_if_it_is_long", &options)
}

#[test]
fn also_with_flushes_and_fences() -> Result<()> {
    after_kill("files::also_with_flushes_and_fences", &small().durability(Durability::Pmem))
}

/// Long transactions with a write-ahead log, while the entries of other roots in the span table lie in the
/// same line.
#[test]
fn many_roots_at_a_time_with_a_write_ahead_log() -> Result<()> {
    const ROOTS: u64 = 24;
    let dir = tempdir();
    let path = dir.path().join("x");
    let options = small().durability(Durability::Wal).pin_undo(true);
    let heap = options.open(&path)?;
    let name = |i: u64| format!("root {i}");
    for i in 0..ROOTS {
        heap.root::<u64>(&name(i))?.txn(|tx, p| Ok(tx[p] = i))?;
    }
    std::thread::scope(|scope| {
        // These take spans, whose entries they record themselves.
        for i in 0..2 {
            let list: Root<Filler> = heap.root(&format!("other {i}")).unwrap();
            scope.spawn(move || {
                for size in 1..40 {
                    list.txn(|tx, list| {
                        let more = tx.alloc_slice(size * 300, |i| i as u64)?;
                        let next = tx.alloc(Filler { more: Some(more), next: tx[list].next })?;
                        Ok(tx[list].next = Some(next))
                    })
                    .unwrap();
                }
            });
        }
        scope.spawn(|| {
            for i in 0..ROOTS {
                let migrated = heap.migrate::<u64, [u64; 2]>(&name(i), |tx, old| Ok([tx[old], i]));
                assert!(migrated.unwrap());
            }
        });
    });
    // As a kill leaves it.
    let copy = dir.path().join("y");
    copy_as_killed(&path, &copy);
    fs::copy(dir.path().join("x.wal"), dir.path().join("y.wal")).unwrap();
    heap.close()?;
    fs::remove_file(&path).unwrap();
    fs::rename(dir.path().join("y.wal"), dir.path().join("x.wal")).unwrap();
    fs::rename(&copy, &path).unwrap();
    let heap = options.open(&path)?;
    for i in 0..ROOTS {
        assert_eq!(heap.existing_root::<[u64; 2]>(&name(i))?.read(|view, p| view[p])?, [i, i]);
    }
    let report = heap.check()?;
    assert!(report.is_clean(), "{report}");
    Ok(())
}

#[test]
fn elsewhere() -> Result<()> {
    const PLACES: [u64; 2] = [(83 << 40) + (1 << 36), (83 << 40) + (1 << 37)];
    let dir = tempdir();
    let path = dir.path().join("x");
    let heap = small().base(PLACES[0]).open(&path)?;
    make(&heap, 100)?;
    heap.close()?;
    let heap = small().base(PLACES[1]).open(&path)?;
    assert!(to_second(&heap)?);
    heap.close()?;
    for place in PLACES {
        let heap = small().base(place).open(&path)?;
        assert_eq!(heap.info().base, place);
        holds(&heap, true, 100);
        heap.close()?;
    }
    let heap = small().base(PLACES[0]).open(&path)?;
    let list = open_third(&heap)?;
    list.read(|view, list| assert_eq!(view[view[list].values], counted(100)))
}

#[test]
fn in_a_copy() -> Result<()> {
    for durability in [Durability::Process, Durability::Wal] {
        let dir = tempdir();
        let heap = small().durability(durability).open(dir.path().join("x"))?;
        make(&heap, 100)?;
        heap.backup(dir.path().join("old"))?;
        assert!(to_second(&heap)?);
        heap.backup(dir.path().join("new"))?;
        for second in [false, true] {
            let copy = dir.path().join(if second { "new" } else { "old" });
            let copy = small().verify(true).open(&copy)?;
            holds(&copy, second, 100);
        }
        holds(&heap, true, 100);
    }
    Ok(())
}

#[test]
fn read_only() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let heap = small().open(&path)?;
    make(&heap, 10)?;
    heap.close()?;
    let before = fs::read(&path).unwrap();
    let heap = small().read_only(true).open(&path)?;
    assert!(matches!(to_second(&heap), Err(Error::ReadOnly)));
    assert_eq!(contents(&heap), counted(10));
    heap.close()?;
    assert!(fs::read(&path).unwrap() == before);
    let heap = small().open(&path)?;
    assert!(to_second(&heap)?);
    heap.close()?;
    // There is nothing to do, so programs that only read need not know.
    let heap = small().read_only(true).open(&path)?;
    open_second(&heap)?;
    assert_eq!(contents(&heap), counted(10));
    Ok(())
}

#[test]
fn closed() -> Result<()> {
    let heap = small().in_memory()?;
    make(&heap, 10)?;
    heap.clone().close()?;
    assert!(matches!(to_second(&heap), Err(Error::Closed)));
    Ok(())
}

#[test]
fn forked() -> Result<()> {
    if role().is_none() {
        // In a process in which no other test runs.
        let dir = tempdir();
        run_well("files::forked", "alone", dir.path());
        return Ok(());
    }
    let heap = small().in_memory()?;
    make(&heap, 10)?;
    // SAFETY: the child makes one call, which takes no lock that another thread may hold here. It ends
    // without running any other code.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let refused = matches!(to_second(&heap), Err(Error::Forked));
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(if refused { 42 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: waits for the child from above.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 42);
    assert!(to_second(&heap)?);
    Ok(())
}
