//! Which versions snapshots still need.
//!
//! An *era* ends when a snapshot is taken. A value has the era in which it was written, so a snapshot sees what is not younger than it is. While there is none, writes look at
//! two numbers and nothing else.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Eras are reserved by so many bits at a time, in the file, so that those of the next opening are none of them. The number of a block has what the highest bit leaves, which is for a flag.
pub(crate) const BLOCK: u32 = 16;

/// Eras, and the snapshots there are.
///
/// A snapshot is taken by who has the locks of all shards, and `now` is asked for by who has the lock of one: the locks order the two.
#[derive(Debug)]
pub(crate) struct Eras {
    now: AtomicU64,
    /// Those that are less are reserved.
    end: AtomicU64,
    /// The newest snapshot there is; 0 if there is none.
    newest: AtomicU64,
    /// All of them.
    live: Mutex<BTreeSet<u64>>,
}

impl Eras {
    /// Those behind the last block that was reserved. No snapshot of them was ever taken, and for the first one, the next block must be reserved. What is written before has the first of
    /// them: it is none that a snapshot of an earlier opening could have ended.
    pub(crate) fn behind_block(number: u64) -> Eras {
        let first = (number + 1) << BLOCK;
        let (now, end) = (AtomicU64::new(first), AtomicU64::new(first));
        Eras { now, end, newest: AtomicU64::new(0), live: Mutex::default() }
    }

    /// Goes on in this block, which follows those that were reserved before.
    pub(crate) fn reserve(&self, number: u64) {
        self.end.fetch_max((number + 1) << BLOCK, Relaxed);
    }

    /// Whether a block must be reserved before there can be another snapshot.
    pub(crate) fn are_used_up(&self) -> bool {
        self.now() + 1 >= self.end.load(Relaxed)
    }

    /// The era of what is written now.
    pub(crate) fn now(&self) -> u64 {
        self.now.load(Relaxed)
    }

    /// Ends the era; there is a snapshot of it, until it is [let go](Self::let_go) of. None if [they are used up](Self::are_used_up).
    pub(crate) fn take(&self) -> Option<u64> {
        let mut live = self.live();
        if self.are_used_up() {
            return None;
        }
        let era = self.now.fetch_add(1, Relaxed);
        live.insert(era);
        self.newest.store(era, Relaxed);
        Some(era)
    }

    pub(crate) fn let_go(&self, era: u64) {
        let mut live = self.live();
        live.remove(&era);
        self.newest.store(live.last().copied().unwrap_or(0), Relaxed);
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.newest.load(Relaxed) == 0
    }

    /// Whether a snapshot sees what was written in the first of these eras, and replaced in the one behind the last.
    pub(crate) fn needs(&self, eras: Range<u64>) -> bool {
        self.newest.load(Relaxed) >= eras.start && self.live().range(eras).next().is_some()
    }

    /// As [`needs`](Self::needs), for each of the versions of a key, which are in the order of their eras.
    pub(crate) fn need_each(&self, versions: impl Iterator<Item = Range<u64>>) -> Vec<bool> {
        let (live, mut versions) = (self.live(), versions.peekable());
        let Some(first) = versions.peek() else { return Vec::new() };
        let mut live = live.range(first.start..).peekable();
        let mut needs = |eras: Range<u64>| {
            while live.next_if(|&&era| era < eras.start).is_some() {}
            live.peek().is_some_and(|&&era| era < eras.end)
        };
        versions.map(&mut needs).collect()
    }

    fn live(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a store that was opened when this block was the last one.
    fn eras(last: u64) -> Eras {
        let eras = Eras::behind_block(last);
        assert!(eras.are_used_up() && eras.take().is_none());
        eras.reserve(last + 1);
        eras
    }

    #[test]
    fn a_version_is_needed_while_a_snapshot_is_between_its_ends() {
        let eras = eras(0);
        let written = eras.now();
        assert!(!eras.needs(written..written) && eras.is_quiet());
        let snapshot = eras.take().unwrap();
        assert_eq!(snapshot, written);
        assert!(eras.needs(written..eras.now()));
        assert!(!eras.needs(eras.now()..eras.now() + 1), "what came after the snapshot");
        let later = eras.take().unwrap();
        eras.let_go(snapshot);
        assert!(!eras.needs(written..later));
        assert!(eras.needs(written..later + 1));
        let versions = || [0..written, written..later, later..later, later..later + 1, later + 1..later + 9];
        assert_eq!(eras.need_each(versions().into_iter()), [false, false, false, true, false]);
        eras.let_go(later);
        assert!(eras.is_quiet() && !eras.needs(0..u64::MAX));
        assert_eq!(eras.need_each(versions().into_iter()), [false; 5]);
    }

    #[test]
    fn eras_end_where_those_of_the_next_opening_begin() {
        let eras = eras(0);
        while let Some(era) = eras.take() {
            eras.let_go(era);
        }
        assert!(eras.are_used_up() && eras.now() < Eras::behind_block(1).now());
        eras.reserve(2);
        assert!(eras.take().is_some() && eras.now() < Eras::behind_block(2).now());
    }
}
