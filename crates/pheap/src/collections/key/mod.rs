//! The types of keys of maps, and how they are compared, hashed and looked up.

#![allow(unsafe_code)]

mod argument;
mod bytes;
mod inline;
mod itself;
mod shared;

use std::cmp::Ordering;
use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::api::tx::Txn;
use crate::api::view::View;
use crate::error::Result;
use crate::heap::check::rule::{OwnType, TypePromise};
use crate::layout::Persist;
use crate::layout::desc::Desc;

pub use argument::{ByValue, KeyArg};
pub use inline::InlineBytes;
#[cfg(test)]
pub(super) use itself::key_by_itself;
pub use shared::SharedStr;

/// Entries for the lists of [`own_types`](super::own_types): the types of this module, each with the promise
/// that [`check`](crate::Heap::check) verifies.
pub(super) const OWN_TYPES: &[OwnType] = &[
    OwnType::for_type::<SharedStr<'static>>(TypePromise::Frozen),
    OwnType::for_type::<InlineBytes<'static>>(TypePromise::Nothing),
    OwnType::for_type::<inline::Form<'static>>(TypePromise::Nothing),
];

/// A key of a map, or an element of a set.
///
/// Maps take keys in their *borrowed form*, and make owned ones: with keys of the type `P<str>`,
/// `words.insert(tx, "one", 1)` allocates a string only if the key is new. Numbers, `bool`, `char`,
/// `[u8; N]`, and types that consist of them (`PTuple2`, `POption`, `Reverse`, `NonZero`, `PSystemTime` and
/// so on) are their own borrowed form. The borrowed form of `P<str>`, `PString` and [`SharedStr`] is a `str`.
/// That of `P<[u8]>`, `PBytes` and [`InlineBytes`] (which keeps short keys in the node of the map) is a
/// `[u8]`. A program's type that is `Copy`, `Eq` and `Ord`, and consists of such keys, becomes a key by
/// `#[persist(key)]`. [`KeyArg`] lists the other arguments that are accepted for a key.
///
/// # Safety
/// The memory that [`query`](MapKey::query) returns lies in the key itself; or
/// [`from_query`](MapKey::from_query) has allocated it for the key, and no other object points to it; or it
/// is never written. Maps rely on that: the query of an entry may exist at the same time as a `&mut` to its
/// value.
pub unsafe trait MapKey<'r>: Persist<At<'r> = Self> + 'r {
    /// The borrowed form, by which the key is looked up.
    type Query: ?Sized;

    /// Returns this key in its borrowed form.
    fn query<'v>(&'v self, view: &'v View<'r>) -> &'v Self::Query;

    /// Makes a key from its borrowed form. Allocates the memory that the key owns, if any.
    ///
    /// # Errors
    /// As for [`Txn::alloc_slice`].
    fn from_query(tx: &Txn<'r>, query: &Self::Query) -> Result<Self>;

    /// Frees the memory that the key owns, if any, when the transaction commits.
    ///
    /// # Safety
    /// `from_query` has made the key, the program has never had it, and at the commit there is no pointer to
    /// its memory; or the key owns nothing.
    #[doc(hidden)]
    unsafe fn give_up(self, tx: &Txn<'r>) {
        let _ = tx;
    }
}

/// A key of a hash map.
pub trait HashKey<'r>: MapKey<'r, Query: Eq> {
    /// Feeds the key to a hasher. Equal keys must feed it equally, in all builds and on all machines, because
    /// hashes are stored.
    fn hash(query: &Self::Query, hasher: &mut KeyHasher);
}

/// A key of an ordered map.
pub trait OrdKey<'r>: MapKey<'r, Query: Ord> {
    /// Whether two keys with the same [`prefix`](Self::prefix) are equal.
    const EXACT: bool = false;

    /// Returns a number that is consistent with the order of keys: a lesser key never has a greater prefix. A
    /// [`PBTreeMap`](crate::PBTreeMap) stores codes that are made from prefixes, and compares the codes
    /// first. So many comparisons need not read the key itself.
    fn prefix(query: &Self::Query) -> u64 {
        let _ = query;
        0
    }

