//! `Txn`, by which programs write: indexing, slices, swaps, held pointers. (The file `alloc` has the
//! allocations, `nested` the nested parts, `stores` the stores of `#[txn]`.)

#![allow(unsafe_code)]

use std::ops::{Deref, Index, IndexMut, RangeBounds};
use std::sync::Arc;

use super::places::{bytes_of, writable_at_first};
use super::view::View;
use crate::gc::held::{Held, HeldTable};
use crate::layout::{Persist, Pointee};
use crate::os::cpu;
use crate::ptr::{P, bounds, elements_of, value_of};
use crate::txn::context::{Context, HotFields, Mode};

/// An open transaction on a root: `tx[p]` reads and writes the object that `p` points to, and
/// [`alloc`](Txn::alloc) creates new ones.
///
/// Indexing for writing makes the object crash-safe *before* it returns `&mut T`, so code that does not know
/// pheap (`mem::swap`, `slice::sort`, any function that takes `&mut T`) may change it.
///
/// Programs do not free objects: unreachable objects are garbage.
//
// Premises of the `unsafe` code of this file, `alloc`, `nested` and `stores`. All of them hold from
// `Txn::new` on, as long as the `Txn` lives:
// (1) The view has a context. This thread has locked its region, a `Txn` cannot leave the thread, and a
//     transaction is open in the region.
// (2) No reference to the context is used after another one was made: these files use each of them in one
//     expression or a few neighbouring ones, which call no function that might make another one.
// (3) A `P<'r, T>` points to a live `T` of the region (the contract of `P::from_addr`), and this `Txn` is the
//     only one of its brand.
pub struct Txn<'r> {
    view: View<'r>,
}

impl<'r> Deref for Txn<'r> {
    type Target = View<'r>;

    #[inline(always)]
    fn deref(&self) -> &View<'r> {
        &self.view
    }
}

