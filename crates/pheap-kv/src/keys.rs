//! Stored keys. All key spaces share one range of stored keys; each key space has a distinct prefix.

use crate::{Error, Result};
use smallvec::SmallVec;
use std::ops::{Bound, RangeBounds};

/// Maximal length of a key, in bytes.
pub const MAX_KEY: usize = u16::MAX as usize;

/// Maximal length of a value, in bytes.
pub const MAX_VALUE: usize = 1 << 30;

/// A key with the prefix of its key space. Up to 64 bytes, it needs no allocation.
pub(crate) type StoredKey = SmallVec<[u8; 64]>;

/// A range of stored keys: its start and its end.
pub(crate) type KeySpan = (Bound<StoredKey>, Bound<StoredKey>);

/// The number of a key space. Encoded as a prefix, it begins the stored keys of the key space; small numbers
/// take one byte. While a store is open, no number is used twice, even if its key space is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpaceId(u64);

/// The prefix of a number below this value is one byte. Other prefixes begin with this byte or the next one,
/// and continue with two or eight bytes. So no prefix begins with another prefix, and the prefixes are in the
/// order of the numbers.
const LONG: u8 = 0xF0;
/// The first byte of the prefix of a number that has more than two bytes.
const LONGEST: u8 = LONG + 1;

impl SpaceId {
    /// The catalogue. Its keys are the names of the other key spaces, its values their numbers.
    pub(crate) const CATALOGUE: SpaceId = SpaceId(0);
    /// The default key space, which has no name. Key spaces with names have greater numbers.
    pub(crate) const DEFAULT: SpaceId = SpaceId(1);

    pub(crate) fn new(number: u64) -> SpaceId {
        SpaceId(number)
    }

    pub(crate) fn number(self) -> u64 {
        self.0
    }

    /// Encodes the number as a value of the catalogue: two or eight bytes, the most significant one first.
    pub(crate) fn to_value(self) -> Vec<u8> {
        match u16::try_from(self.0) {
            Ok(short) => short.to_be_bytes().to_vec(),
            Err(_) => self.0.to_be_bytes().to_vec(),
        }
    }

    /// Decodes [`to_value`](Self::to_value). Returns `None` if no key space with a name can have this value.
    pub(crate) fn from_value(value: &[u8]) -> Option<SpaceId> {
        let short = || Some(u64::from(u16::from_be_bytes(value.try_into().ok()?)));
        let long = || Some(u64::from_be_bytes(value.try_into().ok()?));
        // A forged file may contain the number of the catalogue or the default key space.
        short().or_else(long).filter(|&number| number > Self::DEFAULT.0).map(SpaceId)
    }

    /// Returns the key space of a stored key, or `None` if the key does not begin with a prefix.
    pub(crate) fn of(key: &[u8]) -> Option<SpaceId> {
        let (&first, rest) = key.split_first()?;
        match first {
            LONG => Some(u64::from(u16::from_be_bytes(*rest.first_chunk()?))),
            LONGEST => Some(u64::from_be_bytes(*rest.first_chunk()?)),
            short if short < LONG => Some(u64::from(short)),
            _ => None,
        }
        .map(SpaceId)
    }

    /// Returns the least stored key of the key space: its prefix.
    pub(crate) fn start(self) -> StoredKey {
        let mut start = StoredKey::new();
        match (u8::try_from(self.0), u16::try_from(self.0)) {
            (Ok(byte), _) if byte < LONG => start.push(byte),
            (_, Ok(short)) => {
                start.push(LONG);
                start.extend_from_slice(&short.to_be_bytes());
            }
            (_, Err(_)) => {
                start.push(LONGEST);
                start.extend_from_slice(&self.0.to_be_bytes());
            }
        }
        start
    }

    /// Returns the length of the prefix in bytes. The user's key follows it.
    pub(crate) fn prefix_len(self) -> usize {
        match self.0 {
            short if short < u64::from(LONG) => 1,
            long if long <= u64::from(u16::MAX) => 3,
            _ => 9,
        }
    }

    /// Returns the stored key of a user's key.
    pub(crate) fn key(self, key: &[u8]) -> Result<StoredKey> {
        if key.len() > MAX_KEY {
            return Err(Error::KeyTooLong { len: key.len() });
        }
        Ok(self.join(key))
    }

    fn join(self, key: &[u8]) -> StoredKey {
        let mut stored = self.start();
        stored.extend_from_slice(key);
        stored
    }

