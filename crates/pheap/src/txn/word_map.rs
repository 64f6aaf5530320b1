//! Sets of words of the heap, with one bit for each word, in DRAM: the words that a long transaction has
//! logged, and the words whose old content a savepoint has saved.
//!
//! The eight words of a cache line are a byte of the map. So the map of logged words also has the lines to
//! flush at commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::os::maps::ZeroedArray;
use crate::units::LINE;

/// Bytes of heap in a chunk of the map.
const CHUNK: usize = 1 << 20;
/// Bytes of heap that a word of the map covers. A long transaction may log all of such a block at one store.
pub(crate) const BLOCK: usize = 64 * 8;
const BLOCKS: usize = CHUNK / BLOCK;

/// The words of a map: one for each block of the heap.
pub(crate) trait BlockWords {
    /// Returns the map's word for a block; `None` only if nothing of its chunk was ever added to the map, or
    /// the heap has no such block.
    fn get(&self, block: usize) -> Option<&AtomicU64>;

    /// Provides the map's words for a chunk, before the first word of the heap in that chunk is added.
    fn make(&mut self, chunk: usize);
}

/// The words of a map that has separate memory.
#[derive(Default)]
pub(crate) struct OwnBlocks(Vec<Option<Box<[AtomicU64; BLOCKS]>>>);

impl BlockWords for OwnBlocks {
    #[inline]
    fn get(&self, block: usize) -> Option<&AtomicU64> {
        Some(&self.0.get(block / BLOCKS)?.as_ref()?[block % BLOCKS])
    }

    fn make(&mut self, chunk: usize) {
        if chunk >= self.0.len() {
            self.0.resize_with(chunk + 1, || None);
        }
        self.0[chunk].get_or_insert_with(|| Box::new([const { AtomicU64::new(0) }; BLOCKS]));
    }
}

/// The words of a map in the table that all regions of a heap share, so that a lookup is one load. The blocks
/// of a map belong to spans and the header of its region, so regions do not share words. Without the table,
/// the map has separate memory: before the first long transaction, and where the system has no addresses for
/// the table.
#[derive(Default)]
pub(crate) struct SharedBlocks {
    table: Option<Arc<ZeroedArray<AtomicU64>>>,
    own: OwnBlocks,
}

impl BlockWords for SharedBlocks {
    #[inline(always)]
    fn get(&self, block: usize) -> Option<&AtomicU64> {
        match &self.table {
            Some(table) => table.entries().get(block),
            None => self.own.get(block),
        }
    }

    fn make(&mut self, chunk: usize) {
        if self.table.is_none() {
            self.own.make(chunk);
        }
    }
}

impl WordMap<SharedBlocks> {
    /// Makes an empty map use the table of the heap, if there is one.
    pub(super) fn share(&mut self, table: Option<&Arc<ZeroedArray<AtomicU64>>>) {
        debug_assert!(self.used.is_empty());
        self.bits.table = table.cloned();
    }

    /// Returns the address of the table's words, if the map uses the table.
    pub(super) fn table(&self) -> Option<*const AtomicU64> {
        self.bits.table.as_ref().map(|table| table.entries().as_ptr())
    }
}

/// The blocks of a chunk that have words in the set.
struct TouchedBlocks {
    in_use: bool,
    /// A bit for each block that has a word in the set.
    touched: [u64; BLOCKS / 64],
}

/// A set of words, by their offsets in the heap.
#[derive(Default)]
pub(crate) struct WordMap<B = OwnBlocks> {
    bits: B,
    chunks: Vec<Option<Box<TouchedBlocks>>>,
    /// Indices of the chunks in use.
    used: Vec<usize>,
}

