//! `Txn`, by which programs write: indexing, `alloc`, slices, swaps, and where a store under `#[txn]` ends up.

#![allow(unsafe_code)]

use std::ops::{Deref, Index, IndexMut, RangeBounds};
use std::ptr::NonNull;
use std::sync::Arc;

use super::view::View;
use crate::alloc::Request;
use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::gc::held::{Held, HeldTable};
use crate::layout::{Padding, Persist, Pointee, slice_header};
use crate::os::cpu;
use crate::ptr::{P, bounds, value_of};
use crate::txn::context::{Context, Hot, Mode, Route};
use crate::txn::write_set::MAX_OBJECT;

/// An open transaction on a root: `tx[p]` reads and writes the object that `p` points to, and [`alloc`](Txn::alloc) creates new ones.
///
/// Indexing for writing makes the object crash-safe *before* it returns `&mut T`, so code that knows nothing of pheap
/// (`mem::swap`, `slice::sort`, any function that takes `&mut T`) may change it.
///
/// There is no way to free an object: unreachable objects are garbage.
//
// Premises, for what is `unsafe` here. All of them hold from `Txn::new` on, as long as the `Txn` lives:
// (1) The view has a context. Its region is locked by this thread, which a `Txn` cannot leave, and a transaction is open in it.
// (2) A reference to the context lives only within one expression here, in which nothing that might ask for another is called.
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

/// Address and length of a value.
#[inline(always)]
fn bytes_of<T: Pointee + ?Sized>(value: *mut T) -> (usize, usize) {
    (value.cast::<u8>().expose_provenance(), T::bytes(value))
}

/// Whether there may be copies of all of a value like this one. Of a slice there is seldom any.
#[inline(always)]
fn has_copies<T: Pointee + ?Sized>(value: *mut T) -> bool {
    size_of::<*mut T>() == size_of::<*mut u8>() && T::bytes(value) <= MAX_OBJECT
}

