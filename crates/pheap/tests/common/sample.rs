//! A small heap with something in it, and what opening a changed copy of it says.

use std::fs;
use std::path::Path;

use pheap::{Error, Options, P, Persist, Root};

use super::{small, tempdir};

#[derive(Persist, Default)]
#[repr(C)]
pub(crate) struct Record<'r> {
    pub(crate) number: u64,
    pub(crate) items: Option<P<'r, [u64]>>,
}

/// A heap with something in it, closed, as bytes.
pub(crate) fn sample(path: &Path) -> Vec<u8> {
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
pub(crate) fn opening(bytes: &[u8]) -> Error {
    let dir = tempdir();
    let path = dir.path().join("x");
    for options in [small(), small().read_only(true)] {
        fs::write(&path, bytes).unwrap();
        let error = options.open(&path).expect_err("it must not open");
        assert!(fs::read(&path).unwrap() == bytes, "{error}: the file was changed");
        if matches!(error, Error::NotAHeap { .. }) || options_are_read_only(&options) {
            return error;
        }
        let same = small().read_only(true).open(&path).expect_err("nor read-only");
        assert_eq!(error.to_string(), same.to_string());
    }
    unreachable!()
}

pub(crate) fn options_are_read_only(options: &Options) -> bool {
    format!("{options:?}").contains("read_only: true")
}

pub(crate) fn altered(change: impl FnOnce(&mut Vec<u8>)) -> Error {
    let dir = tempdir();
    let mut bytes = sample(&dir.path().join("sample"));
    change(&mut bytes);
    opening(&bytes)
}
