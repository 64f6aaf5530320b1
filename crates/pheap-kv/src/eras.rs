//! Eras: which versions of values snapshots still need.
//!
//! A snapshot ends the current *era*. A value stores the era in which it was written. A snapshot sees the
//! values of the ended era and of earlier ones. While no snapshot exists, a write only reads numbers here,
//! and takes no lock.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of low bits of an era that number it within its block. The file records the last reserved block, so
/// no opening takes a snapshot of an era of which an earlier opening has taken one. The higher bits are the
/// number of the block, but the highest bit is a flag (`EXPIRES` in `part`).
pub(crate) const BLOCK: u32 = 16;

/// The current era and the snapshots that exist.
///
/// [`take`](Self::take) runs under the locks of all shards, and a writer calls [`now`](Self::now) under the
/// lock of its shard. These locks order the two, so the fields are relaxed.
#[derive(Debug)]
pub(crate) struct Eras {
    /// The current era. Only [`take`](Eras::take) changes it.
    now: AtomicU64,
    /// The first era behind the reserved ones.
    end: AtomicU64,
    /// The era of the newest snapshot that exists; 0 if none exists. Written under the lock of `live`.
    newest: AtomicU64,
    /// The eras of all snapshots that exist.
    live: Mutex<BTreeSet<u64>>,
}

impl Eras {
    /// Returns the eras behind block `number`, which is the last reserved one. The next block must be
    /// reserved before the first snapshot. Values that are written before that get the first era of the next
    /// block. No snapshot of an earlier opening has ended that era.
    pub(crate) fn behind_block(number: u64) -> Eras {
        let first = (number + 1) << BLOCK;
        let (now, end) = (AtomicU64::new(first), AtomicU64::new(first));
        Eras { now, end, newest: AtomicU64::new(0), live: Mutex::default() }
    }

    /// Adds a block that is reserved in the file. It must follow the blocks reserved before.
    pub(crate) fn reserve(&self, number: u64) {
        self.end.fetch_max((number + 1) << BLOCK, Relaxed);
    }

    /// Returns whether the next snapshot needs another reserved block.
    pub(crate) fn are_used_up(&self) -> bool {
        self.now() + 1 >= self.end.load(Relaxed)
    }

    /// Returns the era of values that are written now.
    pub(crate) fn now(&self) -> u64 {
        self.now.load(Relaxed)
    }

    /// Ends the current era and adds a snapshot of it, which exists until [`let_go`](Self::let_go). Returns
    /// the ended era, or `None` if the eras [are used up](Self::are_used_up).
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

    /// Removes the snapshot of an era.
    pub(crate) fn let_go(&self, era: u64) {
        let mut live = self.live();
        live.remove(&era);
        self.newest.store(live.last().copied().unwrap_or(0), Relaxed);
    }

    /// Returns whether no snapshot exists.
    pub(crate) fn is_quiet(&self) -> bool {
        self.newest.load(Relaxed) == 0
    }

    /// Returns whether a snapshot sees a value that was written in era `eras.start` and replaced in era
    /// `eras.end`.
    pub(crate) fn needs(&self, eras: Range<u64>) -> bool {
        self.newest.load(Relaxed) >= eras.start && self.live().range(eras).next().is_some()
    }

    /// Answers [`needs`](Self::needs) for each version of a key. The versions must be in the order of their
    /// eras.
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

    /// The eras of a store that was opened when `last` was the last reserved block.
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
