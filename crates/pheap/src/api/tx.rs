//! Writing.

use std::ops::{Deref, Index, IndexMut, RangeBounds};
use std::ptr::NonNull;
use std::sync::Arc;

use super::view::View;
use crate::alloc::Request;
use crate::error::{Error, Result};
use crate::gc::held::{Held, HeldTable};
use crate::layout::{Persist, Pointee, slice_header};
use crate::os::cpu;
use crate::ptr::{P, bounds, value_of};
use crate::txn::context::{Context, Hot, Mode};
use crate::txn::padded::padding_of;

/// An open transaction on a root: `tx[p]` reads and writes the object that `p` points to, and [`alloc`](Txn::alloc) makes new ones.
///
/// Indexing for writing makes the object crash-safe *before* it hands out `&mut T`, so code that knows nothing of pheap
/// (`mem::swap`, `slice::sort`, any function that takes `&mut T`) can be let loose on it.
///
/// There is no way to free an object: what can no longer be reached from the root is garbage.
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

impl<'r> Txn<'r> {
    /// # Safety
    /// As for [`View::new`]; `hot` has a context, in which a transaction is open.
    #[inline(always)]
    pub(crate) unsafe fn new(hot: &Hot, held: &Arc<HeldTable>) -> Txn<'r> {
        // SAFETY: passed on to the caller.
        Txn { view: unsafe { View::new(hot, held) } }
    }

    /// The context, borrowed for one call.
    ///
    /// # Safety
    /// The reference goes before anyone else is called.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)] // a transaction stays in its thread
    unsafe fn cx(&self) -> &mut Context {
        // SAFETY: a transaction has a context, to which nobody keeps a reference.
        unsafe { &mut *self.view.context() }
    }

    /// With what the heap hashes keys.
    pub(crate) fn hash_secret(&self) -> [u64; 2] {
        // SAFETY: for this look.
        unsafe { self.cx() }.store().hash_secret
    }

    /// A new object with this value. It is garbage unless something reachable points to it when the transaction commits.
    ///
    /// Takes `&self`, so that allocations nest: `tx.alloc(Node { next: Some(tx.alloc(tail)?) })`.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`] or [`Error::ReservationFull`] if the heap cannot grow. The transaction goes on, if you let it.
    #[inline]
    pub fn alloc<T: Persist<At<'r> = T>>(&self, value: T) -> Result<P<'r, T>> {
        // SAFETY: `T` has the brand of this transaction.
        unsafe { self.alloc_unbranded(value) }
    }

    /// [`alloc`](Self::alloc) without the proof that `T` has the brand `'r`.
    ///
    /// # Safety
    /// All pointers in `value` are of this region.
    #[inline]
    pub(crate) unsafe fn alloc_unbranded<T: Persist>(&self, value: T) -> Result<P<'r, T>> {
        let (p, place) = self.alloc_uninit::<T>()?;
        // SAFETY: a new object of the size and alignment of `T`, to which nobody has a reference.
        unsafe {
            place.write(value);
            if T::PADDED {
                T::zero_padding(place);
            }
        }
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
            // SAFETY: element `i` of the new object.
            unsafe {
                let place = data.add(i);
                place.write(value);
                if T::PADDED {
                    T::zero_padding(place);
                }
            }
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
        // SAFETY: a string is laid out as a slice of bytes; the pointer is turned into one to a string below.
        let (p, data) = unsafe { self.alloc_raw(text.len(), 1, 1, <str as Pointee>::desc())? };
        // SAFETY: the new object has room for the text.
        unsafe {
            data.copy_from_nonoverlapping(text.as_ptr(), text.len());
            Ok(P::from_addr(p))
        }
    }

    /// A new slice, whose elements are not written yet.
    pub(crate) fn alloc_elements<T: Persist>(&self, len: usize) -> Result<(P<'r, [T]>, *mut T)> {
        let desc = <[T] as Pointee>::desc();
        // SAFETY: elements of this size and alignment; they are written before anyone can read them, or are never reachable.
        unsafe {
            let (p, data) = self.alloc_raw(len, size_of::<T>(), align_of::<T>(), desc)?;
            Ok((P::from_addr(p), data.cast()))
        }
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
        // SAFETY: for this call. The new object is written before anyone can read it, or is never reachable.
        unsafe {
            let ptr = self.cx().alloc(request)?;
            Ok((P::from_addr(NonNull::new_unchecked(ptr)), ptr.cast()))
        }
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
        // SAFETY: for this call.
        let ptr = unsafe { self.cx() }.alloc(Request { desc, bytes, align: align as u64, unsized_: true })?;
        // SAFETY: a new object of `bytes`, which begins with its length.
        unsafe {
            ptr.cast::<u64>().write(len as u64);
            Ok((NonNull::new_unchecked(ptr), ptr.add(header)))
        }
    }

    /// Elements `range` of a slice, to write. They are logged together, once, and the other elements are not.
    ///
    /// # Panics
    /// If the range is not within the slice.
    #[track_caller]
    pub fn slice_mut<T: Persist>(&mut self, slice: P<'r, [T]>, range: impl RangeBounds<usize>) -> &mut [T] {
        let (start, end) = bounds(range, slice.len());
        // SAFETY: the elements are within the slice.
        unsafe {
            let data = value_of(slice).cast::<T>().add(start);
            &mut *self.writable(std::ptr::slice_from_raw_parts_mut(data, end - start))
        }
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
            // SAFETY: borrowed for one call each. The two are live objects of one type, not the same, hence apart; if both are in the
            // undo log, they can be written where they are.
            unsafe {
                // What may have padding is to be noted, logged or not.
                let is_logged = |addr| self.cx().is_logged(addr, len, align_of::<T>());
                if !<T as Pointee>::PADDED && is_logged(addr_a) && is_logged(addr_b) {
                    return std::ptr::swap(a, b);
                }
                self.announce(&[(a.cast(), len), (b.cast(), len)]);
            }
        }
        loop {
            let before = (self.mode(), self.widened());
            // SAFETY: as above. The second call may change where the first object is written: with the mode, by a wider copy, or in a transaction
            // that is doomed. That one has copies of both by then, which stay where they are.
            unsafe {
                let (first, second) = (self.writable(a), self.writable(b));
                if before.0 == Mode::Doomed {
                    return std::ptr::swap(self.writable(a), second);
                }
                if (self.mode(), self.widened()) == before {
                    return std::ptr::swap(first, second);
                }
            }
        }
    }

    /// Keeps a pointer beyond this transaction: good once it has been committed. See [`View::get`].
    pub fn hold<T>(&self, p: P<'r, T>) -> Held<T::Unbranded>
    where
        T: Pointee<At<'r> = T> + ?Sized,
    {
        let held = self.held().hold(p.addr().as_ptr().expose_provenance(), false);
        // SAFETY: for this call.
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
        // SAFETY: for this call.
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
            // SAFETY: a transaction's context, to which nobody keeps a reference.
            unsafe {
                self.cx().ahead.extend(places);
                Context::log_ahead(self.context());
            }
        }
    }

    /// Makes the value at `value` crash-safe, and says where it is to be written.
    ///
    /// # Safety
    /// A live value of this region.
    pub(crate) unsafe fn writable<T: Pointee + ?Sized>(&mut self, value: *mut T) -> *mut T {
        let (addr, len) = bytes_of(value);
        // SAFETY: a transaction's context, to which nobody keeps a reference.
        let place = unsafe { Context::writable(self.context(), addr, len, T::ALIGN, padding_of(value)) };
        T::relocated(value, place)
    }
}

