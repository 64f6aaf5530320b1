//! Finds the place for a store to a value: in place, in a copy, or within the place of a larger value. For
//! values that the cache of recent lookups does not have.
//!
//! The `unsafe` functions of this file are not inlined, so that they need no registers in the code around the
//! calls. They take the context, and not the `Txn`: a `Txn` whose address does not escape need not be read
//! again after each store.

#![allow(unsafe_code)]

use crate::faults::{Bug, bug};
use crate::layout::{Padding, Persist, Pointee};
use crate::txn::context::{Context, HotFields, Mode, StoreRoute};
use crate::txn::write_set::MAX_OBJECT;

// Premises of the `unsafe` functions in this file, by name:
// * *open*: `cx` is the context of an open transaction of this thread, and there is no reference to it. (A
//   reference that one of these functions makes ends before the next call that takes `cx`.)
// * *live*: `value` and `object` are live values of the region of `cx`, and `place` is within `object`.
// * *alone*: there is no reference to the value that is going to be written.

/// Returns the address of a value, and its length in bytes.
#[inline(always)]
pub(super) fn bytes_of<T: Pointee + ?Sized>(value: *mut T) -> (usize, usize) {
    (value.cast::<u8>().expose_provenance(), T::bytes(value))
}

/// Whether to look for a copy of the whole value: it is no slice or string, and not larger than the largest
/// copy. (A slice rarely has a copy of all of it.)
#[inline(always)]
pub(super) fn has_copies<T: Pointee + ?Sized>(value: *mut T) -> bool {
    size_of::<*mut T>() == size_of::<*mut u8>() && T::bytes(value) <= MAX_OBJECT
}

/// Makes a store to `value` undoable, and returns the place of the store: `value` itself, or its copy.
///
/// # Safety
/// `cx` is the context of this thread's open transaction, and no reference to it exists (*open*). `value` is
/// a live value of its region (*live*), and no reference to that value exists (*alone*).
#[cold]
#[inline(never)]
pub(super) unsafe fn writable_at_first<T: Pointee + ?Sized>(cx: *mut Context, value: *mut T) -> *mut T {
    let (addr, len) = bytes_of(value);
    // For most other values, the caller has already searched the cache `recent`.
    if T::PADDED || !has_copies(value) {
        // SAFETY: `cx` points to the context, and no reference to it exists (*open*).
        let context = unsafe { &mut *cx };
        let noted = context.hot().recent.find_recent(addr, len, T::ALIGN);
        if let Some(place) = noted {
            context.note_padding(addr, Padding::of_value(value));
            return T::relocated(value, place);
        }
    }
    // SAFETY: the caller has promised *open*, *live* and *alone* for the same `cx` and `value`.
    let place = unsafe { Context::writable(cx, addr, len, T::ALIGN, Padding::of_value(value)) };
    T::relocated(value, place)
}

/// Makes a store to `place`, a part of `object`, undoable, and returns the place of the store. Handles the
/// simple cases itself. The calls for the other cases are in tail position, so that the simple cases need not
/// save registers for them.
///
/// # Safety
/// `hot` has the context of this thread's open transaction, and no reference to that context exists (*open*).
/// `object` is a live value of its region, and `place` is within `object` (*live*). No reference to `place`
/// exists (*alone*).
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
        // SAFETY: `cx` points to the context, and no reference to it exists (*open*).
        let context = unsafe { &mut *cx };
        let forgets = bug(Bug::SavepointForgetsFields);
        if context.route == StoreRoute::Long || forgets && context.mode == Mode::Long {
            // SAFETY: `place` is within a live object, and so within the heap (*live*).
            if unsafe { hot.is_in_place(addr, len, align_of::<F>()) } {
                // Enters the whole object into the cache, because the expansions of `#[txn]` search it for
                // whole objects.
                let (whole, bytes) = bytes_of(object);
                // SAFETY: `object` is live, and so within the heap (*live*).
                if bytes == len || unsafe { hot.is_in_place(whole, bytes, T::ALIGN) } {
                    hot.recent.record_recent(whole, bytes, object.cast());
                }
                return place;
            }
            // SAFETY: the caller has promised *open*, *live* and *alone* for `place`, a part of `object`.
            return unsafe { Context::writable_by_log(cx, addr, len, None) }.cast();
        }
        if context.route == StoreRoute::Short || forgets && context.mode == Mode::Short {
            let (whole, bytes) = bytes_of(object);
            // Copying the part alone is simple only if no other part of the object has a copy.
            if !context.takes_objects(bytes) {
                let beside = Context::beside((whole, bytes), (addr, len));
                // SAFETY: `place` is live, and no reference to it exists (*live*, *alone*).
                if let Some(copy) = unsafe { context.copy_at_once((addr, len), beside, align_of::<F>()) } {
                    return copy.cast();
                }
            } else if !T::PADDED {
                let object = (whole, bytes);
                // SAFETY: `object` is live, and no reference to `place`, the part to be written, exists
                // (*live*, *alone*).
                if let Some(copy) = unsafe { context.copy_at_once(object, object, T::ALIGN) } {
                    return copy.wrapping_add(addr - whole).cast();
                }
            }
        }
    }
    // SAFETY: the caller has promised *open*, *live* and *alone*, and `context`, the reference to the
    // context, is not used any more.
    unsafe { place_at_first(cx, object, place) }
}

