//! Access to the buffers that collections own. The collections read and write parts of buffers through raw
//! pointers, because there must be no `P` into a buffer outside this crate.
//!
//! So only the collection has a pointer to its buffer. Therefore it can [free](free) a buffer without a run
//! of the collector, and move values out of it.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use crate::api::tx::Txn;
use crate::api::view::View;
use crate::error::Result;
use crate::layout::desc::{Desc, Kind};
use crate::layout::{Persist, Pointee};
use crate::os::cpu::settle;
use crate::ptr::{P, elements_of, value_of};
use crate::txn::context::Mode;

use super::common::copied;

/// A place for a `T` in a buffer, with a value or vacant. All bytes of a vacant slot are zero, so that the
/// collector and `check` find no stale pointer in it.
///
/// (If a `T` can have no pointers, its bytes may stay in a vacant slot, which is cheaper.)
#[repr(transparent)]
pub(crate) struct Slot<T>(MaybeUninit<T>);

// SAFETY: `desc` says that a slot is zero in all bytes, or a `T`, and has the size and the alignment of a
// `T`.
unsafe impl<T: Persist> Persist for Slot<T> {
    type At<'r> = Slot<T::At<'r>>;
    const PADDED: bool = T::PADDED;
    const POINTERS: bool = T::POINTERS;

    fn desc() -> &'static Desc {
        const { &Desc::own("pheap::Slot", (size_of::<T>(), align_of::<T>()), Kind::Slot { of: T::desc }) }
    }

    /// Zeroes the padding of the value, if the slot has a value.
    unsafe fn zero_padding(this: *mut Self) {
        let bytes = this.cast::<u8>();
        settle(bytes);
        // SAFETY: `settle` has made all bytes of the slot initialized. If they are not all zero, they are a
        // value.
        unsafe {
            if (0..size_of::<Self>()).any(|i| bytes.add(i).read() != 0) {
                T::zero_padding(this.cast());
            }
        }
    }
}

impl<T: Persist> Slot<T> {
    /// Returns a slot without a value.
    #[inline(always)]
    pub(crate) const fn vacant() -> Slot<T> {
        Slot(MaybeUninit::zeroed())
    }

    /// Stores a value in the slot. Its padding is zeroed in place, because a move may change padding.
    #[inline(always)]
    pub(crate) fn put(&mut self, value: T) {
        self.0.write(value);
        if T::PADDED {
            // SAFETY: the value was written just now.
            unsafe { T::zero_padding(self.0.as_mut_ptr()) };
        }
    }

    /// Zeroes the slot, which makes it vacant, unless a `T` can have no pointers: then its bytes stay.
    #[inline(always)]
    pub(crate) fn vacate(&mut self) {
        if T::POINTERS {
            // `write_bytes`, because an assignment may leave padding as it is.
            // SAFETY: a slot with all bytes zero has no value.
            unsafe { std::ptr::write_bytes(self, 0, 1) };
        }
    }

    /// Returns the value in the slot.
    ///
    /// # Safety
    /// The slot has a value.
    #[inline(always)]
    pub(crate) unsafe fn value(&self) -> &T {
        // SAFETY: the slot has a value, by the caller's premise.
        unsafe { self.0.assume_init_ref() }
    }

    /// Returns the value in the slot, to write.
    ///
    /// # Safety
    /// The slot has a value.
    #[inline(always)]
    pub(crate) unsafe fn value_mut(&mut self) -> &mut T {
        // SAFETY: the slot has a value, by the caller's premise.
        unsafe { self.0.assume_init_mut() }
    }

    /// Moves the value out of the slot. The caller overwrites the slot next, or never reads it again.
    ///
    /// # Safety
    /// The slot has a value.
    #[inline(always)]
    pub(crate) unsafe fn move_out(&self) -> T {
        debug_assert!(!T::POINTERS || !self.is_zero() || may_be_zero(T::desc()), "a slot without a value");
        // SAFETY: the slot has a value, by the caller's premise.
        unsafe { self.0.assume_init_read() }
    }

