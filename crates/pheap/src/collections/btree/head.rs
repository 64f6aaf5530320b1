//! The part of a node that a search reads first: the order of its items, and a code of each key.
//!
//! A code has 16 bits and is made from the key's [prefix](crate::collections::OrdKey::prefix): the distance
//! of the prefix from a base, in steps of a power of two. Base and step are chosen so that the codes of most
//! items of the node differ. Whatever base and step are, a lesser key never has a greater code. The codes of
//! a leaf are 64 bytes, those of an inner node 128 bytes, and a search compares all of them.

use crate::Persist;

/// The code of a free slot, which is greater than that of any key.
pub(super) const FREE: i16 = i16::MAX;
/// The least code, used for an item without a key: the first child of an inner node.
pub(super) const LEAST: i16 = i16::MIN;

/// The first part of a node: short transactions write and read it as a whole.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
#[persist(own, id = "pheap::BTreeHead", crate = "crate")]
pub(crate) struct Head<const N: usize> {
    pub(super) order: Order<N>,
    pub(super) codes: [i16; N],
    scale: Scale,
}

/// The slots in use, in the order of their items, followed by the free slots.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
#[persist(own, id = "pheap::BTreeOrder", crate = "crate")]
pub(crate) struct Order<const N: usize> {
    len: u64,
    slots: [u8; N],
}

/// How the codes of a node are made from prefixes (see the [module](self)): the base, from which distances
/// count, and in its last 6 bits the binary logarithm of the step, the difference in prefix from one code to
/// the next.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
#[persist(own, id = "pheap::BTreeScale", crate = "crate")]
pub(crate) struct Scale(u64);

impl<const N: usize> Order<N> {
    /// Takes the first free slot for a new item, and puts the slot at `place` in the order. Returns the slot.
    #[inline(always)]
    pub(super) fn insert(&mut self, place: usize) -> usize {
        let len = self.len as usize;
        let slot = self.slots[len];
        debug_assert!(place <= len);
        shift_up(&mut self.slots, place, len);
        self.slots[place] = slot;
        self.len += 1;
        slot as usize
    }

    /// Removes the item at `place` from the order, and makes its slot the first free one. Returns the slot.
    #[inline(always)]
    pub(super) fn remove(&mut self, place: usize) -> usize {
        let len = self.len as usize;
        let slot = self.slots[place];
        debug_assert!(place < len);
        shift_down(&mut self.slots, place, len - 1);
        self.slots[len - 1] = slot;
        self.len -= 1;
        slot as usize
    }
}

/// Returns a mask for the bytes `from..to` within word number `word`.
#[inline(always)]
fn mask(from: usize, to: usize, word: usize) -> u64 {
    let below = |end: usize| {
        let bits = end.saturating_sub(word * 8).min(8) as u32 * 8;
        u64::MAX.checked_shl(bits).map_or(u64::MAX, |above| !above)
    };
    below(to) & !below(from)
}

/// Moves bytes `from..to` up by one place. This works by words: there are few of them, and a copy of a range
/// whose length varies would mispredict branches.
#[inline(always)]
fn shift_up<const N: usize>(bytes: &mut [u8; N], from: usize, to: usize) {
    let mut carry = 0;
    for (i, word) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let (old, mask) = (u64::from_le_bytes(*word), mask(from + 1, to + 1, i));
        *word = (old & !mask | (old << 8 | carry) & mask).to_le_bytes();
        carry = old >> 56;
    }
}

/// Moves bytes `from + 1..to + 1` down by one place.
#[inline(always)]
fn shift_down<const N: usize>(bytes: &mut [u8; N], from: usize, to: usize) {
    let mut carry = 0;
    for (i, word) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate().rev() {
        let (old, mask) = (u64::from_le_bytes(*word), mask(from, to, i));
        *word = (old & !mask | (old >> 8 | carry) & mask).to_le_bytes();
        carry = old << 56;
    }
}

