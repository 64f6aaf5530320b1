//! The bytes of a heap file, and what a kill at this moment would leave of a heap that is open here.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// A word of a file.
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

/// Offset of the header slot with the higher sequence number.
pub fn newest_slot(bytes: &[u8]) -> usize {
    if word(bytes, 16) > word(bytes, PAGE + 16) { 0 } else { PAGE }
}

/// Where the heap is to be mapped.
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

/// All places where `needle` is in `bytes`.
pub fn find(bytes: &[u8], needle: &[u8]) -> Vec<usize> {
    bytes.windows(needle.len()).enumerate().filter(|(_, w)| *w == needle).map(|(i, _)| i).collect()
}

/// The Rust files below a folder, in order: their paths within it, and what they say.
///
/// # Panics
/// If there is no such folder.
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
    // As paths: a folder comes before the file of the same name.
    found.sort_by(|(one, _), (other, _)| Path::new(one).cmp(Path::new(other)));
    found
}

/// A path with something behind its name.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Where the log of a heap is.
pub fn log_of(path: &Path) -> PathBuf {
    with_suffix(path, ".wal")
}

/// Copies a file of a heap, or its log, as a kill would leave it.
///
/// # Panics
/// If it cannot be copied.
pub fn copy_as_killed(from: &Path, to: &Path) {
    fs::write(to, as_killed(from)).expect("a copy");
}

/// What is in such a copy.
///
/// # Panics
/// If there is no such file.
pub fn as_killed(path: &Path) -> Vec<u8> {
    let mut bytes = fs::read(path).expect("a file");
    forget_file(&mut bytes);
    bytes
}

/// Lets the header say of no file that the heap was in use in it, as if the file system could not be trusted to know: so this is not taken for a copy, which could be
/// torn.
pub fn forget_file(bytes: &mut [u8]) {
    for slot in bytes.chunks_exact_mut(PAGE).take(2) {
        // One that is damaged stays so.
        if slot.starts_with(b"\x89PHEAP\r\n") && word(slot, 63 * 8) == sum(slot) {
            slot[21 * 8..25 * 8].fill(0);
            seal(slot);
        }
    }
}
