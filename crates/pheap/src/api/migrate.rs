//! `Heap::migrate`: a root gets another type.
//!
//! A root object has a type, and so has its span, so another type needs another object. Four words identify
//! the root object and its type: three in the region's header, and one in that header's entry of the span
//! table. **One transaction allocates the new object and writes these words**: its redo record contains them,
//! or the undo log contains their old content, as for any object. So no crash leaves only some of them
//! changed in the end. (A crash may leave some of them changed *and a log* with the others: an opening reads
//! a region's header [as it will be](crate::heap::open::survey::ReplayedMetadata) after the logs are
//! replayed.) The type is in the type table before that.
//!
//! **Handles.** A [`Root`](crate::Root) has the number of the type for which it was made. After a thread has
//! locked the region for it, it compares this number with the number that the region serves. The region's
//! number changes under the lock, together with the root's offset. So a handle fails in the same way whether
//! it waited during the migration or came later.
//!
//! **Collection.** A cycle begins with the root, and the root may change during a cycle. That is sound:
//!
//! * A running cycle has begun with the old root. The new object was allocated since, so it is marked from
//!   birth (or recorded, if spans are being swept already), like every new object. Its pointers lead to new
//!   objects, or to objects that `f` has reached through the old root or a held pointer. The latter were
//!   reachable when the cycle began, and are marked before it ends; the barrier covers pointers that were
//!   overwritten in between. So when the cycle ends, all objects that the new root leads to are marked. The
//!   old root is marked, too; it is garbage for the next cycle.
//! * A cycle that begins later, even at the end of the same transaction, must begin with the new root,
//!   because no other object leads to it. So the offset changes after the commit, but before the collector
//!   runs ([`Exclusive::commit`]).
//! * A minor cycle treats all old objects as live, and looks for young objects from the root (the new one,
//!   which is young) and from remembered lines. So the old root, which is garbage, has no effect on it.

use super::root::Root;
use super::tx::Txn;
use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::layout::Persist;
use crate::ptr::P;

impl Heap {
    /// Gives a root another type. If the root has the layout of `Old`, `f` runs in a transaction, and its
    /// result becomes the root object, together with all other changes of the transaction. Returns whether
    /// the root had that layout.
    ///
    /// If the root does not exist, or has another layout than `Old`, this does nothing and returns
    /// `Ok(false)`, unless an [`evolve`](Self::evolve) of the root has begun and is not complete. So a
    /// program calls it for each version that it ever had, oldest first, and then opens the root: any of
    /// these versions is converted to the newest. If the root has none of these layouts, [`root`](Self::root)
    /// fails with [`Error::TypeMismatch`].
    ///
    /// ```
    /// use pheap::{Heap, P, Persist, Result, Root};
    ///
    /// #[derive(Persist)]
    /// #[repr(C)]
    /// struct Node<'r> {
    ///     value: u64,
    ///     next: Option<P<'r, Node<'r>>>,
    /// }
    ///
    /// mod v1 {
    ///     use super::*;
    ///     #[derive(Persist, Default)]
    ///     #[repr(C)]
    ///     pub struct List<'r> {
    ///         pub head: Option<P<'r, Node<'r>>>, // the nodes have not changed
    ///     }
    /// }
    ///
    /// #[derive(Persist, Default)]
    /// #[repr(C)]
    /// struct List<'r> {
    ///     head: Option<P<'r, Node<'r>>>,
    ///     len: u64, // new in the second version
    /// }
    ///
    /// fn open(heap: &Heap) -> Result<Root<List<'static>>> {
    ///     heap.migrate::<v1::List, List>("list", |tx, old| {
    ///         let head = tx[old].head;
    ///         let len = std::iter::successors(head, |&node| tx[node].next).count() as u64;
    ///         Ok(List { head, len })
    ///     })?;
    ///     heap.root("list")
    /// }
    ///
    /// # fn main() -> Result<()> {
    /// let heap = Heap::in_memory()?;
    /// heap.root::<v1::List>("list")?.txn(|tx, list| { // as an old program would have created it
    ///     for value in 0..10 {
    ///         let node = tx.alloc(Node { value, next: tx[list].head })?;
    ///         tx[list].head = Some(node);
    ///     }
    ///     Ok(())
    /// })?;
    /// assert_eq!(open(&heap)?.read(|view, list| view[list].len)?, 10);
    /// assert_eq!(open(&heap)?.read(|view, list| view[list].len)?, 10); // nothing to do any more
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Objects whose types are the same in both versions stay where they are: the new root points to them, as
    /// in the example. `f` must create new objects for changed types. Types are compared by their structure
    /// (names, fields, and the types that their pointers lead to), so the two may have the same name, or the
    /// same `#[persist(id = "…")]`. A type that points back to the root's type changes with it. If the
    /// layouts are the same, there is nothing to do.
    ///
    /// # Handles
    /// Existing handles of the root for `Old`, in any thread, fail with [`Error::Migrated`] from then on,
    /// also those that wait for the root while `f` runs. [`Held`](crate::Held) pointers stay valid, also one
    /// to the old root object. Otherwise that object is garbage, unless another object points to it.
    ///
    /// # Crashes
    /// The new objects, the root and its type change in one transaction, which is as durable as every other
    /// one when this returns. If this returns an error other than [`Error::OutcomeUnknown`], nothing has
    /// changed. If `f` fails or panics, the root stays as it was.
    ///
    /// # Cost
    /// The work of `f`, a few words for the root, and the comparison of types. During the migration, no other
    /// root can be created, renamed, removed or migrated, and the heap cannot be closed, checked or copied.
    /// If there is nothing to do, the cost is a lookup and the comparison of types.
    ///
    /// # Errors
    /// The errors that `f` returns; [`Error::Unfinished`] if an [`evolve`](Self::evolve) of the root is not
    /// complete; [`Error::UnsupportedType`]; [`Error::Closed`], [`Error::Forked`], [`Error::Failed`],
    /// [`Error::Misplaced`]. If there is something to do, also [`Error::ReadOnly`], [`Error::Nested`] if this
    /// thread is inside a transaction or read of the heap, [`Error::SeveralHeaps`] if of another one,
    /// [`Error::OutOfSpace`], [`Error::ReservationFull`], and other errors of a transaction. All of them
    /// leave the root as it was. With [`Durability::Wal`](crate::Durability::Wal), [`Error::OutcomeUnknown`]
    /// if the disk fails while this waits for it.
    pub fn migrate<Old: Persist, New: Persist>(
        &self,
        name: &str,
        f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, Old::At<'r>>) -> Result<New::At<'r>>,
    ) -> Result<bool> {
        let heap = self.inner();
        heap.check_open()?;
        let find = || self.to_migrate::<Old, New>(name);
        if find()?.is_none() {
            return Ok(false);
        }
        heap.check_writable()?;
        let _creation = heap.lock_creation()?;
        let Some(root) = find()? else {
            return Ok(false); // another thread has migrated or removed the root meanwhile
        };
        root.replace::<New>(|tx, old| {
            let value = f(tx, old)?;
            tx.alloc_at::<New>(value)
        })?;
        Ok(true)
    }

    /// Returns the root with this name, if its type is `Old`, and `New` is another type.
    fn to_migrate<Old: Persist, New: Persist>(&self, name: &str) -> Result<Option<Root<Old>>> {
        let root = match Root::<Old>::find_by_name(self.inner(), name) {
            Err(Error::NoSuchRoot(_) | Error::TypeMismatch { .. }) => return Ok(None),
            found => found?,
        };
        let is_new = !root.has_type(<New as Persist>::desc())?;
        Ok(is_new.then_some(root))
    }
}