/// Writes a value, with zeros where it has padding.
///
/// # Safety
/// `place` is valid for writes of a `T`, and aligned to it.
#[inline(always)]
unsafe fn write_unpadded<T: Persist>(place: *mut T, value: T) {
    // SAFETY: the place is valid for writes, and aligned: the caller's premise.
    unsafe { place.write(value) };
    if T::PADDED {
        // SAFETY: the place is valid and aligned (the caller's premise), and a valid `T` was just written to it.
        unsafe { T::zero_padding(place) };
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
    unsafe fn cx(&self) -> &mut Context {
        // SAFETY: not null, and alive, by (1); that there is no other reference is (2), and the caller's premise.
        unsafe { &mut *self.view.context() }
    }

    /// With what the heap hashes keys.
    pub(crate) fn hash_secret(&self) -> [u64; 2] {
        // SAFETY: (2), a look at the store.
        unsafe { self.cx() }.store().hash_secret
    }

    /// A new object with this value. It is garbage unless something reachable points to it when the transaction commits.
    ///
    /// Takes `&self`, so that allocations nest: `tx.alloc(Node { next: Some(tx.alloc(tail)?) })`.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`] or [`Error::ReservationFull`] if the heap cannot grow. The transaction can continue.
    #[inline]
    pub fn alloc<T: Persist<At<'r> = T>>(&self, value: T) -> Result<P<'r, T>> {
        self.alloc_at::<T>(value)
    }

    /// [`alloc`](Self::alloc) for a type of any brand, with a value that has the brand `'r`.
    #[inline]
    pub(crate) fn alloc_at<T: Persist>(&self, value: T::At<'r>) -> Result<P<'r, T::At<'r>>> {
        // SAFETY: the pointers in a `T::At<'r>` have the brand `'r`, by the contract of `Persist`.
        unsafe { self.alloc_unbranded(value) }
    }

    /// [`alloc`](Self::alloc) for the default value.
    pub(crate) fn alloc_default<T: Persist + Default>(&self) -> Result<P<'r, T::At<'r>>> {
        // SAFETY: `default` is given nothing, so there are no pointers in what it returns: a `P` comes out of a `Txn`, a `View` or another `P` only.
        let p = unsafe { self.alloc_unbranded(T::default()) }?;
        // SAFETY: a live object of this region, by (3); `T::At<'r>` is `T` with another brand, by the contract of `Persist`.
        Ok(unsafe { P::from_addr(p.addr()) })
    }

    /// # Safety
    /// All pointers in `value` are into this region, to live objects of their types.
    #[inline]
    unsafe fn alloc_unbranded<T: Persist>(&self, value: T) -> Result<P<'r, T>> {
        let (p, place) = self.alloc_uninit::<T>()?;
        // SAFETY: the place is a new object of the size and alignment of `T`, which nobody else has the address of.
        unsafe { write_unpadded(place, value) };
        Ok(p)
    }

    /// A new slice of `len` elements, made by `element`.
    ///
    /// # Errors
    /// As for [`alloc`](Self::alloc), and [`Error::TooLarge`].
    pub fn alloc_slice<T: Persist<At<'r> = T>>(
        &self,
        len: usize,
        mut element: impl FnMut(usize) -> T,
    ) -> Result<P<'r, [T]>> {
        let (p, data) = self.alloc_elements::<T>(len)?;
        for i in 0..len {
            let value = element(i);
            // SAFETY: `i < len`, and the new object, which nobody else has the address of, has room for `len` elements.
            unsafe { write_unpadded(data.wrapping_add(i), value) };
        }
        Ok(p)
    }

    /// A new slice with copies of these elements.
    ///
    /// # Errors
    /// As for [`alloc_slice`](Self::alloc_slice).
    pub fn alloc_slice_copy<T: Persist<At<'r> = T> + Copy>(&self, elements: &[T]) -> Result<P<'r, [T]>> {
        self.alloc_slice(elements.len(), |i| elements[i])
    }

    /// A new string.
    ///
    /// # Errors
    /// As for [`alloc_slice`](Self::alloc_slice).
    pub fn alloc_str(&self, text: &str) -> Result<P<'r, str>> {
        // SAFETY: a string is laid out as a slice of bytes, which have size and alignment 1.
        let (p, data) = unsafe { self.alloc_raw(text.len(), 1, 1, <str as Pointee>::desc())? };
        // SAFETY: the new object has room for so many bytes, and the text is not in it.
        unsafe { data.copy_from_nonoverlapping(text.as_ptr(), text.len()) };
        // SAFETY: the new object is a string: its length was written by `alloc_raw`, and its bytes just now.
        Ok(unsafe { P::from_addr(p) })
    }

    /// A new slice, whose elements are not written yet.
    pub(crate) fn alloc_elements<T: Persist>(&self, len: usize) -> Result<(P<'r, [T]>, *mut T)> {
        let desc = <[T] as Pointee>::desc();
        // SAFETY: `desc` is that of a slice of elements of this size and alignment.
        let (p, data) = unsafe { self.alloc_raw(len, size_of::<T>(), align_of::<T>(), desc)? };
        // SAFETY: a new object of this type. Its elements are written before anyone reads them, or it is never reachable.
        Ok((unsafe { P::from_addr(p) }, data.cast()))
    }

    /// A new object, which is not written yet.
    #[inline(always)]
    pub(crate) fn alloc_uninit<T: Persist>(&self) -> Result<(P<'r, T>, *mut T)> {
        let request = Request {
            desc: <T as Persist>::desc(),
            bytes: size_of::<T>() as u64,
            align: align_of::<T>() as u64,
            unsized_: false,
        };
        // SAFETY: (2), for this call.
        let ptr = unsafe { self.cx() }.alloc(request)?;
        // SAFETY: an object of the heap, which is not mapped at 0.
        let addr = unsafe { NonNull::new_unchecked(ptr) };
        // SAFETY: a new object of this type. It is written before anyone reads it, or is never reachable.
        Ok((unsafe { P::from_addr(addr) }, ptr.cast()))
    }

    /// A new object with a length and room for that many elements.
    ///
    /// # Safety
    /// `desc` describes a slice of elements of this size and alignment.
    unsafe fn alloc_raw(
        &self,
        len: usize,
        size: usize,
        align: usize,
        desc: &'static crate::layout::desc::Desc,
    ) -> Result<(NonNull<u8>, *mut u8)> {
        let header = slice_header(align);
        let bytes = size.checked_mul(len).and_then(|bytes| bytes.checked_add(header));
        let bytes = bytes.filter(|&bytes| bytes < 1 << 48).ok_or(Error::TooLarge { bytes: u64::MAX })? as u64;
        // SAFETY: (2), for this call.
        let ptr = unsafe { self.cx() }.alloc(Request { desc, bytes, align: align as u64, unsized_: true })?;
        // SAFETY: a new object of `bytes`, at least 8, aligned to 8, which nobody else has the address of.
        unsafe { ptr.cast::<u64>().write(len as u64) };
        // SAFETY: an object of the heap, which is not mapped at 0.
        let addr = unsafe { NonNull::new_unchecked(ptr) };
        Ok((addr, ptr.wrapping_add(header)))
    }

    /// Elements `range` of a slice, to write. They are logged together, once; other elements are not logged.
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
        if self.__logs_in_place() {
            // Both old values are about to be read, behind a lookup and before a fence: let the two waits overlap.
            cpu::prefetch(a.cast());
            cpu::prefetch(b.cast());
            let (addr_a, addr_b) = (a.expose_provenance(), b.expose_provenance());
            // SAFETY: (2), for this look.
            let is_in_place = |addr| unsafe { self.cx() }.is_in_place(addr, len, align_of::<T>());
            // What may have padding is to be noted, logged or not.
            if !<T as Pointee>::PADDED && is_in_place(addr_a) && is_in_place(addr_b) {
                // SAFETY: two live objects of one type, by (3); the undo log has both, so they are written where they are, and `&mut self` keeps
                // all other access away.
                return unsafe { std::ptr::swap(a, b) };
            }
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
        if self.__logs_in_place() {
            let places = places.iter().map(|&(place, len)| (place.expose_provenance(), len));
            // SAFETY: (2), for this call: what the iterator does has nothing to do with the context.
            unsafe { self.cx() }.ahead.extend(places);
            self.__ahead_done();
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
            // SAFETY: a valid object, which nobody else has access to, as above.
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

/// What `#[txn]` expands to.
impl<'r> Txn<'r> {
    /// The object, for the places that the next two are asked for. No closures there: each one would be a function more to check and to translate.
    #[doc(hidden)]
    #[inline(always)]
    pub fn __object<T: Pointee + ?Sized>(&self, p: P<'r, T>) -> *mut T {
        value_of(p)
    }

    /// Makes a place within an object crash-safe, and returns it.
    ///
    /// # Safety
    /// `object` is what [`__object`](Self::__object) of this transaction said, and `place` is within it.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn __place<T: Pointee + ?Sized, F: Persist>(
        &mut self,
        object: *mut T,
        place: *mut F,
    ) -> &mut F {
        let (addr, len) = bytes_of(place);
        if !<F as Pointee>::PADDED {
            if has_copies(object) {
                let (whole, bytes) = bytes_of(object);
                if let Some(noted) = self.hot().recent.find(whole, bytes, T::ALIGN) {
                    // SAFETY: what `recent` has is where the transaction reads and writes all of `object`, and aligned as it is. `place` is within `object` (the caller's
                    // premise), so this is within that, which is this transaction's alone; `&mut self` keeps all other access away.
                    return unsafe { &mut *noted.wrapping_add(addr - whole).cast::<F>() };
                }
            // SAFETY: (2), for this look.
            } else if unsafe { self.cx() }.is_in_place(addr, len, align_of::<F>()) {
                // SAFETY: a live value of this region (the caller's premise), which is written where it is; `&mut self` keeps all other access away.
                return unsafe { &mut *place };
            }
        }
        // SAFETY: the context of an open transaction of this thread, by (1), to which there is no reference, by (2). `object` is what a `P` of this brand points to (the caller's premise): a
        // live object of this region, by (3). `place` is within it.
        let place = unsafe { place_apart(self.hot(), object, place) };
        // SAFETY: a place with this value that is this transaction's alone; `&mut self` keeps all other access away.
        unsafe { &mut *place }
    }

    /// Whether each store is logged on its own, so that a group saves fences.
    #[doc(hidden)]
    #[inline]
    pub fn __logs_in_place(&self) -> bool {
        // There are copies in most short transactions, and in no long one but for a while.
        self.is_in_place() && self.mode() == Mode::Long
    }

    /// How many times copies were replaced by wider ones.
    #[inline(always)]
    pub(crate) fn widened(&self) -> u32 {
        // SAFETY: (2), for this look.
        unsafe { self.cx() }.set.widened
    }

    #[inline(always)]
    pub(crate) fn mode(&self) -> Mode {
        // SAFETY: (2), for this look.
        unsafe { self.cx() }.mode
    }

    /// Notes what a store to a place will have logged, if there is such a place.
    ///
    /// # Safety
    /// `object` is what [`__object`](Self::__object) of this transaction said, and `place` is within it.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn __ahead<T: Pointee + ?Sized, F>(&mut self, object: *mut T, place: Option<*mut F>) {
        if let Some(place) = place {
            // SAFETY: the context of an open transaction of this thread, by (1), to which there is no reference, by (2).
            unsafe { note_ahead(self.context(), object, place) };
        }
    }

    /// Whether any place was noted. If not, the last one of a group need not be: it can just as well be logged by itself.
    #[doc(hidden)]
    #[inline]
    pub fn __is_ahead(&self) -> bool {
        // SAFETY: (2), for this look.
        !unsafe { self.cx() }.ahead.is_empty()
    }

    /// Logs all places noted, behind one fence.
    #[doc(hidden)]
    #[inline]
    pub fn __ahead_done(&mut self) {
        // SAFETY: the context of an open transaction of this thread, by (1), to which there is no reference, by (2).
        unsafe { Context::log_ahead(self.context()) };
    }
}

