//! Which numbers key spaces get, and how their handles learn that they were removed.
//!
//! The catalogue has the number of each name. To remove a key space, one transaction of the catalogue removes
//! the name, adds a *mark* with the number, and tells all handles. From then on nobody writes to the key
//! space, so its entries go in many transactions, and then the mark. If a snapshot needs some of them, the
//! mark stays. A store that is opened or purged goes on where it finds marks.

use crate::Result;
use crate::keys::{SpaceId, StoredKey};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Begins the keys of marks in the catalogue. No name begins with this byte: names are UTF-8.
pub(crate) const MARK: u8 = 0xFF;

/// The stored key of the mark of a key space that was removed.
pub(crate) fn mark(id: SpaceId) -> StoredKey {
    let mut key = SpaceId::CATALOGUE.start();
    key.push(MARK);
    key.extend_from_slice(&id.number().to_be_bytes());
    key
}

/// Whether a key space was removed; all its handles share it.
///
/// A writer looks at it when it has the lock of a shard. A removal sets it before it takes that lock. So the
/// removal finds what the writer has written, or the writer finds that the key space was removed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Removed(Arc<AtomicBool>);

impl Removed {
    #[inline]
    pub(crate) fn get(&self) -> bool {
        self.0.load(Relaxed)
    }

    pub(crate) fn set(&self, removed: bool) {
        self.0.store(removed, Relaxed);
    }

    /// Whether both are of one key space.
    pub(crate) fn is(&self, other: &Removed) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// What the handles of key spaces share, by number, and the next number.
#[derive(Default)]
pub(crate) struct Spaces {
    handles: Mutex<HashMap<u64, Weak<AtomicBool>>>,
    /// The number of the next key space; `None` until one is made or removed after the store was opened.
    next: Mutex<Option<u64>>,
    /// Whether marks have stayed because snapshots needed entries.
    are_left: AtomicBool,
}

impl Spaces {
    /// What the handles of a key space share. The caller holds the lock of the catalogue, to read it or to
    /// write to it, and has found the number there. So a removal has told the handle already, or will do so.
    pub(crate) fn handle(&self, id: SpaceId) -> Removed {
        let mut handles = lock(&self.handles);
        if let Some(shared) = handles.get(&id.number()).and_then(Weak::upgrade) {
            return Removed(shared);
        }
        // Before it grows, and so rarely, it drops what handles have left that are gone.
        if handles.len() == handles.capacity() {
            handles.retain(|_, shared| shared.strong_count() > 0);
            let len = handles.len();
            handles.reserve(len + 1);
        }
        let removed = Removed::default();
        handles.insert(id.number(), Arc::downgrade(&removed.0));
        removed
    }

    /// Returns the number of the next key space, and the one behind it becomes the next. `first` returns one
    /// that is greater than those of all key spaces; it is called if `next` is `None`.
    ///
    /// # Errors
    /// If there is none, which only a forged file can bring about.
    pub(crate) fn new_number(&self, first: impl FnOnce() -> Result<u64>) -> Result<SpaceId> {
        let mut next = self.next(first)?;
        let number = next.unwrap_or_default();
        let used_up = || pheap::Error::Corrupt { what: "a key space has the greatest number".into() };
        *next = Some(number.checked_add(1).ok_or_else(used_up)?);
        Ok(SpaceId::new(number))
    }

    /// Sees to it that the numbers of all key spaces that there are now are not used again, also when they
    /// are removed.
    pub(crate) fn note_numbers(&self, first: impl FnOnce() -> Result<u64>) -> Result<()> {
        self.next(first).map(drop)
    }

    /// Notes that the mark of a key space has stayed because a snapshot needs its entries.
    pub(crate) fn note_left(&self) {
        self.are_left.store(true, Relaxed);
    }

    /// Whether marks have stayed since this was asked for the last time.
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
        let kept: Vec<Removed> = (0..10).map(|n| spaces.handle(SpaceId::new(n))).collect();
        for n in 10..10_000 {
            spaces.handle(SpaceId::new(n));
        }
        assert!(lock(&spaces.handles).capacity() < 100);
        assert!((0..10).all(|n| spaces.handle(SpaceId::new(n)).is(&kept[n as usize])));
    }
}
