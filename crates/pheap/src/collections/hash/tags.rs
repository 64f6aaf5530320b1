//! The tags of a bucket: 16 bits of the hash of each entry. A search compares several tags at once.

use crate::Persist;

/// Number of slots of a bucket. With 27 slots, the tags, the depth and the pointer to the next bucket of the
/// chain fill a cache line of 64 bytes.
pub(super) const SLOTS: usize = 27;
/// Number of bits of a hash.
pub(super) const HASH: u32 = u64::BITS;
/// Number of bits of a tag that are the next bits of the hash, by which the bucket will be split: so most
/// splits need not compute hashes. When splits have used all of these bits, the window moves on by as many
/// bits of the hash.
const WINDOW: u32 = 4;
/// The mask of the other bits of a tag: the last bits of the hash, by which buckets are split last. If all of
/// them are 0, the tag has a 1 instead.
pub(super) const FIXED: u16 = u16::MAX >> WINDOW;
/// The mask with a bit for each slot of a bucket.
pub(super) const ALL: u32 = (1 << SLOTS) - 1;

/// The tags of a bucket, 0 for a slot without an entry; and the depth of the bucket: the number of leading
/// bits that all its hashes share.
#[derive(Persist, Clone, Copy)]
#[persist(own, id = "pheap::hash::Tags", crate = "crate")]
#[repr(C)]
pub(super) struct Tags {
    tags: [u16; SLOTS],
    depth: u16,
}

/// Returns the part of a tag that lookups compare.
#[inline(always)]
fn fixed(hash: u64) -> u16 {
    let bits = hash as u16 & FIXED;
    bits + u16::from(bits == 0)
}

/// Returns the slot in or near which an entry with this hash is stored if possible, so that a lookup can
/// prefetch the entry before it reads the tags.
#[inline(always)]
pub(super) fn preferred(hash: u64) -> usize {
    ((hash >> 16 & 0xffff) as usize * SLOTS) >> 16
}

impl Tags {
    pub(super) const fn new(depth: u32) -> Tags {
        Tags { tags: [0; SLOTS], depth: depth as u16 }
    }

    #[inline(always)]
    pub(super) fn depth(&self) -> u32 {
        self.depth.into()
    }

    /// Returns a mask of the hash bits in which the entries of the bucket may differ.
    #[inline(always)]
    pub(super) fn rest(&self) -> u64 {
        u64::MAX.checked_shr(self.depth()).unwrap_or(0)
    }

    /// Returns the slots whose entries may have this hash, as a bit mask.
    #[inline(always)]
    pub(super) fn matching(&self, hash: u64) -> u32 {
        self.equal(fixed(hash))
    }

    /// Returns the slots without an entry, as a bit mask.
    #[inline(always)]
    pub(super) fn free(&self) -> u32 {
        self.equal(0)
    }

    /// Returns the slots with an entry, as a bit mask.
    #[inline(always)]
    pub(super) fn occupied(&self) -> u32 {
        !self.free() & ALL
    }

    #[inline(always)]
    fn equal(&self, fixed: u16) -> u32 {
        #[cfg(target_arch = "x86_64")]
        return {
            let ([first @ .., a, b, c], depth) = (&self.tags, self.depth);
            crate::os::cpu::equal_words(first, [*a, *b, *c, depth], FIXED, fixed) & ALL
        };
        #[cfg(not(target_arch = "x86_64"))]
        return self.equal_portable(fixed);
    }

    /// Compares four tags at a time, in a word of 64 bits.
    #[cfg(any(test, not(target_arch = "x86_64")))]
    fn equal_portable(&self, fixed: u16) -> u32 {
        const LOW: u64 = 0x0001_0001_0001_0001;
        let mut equal = 0;
        for (i, tags) in self.tags.chunks(4).enumerate() {
            let word = tags.iter().rev().fold(0, |word, &tag| word << 16 | u64::from(tag));
            let different = (word ^ (LOW * u64::from(fixed))) & (LOW * u64::from(FIXED));
            // The sum sets the uppermost bit of each part of 16 bits that is not 0. No carry leaves a part,
            // because its uppermost bit was not set.
            let zeros = !(different + LOW * 0x7fff) & LOW << 15;
            // Moves the bits 15, 31, 47 and 63 of `zeros` to the bits 0 to 3.
            let bits = (zeros >> 15).wrapping_mul(1 << 45 | 1 << 30 | 1 << 15 | 1) >> 45 & 0xf;
            equal |= (bits as u32) << (4 * i);
        }
        equal & ALL
    }

    /// Returns a free slot for an entry with this hash: in the cache line of its [preferred](preferred) slot,
    /// if that line has a free slot. A cache line has `in_line` slots. The only bucket of a map is filled
    /// from its first slot on, so that a map with one bucket shows its entries in the order of their
    /// insertion, as long as none has been removed.
    #[inline(always)]
    pub(super) fn free_near(&self, hash: u64, in_line: usize) -> Option<usize> {
        let free = self.free();
        let first = if self.depth == 0 { 0 } else { preferred(hash) / in_line * in_line };
        let near = free & (((1 << in_line) - 1) << first);
        let behind = free & (u32::MAX << first);
        let choice = if near != 0 {
            near
        } else if behind != 0 {
            behind
        } else {
            free
        };
        (choice != 0).then_some(choice.trailing_zeros() as usize)
    }

