//! The types of keys and values of a map with snapshots.

use crate::api::tx::Txn;
use crate::api::view::View;
use crate::error::Result;
use crate::layout::{Persist, Plain};
use crate::ptr::P;

/// A key or a value of a [`PSnapMap`](super::PSnapMap), which does not change once it is in the map.
///
/// It is a [`Plain`] type that is `Copy`, `Send` and `Sync`, which the map stores by value; or a `P<str>`, or
/// a `P<[T]>` of such a type, for which the map allocates its own objects, and never hands out a pointer to
/// one. Other pointers would lead to objects that transactions may write in place, while snapshots are
/// read without a lock.
pub trait Frozen<'r>: Persist<At<'r> = Self> + Copy + sealed::Sealed + 'r {
    /// The type in which a key or value is shown to the program, and in which a key is looked up: a `str` for
    /// a `P<str>`, a `[T]` for a `P<[T]>`, and the type itself for a plain one.
    type Shown: ?Sized;

    /// This type without a brand, for [`Snapshot`](super::Snapshot).
    type Unbranded: Persist<At<'r> = Self>;

    #[doc(hidden)]
    fn freeze(tx: &Txn<'r>, shown: &Self::Shown) -> Result<Self>;

    #[doc(hidden)]
    fn shown<'v>(&'v self, view: &'v View<'r>) -> &'v Self::Shown;
}

mod sealed {
    use super::{P, Plain};

    pub trait Sealed {}

    impl<T: Plain + Copy + Send + Sync> Sealed for T {}
    impl Sealed for P<'_, str> {}
    impl<T: Plain + Copy + Send + Sync> Sealed for P<'_, [T]> {}
}

impl<'r, T: Plain + Copy + Send + Sync + 'r> Frozen<'r> for T {
    type Shown = T;
    type Unbranded = T;

    #[inline(always)]
    fn freeze(_: &Txn<'r>, shown: &T) -> Result<T> {
        Ok(*shown)
    }

    #[inline(always)]
    fn shown<'v>(&'v self, _: &'v View<'r>) -> &'v T {
        self
    }
}

impl<'r> Frozen<'r> for P<'r, str> {
    type Shown = str;
    type Unbranded = P<'static, str>;

    fn freeze(tx: &Txn<'r>, shown: &str) -> Result<Self> {
        tx.alloc_str(shown)
    }

    #[inline(always)]
    fn shown<'v>(&'v self, view: &'v View<'r>) -> &'v str {
        &view[*self]
    }
}

impl<'r, T: Plain + Copy + Send + Sync + 'r> Frozen<'r> for P<'r, [T]> {
    type Shown = [T];
    type Unbranded = P<'static, [T]>;

    fn freeze(tx: &Txn<'r>, shown: &[T]) -> Result<Self> {
        tx.alloc_slice_copy(shown)
    }

    #[inline(always)]
    fn shown<'v>(&'v self, view: &'v View<'r>) -> &'v [T] {
        &view[*self]
    }
}
