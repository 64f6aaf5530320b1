//! `Snapshot`: the store as it was at one moment.

use crate::keys::SpaceId;
use crate::reader::Reader;
use crate::shards::Shards;
use crate::{Error, KeySpace, Result};
use std::ops::Deref;
use std::sync::Arc;

/// The store as it was at one moment, with all key spaces and shards; made by
/// [`Store::snapshot`](crate::Store::snapshot).
///
/// It dereferences to a [`Reader`] of the default key space; [`space`](Self::space) returns readers of the
/// others. It is cheap to clone, and other threads may use it. Writers continue. If a writer replaces a value
/// that a snapshot needs, the heap keeps the old value, without a copy, and later writes free it when no
/// snapshot needs it. No shard is split while a snapshot exists, so programs should drop snapshots soon.
///
/// If the store is open to be read only, for instance as a [follower](pheap::Options::follower), it does not
/// change, and a snapshot only reads it as it is.
///
/// Values expire in snapshots, too. Snapshots end when the store is closed; after the next opening, writes
/// and [`Store::purge`](crate::Store::purge) free the values that they needed.
///
/// ```
/// # let store = pheap_kv::Store::in_memory()?;
/// store.put("tea", "green")?;
/// let before = store.snapshot()?;
/// store.put("tea", "black")?;
/// assert_eq!(before.get("tea")?.as_deref(), Some(&b"green"[..]));
/// # Ok::<(), pheap_kv::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Snapshot {
    reader: Reader,
}

/// Registers the era of a snapshot as long as a reader of the snapshot exists.
pub(crate) struct EraPin {
    shards: Arc<Shards>,
    /// The era that ended when the snapshot was taken.
    pub(crate) era: u64,
}

impl Drop for EraPin {
    fn drop(&mut self) {
        self.shards.eras.let_go(self.era);
    }
}

impl Snapshot {
    pub(crate) fn take(shards: &Arc<Shards>) -> Result<Snapshot> {
        let pin = match shards.take_snapshot() {
            Ok(era) => Some(Arc::new(EraPin { shards: shards.clone(), era })),
            // No thread can write to this store, so it does not change.
            Err(Error::Heap(pheap::Error::ReadOnly)) => None,
            Err(error) => return Err(error),
        };
        Ok(Snapshot { reader: Reader { shards: shards.clone(), id: SpaceId::DEFAULT, pin } })
    }

    /// Returns a reader of a key space as it was. A key space that was removed later still has its entries; a
    /// key space that was made later is empty.
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// let users = store.space("users")?;
    /// users.put("1", "Ann")?;
    /// let before = store.snapshot()?;
    /// users.delete("1")?;
    /// assert!(before.space(&users)?.contains_key("1")?);
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OtherStore`].
    pub fn space(&self, space: &KeySpace) -> Result<Reader> {
        if !Arc::ptr_eq(&space.shards, &self.reader.shards) {
            return Err(Error::OtherStore);
        }
        Ok(Reader { id: space.id, ..self.reader.clone() })
    }

    pub(crate) fn number(&self, id: SpaceId) -> Reader {
        Reader { id, ..self.reader.clone() }
    }
}

impl Deref for Snapshot {
    type Target = Reader;

    fn deref(&self) -> &Reader {
        &self.reader
    }
}

#[cfg(test)]
mod tests {
    use crate::Store;
    use crate::eras::BLOCK;

    #[test]
    fn snapshots_that_are_many_reserve_eras_which_the_next_opening_does_not_use_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("many.kv");
        for opening in 0..2u8 {
            let store = Store::open(&path).unwrap();
            let before = store.snapshot().unwrap();
            for _ in 0..1 << BLOCK {
                store.snapshot().unwrap();
            }
            let taken: Vec<_> = (0..21u8)
                .map(|n| {
                    store.put("key", [opening, n]).unwrap();
                    store.snapshot().unwrap()
                })
                .collect();
            for (snapshot, n) in taken.iter().zip(0..) {
                assert_eq!(snapshot.get("key").unwrap().unwrap(), [opening, n]);
            }
            let old = opening.checked_sub(1).map(|opening| vec![opening, 20]);
            assert_eq!(before.get("key").unwrap(), old);
        }
    }
}
