//! Words, cache lines and pages: what memory is counted in.

#![allow(unsafe_code)]
#![deny(clippy::multiple_unsafe_ops_per_block)]

use std::mem::MaybeUninit;

/// Bytes of a cache line: the unit of flushing.
pub(crate) const LINE: usize = 64;
/// 8-byte words of a cache line. A log entry is a whole number of lines.
pub(crate) const LINE_WORDS: usize = LINE / 8;

/// Unit of allocation in the file, and of protection.
pub(crate) const PAGE: u64 = 4096;
/// Bytes of the header, with which the file of a heap begins: no log has anything to say about it.
pub(crate) const HEADER_SIZE: u64 = 2 * PAGE;

/// Copies words that may hold padding. A few of them without a call, for most objects are small.
///
/// # Safety
/// `src` is valid for reads and `dst` for writes of `len` words; both are aligned, and they do not overlap.
#[inline(always)]
pub(crate) unsafe fn copy_words(dst: *mut u64, src: *const u64, len: usize) {
    let (dst, src) = (dst.cast::<MaybeUninit<u64>>(), src.cast::<MaybeUninit<u64>>());
    if len > 16 {
        // SAFETY: both are valid for `len` words, aligned, and apart: the caller's premises, all of them.
        unsafe { dst.copy_from_nonoverlapping(src, len) };
        return;
    }
    for i in 0..len {
        // SAFETY: `src` is valid for reads of `len` words, and aligned; `i < len`.
        let word = unsafe { src.wrapping_add(i).read() };
        // Volatile, or the compiler would make it a call of `memcpy` again.
        // SAFETY: `dst` is valid for writes of `len` words, and aligned; `i < len`.
        unsafe { dst.wrapping_add(i).write_volatile(word) };
    }
}

/// Words as bytes.
pub(crate) fn bytes(words: &[u64]) -> &[u8] {
    // SAFETY: so many bytes, of which any are valid, borrowed as the words are.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

/// [`bytes`], to be written.
pub(crate) fn bytes_mut(words: &mut [u64]) -> &mut [u8] {
    // SAFETY: so many bytes, borrowed as the words are; any bytes are words.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words)) }
}

/// Addresses of the lines that hold `len` bytes at `addr`.
#[inline(always)]
pub(crate) fn lines(addr: usize, len: usize) -> impl Iterator<Item = usize> {
    let first = addr / LINE;
    let end = if len == 0 { first } else { (addr + len - 1) / LINE + 1 };
    (first..end).map(|line| line * LINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_cover_each_byte_once() {
        let all = |addr, len| lines(addr, len).collect::<Vec<_>>();
        assert_eq!(all(0, 0), []);
        assert_eq!(all(63, 1), [0]);
        assert_eq!(all(63, 2), [0, 64]);
        assert_eq!(all(64, 64), [64]);
        assert_eq!(all(65, 64), [64, 128]);
        assert_eq!(all(512 + 8, 8), [512]); // not rounded down to a larger unit
    }
}
