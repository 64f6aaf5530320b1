//! `KeyArg`: the arguments that the methods of a map accept for a key.

#![allow(unsafe_code)]

use std::borrow::Borrow;
use std::ops::Deref;

use super::{MapKey, SharedStr};
use crate::api::tx::Txn;
use crate::api::view::View;
use crate::error::Result;
use crate::ptr::P;

/// A value that can be passed for a key of type `K`:
///
/// * a reference to its [borrowed form](MapKey::Query), or to a type that borrows as that: `&str`, `&String`
///   for `P<str>`; `&[u8]`, `&Vec<u8>` for `P<[u8]>`; `&5` for a `u64`;
/// * by value, a key that is its own borrowed form: `5` for a `u64`, a type with `#[persist(key)]`;
/// * for a text key, a `P<str>` or a [`SharedStr`]; for a bytes key, a `P<[u8]>`.
///
/// ```
/// # use pheap::{Heap, P, PBTreeMap, PHashSet, Persist, Root, SharedStr, field};
/// #[derive(Persist, Default)]
/// #[repr(C)]
/// struct Jobs<'r> {
///     by_number: PBTreeMap<'r, u64, SharedStr<'r>>,
///     names: PHashSet<'r, SharedStr<'r>>,
/// }
///
/// # fn main() -> pheap::Result<()> {
/// # let heap = Heap::in_memory()?;
/// let jobs: Root<Jobs> = heap.root("jobs")?;
/// jobs.txn(|tx, jobs| {
///     let name = SharedStr::new(tx, "sweep")?;
///     field!(jobs.by_number).insert(tx, 7, name)?;
///     field!(jobs.names).insert(tx, name)?; // shares the text
///     let name = *jobs_name(tx, jobs, 7).expect("was inserted");
///     assert!(field!(jobs.names).remove(tx, name));
///     assert!(!field!(jobs.names).remove(tx, "sweep"));
///     Ok(())
/// })?;
///
/// fn jobs_name<'v, 'r>(tx: &'v pheap::Txn<'r>, jobs: P<'r, Jobs<'r>>, number: u64) -> Option<&'v SharedStr<'r>> {
///     tx[jobs].by_number.get(tx, number)
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Safety
/// [`to_key`](Self::to_key) returns a key as [`MapKey::from_query`] does, and no other code has it; or a key
/// that owns nothing.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be looked up in a map whose keys are `{K}`",
    label = "neither a key nor a reference to the type that keys are looked up by",
    note = "a reference to a reference has to be dereferenced: `*key`",
    note = "a key that is a text is passed as `&str`, one of bytes as `&[u8]`, and a number or a type with `#[persist(key)]` as itself or by reference"
)]
pub unsafe trait KeyArg<'r, K: MapKey<'r>> {
    /// The type in which [`apart`](Self::apart) returns the borrowed form. It does not borrow the
    /// transaction, so it stays valid while the map is changed.
    #[doc(hidden)]
    type Apart: Deref<Target = K::Query>;

    /// Returns the key's borrowed form, which borrows the view.
    #[doc(hidden)]
    fn seen<'v>(&'v self, view: &'v View<'r>) -> &'v K::Query;

    #[doc(hidden)]
    fn apart(&self, view: &View<'r>) -> Self::Apart;

    /// Makes the key for the map. `query` is the key's borrowed form, with which the map was searched. The
    /// argument is not borrowed again, because its `Borrow` may be the program's code, and return another
    /// value.
    #[doc(hidden)]
    #[inline(always)]
    fn to_key(&self, tx: &Txn<'r>, query: &K::Query) -> Result<K> {
        K::from_query(tx, query)
    }
}

