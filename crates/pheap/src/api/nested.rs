//! `Txn::nested`: a part of a transaction that can be rolled back alone.
//!
//! A nested part has its own brand. With the brand of the outer transaction, a program could move a value out
//! of the heap into a variable of the outer transaction, a vector for example; after the rollback, the heap
//! would have the value as well, and both would own one buffer. So pointers are passed in explicitly, and
//! none is returned.

#![allow(unsafe_code)]

use super::tx::Txn;
use crate::error;
use crate::layout::Pointee;
use crate::ptr::P;
use crate::txn::context::Context;

/// The pointers that a transaction passes to a [nested](Txn::nested) part: a [`P`]; or an `Option`, an array,
/// a `Vec`, or a tuple of up to four of them; `()` for none.
///
/// The closure can simply capture numbers, texts and other values without pointers.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be handed to a nested part of a transaction",
    label = "not a `P`, nor a container of `P`s",
    note = "pass a `P`, or an `Option`, an array, a `Vec` or a tuple of `P`s; the closure can capture values \
        that are not pointers"
)]
pub trait Carried<'r>: sealed::Sealed {
    /// The same type, with the brand `'n` of a nested part.
    type At<'n>;

    /// Gives the pointers in `self` the brand `'n` of a nested part.
    ///
    /// # Safety
    /// Only pointers into the region of `self`'s pointers have the brand `'n`, and `'n` ends before the brand
    /// `'r` does.
    #[doc(hidden)]
    unsafe fn carry<'n>(self) -> Self::At<'n>;
}

mod sealed {
    pub trait Sealed {}
}

impl<T: Pointee + ?Sized> sealed::Sealed for P<'_, T> {}

impl<'r, T: Pointee + ?Sized> Carried<'r> for P<'r, T> {
    type At<'n> = P<'n, T::At<'n>>;

    unsafe fn carry<'n>(self) -> P<'n, T::At<'n>> {
        // SAFETY: `self` points to a live object of its region. `T::At<'n>` is the same type with another
        // brand, by the contract of `Pointee`. The caller has promised that only pointers into this region
        // have the brand `'n`.
        unsafe { P::from_addr(self.addr()) }
    }
}

impl<C: sealed::Sealed> sealed::Sealed for Option<C> {}

impl<'r, C: Carried<'r>> Carried<'r> for Option<C> {
    type At<'n> = Option<C::At<'n>>;

    unsafe fn carry<'n>(self) -> Option<C::At<'n>> {
        // SAFETY: the caller has promised the premises of `carry` for all pointers in `self`, and so for
        // those in its element.
        self.map(|one| unsafe { one.carry() })
    }
}

impl<C: sealed::Sealed, const N: usize> sealed::Sealed for [C; N] {}

impl<'r, C: Carried<'r>, const N: usize> Carried<'r> for [C; N] {
    type At<'n> = [C::At<'n>; N];

    unsafe fn carry<'n>(self) -> [C::At<'n>; N] {
        // SAFETY: the caller has promised the premises of `carry` for all pointers in `self`, and so for
        // those in each element.
        self.map(|one| unsafe { one.carry() })
    }
}

impl<C: sealed::Sealed> sealed::Sealed for Vec<C> {}

impl<'r, C: Carried<'r>> Carried<'r> for Vec<C> {
    type At<'n> = Vec<C::At<'n>>;

    unsafe fn carry<'n>(self) -> Vec<C::At<'n>> {
        // SAFETY: the caller has promised the premises of `carry` for all pointers in `self`, and so for
        // those in each element.
        self.into_iter().map(|one| unsafe { one.carry() }).collect()
    }
}

macro_rules! tuples {
    ($($T:ident $i:tt),*) => {
        impl<$($T: sealed::Sealed),*> sealed::Sealed for ($($T,)*) {}

        impl<'r, $($T: Carried<'r>),*> Carried<'r> for ($($T,)*) {
            type At<'n> = ($($T::At<'n>,)*);

            unsafe fn carry<'n>(self) -> Self::At<'n> {
                $(
                    // SAFETY: the caller has promised the premises of `carry` for all pointers in `self`, and
                    // so for those in each element.
                    let $T = unsafe { self.$i.carry() };
                )*
                ($($T,)*)
            }
        }
    };
}

impl sealed::Sealed for () {}

impl Carried<'_> for () {
    type At<'n> = ();

    unsafe fn carry<'n>(self) -> Self::At<'n> {}
}

#[allow(non_snake_case)]
mod tuples {
    use super::{Carried, sealed};

    tuples!(A 0);
    tuples!(A 0, B 1);
    tuples!(A 0, B 1, C 2);
    tuples!(A 0, B 1, C 2, D 3);
}

