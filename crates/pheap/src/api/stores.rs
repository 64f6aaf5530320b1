//! The functions that `#[txn]` expands to. They find the places of stores to parts of objects, and log the
//! old content of a place ahead of its store.
//!
//! Premises 1 to 3 of `Txn`, which `SAFETY` comments name, are in the comment above that struct.

#![allow(unsafe_code)]

use super::places::{bytes_of, has_copies, note_ahead, place_apart, place_noted};
use super::tx::Txn;
use crate::layout::{Persist, Pointee};
use crate::os::cpu::seldom;
use crate::ptr::part::Part;
use crate::txn::context::{Context, Mode};

/// The result of looking up the first of two parts to which a function stores one after the other. It borrows
/// the transaction, so nothing can use the transaction between the lookup and the store. (The variable that
/// `#[txn]` takes for a transaction may have a type of the program, whose `Deref` runs any code.)
#[doc(hidden)]
pub struct First<'t, 'r, T: ?Sized, F> {
    tx: &'t mut Txn<'r>,
    part: Part<'r, T, F>,
    /// Whether the part can be written in place, without a further lookup.
    is_in_place: bool,
    /// Whether the part was recorded, so that one log entry covers both parts.
    pub is_noted: bool,
}

impl<'t, 'r, T: Pointee + ?Sized, F: Persist> First<'t, 'r, T, F> {
    /// Returns the place of a store to the part, as [`Txn::__place`] does.
    #[doc(hidden)]
    #[inline(always)]
    pub fn place(self) -> &'t mut F {
        if self.is_in_place {
            // SAFETY: `__first` found a live value of this region that can be written in place. Since then
            // `self` has borrowed the transaction, which excludes all other access.
            return unsafe { &mut *self.part.address() };
        }
        self.tx.__place(self.part)
    }
}

/// The methods that `#[txn]` expands to (their names begin with `__`), and other methods about stores.
impl<'r> Txn<'r> {
    /// Makes a part of an object crash-safe, and returns it. The body has no closures: each would be one more
    /// function for the compiler to check and to compile.
    #[doc(hidden)]
    #[inline(always)]
    pub fn __place<T: Pointee + ?Sized, F: Persist>(&mut self, part: Part<'r, T, F>) -> &mut F {
        let (object, place) = (self.value_of(part.object()), part.address());
        let (addr, len) = bytes_of(place);
        if !<F as Pointee>::PADDED {
            if has_copies(object) {
                let (whole, bytes) = bytes_of(object);
                if let Some(noted) = self.hot().recent.find_recent(whole, bytes, T::ALIGN) {
                    // SAFETY: `recent` maps `object` to the place, aligned as the object is, where the
                    // transaction reads and writes all of it. `place` is within `object` (by `Part`), so the
                    // result is within that place, which only this transaction uses. `&mut self` excludes all
                    // other access.
                    return unsafe { &mut *noted.wrapping_add(addr - whole).cast::<F>() };
                }
            // SAFETY: `place` is a part of a live object of this region (premise 3 of `Txn`).
            } else if unsafe { self.hot().is_in_place(addr, len, align_of::<F>()) } {
                // SAFETY: `place` is a live value of this region that can be written in place; `&mut self`
                // excludes all other access.
                return unsafe { &mut *place };
            } else if let Some(noted) = self.hot().recent.find_recent(addr, len, align_of::<F>()) {
                // SAFETY: `recent` maps the part to the place, aligned as the part is, where the transaction
                // reads and writes all of it, and which only this transaction uses. `&mut self` excludes all
                // other access.
                return unsafe { &mut *noted.cast::<F>() };
            }
        }
        // SAFETY: the context is that of this thread's open transaction, no reference to it exists, and
        // `object`, the target of a `P`, is a live object of this region (premises 1, 2 and 3 of `Txn`).
        // `place` is within `object`, by the invariant of `Part`.
        let place = unsafe { place_apart(self.hot(), object, place) };
        // SAFETY: `place` holds the value, and only this transaction uses it; `&mut self` excludes all other
        // access.
        unsafe { &mut *place }
    }

    /// Looks up the first of two parts. If a store to the part would need a separate log entry, records the
    /// part, so that one entry covers both parts.
    #[doc(hidden)]
    #[inline(always)]
    pub fn __first<T: Pointee + ?Sized, F: Persist>(
        &mut self,
        part: Part<'r, T, F>,
        is_one_object: bool,
    ) -> First<'_, 'r, T, F> {
        let (object, (addr, len)) = (self.value_of(part.object()), bytes_of(part.address()));
        // For an object that may have a copy as a whole, `__place` searches the cache first.
        let has_copies = has_copies(object);
        // SAFETY: the place is a part of a live object of this region (premise 3 of `Txn`).
        let is_logged = || unsafe { self.hot().is_in_place(addr, len, align_of::<F>()) };
        if !<F as Pointee>::PADDED && !has_copies && is_logged() {
            return First { tx: self, part, is_in_place: true, is_noted: false };
        }
        if is_one_object && has_copies || !self.logs_in_place() {
            return First { tx: self, part, is_in_place: false, is_noted: false };
        }
        seldom();
        // SAFETY: the context is that of this thread's open transaction, and no reference to it exists. The
        // part is within an object of this region, which is live (premises 1, 2 and 3 of `Txn`).
        let is_noted = unsafe { note_ahead(self.context(), object, part.address()) };
        First { tx: self, part, is_in_place: false, is_noted }
    }

