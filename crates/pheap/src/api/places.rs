//! Finds the place to which a value is to be written, if it is not in the cache of recent lookups.
//!
//! These are separate functions so that they need no registers in the code around the calls. They are
//! functions of the context, and not of `Txn`: a `Txn` whose address does not escape need not be read again
//! after each store.

#![allow(unsafe_code)]

use crate::faults::{Bug, bug};
use crate::layout::{Padding, Persist, Pointee};
use crate::txn::context::{Context, HotFields, Mode, StoreRoute};
use crate::txn::write_set::MAX_OBJECT;

// Premises of these functions:
// * *open*: `cx` is the context of an open transaction of this thread, and there is no reference to it. (A
//   reference that one of the functions makes ends before the next call that takes the pointer.)
// * *live*: `value` and `object` are live values of its region, and `place` is within `object`.
// * *alone*: there is no reference to the value that is going to be written.

/// Returns the address and the length of a value.
#[inline(always)]
pub(super) fn bytes_of<T: Pointee + ?Sized>(value: *mut T) -> (usize, usize) {
    (value.cast::<u8>().expose_provenance(), T::bytes(value))
}

/// Whether to look for a copy of the whole value: it is no slice, and not larger than the largest copy. (A
/// slice rarely has a copy of all of it.)
#[inline(always)]
pub(super) fn has_copies<T: Pointee + ?Sized>(value: *mut T) -> bool {
    size_of::<*mut T>() == size_of::<*mut u8>() && T::bytes(value) <= MAX_OBJECT
}

/// Returns the place to which the value is to be written.
///
/// # Safety
/// *open*, *live* and *alone*.
#[cold]
#[inline(never)]
pub(super) unsafe fn writable_at_first<T: Pointee + ?Sized>(cx: *mut Context, value: *mut T) -> *mut T {
    let (addr, len) = bytes_of(value);
    // For most other values, a caller has already searched `recent`.
    if T::PADDED || !has_copies(value) {
        // SAFETY: *open*: `cx` is valid, and there is no reference to the context.
        let context = unsafe { &mut *cx };
        let noted = context.hot().recent.find_recent(addr, len, T::ALIGN);
        if let Some(place) = noted {
            context.note_padding(addr, Padding::of_value(value));
            return T::relocated(value, place);
        }
    }
    // SAFETY: the caller's *open*, *live* and *alone*, for the same value.
    let place = unsafe { Context::writable(cx, addr, len, T::ALIGN, Padding::of_value(value)) };
    T::relocated(value, place)
}

/// Returns the place to which `place` is to be written; handles the simple cases itself. The calls for the
/// other cases are in tail position, so that the simple cases need not save registers for them.
///
/// # Safety
/// *open*, *live* and *alone*; `hot` is that of the context.
#[cold]
#[inline(never)]
pub(super) unsafe fn place_apart<T: Pointee + ?Sized, F: Persist>(
    hot: &HotFields,
    object: *mut T,
    place: *mut F,
) -> *mut F {
    let (addr, len) = bytes_of(place);
    let cx = hot.context.get();
    if !<F as Pointee>::PADDED {
        // An empty cache need not be searched.
        if hot.recent.has_any()
            && let Some(noted) = hot.recent.find_recent(addr, len, align_of::<F>())
        {
            return noted.cast();
        }
        // SAFETY: *open*: `cx` is valid, and there is no reference to the context.
        let context = unsafe { &mut *cx };
        let forgets = bug(Bug::SavepointForgetsFields);
        if context.route == StoreRoute::Long || forgets && context.mode == Mode::Long {
            // SAFETY: *live*: the place is within the heap.
            if unsafe { hot.is_in_place(addr, len, align_of::<F>()) } {
                // The expansions of `#[txn]` search the cache for the whole object.
                let (whole, bytes) = bytes_of(object);
                // SAFETY: *live*: the object is within the heap.
                if bytes == len || unsafe { hot.is_in_place(whole, bytes, T::ALIGN) } {
                    hot.recent.record_recent(whole, bytes, object.cast());
                }
                return place;
            }
            // SAFETY: the caller's *open*, *live* and *alone*, for a part of `object`.
            return unsafe { Context::writable_by_log(cx, addr, len, None) }.cast();
        }
        if context.route == StoreRoute::Short || forgets && context.mode == Mode::Short {
            let (whole, bytes) = bytes_of(object);
            // Copying the field is simple only if there is no copy of another part of the object.
            if !context.takes_objects(bytes) {
                let beside = Context::beside((whole, bytes), (addr, len));
                // SAFETY: *live* and *alone*, for a part of `object`.
                if let Some(copy) = unsafe { context.copy_at_once((addr, len), beside, align_of::<F>()) } {
                    return copy.cast();
                }
            } else if !T::PADDED {
                let object = (whole, bytes);
                // SAFETY: *live* and *alone*, for `object`.
                if let Some(copy) = unsafe { context.copy_at_once(object, object, T::ALIGN) } {
                    return copy.wrapping_add(addr - whole).cast();
                }
            }
        }
    }
    // SAFETY: the caller's *open*, *live* and *alone*; the reference to the context is not used any more.
    unsafe { place_at_first(cx, object, place) }
}