    /// Returns the span of stored keys for a range of keys of this key space.
    pub(crate) fn span<K: AsRef<[u8]> + ?Sized>(self, range: &impl RangeBounds<K>) -> KeySpan {
        let start = match range.start_bound() {
            Bound::Included(key) => Bound::Included(self.join(key.as_ref())),
            Bound::Excluded(key) => Bound::Excluded(self.join(key.as_ref())),
            Bound::Unbounded => Bound::Included(self.start()),
        };
        let end = match range.end_bound() {
            Bound::Included(key) => Bound::Included(self.join(key.as_ref())),
            Bound::Excluded(key) => Bound::Excluded(self.join(key.as_ref())),
            Bound::Unbounded => Bound::Excluded(behind(&self.start())),
        };
        (start, end)
    }

    /// Returns the stored keys of this key space whose user's keys begin with `prefix`.
    pub(crate) fn beginning_with(self, prefix: &[u8]) -> KeySpan {
        let start = self.join(prefix);
        let end = behind(&start);
        (Bound::Included(start), Bound::Excluded(end))
    }
}

/// Returns the least key that is greater than all keys in the key space of a stored key.
pub(crate) fn behind_space(key: &[u8]) -> StoredKey {
    let prefix_len = SpaceId::of(key).map_or(key.len(), SpaceId::prefix_len);
    behind(&key[..prefix_len])
}

/// Returns the least key that is greater than all keys that begin with `prefix`. Such a key exists, because
/// no key space's prefix begins with 0xFF.
fn behind(prefix: &[u8]) -> StoredKey {
    let kept = prefix.iter().rposition(|&byte| byte != u8::MAX).map_or(0, |last| last + 1);
    let mut key = StoredKey::from_slice(&prefix[..kept]);
    if let Some(last) = key.last_mut() {
        *last += 1;
    }
    key
}

/// Returns whether a span contains no key because it ends at its start, or before it.
pub(crate) fn is_empty((start, end): &KeySpan) -> bool {
    match (start, end) {
        (Bound::Included(start), Bound::Included(end)) => start > end,
        (Bound::Included(start) | Bound::Excluded(start), Bound::Included(end) | Bound::Excluded(end)) => {
            start >= end
        }
        _ => false,
    }
}

/// Returns a span that excludes every key.
pub(crate) fn nothing() -> KeySpan {
    (Bound::Excluded(StoredKey::new()), Bound::Excluded(StoredKey::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_are_ranges_that_do_not_overlap() {
        let numbers = [0, 1, 2, 0xEF, 0xF0, 0xF1, 0xFFFE, 0xFFFF, 0x1_0000, 0x1_0001, u64::MAX - 1, u64::MAX];
        for pair in numbers.windows(2) {
            let (one, two) = (SpaceId::new(pair[0]), SpaceId::new(pair[1]));
            assert!(behind(&one.start()) <= two.start(), "{pair:?}");
            assert!(one.key(&[0xFF; 9]).unwrap() < two.start(), "{pair:?}");
            let end = behind_space(&one.key(b"key").unwrap());
            assert!(one.key(&[0xFF; 9]).unwrap() < end && end <= two.start(), "{pair:?}");
            assert_eq!(SpaceId::of(&two.key(b"key").unwrap()), Some(two));
            assert_eq!(two.start().len(), two.prefix_len());
            let named = (two.number() > SpaceId::DEFAULT.number()).then_some(two);
            assert_eq!(SpaceId::from_value(&two.to_value()), named);
        }
    }

    #[test]
    fn behind_a_prefix_is_what_follows_all_that_begin_with_it() {
        assert_eq!(behind(&[1, 2]).as_slice(), [1, 3]);
        assert_eq!(behind(&[1, 0xFF, 0xFF]).as_slice(), [2]);
    }

    #[test]
    fn a_span_that_ends_before_it_starts_is_empty() {
        let id = SpaceId::DEFAULT;
        assert!(is_empty(&id.span::<[u8]>(&(Bound::Excluded(&b"a"[..]), Bound::Included(&b"a"[..])))));
        assert!(is_empty(&id.span(&(&b"b"[..]..&b"a"[..]))));
        assert!(!is_empty(&id.span(&(&b"a"[..]..=&b"a"[..]))));
        assert!(!is_empty(&id.span::<[u8]>(&(..))));
    }

    #[test]
    fn long_keys_are_refused() {
        assert!(SpaceId::DEFAULT.key(&vec![0; MAX_KEY]).is_ok());
        assert!(
            matches!(SpaceId::DEFAULT.key(&vec![0; MAX_KEY + 1]), Err(Error::KeyTooLong { len }) if len == MAX_KEY + 1)
        );
    }
}
