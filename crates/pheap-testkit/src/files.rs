//! The bytes of a heap file, and copies as a kill would leave them.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// Returns a word of a file.
///
/// # Panics
/// If the file ends before it.
pub fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// Changes a word of a file.
///
/// # Panics
/// If the file ends before it.
pub fn set_word(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Returns the offset of the header slot with the higher sequence number.
pub fn newest_slot(bytes: &[u8]) -> usize {
    if word(bytes, 16) > word(bytes, PAGE + 16) { 0 } else { PAGE }
}

/// Returns the address that the header asks the heap to be mapped at.
pub fn base_of(bytes: &[u8]) -> u64 {
    word(bytes, newest_slot(bytes) + 80)
}

/// Changes a word of a header slot, and its checksum.
pub fn patch_header(bytes: &mut [u8], slot: usize, number: usize, value: u64) {
    set_word(bytes, slot + number * 8, value);
    seal(&mut bytes[slot..]);
}

fn sum(slot: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(&slot[..63 * 8])
}

fn seal(slot: &mut [u8]) {
    let sum = sum(slot);
    set_word(slot, 63 * 8, sum);
}

/// Returns all offsets of `needle`, which must not be empty, in `bytes`.
pub fn find(bytes: &[u8], needle: &[u8]) -> Vec<usize> {
    bytes.windows(needle.len()).enumerate().filter(|(_, w)| *w == needle).map(|(i, _)| i).collect()
}

/// Returns the Rust files below a folder, in order: their paths within it, and their text.
///
/// # Panics
/// If the folder, or a file in it, cannot be read.
pub fn sources(folder: impl AsRef<Path>) -> Vec<(String, String)> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.as_ref().to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(&folder).expect("it is below").display().to_string();
                found.push((name, fs::read_to_string(&path).expect("a file")));
            }
        }
    }
    // Compared as paths: a folder comes before the file with the same name.
    found.sort_by(|(one, _), (other, _)| Path::new(one).cmp(Path::new(other)));
    found
}

/// Returns the path with a suffix added to its name.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Returns the path of the log of a heap.
pub fn log_of(path: &Path) -> PathBuf {
    with_suffix(path, ".wal")
}

/// Copies a file of a heap, or its log, as a kill would leave it, but for [`forget_file`].
///
/// # Panics
/// If it cannot be copied.
pub fn copy_as_killed(from: &Path, to: &Path) {
    fs::write(to, as_killed(from)).expect("a copy");
}

/// Returns the content of such a copy.
///
/// # Panics
/// If the file cannot be read.
pub fn as_killed(path: &Path) -> Vec<u8> {
    let mut bytes = fs::read(path).expect("a file");
    forget_file(&mut bytes);
    bytes
}

/// Removes the identity of the file from each intact slot of the header, so that the heap opens a copy of a
/// file that was in use.
pub fn forget_file(bytes: &mut [u8]) {
    for slot in bytes.chunks_exact_mut(PAGE).take(2) {
        // A damaged slot stays damaged.
        if slot.starts_with(b"\x89PHEAP\r\n") && word(slot, 63 * 8) == sum(slot) {
            slot[21 * 8..25 * 8].fill(0);
            seal(slot);
        }
    }
}
