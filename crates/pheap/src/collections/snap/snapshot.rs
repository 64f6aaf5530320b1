//! Kept versions of a map, which are read without the lock of their region.

#![allow(unsafe_code)]

use std::fmt;
use std::sync::Arc;

use super::PSnapMap;
use super::frozen::Frozen;
use super::node::Child;
use super::seen::SnapRef;
use crate::Root;
use crate::api::view::{HeldValue, View};
use crate::error::Result;
use crate::gc::versions::WORDS;
use crate::layout::Persist;

/// A kept version of a [`PSnapMap`]: it does not change, whatever transactions do to the map, and is read
/// without the lock of its root. Made by [`PSnapMap::snapshot`].
///
/// A snapshot is cheap to clone, and can be sent to other threads. As long as it exists, the collector keeps
/// its version, and the heap stays open, as with a [`Root`](crate::Root). It belongs to this opening of the
/// heap: the file does not record it.
pub struct Snapshot<K: Persist, V: Persist> {
    version: Arc<HeldValue<PSnapMap<'static, K, V>>>,
}

impl<K: Persist, V: Persist> Clone for Snapshot<K, V> {
    fn clone(&self) -> Self {
        Snapshot { version: self.version.clone() }
    }
}

impl<K: Persist, V: Persist> fmt::Debug for Snapshot<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").finish_non_exhaustive()
    }
}

impl<K: Persist, V: Persist> Snapshot<K, V> {
    /// Runs `f` on the version, concurrently with transactions and other operations on the root. References
    /// into the map end with `f`.
    ///
    /// Closing the heap and removing the root wait for `f`. So inside `f`, do not wait for a thread that does
    /// that. Inside `f`, transactions and reads of roots are possible, also of the same heap; and a snapshot
    /// can be read inside them.
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed) if the heap was closed, or the root was removed;
    /// [`Error::Forked`](crate::Error::Forked) in a forked child;
    /// [`Error::Unsupported`](crate::Error::Unsupported) if this thread is inside too many transactions and
    /// reads.
    pub fn read<R>(&self, f: impl for<'v, 'r> FnOnce(SnapRef<'v, 'r, K::At<'r>, V::At<'r>>) -> R) -> Result<R>
    where
        K: for<'r> Persist<At<'r>: Frozen<'r>>,
        V: for<'r> Persist<At<'r>: Frozen<'r>>,
    {
        self.version.read(|view, map| f(map.seen(view)))
    }
}

impl<'r, K: Frozen<'r>, V: Frozen<'r>> PSnapMap<'r, K, V> {
    /// Keeps this version of the map. O(1), whatever the size of the map; allocates nothing in the heap.
    ///
    /// If reads wait for the disk, as with [`Durability::Wal`](crate::Durability::Wal) and
    /// [`EveryCommit`](crate::SyncPolicy::EveryCommit), the version is durable when the read that returns the
    /// snapshot has returned; for a deferred read, when its `Commit` is ready.
    ///
    /// # Errors
    /// [`Error::Nested`](crate::Error::Nested) in a transaction, because the transaction may still change its
    /// own nodes, or be rolled back; [`Error::Closed`](crate::Error::Closed) if the heap is not open any
    /// more.
    pub fn snapshot(&self, view: &View<'r>) -> Result<Snapshot<K::Unbranded, V::Unbranded>> {
        let top = match self.top {
            Child::None(_) => None,
            Child::Leaf(leaf) => Some(leaf.addr()),
            Child::Inner(inner) => Some(inner.addr()),
        };
        // SAFETY: `HeldValue::new` checks that `view` is not the view of a transaction. So the nodes were
        // committed, and no transaction writes them any more. The strings and slices that they lead to are
        // not written either: they belong to the map, which hands out no pointer to one. All of them are
        // reachable from `top`. `read` passes its view to `SnapRef` and its iterators, and to `Frozen`, which
        // is sealed; these only read the objects.
        let version = unsafe { HeldValue::new(view, self, top)? };
        Ok(Snapshot { version: Arc::new(version) })
    }
}

/// Maps that are root objects.
impl<K: Persist, V: Persist> Root<PSnapMap<'static, K, V>> {
    /// Returns the newest durable version of the map: the version that a power failure cannot take back. A
    /// call that succeeds waits neither for a transaction on the root nor for the disk.
    ///
    /// So this method is for answers that must not be taken back, while transactions wait for the disk. (A
    /// [`read`](Self::read) shows the newest version, and then waits until that is durable, if reads wait for
    /// the disk.) If transactions wait for the disk, the durable version includes a transaction of this
    /// thread after the transaction has returned; after a [deferred](Self::txn_deferred) transaction, when
    /// its [`Commit`](crate::Commit) is ready. Versions of different roots may be of different times.
    ///
    /// With [`Durability::Wal`](crate::Durability::Wal), durable means synced, whatever the
    /// [`SyncPolicy`](crate::SyncPolicy). With [`OnDemand`](crate::SyncPolicy::OnDemand), the durable version
    /// is that of the last sync, for instance by [`Heap::sync`](crate::Heap::sync) or a checkpoint. If the
    /// disk fails, the last version that was durable stays the durable one. With other durabilities, each
    /// transaction is durable, in their sense, when it is committed, so this returns the newest version.
    /// Until the creation of the root, or the migration to this type of map, is durable, the returned version
    /// is empty.
    ///
    /// For this method, at most five versions of the root are kept, the newest one included.
    ///
    /// ```
    /// # use pheap::{Heap, PSnapMap, Root};
    /// # fn main() -> pheap::Result<()> {
    /// # let heap = Heap::in_memory()?;
    /// let stock: Root<PSnapMap<u64, i64>> = heap.root("stock")?;
    /// stock.txn(|tx, stock| stock.insert(tx, &7, &100))?;
    /// let left = stock.durable_snapshot()?.read(|stock| stock.get(&7).copied())?;
    /// assert_eq!(left, Some(100));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed), [`Error::Migrated`](crate::Error::Migrated),
    /// [`Error::Forked`](crate::Error::Forked); [`Error::Failed`](crate::Error::Failed) or the error of the
    /// log if the heap has failed. This method can be called in transactions and reads as well.
    pub fn durable_snapshot(&self) -> Result<Snapshot<K, V>>
    where
        K: for<'r> Persist<At<'r>: Frozen<'r>>,
        V: for<'r> Persist<At<'r>: Frozen<'r>>,
    {
        const { assert!(size_of::<PSnapMap<'static, K, V>>() == 8 * WORDS) };
        let (map, held) = match self.region.durable_version(&self.heap, self.ty)? {
            Some((words, held)) => {
                // SAFETY: `words` is a root object of the type with the number `ty`, as a transaction has
                // committed it; `ty` is the number of this type of map, by the invariant of `Root`.
                let map = unsafe { words.as_ptr().cast::<PSnapMap<'static, K, V>>().read() };
                (map, held)
            }
            None => (PSnapMap { len: 0, top: Child::None(0) }, None),
        };
        // SAFETY: `held` holds the top node, to which the last word points, and the region has kept that node
        // alive since the commit. The nodes, and the objects that they lead to, are not written, and `read`
        // only reads them, as in `snapshot`.
        let version = unsafe { HeldValue::from_committed(map, held, &self.region.held, &self.heap) };
        Ok(Snapshot { version: Arc::new(version) })
    }
}
