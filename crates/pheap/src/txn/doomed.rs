//! Writes of a transaction that cannot be logged, for want of space, and that will be rolled back.
//!
//! `Index` cannot fail, so the transaction goes on, on copies in memory. A copy covers all that was ever written in one piece;
//! accesses that overlap several copies merge them. Buffers are kept until the end, for references into them may be alive.

#![allow(unsafe_code)]

use std::collections::BTreeMap;

use crate::units::PAGE;

/// Copies of what was written, by address.
#[derive(Default)]
pub(crate) struct Doomed {
    copies: BTreeMap<usize, Copy>,
    buffers: Vec<Box<[u128]>>,
}

struct Copy {
    len: usize,
    data: *mut u8,
}

impl Doomed {
    /// Where `len` bytes at `addr` are to be read.
    ///
    /// # Safety
    /// They are mapped.
    pub(crate) unsafe fn readable(&mut self, addr: usize, len: usize) -> *const u8 {
        if len == 0 || self.overlapping(addr, len).is_empty() {
            return std::ptr::with_exposed_provenance(addr);
        }
        // SAFETY: passed on to the caller.
        unsafe { self.copy(addr, len) }
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

    /// A copy of `len` bytes at `addr`, to read or write.
    ///
    /// # Safety
    /// They are mapped.
    pub(crate) unsafe fn copy(&mut self, addr: usize, len: usize) -> *mut u8 {
        let starts = self.overlapping(addr, len);
        if let [start] = starts[..] {
            let copy = &self.copies[&start];
            if start <= addr && addr + len <= start + copy.len {
                // SAFETY: inside the copy.
                return unsafe { copy.data.add(addr - start) };
            }
        }
        let ends = starts.iter().map(|start| start + self.copies[start].len);
        let end = ends.chain([addr + len]).max().expect("not empty");
        let start = starts.iter().copied().chain([addr]).min().expect("not empty");
        // As aligned as the original, up to a cache line; or a page, if a value that is aligned better may be in it.
        let unit = if end - start > 64 { PAGE as usize } else { 64 };
        let shift = start % unit;
        let mut buffer = vec![0u128; (shift + end - start).div_ceil(16) + unit / 16].into_boxed_slice();
        let at = buffer.as_mut_ptr().cast::<u8>();
        // SAFETY: the buffer has a unit to spare for its alignment; the originals are mapped, and between the copies that are
        // merged there is nothing but the range asked for.
        let data = unsafe {
            let data = at.add(at.align_offset(unit) + shift);
            std::ptr::copy_nonoverlapping(std::ptr::with_exposed_provenance(start), data, end - start);
            for old in &starts {
                let copy = &self.copies[old];
                std::ptr::copy_nonoverlapping(copy.data, data.add(old - start), copy.len);
            }
            data
        };
        self.buffers.push(buffer);
        starts.iter().for_each(|old| {
            self.copies.remove(old);
        });
        self.copies.insert(start, Copy { len: end - start, data });
        // SAFETY: inside the new copy.
        unsafe { data.add(addr - start) }
    }

    pub(crate) fn clear(&mut self) {
        self.copies.clear();
        self.buffers.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_like_memory(writes in prop::collection::vec((0usize..500, 1usize..60, any::<u8>(), any::<bool>()), 1..40)) {
            let original: Vec<u8> = (0..600).map(|i| i as u8).collect();
            let base = original.as_ptr().expose_provenance();
            let mut model = original.clone();
            let mut doomed = Doomed::default();
            for (at, len, byte, write) in writes {
                // SAFETY: within `original`.
                unsafe {
                    if write {
                        doomed.copy(base + at, len).write_bytes(byte, len);
                        model[at..at + len].fill(byte);
                    }
                    let seen = std::slice::from_raw_parts(doomed.readable(base + at, len), len);
                    prop_assert_eq!(seen, &model[at..at + len]);
                }
            }
            prop_assert!(original.iter().enumerate().all(|(i, &b)| b == i as u8));
        }
    }
}
