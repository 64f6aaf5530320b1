//! `Heap::migrate`: a root gets another type.
//!
//! The object that a root is has a type, and so has the span that it lies in, so another type takes another object. What says which object is
//! the root, and of which type, is four words: three in the region's header, and one of that header's entry in the span table. **One transaction
//! allocates the new object and writes these words**: they are in its record, or old content of them is in the undo log, like that of any
//! object. So there is no crash that leaves some of them. (A crash may leave some of them *and a log* that has the others: an opening reads
//! a region's header [as it will be](crate::heap::open::survey::Outlook) when the logs are replayed.) The type is in the type table, durably, before.
//!
//! **Handles.** A [`Root`](crate::Root) has the number of the type that it was made for, and whoever locks the region for it compares
//! that with the number that the region serves, behind the lock. The number changes under the lock, together with the root's
//! offset: so a handle that has waited while another thread migrated the root is turned away like one that comes later.
//!
//! **Collection.** The root is where a cycle begins, and here it changes, perhaps in the middle of one. That is sound:
//!
//! * A cycle that is running has begun with the old root. The new object was allocated since, so it is marked from birth (or noted, if
//!   spans are being swept already), as everything that is new. What it points to is new as well, or `f` has got the pointer from somewhere:
//!   through the old root or a held pointer, that is, from what was reachable when the cycle began, and is marked before it ends. For what
//!   was overwritten on the way, the barrier has seen to that. So when the cycle ends, all that the new root leads to is marked. The old
//!   root is, too; it is garbage for the next cycle.
//! * A cycle that begins later, even at the end of this very transaction, must begin with the new root: nothing else leads to it. So the
//!   offset changes after the commit, but before the collector gets its turn ([`Exclusive::commit`]).
//! * A minor cycle takes what is old for live, and looks for young objects behind the root (the new one, which is young) and behind remembered
//!   lines. It does not matter to it that the old root is garbage.

use super::root::Root;
use super::tx::Txn;
use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::layout::Persist;
use crate::ptr::P;

impl Heap {
    /// Gives a root another type: if it has the layout of `Old`, `f` runs in a transaction, and its result becomes the root object, together
    /// with all other changes of the transaction. Returns whether the root had that layout.
    ///
    /// If there is no such root, or it has another layout than `Old`, this does nothing and returns `Ok(false)`. So a program calls it
    /// for each version that it ever had, oldest first, and then opens the root: whichever version it finds is converted to the newest.
    /// If the root is of none of them, [`root`](Self::root) fails with [`Error::TypeMismatch`].
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
    /// Objects whose types are the same in both versions stay where they are: the new root points to them, as above. `f` must create anew the
    /// objects of changed types. Types are compared by their structure (names, fields, and the types that their pointers lead
    /// to), so the two may have the same name, also one that is set with `#[persist(id = "…")]`. A type that points back to
    /// the root's type changes with it. If the layouts are the same, there is nothing to do.
    ///
    /// # Handles
    /// Handles of the root that were made for `Old`, in any thread, fail with [`Error::Migrated`] from then on; so do those that wait for
    /// the root while `f` runs. [`Held`](crate::Held) pointers stay valid, also one to the old root object. Otherwise that object is garbage,
    /// unless another one points to it.
    ///
    /// # Crashes
    /// The new objects, the root and its type change in one transaction: when this returns, all of it has happened, durably, or nothing. An
    /// error or panic in `f` leaves the root as it was.
    ///
    /// # Cost
    /// The work of `f`, a few words for the root, and the comparison of types. No other root is created, renamed, removed or migrated
    /// meanwhile, and the heap cannot be closed, checked or copied. If there is nothing to do, a lookup.
    ///
    /// # Errors
    /// What `f` returns; [`Error::Closed`], [`Error::Forked`], [`Error::Failed`]. If there is something to do, also [`Error::ReadOnly`],
    /// [`Error::Nested`] if this thread is inside a transaction or read of the heap, [`Error::OutOfSpace`],
    /// [`Error::ReservationFull`]. All of them leave the root as it was. With [`Durability::Wal`](crate::Durability::Wal),
    /// [`Error::OutcomeUnknown`] if the disk fails while this waits for it.
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
            return Ok(false); // somebody else was faster
        };
        root.replace::<New>(|tx, old| {
            let value = f(tx, old)?;
            tx.alloc_at::<New>(value)
        })?;
        Ok(true)
    }

    /// The root, if its type is `Old`, and `New` is another one.
    fn to_migrate<Old: Persist, New: Persist>(&self, name: &str) -> Result<Option<Root<Old>>> {
        let root = match Root::<Old>::find(self.inner(), name) {
            Err(Error::NoSuchRoot(_) | Error::TypeMismatch { .. }) => return Ok(None),
            found => found?,
        };
        let is_new = !root.is(<New as Persist>::desc())?;
        Ok(is_new.then_some(root))
    }
}
