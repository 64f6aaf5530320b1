//! Units of memory: words, cache lines and pages.

/// Bytes of a cache line: the unit of flushing.
pub(crate) const LINE: usize = 64;
/// 8-byte words of a cache line. A log entry is a whole number of lines.
pub(crate) const LINE_WORDS: usize = LINE / 8;

/// Bytes of a page: the unit of allocation in the file, and of protection.
pub(crate) const PAGE: u64 = 4096;
/// Upper bound of the size of an object; every object is smaller.
pub(crate) const OBJECT_BYTES: usize = 1 << 48;
/// Bytes of the header at the start of the file of a heap. No log entry covers it.
pub(crate) const HEADER_SIZE: u64 = 2 * PAGE;

/// Returns the addresses of the lines that contain `len` bytes at `addr`.
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
