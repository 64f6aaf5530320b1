//! `View` and `Shared`, by which programs read.

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
use crate::ptr::{Brand, P, value_of};
use crate::region::guard::{self, Scope};
use crate::txn::context::{Context, Hot, Mode};
use crate::txn::write_set::filter_bits;

/// The objects of a root, to read: `view[p]` is the object that `p` points to.
///
/// A [`Txn`](crate::Txn) is a view, too, so a function that only reads takes `&View<'r>` and works in both. A view stays in its
/// thread; [`shared`](View::shared) makes one for several threads.
pub struct View<'r> {
    at: Place,
    brand: Brand<'r>,
    /// Indexing in a transaction may change its state through `&self`.
    not_send_or_sync: PhantomData<*mut ()>,
}

/// Apart, so that one marker alone says that a view stays in its thread, and the compiler's message names nothing else.
#[derive(Clone, Copy)]
struct Place {
    hot: NonNull<Hot>,
    held: NonNull<Arc<HeldTable>>,
}

// SAFETY: two addresses, which this type does nothing with. What uses them is `View`, which stays in its thread.
unsafe impl Send for Place {}
// SAFETY: two addresses, which this type does nothing with. What uses them is `View`, which stays in its thread.
unsafe impl Sync for Place {}

impl<'r> View<'r> {
    /// # Safety
    /// As long as the view lives:
    /// * `held` is that of a region, which this thread has locked, and `hot` is that of the region, or a reader's. (Or the view is a reader's, and used only for objects that
    ///   stay as and where they are: see [`Lasting`].)
    /// * If `hot` has a context, the lock is for writing, a transaction is open, and no reference to the context is used by others.
    /// * `'r` is a brand that only pointers into this region have.
    /// * Nothing in the region is written that a reference from this view leads to, unless by a [`Txn`](crate::Txn) around the view, through `&mut`.
    #[inline(always)]
    pub(crate) unsafe fn new(hot: &Hot, held: &Arc<HeldTable>) -> View<'r> {
        View {
            at: Place { hot: NonNull::from(hot), held: NonNull::from(held) },
            brand: PhantomData,
            not_send_or_sync: PhantomData,
        }
    }

    #[inline(always)]
    pub(crate) fn hot(&self) -> &Hot {
        // SAFETY: of a region that is locked while the view lives, or a static (first premise of `new`).
        unsafe { self.at.hot.as_ref() }
    }

    pub(super) fn held(&self) -> &Arc<HeldTable> {
        // SAFETY: of a region that is locked while the view lives (first premise of `new`).
        unsafe { self.at.held.as_ref() }
    }

    /// The context of the transaction; null in a read.
    #[inline(always)]
    pub(crate) fn context(&self) -> *mut Context {
        self.hot().context.get()
    }

    /// This view for several threads at once, for instance in [`std::thread::scope`].
    ///
    /// In a transaction this ends the short path: the changes so far are stored in place, after an entry in the undo log.
    ///
    /// # Panics
    /// If the log cannot grow for the changes so far. The transaction is then doomed, and would end with
    /// [`Error::OutOfSpace`](crate::Error::OutOfSpace) anyway.
    pub fn shared(&self) -> Shared<'_, 'r> {
        if self.hot().filter.get() != 0 {
            // SAFETY: only a transaction has something in its filter; so there is a context, in this thread, to which there is no reference (second premise of `new`).
            unsafe { Context::leave_write_set(self.context()) };
            // A doomed transaction has filled it for good.
            assert!(
                self.is_in_place(),
                "the log could not grow for this transaction, so threads cannot see what it has changed"
            );
        }
        let hot = if self.is_read() { Hot::reader() } else { Hot::reader_in_transaction() };
        // SAFETY: the region is locked as long as `self` lives, which `Shared` borrows; the brand is that of `self`; a reader has no context. A `Txn` around `self` is
        // borrowed as well, so nothing is written, and nothing has a copy elsewhere: `is_in_place`, or the filter was 0.
        Shared { view: unsafe { View::new(hot, self.held()) }, of: PhantomData }
    }

    /// Whether this is the view of a read, and not of a transaction.
    fn is_read(&self) -> bool {
        std::ptr::eq(self.hot(), Hot::reader())
    }

    /// The pointer that `held` was made from.
    ///
    /// # Errors
    /// [`Error::NotHeld`](crate::Error::NotHeld) if it belongs to another root, to another opening of the heap, to a transaction that
    /// was rolled back, or to one that is still open, and this is a read beside it.
    pub fn get<T: Pointee + ?Sized>(&self, held: &Held<T>) -> Result<P<'r, T::At<'r>>> {
        let addr = self.held().get(held, !self.is_read())?;
        // SAFETY: the table has addresses of objects only, and the heap is not mapped at 0.
        let addr = unsafe { NonNull::new_unchecked(std::ptr::with_exposed_provenance_mut(addr)) };
        // SAFETY: an object of this region, for the table is the region's own. A transaction has published it, or this one has made it, and it was held
        // since: it is live. (A read may let go of it, and still has the pointer: no cycle begins while it is inside.) `Held<T>` was made from a pointer to a `T` of some brand.
        Ok(unsafe { P::from_addr(addr) })
    }

    /// Where the value of `p` is to be read.
    #[inline(always)]
    pub(crate) fn place<T: Pointee + ?Sized>(&self, p: P<'r, T>) -> *const T {
        self.place_of(value_of(p))
    }

    /// Whether nothing of the heap has a copy elsewhere, so that everything can be read where it is.
    #[inline(always)]
    pub(crate) fn is_in_place(&self) -> bool {
        self.hot().filter.get() == 0
    }

    /// Shows the objects where they are, without what this transaction keeps elsewhere: a state that was there before. For who only wants them loaded, and need not look for copies.
    ///
    /// While `look` runs code of others, it has no references to what it sees: these may read by the transaction, which may store its copies where they belong.
    #[inline]
    pub(crate) fn glance(&self, look: impl FnOnce(&View<'r>)) {
        let context = self.context();
        // Of a doomed transaction, a part is in place, and may have pointers to what is not.
        // SAFETY: a transaction's context, in this thread, to which there is no reference (second premise of `new`).
        if context.is_null() || unsafe { (*context).mode } != Mode::Doomed {
            // SAFETY: the region is locked as long as `self` lives; the brand is that of `self`; a reader has no context. A `Txn` around `self` is borrowed until `look` returns, so nothing
            // is written while there is a reference. What is in place are whole objects: as they were before the transaction, as it has made them, or, in the undo log's mode, as they are.
            look(&unsafe { View::new(Hot::reader_in_transaction(), self.held()) });
        }
    }

    /// Where the value at `value` is to be read.
    #[inline(always)]
    pub(crate) fn place_of<T: Pointee + ?Sized>(&self, value: *mut T) -> *const T {
        let filter = self.hot().filter.get();
        // One branch while the write set is empty.
        if filter == 0 {
            return value;
        }
        self.look_for(value).unwrap_or_else(|| self.unless_unwritten(value))
    }

    /// The same, at less cost if the transaction has come to the value lately.
    #[inline(always)]
    pub(super) fn place_in_transaction<T: Pointee + ?Sized>(&self, value: *mut T) -> *const T {
        // Of a slice there is seldom a copy.
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

    /// Where the value at `value` is, of which no copy was noted lately.
    #[inline(always)]
    fn unless_unwritten<T: Pointee + ?Sized>(&self, value: *mut T) -> *const T {
        let (addr, len) = (value.cast::<u8>().expose_provenance(), T::bytes(value));
        if self.hot().recent.is_unwritten(addr, len) {
            return value;
        }
        look_up(self.hot(), value)
    }

    /// Where the value at `value` is, if that was noted lately.
    #[inline(always)]
    fn look_for<T: Pointee + ?Sized>(&self, value: *mut T) -> Option<*const T> {
        let place =
            self.hot().recent.find(value.cast::<u8>().expose_provenance(), T::bytes(value), T::ALIGN)?;
        Some(T::relocated(value, place))
    }
}

/// Where a value is to be read that was not looked for lately, in a transaction that has copies. A function of its own, for the code around the calls is to have the registers; and not of a view,
/// whose address nobody is to have.
#[inline(never)]
fn look_up<T: Pointee + ?Sized>(hot: &Hot, value: *mut T) -> *const T {
    let (addr, len) = (value.cast::<u8>().expose_provenance(), T::bytes(value));
    // An empty value may lie just behind its object, at the beginning of another that has a copy.
    if len == 0 {
        return value;
    }
    if hot.filter.get() & filter_bits(addr, len) == 0 {
        hot.recent.note_unwritten(addr, len);
        return value;
    }
    // SAFETY: only a transaction has something in its filter; so there is a context, in this thread, to which there is no reference (second premise of `View::new`).
    let place = unsafe { Context::readable(hot.context.get(), addr, len, T::ALIGN) };
    T::relocated(value, place.cast_mut())
}

impl<'r, T: Pointee + ?Sized> Index<P<'r, T>> for View<'r> {
    type Output = T;

    #[inline(always)]
    fn index(&self, p: P<'r, T>) -> &T {
        // SAFETY: `p` points to a live `T` of this region (the brand), and `place` says where it, or its copy, is. The region is locked, and nobody has a `&mut` into
        // it: that takes `&mut Txn`, and `self` is borrowed from it.
        unsafe { &*self.place(p) }
    }
}

