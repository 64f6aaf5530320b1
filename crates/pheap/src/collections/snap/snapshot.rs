//! Versions of a map that are kept, and read without the lock of their region.

#![allow(unsafe_code)]

use std::fmt;
use std::sync::Arc;

use super::PSnapMap;
use super::frozen::Frozen;
use super::node::Child;
use super::seen::SnapRef;
use crate::Root;
use crate::api::view::{Lasting, View};
use crate::error::Result;
use crate::gc::versions::WORDS;
use crate::layout::Persist;

/// A version of a [`PSnapMap`] that is kept: it stays as it was, whatever transactions do to the map, and is read without the lock of its root. Made by [`PSnapMap::snapshot`].
///
/// It is cheap to clone, and can be sent to other threads. As long as there is one, the collector keeps its version, and the heap stays open, as with a [`Root`](crate::Root).
/// The version belongs to this opening of the heap: nothing of it is in the file.
pub struct Snapshot<K: Persist, V: Persist> {
    version: Arc<Lasting<PSnapMap<'static, K, V>>>,
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
    /// Runs `f` on the version, beside transactions and whatever else happens to the root. References into the map end with `f`.
    ///
    /// Closing the heap and removing the root wait for `f`. So inside, do not wait for a thread that does that. Transactions, and reads of roots, are possible inside,
    /// those of the same heap, too; and a snapshot can be read inside of these.
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed) if the heap was closed, or the root was removed; [`Error::Forked`](crate::Error::Forked);
    /// [`Error::Unsupported`](crate::Error::Unsupported) if this thread is inside of too many transactions and reads.
    pub fn read<R>(&self, f: impl for<'v, 'r> FnOnce(SnapRef<'v, 'r, K::At<'r>, V::At<'r>>) -> R) -> Result<R>
    where
        K: for<'r> Persist<At<'r>: Frozen<'r>>,
        V: for<'r> Persist<At<'r>: Frozen<'r>>,
    {
        self.version.read(|view, map| f(map.seen(view)))
    }
}

impl<'r, K: Frozen<'r>, V: Frozen<'r>> PSnapMap<'r, K, V> {
    /// Keeps the map as it is. It takes some nanoseconds, whatever the size of the map, and allocates nothing in the heap.
    ///
    /// With [`Durability::Wal`](crate::Durability::Wal), what it shows is durable when the read that returns it has returned; for a deferred read, when its `Commit` says so.
    ///
    /// # Errors
    /// [`Error::Nested`](crate::Error::Nested) in a transaction, which may still change what it has made, or be rolled back.
    pub fn snapshot(&self, view: &View<'r>) -> Result<Snapshot<K::Unbranded, V::Unbranded>> {
        let top = match self.top {
            Child::None(_) => None,
            Child::Leaf(leaf) => Some(leaf.addr()),
            Child::Inner(inner) => Some(inner.addr()),
        };
        // SAFETY: there is no transaction, `Lasting::new` makes sure of that. So the nodes are of committed transactions, and no other one writes to nodes; nor does anybody write to
        // the strings and slices that they lead to, for those are the map's own, and it hands out no pointer to one. All of it is reachable from `top`. What `read` does with the view
        // is to look at these objects: it goes to `SnapRef` and its iterators only, and to `Frozen`, which is sealed.
        let version = unsafe { Lasting::new(view, self, top)? };
        Ok(Snapshot { version: Arc::new(version) })
    }
}

/// Maps that are the root themselves.
impl<K: Persist, V: Persist> Root<PSnapMap<'static, K, V>> {
    /// The newest version of the map that is durable: what is certainly there after a power failure. It never waits, neither for a transaction on the root, whatever that does, nor for
    /// the disk, and takes less than a microsecond.
    ///
    /// So it is for answers that must not be taken back, beside transactions that wait for the disk. (A [`read`](Self::read) shows the newest version, and waits until that is durable.)
    /// What a transaction of this thread has done is in it once the transaction has returned or, if it was [deferred](Self::txn_deferred), when its [`Commit`](crate::Commit) says that it is durable.
    /// Versions of different roots may be of different moments.
    ///
    /// With [`Durability::Wal`](crate::Durability::Wal), durable means synced, whatever the [`SyncPolicy`](crate::SyncPolicy). With
    /// [`OnDemand`](crate::SyncPolicy::OnDemand) that is what was there when [`Heap::sync`](crate::Heap::sync) was called, or a checkpoint made. If the disk fails, it goes on to be what had been durable before.
    /// With other durabilities, each transaction is durable, in their sense, when it is committed, so this is the newest version.
    /// Until the creation of the root is durable, or a migration that has made it such a map, the map is empty.
    ///
    /// At most five versions are kept for this, the newest one included.
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
    /// [`Error::Closed`](crate::Error::Closed), [`Error::Migrated`](crate::Error::Migrated), [`Error::Forked`](crate::Error::Forked); [`Error::Failed`](crate::Error::Failed) if something has
    /// panicked within pheap. In a transaction, and in reads, it is as everywhere.
    pub fn durable_snapshot(&self) -> Result<Snapshot<K, V>>
    where
        K: for<'r> Persist<At<'r>: Frozen<'r>>,
        V: for<'r> Persist<At<'r>: Frozen<'r>>,
    {
        const { assert!(size_of::<PSnapMap<'static, K, V>>() == 8 * WORDS) };
        let (map, held) = match self.region.durable_version(&self.heap, self.ty)? {
            Some((words, held)) => {
                // SAFETY: the words of a root of the type with this number, which is that of the map (an invariant of `Root`), as a transaction has committed it.
                let map = unsafe { words.as_ptr().cast::<PSnapMap<'static, K, V>>().read() };
                (map, held)
            }
            None => (PSnapMap { len: 0, top: Child::None(0) }, None),
        };
        // SAFETY: `held` holds the top node, to which the last word leads, and the region has kept it before, from the commit on. The rest is as in `snapshot`.
        let version = unsafe { Lasting::of(map, held, &self.region.held, &self.heap) };
        Ok(Snapshot { version: Arc::new(version) })
    }
}
