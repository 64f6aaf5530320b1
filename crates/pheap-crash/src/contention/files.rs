//! Threads that open files, or read them.

use std::fs::File;

use pheap::{Durability, Error, Options};
use pheap_testkit::tempdir;

use super::heaps::{List, closed_while, length, replace};
use super::{outcome, run, small};

fn in_file() -> Options {
    small().durability(Durability::Process)
}

/// Opens and closes different heaps at the same time. Then closes a heap while other threads use it.
pub(super) fn opening() -> Result<(), String> {
    let folder = tempdir();
    let open = |name: &str| {
        let heap = in_file().open(folder.path().join(name)).unwrap();
        heap.root::<u64>("n").unwrap().txn(|tx, n| Ok(tx[n] += 1)).unwrap();
        heap.close().unwrap();
    };
    run(20, &[&|_| open("a"), &|_| open("b"), &|_| open("c")], &[])?;
    for _ in 0..3 {
        closed_while(false, &in_file(), |options| options.open(folder.path().join("d")).unwrap())?;
    }
    Ok(())
}

/// Opens a heap twice in one process.
pub(super) fn opened_twice() -> Result<(), String> {
    let folder = tempdir();
    let path = folder.path().join("a");
    for read_only in [false, true] {
        let _open = in_file().read_only(read_only).open(&path).unwrap();
        match in_file().read_only(read_only).open(&path) {
            Err(Error::AlreadyOpen { .. }) => {}
            other => return Err(format!("a heap that is open here was opened again: {other:?}")),
        }
    }
    outcome()
}

/// Opens a heap whose file is locked, as by another program.
pub(super) fn locked_by_others() -> Result<(), String> {
    let folder = tempdir();
    let path = folder.path().join("a");
    in_file().open(&path).unwrap().close().unwrap();
    for read_only in [false, true] {
        let other = File::options().read(true).write(true).open(&path).unwrap();
        other.lock().unwrap();
        match in_file().read_only(read_only).open(&path) {
            Err(Error::Locked { .. }) => {}
            other => return Err(format!("a heap that others have open was opened: {other:?}")),
        }
    }
    // The file of an open heap is locked for other programs.
    let _open = in_file().open(&path).unwrap();
    let other = File::options().read(true).write(true).open(&path).unwrap();
    if other.try_lock().is_ok() || other.try_lock_shared().is_ok() {
        return Err("the file of an open heap is not locked".to_owned());
    }
    outcome()
}

/// Uses a heap that was not closed while the live objects are being found.
pub(super) fn after_a_crash() -> Result<(), String> {
    let folder = tempdir();
    let (path, copy) = (folder.path().join("a"), folder.path().join("b"));
    let heap = in_file().open(&path).unwrap();
    let list = heap.root::<List>("list").unwrap();
    replace(&list, 3000).unwrap();
    replace(&list, 3000).unwrap();
    for _ in 0..4 {
        std::fs::copy(&path, &copy).unwrap();
        let heap = in_file().restored(true).open(&copy).unwrap();
        let list = heap.existing_root::<List>("list").unwrap();
        let ready = |_| {
            heap.wait_ready().unwrap();
            assert!(heap.stats().ready);
        };
        let make = |round| {
            drop(heap.root::<u64>(&format!("{round}")).unwrap());
        };
        let replace = |_| replace(&list, 200).unwrap();
        let read = |_| assert!(length(&list).unwrap() > 0);
        run(4, &[&ready, &ready, &replace, &make], &[&read])?;
    }
    Ok(())
}

/// Makes backups of a heap while it changes.
pub(super) fn backups() -> Result<(), String> {
    let folder = tempdir();
    let heap = in_file().open(folder.path().join("a")).unwrap();
    let list = heap.root::<List>("list").unwrap();
    let backup = |name: &str| {
        let path = folder.path().join(name);
        heap.backup(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
    };
    run(
        8,
        &[&|_| backup("b"), &|_| backup("c")],
        &[&|_| replace(&list, 50).unwrap(), &|_| drop(heap.stats())],
    )
}