impl<'r> Txn<'r> {
    /// Makes a `Txn` of the open transaction on the region of `hot` and `held`.
    ///
    /// # Safety
    /// As long as the transaction lives:
    /// * `hot` and `held` are those of one region, which this thread has locked for writing.
    /// * `hot` has a context, a transaction is open in it, and only the `Txn` makes references to the
    ///   context.
    /// * No other `Txn` of the region is used, and only pointers into the region have the brand `'r`.
    #[inline(always)]
    pub(crate) unsafe fn new(hot: &HotFields, held: &Arc<HeldTable>) -> Txn<'r> {
        // SAFETY: a view requires less than the caller's premises: a lock for writing, an open transaction,
        // and a unique brand.
        Txn { view: unsafe { View::new(hot, held) } }
    }

    /// Borrows the context of the transaction, for one call.
    ///
    /// # Safety
    /// The returned reference is not used after the next one is made.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)] // the context stays in the thread of the transaction
    pub(super) unsafe fn cx(&self) -> &mut Context {
        // SAFETY: the context is not null, and alive (premise 1 of `Txn`). No other reference to it is used
        // (premise 2 of `Txn`, and the caller's premise).
        unsafe { &mut *self.view.context() }
    }

    /// Returns the secret with which the heap hashes keys.
    pub(crate) fn hash_secret(&self) -> [u64; 2] {
        // SAFETY: the reference to the context ends with this expression, before another one is made (premise
        // 2 of `Txn`).
        unsafe { self.cx() }.store().hash_secret
    }

    /// Returns the elements in `range` of a slice, to write. These elements are made crash-safe together. A
    /// long transaction may also log elements close to them.
    ///
    /// # Panics
    /// If the range is not within the slice.
    #[track_caller]
    pub fn slice_mut<T: Persist>(&mut self, slice: P<'r, [T]>, range: impl RangeBounds<usize>) -> &mut [T] {
        let (start, end) = bounds(range, slice.len(self));
        let data = elements_of(slice).wrapping_add(start);
        // SAFETY: `start..end` are elements of a live slice of this region, as `bounds` has checked (premise
        // 3 of `Txn`).
        let place = unsafe { self.writable(std::ptr::slice_from_raw_parts_mut(data, end - start)) };
        // SAFETY: `writable` returns a place with these elements that only this transaction uses; `&mut self`
        // excludes all other access.
        unsafe { &mut *place }
    }

    /// Swaps two objects (or elements, see [`P::at`]). In a long transaction, a swap is cheaper than two
    /// assignments: both stores share one fence.
    pub fn swap<T: Persist>(&mut self, a: P<'r, T>, b: P<'r, T>) {
        let (a, b) = (value_of(a), value_of(b));
        if a == b {
            return;
        }
        let len = size_of::<T>();
        if len == 0 {
            return;
        }
        let (addr_a, addr_b) = (a.expose_provenance(), b.expose_provenance());
        // SAFETY: `addr` is the address of a live object of this region (premise 3 of `Txn`).
        let is_in_place = |addr| unsafe { self.hot().is_in_place(addr, len, align_of::<T>()) };
        // A value that may have padding must be noted for the commit, which zeroes the padding, even if the
        // value is logged already.
        if !<T as Pointee>::PADDED && is_in_place(addr_a) && is_in_place(addr_b) {
            // SAFETY: `a` and `b` are two live objects of one type (premise 3 of `Txn`). The undo log
            // contains both, so they can be written in place. `&mut self` excludes all other access.
            return unsafe { std::ptr::swap(a, b) };
        }
        if self.logs_in_place() {
            // The transaction is about to read both old values, after a lookup and before a fence. The
            // prefetches let the two cache misses overlap.
            cpu::prefetch_write(a.cast());
            cpu::prefetch_write(b.cast());
            // SAFETY: `a` and `b` are live objects of this region (premise 3 of `Txn`).
            unsafe { self.announce(&[(a.cast(), len), (b.cast(), len)]) };
        }
        loop {
            let before = (self.mode(), self.widened());
            // SAFETY: `a` is a live object of this region (premise 3 of `Txn`).
            let mut first = unsafe { self.writable(a) };
            // SAFETY: `b` is a live object of this region (premise 3 of `Txn`).
            let second = unsafe { self.writable(b) };
            // The second call of `writable` may have moved the place of the first object: by a change of
            // mode, by a wider copy, or because the transaction became doomed. A doomed transaction has
            // copies of both objects by now, and these copies stay where they are.
            if before.0 == Mode::Doomed {
                // SAFETY: `a` is a live object of this region (premise 3 of `Txn`).
                first = unsafe { self.writable(a) };
            } else if (self.mode(), self.widened()) != before {
                continue;
            }
            // SAFETY: `writable` returned places of two values of one type that only this transaction uses,
            // and the checks above have shown that both are still valid.
            return unsafe { std::ptr::swap(first, second) };
        }
    }

    /// Keeps a pointer beyond this transaction, if the transaction commits. See [`View::get`].
    // `H` follows from `T`, and `T` from `H`, so that the expected type `Held<u64>` determines the type of a
    // literal in the heap.
    pub fn hold<T, H>(&self, p: P<'r, T>) -> Held<H>
    where
        T: Pointee<At<'r> = T, Unbranded = H> + ?Sized,
        H: Pointee<At<'r> = T> + ?Sized,
    {
        let held = self.held().hold(p.addr().as_ptr().expose_provenance(), false);
        // SAFETY: the reference to the context ends with this expression, before another one is made (premise
        // 2 of `Txn`).
        unsafe { self.cx() }.held.push(held.table_slot());
        held
    }

    /// Frees an object when the transaction commits, and not only at the next collection. The object's memory
    /// is not reused as long as a crash can bring back pointers to the object; nor, if a collection is
    /// running, before the next collection.
    ///
    /// # Safety
    /// When the transaction commits, there is no pointer to the object or into it: in no object, no [`Held`],
    /// and no `P` of the program.
    #[doc(hidden)]
    pub unsafe fn __free_at_commit<T: Pointee + ?Sized>(&self, p: P<'r, T>) {
        // SAFETY: the reference to the context ends with this expression, before another one is made (premise
        // 2 of `Txn`).
        unsafe { self.cx() }.alloc.free_at_commit(p.addr().as_ptr().expose_provenance());
    }

    /// Announces writes to these places (address, bytes). A long transaction logs them together, with one
    /// entry of the undo log and one fence, instead of one each. In any other transaction this does nothing.
    /// The caller still calls [`writable`](Self::writable) for each place.
    ///
    /// # Safety
    /// The places are within live objects of this region.
    #[inline]
    pub(crate) unsafe fn announce(&mut self, places: &[(*mut u8, usize)]) {
        if self.logs_in_place() {
            let places = places.iter().map(|&(place, len)| (place.expose_provenance(), len));
            // SAFETY: the reference lives for this expression only, by (2): the iterator does not use the
            // context.
            unsafe { self.cx() }.ahead.extend(places);
            self.ahead_done();
        }
    }

    /// Changes an object in place, if this transaction has allocated it. Returns whether it has.
    pub(crate) fn change_new<T: Persist>(&mut self, p: P<'r, T>, change: impl FnOnce(&mut T)) -> bool {
        let object = value_of(p);
        // SAFETY: `cx` is used only in the two calls below, which make no other reference to the context
        // (premise 2 of `Txn`).
        let cx = unsafe { self.cx() };
        if !cx.alloc.is_fresh(object.expose_provenance()) {
            return false;
        }
        cx.save_in_place(object.expose_provenance(), size_of::<T>());
        // SAFETY: `object` is a live object of this region (premise 3 of `Txn`). The transaction has
        // allocated it, so it needs no log, and is written in place in any mode. `&mut self` excludes all
        // other access.
        change(unsafe { &mut *object });
        if <T as Pointee>::PADDED {
            // SAFETY: `object` is a valid `T`, because `change` had a reference to it; `&mut self` excludes
            // all other access.
            unsafe { T::zero_padding(object) };
        }
        true
    }

    /// Makes the value at `value` crash-safe, and returns the place to which it is to be written. Only this
    /// transaction uses that place. It is valid until the next access to the heap by this `Txn`: a write, but
    /// also a read, may move the place (by a wider copy, or because the transaction becomes long or doomed).
    ///
    /// # Safety
    /// `value` is a live value of this region: an object, or a part of one.
    #[inline(always)]
    pub(crate) unsafe fn writable<T: Pointee + ?Sized>(&mut self, value: *mut T) -> *mut T {
        let (addr, len) = bytes_of(value);
        // A value that may have padding must be noted for the commit, so the cache is not enough for it.
        if !T::PADDED
            && let Some(place) = self.hot().recent.find_recent(addr, len, T::ALIGN)
        {
            return T::relocated(value, place);
        }
        // SAFETY: the context is that of this thread's open transaction, and no reference to it exists
        // (premises 1 and 2 of `Txn`). The caller has promised that `value` is live.
        unsafe { writable_at_first(self.context(), value) }
    }
}

impl<'r, T: Pointee + ?Sized> Index<P<'r, T>> for Txn<'r> {
    type Output = T;

    #[inline(always)]
    fn index(&self, p: P<'r, T>) -> &T {
        // SAFETY: `p` points to a live `T` of this region (premise 3 of `Txn`), and `place_in_transaction`
        // returns the address of this `T`, or of its copy. No `&mut` to it exists, because that would need
        // `&mut Txn`.
        unsafe { &*self.view.place_in_transaction(self.value_of(p)) }
    }
}

impl<'r, T: Pointee + ?Sized> IndexMut<P<'r, T>> for Txn<'r> {
    #[inline]
    fn index_mut(&mut self, p: P<'r, T>) -> &mut T {
        // SAFETY: `p` points to a live object of this region (premise 3 of `Txn`).
        let place = unsafe { self.writable(self.value_of(p)) };
        // SAFETY: `writable` returns a place with this value that only this transaction uses; `&mut self`
        // excludes all other access.
        unsafe { &mut *place }
    }
}

impl std::fmt::Debug for Txn<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Txn").field("mode", &self.mode()).finish_non_exhaustive()
    }
}