impl<'r, T: Pointee + ?Sized> Index<P<'r, T>> for Txn<'r> {
    type Output = T;

    #[inline(always)]
    fn index(&self, p: P<'r, T>) -> &T {
        &self.view[p]
    }
}

impl<'r, T: Pointee + ?Sized> IndexMut<P<'r, T>> for Txn<'r> {
    #[inline]
    fn index_mut(&mut self, p: P<'r, T>) -> &mut T {
        // SAFETY: a `P` points to a live object of its region; the place is this transaction's own, and `&mut self` keeps all other
        // access away.
        unsafe { &mut *self.writable(value_of(p)) }
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
    #[inline]
    pub unsafe fn __place<T: Pointee + ?Sized, F: Persist>(
        &mut self,
        object: *mut T,
        place: *mut F,
    ) -> &mut F {
        let (addr, len) = bytes_of(place);
        if self.mode() == Mode::Short {
            // SAFETY: a transaction's context, to which nobody keeps a reference.
            if unsafe { Context::takes_object(self.context(), bytes_of(object), (addr, len)) } {
                let offset = place.addr() - object.addr();
                // SAFETY: as for `index_mut`; a part of the object that is borrowed from `self`.
                return unsafe { &mut *self.writable(object).byte_add(offset).cast::<F>() };
            }
        // SAFETY: for this look.
        } else if !<F as Pointee>::PADDED && unsafe { self.cx() }.is_in_place(addr, len, align_of::<F>()) {
            // SAFETY: as for `index_mut`.
            return unsafe { &mut *place };
        }
        // SAFETY: as for `index_mut`, for a part of the object.
        unsafe { &mut *self.writable(place) }
    }

    /// Whether each store is logged on its own, so that a group saves fences.
    #[doc(hidden)]
    #[inline]
    pub fn __logs_in_place(&self) -> bool {
        self.mode() == Mode::Long
    }

    /// How many times copies were replaced by wider ones.
    #[inline(always)]
    pub(crate) fn widened(&self) -> u32 {
        // SAFETY: for this look.
        unsafe { self.cx() }.set.widened
    }

    #[inline(always)]
    pub(crate) fn mode(&self) -> Mode {
        // SAFETY: for this look.
        unsafe { self.cx() }.mode
    }

    /// Notes a place that will be written soon, if there is one.
    ///
    /// # Safety
    /// As for [`__place`](Self::__place).
    #[doc(hidden)]
    #[inline]
    pub unsafe fn __ahead<F>(&mut self, place: Option<*mut F>) {
        if let Some(place) = place {
            // SAFETY: for this call.
            unsafe { self.cx() }.note_ahead(
                place.cast::<u8>().expose_provenance(),
                size_of::<F>(),
                align_of::<F>(),
            );
        }
    }

    /// Whether any place was noted. If not, the last one of a group need not be: it can just as well be logged by itself.
    #[doc(hidden)]
    #[inline]
    pub fn __is_ahead(&self) -> bool {
        // SAFETY: for this look.
        !unsafe { self.cx() }.ahead.is_empty()
    }

    /// Logs all places noted, behind one fence.
    #[doc(hidden)]
    #[inline]
    pub fn __ahead_done(&mut self) {
        // SAFETY: a transaction's context, to which nobody keeps a reference.
        unsafe { Context::log_ahead(self.context()) };
    }
}

impl std::fmt::Debug for Txn<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // SAFETY: for this look.
        let mode = unsafe { self.cx() }.mode;
        f.debug_struct("Txn").field("mode", &mode).finish_non_exhaustive()
    }
}