impl Scale {
    const fn new(base: u64, shift: u32) -> Scale {
        Scale(base & !63 | shift as u64)
    }

    #[inline(always)]
    const fn base(self) -> u64 {
        self.0 & !63
    }

    #[inline(always)]
    const fn shift(self) -> u32 {
        (self.0 & 63) as u32
    }

    /// Returns a scale for the prefixes between two given ones. It has room on both sides, so that the codes
    /// of keys that are added at the ends of a tree differ, too.
    pub(super) fn between(one: u64, other: u64) -> Scale {
        let (least, greatest) = (one.min(other), one.max(other));
        let room = ((greatest - least) / 2).max(1 << 14);
        let (base, end) = (least.saturating_sub(room) & !63, greatest.saturating_add(room));
        Scale::new(base, 48 - (end - base).leading_zeros().min(48))
    }

    /// Whether the other scale is so much finer that rewriting all codes pays: its step is at most a quarter.
    fn is_worse(self, other: Scale) -> bool {
        other.shift() + 2 <= self.shift()
    }

    /// Whether a prefix is outside the range of the scale, so that it shares its code with all other prefixes
    /// on the same side of the range.
    fn is_beyond(self, prefix: u64) -> bool {
        prefix < self.base() || (prefix - self.base()) >> self.shift() >= 0xffff
    }

    #[inline(always)]
    pub(super) fn code(self, prefix: u64) -> i16 {
        let distance = prefix.saturating_sub(self.base()) >> self.shift();
        (distance.min(0xfffe) as u16 ^ 0x8000) as i16
    }
}

impl<const N: usize> Head<N> {
    pub(super) const EMPTY: Head<N> = {
        assert!(N.is_multiple_of(8) && N <= 128);
        let mut slots = [0; N];
        let mut i = 0;
        while i < N {
            slots[i] = i as u8;
            i += 1;
        }
        Head { order: Order { len: 0, slots }, codes: [FREE; N], scale: Scale::new(0, 48) }
    };

