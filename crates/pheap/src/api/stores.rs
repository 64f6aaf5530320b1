//! What `#[txn]` expands to: the places of stores, and what is logged ahead of them.
//!
//! The premises by number are those of [`Txn`].

#![allow(unsafe_code)]

use std::cell::Cell;
use std::marker::PhantomData;

use super::places::{bytes_of, has_copies, note_ahead, place_apart, place_first, within};
use super::tx::Txn;
use crate::layout::{Persist, Pointee};
use crate::os::cpu::seldom;
use crate::ptr::{Brand, P, value_of};
use crate::txn::context::{Context, Mode};
use crate::txn::recent::Found;

/// Where the object is that a pointer of a function's leads to, as the function has found it last: `#[txn]` makes one for each pointer that it comes back to in a loop. A wrong guess costs a compare.
///
/// Of one brand, for what is found in a transaction says nothing of another one.
#[doc(hidden)]
pub struct Last<'r> {
    found: Cell<Found>,
    brand: Brand<'r>,
}

impl Last<'_> {
    /// Nothing was found.
    #[inline(always)]
    pub const fn nothing() -> Self {
        Last { found: Cell::new(Found::NOTHING), brand: PhantomData }
    }
}

/// What was found of the first of two places that are stored to one after the other. It has the transaction, which is borrowed once: a type of the user's that is `Deref` may do anything when it is.
#[doc(hidden)]
pub struct First<'t, 'r> {
    tx: &'t mut Txn<'r>,
    is_in_place: bool,
    pub is_noted: bool,
}

