//! Read-only, closed and removed: what handles say.
#![allow(clippy::unit_arg)] // `Ok(tx[p] = 1)` is a transaction in one line

use std::fs;

use pheap::{Error, Heap, Result, Root};
use pheap_testkit::sample::*;
use pheap_testkit::*;

#[test]
fn a_read_only_heap_does_not_change() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let before = sample(&path);
    let heap = small().read_only(true).open(&path)?;
    let root: Root<Record> = heap.root("record")?;
    assert!(matches!(root.txn(|_, _| Ok(())), Err(Error::ReadOnly)));
    assert!(matches!(pheap::txn((&root,), |_| Ok(())), Err(Error::ReadOnly)));
    assert!(matches!(heap.root::<u64>("new"), Err(Error::ReadOnly)));
    assert!(matches!(heap.rename_root("record", "x"), Err(Error::ReadOnly)));
    assert!(matches!(heap.remove_root("record"), Err(Error::ReadOnly)));
    assert_eq!(root.read(|view, r| view[r].number)?, 7);
    heap.close()?;
    assert!(matches!(root.read(|_, _| ()), Err(Error::Closed)));
    assert!(fs::read(&path).unwrap() == before);
    Ok(())
}

#[test]
fn invalid_names() -> Result<()> {
    let heap = small().in_memory()?;
    heap.root::<u64>("ok")?;
    for name in ["".to_owned(), "x".repeat(256), "ä".repeat(128)] {
        assert!(matches!(heap.root::<u64>(&name), Err(Error::InvalidName(n)) if n == name));
        assert!(matches!(heap.rename_root("ok", &name), Err(Error::InvalidName(_))));
        assert!(matches!(heap.existing_root::<u64>(&name), Err(Error::NoSuchRoot(_))));
    }
    assert_eq!(heap.roots().len(), 1);
    Ok(())
}

#[test]
fn a_closed_heap() -> Result<()> {
    let heap = small().in_memory()?;
    let (root, other) = (heap.root::<u64>("a")?, heap.root::<u64>("b")?);
    let same: Heap = heap.clone();
    heap.close()?;
    assert!(matches!(root.txn(|_, _| Ok(())), Err(Error::Closed)));
    assert!(matches!(root.read(|_, _| ()), Err(Error::Closed)));
    assert!(matches!(pheap::txn((&root, &other), |_| Ok(())), Err(Error::Closed)));
    assert!(matches!(same.root::<u64>("a"), Err(Error::Closed)));
    assert!(matches!(same.existing_root::<u64>("a"), Err(Error::Closed)));
    assert!(matches!(same.rename_root("a", "c"), Err(Error::Closed)));
    assert!(matches!(same.remove_root("a"), Err(Error::Closed)));
    assert_eq!(same.roots(), []);
    let _ = same.stats();
    assert!(matches!(same.close(), Err(Error::Closed)));
    Ok(())
}

#[test]
fn a_closed_heap_can_be_opened_again_beside_its_old_handles() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let heap = small().open(&path)?;
    let old: Root<u64> = heap.root("n")?;
    old.txn(|tx, n| Ok(tx[n] = 5))?;
    heap.close()?;
    let heap = small().open(&path)?;
    let new: Root<u64> = heap.root("n")?;
    assert!(matches!(old.read(|_, _| ()), Err(Error::Closed)));
    drop(old);
    assert_eq!(new.read(|view, n| view[n])?, 5);
    new.txn(|tx, n| Ok(tx[n] = 6))?;
    heap.close()
}

#[test]
fn a_removed_root() -> Result<()> {
    let heap = small().in_memory()?;
    let (root, other) = (heap.root::<u64>("a")?, heap.root::<u64>("b")?);
    heap.remove_root("a")?;
    assert!(matches!(root.txn(|_, _| Ok(())), Err(Error::Closed)));
    assert!(matches!(root.read(|_, _| ()), Err(Error::Closed)));
    assert!(matches!(pheap::txn((&other, &root), |_| Ok(())), Err(Error::Closed)));
    assert!(matches!(heap.existing_root::<u64>("a"), Err(Error::NoSuchRoot(_))));
    assert!(matches!(heap.remove_root("a"), Err(Error::NoSuchRoot(_))));
    // Its failure has not harmed the other one, nor this thread.
    other.txn(|tx, p| Ok(tx[p] = 1))?;
    heap.close()
}

#[test]
fn errors_of_the_programs_own() -> Result<()> {
    #[derive(Debug)]
    enum Mine {
        Pheap(Error),
        Other(u32),
    }
    impl From<Error> for Mine {
        fn from(error: Error) -> Mine {
            Mine::Pheap(error)
        }
    }
    let heap = small().in_memory()?;
    let root: Root<u64> = heap.root("a")?;
    let result = root.try_txn(|tx, p| {
        tx[p] = 1;
        Err::<(), _>(Mine::Other(5))
    });
    assert!(matches!(result, Err(Mine::Other(5))));
    let result = root.try_txn(|_, _| -> Result<(), Mine> { Ok(root.txn(|_, _| Ok(()))?) });
    assert!(matches!(result, Err(Mine::Pheap(Error::Nested))));
    let result: Result<()> = root.txn(|tx, p| {
        tx[p] = 2;
        Err(Error::abort(format!("reason {}", 7)))
    });
    assert_eq!(result.unwrap_err().to_string(), "transaction given up: reason 7");
    assert_eq!(root.read(|view, p| view[p])?, 0);
    Ok(())
}

/// `fn main() -> pheap::Result<()>` prints the `Debug` of an error. That is the text of the error, with its
/// line breaks, and not the fields of a variant.
#[test]
fn main_prints_the_text() -> Result<()> {
    let heap = small().in_memory()?;
    heap.root::<u64>("n")?;
    let errors = [heap.root::<i64>("n").unwrap_err(), heap.existing_root::<u64>("m").unwrap_err()];
    for error in &errors {
        assert_eq!(format!("{error:?}"), error.to_string());
        assert_eq!(format!("{error:#?}"), error.to_string());
    }
    assert!(errors[0].to_string().lines().count() > 1);
    Ok(())
}
