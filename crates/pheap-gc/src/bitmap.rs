//! Bitmaps for the slots of a heap: allocation bits and mark bits.
//!
//! All operations work on whole words. The words are relaxed atomics. Several threads may call
//! [`set_shared`](Bitmap::set_shared) at once; while a thread calls another operation that changes bits, no
//! other thread may change any. The caller orders accesses to a map with other memory, for instance by a
//! lock.
//!
//! A bit that is tested or set by its number must be less than the length of the map. Otherwise debug builds
//! panic; release builds panic or give wrong answers.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const BITS: usize = u64::BITS as usize;

/// A map of the bits 0 to `len`, exclusive. Allocates no memory until a bit is set, or bits are loaded or
/// copied.
pub struct Bitmap {
    /// The words with the bits, unset until memory is allocated. The bits from `len` on in the last word are
    /// zero.
    words: OnceLock<Box<[AtomicU64]>>,
    len: usize,
}

impl Bitmap {
    /// Returns a map of `len` zeros.
    pub fn new(len: usize) -> Bitmap {
        Bitmap { words: OnceLock::new(), len }
    }

    /// Returns the number of bits in the map.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the length of the map is 0.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether the bit is set.
    #[inline]
    pub fn test(&self, bit: usize) -> bool {
        debug_assert!(bit < self.len, "bit {bit} of {}", self.len);
        self.stored().get(bit / BITS).is_some_and(|word| word.load(Relaxed) >> (bit % BITS) & 1 != 0)
    }

    /// Sets a bit. No other thread may change any bit at the same time. Returns whether the bit was zero.
    #[inline]
    pub fn set(&self, bit: usize) -> bool {
        let word = self.word_of(bit);
        let (old, mask) = (word.load(Relaxed), 1 << (bit % BITS));
        if old & mask != 0 {
            return false;
        }
        word.store(old | mask, Relaxed);
        true
    }

    /// Sets a bit. Other threads may call `set_shared` at the same time. Returns whether the bit was zero: of
    /// several threads that set it, exactly one gets true.
    #[inline]
    pub fn set_shared(&self, bit: usize) -> bool {
        let word = self.word_of(bit);
        let mask = 1 << (bit % BITS);
        // Most bits are set already: a load keeps the cache line shared, which a `fetch_or` would not.
        word.load(Relaxed) & mask == 0 && word.fetch_or(mask, Relaxed) & mask == 0
    }

    /// Sets `count` bits from `first` on. No other thread may change any bit at the same time.
    ///
    /// # Panics
    /// If `first + count` exceeds the length.
    #[inline]
    pub fn set_range(&self, first: usize, count: usize) {
        self.change(first, count, |word, mask| word | mask);
    }

    /// Clears `count` bits from `first` on. No other thread may change any bit at the same time.
    ///
    /// # Panics
    /// If `first + count` exceeds the length.
    #[inline]
    pub fn clear_range(&self, first: usize, count: usize) {
        self.change(first, count, |word, mask| word & !mask);
    }

    /// Returns the number of set bits.
    #[inline]
    pub fn count_ones(&self) -> usize {
        self.stored().iter().map(|word| word.load(Relaxed).count_ones() as usize).sum()
    }

    /// Returns the first zero bit from `from` on, and the number of zeros from it to the next set bit or the
    /// end.
    #[inline]
    pub fn next_free_run(&self, from: usize) -> Option<(usize, usize)> {
        let start = self.find(from, |word| !word)?;
        Some((start, self.find(start, |word| word).unwrap_or(self.len) - start))
    }

