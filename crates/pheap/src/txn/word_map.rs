//! Which words a long transaction has logged: one bit per word of the heap, kept in volatile memory.
//!
//! The eight words of a cache line are a byte of the map, so the map says which lines to flush at commit, too.

use crate::units::LINE;

/// Bytes of heap in a chunk of the map.
const CHUNK: usize = 1 << 20;
const CHUNK_BITS: usize = CHUNK / 8;
/// Bytes of heap in a word of the map, which are what a long transaction logs at once.
pub(crate) const BLOCK: usize = 64 * 8;

struct Chunk {
    in_use: bool,
    bits: [u64; CHUNK_BITS / 64],
    /// A bit for each word of `bits` that is not zero.
    touched: [u64; CHUNK_BITS / 64 / 64],
}

/// A set of words, by their offset in the heap.
#[derive(Default)]
pub(crate) struct WordMap {
    chunks: Vec<Option<Box<Chunk>>>,
    /// Chunks in use.
    used: Vec<usize>,
}

impl WordMap {
    fn chunk(&mut self, index: usize) -> &mut Chunk {
        if index >= self.chunks.len() {
            self.chunks.resize_with(index + 1, || None);
        }
        self.chunks[index].get_or_insert_with(|| {
            Box::new(Chunk { in_use: false, bits: [0; CHUNK_BITS / 64], touched: [0; CHUNK_BITS / 64 / 64] })
        })
    }

    /// Adds the words of `offset..end` (bytes), and calls `new` with each run (offset, bytes) that was not in the set.
    #[inline]
    pub(crate) fn insert(&mut self, offset: usize, end: usize, mut new: impl FnMut(usize, usize)) {
        let (mut word, last) = (offset / 8, end.div_ceil(8));
        if self.insert_few(word, last) {
            return new(word * 8, (last - word) * 8);
        }
        let mut run = (word, 0); // start and length, in words
        while word < last {
            let index = word * 8 / CHUNK;
            let chunk_end = last.min((index + 1) * CHUNK_BITS);
            let chunk_start = index * CHUNK_BITS;
            let chunk = self.chunk(index);
            let was_in_use = std::mem::replace(&mut chunk.in_use, true);
            while word < chunk_end {
                let (slot, bit) = ((word - chunk_start) / 64, (word - chunk_start) % 64);
                let n = (64 - bit).min(chunk_end - word);
                let mask = (u64::MAX >> (64 - n)) << bit;
                let had = chunk.bits[slot] & mask;
                chunk.bits[slot] |= mask;
                chunk.touched[slot / 64] |= 1 << (slot % 64);
                if had == 0 {
                    if run.0 + run.1 != word {
                        run = (word, 0);
                    }
                    run.1 += n;
                } else {
                    for i in 0..n {
                        if had >> (bit + i) & 1 == 0 {
                            if run.0 + run.1 != word + i {
                                if run.1 > 0 {
                                    new(run.0 * 8, run.1 * 8);
                                }
                                run = (word + i, 0);
                            }
                            run.1 += 1;
                        } else if run.1 > 0 {
                            new(run.0 * 8, run.1 * 8);
                            run = (word + i, 0);
                        }
                    }
                }
                word += n;
            }
            if !was_in_use {
                self.used.push(index);
            }
        }
        if run.1 > 0 {
            new(run.0 * 8, run.1 * 8);
        }
    }

    /// Adds words that lie in one word of a chunk in use, if none of them is in the set: the common case by far.
    #[inline]
    pub(crate) fn insert_few(&mut self, first: usize, end: usize) -> bool {
        let Some(Some(chunk)) = self.chunks.get_mut(first / CHUNK_BITS) else { return false };
        if end == first || first / 64 != (end - 1) / 64 || !chunk.in_use {
            return false;
        }
        let at = first % CHUNK_BITS;
        let mask = (u64::MAX >> (64 - (end - first))) << (at % 64);
        let bits = &mut chunk.bits[at / 64];
        if *bits & mask != 0 {
            return false;
        }
        *bits |= mask;
        chunk.touched[at / 64 / 64] |= 1 << (at / 64 % 64);
        true
    }

    /// Whether the word is in the set that `offset` lies in.
    #[inline(always)]
    pub(crate) fn contains_word(&self, offset: usize) -> bool {
        let Some(Some(chunk)) = self.chunks.get(offset / CHUNK) else { return false };
        chunk.bits[offset % CHUNK / BLOCK] >> (offset / 8 % 64) & 1 != 0
    }