// What follows is for values that were not looked for lately. They are functions of their own, for the code around the calls is to have the registers; and functions of the context, for a
// `Txn` whose address nobody gets need not be looked at again after each store.
//
// Safety, for all of them: `cx` is the context of an open transaction of this thread, to which there is no reference. `value` and `object` are live values of its region, `place` is within
// `object`, and nobody has a reference to what is going to be written.

/// Where the value is to be written.
///
/// # Safety
/// See above.
#[cold]
#[inline(never)]
unsafe fn writable_at_first<T: Pointee + ?Sized>(cx: *mut Context, value: *mut T) -> *mut T {
    let (addr, len) = bytes_of(value);
    // For any other value this was asked where the call is.
    if T::PADDED || !has_copies(value) {
        // SAFETY: there is the context, and no other reference to it; this one goes before the next call that takes the pointer.
        let context = unsafe { &mut *cx };
        let noted = context.hot().recent.find(addr, len, T::ALIGN);
        if let Some(place) = noted {
            context.note_padding(addr, Padding::of(value));
            return T::relocated(value, place);
        }
    }
    // SAFETY: the caller's premises.
    let place = unsafe { Context::writable(cx, addr, len, T::ALIGN, Padding::of(value)) };
    T::relocated(value, place)
}

/// Where `place` is to be written, by itself if that is simple. There are no calls but in the end: so no registers are saved for a store that ends here, and most do that come to a field again, or
/// are the first to one.
///
/// # Safety
/// See above; `hot` is that of the context.
#[cold]
#[inline(never)]
unsafe fn place_apart<T: Pointee + ?Sized, F: Persist>(hot: &Hot, object: *mut T, place: *mut F) -> *mut F {
    let (addr, len) = bytes_of(place);
    let cx = hot.context.get();
    if !<F as Pointee>::PADDED {
        // Most transactions that come here for each of their stores have noted nothing.
        if hot.recent.has_any()
            && let Some(noted) = hot.recent.find(addr, len, align_of::<F>())
        {
            return noted.cast();
        }
        // SAFETY: there is the context, and no other reference to it; this one goes before the next call that takes the pointer.
        let context = unsafe { &mut *cx };
        let forgets = bug(Bug::SavepointForgetsFields);
        if context.route == Route::Long || forgets && context.mode == Mode::Long {
            if context.is_in_place(addr, len, align_of::<F>()) {
                // Where the stores are, they look for all of the object.
                if len == T::bytes(object) {
                    hot.recent.note(addr, len, place.cast());
                }
                return place;
            }
            // SAFETY: the caller's premises.
            return unsafe { Context::writable_by_log(cx, addr, len, None) }.cast();
        }
        if (context.route == Route::Short || forgets && context.mode == Mode::Short)
            && !context.takes_objects(T::bytes(object))
        {
            // SAFETY: a live value, to which nobody has a reference: the caller's premises.
            if let Some(copy) = unsafe { context.copy_at_once(addr, len, align_of::<F>()) } {
                return copy.cast();
            }
        }
    }
    // SAFETY: the caller's premises.
    unsafe { place_at_first(cx, object, place) }
}

