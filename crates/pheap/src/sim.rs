//! A memory that keeps track of the words that a power failure may leave.
//!
//! The model: memory is words of 8 bytes in lines of 64. A word reaches the medium whole or not at all. A
//! flush takes the content that the line has at that moment, and a fence makes all flushed content durable
//! (if threads are scheduled, what its own thread has flushed). Any subset of the words that are stored and
//! not yet durable may have reached the medium at any time, because caches evict lines freely. This is also
//! what `microsoft/verified-storage` assumes. If a word was stored several times since it was last durable,
//! the medium may have any of these values, independently of other words: an evicted line can become dirty
//! again.
//!
//! The simulator keeps the durable image apart from the mapped one. It notes a [`Point`] before each event
//! of the running heap that makes words durable (a fence, a locked instruction, a sync of the file), and at
//! each acknowledgement.
//! Between two points the set of possible images only grows, so these points show all of them. Stores by the
//! program itself (`&mut T`) are found by comparing. If a word changes that the transaction has not
//! announced, that is a violation.
//!
//! This module knows words and sectors. It must not know what they mean.

mod base;
pub mod disk;
mod source;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use xxhash_rust::xxh3::Xxh3;

pub use self::base::base;
pub use crate::faults::Bug;
pub use crate::faults::mutant::{self, seeded_bug, set_bug};
use crate::os::cpu::bytes;
use crate::os::reservation::MappedWords;
use crate::os::simulated::SimulatedMemory;
pub use crate::sync::Mistake;
pub use crate::sync::schedule::{Scheduler, THREADS, is_late, pass_fence, schedule, set_mistake, step};
use crate::sync::schedule::{StoreMoment, me};
pub use crate::tuning::Tuning;
use crate::units::{LINE, LINE_WORDS, lines};
pub(crate) use source::SimSource;

/// Number of words that are compared at a time.
const CHUNK: usize = 512;

/// A moment at which the power may fail.
#[derive(Debug, Clone)]
pub struct Point {
    /// Words (number, value) that became durable since the point before.
    pub durable: Vec<(u32, u64)>,
    /// Words (number, value) that may have reached the medium: any subset; of two entries of one word, the
    /// later one wins. The entries of a word follow one another, oldest value first.
    pub pending: Vec<(u32, u64)>,
    /// The time of the store of each entry of `pending`, as a count of stores. A store by the program itself
    /// counts at the time at which the simulator has found it; the stores that one comparison finds count as
    /// one. A process that is killed leaves all stores up to some time.
    pub order: Vec<u32>,
    /// The count of stores at the point before. A process that is killed at this point or later leaves at
    /// least the stores up to that count.
    pub before: u32,
    /// Length of the medium in words.
    pub words: usize,
    /// Number of acknowledged operations; see [`Sim::acknowledge`].
    pub acknowledged: usize,
    /// Name of the event, for people.
    pub at: &'static str,
}

/// The simulated medium of one heap.
#[derive(Debug)]
pub struct Sim {
    state: Mutex<SimState>,
}

#[derive(Debug, Default)]
struct SimState {
    /// The place where the medium is mapped.
    place: Option<MappedWords>,
    durable: Vec<u64>,
    /// Content of the file behind the end of the heap, left by an interrupted growth or by a
    /// [cut](Sim::truncate).
    tail: Vec<u64>,
    /// The mapped image, as it was when each word was last compared.
    seen: Vec<u64>,
    /// The values of each word that was stored since it was last durable.
    pending: BTreeMap<u32, WordHistory>,
    /// Words that were flushed, and are not durable yet.
    in_flight: Vec<PendingWriteBack>,
    fresh_durable: BTreeMap<u32, u64>,
    /// Ranges of words (start, end) that the program has announced to change by plain stores, each with the
    /// thread that has announced it, if threads are scheduled.
    expected: Vec<(usize, usize, Option<usize>)>,
    points: Vec<Point>,
    /// Number of stores so far, and number of stores at the last point. A comparison counts as a store, too.
    stores: u32,
    before: u32,
    /// Whether no points are noted.
    silent: bool,
    acknowledged: usize,
    violations: Vec<String>,
}

/// The values of a word, oldest first.
#[derive(Debug, Default)]
struct WordHistory {
    values: Vec<u64>,
    /// The time of each store, as a count of stores.
    order: Vec<u32>,
}