/// A [`View`] that threads can share; made by [`View::shared`]. Dereferences to it.
pub struct Shared<'v, 'r> {
    /// A reader's view, also in a transaction: it has no context, so nothing that it does changes one.
    view: View<'r>,
    of: PhantomData<&'v View<'r>>,
}

// SAFETY: while this lives nothing that it can reach is written: a read never writes, and a transaction needs `&mut Txn`, which
// `'v` excludes. (Allocation takes `&Txn`, but what it writes nobody else can reach, and a reader's view does not touch its context.)
// Indexing with a reader's view only reads, and its table of held pointers has a lock.
unsafe impl Sync for Shared<'_, '_> {}
// SAFETY: a `Shared` does in another thread what a `&Shared` does there, and that is sound, by the `Sync` above: dropping it does nothing.
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

/// A value with pointers to objects that nobody writes any more, kept for as long as this is: it is read without the lock of their region.
//
// Invariant: the pointers in `value` are into the region of `table`, `_held` keeps what they lead to, and nobody writes to any of it.
pub(crate) struct Lasting<T: Persist> {
    /// At no brand: it gets one when it is read.
    value: T,
    _held: Option<Held<u8>>,
    table: Arc<HeldTable>,
    heap: Arc<HeapInner>,
}

impl<T: Persist> Lasting<T> {
    /// A copy of `value`. `reached` is the object that leads to all that it leads to.
    ///
    /// # Errors
    /// [`Error::Nested`] in a transaction.
    ///
    /// # Safety
    /// * What a transaction has committed of what `value` leads to is never written again, by anyone, while it is reachable or held.
    /// * All that can be reached from `value` can be reached from `reached`; nothing, if that is `None`.
    /// * The functions that are given to [`read`](Self::read) use the view to look at what `value` leads to, at nothing else, and hand it to nobody who does.
    pub(crate) unsafe fn new<'r>(
        view: &View<'r>,
        value: &T::At<'r>,
        reached: Option<NonNull<u8>>,
    ) -> Result<Lasting<T>> {
        // A view of a transaction for several threads has no context, either.
        if !view.is_read() {
            return Err(Error::Nested);
        }
        let table = view.held().clone();
        let heap = table.heap().ok_or(Error::Closed)?;
        let _held = reached.map(|addr| table.hold(addr.as_ptr().expose_provenance(), true));
        // SAFETY: a valid value, and `T` is the same type at another brand, by the contract of `Persist`. Nothing uses the pointers in it before `read`.
        let value = unsafe { std::ptr::from_ref(value).cast::<T>().read() };
        Ok(Lasting { value, _held, table, heap })
    }

    /// A value that a transaction has committed. `held` has held all that it leads to since then, and `table` is that of their region.
    ///
    /// # Safety
    /// * That is so.
    /// * The first and the last premise of [`new`](Self::new).
    pub(crate) unsafe fn of(
        value: T,
        held: Option<Held<u8>>,
        table: &Arc<HeldTable>,
        heap: &Arc<HeapInner>,
    ) -> Lasting<T> {
        Lasting { value, _held: held, table: table.clone(), heap: heap.clone() }
    }

    /// Shows `f` the value.
    ///
    /// # Errors
    /// [`Error::Closed`] if the heap was closed, or the root was removed; [`Error::Forked`]; [`Error::Unsupported`] if this thread is inside of too much.
    pub(crate) fn read<R>(&self, f: impl for<'r> FnOnce(&View<'r>, &T::At<'r>) -> R) -> Result<R> {
        if self.table.is_forked() {
            return Err(Error::Forked);
        }
        let heap = self.heap.id();
        guard::enter(heap, Scope::Snapshot)?;
        let access = Access { heap, table: &self.table, begun: self.table.accesses.begin() };
        if access.begun.is_none() {
            return Err(Error::Closed);
        }
        // SAFETY: as long as `access` lives, the region is there. A reader has no context. What the view is used for, stays as it is (all premises of `new`), and
        // where it is, for it is held. `f` works for all brands.
        let view = &unsafe { View::new(Hot::reader(), &self.table) };
        // SAFETY: the same type at another brand, by the contract of `Persist`, and one that `f` cannot choose.
        let value = unsafe { &*std::ptr::from_ref(&self.value).cast::<T::At<'_>>() };
        let result = f(view, value);
        drop(access);
        Ok(result)
    }
}

/// A thread that reads something [`Lasting`].
struct Access<'a> {
    heap: usize,
    table: &'a HeldTable,
    begun: Option<accesses::Access<'a>>,
}

impl Drop for Access<'_> {
    fn drop(&mut self) {
        // Closing a heap is the parent's affair, and what it does that with may be locked for ever in a forked child.
        if self.table.is_forked() {
            std::mem::forget(self.begun.take());
        }
        drop(self.begun.take());
        guard::leave(self.heap);
    }
}
