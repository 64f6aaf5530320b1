//! The numbers of key spaces, and the flags that tell their handles of a removal.
//!
//! The catalogue maps names to numbers. A removal begins with one transaction on the catalogue. It removes
//! the name, adds a *mark* with the number, and sets the flag of the handles. From then on no thread writes
//! to the key space. The removal deletes its entries in many transactions, and then the mark. If a snapshot
//! needs some of the entries, the mark stays. When a store is opened or purged, it continues the removals
//! whose marks it finds.

use crate::Result;
use crate::keys::{SpaceId, StoredKey};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// First byte of the keys of marks in the catalogue. No name begins with it: names are UTF-8.
pub(crate) const MARK: u8 = 0xFF;

/// Returns the stored key of the mark of a removed key space.
pub(crate) fn mark(id: SpaceId) -> StoredKey {
    let mut key = SpaceId::CATALOGUE.start();
    key.push(MARK);
    key.extend_from_slice(&id.number().to_be_bytes());
    key
}

/// Whether a key space was removed. All handles of the key space share the flag.
///
/// A writer reads the flag while it holds the lock of a shard. A removal sets the flag before it takes that
/// lock to remove the entries. So either the removal finds the entries that the writer has written, or the
/// writer finds the flag set.
#[derive(Clone, Debug, Default)]
pub(crate) struct RemovedFlag(Arc<AtomicBool>);

impl RemovedFlag {
    #[inline]
    pub(crate) fn get(&self) -> bool {
        self.0.load(Relaxed)
    }

    pub(crate) fn set(&self, removed: bool) {
        self.0.store(removed, Relaxed);
    }

    /// Returns whether both are flags of one key space.
    pub(crate) fn is(&self, other: &RemovedFlag) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The flags of all key spaces with handles, by number, and the next number.
#[derive(Default)]
pub(crate) struct Spaces {
    handles: Mutex<HashMap<u64, Weak<AtomicBool>>>,
    /// The number of the next key space. `None` until the first one is made or removed after an opening.
    next: Mutex<Option<u64>>,
    /// Whether a removal of a key space has remained incomplete since the last
    /// [`take_left`](Spaces::take_left), because a snapshot needed some of its entries. The removal's mark
    /// has then stayed in the catalogue, so that the removal is continued later.
    are_left: AtomicBool,
}

impl Spaces {
    /// Returns the flag for a new handle of a key space. The caller must hold the lock of the catalogue,
    /// shared or exclusive, and have found the number in the catalogue. So a concurrent removal of the key
    /// space has already set the returned flag, or will set it.
    pub(crate) fn handle(&self, id: SpaceId) -> RemovedFlag {
        let mut handles = lock(&self.handles);
        if let Some(shared) = handles.get(&id.number()).and_then(Weak::upgrade) {
            return RemovedFlag(shared);
        }
        // Flags without handles are removed only when the map is full, so that this is rare.
        if handles.len() == handles.capacity() {
            handles.retain(|_, shared| shared.strong_count() > 0);
            let len = handles.len();
            handles.reserve(len + 1);
        }
        let removed = RemovedFlag::default();
        handles.insert(id.number(), Arc::downgrade(&removed.0));
        removed
    }

    /// Returns the number of a new key space. If `next` is `None`, it calls `first`, which must return a
    /// number greater than those of all key spaces.
    ///
    /// # Errors
    /// Those of `first`. Or if all numbers are used up, which only a forged file can cause.
    pub(crate) fn new_number(&self, first: impl FnOnce() -> Result<u64>) -> Result<SpaceId> {
        let mut next = self.next(first)?;
        let number = next.unwrap_or_default();
        let used_up = || pheap::Error::Corrupt { what: "a key space has the greatest number".into() };
        *next = Some(number.checked_add(1).ok_or_else(used_up)?);
        Ok(SpaceId::new(number))
    }

    /// Ensures that the numbers of all key spaces that exist now are not used again, even if they are
    /// removed.
    pub(crate) fn note_numbers(&self, first: impl FnOnce() -> Result<u64>) -> Result<()> {
        self.next(first).map(drop)
    }

    /// Records that the mark of a key space has stayed because a snapshot needs its entries.
    pub(crate) fn note_left(&self) {
        self.are_left.store(true, Relaxed);
    }

    /// Returns whether [`note_left`](Self::note_left) was called since the last call of this function:
    /// whether the mark of a removed key space has stayed in the catalogue because a snapshot needed entries.
    pub(crate) fn take_left(&self) -> bool {
        self.are_left.swap(false, Relaxed)
    }

    fn next(&self, first: impl FnOnce() -> Result<u64>) -> Result<MutexGuard<'_, Option<u64>>> {
        let mut next = lock(&self.next);
        if next.is_none() {
            *next = Some(first()?);
        }
        Ok(next)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_is_given_twice_also_if_they_are_used_up() {
        let spaces = Spaces::default();
        assert_eq!(spaces.new_number(|| Ok(u64::MAX - 1)).unwrap(), SpaceId::new(u64::MAX - 1));
        for _ in 0..2 {
            assert!(spaces.new_number(|| unreachable!()).is_err());
        }
    }

    #[test]
    fn handles_that_are_gone_leave_nothing() {
        let spaces = Spaces::default();
        let kept: Vec<RemovedFlag> = (0..10).map(|n| spaces.handle(SpaceId::new(n))).collect();
        for n in 10..10_000 {
            spaces.handle(SpaceId::new(n));
        }
        assert!(lock(&spaces.handles).capacity() < 100);
        assert!((0..10).all(|n| spaces.handle(SpaceId::new(n)).is(&kept[n as usize])));
    }
}