    /// Compares two keys, whose first `known` bytes are equal. Also returns a number of first bytes that are
    /// equal in both, and with which all keys between the two begin; 0 for keys that are not ordered by their
    /// bytes.
    #[doc(hidden)]
    #[inline(always)]
    fn compare(one: &Self::Query, other: &Self::Query, known: usize) -> (Ordering, usize) {
        let _ = known;
        (one.cmp(other), 0)
    }
}

/// Hashes keys: SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012), with a secret
/// of the heap, so that an attacker cannot prepare keys that collide.
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

    /// Adds bytes to the hash. Their number is not part of the hash: if it varies and more data follow, add
    /// the number first.
    #[inline(always)]
    pub fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    #[inline(always)]
    pub(crate) fn finish(self) -> u64 {
        self.0.finish()
    }
}

/// A key that a collection has made, by [`MapKey::from_query`] or [`KeyArg::to_key`]. If the key owns memory,
/// only its borrowed form has been shown to the program. In a file, an `OwnKey` has the layout and the type
/// of the key.
#[repr(transparent)]
pub(crate) struct OwnKey<K>(K);

// SAFETY: an `OwnKey` is described as a `K`, whose layout it has.
unsafe impl<K: Persist> Persist for OwnKey<K> {
    type At<'r> = OwnKey<K::At<'r>>;
    const PADDED: bool = K::PADDED;
    const POINTERS: bool = K::POINTERS;

    fn desc() -> &'static Desc {
        K::desc()
    }

    unsafe fn zero_padding(this: *mut Self) {
        // SAFETY: `this` is a valid value, by the caller's premise, and an `OwnKey` is laid out as a `K`.
        unsafe { K::zero_padding(this.cast()) };
    }
}

impl<'r, K: MapKey<'r>> OwnKey<K> {
    #[inline(always)]
    pub(super) fn new(tx: &Txn<'r>, query: &K::Query) -> Result<Self> {
        K::from_query(tx, query).map(OwnKey)
    }

    /// Makes the collection's own key from an argument whose borrowed form is `query`.
    #[inline(always)]
    pub(super) fn from_argument(tx: &Txn<'r>, key: &impl KeyArg<'r, K>, query: &K::Query) -> Result<Self> {
        key.to_key(tx, query).map(OwnKey)
    }

    /// Returns the key's borrowed form.
    #[inline(always)]
    pub(super) fn query<'v>(&'v self, view: &'v View<'r>) -> &'v K::Query {
        self.0.query(view)
    }

    /// Frees the memory that the key owns, if any, when the transaction commits.
    #[inline(always)]
    pub(super) fn free_key(self, tx: &Txn<'r>) {
        // SAFETY: `from_query` has made the key, and the program has never had it, or the key owns nothing,
        // as this type guarantees. An `OwnKey` is moved and never copied, so there is no other pointer to
        // memory that the key owns.
        unsafe { self.0.give_up(tx) };
    }

    /// Returns the key. The program owns it from now on.
    #[inline(always)]
    pub(super) fn into_inner(self) -> K {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptr::P;

    fn hash<'r, K: HashKey<'r>>(query: &K::Query, secret: [u64; 2]) -> u64 {
        let mut hasher = KeyHasher::new(secret);
        K::hash(query, &mut hasher);
        hasher.finish()
    }

    /// Hashes are stored, so every build, machine and version must compute the same.
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
    fn keys_are_compared_behind_what_is_known_to_be_equal() {
        let beginnings = [0, 1, 7, 8, 9, 31, 32, 33, 40, 100].map(|len| "b".repeat(len));
        let ends = ["", "\0", "\0\0\0\0\0\0\0\0", "a", "b", "bc", "c", "abcdefg", "abcdefgh", "abcdefghi"];
        let keys = || beginnings.iter().flat_map(|beginning| ends.map(|end| format!("{beginning}{end}")));
        for one in keys() {
            for other in keys() {
                let equal = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
                for known in 0..=equal {
                    assert_eq!(P::<str>::compare(&one, &other, known), (one.cmp(&other), equal));
                }
            }
        }
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