/// Returns the value of a word of the map. The load is relaxed, because only the writer of the region stores
/// to the map.
#[inline(always)]
fn load(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

/// Whether all words of the heap from `first` to `last` are in the set. `bits` are those of the block of
/// `first`. False if the words lie in several blocks.
#[inline(always)]
pub(super) fn has_all(bits: u64, first: usize, last: usize) -> bool {
    let mask = (u64::MAX >> (63 - (last - first) % 64)) << (first % 64);
    first / 64 == last / 64 && bits & mask == mask
}

impl<B: BlockWords> WordMap<B> {
    #[cold]
    fn begin_chunk(&mut self, index: usize) {
        if index >= self.chunks.len() {
            self.chunks.resize_with(index + 1, || None);
        }
        self.bits.make(index);
        let new = || Box::new(TouchedBlocks { in_use: false, touched: [0; BLOCKS / 64] });
        self.chunks[index].get_or_insert_with(new).in_use = true;
        self.used.push(index);
    }

    /// Adds the words of `offset..end` (bytes), and calls `new` with each run (offset, bytes) that was not in
    /// the set.
    #[inline]
    pub(crate) fn insert(&mut self, offset: usize, end: usize, mut new: impl FnMut(usize, usize)) {
        let (mut word, last) = (offset / 8, end.div_ceil(8));
        if self.insert_few(word, last) {
            return new(word * 8, (last - word) * 8);
        }
        let mut run = (word, 0); // start and length, in words
        while word < last {
            let (block, bit) = (word / 64, word % 64);
            let n = (64 - bit).min(last - word);
            let mask = (u64::MAX >> (64 - n)) << bit;
            let mut missing = mask & !self.add(block, mask);
            while missing != 0 {
                let start = missing.trailing_zeros();
                let len = (missing >> start).trailing_ones();
                let at = block * 64 + start as usize;
                if run.0 + run.1 != at {
                    if run.1 > 0 {
                        new(run.0 * 8, run.1 * 8);
                    }
                    run = (at, 0);
                }
                run.1 += len as usize;
                missing &= u64::MAX.checked_shl(start + len).unwrap_or(0);
            }
            word += n;
        }
        if run.1 > 0 {
            new(run.0 * 8, run.1 * 8);
        }
    }

    /// Adds words of a block. Returns which of them were in the set before.
    fn add(&mut self, block: usize, mask: u64) -> u64 {
        let index = block / BLOCKS;
        if !self.chunks.get(index).is_some_and(|chunk| chunk.as_ref().is_some_and(|chunk| chunk.in_use)) {
            self.begin_chunk(index);
        }
        let (Some(Some(chunk)), Some(word)) = (self.chunks.get_mut(index), self.bits.get(block)) else {
            unreachable!("the heap has no such block");
        };
        let had = load(word);
        word.store(had | mask, Ordering::Relaxed);
        chunk.touched[block % BLOCKS / 64] |= 1 << (block % 64);
        had & mask
    }

    /// Adds words that lie in one block, if its chunk is in use and none of them is in the set. Returns
    /// whether it added them. This is the common case.
    #[inline]
    pub(crate) fn insert_few(&mut self, first: usize, end: usize) -> bool {
        let block = first / 64;
        let Some(Some(chunk)) = self.chunks.get_mut(block / BLOCKS) else { return false };
        if end == first || block != (end - 1) / 64 || !chunk.in_use {
            return false;
        }
        let Some(word) = self.bits.get(block) else { return false };
        let mask = (u64::MAX >> (64 - (end - first))) << (first % 64);
        let had = load(word);
        if had & mask != 0 {
            return false;
        }
        word.store(had | mask, Ordering::Relaxed);
        chunk.touched[block % BLOCKS / 64] |= 1 << (block % 64);
        true
    }

    /// Whether all words of `offset..end` are in the set. False if they lie in several blocks, which this
    /// does not examine.
    #[inline]
    pub(crate) fn contains(&self, offset: usize, end: usize) -> bool {
        let (first, last) = (offset / 8, (end - 1) / 8);
        self.bits.get(first / 64).is_some_and(|word| has_all(load(word), first, last))
    }

    /// Whether any word is in the set of the unit of `len` bytes that contains `offset`. The unit is a block
    /// or a line.
    #[inline]
    pub(crate) fn is_begun(&self, offset: usize, len: usize) -> bool {
        let mask = u64::MAX >> (64 - len / 8) << (offset % BLOCK / len * len / 8);
        self.bits.get(offset / BLOCK).is_some_and(|word| load(word) & mask != 0)
    }

    /// Returns the number of successive blocks, up to `most`, directly before the block of `offset`, that
    /// have a word in the set.
    #[inline]
    pub(crate) fn begun_before(&self, offset: usize, most: usize) -> usize {
        let block = offset / BLOCK;
        let is_begun = |&block: &usize| self.bits.get(block).is_some_and(|word| load(word) != 0);
        (block.saturating_sub(most)..block).rev().take_while(is_begun).count()
    }

    /// Empties the set. Calls `line` once for each cache line that has words in it, with the offset of the
    /// first of these words, and the bytes from it to the end of the last.
    pub(crate) fn drain_lines(&mut self, mut line: impl FnMut(usize, usize)) {
        for index in self.used.drain(..) {
            let Some(chunk) = &mut self.chunks[index] else { continue };
            chunk.in_use = false;
            for (i, touched) in chunk.touched.iter_mut().enumerate() {
                let mut set = std::mem::take(touched);
                while set != 0 {
                    let block = index * BLOCKS + i * 64 + set.trailing_zeros() as usize;
                    set &= set - 1;
                    let bits = self.bits.get(block).map_or(0, |word| {
                        let bits = load(word);
                        word.store(0, Ordering::Relaxed);
                        bits
                    });
                    for (j, byte) in bits.to_le_bytes().into_iter().enumerate() {
                        if byte != 0 {
                            let (first, last) = (byte.trailing_zeros(), 7 - byte.leading_zeros());
                            let start = block * BLOCK + j * LINE;
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
    use pheap_testkit::rounds;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(rounds(12)))]
        #[test]
        fn behaves_like_a_set_of_words(
            ranges in prop::collection::vec((0usize..400_000, 1usize..9_000), 1..20),
            far in any::<bool>(),
        ) {
            behaves_like_a_set(WordMap::<OwnBlocks>::default(), &ranges, far)?;
            let table = Arc::new(ZeroedArray::new(8 * BLOCKS, 8 * BLOCKS)?);
            for table in [None, Some(&table)] {
                let mut map = WordMap::<SharedBlocks>::default();
                map.share(table);
                behaves_like_a_set(map, &ranges, far)?;
            }
        }
    }

    fn behaves_like_a_set(
        mut map: WordMap<impl BlockWords>,
        ranges: &[(usize, usize)],
        far: bool,
    ) -> Result<(), TestCaseError> {
        let mut model = BTreeSet::new();
        let mut everything = BTreeSet::new();
        for &(start, len) in ranges {
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
                prop_assert_eq!(map.contains(word * 8 + 5, word * 8 + 6), model.contains(&word));
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
        Ok(())
    }
}
