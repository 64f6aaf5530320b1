//! What `#[txn]` expands to: parts of objects to store to, and what is logged ahead of a store.
//!
//! The premises by number are those of [`Txn`].

#![allow(unsafe_code)]

use super::places::{bytes_of, has_copies, note_ahead, place_apart, place_noted};
use super::tx::Txn;
use crate::layout::{Persist, Pointee};
use crate::os::cpu::seldom;
use crate::ptr::part::Part;
use crate::ptr::value_of;
use crate::txn::context::{Context, Mode};

/// What was found of the first of two parts that are stored to one after the other. It has the transaction, so nothing
/// can be done with that in between: a type of the user's that is `Deref` may do anything when it is borrowed.
#[doc(hidden)]
pub struct First<'t, 'r, T: ?Sized, F> {
    tx: &'t mut Txn<'r>,
    part: Part<'r, T, F>,
    /// The part is written where it is.
    is_in_place: bool,
    /// The part was noted, to be logged with the other one.
    pub is_noted: bool,
}

impl<'t, 'r, T: Pointee + ?Sized, F: Persist> First<'t, 'r, T, F> {
    /// [`Txn::__place`] of the part.
    #[doc(hidden)]
    #[inline(always)]
    pub fn place(self) -> &'t mut F {
        if self.is_in_place {
            // SAFETY: a live value of this region, written where it is, as was found. Since then `self` has had the
            // transaction, which keeps all other access away.
            return unsafe { &mut *self.part.place() };
        }
        self.tx.__place(self.part)
    }
}

/// What `#[txn]` expands to.
impl<'r> Txn<'r> {
    /// Makes a part of an object crash-safe, and returns it. No closures here: each one would be a function more to check and to translate.
    #[doc(hidden)]
    #[inline(always)]
    pub fn __place<T: Pointee + ?Sized, F: Persist>(&mut self, part: Part<'r, T, F>) -> &mut F {
        let (object, place) = (value_of(part.object()), part.place());
        let (addr, len) = bytes_of(place);
        if !<F as Pointee>::PADDED {
            if has_copies(object) {
                let (whole, bytes) = bytes_of(object);
                if let Some(noted) = self.hot().recent.find(whole, bytes, T::ALIGN) {
                    // SAFETY: what `recent` has is where the transaction reads and writes all of `object`, and aligned as it is. `place` is within `object` (of a `Part`),
                    // so this is within that, which is this transaction's alone; `&mut self` keeps all other access away.
                    return unsafe { &mut *noted.wrapping_add(addr - whole).cast::<F>() };
                }
            // SAFETY: a part of a live object of this region, by (3).
            } else if unsafe { self.hot().is_in_place(addr, len, align_of::<F>()) } {
                // SAFETY: a live value of this region, which is written where it is; `&mut self` keeps all other access away.
                return unsafe { &mut *place };
            } else if let Some(noted) = self.hot().recent.find(addr, len, align_of::<F>()) {
                // SAFETY: what `recent` has is where the transaction reads and writes all of the place, and aligned as it is: this transaction's alone; `&mut self` keeps all other access away.
                return unsafe { &mut *noted.cast::<F>() };
            }
        }
        // SAFETY: the context of an open transaction of this thread, by (1), to which there is no reference, by (2). `object` is what a `P` of this brand points to: a live object of this
        // region, by (3). `place` is within it, of a `Part`.
        let place = unsafe { place_apart(self.hot(), object, place) };
        // SAFETY: a place with this value that is this transaction's alone; `&mut self` keeps all other access away.
        unsafe { &mut *place }
    }

