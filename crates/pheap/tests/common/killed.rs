//! What a kill at this moment would leave of a heap that is open here, under another name.
#![allow(dead_code)] // each test program uses a part of it

use std::fs;
use std::path::Path;

const PAGE: usize = 4096;

/// Copies a file of a heap, or its log.
pub(crate) fn copy_as_killed(from: &Path, to: &Path) {
    fs::write(to, as_killed(from)).expect("a copy");
}

/// What is in such a copy.
pub(crate) fn as_killed(path: &Path) -> Vec<u8> {
    let mut bytes = fs::read(path).expect("a file");
    forget_file(&mut bytes);
    bytes
}

/// Lets the header say of no file that the heap was in use in it, as if the file system could not be trusted to know: so this is not taken for a copy, which could be
/// torn.
pub(crate) fn forget_file(bytes: &mut [u8]) {
    let sum = |slot: &[u8]| xxhash_rust::xxh3::xxh3_64(&slot[..63 * 8]).to_le_bytes();
    for slot in bytes.chunks_exact_mut(PAGE).take(2) {
        // One that is damaged stays so.
        if slot.starts_with(b"\x89PHEAP\r\n") && slot[63 * 8..64 * 8] == sum(slot) {
            slot[21 * 8..25 * 8].fill(0);
            let sum = sum(slot);
            slot[63 * 8..64 * 8].copy_from_slice(&sum);
        }
    }
}
