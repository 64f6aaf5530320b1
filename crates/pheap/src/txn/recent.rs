//! Where a transaction writes what it has come to lately: programs come back to the same few objects again and again, and a look here takes a tenth of one into the write set.
//!
//! A direct-mapped cache of translations, as processors have one for pages: each value has one slot, which is lost to the next value with the same one.

use std::cell::Cell;

use crate::store::header::END_OF_ADDRESSES;

/// A power of two. So many objects that lie side by side have slots of their own.
const SLOTS: usize = 16;
/// Longer values are not noted: a [`tag`] has so much room for a length.
const LONGEST: usize = u16::MAX as usize;

/// Places of values, by the address and the length of the value: that of its copy, or its own if it is written where it is. All are forgotten when any of them moves.
pub(crate) struct Recent {
    /// Whether there is anything.
    any: Cell<bool>,
    /// What each slot is of; 0 for a slot with nothing in it. By themselves, to be cleared at once.
    tags: [Cell<u64>; SLOTS],
    places: [Cell<*mut u8>; SLOTS],
    /// The same of values that are read where they are, for the transaction has written none of them. By themselves: they are forgotten at each new copy.
    has_unwritten: Cell<bool>,
    unwritten: [Cell<u64>; SLOTS],
}

impl Recent {
    pub(crate) const fn new() -> Recent {
        Recent {
            any: Cell::new(false),
            tags: [const { Cell::new(0) }; SLOTS],
            places: [const { Cell::new(std::ptr::null_mut()) }; SLOTS],
            has_unwritten: Cell::new(false),
            unwritten: [const { Cell::new(0) }; SLOTS],
        }
    }

    /// Whether anything was [noted](Self::note).
    #[inline(always)]
    pub(crate) fn has_any(&self) -> bool {
        self.any.get()
    }

    /// Where the `len` bytes at `addr` are read and written, if that was [noted](Self::note), and is aligned to `align`.
    #[inline(always)]
    pub(crate) fn find(&self, addr: usize, len: usize, align: usize) -> Option<*mut u8> {
        let slot = slot(addr, len);
        if len > LONGEST || self.tags[slot].get() != tag(addr, len) {
            return None;
        }
        let place = self.places[slot].get();
        // What was noted may be a part that is as long as the whole, and its copy aligned like the part: to a word, at least, if the original is.
        (align <= 8 || place.addr().is_multiple_of(align)).then_some(place)
    }

    /// Says where the `len` bytes at `addr` are read and written, until [`forget`](Self::forget).
    #[inline(always)]
    pub(crate) fn note(&self, addr: usize, len: usize, place: *mut u8) {
        if len <= LONGEST {
            let slot = slot(addr, len);
            self.any.set(true);
            self.tags[slot].set(tag(addr, len));
            self.places[slot].set(place);
        }
    }

    /// Whether the `len` bytes at `addr` were [noted](Self::note_unwritten) as having no copy, of all or of a part.
    #[inline(always)]
    pub(crate) fn is_unwritten(&self, addr: usize, len: usize) -> bool {
        len <= LONGEST && self.unwritten[slot(addr, len)].get() == tag(addr, len)
    }

    /// Says that there is no copy of any of the `len` bytes at `addr`, until [`forget_unwritten`](Self::forget_unwritten).
    #[inline(always)]
    pub(crate) fn note_unwritten(&self, addr: usize, len: usize) {
        if len <= LONGEST {
            self.has_unwritten.set(true);
            self.unwritten[slot(addr, len)].set(tag(addr, len));
        }
    }

    /// Forgets what has no copies.
    #[inline(always)]
    pub(super) fn forget_unwritten(&self) {
        if self.has_unwritten.replace(false) {
            self.unwritten.iter().for_each(|tag| tag.set(0));
        }
    }

    /// Forgets everything.
    #[inline(always)]
    pub(super) fn forget(&self) {
        if self.any.replace(false) {
            self.tags.iter().for_each(|tag| tag.set(0));
        }
        self.forget_unwritten();
    }
}

const _: () = assert!(END_OF_ADDRESSES <= 1 << 48 && LONGEST < 1 << 16);

/// Address and length in one word, to be compared at once.
#[inline(always)]
fn tag(addr: usize, len: usize) -> u64 {
    (addr as u64).wrapping_add((len as u64) << 48)
}

/// The slot of a value: neighbours of one size, from a word to a few lines, are to have different ones, and so are an object and what it begins with.
#[inline(always)]
fn slot(addr: usize, len: usize) -> usize {
    let shift = (len | 1).ilog2() as usize; // known where the size is
    (addr >> shift ^ shift) % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_last_is_found() {
        let recent = Recent::new();
        let mut bytes = [0u8; 64];
        let copy = bytes.as_mut_ptr();
        assert_eq!(recent.find(4096, 8, 8), None);
        recent.note(4096, 16, copy);
        assert_eq!(recent.find(4096, 16, 8), Some(copy));
        let others = [(4096, 8), (4096, 17), (4104, 16), (4096, 1 << 16 | 16)];
        assert_eq!(others.map(|(addr, len)| recent.find(addr, len, 8)), [None; 4]);
        recent.note(4096, 8, copy.wrapping_add(8));
        assert_eq!(recent.find(4096, 16, 8), Some(copy), "what it begins with has a slot of its own");
        let same_slot = (4097..).find(|&addr| slot(addr, 16) == slot(4096, 16) && addr % 8 == 0).unwrap();
        recent.note(same_slot, 16, copy);
        assert_eq!([recent.find(4096, 16, 8), recent.find(same_slot, 16, 8)], [None, Some(copy)]);
        recent.note(8192, 1 << 16, copy);
        assert_eq!(recent.find(8192, 1 << 16, 8), None, "too long");
        recent.forget();
        assert_eq!(recent.find(same_slot, 16, 8), None);
    }

    #[test]
    fn what_has_no_copy_is_known_until_there_is_a_new_one() {
        let recent = Recent::new();
        recent.note_unwritten(4096, 16);
        recent.note(4096, 8, std::ptr::null_mut());
        let asked = [(4096, 16), (4096, 8), (4104, 8), (4096, 1 << 16 | 16)];
        assert_eq!(asked.map(|(addr, len)| recent.is_unwritten(addr, len)), [true, false, false, false]);
        recent.forget_unwritten();
        assert!(!recent.is_unwritten(4096, 16) && recent.find(4096, 8, 8).is_some());
        recent.note_unwritten(4096, 16);
        recent.forget();
        assert!(!recent.is_unwritten(4096, 16) && recent.find(4096, 8, 8).is_none());
    }

    #[test]
    fn neighbours_do_not_share_a_slot() {
        for size in [8, 16, 32, 64, 128, 256] {
            let slots: std::collections::HashSet<_> =
                (0..8).map(|i| slot((1 << 20) + i * size, size)).collect();
            assert_eq!(slots.len(), 8, "objects of {size} bytes");
        }
    }
}