    /// Looks for the first part of two. If it must be logged on its own, notes it, for the other one to be logged with it.
    #[doc(hidden)]
    #[inline(always)]
    pub fn __first<T: Pointee + ?Sized, F: Persist>(
        &mut self,
        part: Part<'r, T, F>,
        is_one_object: bool,
    ) -> First<'_, 'r, T, F> {
        let (object, (addr, len)) = (value_of(part.object()), bytes_of(part.place()));
        // In these the last place is looked for first. And so small an object needs no pairs of its own: sooner or later, a block of it is logged as a whole.
        let has_copies = has_copies(object);
        // SAFETY: a part of a live object of this region, by (3).
        let is_logged = || unsafe { self.hot().is_in_place(addr, len, align_of::<F>()) };
        if !<F as Pointee>::PADDED && !has_copies && is_logged() {
            return First { tx: self, part, is_in_place: true, is_noted: false };
        }
        if is_one_object && has_copies || !self.logs_in_place() {
            return First { tx: self, part, is_in_place: false, is_noted: false };
        }
        seldom();
        // SAFETY: the context of an open transaction of this thread, by (1), to which there is no reference, by (2). The part is within the object, which is live, by (3).
        let is_noted = unsafe { note_ahead(self.context(), object, part.place()) };
        First { tx: self, part, is_in_place: false, is_noted }
    }

    /// [`__place`](Self::__place) of what was [noted](Self::__first), when the other part is noted, too.
    #[doc(hidden)]
    #[inline(always)]
    pub fn __place_noted<T: Pointee + ?Sized, F: Persist>(&mut self, part: Part<'r, T, F>) -> &mut F {
        // SAFETY: the context of an open transaction of this thread, by (1), to which there is no reference, by (2).
        // The part is within the object, which is live, by (3).
        let place = unsafe { place_noted(self.hot(), value_of(part.object()), part.place()) };
        // SAFETY: a place with this value that is this transaction's alone; `&mut self` keeps all other access away.
        unsafe { &mut *place }
    }

    /// Whether each store is logged on its own, so that two together save an entry, and a fence.
    #[inline(always)]
    pub(crate) fn logs_in_place(&self) -> bool {
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

    /// Notes what a store to a part will have logged, unless it is logged. Returns whether it did. It can just as well be logged by itself.
    #[doc(hidden)]
    #[inline(always)]
    pub fn __ahead<T: Pointee + ?Sized, F>(&mut self, part: Part<'r, T, F>) -> bool {
        let place = part.place();
        let (addr, len) = (place.cast::<u8>().expose_provenance(), size_of::<F>());
        // SAFETY: a part of a live object of this region, by (3).
        if unsafe { self.hot().is_in_place(addr, len, align_of::<F>()) } {
            return false;
        }
        // SAFETY: the context of an open transaction of this thread, by (1), to which there is no reference, by (2). The part is within the object, which is live, by (3).
        unsafe { note_ahead(self.context(), value_of(part.object()), place) }
    }

    /// Logs all places noted, behind one fence.
    #[inline]
    pub(crate) fn ahead_done(&mut self) {
        // SAFETY: the context of an open transaction of this thread, by (1), to which there is no reference, by (2).
        unsafe { Context::log_ahead(self.context()) };
    }
}

/// A part of an object that a transaction has made crash-safe, as a `&mut`: `place!({.field [index] .0} tx (key))`.
///
/// The key and the indices are evaluated in the order in which Rust would, but before the transaction is borrowed.
/// Expansions are to cost the compiler little: so there are few variables, and no rule that is tried before the one for
/// most places has an `expr` to parse.
#[doc(hidden)]
#[macro_export]
macro_rules! __place {
    ({ $($steps:tt)* } $tx:ident ($key:expr)) => {{
        let part = $crate::__part!([$($steps)*] $crate::__private::object($key));
        $crate::Txn::__place($tx, part)
    }};
    // The first of two that neighbouring statements store to. If it must be logged, the other one is logged with it; if not, there is no more to look for.
    (pair $is_one_object:literal { $other:expr } { $($steps:tt)* } $tx:ident ($key:expr)) => {{
        let part = $crate::__part!([$($steps)*] $crate::__private::object($key));
        let first = $crate::Txn::__first($tx, part, $is_one_object);
        if first.is_noted {
            _ = $other;
            $crate::Txn::__place_noted($tx, part)
        } else {
            first.place()
        }
    }};
}

/// Notes such a part for the log. An index out of bounds must panic where it stands, after the store in front of it: here it notes nothing.
#[doc(hidden)]
#[macro_export]
macro_rules! __place_ahead {
    ({ $($steps:tt)* } $tx:ident ($key:expr)) => {
        'missing: {
            let part = $crate::__part!([$($steps)*] $crate::__private::object($key); 'missing);
            $crate::Txn::__ahead($tx, part)
        }
    };
}
