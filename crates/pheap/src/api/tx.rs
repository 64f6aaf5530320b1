//! `Txn`, by which programs write: indexing, slices, swaps. (What allocates is in `alloc`, the stores of `#[txn]` are in `stores`.)

#![allow(unsafe_code)]

use std::ops::{Deref, Index, IndexMut, RangeBounds};
use std::sync::Arc;

use super::places::{bytes_of, writable_at_first};
use super::view::View;
use crate::gc::held::{Held, HeldTable};
use crate::layout::{Persist, Pointee};
use crate::os::cpu;
use crate::ptr::{P, bounds, value_of};
use crate::txn::context::{Context, Hot, Mode};

/// An open transaction on a root: `tx[p]` reads and writes the object that `p` points to, and [`alloc`](Txn::alloc) creates new ones.
///
/// Indexing for writing makes the object crash-safe *before* it returns `&mut T`, so code that knows nothing of pheap
/// (`mem::swap`, `slice::sort`, any function that takes `&mut T`) may change it.
///
/// There is no way to free an object: unreachable objects are garbage.
//
// Premises, for what is `unsafe` here, in `alloc` and in `stores`. All of them hold from `Txn::new` on, as long as the `Txn` lives:
// (1) The view has a context. Its region is locked by this thread, which a `Txn` cannot leave, and a transaction is open in it.
// (2) A reference to the context lives only within one expression of these files, in which nothing that might ask for another is called.
// (3) A `P<'r, T>` points to a live `T` of the region (the contract of `P::from_addr`), and this `Txn` is the only one of its brand.
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
    /// # Safety
    /// As long as the transaction lives:
    /// * `hot` and `held` are those of one region, which this thread has locked for writing.
    /// * `hot` has a context, in which a transaction is open, and no reference to the context is used by others.
    /// * No other `Txn` of the region is used, and `'r` is a brand that only pointers into the region have.
    #[inline(always)]
    pub(crate) unsafe fn new(hot: &Hot, held: &Arc<HeldTable>) -> Txn<'r> {
        // SAFETY: a view asks for less than the caller has promised: a lock for writing, an open transaction, and a brand of its own.
        Txn { view: unsafe { View::new(hot, held) } }
    }

    /// The context, borrowed for one call.
    ///
    /// # Safety
    /// The reference goes before another one is asked for.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)] // a transaction stays in its thread
    pub(super) unsafe fn cx(&self) -> &mut Context {
        // SAFETY: not null, and alive, by (1); that there is no other reference is (2), and the caller's premise.
        unsafe { &mut *self.view.context() }
    }

    /// With what the heap hashes keys.
    pub(crate) fn hash_secret(&self) -> [u64; 2] {
        // SAFETY: (2), a look at the store.
        unsafe { self.cx() }.store().hash_secret
    }

    /// Elements `range` of a slice, to write. They are logged together, once; of other elements, a long transaction may log those that lie near.
    ///
    /// # Panics
    /// If the range is not within the slice.
    #[track_caller]
    pub fn slice_mut<T: Persist>(&mut self, slice: P<'r, [T]>, range: impl RangeBounds<usize>) -> &mut [T] {
        let (start, end) = bounds(range, slice.len());
        let data = value_of(slice).cast::<T>().wrapping_add(start);
        // SAFETY: `start..end` are elements of a live slice of this region: `bounds` has checked that, and (3).
        let place = unsafe { self.writable(std::ptr::slice_from_raw_parts_mut(data, end - start)) };
        // SAFETY: `writable` gives a place with these elements that is this transaction's alone; `&mut self` keeps all other access away.
        unsafe { &mut *place }
    }

    /// Swaps two objects (or elements, see [`P::at`]). Cheaper than two assignments on the long path: one fence.
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
        // SAFETY: a live object of this region, by (3).
        let is_in_place = |addr| unsafe { self.hot().is_in_place(addr, len, align_of::<T>()) };
        // What may have padding is to be noted, logged or not.
        if !<T as Pointee>::PADDED && is_in_place(addr_a) && is_in_place(addr_b) {
            // SAFETY: two live objects of one type, by (3); the undo log has both, so they are written where they are, and `&mut self` keeps
            // all other access away.
            return unsafe { std::ptr::swap(a, b) };
        }
        if self.logs_in_place() {
            // Both old values are about to be read, behind a lookup and before a fence: let the two waits overlap.
            cpu::prefetch_write(a.cast());
            cpu::prefetch_write(b.cast());
            // SAFETY: both are live objects of this region, by (3).
            unsafe { self.announce(&[(a.cast(), len), (b.cast(), len)]) };
        }
        loop {
            let before = (self.mode(), self.widened());
            // SAFETY: a live object of this region, by (3).
            let mut first = unsafe { self.writable(a) };
            // SAFETY: a live object of this region, by (3).
            let second = unsafe { self.writable(b) };
            // The second call may have changed where the first object is written: with the mode, by a wider copy, or in a transaction that is doomed.
            // That one has copies of both by now, which stay where they are.
            if before.0 == Mode::Doomed {
                // SAFETY: a live object of this region, by (3).
                first = unsafe { self.writable(a) };
            } else if (self.mode(), self.widened()) != before {
                continue;
            }
            // SAFETY: places of two values of one type, which `writable` has made this transaction's own, and which are good still, by what was checked above.
            return unsafe { std::ptr::swap(first, second) };
        }
    }

    /// Keeps a pointer beyond this transaction; valid once the transaction has committed. See [`View::get`].
    // `H` is known from `T`, and `T` from `H`, so that the type of a literal in the heap may come from a `Held<u64>` that is asked for.
    pub fn hold<T, H>(&self, p: P<'r, T>) -> Held<H>
    where
        T: Pointee<At<'r> = T, Unbranded = H> + ?Sized,
        H: Pointee<At<'r> = T> + ?Sized,
    {
        let held = self.held().hold(p.addr().as_ptr().expose_provenance(), false);
        // SAFETY: (2), for this call.
        unsafe { self.cx() }.held.push(held.slot());
        held
    }

    /// Frees an object when the transaction commits, rather than leaving it to a collection. Its memory is not used again before a crash
    /// can no longer bring back what pointed to it; and not at all, before the next collection, if one is running.
    ///
    /// # Safety
    /// When the transaction commits, nothing points to the object or into it: no object, no [`Held`], and no `P` that anyone has.
    #[doc(hidden)]
    pub unsafe fn __free_at_commit<T: Pointee + ?Sized>(&self, p: P<'r, T>) {
        // SAFETY: (2), for this call.
        unsafe { self.cx() }.alloc.free_at_commit(p.addr().as_ptr().expose_provenance());
    }

    /// Says that so many bytes at each of these places will be written soon. In a transaction that has outgrown its write set they get one entry of the
    /// undo log and one fence, rather than one each; in any other this does nothing. Each place is still to be asked for with
    /// [`writable`](Self::writable).
    ///
    /// # Safety
    /// The places are within live objects of this region.
    #[inline]
    pub(crate) unsafe fn announce(&mut self, places: &[(*mut u8, usize)]) {
        if self.logs_in_place() {
            let places = places.iter().map(|&(place, len)| (place.expose_provenance(), len));
            // SAFETY: (2), for this call: what the iterator does has nothing to do with the context.
            unsafe { self.cx() }.ahead.extend(places);
            self.ahead_done();
        }
    }

    /// Changes an object where it is, if this transaction has made it. Returns whether it did.
    pub(crate) fn change_new<T: Persist>(&mut self, p: P<'r, T>, change: impl FnOnce(&mut T)) -> bool {
        let object = value_of(p);
        // SAFETY: (2), for these calls.
        let cx = unsafe { self.cx() };
        if !cx.alloc.is_fresh(object.expose_provenance()) {
            return false;
        }
        cx.save_in_place(object.expose_provenance(), size_of::<T>());
        // SAFETY: a live object of this region, by (3), which needs no log, for the transaction has made it, and writes it where it is in any mode; `&mut self` keeps all other access away.
        change(unsafe { &mut *object });
        if <T as Pointee>::PADDED {
            // SAFETY: a valid object, for `change` had it as one; `&mut self` keeps all other access away.
            unsafe { T::zero_padding(object) };
        }
        true
    }

    /// Makes the value at `value` crash-safe, and says where it is to be written: a place that is this transaction's alone, until it is asked for another one.
    ///
    /// # Safety
    /// `value` is a live value of this region: an object, or a part of one.
    #[inline(always)]
    pub(crate) unsafe fn writable<T: Pointee + ?Sized>(&mut self, value: *mut T) -> *mut T {
        let (addr, len) = bytes_of(value);
        // What may have padding is to be noted.
        if !T::PADDED
            && let Some(place) = self.hot().recent.find(addr, len, T::ALIGN)
        {
            return T::relocated(value, place);
        }
        // SAFETY: the context of an open transaction of this thread, by (1), to which there is no reference, by (2). The value is the caller's premise.
        unsafe { writable_at_first(self.context(), value) }
    }
}

impl<'r, T: Pointee + ?Sized> Index<P<'r, T>> for Txn<'r> {
    type Output = T;

    #[inline(always)]
    fn index(&self, p: P<'r, T>) -> &T {
        // SAFETY: `p` points to a live `T` of this region, by (3), and `place_in_transaction` says where it, or its copy, is. Nobody has a `&mut` into it: that takes `&mut Txn`.
        unsafe { &*self.view.place_in_transaction(value_of(p)) }
    }
}

impl<'r, T: Pointee + ?Sized> IndexMut<P<'r, T>> for Txn<'r> {
    #[inline]
    fn index_mut(&mut self, p: P<'r, T>) -> &mut T {
        // SAFETY: a live object of this region, by (3).
        let place = unsafe { self.writable(value_of(p)) };
        // SAFETY: `writable` gives a place with this value that is this transaction's alone; `&mut self` keeps all other access away.
        unsafe { &mut *place }
    }
}

impl std::fmt::Debug for Txn<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Txn").field("mode", &self.mode()).finish_non_exhaustive()
    }
}
