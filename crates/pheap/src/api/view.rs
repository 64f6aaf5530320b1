//! `View` and `Shared`, by which programs read, and `HeldValue`, a value of a snapshot.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::{Deref, Index};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::gc::accesses;
use crate::gc::held::{Held, HeldTable};
use crate::heap::HeapInner;
use crate::layout::{Persist, Pointee};
use crate::os::cpu::seldom;
use crate::ptr::{Brand, P};
use crate::region::guard::{self, Scope};
use crate::txn::context::{Context, HotFields, Mode};
use crate::txn::write_set::filter_bits;

/// The objects of a root, to read: `view[p]` is the object that `p` points to.
///
/// A [`Txn`](crate::Txn) is a view, too, so a function that only reads takes `&View<'r>` and works in both. A
/// view stays in its thread; [`shared`](View::shared) makes one for several threads.
pub struct View<'r> {
    at: ViewPointers,
    brand: Brand<'r>,
    /// Keeps the view in its thread: indexing in a transaction may change the transaction's state through
    /// `&self`.
    not_send_or_sync: PhantomData<*mut ()>,
}

/// The addresses of a view's hot fields and of its table of held pointers. A separate struct that is `Send`
/// and `Sync`, so that only the marker in [`View`] keeps a view in its thread, and the compiler's message
/// names only the marker.
#[derive(Clone, Copy)]
struct ViewPointers {
    hot: NonNull<HotFields>,
    held: NonNull<Arc<HeldTable>>,
}

// SAFETY: a `ViewPointers` is two addresses that it does not access. `View` accesses them, and stays in its
// thread.
unsafe impl Send for ViewPointers {}
// SAFETY: a `ViewPointers` is two addresses that it does not access. `View` accesses them, and stays in its
// thread.
unsafe impl Sync for ViewPointers {}

