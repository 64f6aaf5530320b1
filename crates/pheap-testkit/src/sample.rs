//! A small heap with something in it, and what opening a changed copy of it says.

use std::fs;
use std::path::Path;

use pheap::{Error, Options, P, Persist, Root};

use super::{small, tempdir};

/// The root of [`sample`].
#[derive(Persist, Default)]
#[repr(C)]
pub struct Record<'r> {
    /// 7.
    pub number: u64,
    /// A hundred numbers.
    pub items: Option<P<'r, [u64]>>,
}

/// A heap with something in it, closed, as bytes.
///
/// # Panics
/// If there is no place for it.
pub fn sample(path: &Path) -> Vec<u8> {
    let heap = small().open(path).unwrap();
    let root: Root<Record> = heap.root("record").unwrap();
    root.txn(|tx, r| {
        tx[r].number = 7;
        let items = tx.alloc_slice(100, |i| i as u64)?;
        tx[r].items = Some(items);
        Ok(())
    })
    .unwrap();
    heap.close().unwrap();
    fs::read(path).unwrap()
}

/// What opening a file with these bytes says. The file must be the same afterwards.
///
/// # Panics
/// If it opens, or is changed.
pub fn opening(bytes: &[u8]) -> Error {
    let dir = tempdir();
    let path = dir.path().join("x");
    let refused = |options: Options| {
        fs::write(&path, bytes).unwrap();
        let error = options.open(&path).expect_err("it must not open");
        assert!(fs::read(&path).unwrap() == bytes, "{error}: the file was changed");
        error
    };
    let error = refused(small());
    if !matches!(error, Error::NotAHeap { .. }) {
        assert_eq!(error.to_string(), refused(small().read_only(true)).to_string());
    }
    error
}

/// What opening a changed [`sample`] says.
///
/// # Panics
/// As [`opening`].
pub fn altered(change: impl FnOnce(&mut Vec<u8>)) -> Error {
    let dir = tempdir();
    let mut bytes = sample(&dir.path().join("sample"));
    change(&mut bytes);
    opening(&bytes)
}
