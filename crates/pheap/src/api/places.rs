//! Where values are to be written that were not looked for lately.
//!
//! These are functions of their own, for the code around the calls is to have the registers; and functions of the context, for a `Txn` whose address nobody gets need not be looked at again after
//! each store.

#![allow(unsafe_code)]

use crate::faults::{Bug, bug};
use crate::layout::{Padding, Persist, Pointee};
use crate::txn::context::{Context, Hot, Mode, Route};
use crate::txn::write_set::MAX_OBJECT;

// Premises of these functions:
// * *open*: `cx` is the context of an open transaction of this thread, to which there is no reference. (A reference that one of them makes goes before the next call that takes the pointer.)
// * *live*: `value` and `object` are live values of its region, and `place` is within `object`.
// * *alone*: nobody has a reference to what is going to be written.

/// Address and length of a value.
#[inline(always)]
pub(super) fn bytes_of<T: Pointee + ?Sized>(value: *mut T) -> (usize, usize) {
    (value.cast::<u8>().expose_provenance(), T::bytes(value))
}

/// Whether there may be copies of all of a value like this one. Of a slice there is seldom any.
#[inline(always)]
pub(super) fn has_copies<T: Pointee + ?Sized>(value: *mut T) -> bool {
    size_of::<*mut T>() == size_of::<*mut u8>() && T::bytes(value) <= MAX_OBJECT
}

/// Where the value is to be written.
///
/// # Safety
/// *open*, *live* and *alone*.
#[cold]
#[inline(never)]
pub(super) unsafe fn writable_at_first<T: Pointee + ?Sized>(cx: *mut Context, value: *mut T) -> *mut T {
    let (addr, len) = bytes_of(value);
    // For any other value this was asked where the call is.
    if T::PADDED || !has_copies(value) {
        // SAFETY: *open*.
        let context = unsafe { &mut *cx };
        let noted = context.hot().recent.find(addr, len, T::ALIGN);
        if let Some(place) = noted {
            context.note_padding(addr, Padding::of(value));
            return T::relocated(value, place);
        }
    }
    // SAFETY: *open*, *live* and *alone*.
    let place = unsafe { Context::writable(cx, addr, len, T::ALIGN, Padding::of(value)) };
    T::relocated(value, place)
}

/// Where `place` is to be written, by itself if that is simple. There are no calls but in the end: so no registers are saved for a store that ends here, and most do that come to a field again, or
/// are the first to one.
///
/// # Safety
/// *open*, *live* and *alone*; `hot` is that of the context.
#[cold]
#[inline(never)]
pub(super) unsafe fn place_apart<T: Pointee + ?Sized, F: Persist>(
    hot: &Hot,
    object: *mut T,
    place: *mut F,
) -> *mut F {
    let (addr, len) = bytes_of(place);
    let cx = hot.context.get();
    if !<F as Pointee>::PADDED {
        // Most transactions that come here for each of their stores have noted nothing.
        if hot.recent.has_any()
            && let Some(noted) = hot.recent.find(addr, len, align_of::<F>())
        {
            return noted.cast();
        }
        // SAFETY: *open*.
        let context = unsafe { &mut *cx };
        let forgets = bug(Bug::SavepointForgetsFields);
        if context.route == Route::Long || forgets && context.mode == Mode::Long {
            // SAFETY: *live*.
            if unsafe { hot.is_in_place(addr, len, align_of::<F>()) } {
                // Where the stores are, they look for all of the object.
                let (whole, bytes) = bytes_of(object);
                // SAFETY: *live*.
                if bytes == len || unsafe { hot.is_in_place(whole, bytes, T::ALIGN) } {
                    hot.recent.note(whole, bytes, object.cast());
                }
                return place;
            }
            // SAFETY: *open*, *live* and *alone*.
            return unsafe { Context::writable_by_log(cx, addr, len, None) }.cast();
        }
        if context.route == Route::Short || forgets && context.mode == Mode::Short {
            let (whole, bytes) = bytes_of(object);
            // What it takes is only simple if there is no copy of another part of the object.
            if !context.takes_objects(bytes) {
                let beside = Context::beside((whole, bytes), (addr, len));
                // SAFETY: *live* and *alone*.
                if let Some(copy) = unsafe { context.copy_at_once((addr, len), beside, align_of::<F>()) } {
                    return copy.cast();
                }
            } else if !T::PADDED {
                let object = (whole, bytes);
                // SAFETY: *live* and *alone*.
                if let Some(copy) = unsafe { context.copy_at_once(object, object, T::ALIGN) } {
                    return copy.wrapping_add(addr - whole).cast();
                }
            }
        }
    }
    // SAFETY: *open*, *live* and *alone*.
    unsafe { place_at_first(cx, object, place) }
}

/// Where `place` is to be written: within a place for all of the object, or by itself.
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
    // SAFETY: *open*.
    let context = unsafe { &*cx };
    if context.takes_objects(T::bytes(object)) || context.has_other_part(bytes_of(object), (addr, len)) {
        // SAFETY: *open*, *live* and *alone*.
        let whole = unsafe { writable_at_first(cx, object) };
        return within(place, object, whole.cast());
    }
    if <F as Pointee>::PADDED {
        // SAFETY: *open*, *live* and *alone*.
        return unsafe { writable_at_first(cx, place) };
    }
    // SAFETY: *open*, *live* and *alone*.
    unsafe { Context::writable(cx, addr, len, align_of::<F>(), None) }.cast()
}

/// Notes what a store to `place` will have logged. Returns whether it did.
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
    // SAFETY: *open*.
    let cx = unsafe { &mut *cx };
    if cx.takes_objects(T::bytes(object)) {
        let (addr, len) = bytes_of(object);
        cx.note_ahead(addr, len)
    } else {
        cx.note_ahead(place.cast::<u8>().expose_provenance(), size_of::<F>())
    }
}

/// Logs all places that were noted, behind one fence, and returns where `place`, one of them, is to be written.
///
/// # Safety
/// *open*, *live* and *alone*; `hot` is that of the context.
#[cold]
#[inline(never)]
pub(super) unsafe fn place_noted<T: Pointee + ?Sized, F: Persist>(
    hot: &Hot,
    object: *mut T,
    place: *mut F,
) -> *mut F {
    // SAFETY: *open*.
    unsafe { Context::log_ahead(hot.context.get()) };
    // SAFETY: *open*, *live* and *alone*.
    unsafe { place_apart(hot, object, place) }
}

/// Where a part of an object is that is somewhere else.
#[inline(always)]
fn within<T: Pointee + ?Sized, F>(part: *mut F, object: *mut T, elsewhere: *mut u8) -> *mut F {
    elsewhere.wrapping_add(part.addr() - object.cast::<u8>().addr()).cast()
}