/// A word that was flushed, and is being written back.
#[derive(Debug)]
struct PendingWriteBack {
    word: u32,
    /// The count of stores at the flush. Later stores to the word were not flushed.
    until: u32,
    /// The scheduled thread that has flushed the word, and the moment: the next fence of that thread makes
    /// the word durable. `None` without a scheduler: any fence makes the word durable.
    late: Option<StoreMoment>,
}

impl Sim {
    /// Creates a medium on which `image` (whole words) is durable.
    pub fn new(image: Vec<u64>) -> Sim {
        let seen = image.clone();
        Sim { state: Mutex::new(SimState { durable: image, seen, ..SimState::default() }) }
    }

    /// Creates a medium as a killed process has left it: `image` is durable. The stores of the process after
    /// that, `pending` (word, value) in order, can be read, and are not durable.
    pub fn with_pending(image: Vec<u64>, pending: &[(u32, u64)]) -> Sim {
        let sim = Sim::new(image);
        let mut state = sim.lock();
        for &(word, value) in pending {
            state.record_value(word as usize, value);
        }
        drop(state);
        sim
    }

    fn lock(&self) -> MutexGuard<'_, SimState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Notes that `n` operations have been acknowledged. Also notes a point, unless the medium is
    /// [silent](Self::be_silent). The heap must be open, or must not have been opened yet.
    pub fn acknowledge(&self, n: usize) {
        let mut state = self.lock();
        state.settle();
        state.acknowledged = n;
        if !state.silent {
            state.find_stores();
            state.point("acknowledgement");
        }
    }

    /// Notes no points from now on.
    pub fn be_silent(&self) {
        self.lock().silent = true;
    }

    /// Returns the points that were noted so far, and forgets them.
    pub fn take_points(&self) -> Vec<Point> {
        std::mem::take(&mut self.lock().points)
    }

    /// Finds the stores of the program. A store that was not announced is a violation. The heap must be open,
    /// or must not have been opened yet.
    pub fn look(&self) {
        self.lock().find_stores();
    }

    /// Returns a message for each change of a word that was found and was not announced.
    pub fn violations(&self) -> Vec<String> {
        self.lock().violations.clone()
    }

    /// Returns the durable content of the file, including that behind the end of the heap.
    pub fn durable(&self) -> Vec<u64> {
        let state = self.lock();
        [&state.durable[..], &state.tail].concat()
    }

    /// Returns a hash of what the medium may have from now on: of the durable words, and of those that may
    /// become durable.
    pub fn digest(&self) -> u64 {
        let state = self.lock();
        let mut hasher = Xxh3::new();
        let mut add = |word: u64| hasher.update(&word.to_le_bytes());
        add(state.durable.len() as u64);
        for (&word, history) in &state.pending {
            add(u64::from(word) << 32 | history.values.len() as u64);
            history.values.iter().copied().for_each(&mut add);
        }
        hasher.update(bytes(&state.durable));
        // Zeros at the end of the tail are left out: they are the same as no content.
        let tail = state.tail.len() - state.tail.iter().rev().take_while(|word| **word == 0).count();
        hasher.update(bytes(&state.tail[..tail]));
        hasher.digest()
    }

    /// Returns the length of the medium in bytes, including content behind the end of the heap.
    pub(crate) fn len(&self) -> u64 {
        let state = self.lock();
        (state.durable.len() + state.tail.len()) as u64 * 8
    }

    /// Copies the content that can be read from `offset` on (whole words) to `place`. Behind the end of the
    /// content, `place` gets zeros.
    pub(crate) fn read(&self, place: &mut [u8], offset: u64) {
        let state = self.lock();
        let from = state.seen.len().min(offset as usize / 8);
        let have = bytes(&state.seen[from..]);
        let have = &have[..have.len().min(place.len())];
        place[..have.len()].copy_from_slice(have);
        place[have.len()..].fill(0);
    }

    /// Returns whether all words of the file from `offset` on can be read as zeros, those behind the end of
    /// the heap included.
    pub(crate) fn is_zero_from(&self, offset: u64) -> bool {
        let (state, first) = (self.lock(), offset as usize / 8);
        let mut pending = state.pending.range(first as u32..);
        state.durable.iter().chain(&state.tail).skip(first).all(|&word| word == 0)
            && pending.all(|(_, history)| history.values.last().is_none_or(|&value| value == 0))
    }