    /// Iterates over the numbers of the set bits, in order. Bits set during the iteration may be missing.
    #[inline]
    pub fn ones(&self) -> impl Iterator<Item = usize> + '_ {
        self.stored()
            .iter()
            .enumerate()
            .flat_map(|(i, word)| Ones { word: word.load(Relaxed), first: i * BITS })
    }

    /// Clears all bits. No other thread may change any bit at the same time.
    #[inline]
    pub fn clear(&self) {
        self.stored().iter().for_each(|word| word.store(0, Relaxed));
    }

    /// Copies the bits of a map of the same length. No other thread may change either map at the same time.
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    pub fn copy_from(&self, from: &Bitmap) {
        assert_eq!(self.len, from.len, "bitmaps differ in length");
        match from.stored() {
            [] => self.clear(),
            from => self.all().iter().zip(from).for_each(|(to, from)| to.store(from.load(Relaxed), Relaxed)),
        }
    }

    /// Iterates over the words: 64 bits each, the first bit in the lowest place. Bits from `len` on are zero.
    #[inline]
    pub fn words(&self) -> impl Iterator<Item = u64> + '_ {
        let stored = self.stored();
        let rest = std::iter::repeat_n(0, self.len.div_ceil(BITS) - stored.len());
        stored.iter().map(|word| word.load(Relaxed)).chain(rest)
    }

    /// Copies the bits from [`words`](Self::words) and drops those from `len` on. No other thread may change
    /// any bit at the same time.
    ///
    /// # Panics
    /// If `words` has more or fewer words than a map of this length.
    pub fn load(&self, words: &[u64]) {
        assert_eq!(self.len.div_ceil(BITS), words.len(), "bitmaps differ in length");
        self.all().iter().zip(words).for_each(|(to, &from)| to.store(from, Relaxed));
        if !self.len.is_multiple_of(BITS)
            && let Some(last) = self.all().last()
        {
            last.store(last.load(Relaxed) & ones_below(self.len % BITS), Relaxed);
        }
    }

    #[inline(always)]
    fn word_of(&self, bit: usize) -> &AtomicU64 {
        debug_assert!(bit < self.len, "bit {bit} of {}", self.len);
        &self.all()[bit / BITS]
    }

    /// Returns the words, or none if no memory is allocated yet. All bits are zero then.
    #[inline(always)]
    fn stored(&self) -> &[AtomicU64] {
        self.words.get().map_or(&[], |words| words)
    }

    /// Returns the words. Allocates them first if necessary.
    #[inline(always)]
    fn all(&self) -> &[AtomicU64] {
        self.words.get_or_init(|| (0..self.len.div_ceil(BITS)).map(|_| AtomicU64::new(0)).collect())
    }

    /// Applies `change` to each word of a range of bits, with the mask of the word's bits in the range.
    #[inline]
    fn change(&self, first: usize, count: usize, change: impl Fn(u64, u64) -> u64) {
        assert!(
            first <= self.len && count <= self.len - first,
            "{count} bits from {first} on, of {}",
            self.len
        );
        let changes_zeros = change(0, u64::MAX) != 0;
        if count == 0 || !changes_zeros && self.stored().is_empty() {
            return;
        }
        let words = self.all();
        let (head, last) = (first / BITS, (first + count - 1) / BITS);
        let from = u64::MAX << (first % BITS);
        let to = u64::MAX >> (BITS - 1 - (first + count - 1) % BITS);
        let apply = |word: &AtomicU64, mask| word.store(change(word.load(Relaxed), mask), Relaxed);
        if head == last {
            return apply(&words[head], from & to);
        }
        apply(&words[head], from);
        words[head + 1..last].iter().for_each(|word| apply(word, u64::MAX));
        apply(&words[last], to);
    }

    /// Returns the number of the first bit from `from` on that is set in its word after `view` has changed
    /// the word. With a negation as `view`, that is the first zero.
    #[inline]
    fn find(&self, from: usize, view: impl Fn(u64) -> u64) -> Option<usize> {
        let stored = self.stored();
        if stored.is_empty() {
            return (view(0) != 0 && from < self.len).then_some(from);
        }
        let words = stored.get(from / BITS..)?;
        let mut mask = u64::MAX << (from % BITS);
        for (i, word) in words.iter().enumerate() {
            let found = view(word.load(Relaxed)) & mask;
            if found != 0 {
                let bit = (from / BITS + i) * BITS + found.trailing_zeros() as usize;
                return (bit < self.len).then_some(bit);
            }
            mask = u64::MAX;
        }
        None
    }
}

impl fmt::Debug for Bitmap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bitmap({} of {})", self.count_ones(), self.len)
    }
}

/// Returns a word with ones in the `count` lowest places. `count` must be less than 64.
fn ones_below(count: usize) -> u64 {
    (1 << count) - 1
}

/// Iterates over the set bits of a word. `first` is the number of its lowest bit.
struct Ones {
    word: u64,
    first: usize,
}

impl Iterator for Ones {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let bit = (self.word != 0).then(|| self.first + self.word.trailing_zeros() as usize)?;
        self.word &= self.word - 1;
        Some(bit)
    }
}
