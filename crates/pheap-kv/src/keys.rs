//! Keys as they are stored: all key spaces are one range of keys, each with a prefix of its own.

use crate::{Error, Result};
use smallvec::SmallVec;
use std::ops::{Bound, RangeBounds};

/// Bytes that a key has at most.
pub const MAX_KEY: usize = u16::MAX as usize;

/// Bytes that a value has at most.
pub const MAX_VALUE: usize = 1 << 30;

/// Key spaces that a store has at most, besides the default one.
pub const MAX_SPACES: usize = (u16::MAX - SpaceId::FIRST) as usize + 1;

/// A key with the prefix of its key space; short ones are on the stack.
pub(crate) type StoredKey = SmallVec<[u8; 64]>;

/// Both ends of a range of stored keys.
pub(crate) type Span = (Bound<StoredKey>, Bound<StoredKey>);

/// Number of a key space, as the prefix of its keys: one byte, if there are few of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpaceId(u16);

/// Numbers below this are a byte; others are this byte and two more. So no prefix begins with another one.
const LONG: u8 = 0xF0;

impl SpaceId {
    /// The names of the others, and their numbers.
    pub(crate) const CATALOGUE: SpaceId = SpaceId(0);
    /// Without a name.
    pub(crate) const DEFAULT: SpaceId = SpaceId(1);
    /// The first with a name.
    pub(crate) const FIRST: u16 = 2;

    pub(crate) fn new(number: u16) -> SpaceId {
        SpaceId(number)
    }

    pub(crate) fn number(self) -> u16 {
        self.0
    }

    /// The least key of the space.
    pub(crate) fn start(self) -> StoredKey {
        let mut start = StoredKey::new();
        match u8::try_from(self.0) {
            Ok(byte) if byte < LONG => start.push(byte),
            _ => {
                start.push(LONG);
                start.extend_from_slice(&self.0.to_be_bytes());
            }
        }
        start
    }

    /// How many bytes stand before the user's key.
    pub(crate) fn prefix_len(self) -> usize {
        if self.0 < u16::from(LONG) { 1 } else { 3 }
    }

    /// A key of this space.
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

    /// The keys of this space that are in a range.
    pub(crate) fn span<K: AsRef<[u8]> + ?Sized>(self, range: &impl RangeBounds<K>) -> Span {
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

    /// The keys of this space that begin with these bytes.
    pub(crate) fn beginning_with(self, prefix: &[u8]) -> Span {
        let start = self.join(prefix);
        let end = behind(&start);
        (Bound::Included(start), Bound::Excluded(end))
    }
}

/// The least key that is greater than all of the key space that a stored key is in.
pub(crate) fn behind_space(key: &[u8]) -> StoredKey {
    let prefix_len = if key.first() == Some(&LONG) { 3 } else { 1 };
    behind(&key[..prefix_len.min(key.len())])
}

/// The least key that is greater than all that begin with `prefix`. (No key space begins with 0xFF, so there is one.)
fn behind(prefix: &[u8]) -> StoredKey {
    let kept = prefix.iter().rposition(|&byte| byte != u8::MAX).map_or(0, |last| last + 1);
    let mut key = StoredKey::from_slice(&prefix[..kept]);
    if let Some(last) = key.last_mut() {
        *last += 1;
    }
    key
}

/// Whether a span has no keys, whatever the store has.
pub(crate) fn is_empty((start, end): &Span) -> bool {
    match (start, end) {
        (Bound::Included(start), Bound::Included(end)) => start > end,
        (Bound::Included(start) | Bound::Excluded(start), Bound::Included(end) | Bound::Excluded(end)) => {
            start >= end
        }
        _ => false,
    }
}

/// A span without keys.
pub(crate) fn nothing() -> Span {
    (Bound::Excluded(StoredKey::new()), Bound::Excluded(StoredKey::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_are_ranges_that_do_not_overlap() {
        let numbers = [0, 1, 2, 0xEF, 0xF0, 0xF1, 0xFFFE, 0xFFFF];
        for pair in numbers.windows(2) {
            let (one, two) = (SpaceId::new(pair[0]), SpaceId::new(pair[1]));
            assert!(behind(&one.start()) <= two.start(), "{pair:?}");
            assert!(one.key(&[0xFF; 9]).unwrap() < two.start(), "{pair:?}");
            let end = behind_space(&one.key(b"key").unwrap());
            assert!(one.key(&[0xFF; 9]).unwrap() < end && end <= two.start(), "{pair:?}");
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