/// What `#[txn]` expands to.
impl<'r> Txn<'r> {
    /// Makes a place within an object crash-safe, and returns it. No closures here: each one would be a function more to check and to translate.
    ///
    /// # Safety
    /// `place` is within the object.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn __place<T: Pointee + ?Sized, F: Persist>(
        &mut self,
        object: P<'r, T>,
        place: *mut F,
    ) -> &mut F {
        let object = value_of(object);
        let (addr, len) = bytes_of(place);
        if !<F as Pointee>::PADDED {
            if has_copies(object) {
                let (whole, bytes) = bytes_of(object);
                if let Some(noted) = self.hot().recent.find(whole, bytes, T::ALIGN) {
                    // SAFETY: what `recent` has is where the transaction reads and writes all of `object`, and aligned as it is. `place` is within `object` (the caller's
                    // premise), so this is within that, which is this transaction's alone; `&mut self` keeps all other access away.
                    return unsafe { &mut *noted.wrapping_add(addr - whole).cast::<F>() };
                }
            // SAFETY: a part of a live object of this region, by (3) and the caller's premise.
            } else if unsafe { self.hot().is_in_place(addr, len, align_of::<F>()) } {
                // SAFETY: a live value of this region (the caller's premise), which is written where it is; `&mut self` keeps all other access away.
                return unsafe { &mut *place };
            } else if let Some(noted) = self.hot().recent.find(addr, len, align_of::<F>()) {
                // SAFETY: what `recent` has is where the transaction reads and writes all of the place, and aligned as it is: this transaction's alone; `&mut self` keeps all other access away.
                return unsafe { &mut *noted.cast::<F>() };
            }
        }
        // SAFETY: the context of an open transaction of this thread, by (1), to which there is no reference, by (2). `object` is what a `P` of this brand points to: a live object of this
        // region, by (3). `place` is within it (the caller's premise).
        let place = unsafe { place_apart(self.hot(), object, place) };
        // SAFETY: a place with this value that is this transaction's alone; `&mut self` keeps all other access away.
        unsafe { &mut *place }
    }

    /// [`__place`](Self::__place) within an object that the function comes back to.
    ///
    /// # Safety
    /// `place` is within the object.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn __place_again<T: Pointee + ?Sized, F: Persist>(
        &mut self,
        last: &Last<'r>,
        object: P<'r, T>,
        place: *mut F,
    ) -> &mut F {
        let whole = value_of(object);
        if <F as Pointee>::PADDED || !has_copies(whole) {
            // SAFETY: the caller's premise.
            return unsafe { self.__place(object, place) };
        }
        let (addr, bytes) = bytes_of(whole);
        let place = match self.hot().recent.find_again(last.found.get(), addr, bytes, T::ALIGN) {
            Some(found) => within(place, whole, found),
            None => {
                // SAFETY: the context of an open transaction of this thread, by (1), to which there is no reference, by (2). `object` is what a `P` of this brand points to: a live object
                // of this region, by (3). `place` is within it (the caller's premise).
                let (place, found) = unsafe { place_first(self.hot(), whole, place) };
                last.found.set(found);
                place
            }
        };
        // SAFETY: within where the transaction reads and writes all of `object`, as `recent` has found it, and as aligned, since this brand has come to be; for that is still so, or the epoch would be
        // another one. Or from `place_first`. It is this transaction's alone; `&mut self` keeps all other access away.
        unsafe { &mut *place }
    }

    /// `self[object]`, to which the function comes back.
    #[doc(hidden)]
    #[inline(always)]
    pub fn __read_again<T: Pointee + ?Sized>(&self, last: &Last<'r>, object: P<'r, T>) -> &T {
        let value = value_of(object);
        if !has_copies(value) {
            return &self[object];
        }
        // SAFETY: `object` points to a live `T` of this region, by (3), and `place_again` says where it, or its copy, is. Nobody has a `&mut` into it: that takes `&mut Txn`.
        unsafe { &*self.place_again(&last.found, value) }
    }

    /// Looks for the first place of two. If it must be logged on its own, notes it, for the other one to be logged with it.
    ///
    /// # Safety
    /// `place` is within the object.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn __first<T: Pointee + ?Sized, F: Persist>(
        &mut self,
        object: P<'r, T>,
        place: *mut F,
        is_one_object: bool,
    ) -> First<'_, 'r> {
        let (addr, len) = bytes_of(place);
        // In these the last place is looked for first. And so small an object needs no pairs of its own: sooner or later, a block of it is logged as a whole.
        let has_copies = has_copies(value_of(object));
        // SAFETY: a part of a live object of this region, by (3) and the caller's premise.
        let is_logged = || unsafe { self.hot().is_in_place(addr, len, align_of::<F>()) };
        if !<F as Pointee>::PADDED && !has_copies && is_logged() {
            return First { tx: self, is_in_place: true, is_noted: false };
        }
        if is_one_object && has_copies || !self.__logs_in_place() {
            return First { tx: self, is_in_place: false, is_noted: false };
        }
        seldom();
        // SAFETY: the context of an open transaction of this thread, by (1), to which there is no reference, by (2). `place` is within `object` (the caller's premise), which is live, by (3).
        let is_noted = unsafe { note_ahead(self.context(), value_of(object), place) };
        First { tx: self, is_in_place: false, is_noted }
    }

    /// [`__place`](Self::__place) of what was [looked for](Self::__first) and not noted.
    ///
    /// # Safety
    /// `place` is within the object, and what was looked for.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn __place_first<'t, T: Pointee + ?Sized, F: Persist>(
        first: First<'t, 'r>,
        object: P<'r, T>,
        place: *mut F,
    ) -> &'t mut F {
        if first.is_in_place {
            // SAFETY: a live value of this region (the caller's premise), which is written where it is, by what was found; nothing was done with the transaction since, which `first` has. That keeps all other access away.
            return unsafe { &mut *place };
        }
        // SAFETY: the caller's premise.
        unsafe { first.tx.__place(object, place) }
    }

    /// The same within an object that the function comes back to.
    ///
    /// # Safety
    /// Those of [`__place_first`](Self::__place_first).
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn __place_first_again<'t, T: Pointee + ?Sized, F: Persist>(
        first: First<'t, 'r>,
        last: &Last<'r>,
        object: P<'r, T>,
        place: *mut F,
    ) -> &'t mut F {
        if !first.is_in_place {
            // SAFETY: the caller's premise.
            return unsafe { first.tx.__place_again(last, object, place) };
        }
        // SAFETY: the caller's premises.
        unsafe { Txn::__place_first(first, object, place) }
    }

    /// [`__place`](Self::__place) of what was [noted](Self::__first), when the other place is noted, too.
    ///
    /// # Safety
    /// `place` is within the object.
    #[doc(hidden)]
    #[cold]
    #[inline(never)]
    pub unsafe fn __place_noted<T: Pointee + ?Sized, F: Persist>(
        &mut self,
        object: P<'r, T>,
        place: *mut F,
    ) -> &mut F {
        self.__ahead_done();
        // SAFETY: the caller's premise.
        unsafe { self.__place(object, place) }
    }

    /// Whether each store is logged on its own, so that a group saves entries, and fences.
    #[doc(hidden)]
    #[inline(always)]
    pub fn __logs_in_place(&self) -> bool {
        self.hot().logs_in_place.get()
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

    /// Notes what a store to a place will have logged, unless it is logged. Returns whether it did: if it did for none of a group, the last one need not be noted. It can just as well be logged by itself.
    ///
    /// # Safety
    /// The place is within the object.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn __ahead<T: Pointee + ?Sized, F>(&mut self, object: P<'r, T>, place: *mut F) -> bool {
        let (addr, len) = (place.cast::<u8>().expose_provenance(), size_of::<F>());
        // SAFETY: a part of a live object of this region, by (3) and the caller's premise.
        if unsafe { self.hot().is_in_place(addr, len, align_of::<F>()) } {
            return false;
        }
        // SAFETY: the context of an open transaction of this thread, by (1), to which there is no reference, by (2).
        unsafe { note_ahead(self.context(), value_of(object), place) }
    }

    /// Logs all places noted, behind one fence.
    #[doc(hidden)]
    #[inline]
    pub fn __ahead_done(&mut self) {
        // SAFETY: the context of an open transaction of this thread, by (1), to which there is no reference, by (2).
        unsafe { Context::log_ahead(self.context()) };
    }
}