    /// Sets the tag of a slot for an entry with this hash.
    #[inline(always)]
    pub(super) fn set(&mut self, slot: usize, hash: u64) {
        let from = self.depth() / WINDOW * WINDOW;
        // A bucket of full depth is never divided.
        let window = if from < HASH { (hash << from >> (HASH - WINDOW)) as u16 } else { 0 };
        self.tags[slot] = fixed(hash) | window << (16 - WINDOW);
    }

    /// Clears the tag of a slot.
    #[inline(always)]
    pub(super) fn clear(&mut self, slot: usize) {
        self.tags[slot] = 0;
    }

    /// Whether a slot has an entry.
    #[inline(always)]
    pub(super) fn has(&self, slot: usize) -> bool {
        self.tags[slot] != 0
    }

    /// Returns the slots whose entries go to the second half when the bucket is divided by the next bit of
    /// the hash, as a bit mask.
    pub(super) fn second_half(&self) -> u32 {
        let bit = 15 - self.depth() % WINDOW;
        let second = |(slot, tag): (usize, &u16)| u32::from(tag >> bit & 1) << slot;
        self.tags.iter().enumerate().map(second).fold(0, |all, slot| all | slot)
    }

    /// Increases the depth by one. Returns whether the window has moved, so that all tags must be
    /// [set](Self::set) again.
    pub(super) fn deepen(&mut self) -> bool {
        self.depth += 1;
        self.depth().is_multiple_of(WINDOW)
    }

    /// Moves the tags of the slots in the bit mask `slots` to `other`.
    pub(super) fn move_to(&mut self, other: &mut Tags, slots: u32) {
        for slot in bits(slots) {
            other.tags[slot] = std::mem::take(&mut self.tags[slot]);
        }
    }

    /// Whether all entries of the bucket may have this hash, according to their tags.
    pub(super) fn all_match(&self, hash: u64) -> bool {
        self.matching(hash) == self.occupied()
    }
}

/// Returns the numbers of the bits that are set.
#[inline(always)]
pub(super) fn bits(mut set: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = set.trailing_zeros();
        set &= set.wrapping_sub(1);
        (bit < 32).then_some(bit as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *state ^ *state >> 29
    }

    #[test]
    fn tags_are_found() {
        let mut state = 1;
        for depth in 0..=HASH {
            let mut hashes = [None; SLOTS];
            let mut tags = Tags::new(depth);
            for _ in 0..100 {
                let slot = random(&mut state) as usize % SLOTS;
                // The random hashes have only a few different tags. In some of them, all bits that the tag
                // has are 0.
                let hash = random(&mut state) & (7 << 61 | 0x803);
                tags.set(slot, hash);
                hashes[slot] = Some(hash);
                if random(&mut state) & 3 == 0 {
                    let slot = random(&mut state) as usize % SLOTS;
                    tags.clear(slot);
                    hashes[slot] = None;
                }
                let like = |test: &dyn Fn(Option<u64>) -> bool| {
                    (0..SLOTS).filter(|&i| test(hashes[i])).fold(0, |all, i| all | 1 << i)
                };
                assert_eq!(tags.depth(), depth);
                assert_eq!(tags.matching(hash), like(&|h| h.is_some_and(|h| fixed(h) == fixed(hash))));
                assert_eq!(tags.free(), like(&|h| h.is_none()));
                assert_eq!(tags.occupied(), like(&|h| h.is_some()));
                assert_eq!(tags.equal_portable(fixed(hash)), tags.equal(fixed(hash)));
                assert_eq!(tags.equal_portable(0), tags.equal(0));
                if depth < HASH {
                    let second = like(&|h| h.is_some_and(|h| h << depth >> (HASH - 1) == 1));
                    assert_eq!(tags.second_half(), second);
                }
            }
        }
    }

    #[test]
    fn the_only_bucket_of_a_map_fills_from_its_first_slot_on() {
        let mut tags = Tags::new(0);
        for slot in 0..SLOTS {
            let hash = (slot as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            assert_eq!(tags.free_near(hash, 2), Some(slot));
            tags.set(slot, hash);
        }
        assert_eq!(tags.free_near(1, 2), None);
    }

    #[test]
    fn the_window_moves_when_it_is_used_up() {
        let mut tags = Tags::new(0);
        let hash = 0xa5a5_0000_0000_0001;
        tags.set(0, hash);
        for depth in 0..16 {
            assert_eq!(u64::from(tags.second_half()), hash << depth >> (HASH - 1));
            if tags.deepen() {
                tags.set(0, hash);
            }
        }
    }
}
