//! The methods of [`Txn`] that allocate objects, slices and strings.
//!
//! Premises 1 to 3 of `Txn`, which `SAFETY` comments name, are in the comment above that struct.

#![allow(unsafe_code)]

use std::ptr::NonNull;

use super::tx::Txn;
use crate::alloc::AllocRequest;
use crate::error::{Error, Result};
use crate::layout::{Persist, Pointee, slice_header};
use crate::ptr::P;
use crate::units::OBJECT_BYTES;

/// A guard for a new slice of which not all elements are written. Dropping the guard sets the slice's length
/// to 0.
struct Unfinished {
    /// The address of the length word, at the start of the slice. Only the call that makes the slice has it.
    length: NonNull<u64>,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // SAFETY: `length` is the first word of a live slice, and only the call that drops this value has its
        // address.
        unsafe { self.length.write(0) };
    }
}

/// Writes `value` to `place`, with zeros in its padding.
///
/// # Safety
/// `place` is valid for writes of a `T`, and aligned to it.
#[inline(always)]
unsafe fn write_unpadded<T: Persist>(place: *mut T, value: T) {
    // SAFETY: `place` is valid for writes and aligned, by the caller's premise.
    unsafe { place.write(value) };
    if T::PADDED {
        // SAFETY: `place` is valid and aligned, by the caller's premise, and a valid `T` was just written to
        // it.
        unsafe { T::zero_padding(place) };
    }
}

impl<'r> Txn<'r> {
    /// Allocates an object with this value. It is garbage unless a reachable object points to it when the
    /// transaction commits, or it is [held](Self::hold).
    ///
    /// Takes `&self`, so that allocations nest: `tx.alloc(Node { next: Some(tx.alloc(tail)?) })`.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`] or [`Error::ReservationFull`] if the heap cannot grow;
    /// [`Error::UnsupportedType`]; [`Error::TooLarge`] if the type is aligned to more than a page, or has too
    /// many bytes; [`Error::Forked`], and others, such as a failure of the disk when the file grows. The
    /// transaction can continue after the first four.
    #[inline]
    pub fn alloc<T: Persist<At<'r> = T>>(&self, value: T) -> Result<P<'r, T>> {
        self.alloc_at::<T>(value)
    }

    /// Like [`alloc`](Self::alloc), for a type `T` of any brand; the value has the brand `'r`.
    #[inline]
    pub(crate) fn alloc_at<T: Persist>(&self, value: T::At<'r>) -> Result<P<'r, T::At<'r>>> {
        // SAFETY: the pointers in a `T::At<'r>` have the brand `'r`, by the contract of `Persist`.
        unsafe { self.alloc_unbranded(value) }
    }

    /// Allocates an object with the default value of `T`.
    pub(crate) fn alloc_default<T: Persist + Default>(&self) -> Result<P<'r, T::At<'r>>> {
        // SAFETY: `T::default()` has no argument, and only a `Txn`, a `View` or another `P` gives a `P`: so
        // the value has no pointers.
        let p = unsafe { self.alloc_unbranded(T::default()) }?;
        // SAFETY: `p` points to a new, live object of this region (premise 3 of `Txn`). `T::At<'r>` is `T`
        // with another brand, by the contract of `Persist`.
        Ok(unsafe { P::from_addr(p.addr()) })
    }