/// Makes a store to `place`, a part of `object`, undoable, and returns the place of the store: within a place
/// for the whole object, or separately.
///
/// # Safety
/// `cx` is the context of this thread's open transaction, and no reference to it exists (*open*). `object` is
/// a live value of its region, and `place` is within `object` (*live*). No reference to `place` exists
/// (*alone*).
#[inline(never)]
unsafe fn place_at_first<T: Pointee + ?Sized, F: Persist>(
    cx: *mut Context,
    object: *mut T,
    place: *mut F,
) -> *mut F {
    let (addr, len) = bytes_of(place);
    // SAFETY: `cx` points to the context, and no reference to it exists (*open*).
    let context = unsafe { &*cx };
    if context.takes_objects(T::bytes(object)) || context.has_other_part(bytes_of(object), (addr, len)) {
        // SAFETY: the caller has promised *open*, *live* and *alone* for `object`, and `context`, the
        // reference to the context, is not used any more.
        let whole = unsafe { writable_at_first(cx, object) };
        return within(place, object, whole.cast());
    }
    if <F as Pointee>::PADDED {
        // SAFETY: the caller has promised *open*, *live* and *alone* for `place`, a part of `object`.
        return unsafe { writable_at_first(cx, place) };
    }
    // SAFETY: the caller has promised *open*, *live* and *alone* for `place`, a part of `object`.
    unsafe { Context::writable(cx, addr, len, align_of::<F>(), None) }.cast()
}

/// Records the range that a store to `place`, a part of `object`, will log. Returns whether it has: not if
/// the range is empty, or logged already.
///
/// # Safety
/// `cx` is the context of this thread's open transaction, and no reference to it exists (*open*). `object` is
/// a live value of its region, and `place` is within `object` (*live*). No reference to `place` exists
/// (*alone*).
#[cold]
#[inline(never)]
pub(super) unsafe fn note_ahead<T: Pointee + ?Sized, F>(
    cx: *mut Context,
    object: *mut T,
    place: *mut F,
) -> bool {
    // SAFETY: `cx` points to the context, and no reference to it exists (*open*).
    let cx = unsafe { &mut *cx };
    if cx.takes_objects(T::bytes(object)) {
        let (addr, len) = bytes_of(object);
        cx.note_ahead(addr, len)
    } else {
        cx.note_ahead(place.cast::<u8>().expose_provenance(), size_of::<F>())
    }
}

/// Logs all recorded places with one fence if the transaction is long (forgets them otherwise). Then makes a
/// store to `place`, which is one of them, undoable, and returns the place of the store.
///
/// # Safety
/// `hot` has the context of this thread's open transaction, and no reference to that context exists (*open*).
/// `object` is a live value of its region, and `place` is within `object` (*live*). No reference to `place`
/// exists (*alone*).
#[cold]
#[inline(never)]
pub(super) unsafe fn place_noted<T: Pointee + ?Sized, F: Persist>(
    hot: &HotFields,
    object: *mut T,
    place: *mut F,
) -> *mut F {
    // SAFETY: `hot.context` points to the context, and no reference to it exists (*open*).
    unsafe { Context::log_ahead(hot.context.get()) };
    // SAFETY: the caller has promised *open*, *live* and *alone*, for the same arguments.
    unsafe { place_apart(hot, object, place) }
}

/// Returns the place of `part`, a part of `object`, if the object's copy, or the object itself, is at
/// `elsewhere`.
#[inline(always)]
fn within<T: Pointee + ?Sized, F>(part: *mut F, object: *mut T, elsewhere: *mut u8) -> *mut F {
    elsewhere.wrapping_add(part.addr() - object.cast::<u8>().addr()).cast()
}