impl<'r> Txn<'r> {
    /// Runs `f` as a part of this transaction that can fail alone: if `f` returns an error, only the changes
    /// of `f` are rolled back.
    ///
    /// The transaction continues in both cases, and commits all changes that were not rolled back in one
    /// step. So a function that fails half-way has no effect, although the transaction that calls it
    /// continues. Nested parts can have nested parts.
    ///
    /// `carried` contains the pointers of the transaction that `f` needs (see [`Carried`]). A nested part has
    /// its own *brand*, so that no pointer outlives a rollback. The compiler refuses all other pointers in
    /// the nested part, and each pointer that would leave it. To get a pointer out of a part that has
    /// succeeded, use [`hold`](Txn::hold).
    ///
    /// ```
    /// use pheap::{Error, Heap, PVec, Persist, field};
    ///
    /// #[derive(Persist, Default)]
    /// #[repr(C)]
    /// struct Account<'r> {
    ///     balance: i64,
    ///     history: PVec<'r, i64>,
    /// }
    ///
    /// # fn main() -> pheap::Result<()> {
    /// let heap = Heap::in_memory()?;
    /// let root = heap.root::<Account>("account")?;
    /// let refused = root.txn(|tx, account| {
    ///     let mut refused = 0;
    ///     for amount in [50, -80, -30] {
    ///         let result = tx.nested(account, |tx, account| {
    ///             field!(account.history).push(tx, amount)?;
    ///             tx[account].balance += amount;
    ///             if tx[account].balance < 0 { Err(Error::abort("no credit")) } else { Ok(()) }
    ///         });
    ///         refused += i32::from(result.is_err());
    ///     }
    ///     Ok(refused)
    /// })?;
    /// assert_eq!(refused, 1);
    /// let (balance, payments) = root.read(|view, a| (view[a].balance, view[a].history.len()))?;
    /// assert_eq!((balance, payments), (20, 2));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Other effects of `f` are rolled back likewise: pointers that it has held are
    /// [`NotHeld`](crate::Error::NotHeld) afterwards, and objects that it would have freed at the commit
    /// stay. Objects that it has allocated are garbage until the next collection. In a transaction over
    /// several roots, a nested part belongs to one root: changes of other roots are not rolled back.
    ///
    /// If `f` panics, its changes are rolled back, and the panic continues. If the closure of the transaction
    /// does not catch the panic, the whole transaction is rolled back, as usual.
    ///
    /// # Cost
    /// The first time that `f` writes to a place in an object that it has not allocated itself, the old
    /// content of the place is copied once more, to volatile memory. The success of a nested part needs no
    /// fence and no write to the file: a crash rolls back the whole transaction. A rollback in a long
    /// transaction stores the old content in place.
    ///
    /// # Errors
    /// The error that `f` returns, and no other.
    pub fn nested<C: Carried<'r>, R>(
        &mut self,
        carried: C,
        f: impl for<'n> FnOnce(&mut Txn<'n>, C::At<'n>) -> error::Result<R>,
    ) -> error::Result<R> {
        self.try_nested(carried, f)
    }

    /// [`nested`](Self::nested) with an error type of your own.
    ///
    /// # Errors
    /// The error that `f` returns, and no other.
    pub fn try_nested<C: Carried<'r>, R, E>(
        &mut self,
        carried: C,
        f: impl for<'n> FnOnce(&mut Txn<'n>, C::At<'n>) -> Result<R, E>,
    ) -> Result<R, E> {
        let savepoint = SavepointGuard::open(self);
        // SAFETY: `hot` and `held` are those of the region of `self`, whose transaction is open. `self` is
        // borrowed until `f` has returned, and the new `Txn` is not used afterwards. `f` works for all
        // brands, so the brand is unique.
        let tx = &mut unsafe { Txn::new(savepoint.tx.hot(), savepoint.tx.held()) };
        // SAFETY: the brand of the result is that of `tx`. The pointers in `carried` have the brand `'r`, so
        // they point into the region of this transaction.
        let carried = unsafe { carried.carry() };
        let result = f(tx, carried);
        if result.is_ok() {
            savepoint.release_savepoint();
        }
        result
    }
}

/// An open savepoint of the transaction. Dropping the guard rolls back the changes since the savepoint was
/// opened, unless [`release_savepoint`](Self::release_savepoint) was called. (After a panic inside pheap, and
/// in a forked child, it only closes the savepoint.)
struct SavepointGuard<'t, 'r> {
    tx: &'t mut Txn<'r>,
}

impl<'t, 'r> SavepointGuard<'t, 'r> {
    fn open(tx: &'t mut Txn<'r>) -> SavepointGuard<'t, 'r> {
        // SAFETY: `context` points to the context of this thread's open transaction, and the reference to it
        // ends with this call, before another one is made (premises 1 and 2 of `Txn`).
        unsafe { &mut *tx.context() }.open_savepoint();
        SavepointGuard { tx }
    }

    fn release_savepoint(self) {
        // SAFETY: `context` points to the context of this thread's open transaction, and the reference to it
        // ends with this call, before another one is made (premises 1 and 2 of `Txn`).
        unsafe { &mut *self.tx.context() }.keep_changes();
        std::mem::forget(self);
    }
}

impl Drop for SavepointGuard<'_, '_> {
    fn drop(&mut self) {
        let cx = self.tx.context();
        // SAFETY: `cx` points to the context of this thread's open transaction. `context` is not used after
        // the next reference to it is made (premises 1 and 2 of `Txn`).
        let context = unsafe { &mut *cx };
        // After a panic inside pheap, the context is inconsistent, so a rollback is impossible. In a forked
        // child, the transaction is the parent's.
        if context.is_between || context.store().is_forked() {
            return context.drop_savepoint();
        }
        // SAFETY: the transaction is open, and no reference to its context is used any more (premises 1 and 2
        // of `Txn`). No reference into the heap exists: `self.tx` is borrowed mutably, and the `Txn` of the
        // nested part is not used any more.
        let mut held = unsafe { Context::take_changes_back(cx) };
        if !held.is_empty() {
            self.tx.held().end_transaction(&mut held, false);
        }
    }
}
