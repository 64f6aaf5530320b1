//! `Root`, the handle that programs have of a region.

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::api::tx::Txn;
use crate::api::view::View;
use crate::error::{Error, Result};
use crate::heap::HeapInner;
use crate::layout::Persist;
use crate::ptr::P;
use crate::region::{Exclusive, Region, Shared, guard};
use crate::txn::context::Hot;

/// A named root of a heap: an object of type `T`, and a region of its own for everything that it points to.
///
/// A handle is cheap to clone and can be sent to other threads. Transactions on one root run one after the other, reads run
/// concurrently. Different roots do not wait for one another, so threads scale by using several.
pub struct Root<T> {
    pub(crate) heap: Arc<HeapInner>,
    pub(crate) region: Arc<Region>,
    /// The number of `T`, by which the region knows whether its root still is one.
    pub(crate) ty: u32,
    marker: PhantomData<fn() -> T>,
}

impl<T> Clone for Root<T> {
    fn clone(&self) -> Self {
        Root { heap: self.heap.clone(), region: self.region.clone(), ty: self.ty, marker: PhantomData }
    }
}

impl<T> fmt::Debug for Root<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Root")
            .field("name", &self.region.look_at_name(self.heap.is_forked()))
            .finish_non_exhaustive()
    }
}

impl<T: Persist> Root<T> {
    /// # Safety
    /// `ty` is the number of `T` in the type table of `heap`, and `region` is one of its regions.
    pub(crate) unsafe fn new(heap: Arc<HeapInner>, region: Arc<Region>, ty: u32) -> Root<T> {
        Root { heap, region, ty, marker: PhantomData }
    }

    /// The root's name. (In a forked child, it is empty if the root was being renamed.)
    pub fn name(&self) -> String {
        self.region.look_at_name(self.heap.is_forked())
    }

    /// Runs `f` as one transaction: all of it happens, durably before this returns, or nothing.
    ///
    /// If `f` returns an error or panics, everything that it did is rolled back. A crash at any moment leaves the whole state before or
    /// after the transaction. Waits while another thread uses the root.
    ///
    /// The error type is fixed, so that a closure may end in `Ok(())`; see [`try_txn`](Self::try_txn) for others.
    ///
    /// Inside, do not wait for a thread that needs the same root. Where transactions on two *heaps* are nested, nest them in the same
    /// order everywhere, as with any two locks; roots of one heap are opened together with [`pheap::txn`](crate::txn()).
    ///
    /// # Cost
    /// A transaction without writes and allocations costs a lock, at most. One that changes a few small objects costs one fence; see the
    /// crate's documentation for longer ones.
    ///
    /// # Errors
    /// What `f` returns; [`Error::Nested`] if this thread is inside a transaction or read of the heap already; [`Error::OutOfSpace`] if
    /// the log cannot grow; [`Error::ReadOnly`], [`Error::Closed`], [`Error::Migrated`], [`Error::Forked`]. All of them leave the root as it was. With
    /// [`Durability::Wal`](crate::Durability::Wal), [`Error::OutcomeUnknown`] if the disk fails while this transaction waits for it, and
    /// [`Error::Failed`] if it has failed before.
    #[inline]
    pub fn txn<R>(&self, f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, T::At<'r>>) -> Result<R>) -> Result<R> {
        self.try_txn(f)
    }

    /// [`txn`](Self::txn) with an error type of your own.
    ///
    /// # Errors
    /// As for `txn`.
    #[inline]
    pub fn try_txn<R, E: From<Error>>(
        &self,
        f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, T::At<'r>>) -> Result<R, E>,
    ) -> Result<R, E> {
        let mut exclusive = Exclusive::begin(&self.heap, &self.region, self.ty)?;
        // SAFETY: the region is locked until `exclusive` is committed or goes; `f` works for all brands, so nothing that has this one leaves it.
        match unsafe { f(&mut Txn::new(exclusive.hot(), &self.region.held), self.object()) } {
            Ok(result) => {
                exclusive.commit()?;
                Ok(result)
            }
            Err(error) => {
                exclusive.give_up()?;
                Err(error)
            }
        }
    }

    /// Runs `f`, which may read but not write. Reads of one root run concurrently, but not beside a transaction. With
    /// [`Durability::Wal`](crate::Durability::Wal), a read first waits until the data that it will see are durable.
    ///
    /// Reads of several roots and heaps may nest in any order. A read that is not nested waits for transactions that are already waiting for the root, so that
    /// overlapping reads cannot starve a transaction. A nested read does not wait. So if threads overlap without end and read a root only in nested reads, transactions on
    /// it may starve; make the read of that root the outermost. Inside, do not wait for a thread that needs the same root, also to read: it may queue after a transaction that waits for this read.
    ///
    /// # Errors
    /// [`Error::Nested`] if this thread is inside a transaction of the heap; [`Error::Closed`], [`Error::Migrated`], [`Error::Forked`]; with `Wal`,
    /// [`Error::OutcomeUnknown`] and [`Error::Failed`] if the disk has failed.
    #[inline]
    pub fn read<R>(&self, f: impl for<'r> FnOnce(&View<'r>, P<'r, T::At<'r>>) -> R) -> Result<R> {
        let _shared = Shared::begin(&self.heap, &self.region, self.ty)?;
        // SAFETY: as in `try_txn`; a reader's view is not writable.
        Ok(unsafe { f(&View::new(Hot::reader(), &self.region.held), self.object()) })
    }

    /// Collects the root: objects that were unreachable when this was called are free when it returns. Transactions and reads go on meanwhile.
    /// See [`Heap::collect`](crate::Heap::collect).
    ///
    /// # Errors
    /// [`Error::Nested`] if this thread is inside a transaction or read of the heap; [`Error::ReadOnly`], [`Error::Closed`],
    /// [`Error::Forked`].
    pub fn collect(&self) -> Result<()> {
        self.heap.check_writable()?;
        if guard::is_inside(self.heap.id()) {
            return Err(Error::Nested);
        }
        self.heap.collect(&self.region);
        Ok(())
    }

    /// The root object.
    ///
    /// # Safety
    /// The region is locked by this thread, which has said that it expects a root of type `self.ty`, and `'r` is a brand for as long.
    #[inline(always)]
    pub(crate) unsafe fn object<'r>(&self) -> P<'r, T::At<'r>> {
        // SAFETY: the root of a region that exists is live, and whoever has locked it was asked for the type.
        unsafe { P::from_addr(NonNull::new_unchecked(self.heap.base().add(self.region.root() as usize))) }
    }
}
