//! A cache of the places where a transaction reads and writes values that it has accessed lately. Programs
//! access the same few objects again and again, and a lookup here is cheaper than one in the write set.
//!
//! The cache is direct-mapped, like a processor's cache of page translations: each value has one slot, and
//! loses it to the next value with the same slot.

use std::cell::Cell;

use crate::store::header::END_OF_ADDRESSES;

/// Number of slots; a power of two.
const SLOTS: usize = 16;
/// The most bytes of a value that the cache takes: a [`tag`] has room for so large a length.
const LONGEST: usize = u16::MAX as usize;

/// Places of values, by address and length of the value: the place of its copy, or its own address if it is
/// written in place. All places are forgotten when any of them moves.
pub(crate) struct Recent {
    /// Whether any slot of `tags` is in use.
    any: Cell<bool>,
    /// The tag of the value in each slot; 0 for an empty slot. The tags are separate from the places, so that
    /// all tags can be cleared at once.
    tags: [Cell<u64>; SLOTS],
    places: [Cell<*mut u8>; SLOTS],
    /// Whether any slot of `unwritten` is in use; and the tags of values that are read in place because no
    /// part of them has a copy. They are separate from `tags`, because each new copy empties `unwritten`.
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

    /// Whether any place was [noted](Self::record_recent) since the last [`forget`](Self::forget).
    #[inline(always)]
    pub(crate) fn has_any(&self) -> bool {
        self.any.get()
    }

    /// Returns where the `len` bytes at `addr` are read and written, if that was [noted](Self::record_recent)
    /// and is still in its slot, and if the place is aligned to `align`.
    #[inline(always)]
    pub(crate) fn find_recent(&self, addr: usize, len: usize, align: usize) -> Option<*mut u8> {
        let slot = slot_index(addr, len);
        if len > LONGEST || self.tags[slot].get() != tag(addr, len) {
            return None;
        }
        let place = self.places[slot].get();
        // The noted value may be a part of the requested value that is as long as the whole. The copy is then
        // aligned like the part: at least to a word, if the original is.
        (align <= 8 || place.addr().is_multiple_of(align)).then_some(place)
    }

    /// Notes where the `len` bytes at `addr` are read and written, until [`forget`](Self::forget), or until
    /// another value gets the slot. Does nothing if there are more than [`LONGEST`] bytes.
    #[inline(always)]
    pub(crate) fn record_recent(&self, addr: usize, len: usize, place: *mut u8) {
        if len <= LONGEST {
            let slot = slot_index(addr, len);
            self.any.set(true);
            self.tags[slot].set(tag(addr, len));
            self.places[slot].set(place);
        }
    }

    /// Whether it was [noted](Self::note_unwritten) that no part of the `len` bytes at `addr` has a copy, and
    /// that is still in its slot.
    #[inline(always)]
    pub(crate) fn is_unwritten(&self, addr: usize, len: usize) -> bool {
        len <= LONGEST && self.unwritten[slot_index(addr, len)].get() == tag(addr, len)
    }

    /// Notes that no part of the `len` bytes at `addr` has a copy, until
    /// [`forget_unwritten`](Self::forget_unwritten), or until another value gets the slot. Does nothing if
    /// there are more than [`LONGEST`] bytes.
    #[inline(always)]
    pub(crate) fn note_unwritten(&self, addr: usize, len: usize) {
        if len <= LONGEST {
            self.has_unwritten.set(true);
            self.unwritten[slot_index(addr, len)].set(tag(addr, len));
        }
    }

    /// Forgets which values have no copies.
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

/// Returns the address and the length of a value in one word, for one comparison.
#[inline(always)]
fn tag(addr: usize, len: usize) -> u64 {
    (addr as u64).wrapping_add((len as u64) << 48)
}

/// Returns the cache slot of a value. Neighbours of one size, from a word to a few lines, should have
/// different slots. So should an object and its first field.
#[inline(always)]
fn slot_index(addr: usize, len: usize) -> usize {
    let shift = (len | 1).ilog2() as usize; // a constant if the size is known
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
        assert_eq!(recent.find_recent(4096, 8, 8), None);
        recent.record_recent(4096, 16, copy);
        assert_eq!(recent.find_recent(4096, 16, 8), Some(copy));
        let others = [(4096, 8), (4096, 17), (4104, 16), (4096, 1 << 16 | 16)];
        assert_eq!(others.map(|(addr, len)| recent.find_recent(addr, len, 8)), [None; 4]);
        recent.record_recent(4096, 8, copy.wrapping_add(8));
        assert_eq!(recent.find_recent(4096, 16, 8), Some(copy), "what it begins with has a slot of its own");
        let same_slot =
            (4097..).find(|&addr| slot_index(addr, 16) == slot_index(4096, 16) && addr % 8 == 0).unwrap();
        recent.record_recent(same_slot, 16, copy);
        assert_eq!(
            [recent.find_recent(4096, 16, 8), recent.find_recent(same_slot, 16, 8)],
            [None, Some(copy)]
        );
        recent.record_recent(8192, 1 << 16, copy);
        assert_eq!(recent.find_recent(8192, 1 << 16, 8), None, "too long");
        recent.forget();
        assert_eq!(recent.find_recent(same_slot, 16, 8), None);
    }

    #[test]
    fn what_has_no_copy_is_known_until_there_is_a_new_one() {
        let recent = Recent::new();
        recent.note_unwritten(4096, 16);
        recent.record_recent(4096, 8, std::ptr::null_mut());
        let asked = [(4096, 16), (4096, 8), (4104, 8), (4096, 1 << 16 | 16)];
        assert_eq!(asked.map(|(addr, len)| recent.is_unwritten(addr, len)), [true, false, false, false]);
        recent.forget_unwritten();
        assert!(!recent.is_unwritten(4096, 16) && recent.find_recent(4096, 8, 8).is_some());
        recent.note_unwritten(4096, 16);
        recent.forget();
        assert!(!recent.is_unwritten(4096, 16) && recent.find_recent(4096, 8, 8).is_none());
    }

    #[test]
    fn neighbours_do_not_share_a_slot() {
        for size in [8, 16, 32, 64, 128, 256] {
            let slots: std::collections::HashSet<_> =
                (0..8).map(|i| slot_index((1 << 20) + i * size, size)).collect();
            assert_eq!(slots.len(), 8, "objects of {size} bytes");
        }
    }
}
