//! Writes of a transaction that cannot be logged, for want of space, and that will be rolled back.
//!
//! `Index` cannot fail, so the transaction goes on, on copies in memory. A copy covers all that was ever written in one piece;
//! accesses that overlap several copies merge them. Buffers are kept until the end, for references into them may be alive.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;

use crate::units::PAGE;

/// A byte that may be padding.
pub(crate) type Byte = MaybeUninit<u8>;

/// Copies of what was written, by address.
#[derive(Default)]
pub(crate) struct Doomed {
    copies: BTreeMap<usize, Copy>,
    /// Not boxes: to move one would end what was made of it.
    buffers: Vec<Vec<Byte>>,
}

struct Copy {
    len: usize,
    /// In which buffer it is, and where.
    buffer: usize,
    at: usize,
    data: *mut u8,
}

impl Doomed {
    /// Where `len` bytes at `addr` are to be read: as [`copy`](Self::copy) says, or in their place if there is no copy of any.
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

    /// A copy of `len` bytes at `addr`, to read or write. `original` says what is at an address: where these bytes are, or others that have a copy.
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
        // As aligned as the original, up to a cache line; or a page, if a value that is aligned better may be in it.
        let unit = if end - start > 64 { PAGE as usize } else { 64 };
        let shift = start % unit;
        let mut buffer = vec![Byte::uninit(); unit + shift + end - start];
        let at = buffer.as_ptr().align_offset(unit) + shift;
        let data = &mut buffer[at..];
        // Between the copies that are merged there is nothing but the range asked for.
        original(start, &mut data[..end - start]);
        for old in &starts {
            let copy = self.copies.remove(old).expect("it overlaps");
            let bytes = &self.buffers[copy.buffer][copy.at..][..copy.len];
            data[old - start..][..copy.len].copy_from_slice(bytes);
        }
        let data = data.as_mut_ptr().cast::<u8>();
        self.copies.insert(start, Copy { len: end - start, buffer: self.buffers.len(), at, data });
        self.buffers.push(buffer);
        data.wrapping_add(addr - start)
    }

    pub(crate) fn clear(&mut self) {
        self.copies.clear();
        self.buffers.clear();
    }
}
