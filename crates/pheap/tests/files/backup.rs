//! `Heap::backup`: copies of a heap that is in use.
#![allow(clippy::unit_arg)] // `Ok(tx[p] = 1)` is a transaction in one line

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use pheap::{Durability, Error, Heap, P, Persist, Result, Root};
use pheap_testkit::*;

/// An account, and a list of what happened to it.
#[derive(Persist)]
#[repr(C)]
struct Account<'r> {
    money: i64,
    transfers: u64,
    history: Option<P<'r, Transfer<'r>>>,
}

#[derive(Persist)]
#[repr(C)]
struct Transfer<'r> {
    amount: i64,
    before: Option<P<'r, Transfer<'r>>>,
}

const ALL: i64 = 1000;

fn account(heap: &Heap, name: &str, money: i64) -> Result<Root<Account<'static>>> {
    heap.root_or::<Account>(name, |_| Ok(Account { money, transfers: 0, history: None }))
}

/// Changes both accounts, or, on an error, none.
fn transfer(from: &Root<Account<'static>>, to: &Root<Account<'static>>, amount: i64) -> Result<()> {
    pheap::txn((from, to), |((ta, a), (tb, b))| {
        let entry = ta.alloc(Transfer { amount: -amount, before: ta[a].history })?;
        ta[a].history = Some(entry);
        ta[a].money -= amount;
        ta[a].transfers += 1;
        let entry = tb.alloc(Transfer { amount, before: tb[b].history })?;
        tb[b].history = Some(entry);
        tb[b].money += amount;
        tb[b].transfers += 1;
        Ok(())
    })
}

/// Asserts that the heap is clean, that no money is lost, and that each history explains the account. Returns
/// the number of transfers.
fn audit(heap: &Heap) -> Result<u64> {
    let report = heap.check()?;
    assert!(report.is_clean(), "{report}");
    let (mut sum, mut all) = (0, Vec::new());
    for (name, at_first) in [("a", ALL), ("b", 0)] {
        heap.existing_root::<Account>(name)?.read(|view, account| {
            let account = &view[account];
            let (mut money, mut count, mut next) = (at_first, 0, account.history);
            while let Some(transfer) = next {
                (money, count, next) = (money + view[transfer].amount, count + 1, view[transfer].before);
            }
            assert_eq!((money, count), (account.money, account.transfers), "{name}");
            sum += account.money;
            all.push(count);
        })?;
    }
    assert_eq!((sum, all[0]), (ALL, all[1]));
    Ok(all[0])
}

/// Opens a copy: read-only, as it is, and to go on with it.
fn audit_copy(path: &Path) -> Result<u64> {
    let heap = small().read_only(true).open(path)?;
    assert_eq!(heap.info().in_use, None, "a copy counts as closed");
    let transfers = audit(&heap)?;
    heap.close()?;
    let heap = small().verify(true).open(path)?;
    assert_eq!(audit(&heap)?, transfers);
    transfer(&heap.existing_root("a")?, &heap.existing_root("b")?, 1)?;
    assert_eq!(audit(&heap)?, transfers + 1);
    heap.close()?;
    Ok(transfers)
}

#[test]
fn copies_made_while_money_moves() -> Result<()> {
    const TEST: &str = "backup::copies_made_while_money_moves";
    if let Some((_, dir)) = role() {
        // In a separate process, in which the addresses of the original are free.
        let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        let counts: Vec<u64> = names.iter().map(|path| audit_copy(path)).collect::<Result<_>>()?;
        assert!(counts.len() == 12 && counts.is_sorted(), "{counts:?}");
        return Ok(());
    }
    let logged = small().durability(Durability::Wal).log_limit(1 << 20);
    for (i, options) in both().into_iter().chain([logged]).enumerate() {
        let dir = tempdir();
        let copies = dir.path().join("copies");
        fs::create_dir(&copies).unwrap();
        let heap = options.open(dir.path().join("x"))?;
        let (a, b) = (account(&heap, "a", ALL)?, account(&heap, "b", 0)?);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| -> Result<()> {
            for thread in 0..3 {
                let (a, b, stop) = (a.clone(), b.clone(), &stop);
                scope.spawn(move || {
                    let mut rng = Rng::from_seed(thread + 1);
                    while !stop.load(Ordering::Relaxed) {
                        let amount = rng.below(100) as i64;
                        match rng.below(2) {
                            0 => transfer(&a, &b, amount).unwrap(),
                            _ => transfer(&b, &a, amount).unwrap(),
                        }
                    }
                });
            }
            let made = (0..12).try_for_each(|n| {
                let copy = copies.join(format!("copy-{n:02}"));
                if n % 2 == 0 {
                    return heap.backup(copy);
                }
                let mut stream = Vec::new();
                heap.backup_to(&mut stream)?;
                Heap::restore(&stream[..], copy)
            });
            stop.store(true, Ordering::Relaxed);
            made
        })?;
        let transfers = audit(&heap)?;
        run_well(TEST, &format!("auditor {i}"), &copies);
        assert_eq!(audit(&heap)?, transfers, "the original goes on by itself");
    }
    Ok(())
}

