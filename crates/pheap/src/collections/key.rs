//! What can be a key of a map: compared, hashed and looked up by what it stands for.

#![allow(unsafe_code)]

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use super::buffer;
use super::string::PString;
use crate::api::tx::Txn;
use crate::api::view::View;
use crate::error::Result;
use crate::layout::Persist;
use crate::layout::desc::Desc;
use crate::ptr::P;

/// A key of a map, or an element of a set.
///
/// Maps take keys in their *borrowed form*, and make owned ones: `words.insert(tx, "one", 1)` allocates a string only if
/// the key is new. Numbers, `bool`, `char` and `[u8; N]` are looked up by themselves, `P<str>` by a `str`, `P<[u8]>` by a `[u8]`. A type of your own that is
/// `Copy` and `Ord` becomes a key by `#[persist(key)]`.
///
/// # Safety
/// What [`query`](MapKey::query) returns lies in the key itself, or in what [`from_query`](MapKey::from_query) has allocated for it and nothing else
/// points to: maps let the query of one entry live beside a `&mut` to its value.
pub unsafe trait MapKey<'r>: Persist<At<'r> = Self> + 'r {
    /// The borrowed form, by which the key is looked up.
    type Query: ?Sized;

    /// This key in its borrowed form.
    fn query<'v>(&'v self, view: &'v View<'r>) -> &'v Self::Query;

    /// A new key.
    ///
    /// # Errors
    /// As for [`Txn::alloc`].
    fn from_query(tx: &Txn<'r>, query: &Self::Query) -> Result<Self>;

    /// Frees what [`from_query`](Self::from_query) has allocated, when the transaction commits.
    ///
    /// # Safety
    /// The key was made by `from_query`, was never shown to anyone, and nothing will point to it.
    #[doc(hidden)]
    unsafe fn give_up(self, tx: &Txn<'r>) {
        let _ = tx;
    }
}

/// A key of a hash map.
pub trait HashKey<'r>: MapKey<'r, Query: Eq> {
    /// Feeds the key to a hasher. Equal keys must feed it equally, in all builds and on all machines, because hashes are stored.
    fn hash(query: &Self::Query, hasher: &mut KeyHasher);
}

/// A key of an ordered map.
pub trait OrdKey<'r>: MapKey<'r, Query: Ord> {
    /// Whether keys of one prefix are equal.
    const EXACT: bool = false;

    /// A number that is consistent with the order of keys: of two keys, the lesser one does not have the greater prefix. It is stored beside the
    /// key, so most comparisons need not read the key itself.
    fn prefix(query: &Self::Query) -> u64 {
        let _ = query;
        0
    }
}

/// Hashes keys: SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012), with a secret of the heap, so that nobody can prepare
/// keys that collide.
#[derive(Clone, Copy)]
pub struct KeyHasher(SipHasher13);

impl std::fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyHasher").finish_non_exhaustive()
    }
}

impl KeyHasher {
    #[inline(always)]
    pub(crate) fn new(secret: [u64; 2]) -> KeyHasher {
        KeyHasher(SipHasher13::new_with_keys(secret[0], secret[1]))
    }

    /// Adds bytes. It does not add their number: do that first if it varies and more follows.
    #[inline(always)]
    pub fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    #[inline(always)]
    pub(crate) fn finish(self) -> u64 {
        self.0.finish()
    }
}

/// A key that a collection has made by [`MapKey::from_query`], and of which nobody has seen more than what it is looked up by. In a file it is the key itself.
#[repr(transparent)]
pub(crate) struct OwnKey<K>(K);

// SAFETY: described as what it is, a `K`, whose layout it has.
unsafe impl<K: Persist> Persist for OwnKey<K> {
    type At<'r> = OwnKey<K::At<'r>>;
    const PADDED: bool = K::PADDED;
    const POINTERS: bool = K::POINTERS;

    fn desc() -> &'static Desc {
        K::desc()
    }

    unsafe fn zero_padding(this: *mut Self) {
        // SAFETY: a value, as the caller promises, and one of a `K`.
        unsafe { K::zero_padding(this.cast()) };
    }
}

impl<'r, K: MapKey<'r>> OwnKey<K> {
    #[inline(always)]
    pub(super) fn new(tx: &Txn<'r>, query: &K::Query) -> Result<Self> {
        K::from_query(tx, query).map(OwnKey)
    }

    /// What it is looked up by.
    #[inline(always)]
    pub(super) fn query<'v>(&'v self, view: &'v View<'r>) -> &'v K::Query {
        self.0.query(view)
    }

    /// Frees what was allocated for it, when the transaction commits.
    #[inline(always)]
    pub(super) fn give_up(self, tx: &Txn<'r>) {
        // SAFETY: made by `from_query` and shown to nobody, for that is what this type says; it is moved and never copied, so nothing points to what it owns.
        unsafe { self.0.give_up(tx) };
    }

    /// The key, which belongs to someone else from now on.
    #[inline(always)]
    pub(super) fn into_inner(self) -> K {
        self.0
    }
}

/// The first 8 bytes as a number that orders as they do.
#[inline(always)]
fn prefix_of_bytes(bytes: &[u8]) -> u64 {
    if let Some(first) = bytes.first_chunk() {
        return u64::from_be_bytes(*first);
    }
    let mut first = [0; 8];
    first[..bytes.len()].copy_from_slice(bytes);
    u64::from_be_bytes(first)
}

