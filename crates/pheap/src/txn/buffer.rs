//! Memory for the copies of a write set: pieces that stay where they are, for references into them live as long as the transaction.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{NonNull, null_mut};

use crate::units::LINE;

/// Bytes of the first piece. The second is as large, each one after that twice as large as the one before, so that they double what there is.
const FIRST: usize = 16 << 10;
/// Pieces at most.
const PIECES: usize = 7;
/// Bytes of all pieces.
pub(super) const CAPACITY: usize = FIRST << (PIECES - 1);

/// A bump allocator.
pub(super) struct Buffer {
    pieces: Vec<NonNull<u8>>,
    /// How many of them are in use.
    used: usize,
    /// The free part of the last one in use: where it begins, and the address of its end.
    next: *mut u8,
    end: usize,
}

const fn layout(index: usize) -> Layout {
    let bytes = if index == 0 { FIRST } else { FIRST << (index - 1) };
    match Layout::from_size_align(bytes, LINE) {
        Ok(layout) => layout,
        Err(_) => panic!(),
    }
}

impl Buffer {
    /// A buffer without memory.
    pub(super) const fn new() -> Buffer {
        Buffer { pieces: Vec::new(), used: 0, next: null_mut(), end: 0 }
    }

    /// Memory for a copy. `None` if there is none left.
    ///
    /// `align` is a power of two up to that of a line; `bytes` is less than the first piece has.
    #[inline(always)]
    pub(super) fn take(&mut self, bytes: usize, align: usize) -> Option<*mut u8> {
        let align_mask = align - 1; // a power of two: no division
        let mut at = self.next.map_addr(|next| (next + align_mask) & !align_mask);
        if at.addr() + bytes > self.end {
            at = self.next_piece()?;
        }
        self.next = at.wrapping_add(bytes);
        Some(at)
    }

    /// The beginning of a piece that was not in use.
    #[cold]
    fn next_piece(&mut self) -> Option<*mut u8> {
        let index = self.used;
        if index == PIECES {
            return None;
        }
        let layout = layout(index);
        if index == self.pieces.len() {
            // SAFETY: the layout has a size.
            let piece = unsafe { alloc(layout) };
            // So that `settle` is about the copies, too.
            piece.expose_provenance();
            self.pieces.push(NonNull::new(piece).unwrap_or_else(|| handle_alloc_error(layout)));
        }
        self.used += 1;
        let piece = self.pieces[index].as_ptr();
        self.end = piece.addr() + layout.size();
        Some(piece)
    }

    /// Whether more than the first piece is in use.
    pub(super) fn is_large(&self) -> bool {
        self.used > 1
    }

    /// Starts over. Nobody has a reference to what was taken.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        if let Some(piece) = self.pieces.first() {
            self.used = 1;
            self.next = piece.as_ptr();
            self.end = piece.addr().get() + FIRST;
        }
    }

    /// Gives memory back, but for `keep` pieces, after a [`clear`](Self::clear).
    pub(super) fn shrink(&mut self, keep: usize) {
        for (index, piece) in self.pieces.drain(keep.min(self.pieces.len())..).enumerate() {
            // SAFETY: allocated in `next_piece` with the layout of its index.
            unsafe { dealloc(piece.as_ptr(), layout(keep + index)) };
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_stays_and_overlaps_nothing() {
        let mut buffer = Buffer::new();
        assert!(buffer.pieces.is_empty());
        for _ in 0..2 {
            let mut taken: Vec<(*mut u8, usize)> = Vec::new();
            let mut total = 0;
            for i in 0.. {
                let (bytes, align) = (8 + i * 40 % 1016, 8 << (i % 4));
                let Some(at) = buffer.take(bytes, align) else { break };
                assert!(at.addr().is_multiple_of(align));
                // SAFETY: just taken.
                unsafe { at.write_bytes(i as u8, bytes) };
                taken.push((at, bytes));
                total += bytes;
            }
            assert!(total > CAPACITY * 9 / 10 && total <= CAPACITY && buffer.is_large());
            for (i, &(at, bytes)) in taken.iter().enumerate() {
                // SAFETY: taken, and written above.
                let bytes = unsafe { std::slice::from_raw_parts(at, bytes) };
                assert!(bytes.iter().all(|&byte| byte == i as u8));
            }
            buffer.clear();
            assert!(!buffer.is_large());
            assert_eq!(buffer.take(8, 8).unwrap(), taken[0].0);
            buffer.clear();
        }
        buffer.shrink(1);
        assert_eq!(buffer.pieces.len(), 1);
        assert!(buffer.take(FIRST, 8).is_some() && buffer.take(FIRST, 8).is_some());
        assert_eq!(buffer.pieces.len(), 2);
    }
}