    /// Makes the heap `words` words long, if it is longer. The content behind that stays in the file, and
    /// comes back when the heap grows over it. But if `words` is 0, the file becomes empty.
    pub(crate) fn truncate(&self, words: usize) {
        let mut state = self.lock();
        if words == 0 {
            let held: Vec<u32> =
                (0..).zip(&state.durable).filter(|(_, value)| **value != 0).map(|(w, _)| w).collect();
            state.fresh_durable.extend(held.into_iter().map(|word| (word, 0)));
            state.durable.clear();
            state.tail.clear();
        } else if words < state.durable.len() {
            // The stores of a killed process behind the new end can be read as long as the system runs, so
            // they count as durable.
            state.look_away(words);
            let tail = state.durable.split_off(words);
            state.tail.splice(0..0, tail);
        }
        state.pending.retain(|word, _| (*word as usize) < words);
        let words = state.durable.len();
        state.seen.truncate(words);
    }

    /// Makes all stores durable, as the kernel does in a sync.
    pub(crate) fn sync(&self) {
        let mut state = self.lock();
        state.point("sync of the file");
        let SimState { pending, in_flight, durable, fresh_durable, .. } = &mut *state;
        in_flight.clear();
        for (word, history) in std::mem::take(pending) {
            if let Some(&value) = history.values.last()
                && durable[word as usize] != value
            {
                durable[word as usize] = value;
                fresh_durable.insert(word, value);
            }
        }
    }
}

impl SimulatedMemory for Sim {
    fn mapped(&self, place: MappedWords) {
        let mut state = self.lock();
        state.place = Some(place);
        let (old, new) = (state.durable.len(), place.as_slice().len());
        if new <= old {
            return;
        }
        let from_tail = state.tail.len().min(new - old);
        let tail: Vec<u64> = state.tail.drain(..from_tail).collect();
        tail.iter()
            .enumerate()
            .filter(|(_, word)| **word != 0)
            .for_each(|(i, &word)| place.write(old + i, word));
        state.durable.extend(tail);
        state.durable.resize(new, 0);
        let SimState { durable, seen, .. } = &mut *state;
        seen.extend_from_slice(&durable[old..]);
    }

    fn store(&self, dst: *const u8, len: usize, copy: &mut dyn FnMut()) {
        if len == 0 {
            return;
        }
        let mut state = self.lock();
        state.settle();
        let (first, last) = (state.word_index(dst.addr()), state.word_index(dst.addr() + len - 1));
        state.look_at(first, last + 1);
        copy();
        for word in first..=last {
            let value = state.mapped_words(word, word + 1)[0];
            if value != state.seen[word] {
                state.stores += 1;
                state.record_value(word, value);
            }
        }
    }

    fn flush(&self, addr: *const u8, len: usize) {
        let mut state = self.lock();
        state.settle();
        let late = me().map(StoreMoment::new);
        for line in lines(addr.addr(), len) {
            let first = state.word_index(line);
            let end = (first + LINE_WORDS).min(state.seen.len());
            state.look_at(first, end);
            let SimState { pending, in_flight, stores, .. } = &mut *state;
            let words = pending.range(first as u32..end as u32).map(|(&word, _)| word);
            in_flight.extend(words.map(|word| PendingWriteBack { word, until: *stores, late }));
        }
    }

    fn fence(&self) {
        let mut state = self.lock();
        state.settle();
        state.look_at_expected();
        state.point("fence");
        let me = me();
        state.make_durable(|late| late.is_none_or(|late| me.is_some_and(|me| late.is_of(me))));
    }

    fn expect_stores(&self, addr: *const u8, len: usize) {
        let mut state = self.lock();
        let start = state.word_index(addr as usize);
        let end = state.word_index(addr as usize + len + 7).min(state.seen.len());
        // A change of these words before this announcement is a violation, so it is looked for first.
        state.look_at(start, end);
        state.expected.push((start, end, me()));
    }

    fn no_more_stores(&self) {
        let mut state = self.lock();
        let me = me();
        if state.expected.iter().any(|expected| expected.2 == me) {
            state.find_stores();
            state.expected.retain(|expected| expected.2 != me);
        }
    }
}

impl SimState {
    /// Counts all stores to the words behind the first `words` as durable.
    fn look_away(&mut self, words: usize) {
        let SimState { seen, durable, fresh_durable, .. } = self;
        for word in words..durable.len() {
            if durable[word] != seen[word] {
                durable[word] = seen[word];
                fresh_durable.insert(word as u32, seen[word]);
            }
        }
    }