    /// Allocates an object with `value`, whose pointers may have any brand.
    ///
    /// # Safety
    /// All pointers in `value` are into this region, to live objects of their types.
    #[inline]
    unsafe fn alloc_unbranded<T: Persist>(&self, value: T) -> Result<P<'r, T>> {
        let (p, place) = self.alloc_uninit::<T>()?;
        // SAFETY: `place` is a new object with the size and alignment of `T`, and only this call has its
        // address.
        unsafe { write_unpadded(place, value) };
        Ok(p)
    }

    /// Allocates a slice of `len` elements; `element` makes each of them from its index.
    ///
    /// # Errors
    /// As for [`alloc`](Self::alloc); [`Error::TooLarge`] also if the slice has too many bytes for an object.
    pub fn alloc_slice<T: Persist<At<'r> = T>>(
        &self,
        len: usize,
        mut element: impl FnMut(usize) -> T,
    ) -> Result<P<'r, [T]>> {
        let (p, data) = self.alloc_elements::<T>(len)?;
        // If `element` panics and the program catches the panic, the guard makes the slice empty.
        let unfinished = Unfinished { length: p.addr().cast() };
        for i in 0..len {
            let value = element(i);
            // SAFETY: the new object has room for `len` elements, `i < len`, and only this call has its
            // address.
            unsafe { write_unpadded(data.wrapping_add(i), value) };
        }
        std::mem::forget(unfinished);
        Ok(p)
    }

    /// Allocates a slice with copies of these elements.
    ///
    /// # Errors
    /// As for [`alloc_slice`](Self::alloc_slice).
    pub fn alloc_slice_copy<T: Persist<At<'r> = T> + Copy>(&self, elements: &[T]) -> Result<P<'r, [T]>> {
        self.alloc_slice(elements.len(), |i| elements[i])
    }

    /// Allocates a string.
    ///
    /// # Errors
    /// As for [`alloc_slice`](Self::alloc_slice).
    pub fn alloc_str(&self, text: &str) -> Result<P<'r, str>> {
        // SAFETY: a string is laid out as a slice of bytes, which have size and alignment 1.
        let (p, data) = unsafe { self.alloc_raw(text.len(), 1, 1, <str as Pointee>::desc())? };
        // SAFETY: the new object has room for `text.len()` bytes, and does not overlap `text`.
        unsafe { data.copy_from_nonoverlapping(text.as_ptr(), text.len()) };
        // SAFETY: the new object is a string: its length was written by `alloc_raw`, and its bytes just now.
        Ok(unsafe { P::from_addr(p) })
    }

    /// Allocates a slice of `len` elements that are not written yet. Returns the slice, and the address of
    /// its first element.
    pub(crate) fn alloc_elements<T: Persist>(&self, len: usize) -> Result<(P<'r, [T]>, *mut T)> {
        let desc = <[T] as Pointee>::desc();
        // SAFETY: `desc` describes a slice of elements with the size and alignment of `T`.
        let (p, data) = unsafe { self.alloc_raw(len, size_of::<T>(), align_of::<T>(), desc)? };
        // SAFETY: `p` is the address of a new slice of `T`. The caller writes its elements before they are
        // read, or never makes it reachable.
        Ok((unsafe { P::from_addr(p) }, data.cast()))
    }

    /// Allocates an object whose value is not written yet. Returns a pointer to the object, and its address.
    #[inline(always)]
    pub(crate) fn alloc_uninit<T: Persist>(&self) -> Result<(P<'r, T>, *mut T)> {
        let request = AllocRequest {
            desc: <T as Persist>::desc(),
            bytes: size_of::<T>() as u64,
            align: align_of::<T>() as u64,
            unsized_: false,
        };
        // SAFETY: the reference to the context ends with this call, before another one is made (premise 2 of
        // `Txn`).
        let ptr = unsafe { self.cx() }.alloc(request)?;
        // SAFETY: `ptr` is the address of an object of the heap, which is not mapped at 0.
        let addr = unsafe { NonNull::new_unchecked(ptr) };
        // SAFETY: `addr` is the address of a new object of type `T`. The caller writes the object before any
        // thread reads it, or never makes it reachable.
        Ok((unsafe { P::from_addr(addr) }, ptr.cast()))
    }

    /// Allocates a slice or string with room for `len` elements, and writes its length. Returns the address
    /// of the object, and the address of its first element.
    ///
    /// # Safety
    /// `desc` describes a slice whose elements have the size `size` and the alignment `align`.
    unsafe fn alloc_raw(
        &self,
        len: usize,
        size: usize,
        align: usize,
        desc: &'static crate::layout::desc::Desc,
    ) -> Result<(NonNull<u8>, *mut u8)> {
        let header = slice_header(align);
        let bytes = size.checked_mul(len).and_then(|bytes| bytes.checked_add(header));
        let bytes =
            bytes.filter(|&bytes| bytes < OBJECT_BYTES).ok_or(Error::TooLarge { bytes: u64::MAX })? as u64;
        // SAFETY: the reference to the context ends with this call, before another one is made (premise 2 of
        // `Txn`).
        let ptr =
            unsafe { self.cx() }.alloc(AllocRequest { desc, bytes, align: align as u64, unsized_: true })?;
        // SAFETY: `ptr` is the address of a new object of `bytes` bytes, at least 8, aligned to 8, and only
        // this call has its address.
        unsafe { ptr.cast::<u64>().write(len as u64) };
        // SAFETY: `ptr` is the address of an object of the heap, which is not mapped at 0.
        let addr = unsafe { NonNull::new_unchecked(ptr) };
        Ok((addr, ptr.wrapping_add(header)))
    }
}

#[cfg(all(test, not(pheap_loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    use crate::region::Exclusive;
    use crate::{Heap, Result};

    #[test]
    fn a_slice_whose_closure_panics_has_no_elements() -> Result<()> {
        let heap = Heap::in_memory()?;
        let root = heap.root::<u64>("root")?;
        root.txn(|tx, _| {
            let closure = |i| if i < 2 { tx.alloc(7).unwrap() } else { resume_unwind(Box::new("not made")) };
            assert!(catch_unwind(AssertUnwindSafe(|| tx.alloc_slice(100, closure))).is_err());
            Ok(())
        })?;
        let exclusive = Exclusive::begin_transaction(heap.inner(), &root.region, root.region.ty())?;
        let spans = exclusive.object_spans();
        let types = heap.inner().tables.lock().types.types.clone();
        let slices = spans.iter().filter(|(_, span)| types[span.entry.ty as usize].name.starts_with('['));
        let lengths: Vec<_> = slices.map(|(_, span)| exclusive.object_words::<1>(span.offset)).collect();
        assert_eq!(lengths, [Some([0])]);
        Ok(())
    }
}
