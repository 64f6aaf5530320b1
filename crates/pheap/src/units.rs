//! Units of memory: words, cache lines and pages.

/// Bytes of a cache line: the unit of flushing.
pub(crate) const LINE: usize = 64;
/// Number of 8-byte words in a cache line. The length of a log entry is a whole number of lines.
pub(crate) const LINE_WORDS: usize = LINE / 8;

/// Bytes of a page: the unit of allocation in the heap's file, and of memory protection.
pub(crate) const PAGE: u64 = 4096;
/// Upper bound of the size of an object in bytes; every object is smaller.
pub(crate) const OBJECT_BYTES: usize = 1 << 48;
/// Bytes of the header at the start of a heap's file. No log entry contains words of the header.
pub(crate) const HEADER_SIZE: u64 = 2 * PAGE;

/// Returns the addresses of the cache lines that contain the `len` bytes at `addr`.
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
        assert_eq!(all(512 + 8, 8), [512]); // the line's address is a multiple of 64, not of 1024
    }
}