/// Nothing is ever overwritten, and nothing is left behind.
#[test]
fn a_file_that_is_there_stays() -> Result<()> {
    let dir = tempdir();
    let heap = small().open(dir.path().join("x"))?;
    heap.root::<u64>("n")?;
    let files = || fs::read_dir(dir.path()).unwrap().count();
    let target = dir.path().join("precious");
    fs::write(&target, "mine").unwrap();
    std::os::unix::fs::symlink("nowhere", dir.path().join("dangling")).unwrap();
    let before = files();
    for name in ["precious", "x", "dangling"] {
        let error = heap.backup(dir.path().join(name)).unwrap_err();
        assert!(
            matches!(&error, Error::Io { source, .. } if source.kind() == ErrorKind::AlreadyExists),
            "{error}"
        );
    }
    assert_eq!(fs::read(&target).unwrap(), b"mine");
    let error = heap.backup(dir.path().join("no such folder/y")).unwrap_err();
    assert!(matches!(&error, Error::Io { source, .. } if source.kind() == ErrorKind::NotFound), "{error}");
    assert!(heap.backup("/").is_err() && heap.backup(dir.path().join("..")).is_err());
    assert_eq!(files(), before);
    heap.backup(dir.path().join("y"))?;
    assert_eq!(files(), before + 1);
    Ok(())
}

/// A program that was killed while it made a copy has left a part of the copy. In a container, the next
/// process may have the same number.
#[test]
fn what_killed_programs_have_left_is_in_nobodys_way() -> Result<()> {
    let dir = tempdir();
    let left = |name: String| {
        let path = dir.path().join(name);
        fs::write(&path, "left by a program that was killed").unwrap();
        path
    };
    let own = std::process::id();
    let older: Vec<_> = (0..4).map(|i| left(format!(".b.{own}-{i}.partial"))).collect();
    let stale = left(".b.00c0ffee00c0ffee.partial".to_owned());
    let others =
        ["b.00c0ffee00c0ffee.partial", ".b.c0ffee.partial", ".bb.00c0ffee00c0ffee.partial", ".b.partial"];
    let others = others.map(|name| left(name.to_owned()));
    // Locked, as by a program that writes it.
    let living = left(".b.0123456789abcdef.partial".to_owned());
    let works = fs::File::open(&living).unwrap();
    works.try_lock().unwrap();
    let fifo = dir.path().join(".b.0000000000000001.partial");
    let name = std::ffi::CString::new(fifo.to_str().unwrap()).unwrap();
    // SAFETY: a call with a string.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);

    let heap = Heap::in_memory()?;
    heap.root::<u64>("n")?;
    heap.backup(dir.path().join("b"))?;
    assert!(!stale.exists() && living.exists() && fifo.exists());
    assert!(others.iter().chain(&older).all(|path| path.exists()));
    drop(works);
    let _ = fs::remove_file(dir.path().join("b"));
    heap.backup(dir.path().join("b"))?;
    assert!(!living.exists());
    Ok(())
}

/// Copies to one place: one of them gets there, none takes another one's file.
#[test]
fn copies_at_a_time() -> Result<()> {
    let dir = tempdir();
    let heap = small().in_memory()?;
    account(&heap, "a", ALL)?;
    account(&heap, "b", 0)?;
    for round in 0..20 {
        let target = dir.path().join(format!("{round}"));
        let made = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| heap.backup(&target))).collect();
            let results = threads.into_iter().map(|thread| thread.join().unwrap());
            results
                .filter_map(|result| match result {
                    Ok(()) => Some(()),
                    Err(Error::Io { source, .. }) if source.kind() == ErrorKind::AlreadyExists => None,
                    Err(error) => panic!("{error}"),
                })
                .count()
        });
        assert_eq!(made, 1);
        audit(&small().open(&target)?)?;
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 20);
    Ok(())
}

