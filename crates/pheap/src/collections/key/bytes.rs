//! Keys that are looked up by bytes, or a text, that they own.

#![allow(unsafe_code)]

use super::{HashKey, InlineBytes, KeyHasher, MapKey, OrdKey, SharedStr};
use crate::api::tx::Txn;
use crate::api::view::View;
use crate::collections::buffer;
use crate::collections::bytes::PBytes;
use crate::collections::string::PString;
use crate::error::Result;
use crate::ptr::P;

/// The first 8 bytes as a number that orders as they do.
#[inline(always)]
pub(super) fn prefix_of_bytes(bytes: &[u8]) -> u64 {
    if let Some(first) = bytes.first_chunk() {
        return u64::from_be_bytes(*first);
    }
    let mut first = [0; 8];
    first[..bytes.len()].copy_from_slice(bytes);
    u64::from_be_bytes(first)
}

/// Types that are looked up by bytes that they own.
macro_rules! by_bytes {
    ($($key:ty: $target:ty, |$this:ident, $view:ident| $shown:expr, |$query:ident| $bytes:expr, |$tx:ident| $make:expr, $give_up:expr;)*) => {$(
        // SAFETY: the query is what `from_query` has allocated, or lies in the key; of a `SharedStr` it is where nobody writes.
        unsafe impl<'r> MapKey<'r> for $key {
            type Query = $target;

            #[inline(always)]
            fn query<'v>(&'v self, $view: &'v View<'r>) -> &'v $target {
                let $this = self;
                $shown
            }

            fn from_query($tx: &Txn<'r>, $query: &$target) -> Result<Self> {
                $make
            }

            unsafe fn give_up(self, $tx: &Txn<'r>) {
                let ($this, _) = (self, $tx);
                $give_up;
            }
        }

        impl<'r> HashKey<'r> for $key {
            #[inline(always)]
            fn hash($query: &$target, hasher: &mut KeyHasher) {
                hasher.write($bytes);
            }
        }

        impl<'r> OrdKey<'r> for $key {
            #[inline(always)]
            fn prefix($query: &$target) -> u64 {
                prefix_of_bytes($bytes)
            }
        }
    )*};
}

by_bytes! {
    P<'r, str>: str, |this, view| &view[*this], |query| query.as_bytes(), |tx| tx.alloc_str(query),
        // SAFETY: allocated by `from_query`, and nothing will point to it, as the caller promises.
        unsafe { buffer::free(tx, this) };
    P<'r, [u8]>: [u8], |this, view| &view[*this], |query| query, |tx| tx.alloc_slice_copy(query),
        // SAFETY: allocated by `from_query`, and nothing will point to it, as the caller promises.
        unsafe { buffer::free(tx, this) };
    PBytes<'r>: [u8], |this, view| this.as_slice(view), |query| query, |tx| PBytes::from_slice(tx, query),
        this.free(tx);
    InlineBytes<'r>: [u8], |this, view| this.as_slice(view), |query| query, |tx| InlineBytes::from_slice(tx, query),
        this.free(tx);
    SharedStr<'r>: str, |this, view| this.as_str(view), |query| query.as_bytes(), |tx| SharedStr::new(tx, query),
        // Others may have it.
        { let _ = this; };
    PString<'r>: str, |this, view| this.as_str(view), |query| query.as_bytes(), |tx| PString::from_str(tx, query),
        this.give_up(tx);
}