impl<'r> View<'r> {
    /// Makes a view of the region of `held`.
    ///
    /// # Safety
    /// As long as the view lives:
    /// * `held` is the table of a region that this thread has locked, and `hot` is the region's, or a
    ///   reader's. (Or `hot` is a reader's, and the view is used only for objects that neither change nor
    ///   move: see [`HeldValue`].)
    /// * If `hot` has a context, the lock is for writing, a transaction is open, and other code has no
    ///   reference to the context.
    /// * Only pointers into this region have the brand `'r`.
    /// * Only a [`Txn`](crate::Txn) around the view writes to objects that references from this view lead to,
    ///   through `&mut`.
    #[inline(always)]
    pub(crate) unsafe fn new(hot: &HotFields, held: &Arc<HeldTable>) -> View<'r> {
        View {
            at: ViewPointers { hot: NonNull::from(hot), held: NonNull::from(held) },
            brand: PhantomData,
            not_send_or_sync: PhantomData,
        }
    }

    #[inline(always)]
    pub(crate) fn hot(&self) -> &HotFields {
        // SAFETY: `hot` belongs to a region that is locked while the view lives, or is a static (first
        // premise of `new`).
        unsafe { self.at.hot.as_ref() }
    }

    pub(super) fn held(&self) -> &Arc<HeldTable> {
        // SAFETY: `held` belongs to a region that is locked while the view lives (first premise of `new`), or
        // to a `HeldValue`, which is borrowed while the view lives.
        unsafe { self.at.held.as_ref() }
    }

    /// Returns the context of the transaction; null in a read, and in a view for several threads.
    #[inline(always)]
    pub(crate) fn context(&self) -> *mut Context {
        self.hot().context.get()
    }

    /// Returns a view for several threads at once, for instance in [`std::thread::scope`].
    ///
    /// A transaction that has copies of objects becomes long by this: its changes so far are stored in place,
    /// after an entry in the undo log.
    ///
    /// # Panics
    /// If the log cannot grow for the changes so far. The transaction is then doomed, and would end with
    /// [`Error::OutOfSpace`](crate::Error::OutOfSpace) anyway.
    pub fn shared(&self) -> Shared<'_, 'r> {
        if self.hot().filter.get() != 0 {
            // SAFETY: only a transaction has a non-zero filter. So `hot` has a context, the transaction is
            // open in this thread, and no reference to the context exists (second premise of `new`).
            unsafe { Context::leave_write_set(self.context()) };
            // The filter stays full in a doomed transaction.
            assert!(
                self.is_in_place(),
                "`shared` failed because the log could not grow for the changes of this transaction, which \
                 will fail with `Error::OutOfSpace`"
            );
        }
        let hot = if self.is_read() { HotFields::reader() } else { HotFields::reader_in_transaction() };
        // SAFETY: the region is locked as long as `self` lives, which `Shared` borrows; the brand is that of
        // `self`; a reader has no context. A `Txn` around `self` is borrowed as well, so no thread writes. No
        // object has a copy elsewhere, because the filter is 0.
        Shared { view: unsafe { View::new(hot, self.held()) }, of: PhantomData }
    }

    /// Whether this is the view of a read, or of a [`HeldValue`], and not of a transaction.
    fn is_read(&self) -> bool {
        std::ptr::eq(self.hot(), HotFields::reader())
    }

    /// Returns the pointer from which `held` was made.
    ///
    /// # Errors
    /// [`Error::NotHeld`](crate::Error::NotHeld) if `held` belongs to another root, to another opening of the
    /// heap, or to a transaction that was rolled back; and in a read, if it belongs to a transaction that is
    /// still open. [`Error::Forked`](crate::Error::Forked) in a forked child.
    pub fn get<T: Pointee + ?Sized>(&self, held: &Held<T>) -> Result<P<'r, T::At<'r>>> {
        let addr = self.held().get(held, !self.is_read())?;
        // SAFETY: the table has addresses of objects only, and the heap is not mapped at 0.
        let addr = unsafe { NonNull::new_unchecked(std::ptr::with_exposed_provenance_mut(addr)) };
        // SAFETY: `addr` is the address of an object of this region, because the table belongs to the region.
        // A transaction has published the object, or this transaction has held it, and it was held since: so
        // it is live. (Another thread may release it during a read: no cycle begins before the read ends, so
        // the pointer stays valid.) `Held<T>` was made from a pointer to a `T` of some brand.
        Ok(unsafe { P::from_addr(addr) })
    }

    /// Returns the place from which to read the value of `p`: in place, or a copy.
    #[inline(always)]
    pub(crate) fn read_address<T: Pointee + ?Sized>(&self, p: P<'r, T>) -> *const T {
        self.place_of(self.value_of(p))
    }

    /// Returns the address of the value of an object in place, with its length if it is a slice or string.
    #[inline(always)]
    pub(crate) fn value_of<T: Pointee + ?Sized>(&self, p: P<'r, T>) -> *mut T {
        // SAFETY: `p` points to a live object of this region (the brand), which is locked.
        unsafe { T::value(p.addr().as_ptr()) }
    }

    /// Whether no object of the heap has a copy elsewhere, so that everything can be read in place.
    #[inline(always)]
    pub(crate) fn is_in_place(&self) -> bool {
        self.hot().filter.get() == 0
    }

    /// Calls `look` with a view of the objects in place, without the copies of this transaction: an earlier
    /// state. It is for code that only prefetches objects, and need not look up copies.
    ///
    /// While `look` runs code of the program, it must have no references into the heap: that code may read
    /// through the transaction, which may store its copies in place.
    #[inline]
    pub(crate) fn glance(&self, look: impl FnOnce(&View<'r>)) {
        let context = self.context();
        // Not in a doomed transaction: some objects in place may have pointers to objects that exist as
        // copies only.
        // SAFETY: `context` is null, or that of this thread's open transaction, to which no reference exists
        // (second premise of `new`).
        if context.is_null() || unsafe { (*context).mode } != Mode::Doomed {
            // SAFETY: the region is locked as long as `self` lives; the brand is that of `self`; a reader has
            // no context. A `Txn` around `self` is borrowed until `look` returns, so no thread writes while
            // `look` has a reference. The objects in place are whole: as they were before the transaction, as
            // it has allocated them, or, in a long transaction, as they are now.
            look(&unsafe { View::new(HotFields::reader_in_transaction(), self.held()) });
        }
    }

    /// Returns the place from which to read the value at `value`: in place, or a copy.
    #[inline(always)]
    pub(crate) fn place_of<T: Pointee + ?Sized>(&self, value: *mut T) -> *const T {
        let filter = self.hot().filter.get();
        // While the write set is empty, a read costs this single branch.
        if filter == 0 {
            return value;
        }
        self.look_for(value).unwrap_or_else(|| self.unless_unwritten(value))
    }

    /// Like [`place_of`](Self::place_of), but cheaper if the transaction has accessed the value recently.
    #[inline(always)]
    pub(super) fn place_in_transaction<T: Pointee + ?Sized>(&self, value: *mut T) -> *const T {
        // A slice rarely has a copy, so the filter is tested before the cache is searched.
        if size_of::<*mut T>() > size_of::<*mut u8>() && self.is_in_place() {
            return value;
        }
        if let Some(place) = self.look_for(value) {
            return place;
        }
        seldom();
        if self.is_in_place() {
            return value;
        }
        self.unless_unwritten(value)
    }

    /// Returns the place from which to read the value at `value`, which the cache of recent places does not
    /// have: in place if the cache says that no part of the value has a copy. Otherwise looks the value up in
    /// the write set.
    #[inline(always)]
    fn unless_unwritten<T: Pointee + ?Sized>(&self, value: *mut T) -> *const T {
        let (addr, len) = (value.cast::<u8>().expose_provenance(), T::bytes(value));
        if self.hot().recent.is_unwritten(addr, len) {
            return value;
        }
        look_up(self.hot(), value)
    }

    /// Returns the place from which to read the value at `value`; `None` if the cache of recent places does
    /// not have it.
    #[inline(always)]
    fn look_for<T: Pointee + ?Sized>(&self, value: *mut T) -> Option<*const T> {
        let place = self.hot().recent.find_recent(
            value.cast::<u8>().expose_provenance(),
            T::bytes(value),
            T::ALIGN,
        )?;
        Some(T::relocated(value, place))
    }
}

