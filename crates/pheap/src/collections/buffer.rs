//! What collections do with the buffers that they own: parts of objects are read and written through raw pointers, for no `P` into
//! a buffer is ever handed out.
//!
//! That is what makes it possible to [free](free) a buffer without a collection, and to move values out of it: whoever owns
//! the collection is the only one who can name what is in it.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use crate::api::tx::Txn;
use crate::api::view::View;
use crate::error::Result;
use crate::layout::desc::{Desc, Kind};
use crate::layout::{Persist, Pointee, slice_header};
use crate::os::cpu::settle;
use crate::ptr::{P, value_of};
use crate::txn::context::Mode;

use super::common::copied;

/// A place for a `T`: zero in all bytes while there is none, so that whoever follows pointers finds no stale one.
///
/// (A value without pointers may be left behind where it is cheaper: any old value is as good as zero then.)
#[repr(transparent)]
pub(crate) struct Slot<T>(MaybeUninit<T>);

// SAFETY: described as what it is: zero, or a `T`.
unsafe impl<T: Persist> Persist for Slot<T> {
    type At<'r> = Slot<T::At<'r>>;
    const PADDED: bool = T::PADDED;
    const POINTERS: bool = T::POINTERS;

    fn desc() -> &'static Desc {
        const { &Desc::own("pheap::Slot", (size_of::<T>(), align_of::<T>()), Kind::Slot { of: T::desc }) }
    }

    /// That of the value, if there is one.
    unsafe fn zero_padding(this: *mut Self) {
        let bytes = this.cast::<u8>();
        settle(bytes);
        // SAFETY: so many bytes, definite now. If they are not all zero, they are a value.
        unsafe {
            if (0..size_of::<Self>()).any(|i| bytes.add(i).read() != 0) {
                T::zero_padding(this.cast());
            }
        }
    }
}

impl<T: Persist> Slot<T> {
    /// Without a value.
    #[inline(always)]
    pub(crate) const fn vacant() -> Slot<T> {
        Slot(MaybeUninit::zeroed())
    }

    /// Puts a value in. In place, for a move may change padding.
    #[inline(always)]
    pub(crate) fn put(&mut self, value: T) {
        self.0.write(value);
        if T::PADDED {
            // SAFETY: the value was written just now.
            unsafe { T::zero_padding(self.0.as_mut_ptr()) };
        }
    }

    /// Gives the value up.
    #[inline(always)]
    pub(crate) fn vacate(&mut self) {
        if T::POINTERS {
            // Not assigned: that may leave padding as it is.
            // SAFETY: zero in all bytes is a slot without a value.
            unsafe { std::ptr::write_bytes(self, 0, 1) };
        }
    }

    /// The value.
    ///
    /// # Safety
    /// There is one.
    #[inline(always)]
    pub(crate) unsafe fn value(&self) -> &T {
        // SAFETY: there is a value, as the caller promises.
        unsafe { self.0.assume_init_ref() }
    }

    /// The value, to write.
    ///
    /// # Safety
    /// There is one.
    #[inline(always)]
    pub(crate) unsafe fn value_mut(&mut self) -> &mut T {
        // SAFETY: there is a value, as the caller promises.
        unsafe { self.0.assume_init_mut() }
    }

    /// The value, moved out: the slot is overwritten next, or never read again.
    ///
    /// # Safety
    /// There is one.
    #[inline(always)]
    pub(crate) unsafe fn take(&self) -> T {
        debug_assert!(!T::POINTERS || !self.is_zero() || may_be_zero(T::desc()), "a slot without a value");
        // SAFETY: there is a value, as the caller promises.
        unsafe { self.0.assume_init_read() }
    }

    fn is_zero(&self) -> bool {
        let bytes = std::ptr::from_ref(self).cast::<u8>();
        settle(bytes.cast_mut());
        // SAFETY: so many bytes, definite now.
        (0..size_of::<Self>()).all(|i| unsafe { bytes.add(i).read() } == 0)
    }
}

/// Whether zero in all bytes can be a value.
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