/// Where `place` is to be written: within a place for all of the object, or by itself.
///
/// # Safety
/// See above.
#[inline(never)]
unsafe fn place_at_first<T: Pointee + ?Sized, F: Persist>(
    cx: *mut Context,
    object: *mut T,
    place: *mut F,
) -> *mut F {
    let (addr, len) = bytes_of(place);
    // SAFETY: there is the context, and no other reference to it; this one goes before the next call that takes the pointer.
    let context = unsafe { &*cx };
    if context.takes_objects(T::bytes(object)) || context.has_other_part(bytes_of(object), (addr, len)) {
        // SAFETY: the caller's premises.
        let whole = unsafe { writable_at_first(cx, object) };
        return within(place, object, whole);
    }
    if <F as Pointee>::PADDED {
        // SAFETY: the caller's premises.
        return unsafe { writable_at_first(cx, place) };
    }
    // SAFETY: the caller's premises.
    unsafe { Context::writable(cx, addr, len, align_of::<F>(), None) }.cast()
}

/// Notes what a store to `place` will have logged.
///
/// # Safety
/// See above.
#[cold]
#[inline(never)]
unsafe fn note_ahead<T: Pointee + ?Sized, F>(cx: *mut Context, object: *mut T, place: *mut F) {
    // SAFETY: the caller's premises.
    let cx = unsafe { &mut *cx };
    if cx.takes_objects(T::bytes(object)) {
        let (addr, len) = bytes_of(object);
        cx.note_ahead(addr, len, T::ALIGN);
    } else {
        cx.note_ahead(place.cast::<u8>().expose_provenance(), size_of::<F>(), align_of::<F>());
    }
}