    fn is_zero(&self) -> bool {
        let bytes = std::ptr::from_ref(self).cast::<u8>();
        settle(bytes.cast_mut());
        // SAFETY: `settle` has made all bytes of the slot initialized, and `i` is less than their number.
        (0..size_of::<Self>()).all(|i| unsafe { bytes.add(i).read() } == 0)
    }
}

/// Returns whether a value of the type may be zero in all bytes. The answer `false` is certain, `true` is
/// not.
fn may_be_zero(desc: &Desc) -> bool {
    match &desc.kind {
        Kind::Ptr { nullable, .. } => *nullable,
        Kind::Array { elem, len } => *len == 0 || may_be_zero(elem()),
        Kind::Struct { fields } => fields.iter().all(|field| may_be_zero((field.ty)())),
        Kind::Enum { variants, .. } => variants
            .iter()
            .any(|variant| variant.tag == 0 && variant.fields.iter().all(|field| may_be_zero((field.ty)()))),
        Kind::Prim(_) | Kind::Slot { .. } | Kind::Slice { .. } | Kind::Str => true,
    }
}

/// Returns a part of an object, to read.
///
/// # Safety
/// `value` is a live value within a live object of the region of `view`, and there is no `&mut` to it.
#[inline(always)]
pub(crate) unsafe fn read<'v, T: Pointee + ?Sized>(view: &'v View<'_>, value: *mut T) -> &'v T {
    // SAFETY: `place_of` returns `value`, or this transaction's copy of it; both stay valid while `view` is
    // borrowed. The rest is the caller's premise.
    unsafe { &*view.place_of(value) }
}

/// Returns a part of an object, to write.
///
/// # Safety
/// `value` is a live value within a live object of the region of `tx`.
#[inline(always)]
pub(crate) unsafe fn write<'t, T: Pointee + ?Sized>(tx: &'t mut Txn<'_>, value: *mut T) -> &'t mut T {
    // SAFETY: `value` is live, by the caller's premise; the `&mut` to the transaction excludes all other
    // access.
    unsafe { &mut *tx.writable(value) }
}

/// An object that a collection writes several times. The place to which the transaction writes the object is
/// looked up again only if the transaction may have changed it.
pub(crate) struct Writable<'r, T> {
    object: P<'r, T>,
    place: *mut T,
    mode: Mode,
    widened: u32,
}

impl<'r, T: Persist> Writable<'r, T> {
    /// Makes `object` crash-safe, and notes the place to which the transaction writes it.
    #[inline(always)]
    pub(crate) fn new(tx: &mut Txn<'r>, object: P<'r, T>) -> Self {
        // SAFETY: `object` points to a live object of its region, as each `P` does.
        let place = unsafe { tx.writable(value_of(object)) };
        Writable { object, place, mode: tx.mode(), widened: tx.widened() }
    }

    /// Returns the object, to write.
    #[inline(always)]
    pub(crate) fn get<'t>(&self, tx: &'t mut Txn<'r>) -> &'t mut T {
        let mode = tx.mode();
        if mode == self.mode && mode != Mode::Doomed && tx.widened() == self.widened {
            // SAFETY: `place` is where the transaction writes the object. That changes only if the mode
            // changes, if a wider copy is made, or in a doomed transaction; the condition above excludes all
            // three.
            return unsafe { &mut *self.place };
        }
        &mut tx[self.object]
    }
}

/// Returns the address of a part of an object and its size in bytes, as [`announce`] takes them.
#[inline(always)]
pub(crate) fn range<T>(value: *mut T) -> (*mut u8, usize) {
    (value.cast(), size_of::<T>())
}

/// Announces that several parts of objects are about to be written. A long transaction then logs all of them
/// with one fence.
///
/// # Safety
/// Each part is within a live object of the region of `tx`.
#[inline]
pub(crate) unsafe fn announce(tx: &mut Txn<'_>, parts: &[(*mut u8, usize)]) {
    // SAFETY: the parts are within live objects of the region, by the caller's premise.
    unsafe { tx.announce(parts) };
}

