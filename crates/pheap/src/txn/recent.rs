//! Where a transaction has found copies lately: programs come back to the same few objects again and again, and a look here takes a tenth of one into the write set.
//!
//! A direct-mapped cache of translations, as processors have one for pages: each address has one slot, which is lost to the next address with the same one.

use std::cell::Cell;

/// A power of two. So many objects that lie side by side have slots of their own.
const SLOTS: usize = 16;

/// Copies of values, by the address and the length of the value. All are forgotten when any copy moves, or is one no longer.
pub(crate) struct Recent {
    /// Whether there is anything. Most transactions come back to nothing, and are to pay for no more than a look at this.
    any: Cell<bool>,
    /// 0 for a slot with nothing in it. By themselves, to be cleared at once.
    addrs: [Cell<usize>; SLOTS],
    places: [Cell<(usize, *mut u8)>; SLOTS],
}

impl Recent {
    pub(crate) const fn new() -> Recent {
        Recent {
            any: Cell::new(false),
            addrs: [const { Cell::new(0) }; SLOTS],
            places: [const { Cell::new((0, std::ptr::null_mut())) }; SLOTS],
        }
    }

    /// Where the copy of `len` bytes at `addr` is, if that was [noted](Self::note), and is aligned to `align`.
    #[inline(always)]
    pub(crate) fn find(&self, addr: usize, len: usize, align: usize) -> Option<*mut u8> {
        let slot = slot(addr);
        let (noted, copy) = self.places[slot].get();
        // What was noted may be a part that is as long as the whole, and its copy aligned like the part: to a word, at least, if the original is.
        let is_aligned = align <= 8 || copy.addr().is_multiple_of(align);
        (self.addrs[slot].get() == addr && len <= noted && is_aligned).then_some(copy)
    }

    /// Whether it is worth while to look for what may be there for the first time.
    #[inline(always)]
    pub(crate) fn is_used(&self) -> bool {
        self.any.get()
    }

    /// Says where the copy is of `len` bytes at `addr`, until [`forget`](Self::forget).
    #[inline(always)]
    pub(super) fn note(&self, addr: usize, len: usize, copy: *mut u8) {
        let slot = slot(addr);
        self.any.set(true);
        self.addrs[slot].set(addr);
        self.places[slot].set((len, copy));
    }

    /// Forgets all copies.
    #[inline(always)]
    pub(super) fn forget(&self) {
        if self.any.replace(false) {
            self.addrs.iter().for_each(|addr| addr.set(0));
        }
    }
}

/// The slot of an address: neighbours of any size, from a word to a few lines, are to have different ones.
#[inline(always)]
fn slot(addr: usize) -> usize {
    (addr >> 3 ^ addr >> 7) % SLOTS
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
        assert_eq!([recent.find(4096, 8, 8), recent.find(4096, 16, 8)], [Some(copy); 2]);
        assert_eq!(
            [recent.find(4096, 17, 8), recent.find(4104, 8, 8)],
            [None; 2],
            "more than was noted, or another place"
        );
        let same_slot = (4097..).find(|&addr| slot(addr) == slot(4096) && addr % 8 == 0).unwrap();
        recent.note(same_slot, 8, copy);
        assert_eq!([recent.find(4096, 8, 8), recent.find(same_slot, 8, 8)], [None, Some(copy)]);
        recent.forget();
        assert_eq!(recent.find(same_slot, 8, 8), None);
    }

    #[test]
    fn neighbours_do_not_share_a_slot() {
        for size in [8, 16, 32, 64, 128, 256] {
            let slots: std::collections::HashSet<_> = (0..8).map(|i| slot((1 << 20) + i * size)).collect();
            assert_eq!(slots.len(), 8, "objects of {size} bytes");
        }
    }
}
