//! Savepoints: what a transaction has changed since one is taken back, and the transaction goes on.
//!
//! A savepoint is a position in a list of what words were before the transaction wrote them since then, as it saw them: wherever it keeps them, in a copy, in their place, in an object
//! of its own, or in memory if it is doomed. To take that back is to write the words again, newest first, as a program would that has kept them. So a savepoint knows nothing of media,
//! logs and records, and they know nothing of it: a crash takes back all of the transaction, as ever.
//!
//! While a savepoint is open, each store asks [`Context::writable`], unless [`recent`](super::recent) knows the place; and that knows only what was asked for since the savepoint.

#![allow(unsafe_code)]
#![expect(clippy::multiple_unsafe_ops_per_block, reason = "a block is about one context, which is borrowed piece by piece")]

use std::mem::MaybeUninit;

use super::context::{Context, Mode};
use super::padded::Padded;
use super::word_map::WordMap;
use crate::alloc::Mark;
use crate::faults::{Bug, bug};
use crate::layout::Padding;

/// A word that may be padding.
type Word = MaybeUninit<u64>;

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

struct Savepoint {
    /// How many there were of these.
    runs: usize,
    words: usize,
    held: usize,
    allocated: Mark,
    /// Words of which it is known what they were.
    saved: WordMap,
    /// What had been noted before.
    padded: Padded,
}

impl Savepoints {
    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Notes what words are, unless that is known: so many bytes of the heap from `start` on, which are at `place` now.
    ///
    /// # Safety
    /// So many bytes are at `place`, and nobody writes to them. All are whole words.
    unsafe fn save(&mut self, start: usize, place: *const u8, len: usize) {
        let Savepoints { open, runs, words, .. } = self;
        let Some(savepoint) = open.last_mut() else { return };
        savepoint.saved.insert(start, start + len, |offset, bytes| {
            let from = place.wrapping_add(offset - start).cast::<Word>();
            runs.push((offset, bytes / 8));
            // SAFETY: a part of what is at `place`, the caller's premise: whole words.
            words.extend_from_slice(unsafe { std::slice::from_raw_parts(from, bytes / 8) });
        });
    }

    /// Closes the savepoint that was opened last, whose changes stay. If it was within another one, that can take them back.
    fn keep(&mut self, mut savepoint: Savepoint) {
        savepoint.saved.drain_lines(|_| {});
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

/// The premises of [`Context::writable`].
impl Context {
    /// Opens a savepoint.
    pub(crate) fn open_savepoint(&mut self) {
        let savepoint = Savepoint {
            runs: self.savepoints.runs.len(),
            words: self.savepoints.words.len(),
            held: self.held.len(),
            allocated: self.alloc.mark(),
            saved: std::mem::take(&mut self.savepoints.spare),
            padded: std::mem::take(&mut self.padded),
        };
        self.savepoints.open.push(savepoint);
        if !bug(Bug::RecentAfterSavepoint) {
            self.hot().recent.forget();
        }
    }

    /// Closes the savepoint that was opened last. What has changed since then stays.
    pub(crate) fn keep_changes(&mut self) {
        let Some(mut savepoint) = self.savepoints.open.pop() else { return };
        let inside = std::mem::replace(&mut self.padded, std::mem::take(&mut savepoint.padded));
        inside.iter().for_each(|(addr, padding)| self.padded.add(addr, padding));
        self.savepoints.keep(savepoint);
    }

    /// Closes the savepoint that was opened last without another look at it: its transaction is taken back as a whole.
    pub(crate) fn drop_savepoint(&mut self) {
        self.savepoints.open.pop();
    }

    /// Takes back what has changed since the savepoint was opened that was opened last, and closes it. Returns the slots of pointers that were held since.
    pub(crate) unsafe fn take_changes_back(cx: *mut Context) -> Vec<u32> {
        // SAFETY: the context is there, and nobody else's. What was written is the transaction's to write again: nobody has a reference to it.
        unsafe {
            let Some(savepoint) = (*cx).savepoints.open.pop() else { return Vec::new() };
            let Savepoint { runs, words, held, allocated, mut saved, padded } = savepoint;
            // What is left of it as garbage is to have no padding, either, and soon values may be no values of their types.
            if (*cx).mode != Mode::Doomed {
                (*cx).write_back_copies();
                (*cx).zero_padding();
            }
            (*cx).padded = padded;
            let runs = (*cx).savepoints.runs.split_off(runs);
            let mut words = (*cx).savepoints.words.split_off(words);
            for (start, count) in runs.into_iter().rev() {
                let first = words.len() - count;
                let place = Context::writable_now(cx, (*cx).base() + start, count * 8, 8, None);
                place.cast::<Word>().copy_from_nonoverlapping(words[first..].as_ptr(), count);
                words.truncate(first);
            }
            saved.drain_lines(|_| {});
            (*cx).savepoints.spare = saved;
            if !bug(Bug::SavepointKeepsFrees) {
                (*cx).alloc.take_back_frees(allocated);
            }
            (*cx).ahead.clear();
            // What was asked for since is not what was asked for since the savepoint around.
            (*cx).hot().recent.forget();
            (*cx).held.split_off(held)
        }
    }

    /// [`writable`](Self::writable) while a savepoint is open.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn writable_since_savepoint(
        cx: *mut Context,
        addr: usize,
        len: usize,
        align: usize,
        padding: Option<Padding>,
    ) -> *mut u8 {
        if len == 0 {
            return std::ptr::with_exposed_provenance_mut(addr);
        }
        // Whole words, for what they were is kept by the word. They belong to the same object, and are in the same copy.
        let (start, end) = (addr & !7, (addr + len).next_multiple_of(8));
        // SAFETY: the premises of `writable`, but that the words may have a byte more than the value, of the same object.
        unsafe {
            let place = Context::writable_now(cx, start, end - start, align.max(8), None);
            (*cx).save_words(start, place, end - start);
            let place = place.wrapping_add(addr - start);
            (*cx).note_padding(addr, padding);
            if (*cx).mode != Mode::Doomed {
                (*cx).hot().recent.note(addr, len, place);
            }
            place
        }
    }

    /// Makes the transaction able to go back to its last savepoint, if one is open, although these bytes of an object of its own are about to be changed where they are.
    pub(crate) fn save_in_place(&mut self, addr: usize, len: usize) {
        if self.savepoints.is_open() {
            // SAFETY: an object of the transaction's own is where its address says, and nobody else has it.
            unsafe { self.save_words(addr, std::ptr::with_exposed_provenance(addr), len.next_multiple_of(8)) };
        }
    }

    /// # Safety
    /// So many bytes, which are whole words, are at `place`, and nobody writes to them.
    unsafe fn save_words(&mut self, addr: usize, place: *const u8, len: usize) {
        let Some(savepoint) = self.savepoints.open.last() else { return };
        // Nobody can have a pointer to what was allocated since, when that is taken back.
        if self.alloc.is_fresh_since(addr, savepoint.allocated) {
            return;
        }
        if bug(Bug::SavepointForgetsFresh) && self.alloc.is_fresh(addr) {
            return;
        }
        let start = addr - self.base();
        // SAFETY: the caller's premise.
        unsafe { self.savepoints.save(start, place, len) };
    }
}