/// Returns the place to which `place` is to be written: within a place for the whole object, or separately.
///
/// # Safety
/// *open*, *live* and *alone*.
#[inline(never)]
unsafe fn place_at_first<T: Pointee + ?Sized, F: Persist>(
    cx: *mut Context,
    object: *mut T,
    place: *mut F,
) -> *mut F {
    let (addr, len) = bytes_of(place);
    // SAFETY: *open*: `cx` is valid, and there is no reference to the context.
    let context = unsafe { &*cx };
    if context.takes_objects(T::bytes(object)) || context.has_other_part(bytes_of(object), (addr, len)) {
        // SAFETY: the caller's *open*, *live* and *alone*, for `object`; the reference to the context is not
        // used any more.
        let whole = unsafe { writable_at_first(cx, object) };
        return within(place, object, whole.cast());
    }
    if <F as Pointee>::PADDED {
        // SAFETY: the caller's *open*, *live* and *alone*, for a part of `object`.
        return unsafe { writable_at_first(cx, place) };
    }
    // SAFETY: the caller's *open*, *live* and *alone*, for a part of `object`.
    unsafe { Context::writable(cx, addr, len, align_of::<F>(), None) }.cast()
}

/// Records the range that a store to `place` will log. Returns whether it was recorded: not if it is empty,
/// or logged already.
///
/// # Safety
/// *open*, *live* and *alone*.
#[cold]
#[inline(never)]
pub(super) unsafe fn note_ahead<T: Pointee + ?Sized, F>(
    cx: *mut Context,
    object: *mut T,
    place: *mut F,
) -> bool {
    // SAFETY: *open*: `cx` is valid, and there is no reference to the context.
    let cx = unsafe { &mut *cx };
    if cx.takes_objects(T::bytes(object)) {
        let (addr, len) = bytes_of(object);
        cx.note_ahead(addr, len)
    } else {
        cx.note_ahead(place.cast::<u8>().expose_provenance(), size_of::<F>())
    }
}

/// Logs all recorded places with one fence if the transaction is long (forgets them otherwise), and returns
/// the place to which `place`, one of them, is to be written.
///
/// # Safety
/// *open*, *live* and *alone*; `hot` is that of the context.
#[cold]
#[inline(never)]
pub(super) unsafe fn place_noted<T: Pointee + ?Sized, F: Persist>(
    hot: &HotFields,
    object: *mut T,
    place: *mut F,
) -> *mut F {
    // SAFETY: *open*, for the context of `hot`.
    unsafe { Context::log_ahead(hot.context.get()) };
    // SAFETY: the caller's *open*, *live* and *alone*.
    unsafe { place_apart(hot, object, place) }
}

/// Returns the place of a part of an object whose copy, or the object itself, is at `elsewhere`.
#[inline(always)]
fn within<T: Pointee + ?Sized, F>(part: *mut F, object: *mut T, elsewhere: *mut u8) -> *mut F {
    elsewhere.wrapping_add(part.addr() - object.cast::<u8>().addr()).cast()
}