/// Frees an object when the transaction commits.
///
/// # Safety
/// A collection has owned `buffer`, and has dropped it in this transaction: at the commit there is no pointer
/// to it.
#[inline]
pub(crate) unsafe fn free<'r, T: Pointee + ?Sized>(tx: &Txn<'r>, buffer: P<'r, T>) {
    // SAFETY: at the commit there is no pointer to `buffer`, by the caller's premise.
    unsafe { tx.__free_at_commit(buffer) };
}

/// Returns a pointer to a part of a buffer, for use within an operation of the collection.
///
/// # Safety
/// `value` is a live value within a live object of the region that the brand `'r` stands for. The returned
/// pointer does not leave this crate.
#[inline(always)]
pub(crate) unsafe fn pointer_to<'r, T: Persist>(value: *mut T) -> P<'r, T> {
    // SAFETY: `value` is a live value of the region, by the caller's premise, and so not null.
    unsafe { P::from_addr(NonNull::new_unchecked(value.cast())) }
}

/// Consecutive slots of a buffer: a raw pointer to the first one, and their number.
pub(crate) struct Slots<T> {
    first: *mut Slot<T>,
    pub(crate) len: usize,
}

copied! { [T] Slots<T>; }

impl<T: Persist> Slots<T> {
    /// Returns the first `len` slots of a buffer, without reading the buffer.
    ///
    /// # Safety
    /// The buffer has at least `len` slots.
    #[inline(always)]
    pub(crate) unsafe fn first_of(buffer: P<'_, [Slot<T>]>, len: usize) -> Slots<T> {
        Slots { first: elements_of(buffer), len }
    }

    /// Returns zero slots, for a collection without a buffer.
    #[inline(always)]
    pub(crate) fn none() -> Slots<T> {
        Slots { first: std::ptr::dangling_mut(), len: 0 }
    }

    /// Returns all slots of a buffer.
    #[inline(always)]
    pub(crate) fn from_buffer<'r>(view: &View<'r>, buffer: P<'r, [Slot<T>]>) -> Slots<T> {
        let slots = view.value_of(buffer);
        Slots { first: slots.cast(), len: slots.len() }
    }

    /// Returns the first `len` of these slots.
    #[inline(always)]
    pub(crate) fn up_to(self, len: usize) -> Slots<T> {
        debug_assert!(len <= self.len);
        Slots { len, ..self }
    }

    /// Returns the slots from index `from` on.
    #[inline(always)]
    pub(crate) fn behind(self, from: usize) -> Slots<T> {
        assert!(from <= self.len);
        Slots { first: self.first.wrapping_add(from), len: self.len - from }
    }

    /// Returns a raw pointer to slot `i`.
    ///
    /// # Safety
    /// `i` is less than the number of slots.
    #[inline(always)]
    pub(crate) unsafe fn slot_ptr(self, i: usize) -> *mut Slot<T> {
        debug_assert!(i < self.len);
        // SAFETY: `i` is less than the number of slots, so slot `i` is in the buffer.
        unsafe { self.first.add(i) }
    }

    /// Returns the slots `from..to`, as a raw slice.
    ///
    /// # Safety
    /// `from <= to`, and `to` is at most the number of slots.
    #[inline(always)]
    pub(crate) unsafe fn range(self, from: usize, to: usize) -> *mut [Slot<T>] {
        debug_assert!(from <= to && to <= self.len);
        // SAFETY: `from` is at most the number of slots, so the address is in the buffer, or at its end.
        std::ptr::slice_from_raw_parts_mut(unsafe { self.first.add(from) }, to - from)
    }
}

/// Allocates a buffer of `capacity` slots, and moves the values of `old` to its first slots; the others are
/// vacant. The caller frees the old buffer, or does not use the slots `old` again before it stores other
/// values there.
pub(crate) fn moved<'r, T: Persist>(
    tx: &Txn<'r>,
    old: Slots<T>,
    capacity: usize,
) -> Result<P<'r, [Slot<T>]>> {
    debug_assert!(old.len <= capacity);
    let (buffer, first) = tx.alloc_elements::<Slot<T>>(capacity)?;
    // SAFETY: the new buffer has `capacity` slots, not written yet, and `old.len` is at most that. The values
    // move: the caller does not use them in the old slots again.
    unsafe {
        if tx.is_in_place() && !T::PADDED {
            first.copy_from_nonoverlapping(old.first, old.len);
        } else {
            (0..old.len).for_each(|i| move_to_new(tx, old.slot_ptr(i), first.add(i)));
        }
        first.add(old.len).write_bytes(0, capacity - old.len);
    }
    Ok(buffer)
}