/// Where a part of an object is that is somewhere else.
#[inline(always)]
fn within<T: Pointee + ?Sized, F>(part: *mut F, object: *mut T, elsewhere: *mut T) -> *mut F {
    elsewhere.cast::<u8>().wrapping_add(part.addr() - object.cast::<u8>().addr()).cast()
}

/// A place that a transaction has made crash-safe, as a `&mut`: `place!((tx) (key) [i, j] .field [0] .0 [1])`, where `[0]` stands for the first index.
///
/// The key and the indices are evaluated in the order in which Rust would, but before the transaction is borrowed, and outside of the `unsafe` block.
#[doc(hidden)]
#[macro_export]
macro_rules! __place {
    (($tx:expr) ($key:expr) [] . await $($steps:tt)*) => {
        $crate::__private::core::compile_error!("`.await` is not a field")
    };
    // Most places are fields: these are one expansion, with nothing that they do not need.
    (($tx:expr) ($key:expr) [] . $field:tt) => {{
        let key: $crate::P<'_, _> = $key;
        let tx: &mut $crate::Txn<'_> = $tx;
        let object = $crate::Txn::__object(tx, key);
        // SAFETY: as below.
        unsafe { $crate::Txn::__place(tx, object, &raw mut (*object).$field) }
    }};
    (($tx:expr) ($key:expr) [$($index:expr,)*] $($steps:tt)*) => {{
        let key: $crate::P<'_, _> = $key;
        let indices = $crate::__private::indices([$($index),*]);
        let tx: &mut $crate::Txn<'_> = $tx;
        let object = $crate::Txn::__object(tx, key);
        // SAFETY: `object` points to a live object: a `P` says so, whose region `tx` has locked, for they have one brand; and it is what `__object` has said. `element` has checked the
        // indices. The place is made of fields and `element` only, so it is within the object, and no type in a heap is `Deref`, so no code of the user's runs.
        unsafe { $crate::Txn::__place(tx, object, &raw mut $crate::__place_in!(indices (*object) $($steps)*)) }
    }};
}

/// Notes such a place for the log. An index out of bounds must panic where it stands, after the stores in front of it: here it notes nothing.
#[doc(hidden)]
#[macro_export]
macro_rules! __place_ahead {
    (($tx:expr) ($key:expr) [] . await $($steps:tt)*) => {
        $crate::__private::core::compile_error!("`.await` is not a field")
    };
    (($tx:expr) ($key:expr) [] . $field:tt) => {{
        let key: $crate::P<'_, _> = $key;
        let tx: &mut $crate::Txn<'_> = $tx;
        let object = $crate::Txn::__object(tx, key);
        // SAFETY: as in `__place`.
        let place = unsafe { &raw mut (*object).$field };
        // SAFETY: `object` is what `__object` has said, and the place is within it.
        unsafe { $crate::Txn::__ahead(tx, object, $crate::__private::core::option::Option::Some(place)) }
    }};
    (($tx:expr) ($key:expr) [$($index:expr,)*] $($steps:tt)*) => {{
        let key: $crate::P<'_, _> = $key;
        let indices = $crate::__private::indices([$($index),*]);
        let tx: &mut $crate::Txn<'_> = $tx;
        let object = $crate::Txn::__object(tx, key);
        // SAFETY: `object` points to a live object: a `P` says so, whose region `tx` has locked, for they have one brand. `element_checked` has checked the
        // indices. The place is made of fields and `element_checked` only, and no type in a heap is `Deref`, so no code of the user's runs.
        let place = unsafe { $crate::__place_checked!([$($index)*] indices (*object) $($steps)*) };
        // SAFETY: `object` is what `__object` has said, and the place is within it.
        unsafe { $crate::Txn::__ahead(tx, object, place) }
    }};
}

impl std::fmt::Debug for Txn<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Txn").field("mode", &self.mode()).finish_non_exhaustive()
    }
}