    /// Whether the words of `offset..end` are all in the set. Cheap for a word or two.
    #[inline]
    pub(crate) fn contains(&self, offset: usize, end: usize) -> bool {
        let (first, last) = (offset / 8, (end - 1) / 8);
        let Some(Some(chunk)) = self.chunks.get(first * 8 / CHUNK) else { return false };
        let (a, b) = (first % CHUNK_BITS, last % CHUNK_BITS);
        if first / 64 != last / 64 {
            return false; // not worth finding out here
        }
        let mask = (u64::MAX >> (63 - (b - a))) << (a % 64);
        chunk.bits[a / 64] & mask == mask
    }

    /// Whether any word is in the set of the `len` bytes, a block or a line of it, that `offset` lies in.
    #[inline]
    pub(crate) fn is_begun(&self, offset: usize, len: usize) -> bool {
        let Some(Some(chunk)) = self.chunks.get(offset / CHUNK) else { return false };
        let mask = u64::MAX >> (64 - len / 8) << (offset % BLOCK / len * len / 8);
        chunk.bits[offset % CHUNK / BLOCK] & mask != 0
    }

    /// How many blocks in a row, up to `most`, directly before the one that `offset` lies in, have a word in the set. (Not beyond the chunk.)
    #[inline]
    pub(crate) fn begun_before(&self, offset: usize, most: usize) -> usize {
        let Some(Some(chunk)) = self.chunks.get(offset / CHUNK) else { return 0 };
        chunk.bits[..offset % CHUNK / BLOCK].iter().rev().take(most).take_while(|&&bits| bits != 0).count()
    }

    /// Empties the set, calling `line` once for each cache line that holds a word of it: with the offset of the first, and the bytes up to the last.
    pub(crate) fn drain_lines(&mut self, mut line: impl FnMut(usize, usize)) {
        for index in self.used.drain(..) {
            let Some(chunk) = &mut self.chunks[index] else { continue };
            chunk.in_use = false;
            for (i, touched) in chunk.touched.iter_mut().enumerate() {
                let mut set = std::mem::take(touched);
                while set != 0 {
                    let slot = i * 64 + set.trailing_zeros() as usize;
                    set &= set - 1;
                    let bits = std::mem::take(&mut chunk.bits[slot]);
                    for (j, byte) in bits.to_le_bytes().into_iter().enumerate() {
                        if byte != 0 {
                            let (first, last) = (byte.trailing_zeros(), 7 - byte.leading_zeros());
                            let start = index * CHUNK + slot * BLOCK + j * LINE;
                            line(start + first as usize * 8, (last - first + 1) as usize * 8);
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn behaves_like_a_set_of_words(
            ranges in prop::collection::vec((0usize..400_000, 1usize..9_000), 1..20),
            far in any::<bool>(),
        ) {
            let mut map = WordMap::default();
            let mut model = BTreeSet::new();
            let mut everything = BTreeSet::new();
            for (start, len) in ranges {
                let start = if far { start + 3 * CHUNK / 8 - 200_000 } else { start };
                let mut new = BTreeSet::new();
                map.insert(start * 8, (start + len) * 8, |offset, bytes| {
                    for word in offset / 8..(offset + bytes) / 8 {
                        assert!(new.insert(word), "reported twice");
                    }
                });
                let expected: BTreeSet<_> = (start..start + len).filter(|w| model.insert(*w)).collect();
                prop_assert_eq!(&new, &expected);
                everything.extend(expected);
                prop_assert!(map.contains(start * 8, start * 8 + 8));
                for word in [start, start + len - 1, start + len, start.wrapping_sub(1) % 500_000] {
                    prop_assert_eq!(map.contains_word(word * 8 + 5), model.contains(&word));
                }
                for bytes in [BLOCK, LINE] {
                    let first = start * 8 / bytes * bytes / 8;
                    let is_begun = model.range(first..first + bytes / 8).next().is_some();
                    prop_assert_eq!(map.is_begun(start * 8 + 7, bytes), is_begun);
                }
            }
            let mut lines = BTreeMap::new();
            map.drain_lines(|offset, len| {
                let words = (offset / 8, (offset + len) / 8 - 1);
                assert!(lines.insert(offset / LINE, words).is_none(), "flushed twice");
            });
            let mut expected = BTreeMap::new();
            for &word in &everything {
                expected.entry(word * 8 / LINE).or_insert((word, word)).1 = word;
            }
            prop_assert_eq!(lines, expected);
            map.drain_lines(|_, _| panic!("not emptied"));
        }
    }
}
