//! Bitmaps for slots: which are taken, which are marked.
//!
//! All operations work on whole words. Words are atomic, and relaxed: one thread at a time may use any operation, several may use
//! [`test`](Bitmap::test) and [`set_shared`](Bitmap::set_shared) at once. What orders them with everything else (a lock, for
//! instance) is up to the user.
//!
//! A bit that is asked for must exist. Debug builds panic otherwise; others may, or give any answer.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const BITS: usize = u64::BITS as usize;

/// Bits with the numbers 0 to `len`, exclusive. They take no memory until one is set, or bits are loaded.
pub struct Bitmap {
    /// Bits behind the last one are zero.
    words: OnceLock<Box<[AtomicU64]>>,
    len: usize,
}

impl Bitmap {
    /// Zeros.
    pub fn new(len: usize) -> Bitmap {
        Bitmap { words: OnceLock::new(), len }
    }

    /// How many bits there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bits at all.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the bit is set.
    #[inline]
    pub fn test(&self, bit: usize) -> bool {
        debug_assert!(bit < self.len, "bit {bit} of {}", self.len);
        self.stored().get(bit / BITS).is_some_and(|word| word.load(Relaxed) >> (bit % BITS) & 1 != 0)
    }

    /// Sets a bit, while no other thread changes any. Returns whether it was zero.
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

    /// Sets a bit, while others may do the same. Returns whether it was zero: of several threads, one is told so.
    #[inline]
    pub fn set_shared(&self, bit: usize) -> bool {
        let word = self.word_of(bit);
        let mask = 1 << (bit % BITS);
        // Most are set: looking first keeps the line shared.
        word.load(Relaxed) & mask == 0 && word.fetch_or(mask, Relaxed) & mask == 0
    }

    /// Sets `count` bits from `first` on, while no other thread changes any.
    ///
    /// # Panics
    /// If the map ends before.
    #[inline]
    pub fn set_range(&self, first: usize, count: usize) {
        self.change(first, count, |word, mask| word | mask);
    }

    /// Clears `count` bits from `first` on, while no other thread changes any.
    ///
    /// # Panics
    /// If the map ends before.
    #[inline]
    pub fn clear_range(&self, first: usize, count: usize) {
        self.change(first, count, |word, mask| word & !mask);
    }

    /// How many bits are set.
    #[inline]
    pub fn count_ones(&self) -> usize {
        self.stored().iter().map(|word| word.load(Relaxed).count_ones() as usize).sum()
    }

    /// The first bit from `from` on that is zero, and how many zeros there are from it up to the next one bit or the end.
    #[inline]
    pub fn next_free_run(&self, from: usize) -> Option<(usize, usize)> {
        let start = self.find(from, |word| !word)?;
        Some((start, self.find(start, |word| word).unwrap_or(self.len) - start))
    }

    /// The numbers of the bits that are set, in order. Bits that are set meanwhile may be missing.
    #[inline]
    pub fn ones(&self) -> impl Iterator<Item = usize> + '_ {
        self.stored()
            .iter()
            .enumerate()
            .flat_map(|(i, word)| Ones { word: word.load(Relaxed), first: i * BITS })
    }

    /// Clears all bits, while no other thread changes any.
    #[inline]
    pub fn clear(&self) {
        self.stored().iter().for_each(|word| word.store(0, Relaxed));
    }

    /// Takes over the bits of a map of the same length, while no other thread changes any.
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

    /// The bits, 64 a word, the first in the lowest place. What the last word has beyond them is zero.
    #[inline]
    pub fn words(&self) -> impl Iterator<Item = u64> + '_ {
        let stored = self.stored();
        let rest = std::iter::repeat_n(0, self.len.div_ceil(BITS) - stored.len());
        stored.iter().map(|word| word.load(Relaxed)).chain(rest)
    }

    /// Takes over bits from [`words`](Self::words), while no other thread changes any. Bits of the last word beyond the map are left out.
    ///
    /// # Panics
    /// If the number of words is not that of a map of this length.
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

    /// The words, or none if they take no memory.
    #[inline(always)]
    fn stored(&self) -> &[AtomicU64] {
        self.words.get().map_or(&[], |words| words)
    }

    /// The words.
    #[inline(always)]
    fn all(&self) -> &[AtomicU64] {
        self.words.get_or_init(|| (0..self.len.div_ceil(BITS)).map(|_| AtomicU64::new(0)).collect())
    }

    /// Applies `change` to the words of a range of bits, with the mask of those that belong to it.
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

    /// The first bit from `from` on that is set in the words that `view` makes of those of the map.
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

/// A word with `count` ones in the lowest places; `count` is less than 64.
fn ones_below(count: usize) -> u64 {
    (1 << count) - 1
}

/// The bits of a word.
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