    fn word_index(&self, addr: usize) -> usize {
        (addr - self.place.expect("it is mapped").start()) / 8
    }

    /// Returns words of the mapped image as they are now.
    fn mapped_words(&self, start: usize, end: usize) -> &[u64] {
        &self.place.as_ref().expect("it is mapped").as_slice()[start..end]
    }

    /// Finds all stores of the program since the image was last compared.
    fn find_stores(&mut self) {
        if self.place.is_none() {
            return;
        }
        for start in (0..self.seen.len()).step_by(CHUNK) {
            let end = (start + CHUNK).min(self.seen.len());
            if self.mapped_words(start, end) != &self.seen[start..end] {
                self.look_at(start, end);
            }
        }
    }

    /// Finds the stores of the program to announced words.
    fn look_at_expected(&mut self) {
        for i in 0..self.expected.len() {
            let (start, end, _) = self.expected[i];
            if self.mapped_words(start, end) != &self.seen[start..end] {
                self.look_at(start, end);
            }
        }
    }

    /// Finds the stores of the program to the words from `start` to `end`. A store to a word that was not
    /// announced is a violation.
    fn look_at(&mut self, start: usize, end: usize) {
        self.stores += 1;
        for word in start..end {
            let value = self.mapped_words(word, word + 1)[0];
            if value == self.seen[word] {
                continue;
            }
            if !self.expected.iter().any(|&(start, end, _)| (start..end).contains(&word)) {
                self.violations.push(format!(
                    "word {word:#x} (byte {:#x}) changed from {:#x} to {value:#x} without a log entry",
                    word * 8,
                    self.seen[word]
                ));
            }
            self.record_value(word, value);
        }
    }

    /// Makes the flushes durable of each scheduled thread that has passed a fence of another kind since, such
    /// as a locked instruction.
    fn settle(&mut self) {
        let is_over = |late: Option<StoreMoment>| late.is_some_and(StoreMoment::is_over);
        if self.in_flight.iter().any(|line| is_over(line.late)) {
            self.point("locked instruction");
            self.make_durable(is_over);
        }
    }

    /// Makes each flush durable for whose `late` the function `of` returns true.
    fn make_durable(&mut self, of: impl Fn(Option<StoreMoment>) -> bool) {
        let SimState { pending, in_flight, durable, fresh_durable, .. } = self;
        in_flight.retain(|&PendingWriteBack { word, until, late }| {
            if !of(late) {
                return true;
            }
            let Some(history) = pending.get_mut(&word) else { return false };
            let flushed = history.order.partition_point(|&stored| stored <= until);
            history.order.drain(..flushed);
            if let Some(value) = history.values.drain(..flushed).next_back()
                && durable[word as usize] != value
            {
                durable[word as usize] = value;
                fresh_durable.insert(word, value);
            }
            if history.values.is_empty() {
                pending.remove(&word);
            }
            false
        });
    }

    /// Notes that the word number `word` has another value now.
    fn record_value(&mut self, word: usize, value: u64) {
        self.seen[word] = value;
        let history = self.pending.entry(word as u32).or_default();
        history.values.push(value);
        history.order.push(self.stores);
    }

    fn point(&mut self, at: &'static str) {
        if self.silent {
            self.fresh_durable.clear();
            return;
        }
        let pending =
            self.pending.iter().flat_map(|(&word, history)| history.values.iter().map(move |&v| (word, v)));
        let order = self.pending.values().flat_map(|history| history.order.iter().copied());
        self.points.push(Point {
            durable: std::mem::take(&mut self.fresh_durable).into_iter().collect(),
            pending: pending.collect(),
            order: order.collect(),
            before: std::mem::replace(&mut self.before, self.stores),
            words: self.durable.len() + self.tail.len(),
            acknowledged: self.acknowledged,
            at,
        });
    }
}

const _: () = assert!(LINE == 64);

#[cfg(test)]
mod tests {
    use super::*;

    /// A simulated medium, and the memory where it is mapped.
    struct Mapped {
        sim: Sim,
        place: MappedWords,
    }

    impl Mapped {
        fn new(lines: usize) -> Mapped {
            let (sim, place) = (Sim::new(Vec::new()), MappedWords::leaked(lines));
            sim.mapped(place);
            Mapped { sim, place }
        }

        fn word_ptr(&self, word: usize) -> *mut u8 {
            (&raw const self.place.as_slice()[word]).cast_mut().cast()
        }