/// Finds the place from which a value is to be read, in a transaction with copies, if the value is not in the
/// cache. A separate function, so that it needs no registers in the code around the calls. It takes `hot` and
/// not the view, so that the view's address does not escape.
#[inline(never)]
fn look_up<T: Pointee + ?Sized>(hot: &HotFields, value: *mut T) -> *const T {
    let (addr, len) = (value.cast::<u8>().expose_provenance(), T::bytes(value));
    // An empty value may lie at the end of its object, which is the start of another object that has a copy.
    if len == 0 {
        return value;
    }
    if hot.filter.get() & filter_bits(addr, len) == 0 {
        hot.recent.note_unwritten(addr, len);
        return value;
    }
    // SAFETY: only a transaction has a non-zero filter. So `hot` has a context, the transaction is open in
    // this thread, and no reference to the context exists (second premise of `View::new`).
    let place = unsafe { Context::readable(hot.context.get(), addr, len, T::ALIGN) };
    T::relocated(value, place.cast_mut())
}

impl<'r, T: Pointee + ?Sized> Index<P<'r, T>> for View<'r> {
    type Output = T;

    #[inline(always)]
    fn index(&self, p: P<'r, T>) -> &T {
        // SAFETY: `p` points to a live `T` of this region (the brand), and `read_address` returns the address
        // of this `T`, or of its copy. The region is locked (or the object does not change, see `new`), and
        // there is no `&mut` to it: that would need `&mut Txn`, and `self` is borrowed from it.
        unsafe { &*self.read_address(p) }
    }
}

/// A [`View`] that threads can share; made by [`View::shared`]. Dereferences to that view.
pub struct Shared<'v, 'r> {
    /// A reader's view, also in a transaction: it has no context, so it cannot change one.
    view: View<'r>,
    of: PhantomData<&'v View<'r>>,
}

// SAFETY: while a `Shared` lives, nothing that it can reach is written: a read never writes, and a
// transaction needs `&mut Txn`, which `'v` excludes. (Allocation takes `&Txn`, but writes only objects that
// are not reachable yet, and a reader's view does not use the context.) Indexing with a reader's view only
// reads, and its table of held pointers has a lock.
unsafe impl Sync for Shared<'_, '_> {}
// SAFETY: moving a `Shared` to another thread is like sharing it with that thread, which is sound by the
// `Sync` above; dropping it does nothing.
unsafe impl Send for Shared<'_, '_> {}

impl<'r> Deref for Shared<'_, 'r> {
    type Target = View<'r>;

    #[inline(always)]
    fn deref(&self) -> &View<'r> {
        &self.view
    }
}

impl<'r, T: Pointee + ?Sized> Index<P<'r, T>> for Shared<'_, 'r> {
    type Output = T;

    #[inline(always)]
    fn index(&self, p: P<'r, T>) -> &T {
        &self.view[p]
    }
}

/// A value whose pointers lead to objects that no thread writes any more, such as a snapshot. It keeps these
/// objects alive, and threads read it without the lock of their region.
//
// Invariant: the pointers in `value` are into the region of `table`, `_held` keeps alive the objects that
// they lead to, and none of those objects is written.
pub(crate) struct HeldValue<T: Persist> {
    /// The value, without a brand: [`read`](Self::read) gives it one.
    value: T,
    _held: Option<Held<u8>>,
    table: Arc<HeldTable>,
    heap: Arc<HeapInner>,
}