/// Moves a value to a slot of a new object, and zeroes the padding of the moved value. A commit zeroes
/// padding only at places that were got for writing, which this slot was not, and a value that this
/// transaction has written may have any bytes in its padding.
///
/// # Safety
/// `old` is a slot of a live object of the region of `view`. `old` has a value, which is not used there
/// again. `new` is a slot of another object, not written yet.
#[inline(always)]
pub(crate) unsafe fn move_to_new<T: Persist>(view: &View<'_>, old: *mut Slot<T>, new: *mut Slot<T>) {
    // SAFETY: the slots belong to different objects, by the caller's premise, and after the copy the new one
    // has a value.
    unsafe {
        new.copy_from_nonoverlapping(view.place_of(old), 1);
        if T::PADDED {
            T::zero_padding(new.cast());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;
    use crate::collections::{PBTreeMap, PHashMap, PVec, PVecDeque};
    use crate::field;

    /// A type with 7 bytes of padding.
    #[derive(crate::Persist, Clone, Copy)]
    #[persist(crate = "crate")]
    #[repr(C)]
    struct Padded {
        number: u64,
        byte: u8,
    }

    #[derive(crate::Persist, Default)]
    #[persist(crate = "crate")]
    #[repr(C)]
    struct All<'r> {
        list: PVec<'r, Padded>,
        queue: PVecDeque<'r, Padded>,
        hashed: PHashMap<'r, u64, Padded>,
        ordered: PBTreeMap<'r, u64, Padded>,
    }

    /// Writes 0xaa into the padding of a value, as an assignment may, and sets `byte` to 1.
    fn soil(value: &mut Padded) {
        let number = value.number;
        // SAFETY: all bytes belong to the value, and all its fields are written again.
        unsafe {
            std::ptr::from_mut(value).write_bytes(0xaa, 1);
            (&raw mut value.number).write(number);
            (&raw mut value.byte).write(1);
        }
    }

    fn is_clean(value: &Padded) -> bool {
        let bytes = std::ptr::from_ref(value).cast::<u8>();
        settle(bytes.cast_mut());
        // SAFETY: `settle` has made all bytes of the value initialized, and a `Padded` has 16 bytes.
        value.byte == 1 && (9..16).all(|i| unsafe { bytes.add(i).read() } == 0)
    }

    /// A collection that moves its values to a new buffer or node zeroes their padding: a commit zeroes
    /// padding only at the places that the program has got for writing, not where a collection moves values.
    #[test]
    fn padding_does_not_get_into_new_buffers() {
        let heap = crate::Heap::in_memory().unwrap();
        let root: Root<All> = heap.root("all").unwrap();
        root.txn(|tx, all| {
            let (list, queue) = (field!(all.list), field!(all.queue));
            let (hashed, ordered) = (field!(all.hashed), field!(all.ordered));
            for number in 0..200 {
                let new = Padded { number, byte: 0 };
                list.push(tx, new)?;
                queue.push_back(tx, new)?;
                hashed.insert(tx, &number, new)?;
                ordered.insert(tx, &number, new)?;
                soil(list.get_mut(tx, number as usize).unwrap());
                soil(queue.get_mut(tx, number as usize).unwrap());
                soil(hashed.get_mut(tx, &number).unwrap());
                soil(ordered.get_mut(tx, &number).unwrap());
            }
            list.shrink_to_fit(tx)?;
            queue.shrink_to_fit(tx)
        })
        .unwrap();
        root.read(|view, all| {
            let all = &view[all];
            assert!(all.list.len() == 200 && all.list.iter(view).all(is_clean));
            assert!(all.queue.len() == 200 && all.queue.iter(view).all(is_clean));
            assert!(all.hashed.len() == 200 && all.hashed.values(view).all(is_clean));
            assert!(all.ordered.len() == 200 && all.ordered.values(view).all(is_clean));
        })
        .unwrap();
    }
}