/// A part of an object, to read.
///
/// # Safety
/// A live value, inside of a live object of the region of `view`, that nobody has a `&mut` to.
#[inline(always)]
pub(crate) unsafe fn read<'v, T: Pointee + ?Sized>(view: &'v View<'_>, value: *mut T) -> &'v T {
    // SAFETY: passed on to the caller; the place is the value, or this transaction's copy of it, as long as `view` is borrowed.
    unsafe { &*view.place_of(value) }
}

/// A part of an object, to write.
///
/// # Safety
/// A live value, inside of a live object of the region of `tx`.
#[inline(always)]
pub(crate) unsafe fn write<'t, T: Pointee + ?Sized>(tx: &'t mut Txn<'_>, value: *mut T) -> &'t mut T {
    // SAFETY: passed on to the caller; `&mut` keeps all other access away.
    unsafe { &mut *tx.writable(value) }
}

/// An object that a collection writes several times: found once.
pub(crate) struct Writable<'r, T> {
    object: P<'r, T>,
    place: *mut T,
    mode: Mode,
    widened: u32,
}

impl<'r, T: Persist> Writable<'r, T> {
    /// Makes the object crash-safe.
    #[inline(always)]
    pub(crate) fn new(tx: &mut Txn<'r>, object: P<'r, T>) -> Self {
        // SAFETY: a `P` points to a live object of its region.
        let place = unsafe { tx.writable(value_of(object)) };
        Writable { object, place, mode: tx.mode(), widened: tx.widened() }
    }

    /// The object, to write.
    #[inline(always)]
    pub(crate) fn get<'t>(&self, tx: &'t mut Txn<'r>) -> &'t mut T {
        let mode = tx.mode();
        if mode == self.mode && mode != Mode::Doomed && tx.widened() == self.widened {
            // SAFETY: where a transaction writes an object changes only with its mode, or with wider copies, but for one that is doomed.
            return unsafe { &mut *self.place };
        }
        &mut tx[self.object]
    }
}

/// A part of an object, for [`announce`].
#[inline(always)]
pub(crate) fn range<T>(value: *mut T) -> (*mut u8, usize) {
    (value.cast(), size_of::<T>())
}

/// Makes several parts crash-safe at once that are about to be written one by one: in a long transaction, that is one fence instead of one
/// for each.
///
/// # Safety
/// As for [`write`], for each of them.
#[inline]
pub(crate) unsafe fn announce(tx: &mut Txn<'_>, parts: &[(*mut u8, usize)]) {
    // SAFETY: passed on to the caller.
    unsafe { tx.announce(parts) };
}

/// Frees an object when the transaction commits.
///
/// # Safety
/// A buffer that `tx`'s collection has owned and has let go of in this transaction: nothing will point to it.
#[inline]
pub(crate) unsafe fn free<'r, T: Pointee + ?Sized>(tx: &Txn<'r>, buffer: P<'r, T>) {
    // SAFETY: passed on to the caller.
    unsafe { tx.__free_at_commit(buffer) };
}

/// A pointer to a part of a buffer, for as long as the collection is busy with it.
///
/// # Safety
/// A live value, inside of a live object of the region of the brand; the pointer does not get out of this crate.
#[inline(always)]
pub(crate) unsafe fn pointer_to<'r, T: Persist>(value: *mut T) -> P<'r, T> {
    // SAFETY: passed on to the caller.
    unsafe { P::from_addr(NonNull::new_unchecked(value.cast())) }
}

/// The slots of a buffer, as raw pointers.
pub(crate) struct Slots<T> {
    first: *mut Slot<T>,
    pub(crate) len: usize,
}

copied! { [T] Slots<T>; }

impl<T: Persist> Slots<T> {
    /// The first `len` of those of a buffer. Does not look at the buffer for it.
    ///
    /// # Safety
    /// It has as many.
    #[inline(always)]
    pub(crate) unsafe fn first_of(buffer: P<'_, [Slot<T>]>, len: usize) -> Slots<T> {
        // SAFETY: the elements follow the length; see `Pointee for [T]`.
        let first = unsafe { buffer.addr().add(slice_header(align_of::<T>())) };
        Slots { first: first.as_ptr().cast(), len }
    }