    /// Returns the place of a store to a [recorded](Self::__first) part, as [`__place`](Self::__place) does.
    /// Called after the other part was recorded, too, unless that part needs no log entry.
    #[doc(hidden)]
    #[inline(always)]
    pub fn __place_noted<T: Pointee + ?Sized, F: Persist>(&mut self, part: Part<'r, T, F>) -> &mut F {
        // SAFETY: the context is that of this thread's open transaction, and no reference to it exists. The
        // part is within an object of this region, which is live (premises 1, 2 and 3 of `Txn`).
        let place = unsafe { place_noted(self.hot(), self.value_of(part.object()), part.address()) };
        // SAFETY: `place` holds the value, and only this transaction uses it; `&mut self` excludes all other
        // access.
        unsafe { &mut *place }
    }

    /// Whether each store logs the old content of its place, so that logging two places together saves an
    /// entry and a fence. That is so in a long transaction without pending copies.
    #[inline(always)]
    pub(crate) fn logs_in_place(&self) -> bool {
        self.hot().logs_in_place.get()
    }

    /// Returns a number that grows each time the write set replaces copies of parts of a value by one wider
    /// copy.
    #[inline(always)]
    pub(crate) fn widened(&self) -> u32 {
        // SAFETY: the reference to the context ends with this expression, before another one is made (premise
        // 2 of `Txn`).
        unsafe { self.cx() }.set.widened
    }

    #[inline(always)]
    pub(crate) fn mode(&self) -> Mode {
        // SAFETY: the reference to the context ends with this expression, before another one is made (premise
        // 2 of `Txn`).
        unsafe { self.cx() }.mode
    }

    /// Records the range that a store to a part will log, unless the range is empty, or logged already.
    /// Returns whether it was recorded. The call is optional: the store can log the part itself.
    #[doc(hidden)]
    #[inline(always)]
    pub fn __ahead<T: Pointee + ?Sized, F>(&mut self, part: Part<'r, T, F>) -> bool {
        let place = part.address();
        let (addr, len) = (place.cast::<u8>().expose_provenance(), size_of::<F>());
        // SAFETY: the place is a part of a live object of this region (premise 3 of `Txn`).
        if unsafe { self.hot().is_in_place(addr, len, align_of::<F>()) } {
            return false;
        }
        // SAFETY: the context is that of this thread's open transaction, and no reference to it exists. The
        // part is within an object of this region, which is live (premises 1, 2 and 3 of `Txn`).
        unsafe { note_ahead(self.context(), self.value_of(part.object()), place) }
    }

    /// Logs all recorded places with one fence if the transaction is long. Forgets the places in either case.
    #[inline]
    pub(crate) fn ahead_done(&mut self) {
        // SAFETY: the context is that of this thread's open transaction, and no reference to it exists
        // (premises 1 and 2 of `Txn`).
        unsafe { Context::log_ahead(self.context()) };
    }
}

/// Makes a part of an object crash-safe, and returns it as a `&mut`: `place!({.field [index] .0} tx (key))`.
///
/// The key and the indices are evaluated in Rust's order, but before the transaction is borrowed. Expansions
/// must be cheap to compile: so there are few variables, and the rule for most places comes first.
#[doc(hidden)]
#[macro_export]
macro_rules! __place {
    ({ $($steps:tt)* } $tx:ident ($key:expr)) => {{
        let part = $crate::__part!([$($steps)*] $crate::__private::object_in($key, $tx));
        $crate::Txn::__place($tx, part)
    }};
    // The first of two places to which neighbouring statements store. If the first place must be logged, the
    // same entry logs the other place.
    (pair $is_one_object:literal { $other:expr } { $($steps:tt)* } $tx:ident ($key:expr)) => {{
        let part = $crate::__part!([$($steps)*] $crate::__private::object_in($key, $tx));
        let first = $crate::Txn::__first($tx, part, $is_one_object);
        if first.is_noted {
            _ = $other;
            $crate::Txn::__place_noted($tx, part)
        } else {
            first.place()
        }
    }};
}

/// Records the place of the second of two neighbouring stores, before the first store, so that one log entry
/// covers both. If an index is out of bounds, this records nothing: the panic must come from the second store
/// itself, after the first.
#[doc(hidden)]
#[macro_export]
macro_rules! __place_ahead {
    ({ $($steps:tt)* } $tx:ident ($key:expr)) => {
        'missing: {
            let part = $crate::__part!([$($steps)*] $crate::__private::object_in($key, $tx); 'missing);
            $crate::Txn::__ahead($tx, part)
        }
    };
}