/// A key that is looked up by itself. `$look` is called whenever it is looked at or made.
macro_rules! key_by_itself {
    ([$($param:tt)*] $ty:ty, || $look:expr) => {
        // SAFETY: the query is the key.
        #[allow(unsafe_code)]
        unsafe impl<'r $($param)*> MapKey<'r> for $ty {
            type Query = $ty;

            #[inline(always)]
            fn query<'v>(&'v self, _: &'v View<'r>) -> &'v $ty {
                $look;
                self
            }

            #[inline(always)]
            fn from_query(_: &Txn<'r>, query: &$ty) -> Result<$ty> {
                $look;
                Ok(*query)
            }
        }
    };
}
#[cfg(test)]
pub(super) use key_by_itself;

/// Types that are looked up by themselves.
macro_rules! by_itself {
    ($($(@ $param:ident)? $ty:ty: $exact:expr, |$value:ident, $hasher:ident| $hash:expr, $prefix:expr;)*) => {$(
        key_by_itself!([$(, const $param: usize)?] $ty, || ());

        impl<'r $(, const $param: usize)?> HashKey<'r> for $ty {
            #[inline(always)]
            fn hash($value: &$ty, $hasher: &mut KeyHasher) {
                $hash
            }
        }

        impl<'r $(, const $param: usize)?> OrdKey<'r> for $ty {
            const EXACT: bool = $exact;

            #[inline(always)]
            fn prefix($value: &$ty) -> u64 {
                $prefix
            }
        }
    )*};
}

by_itself! {
    u8: true, |x, hasher| hasher.write(&[*x]), (*x).into();
    u16: true, |x, hasher| hasher.write(&x.to_le_bytes()), (*x).into();
    u32: true, |x, hasher| hasher.write(&x.to_le_bytes()), (*x).into();
    u64: true, |x, hasher| hasher.write(&x.to_le_bytes()), *x;
    u128: false, |x, hasher| hasher.write(&x.to_le_bytes()), (*x >> 64) as u64;
    i8: true, |x, hasher| hasher.write(&x.to_le_bytes()), i64::from(*x) as u64 ^ 1 << 63;
    i16: true, |x, hasher| hasher.write(&x.to_le_bytes()), i64::from(*x) as u64 ^ 1 << 63;
    i32: true, |x, hasher| hasher.write(&x.to_le_bytes()), i64::from(*x) as u64 ^ 1 << 63;
    i64: true, |x, hasher| hasher.write(&x.to_le_bytes()), *x as u64 ^ 1 << 63;
    i128: false, |x, hasher| hasher.write(&x.to_le_bytes()), (*x >> 64) as u64 ^ 1 << 63;
    bool: true, |x, hasher| hasher.write(&[u8::from(*x)]), (*x).into();
    char: true, |x, hasher| hasher.write(&u32::from(*x).to_le_bytes()), u32::from(*x).into();
    @N [u8; N]: N <= 8, |bytes, hasher| hasher.write(bytes), prefix_of_bytes(bytes);
}

/// Types that are looked up by bytes that they own.
macro_rules! by_bytes {
    ($($key:ty: $target:ty, |$this:ident, $view:ident| $shown:expr, |$query:ident| $bytes:expr, |$tx:ident| $make:expr, $give_up:expr;)*) => {$(
        // SAFETY: the query is what `from_query` has allocated.
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
                let $this = self;
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
    PString<'r>: str, |this, view| this.as_str(view), |query| query.as_bytes(), |tx| PString::from_str(tx, query),
        this.give_up(tx);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash<'r, K: HashKey<'r>>(query: &K::Query, secret: [u64; 2]) -> u64 {
        let mut hasher = KeyHasher::new(secret);
        K::hash(query, &mut hasher);
        hasher.finish()
    }

    /// Hashes are stored: no build, machine or version may compute others.
    #[test]
    fn hashes_never_change() {
        let secret = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        assert_eq!(hash::<u64>(&0, secret), hash::<[u8; 8]>(&[0; 8], secret));
        assert_eq!(
            hash::<P<'_, str>>("persistent heap", secret),
            hash::<P<'_, [u8]>>(b"persistent heap", secret)
        );
        assert_ne!(hash::<u64>(&1, secret), hash::<u64>(&1, [1, 2]));
        let golden =
            [hash::<u64>(&42, secret), hash::<P<'_, str>>("persistent heap", secret), hash::<u8>(&7, secret)];
        assert_eq!(golden, [3_286_221_635_152_155_851, 279_554_736_861_044_267, 16_787_501_820_558_997_111]);
    }

    #[test]
    fn prefixes_order_as_keys() {
        let strings = ["", "\0", "a", "a\0", "ab", "abcdefgh", "abcdefghi", "b"];
        assert!(strings.windows(2).all(|w| P::<str>::prefix(w[0]) <= P::<str>::prefix(w[1])));
        let numbers = [i64::MIN, -5, 0, 5, i64::MAX];
        assert!(numbers.windows(2).all(|w| i64::prefix(&w[0]) < i64::prefix(&w[1])));
        let numbers = [i8::MIN, -5, 0, 5, i8::MAX];
        assert!(numbers.windows(2).all(|w| i8::prefix(&w[0]) < i8::prefix(&w[1])));
        let numbers = [i128::MIN, -5 << 64, 0, 5 << 64, i128::MAX];
        assert!(numbers.windows(2).all(|w| i128::prefix(&w[0]) < i128::prefix(&w[1])));
    }
}
