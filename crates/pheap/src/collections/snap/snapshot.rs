//! Versions of a map that are kept, and read without the lock of their region.

#![allow(unsafe_code)]

use std::fmt;
use std::sync::Arc;

use super::PSnapMap;
use super::frozen::Frozen;
use super::node::Child;
use super::seen::SnapRef;
use crate::api::view::{Lasting, View};
use crate::error::Result;
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
