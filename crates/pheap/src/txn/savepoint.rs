//! Savepoints: what a transaction has changed since one is taken back, and the transaction goes on.
//!
//! A savepoint is a position in a list of what words were before the transaction wrote them since then, as it saw them: wherever it keeps them, in a copy, in their place, in an object
//! of its own, or in memory if it is doomed. To take that back is to write the words again, newest first, as a program would that has kept them. So a savepoint knows nothing of media,
//! logs and records, and they know nothing of it: a crash takes back all of the transaction, as ever.
//!
//! This is the list. What a transaction does with it is in [`nested`](super::nested).

use std::mem::MaybeUninit;

use super::padded::Padded;
use super::word_map::WordMap;
use crate::alloc::Mark;
use crate::faults::{Bug, bug};

/// A word that may be padding.
pub(super) type Word = MaybeUninit<u64>;

/// Memory for so many words is kept.
const FEW: usize = 1 << 13;

/// The savepoints that are open, one within the other, and what is needed to go back to them.
#[derive(Default)]
pub(crate) struct Savepoints {
    open: Vec<Savepoint>,
    /// Runs of words that were written: the offset in the heap, and how many. Then what they were, one after the other.
    runs: Vec<(usize, usize)>,
    words: Vec<Word>,
    /// Here to keep its memory.
    spare: WordMap,
}

/// A savepoint, and what it is to go back to of what is kept elsewhere.
pub(super) struct Savepoint {
    /// How many there were of these.
    runs: usize,
    words: usize,
    /// Words of which it is known what they were.
    saved: WordMap,
    /// Pointers that were held.
    pub(super) held: usize,
    pub(super) allocated: Mark,
    /// Values whose padding was to be zeroed.
    pub(super) padded: Padded,
}

impl Savepoints {
    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Opens a savepoint, within the one that is open, if one is.
    pub(super) fn open(&mut self, held: usize, allocated: Mark, padded: Padded) {
        let saved = std::mem::take(&mut self.spare);
        let (runs, words) = (self.runs.len(), self.words.len());
        self.open.push(Savepoint { runs, words, saved, held, allocated, padded });
    }

    /// The savepoint that was opened last.
    pub(super) fn last(&self) -> Option<&Savepoint> {
        self.open.last()
    }

    /// The same, which is open no more.
    pub(super) fn close(&mut self) -> Option<Savepoint> {
        self.open.pop()
    }

    /// Takes the list back since a savepoint that was closed.
    pub(super) fn take_since(&mut self, mut savepoint: Savepoint) -> Before {
        if !bug(Bug::SavepointKeepsKnown) {
            savepoint.saved.drain_lines(|_, _| {});
        }
        self.spare = savepoint.saved;
        let (runs, words) = (self.runs.split_off(savepoint.runs), self.words.split_off(savepoint.words));
        Before { runs, words }
    }

    /// Notes what the words from the offset `start` of the heap on are now, unless it is known what they were.
    pub(super) fn save(&mut self, start: usize, now: &[Word]) {
        let Savepoints { open, runs, words, .. } = self;
        let Some(savepoint) = open.last_mut() else { return };
        savepoint.saved.insert(start, start + now.len() * 8, |offset, bytes| {
            let first = (offset - start) / 8;
            runs.push((offset, bytes / 8));
            words.extend_from_slice(&now[first..first + bytes / 8]);
        });
    }

    /// Keeps what was changed since a savepoint that was closed. If it was within another one, that can take it back.
    pub(super) fn keep(&mut self, mut savepoint: Savepoint) {
        savepoint.saved.drain_lines(|_, _| {});
        let Some(outer) = self.open.last_mut() else {
            self.runs.clear();
            self.words.clear();
            self.words.shrink_to(FEW);
            self.runs.shrink_to(FEW);
            self.spare = savepoint.saved;
            return;
        };
        // What is known there need not be known twice, or each part of a long loop would leave something.
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

/// What words were before a part of a transaction.
pub(super) struct Before {
    runs: Vec<(usize, usize)>,
    words: Vec<Word>,
}

impl Before {
    /// The runs, the one that was written last first: the offset in the heap, and the words.
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

    /// What is to be written to go back, as numbers.
    fn taken(savepoints: &mut Savepoints) -> Vec<(usize, usize)> {
        let savepoint = savepoints.close().expect("one is open");
        let before = savepoints.take_since(savepoint);
        before.newest_first().map(|(start, words)| (start, words.len())).collect()
    }

    fn open(savepoints: &mut Savepoints) {
        savepoints.open(0, Mark::default(), Padded::default());
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
        // What the outer one knows, it does not take over.
        let inner = savepoints.close().expect("one is open");
        savepoints.keep(inner);
        assert_eq!(taken(&mut savepoints), [(800, 2), (72, 1), (80, 3)]);
        assert!(!savepoints.is_open() && savepoints.words.is_empty() && savepoints.runs.is_empty());
        // A loop of parts leaves no more than one of them.
        open(&mut savepoints);
        for _ in 0..100 {
            open(&mut savepoints);
            savepoints.save(80, &words(&[1]));
            let inner = savepoints.close().expect("one is open");
            savepoints.keep(inner);
        }
        assert_eq!(taken(&mut savepoints), [(80, 1)]);
        // Nor does what is kept for good.
        open(&mut savepoints);
        savepoints.save(80, &words(&[1]));
        let last = savepoints.close().expect("one is open");
        savepoints.keep(last);
        assert!(!savepoints.is_open() && savepoints.words.is_empty() && savepoints.runs.is_empty());
    }
}
