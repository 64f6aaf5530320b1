//! Keys whose borrowed form is bytes or a text. All of these except `SharedStr` own the bytes.

#![allow(unsafe_code)]

use std::cmp::Ordering;

use super::{HashKey, InlineBytes, KeyHasher, MapKey, OrdKey, SharedStr};
use crate::api::tx::Txn;
use crate::api::view::View;
use crate::collections::buffer;
use crate::collections::bytes::PBytes;
use crate::collections::string::PString;
use crate::error::Result;
use crate::ptr::P;

/// Returns the first 8 bytes as a big-endian number, as if zeros followed fewer than 8 bytes. Lesser bytes
/// never have a greater number.
#[inline(always)]
pub(super) fn prefix_of_bytes(bytes: &[u8]) -> u64 {
    if let Some(first) = bytes.first_chunk() {
        return u64::from_be_bytes(*first);
    }
    let mut first = [0; 8];
    first[..bytes.len()].copy_from_slice(bytes);
    u64::from_be_bytes(first)
}

/// Compares two sequences of bytes, whose first `known` bytes are equal. Also returns the length of their
/// longest common prefix.
#[inline(always)]
fn compare_bytes(one: &[u8], other: &[u8], known: usize) -> (Ordering, usize) {
    let word = |bytes: &[u8]| Some(u64::from_be_bytes(*bytes.get(known..)?.first_chunk()?));
    match (word(one), word(other)) {
        (Some(a), Some(b)) if a != b => (a.cmp(&b), known + (a ^ b).leading_zeros() as usize / 8),
        _ => compare_more(one, other, known),
    }
}

/// Like [`compare_bytes`], for the case that the 8 bytes after the first `known` are equal, too, or one
/// sequence has fewer.
#[inline(never)]
fn compare_more(one: &[u8], other: &[u8], known: usize) -> (Ordering, usize) {
    let len = one.len().min(other.len());
    let piece = |bytes: &[u8], at| bytes.get(at..)?.first_chunk::<32>().copied();
    let mut at = known;
    while let Some(piece_of_one) = piece(one, at)
        && piece(other, at) == Some(piece_of_one)
    {
        at += 32;
    }
    while at < len {
        // The last 8 bytes may include some that are known to be equal. These do not change the result.
        let from = at.min(len.saturating_sub(8));
        let (a, b) = (prefix_of_bytes(&one[from..len]), prefix_of_bytes(&other[from..len]));
        if a != b {
            return (a.cmp(&b), from + (a ^ b).leading_zeros() as usize / 8);
        }
        at = from + 8;
    }
    (one.len().cmp(&other.len()), len)
}

/// Implements the traits of keys for types whose borrowed form is bytes or a text.
macro_rules! by_bytes {
    ($(
        $key:ty: $target:ty, |$this:ident, $view:ident| $shown:expr, |$query:ident| $bytes:expr,
        |$tx:ident| $make:expr, $give_up:expr;
    )*) => {$(
        // SAFETY: the query is memory that `from_query` has allocated for the key, or lies in the key; the
        // text of a `SharedStr` is never written.
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

            #[inline(always)]
            fn compare(one: &$target, other: &$target, known: usize) -> (Ordering, usize) {
                compare_bytes(one.as_ref(), other.as_ref(), known)
            }
        }
    )*};
}

by_bytes! {
    P<'r, str>: str, |this, view| &view[*this], |query| query.as_bytes(), |tx| tx.alloc_str(query),
        // SAFETY: `from_query` has allocated the text, and at the commit there is no pointer to it, by the
        // caller's premise.
        unsafe { buffer::free(tx, this) };
    P<'r, [u8]>: [u8], |this, view| &view[*this], |query| query, |tx| tx.alloc_slice_copy(query),
        // SAFETY: `from_query` has allocated the bytes, and at the commit there is no pointer to them, by the
        // caller's premise.
        unsafe { buffer::free(tx, this) };
    PBytes<'r>: [u8], |this, view| this.as_slice(view), |query| query, |tx| PBytes::from_slice(tx, query),
        this.free(tx);
    InlineBytes<'r>: [u8], |this, view| this.as_slice(view), |query| query,
        |tx| InlineBytes::from_slice(tx, query),
        this.free(tx);
    SharedStr<'r>: str, |this, view| this.as_str(view), |query| query.as_bytes(),
        |tx| SharedStr::new(tx, query),
        // A `SharedStr` frees nothing: other objects may point to the text.
        { let _ = this; };
    PString<'r>: str, |this, view| this.as_str(view), |query| query.as_bytes(),
        |tx| PString::from_str(tx, query),
        this.free_buffer(tx);
}