#[diagnostic::do_not_recommend] // so that the compiler shows the message of `KeyArg`
// SAFETY: the key is made by `from_query`.
unsafe impl<'q, 'r, K, Q> KeyArg<'r, K> for &'q Q
where
    K: MapKey<'r, Query: 'q>,
    Q: Borrow<K::Query> + ?Sized,
{
    type Apart = &'q K::Query;

    #[inline(always)]
    fn seen<'v>(&'v self, _: &'v View<'r>) -> &'v K::Query {
        (**self).borrow()
    }

    #[inline(always)]
    fn apart(&self, _: &View<'r>) -> &'q K::Query {
        (**self).borrow()
    }
}

/// A key that is its own borrowed form, passed by value.
#[derive(Debug, Clone, Copy)]
pub struct ByValue<K>(pub K);

impl<K> Deref for ByValue<K> {
    type Target = K;

    #[inline(always)]
    fn deref(&self) -> &K {
        &self.0
    }
}

/// Implements `KeyArg` for a key type that is its own borrowed form, and `Copy`.
#[doc(hidden)]
#[macro_export]
macro_rules! __key_by_value {
    ([$($param:tt)*] $ty:ty) => {
        $crate::__persist_header!([<'r $($param)*>] []);

        // SAFETY: the key is made by `from_query`.
        unsafe impl<'r $($param)*> $crate::collections::KeyArg<'r, Self> for $ty {
            type Apart = $crate::collections::ByValue<Self>;

            #[inline(always)]
            fn seen<'v>(&'v self, _: &'v $crate::View<'r>) -> &'v Self {
                self
            }

            #[inline(always)]
            fn apart(&self, _: &$crate::View<'r>) -> $crate::collections::ByValue<Self> {
                $crate::collections::ByValue(*self)
            }
        }
    };
}
pub(super) use crate::__key_by_value as by_value;

/// Implements `KeyArg` for pointers to texts and bytes in the heap: arguments for keys whose borrowed form is
/// a text or bytes. `apart` copies these, because a reference to them would borrow the transaction, which the
/// change of the map needs.
macro_rules! in_the_heap {
    ($($ty:ty: $query:ty, |$this:ident, $view:ident| $seen:expr;)*) => {$(
        // SAFETY: the key is made by `from_query`.
        unsafe impl<'r, K: MapKey<'r, Query = $query>> KeyArg<'r, K> for $ty {
            type Apart = Box<$query>;

            #[inline(always)]
            fn seen<'v>(&'v self, $view: &'v View<'r>) -> &'v $query {
                let $this = self;
                $seen
            }

            fn apart(&self, view: &View<'r>) -> Box<$query> {
                KeyArg::<K>::seen(self, view).into()
            }
        }
    )*};
}

in_the_heap! {
    P<'r, str>: str, |this, view| &view[*this];
    P<'r, [u8]>: [u8], |this, view| &view[*this];
}

/// Implements `KeyArg` for `SharedStr`. A map whose key type is `SharedStr` shares the text; for other key
/// types, a key is made from a copy of the text.
///
/// There is an impl for each key type, because one impl could not decide by the key type whether to share.
macro_rules! shared {
    ($($key:ty: |$this:ident, $tx:ident, $query:ident| $own:expr;)*) => {$(
        // SAFETY: a `SharedStr` owns nothing, and the other keys are made as `from_query` makes them.
        unsafe impl<'r> KeyArg<'r, $key> for SharedStr<'r> {
            type Apart = Box<str>;

            #[inline(always)]
            fn seen<'v>(&'v self, view: &'v View<'r>) -> &'v str {
                self.as_str(view)
            }

            fn apart(&self, view: &View<'r>) -> Box<str> {
                self.as_str(view).into()
            }

            #[inline]
            fn to_key(&self, $tx: &Txn<'r>, $query: &str) -> Result<$key> {
                let $this = self;
                $own
            }
        }
    )*};
}

shared! {
    SharedStr<'r>: |this, _tx, _query| Ok(*this);
    P<'r, str>: |_this, tx, query| tx.alloc_str(query);
    crate::PString<'r>: |_this, tx, query| crate::PString::from_str(tx, query);
}
