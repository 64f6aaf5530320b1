//! The writes of a transaction whose undo log cannot grow for lack of space. The transaction will be rolled
//! back.
//!
//! `Index` and `IndexMut` cannot return an error, so the transaction continues with copies in DRAM. An access
//! that overlaps copies, and lies within none of them, merges them into a new copy of all their bytes and its
//! own. Buffers are kept until the rollback, because references into them may be alive.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;

use crate::units::PAGE;

/// A byte that may be padding, and so may be indefinite.
pub(crate) type Byte = MaybeUninit<u8>;

/// Copies of ranges that were written, or that were read and overlap written ranges, by address. The copies
/// do not overlap.
#[derive(Default)]
pub(crate) struct DoomedCopies {
    copies: BTreeMap<usize, DoomedCopy>,
    /// The memory of the copies. These are vectors and not boxes: moving a box would invalidate the pointers
    /// that were made from it.
    buffers: Vec<Vec<Byte>>,
}

struct DoomedCopy {
    len: usize,
    /// Index of the copy's buffer in `buffers`, and the offset of the copy in the buffer.
    buffer: usize,
    at: usize,
    data: *mut u8,
}

impl DoomedCopies {
    /// Returns where to read `len` bytes at `addr`: at `addr` if no copy overlaps these bytes or `len` is 0,
    /// or else in a copy, which is made as by [`copy`](Self::copy).
    pub(crate) fn readable(
        &mut self,
        addr: usize,
        len: usize,
        original: impl FnOnce(usize, &mut [Byte]),
    ) -> *const u8 {
        if len == 0 || self.overlapping(addr, len).is_empty() {
            return std::ptr::with_exposed_provenance(addr);
        }
        self.copy(addr, len, original)
    }

    fn overlapping(&self, addr: usize, len: usize) -> Vec<usize> {
        let mut found: Vec<usize> = self.copies.range(addr..addr + len).map(|(&start, _)| start).collect();
        if let Some((&start, copy)) = self.copies.range(..addr).next_back()
            && start + copy.len > addr
        {
            found.push(start);
        }
        found
    }

    /// Returns a copy of `len` bytes at `addr`, to read or write. `original` fills a buffer with the heap's
    /// bytes at an address, before older copies are merged into the buffer.
    pub(crate) fn copy(
        &mut self,
        addr: usize,
        len: usize,
        original: impl FnOnce(usize, &mut [Byte]),
    ) -> *mut u8 {
        let starts = self.overlapping(addr, len);
        if let [start] = starts[..] {
            let copy = &self.copies[&start];
            if start <= addr && addr + len <= start + copy.len {
                return copy.data.wrapping_add(addr - start);
            }
        }
        let ends = starts.iter().map(|start| start + self.copies[start].len);
        let end = ends.chain([addr + len]).max().expect("not empty");
        let start = starts.iter().copied().chain([addr]).min().expect("not empty");
        // The copy is aligned like the original: up to a cache line, and up to a page if the copy is longer
        // than a line, because a value with a larger alignment may be in it.
        let unit = if end - start > 64 { PAGE as usize } else { 64 };
        let shift = start % unit;
        let mut buffer = vec![Byte::uninit(); unit + shift + end - start];
        let at = buffer.as_ptr().align_offset(unit) + shift;
        let data = &mut buffer[at..];
        // Gaps between the merged copies are within the requested range.
        original(start, &mut data[..end - start]);
        for old in &starts {
            let copy = self.copies.remove(old).expect("it overlaps");
            let bytes = &self.buffers[copy.buffer][copy.at..][..copy.len];
            data[old - start..][..copy.len].copy_from_slice(bytes);
        }
        let data = data.as_mut_ptr().cast::<u8>();
        self.copies.insert(start, DoomedCopy { len: end - start, buffer: self.buffers.len(), at, data });
        self.buffers.push(buffer);
        data.wrapping_add(addr - start)
    }

    pub(crate) fn clear(&mut self) {
        self.copies.clear();
        self.buffers.clear();
    }
}