        fn store(&self, word: usize, value: u64) {
            self.sim.store(self.word_ptr(word), 8, &mut || self.place.write(word, value));
        }

        fn flush(&self, word: usize) {
            let at = self.word_ptr(word);
            self.sim.flush(at, 8);
        }

        fn point(&self) -> Point {
            self.sim.acknowledge(0);
            self.sim.take_points().pop().expect("it was acknowledged")
        }
    }

    #[test]
    fn what_is_not_flushed_stays_pending() {
        let mapped = Mapped::new(2);
        mapped.store(0, 5);
        mapped.store(8, 6);
        mapped.flush(0);
        assert_eq!(mapped.point().pending, [(0, 5), (8, 6)]);
        mapped.sim.fence();
        let point = mapped.point();
        assert_eq!((point.pending, mapped.sim.durable()[0]), (vec![(8, 6)], 5));
    }

    #[test]
    fn a_flush_takes_what_the_line_holds_then() {
        let mapped = Mapped::new(1);
        mapped.store(0, 1);
        mapped.store(0, 2);
        mapped.flush(0);
        mapped.store(0, 3);
        // Any of the values may have been evicted at any time.
        assert_eq!(mapped.point().pending, [(0, 1), (0, 2), (0, 3)]);
        mapped.sim.fence();
        assert_eq!((mapped.point().pending, mapped.sim.durable()[0]), (vec![(0, 3)], 2));
        mapped.store(0, 2);
        assert_eq!(mapped.point().pending, [(0, 3), (0, 2)]);
        mapped.sim.fence();
        assert_eq!(mapped.sim.durable()[0], 2);
    }

    /// A scheduler that lets each thread go on at once.
    #[derive(Debug)]
    struct Nobody;

    impl Scheduler for Nobody {
        fn step(&self, _: usize, _: &'static str) {}

        fn wait(&self, _: usize, _: usize, _: bool) -> bool {
            unreachable!("nobody waits")
        }

        fn wake(&self, _: usize) {}
    }

    #[test]
    fn what_a_thread_has_flushed_waits_for_its_own_fence() {
        let mapped = Mapped::new(2);
        let be = |thread| schedule(Some((std::sync::Arc::new(Nobody), thread)));
        be(0);
        mapped.store(0, 5);
        mapped.flush(0);
        // This thread goes on as another scheduled thread. It does not end as the first one, because the end
        // of a scheduled thread counts as a fence.
        crate::sync::schedule::ME.take();
        be(1);
        mapped.store(8, 6);
        mapped.flush(8);
        mapped.sim.fence();
        assert_eq!(mapped.point().pending, [(0, 5)]);
        pass_fence(0);
        assert_eq!((mapped.point().pending, mapped.sim.durable()[0]), (vec![], 5));
        schedule(None);
    }

    #[test]
    fn stores_that_nobody_announced_are_violations() {
        let mapped = Mapped::new(2);
        let expected = mapped.word_ptr(3);
        mapped.sim.expect_stores(expected, 8);
        mapped.place.write(3, 7);
        assert_eq!(mapped.point().pending, [(3, 7)]);
        assert_eq!(mapped.sim.violations(), [""; 0]);
        mapped.place.write(8, 8);
        mapped.point();
        assert_eq!(mapped.sim.violations().len(), 1);
        mapped.sim.no_more_stores();
        mapped.place.write(3, 9);
        mapped.point();
        assert_eq!(mapped.sim.violations().len(), 2);
    }

    #[test]
    fn a_store_before_its_announcement_is_a_violation() {
        let mapped = Mapped::new(1);
        mapped.place.write(3, 7);
        let late = mapped.word_ptr(3);
        mapped.sim.expect_stores(late, 8);
        assert_eq!(mapped.sim.violations().len(), 1);
    }

    #[test]
    fn what_an_interrupted_growth_left_comes_back() {
        let place = MappedWords::leaked(3);
        let sim = Sim::new((1..=24).collect());
        sim.truncate(8);
        sim.mapped(place.up_to(64));
        assert_eq!(sim.durable().len(), 24);
        sim.mapped(place.up_to(128));
        assert_eq!(place.as_slice()[8..16], [9, 10, 11, 12, 13, 14, 15, 16]);
        assert_eq!(place.as_slice()[16], 0);

        let created = Sim::new(vec![0, 3]);
        created.truncate(0);
        created.acknowledge(0);
        assert_eq!(created.take_points()[0].durable, [(1, 0)]);
        assert!(created.durable().is_empty());
    }
}