    /// Those of a collection without a buffer.
    #[inline(always)]
    pub(crate) fn none() -> Slots<T> {
        Slots { first: std::ptr::dangling_mut(), len: 0 }
    }

    /// Those of a buffer.
    #[inline(always)]
    pub(crate) fn of(buffer: P<'_, [Slot<T>]>) -> Slots<T> {
        let slots = value_of(buffer);
        Slots { first: slots.cast(), len: slots.len() }
    }

    /// The first `len` of them.
    #[inline(always)]
    pub(crate) fn up_to(self, len: usize) -> Slots<T> {
        debug_assert!(len <= self.len);
        Slots { len, ..self }
    }

    /// Those from `from` on.
    #[inline(always)]
    pub(crate) fn behind(self, from: usize) -> Slots<T> {
        assert!(from <= self.len);
        Slots { first: self.first.wrapping_add(from), len: self.len - from }
    }

    /// A slot.
    ///
    /// # Safety
    /// `i` is less than the length.
    #[inline(always)]
    pub(crate) unsafe fn at(self, i: usize) -> *mut Slot<T> {
        debug_assert!(i < self.len);
        // SAFETY: in the buffer.
        unsafe { self.first.add(i) }
    }

    /// Several slots that follow one another.
    ///
    /// # Safety
    /// They are in the buffer.
    #[inline(always)]
    pub(crate) unsafe fn range(self, from: usize, to: usize) -> *mut [Slot<T>] {
        debug_assert!(from <= to && to <= self.len);
        // SAFETY: in the buffer.
        std::ptr::slice_from_raw_parts_mut(unsafe { self.first.add(from) }, to - from)
    }
}

/// A new buffer of `capacity` slots, the first of which take what is in `old`; the others are vacant. The old buffer is to be given up.
pub(crate) fn moved<'r, T: Persist>(
    tx: &Txn<'r>,
    old: Slots<T>,
    capacity: usize,
) -> Result<P<'r, [Slot<T>]>> {
    debug_assert!(old.len <= capacity);
    let (buffer, first) = tx.alloc_elements::<Slot<T>>(capacity)?;
    // SAFETY: `capacity` slots, to be written for the first time; what is in the old ones moves.
    unsafe {
        if tx.is_in_place() && !T::PADDED {
            first.copy_from_nonoverlapping(old.first, old.len);
        } else {
            (0..old.len).for_each(|i| move_to_new(tx, old.at(i), first.add(i)));
        }
        first.add(old.len).write_bytes(0, capacity - old.len);
    }
    Ok(buffer)
}

/// Moves a value to a slot of a new object. Padding is zero there: a commit does not look at new objects, and a value that was written in this transaction may
/// have anything in it.
///
/// # Safety
/// There is a value in `old`, a slot of a live object of the region of `view`, that is not used there again. `new` is written for the first time.
#[inline(always)]
pub(crate) unsafe fn move_to_new<T: Persist>(view: &View<'_>, old: *mut Slot<T>, new: *mut Slot<T>) {
    // SAFETY: slots of different objects, as the caller promises, and there is a value in the new one then.
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

    /// With 7 bytes of padding.
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

    /// Leaves something in all bytes of a value, as an assignment may.
    fn soil(value: &mut Padded) {
        let number = value.number;
        // SAFETY: all bytes of a value, that is written again.
        unsafe {
            std::ptr::from_mut(value).write_bytes(0xaa, 1);
            (&raw mut value.number).write(number);
            (&raw mut value.byte).write(1);
        }
    }

    fn is_clean(value: &Padded) -> bool {
        let bytes = std::ptr::from_ref(value).cast::<u8>();
        settle(bytes.cast_mut());
        // SAFETY: the bytes of a value, definite now.
        value.byte == 1 && (9..16).all(|i| unsafe { bytes.add(i).read() } == 0)
    }

    /// A commit does not look at new objects.
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
