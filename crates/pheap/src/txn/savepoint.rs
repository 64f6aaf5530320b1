//! Savepoints: the changes since a savepoint can be taken back, and the transaction continues.
//!
//! A savepoint is a position in a list of old words: the content, as the transaction saw it before its write,
//! of words that it has written after the savepoint was opened. The words may be in a copy, in place, in a
//! new object, or in DRAM if the transaction is doomed. To go back to the savepoint, the transaction writes
//! the old words again, newest first, as a program could do. So savepoints know nothing of media, logs and
//! records, and these know nothing of savepoints: a crash takes back the whole transaction, as always.
//!
//! This file has the list of old words. [`nested`](super::nested) uses the list.

use std::mem::MaybeUninit;

use super::padded::Padded;
use super::word_map::WordMap;
use crate::alloc::AllocMark;
use crate::faults::{Bug, bug};

/// A word that may be padding, and so may be indefinite.
pub(super) type Word = MaybeUninit<u64>;

/// Number of old words, and number of runs, for which memory is kept when no savepoint is open.
const FEW: usize = 1 << 13;

/// The open savepoints, one within the other, and the old words for going back to them.
#[derive(Default)]
pub(crate) struct Savepoints {
    open: Vec<Savepoint>,
    /// The runs of words that were written since the savepoints were opened: heap offset, and number of
    /// words. `words` has the old content of these runs, one run after the other.
    runs: Vec<(usize, usize)>,
    words: Vec<Word>,
    /// An empty map, kept for its memory.
    spare: WordMap,
}

/// A savepoint, and the state of other parts of the transaction at its opening.
pub(super) struct Savepoint {
    /// Lengths of `Savepoints::runs` and of `Savepoints::words` when this savepoint was opened.
    runs: usize,
    words: usize,
    /// The words whose old content was saved since this savepoint was opened.
    saved: WordMap,
    /// Number of held pointers that the transaction had made when this savepoint was opened.
    pub(super) held: usize,
    pub(super) allocated: AllocMark,
    /// The values whose padding was to be zeroed when this savepoint was opened.
    pub(super) padded: Padded,
}

impl Savepoints {
    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Opens a savepoint, within the newest open one if there is any.
    pub(super) fn open(&mut self, held: usize, allocated: AllocMark, padded: Padded) {
        let saved = std::mem::take(&mut self.spare);
        let (runs, words) = (self.runs.len(), self.words.len());
        self.open.push(Savepoint { runs, words, saved, held, allocated, padded });
    }

    /// Returns the newest open savepoint.
    pub(super) fn last(&self) -> Option<&Savepoint> {
        self.open.last()
    }

    /// Removes and returns the newest open savepoint.
    pub(super) fn close(&mut self) -> Option<Savepoint> {
        self.open.pop()
    }

    /// Removes and returns the old words that were saved since `savepoint` was opened. The caller has closed
    /// it.
    pub(super) fn take_since(&mut self, mut savepoint: Savepoint) -> BeforeImage {
        if !bug(Bug::SavepointKeepsKnown) {
            savepoint.saved.drain_lines(|_, _| {});
        }
        self.spare = savepoint.saved;
        let (runs, words) = (self.runs.split_off(savepoint.runs), self.words.split_off(savepoint.words));
        BeforeImage { runs, words }
    }

    /// Saves the present words from heap offset `start` on, except words whose old content was saved already
    /// for the newest savepoint.
    pub(super) fn save(&mut self, start: usize, now: &[Word]) {
        let Savepoints { open, runs, words, .. } = self;
        let Some(savepoint) = open.last_mut() else { return };
        savepoint.saved.insert(start, start + now.len() * 8, |offset, bytes| {
            let first = (offset - start) / 8;
            runs.push((offset, bytes / 8));
            words.extend_from_slice(&now[first..first + bytes / 8]);
        });
    }

    /// Keeps the changes since `savepoint` was opened. The caller has closed it. An outer savepoint, if there
    /// is one, can still take the changes back.
    pub(super) fn merge_into_outer(&mut self, mut savepoint: Savepoint) {
        savepoint.saved.drain_lines(|_, _| {});
        let Some(outer) = self.open.last_mut() else {
            self.runs.clear();
            self.words.clear();
            self.words.shrink_to(FEW);
            self.runs.shrink_to(FEW);
            self.spare = savepoint.saved;
            return;
        };
        // Old words that the inner savepoint has saved are dropped here if the outer savepoint has saved the
        // same words before. Otherwise each round of a long loop would leave some.
        let runs = self.runs.split_off(savepoint.runs);
        let words = self.words.split_off(savepoint.words);
        let mut first = 0;
        for (start, count) in runs {
            outer.saved.insert(start, start + count * 8, |offset, bytes| {
                let at = first + (offset - start) / 8;
                self.runs.push((offset, bytes / 8));
                self.words.extend_from_slice(&words[at..at + bytes / 8]);
            });
            first += count;
        }
    }
}

/// The old content of words that a part of a transaction has written.
pub(super) struct BeforeImage {
    runs: Vec<(usize, usize)>,
    words: Vec<Word>,
}

impl BeforeImage {
    /// Returns the runs, newest first: heap offset, and words.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = (usize, &[Word])> {
        let mut rest = &self.words[..];
        self.runs.iter().rev().map(move |&(start, count)| {
            let words;
            (rest, words) = rest.split_at(rest.len() - count);
            (start, words)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u64]) -> Vec<Word> {
        words.iter().map(|&word| Word::new(word)).collect()
    }

    /// Returns the runs that would be written to go back: heap offset, and number of words.
    fn taken(savepoints: &mut Savepoints) -> Vec<(usize, usize)> {
        let savepoint = savepoints.close().expect("one is open");
        let before = savepoints.take_since(savepoint);
        before.newest_first().map(|(start, words)| (start, words.len())).collect()
    }

    fn open(savepoints: &mut Savepoints) {
        savepoints.open(0, AllocMark::default(), Padded::default());
    }

    #[test]
    fn each_word_is_noted_once_for_each_savepoint() {
        let mut savepoints = Savepoints::default();
        open(&mut savepoints);
        savepoints.save(80, &words(&[1, 2, 3]));
        savepoints.save(72, &words(&[0, 1, 2]));
        open(&mut savepoints);
        savepoints.save(80, &words(&[7]));
        savepoints.save(800, &words(&[8, 9]));
        // The outer savepoint does not take over words that it has saved itself.
        let inner = savepoints.close().expect("one is open");
        savepoints.merge_into_outer(inner);
        assert_eq!(taken(&mut savepoints), [(800, 2), (72, 1), (80, 3)]);
        assert!(!savepoints.is_open() && savepoints.words.is_empty() && savepoints.runs.is_empty());
        // A loop whose rounds have nested savepoints leaves no more old words than one round.
        open(&mut savepoints);
        for _ in 0..100 {
            open(&mut savepoints);
            savepoints.save(80, &words(&[1]));
            let inner = savepoints.close().expect("one is open");
            savepoints.merge_into_outer(inner);
        }
        assert_eq!(taken(&mut savepoints), [(80, 1)]);
        // If there is no outer savepoint, nothing is left.
        open(&mut savepoints);
        savepoints.save(80, &words(&[1]));
        let last = savepoints.close().expect("one is open");
        savepoints.merge_into_outer(last);
        assert!(!savepoints.is_open() && savepoints.words.is_empty() && savepoints.runs.is_empty());
    }
}