impl<T: Persist> HeldValue<T> {
    /// Copies `value`, and holds the object at `reached`, which keeps all objects alive that `value` leads
    /// to.
    ///
    /// # Errors
    /// [`Error::Nested`] in a transaction; [`Error::Closed`] if the heap does not exist any more.
    ///
    /// # Safety
    /// * If a transaction has committed an object that `value` leads to, it is never written again while it
    ///   is reachable or held.
    /// * All objects that can be reached from `value` can be reached from `reached`; if that is `None`, there
    ///   are none.
    /// * The functions that are passed to [`read`](Self::read) use the view only for objects that `value`
    ///   leads to, and pass it only to functions that do the same.
    pub(crate) unsafe fn new<'r>(
        view: &View<'r>,
        value: &T::At<'r>,
        reached: Option<NonNull<u8>>,
    ) -> Result<HeldValue<T>> {
        // A view that `View::shared` has made in a transaction has no context either, but belongs to no read.
        // So this does not look at the context.
        if !view.is_read() {
            return Err(Error::Nested);
        }
        let table = view.held().clone();
        let heap = table.heap().ok_or(Error::Closed)?;
        let _held = reached.map(|addr| table.hold(addr.as_ptr().expose_provenance(), true));
        // SAFETY: `value` is valid, and `T` is the same type with another brand, by the contract of
        // `Persist`. The pointers in the copy are not used before `read`.
        let value = unsafe { std::ptr::from_ref(value).cast::<T>().read() };
        Ok(HeldValue { value, _held, table, heap })
    }

    /// Makes a `HeldValue` of a value that a transaction has committed.
    ///
    /// # Safety
    /// * All objects that `value` leads to have been kept alive since the commit, and `held` keeps them alive
    ///   from now on; if it is `None`, there are none. `table` is the table of their region.
    /// * If a transaction has committed an object that `value` leads to, it is never written again while it
    ///   is reachable or held.
    /// * The functions that are passed to [`read`](Self::read) use the view only for objects that `value`
    ///   leads to, and pass it only to functions that do the same.
    pub(crate) unsafe fn from_committed(
        value: T,
        held: Option<Held<u8>>,
        table: &Arc<HeldTable>,
        heap: &Arc<HeapInner>,
    ) -> HeldValue<T> {
        HeldValue { value, _held: held, table: table.clone(), heap: heap.clone() }
    }

    /// Calls `f` with the value, and with a view to read the objects that the value leads to.
    ///
    /// # Errors
    /// [`Error::Closed`] if the heap was closed, or the root was removed; [`Error::Forked`];
    /// [`Error::Unsupported`] if this thread has nested too many accesses.
    pub(crate) fn read<R>(&self, f: impl for<'r> FnOnce(&View<'r>, &T::At<'r>) -> R) -> Result<R> {
        self.table.process.check()?;
        let heap = self.heap.id();
        guard::enter(heap, Scope::Snapshot)?;
        let access = HeldAccess { heap, table: &self.table, begun: self.table.accesses.begin_access() };
        if access.begun.is_none() {
            return Err(Error::Closed);
        }
        // SAFETY: the region exists as long as `access` lives. A reader has no context. The objects for which
        // the view is used stay unchanged (all premises of `new`), and stay where they are, because they are
        // held. `f` works for all brands.
        let view = &unsafe { View::new(HotFields::reader(), &self.table) };
        // SAFETY: `T::At` is the same type as `T`, by the contract of `Persist`, and `f` cannot choose its
        // brand.
        let value = unsafe { &*std::ptr::from_ref(&self.value).cast::<T::At<'_>>() };
        let result = f(view, value);
        drop(access);
        Ok(result)
    }
}

/// A thread's access to a [`HeldValue`].
struct HeldAccess<'a> {
    heap: usize,
    table: &'a HeldTable,
    begun: Option<accesses::AccessGuard<'a>>,
}

impl Drop for HeldAccess<'_> {
    fn drop(&mut self) {
        // A forked child does not end the access: that could take a lock of the parent, which may stay locked
        // in the child for ever, and only the parent closes the heap.
        if self.table.process.is_parent() {
            std::mem::forget(self.begun.take());
        }
        drop(self.begun.take());
        guard::leave(self.heap);
    }
}