/// A place that a transaction has made crash-safe, as a `&mut`: `place!(.field tx (key))`, or `place!({ .field [0] .0 [1] } [i, j,] (tx) (key))`, where `[0]` stands for the first index.
///
/// The key and the indices are evaluated in the order in which Rust would, but before the transaction is borrowed, and outside of the `unsafe` block. Expansions are to cost the
/// compiler little: so there are few variables, no types that it finds by itself, and no rule that is tried before the one for fields has an `expr` to parse.
//
// Premises of this macro and the next one:
// * *object*: `object` takes a `P` only, and says where the live object is to which that points. The functions of `Txn` take that `P`, so it has the brand of `tx`, which has locked the region.
// * *within*: the place is made of fields, and of `element` or `element_checked`, which check the indices. So it is within the object, and no type in a heap is `Deref`, so no code of the
//   user's runs.
// The name of the transaction is in `unsafe` blocks: to borrow it outside is 1.3 % more of `cargo check`. It may be that of a `static mut`, but one that has the brand `'static`, which no `P` has. So the
// key, which comes first, has no value, and nobody gets there (`tests/ui/txn_static.rs`).
#[doc(hidden)]
#[macro_export]
macro_rules! __place {
    (. await $($rest:tt)*) => {
        $crate::__private::core::compile_error!("`.await` is not a field")
    };
    // Most places are these.
    (. $field:tt $tx:ident ($key:expr)) => {{
        let object = $crate::__private::object($key);
        // SAFETY: *object* and *within*.
        unsafe { $crate::Txn::__place($tx, object.0, &raw mut (*object.1).$field) }
    }};
    ({ $($steps:tt)* } [$($index:expr,)*] ($tx:ident) ($key:expr)) => {{
        let object = $crate::__private::object($key);
        let indices = ($($crate::__private::index($index),)*);
        // SAFETY: *object* and *within*.
        unsafe { $crate::Txn::__place($tx, object.0, &raw mut $crate::__place_in!(indices (*object.1) $($steps)*)) }
    }};
    // In an object that the function comes back to, with what it has found last.
    (again $last:ident { $($steps:tt)* } [$($index:expr,)*] ($tx:ident) ($key:expr)) => {{
        let object = $crate::__private::object($key);
        let indices = ($($crate::__private::index($index),)*);
        // SAFETY: *object* and *within*.
        unsafe { $crate::Txn::__place_again($tx, $last, object.0, &raw mut $crate::__place_in!(indices (*object.1) $($steps)*)) }
    }};
    // The first of two that neighbouring statements store to. If it must be logged, the other one is logged with it; if not, there is no more to look for.
    (pair $is_one_object:literal { $other:expr } [$($last:ident)?] { $($steps:tt)* } [$($index:expr,)*] ($tx:ident) ($key:expr)) => {{
        let object = $crate::__private::object($key);
        let indices = ($($crate::__private::index($index),)*);
        // SAFETY: *object* and *within*.
        let place = unsafe { &raw mut $crate::__place_in!(indices (*object.1) $($steps)*) };
        // SAFETY: *object* and *within*.
        let first = unsafe { $crate::Txn::__first($tx, object.0, place, $is_one_object) };
        if first.is_noted {
            _ = $other;
            // SAFETY: *object* and *within*.
            unsafe { $crate::Txn::__place_noted($tx, object.0, place) }
        } else {
            // SAFETY: *object* and *within*.
            unsafe { $crate::__place!(first first object place $($last)?) }
        }
    }};
    (first $first:ident $object:ident $place:ident) => { $crate::Txn::__place_first($first, $object.0, $place) };
    (first $first:ident $object:ident $place:ident $last:ident) => {
        $crate::Txn::__place_first_again($first, $last, $object.0, $place)
    };
}

/// Notes such a place for the log. An index out of bounds must panic where it stands, after the stores in front of it: here it notes nothing.
#[doc(hidden)]
#[macro_export]
macro_rules! __place_ahead {
    (. $field:tt $tx:ident ($key:expr)) => {
        $crate::__place_ahead!({ . $field } [] ($tx) ($key))
    };
    ({ $($steps:tt)* } [$($index:expr,)*] ($tx:ident) ($key:expr)) => {{
        let object = $crate::__private::object($key);
        let indices = ($($crate::__private::index($index),)*);
        'missing: {
            // SAFETY: *object* and *within*.
            unsafe {
                let place = &raw mut $crate::__place_in!((indices 'missing) (*object.1) $($steps)*);
                $crate::Txn::__ahead($tx, object.0, place)
            }
        }
    }};
}
