//! Memory for the copies of a write set. The pieces of that memory never move, because references into them
//! live as long as the transaction.

use std::mem::MaybeUninit;
use std::ptr::null_mut;

use crate::units::LINE;

/// Bytes of the first piece. The second piece has the same size, and each later one twice that of the piece
/// before it. So each new piece doubles the total.
const FIRST: usize = 16 << 10;
/// The largest number of pieces.
const PIECES: usize = 7;
/// Bytes of all pieces.
pub(super) const CAPACITY: usize = FIRST << (PIECES - 1);

/// The unit of allocation of a piece. It aligns a piece to a line.
#[repr(align(64))]
struct BumpLine(#[expect(dead_code, reason = "copies are made in it")] [u8; LINE]);

/// A bump allocator for copies, whose memory is freed all at once.
pub(super) struct BumpAllocator {
    pieces: Vec<Box<[MaybeUninit<BumpLine>]>>,
    /// Number of pieces in use.
    used: usize,
    /// The free part of the last piece in use: its first byte, and the address after its last byte.
    next: *mut u8,
    end: usize,
}

/// Returns the bytes of piece `index`.
const fn size(index: usize) -> usize {
    if index == 0 { FIRST } else { FIRST << (index - 1) }
}

impl BumpAllocator {
    /// Creates a buffer without memory.
    pub(super) const fn new() -> BumpAllocator {
        BumpAllocator { pieces: Vec::new(), used: 0, next: null_mut(), end: 0 }
    }

    /// Returns memory for a copy; `None` if the buffer has no memory left.
    ///
    /// `align` is a power of two, at most that of a line; `bytes` is at most the size of the first piece.
    #[inline(always)]
    pub(super) fn allocate(&mut self, bytes: usize, align: usize) -> Option<*mut u8> {
        if let Some(at) = self.take_at_hand(bytes, align) {
            return Some(at);
        }
        let at = self.next_piece()?;
        self.next = at.wrapping_add(bytes);
        Some(at)
    }

    /// [`allocate`](Self::allocate) from the piece in use only.
    #[inline(always)]
    pub(super) fn take_at_hand(&mut self, bytes: usize, align: usize) -> Option<*mut u8> {
        let align_mask = align - 1; // `align` is a power of two: no division
        let at = self.next.map_addr(|next| (next + align_mask) & !align_mask);
        if at.addr() + bytes > self.end {
            return None;
        }
        self.next = at.wrapping_add(bytes);
        Some(at)
    }

    /// Begins to use the next piece. Returns its first byte.
    #[cold]
    fn next_piece(&mut self) -> Option<*mut u8> {
        let index = self.used;
        if index == PIECES {
            return None;
        }
        if index == self.pieces.len() {
            self.pieces.push(Box::new_uninit_slice(size(index) / size_of::<BumpLine>()));
        }
        self.used += 1;
        Some(self.enter_piece(index))
    }

    /// Takes copies from piece `index` from now on. Returns its first byte.
    #[inline(always)]
    fn enter_piece(&mut self, index: usize) -> *mut u8 {
        let piece = self.pieces[index].as_mut_ptr().cast::<u8>();
        // The provenance is exposed so that `settle` also makes the bytes of the copies definite.
        self.end = piece.expose_provenance() + size(index);
        piece
    }

    /// Whether more than the first piece is in use.
    pub(super) fn is_large(&self) -> bool {
        self.used > 1
    }

    /// Makes the memory of all pieces free again. No reference to memory that was taken is alive.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        if self.used > 0 {
            self.used = 1;
            self.next = self.enter_piece(0);
        }
    }

    /// Frees all pieces except the first `keep`. Called after [`clear`](Self::clear).
    pub(super) fn shrink(&mut self, keep: usize) {
        self.pieces.truncate(keep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_stays_and_overlaps_nothing() {
        let mut buffer = BumpAllocator::new();
        assert!(buffer.pieces.is_empty());
        for _ in 0..2 {
            let mut taken: Vec<(usize, usize)> = Vec::new();
            let mut total = 0;
            for i in 0.. {
                let (bytes, align) = (8 + i * 40 % 1016, 8 << (i % 4));
                let Some(at) = buffer.allocate(bytes, align) else { break };
                assert!(at.addr().is_multiple_of(align));
                taken.push((at.addr(), at.addr() + bytes));
                total += bytes;
            }
            assert!(total > CAPACITY * 9 / 10 && total <= CAPACITY && buffer.is_large());
            let first = taken[0].0;
            taken.sort_unstable();
            assert!(taken.windows(2).all(|pair| pair[0].1 <= pair[1].0));
            let is_in_piece = |&(start, end): &(usize, usize)| {
                let within = |piece: &[MaybeUninit<BumpLine>]| {
                    piece.as_ptr().addr() <= start && end <= piece.as_ptr().addr() + size_of_val(piece)
                };
                buffer.pieces.iter().any(|piece| within(piece))
            };
            assert!(taken.iter().all(is_in_piece));
            buffer.clear();
            assert!(!buffer.is_large());
            assert_eq!(buffer.allocate(8, 8).unwrap().addr(), first);
            buffer.clear();
        }
        buffer.shrink(1);
        assert_eq!(buffer.pieces.len(), 1);
        assert!(buffer.allocate(FIRST, 8).is_some() && buffer.allocate(FIRST, 8).is_some());
        assert_eq!(buffer.pieces.len(), 2);
    }
}
