//! Which versions snapshots still need.
//!
//! An *era* ends when a snapshot is taken. A value has the era in which it was written, so a snapshot sees what is not younger than it is. While there is none, writes look at
//! two numbers and nothing else.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Eras of one opening of a store: those of the next one are all greater.
const PER_OPENING: u32 = 40;

/// Eras, and the snapshots there are.
///
/// A snapshot is taken by who has the locks of all shards, and `now` is asked for by who has the lock of one: the locks order the two.
#[derive(Debug)]
pub(crate) struct Eras {
    now: AtomicU64,
    /// The newest snapshot there is; 0 if there is none.
    newest: AtomicU64,
    /// The snapshots, and how many have asked for each.
    live: Mutex<BTreeMap<u64, usize>>,
}

impl Eras {
    /// Those of this opening, counted from 1.
    pub(crate) fn of_opening(number: u64) -> Eras {
        Eras {
            now: AtomicU64::new((number << PER_OPENING) + 1),
            newest: AtomicU64::new(0),
            live: Mutex::default(),
        }
    }

    /// The era of what is written now.
    pub(crate) fn now(&self) -> u64 {
        self.now.load(Relaxed)
    }

    /// Ends the era; there is a snapshot of it, until it is [let go](Self::let_go) of.
    pub(crate) fn take(&self) -> u64 {
        let mut live = self.live();
        let era = self.now.fetch_add(1, Relaxed);
        live.insert(era, 1);
        self.newest.store(era, Relaxed);
        era
    }

    pub(crate) fn let_go(&self, era: u64) {
        let mut live = self.live();
        live.remove(&era);
        self.newest.store(live.last_key_value().map_or(0, |(&era, _)| era), Relaxed);
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.newest.load(Relaxed) == 0
    }

    /// Whether a snapshot sees what was written in the first of these eras, and replaced in the one behind the last.
    pub(crate) fn needs(&self, eras: Range<u64>) -> bool {
        self.newest.load(Relaxed) >= eras.start && self.live().range(eras).next().is_some()
    }

    fn live(&self) -> MutexGuard<'_, BTreeMap<u64, usize>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_needed_while_a_snapshot_is_between_its_ends() {
        let eras = Eras::of_opening(1);
        let written = eras.now();
        assert!(!eras.needs(written..written) && eras.is_quiet());
        let snapshot = eras.take();
        assert_eq!(snapshot, written);
        assert!(eras.needs(written..eras.now()));
        assert!(!eras.needs(eras.now()..eras.now() + 1), "what came after the snapshot");
        let later = eras.take();
        eras.let_go(snapshot);
        assert!(!eras.needs(written..later));
        assert!(eras.needs(written..later + 1));
        eras.let_go(later);
        assert!(eras.is_quiet() && !eras.needs(0..u64::MAX));
    }

    #[test]
    fn eras_of_the_next_opening_are_greater() {
        assert!(Eras::of_opening(2).now() > Eras::of_opening(1).now() + (1 << 39));
    }
}
