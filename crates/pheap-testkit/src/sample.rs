//! A small heap with content, and the errors of opening changed copies of it.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use pheap::{Error, Options, P, Persist, Root};
use xxhash_rust::xxh3::xxh3_64;

use super::{PAGE, newest_slot, patch_header, set_word, small, tempdir, word};

/// The root of [`sample`].
#[derive(Persist, Default)]
#[repr(C)]
pub struct Record<'r> {
    /// The number 7 in a sample; 0 by default.
    pub number: u64,
    /// The numbers 0 to 99 in a sample.
    pub items: Option<P<'r, [u64]>>,
}

/// Makes a heap with content, and closes it. Returns its bytes.
///
/// # Panics
/// If the heap cannot be made.
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

/// Makes a file that looks like a valid heap of enormous size: its second arena has 4 TiB, nearly all of them
/// holes, and an extent of the type table takes all that the arena's span table leaves. Its root `n` is 7.
///
/// # Panics
/// If the file cannot be made.
pub fn enormous(path: &Path) {
    const SIZE: u64 = 4 << 40;
    let heap = small().open(path).unwrap();
    heap.root_or::<u64>("n", |_| Ok(7)).unwrap();
    heap.close().unwrap();
    let mut bytes = fs::read(path).unwrap();
    let (start, newest) = (bytes.len() as u64, newest_slot(&bytes));
    for slot in [0, PAGE] {
        for (number, value) in [(6, start + SIZE), (7, 2 * SIZE), (10, 5 * (2 * SIZE)), (18, 0), (19, 0)] {
            patch_header(&mut bytes, slot, number, value);
        }
    }
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let page = PAGE as u64;
    let mut head = [u64::from_le_bytes(*b"\x89PARENA\n"), start, SIZE, 256, 0, 0, 0, 0, start + SIZE];
    head[7] = xxh3_64(&words(&[&head[..8], &[word(&bytes, newest + 8 * 8)]].concat()));
    head[8] |= xxh3_64(&head[8].to_le_bytes()) >> 48 << 48;
    let first_free = start + page + SIZE / page * 16;
    let pages = (start + SIZE - first_free) / page;
    let entry = 3 | pages << 32;
    let types = word(&bytes, newest + 17 * 8) as usize;
    set_word(&mut bytes, types, first_free);
    fs::write(path, &bytes).unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_len(start + SIZE).unwrap();
    file.write_all_at(&words(&head), start).unwrap();
    file.write_all_at(&words(&[entry | (entry % 255 + 1) << 24]), start + page).unwrap();
}

/// Opens a file with these bytes. Returns the error. Unless the file is not a heap, opening it to read only
/// must fail with the same message. The file must not change.
///
/// # Panics
/// If the file opens or changes, or the two messages differ.
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

/// Opens a changed [`sample`]. Returns the error.
///
/// # Panics
/// As [`sample`] and [`opening`].
pub fn altered(change: impl FnOnce(&mut Vec<u8>)) -> Error {
    let dir = tempdir();
    let mut bytes = sample(&dir.path().join("sample"));
    change(&mut bytes);
    opening(&bytes)
}