    /// Returns the number of items.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.order.len as usize
    }

    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.len() == N
    }

    /// Returns the slot of the item at `place`.
    #[inline(always)]
    pub(super) fn slot_of_item(&self, place: usize) -> usize {
        self.order.slots[place] as usize
    }

    /// Returns the code that a prefix has in this node.
    #[inline(always)]
    pub(super) fn code(&self, prefix: u64) -> i16 {
        self.scale.code(prefix)
    }

    /// Returns the code of the item at `place`.
    #[inline(always)]
    pub(super) fn code_at(&self, place: usize) -> i16 {
        self.codes[self.slot_of_item(place)]
    }

    /// Returns the number of items with a lesser code, which is the place of the first item whose code is not
    /// less. All codes are compared, so no branch depends on them.
    #[inline(always)]
    pub(super) fn less(&self, code: i16) -> usize {
        let less = self.codes.iter().map(|&other| i16::from(other < code)).sum::<i16>() as usize;
        less.min(self.len())
    }

    /// Returns the number of items whose code is not greater than `code`.
    #[inline(always)]
    pub(super) fn less_or_equal(&self, code: i16) -> usize {
        let others = self.codes.iter().map(|&other| i16::from(other <= code)).sum::<i16>() as usize;
        others.min(self.len())
    }

    /// Returns a new scale if a new item at `place`, with this prefix and code, would have the same code as a
    /// neighbour, and if the new scale is much finer than the current one, or covers a prefix that the
    /// current one does not cover. The items before `first` have no keys.
    #[inline]
    pub(super) fn better_scale(
        &self,
        first: usize,
        place: usize,
        prefix: u64,
        code: i16,
        prefix_at: impl Fn(usize) -> u64,
    ) -> Option<Scale> {
        let same = |other: usize| (first..self.len()).contains(&other) && self.code_at(other) == code;
        if !same(place) && !same(place.wrapping_sub(1)) {
            return None;
        }
        let (least, greatest) = (prefix_at(first).min(prefix), prefix_at(self.len() - 1).max(prefix));
        let scale = Scale::between(least, greatest);
        let better =
            self.scale.is_worse(scale) || self.scale.is_beyond(least) || self.scale.is_beyond(greatest);
        better.then_some(scale)
    }

    /// Sets the scale, and rewrites the codes of all items from place `first` on. `prefixes` has the prefix
    /// of each item, at the index of its slot.
    pub(super) fn set_scale(&mut self, first: usize, scale: Scale, prefixes: &[u64; N]) {
        self.scale = scale;
        for place in first..self.len() {
            let slot = self.slot_of_item(place);
            self.codes[slot] = scale.code(prefixes[slot]);
        }
    }

    /// Sets the [scale](Self::set_scale) that suits the least and the greatest prefix of the items from place
    /// `first` on.
    pub(super) fn fit(&mut self, first: usize, prefixes: &[u64; N]) {
        if self.len() > first {
            let (least, greatest) =
                (prefixes[self.slot_of_item(first)], prefixes[self.slot_of_item(self.len() - 1)]);
            self.set_scale(first, Scale::between(least, greatest), prefixes);
        }
    }

    #[inline(always)]
    pub(super) fn insert(&mut self, place: usize, code: i16) -> usize {
        let slot = self.order.insert(place);
        self.codes[slot] = code;
        slot
    }

    #[inline(always)]
    pub(super) fn remove(&mut self, place: usize) -> usize {
        let slot = self.order.remove(place);
        self.codes[slot] = FREE;
        slot
    }

    /// Moves the codes of the items from `place` on to the head of an empty node, where the items take the
    /// first slots.
    pub(super) fn split_off(&mut self, place: usize, new: &mut Head<N>) {
        for (to, place) in (place..self.len()).enumerate() {
            let code = &mut self.codes[self.order.slots[place] as usize];
            new.codes[to] = std::mem::replace(code, FREE);
        }
        new.scale = self.scale;
        new.order.len = self.order.len - place as u64;
        self.order.len = place as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shifted_as_by_a_copy() {
        let bytes: [u8; 32] = std::array::from_fn(|i| i as u8 + 100);
        for from in 0..32 {
            for to in from..32 {
                let (mut up, mut down) = (bytes, bytes);
                let (mut up_copy, mut down_copy) = (bytes, bytes);
                shift_up(&mut up, from, to);
                up_copy.copy_within(from..to, from + 1);
                shift_down(&mut down, from, to);
                down_copy.copy_within(from + 1..to + 1, from);
                assert_eq!((up, down), (up_copy, down_copy), "{from}..{to}");
            }
        }
    }

    #[test]
    fn codes_are_ordered_as_prefixes() {
        let ends = [(0, 0), (0, u64::MAX), (u64::MAX, u64::MAX), (1 << 40, (1 << 40) + 1), (5, 1 << 63)];
        for (least, greatest) in ends {
            let scale = Scale::between(least, greatest);
            let mut prefixes = vec![0, 1, least, greatest, u64::MAX, u64::MAX - 1];
            prefixes.extend((0..64).map(|bit| 1 << bit));
            prefixes.extend((0..100).map(|i| least + (greatest - least) / 100 * i));
            prefixes.sort();
            assert!(prefixes.windows(2).all(|w| scale.code(w[0]) <= scale.code(w[1])));
            assert!(prefixes.iter().all(|&prefix| scale.code(prefix) < FREE));
            let distinct = |n: usize| {
                let codes = (0..n as u64).map(|i| scale.code(least + (greatest - least) / n as u64 * i));
                codes.collect::<std::collections::BTreeSet<_>>().len()
            };
            assert!(greatest - least < 10_000 || distinct(10_000) == 10_000);
        }
    }
}