#[test]
fn heaps_of_all_kinds_are_copied() -> Result<()> {
    let dir = tempdir();
    let fill = |heap: &Heap| -> Result<()> {
        let (a, b) = (account(heap, "a", ALL)?, account(heap, "b", 0)?);
        (0..100).try_for_each(|i| transfer(&a, &b, i))?;
        // In several arenas, with free pages between.
        let big = heap.root::<Option<P<[u64]>>>("big")?;
        big.txn(|tx, big| Ok(tx[big] = Some(tx.alloc_slice(200_000, |i| i as u64)?)))?;
        heap.root::<Option<P<[u64]>>>("gone")?
            .txn(|tx, p| Ok(tx[p] = Some(tx.alloc_slice(100_000, |_| 7)?)))?;
        heap.remove_root("gone")
    };
    let memory = small().in_memory()?;
    fill(&memory)?;
    memory.backup(dir.path().join("of memory"))?;
    memory.close()?;
    let file = dir.path().join("file");
    let heap = small().open(&file)?;
    fill(&heap)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    heap.backup(dir.path().join("of a file"))?;
    heap.close()?;
    let reader = small().read_only(true).open(&file)?;
    reader.backup(dir.path().join("of a reader"))?;
    reader.close()?;
    for name in ["of memory", "of a file", "of a reader"] {
        let path = dir.path().join(name);
        let metadata = fs::metadata(&path).unwrap();
        if name == "of a file" {
            assert_eq!(metadata.permissions().mode() & 0o777, 0o640);
        }
        let heap = small().read_only(true).open(&path)?;
        assert_eq!(heap.info().file_bytes, metadata.len(), "{name}");
        heap.existing_root::<Option<P<[u64]>>>("big")?.read(|view, big| {
            assert!(view[view[big].unwrap()].iter().enumerate().all(|(i, n)| i as u64 == *n), "{name}");
        })?;
        heap.close()?;
        assert_eq!(audit_copy(&path)?, 100, "{name}");
        // Opening it for writing has reserved the space of the pages that were not copied, where that is
        // possible.
        let blocks = fs::metadata(&path).unwrap().blocks();
        assert!(blocks == metadata.blocks() || blocks * 512 >= metadata.len(), "{name}");
    }
    Ok(())
}

/// The copy has the content of the original's logs in place. A heap with a log must not apply that content
/// again later, over newer values.
#[test]
fn a_copy_with_a_log_keeps_what_is_newer_than_itself() -> Result<()> {
    let dir = tempdir();
    let name = |i: usize| dir.path().join(format!("copy {i}"));
    let originals = [small().in_memory()?, small().open(dir.path().join("x"))?];
    for (i, heap) in originals.into_iter().enumerate() {
        heap.root::<u64>("n")?.txn(|tx, n| Ok(tx[n] = 7))?;
        heap.backup(name(i))?;
        heap.close()?; // so the copy need not move
        for before in 7..10 {
            let heap = small().durability(Durability::Wal).open(name(i))?;
            heap.existing_root::<u64>("n")?.txn(|tx, n| {
                assert_eq!(tx[n], before, "{i}");
                Ok(tx[n] += 1)
            })?;
            heap.close()?;
        }
        let heap = small().read_only(true).open(name(i))?;
        assert_eq!(heap.existing_root::<u64>("n")?.read(|view, n| view[n])?, 10);
    }
    Ok(())
}

/// What a killed program has left in its logs is in the copy.
#[test]
fn a_crashed_heap_is_copied_as_it_was_recovered() -> Result<()> {
    const TEST: &str = "backup::a_crashed_heap_is_copied_as_it_was_recovered";
    if let Some((role, path)) = role() {
        let heap = small().pin_undo(role == "long").open(&path)?;
        let (a, b) = (account(&heap, "a", ALL)?, account(&heap, "b", 0)?);
        (0..10).try_for_each(|i| transfer(&a, &b, i))?;
        let _ = a.txn(|tx, a| -> Result<()> {
            tx[a].money = 0;
            die()
        });
    }
    let dir = tempdir();
    for role in ["short", "long"] {
        let (path, copy) = (dir.path().join(role), dir.path().join(format!("{role}-copy")));
        run_killed(TEST, role, &path);
        let heap = small().read_only(true).open(&path)?;
        heap.backup(&copy)?;
        heap.close()?;
        assert_eq!(audit_copy(&copy)?, 10);
        assert_eq!(audit(&small().open(&path)?)?, 10);
    }
    Ok(())
}

#[test]
fn a_backup_does_not_wait_for_itself() -> Result<()> {
    let dir = tempdir();
    let heap = small().open(dir.path().join("x"))?;
    let root = heap.root::<u64>("n")?;
    let target = dir.path().join("y");
    assert!(matches!(root.txn(|_, _| heap.backup(&target)), Err(Error::Nested)));
    assert!(matches!(root.read(|_, _| heap.backup(&target))?, Err(Error::Nested)));
    let again = heap.clone();
    drop(root);
    heap.close()?;
    assert!(matches!(again.backup(&target), Err(Error::Closed)));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    Ok(())
}
