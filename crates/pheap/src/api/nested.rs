//! `Txn::nested`: a part of a transaction that is taken back alone if it fails.
//!
//! It has a brand of its own. With that of the transaction around it, a program could keep what it has taken out of the heap there, a vector for example, when the heap gets it back; then two would own one
//! buffer. So pointers are brought in by name, and nothing is brought out.

#![allow(unsafe_code)]

use super::tx::Txn;
use crate::error;
use crate::layout::Pointee;
use crate::ptr::P;
use crate::txn::context::Context;

/// What a transaction can hand to a [nested](Txn::nested) part of it: a [`P`], or several: an `Option`, an array, a `Vec`, or a tuple of up to four; `()` for nothing.
///
/// Numbers, texts and the like are just captured by the closure.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be handed to a nested part of a transaction",
    label = "neither a `P` nor several",
    note = "hand it a `P`, or an `Option`, an array, a `Vec` or a tuple of such; what is no pointer can be captured by the closure"
)]
pub trait Carried<'r>: sealed::Sealed {
    /// The same for the brand of the nested part.
    type At<'n>;

    /// # Safety
    /// `'n` is a brand that only pointers into the region have that this points into, and it ends before the brand of this does.
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
        // SAFETY: a live object of the region, for this is a pointer to one; `T::At<'n>` is the same type at another brand, by the contract of `Pointee`. The brand is the caller's premise.
        unsafe { P::from_addr(self.addr()) }
    }
}

impl<C: sealed::Sealed> sealed::Sealed for Option<C> {}

impl<'r, C: Carried<'r>> Carried<'r> for Option<C> {
    type At<'n> = Option<C::At<'n>>;

    unsafe fn carry<'n>(self) -> Option<C::At<'n>> {
        // SAFETY: the caller's premise.
        self.map(|one| unsafe { one.carry() })
    }
}

impl<C: sealed::Sealed, const N: usize> sealed::Sealed for [C; N] {}

impl<'r, C: Carried<'r>, const N: usize> Carried<'r> for [C; N] {
    type At<'n> = [C::At<'n>; N];

    unsafe fn carry<'n>(self) -> [C::At<'n>; N] {
        // SAFETY: the caller's premise.
        self.map(|one| unsafe { one.carry() })
    }
}

impl<C: sealed::Sealed> sealed::Sealed for Vec<C> {}

impl<'r, C: Carried<'r>> Carried<'r> for Vec<C> {
    type At<'n> = Vec<C::At<'n>>;

    unsafe fn carry<'n>(self) -> Vec<C::At<'n>> {
        // SAFETY: the caller's premise.
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
                    // SAFETY: the caller's premise.
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
    /// Runs `f` as a part of this transaction that can fail alone: if it returns an error, what it has changed is taken back, and nothing else.
    ///
    /// The transaction goes on, whether `f` has worked or not, and commits all that was not taken back at once. So a function that has failed half-way leaves nothing behind, although the transaction
    /// that has called it goes on. Nested parts can have nested parts.
    ///
    /// `carried` is what `f` is given of the pointers that the transaction has (see [`Carried`]): a nested part has a *brand* of its own, so that nothing can be kept of what is taken back, and the
    /// compiler refuses all other pointers in it, and each pointer that is to leave it. If it has worked, [`hold`](Txn::hold) gets one out.
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
    /// What else `f` has done is taken back likewise: what it has held is [`NotHeld`](crate::Error::NotHeld) afterwards, what would have been freed at the commit stays. What it has allocated is garbage, until the
    /// next collection. In a transaction over several roots, a nested part is one of its root: what it does to others is not taken back.
    ///
    /// If `f` panics, its changes are taken back, and the panic goes on. If nobody catches it within the transaction, all of that is rolled back, as ever.
    ///
    /// # Cost
    /// What `f` is the first to write, but for objects that it has made, is copied once more, in volatile memory: such a store takes about twice as long. To take it back costs less than that. No fence, nothing in the file: a crash
    /// takes back all of the transaction.
    ///
    /// # Errors
    /// What `f` returns, and nothing else.
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
    /// What `f` returns, and nothing else.
    pub fn try_nested<C: Carried<'r>, R, E>(
        &mut self,
        carried: C,
        f: impl for<'n> FnOnce(&mut Txn<'n>, C::At<'n>) -> Result<R, E>,
    ) -> Result<R, E> {
        let savepoint = Savepoint::open(self);
        // SAFETY: the hot part and the table of the region of this `Txn`, whose transaction is open. This `Txn` is borrowed until `f` has returned, when the other one is gone. The brand is one of its own, for
        // `f` works for all of them.
        let tx = &mut unsafe { Txn::new(savepoint.tx.hot(), savepoint.tx.held()) };
        // SAFETY: the same brand. Pointers of this transaction's point into its region; who has others has another brand, which they would have to have here, too.
        let carried = unsafe { carried.carry() };
        let result = f(tx, carried);
        if result.is_ok() {
            savepoint.keep();
        }
        result
    }
}

/// A savepoint of the transaction. Dropped, it takes back what has changed since; unless it was told to keep that.
struct Savepoint<'t, 'r> {
    tx: &'t mut Txn<'r>,
}

impl<'t, 'r> Savepoint<'t, 'r> {
    fn open(tx: &'t mut Txn<'r>) -> Savepoint<'t, 'r> {
        // SAFETY: (1) and (2) of `Txn`, for this call.
        unsafe { &mut *tx.context() }.open_savepoint();
        Savepoint { tx }
    }

    fn keep(self) {
        // SAFETY: (1) and (2) of `Txn`, for this call.
        unsafe { &mut *self.tx.context() }.keep_changes();
        std::mem::forget(self);
    }
}

impl Drop for Savepoint<'_, '_> {
    fn drop(&mut self) {
        let cx = self.tx.context();
        // SAFETY: (1) and (2) of `Txn`; the reference goes before the next one is made.
        let context = unsafe { &mut *cx };
        // A panic of pheap's in the middle of something leaves nothing to go back to, and a forked child has not got what the transaction has written.
        if context.is_between || context.store().is_forked() {
            return context.drop_savepoint();
        }
        // SAFETY: (1) and (2) of `Txn`. Nobody has a reference to anything in the heap: `self.tx` is borrowed for writing, and the `Txn` of the nested part is gone.
        let mut held = unsafe { Context::take_changes_back(cx) };
        if !held.is_empty() {
            self.tx.held().end_transaction(&mut held, false);
        }
    }
}
