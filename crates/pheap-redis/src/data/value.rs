//! The value of a key.

use pheap::{P, PHashMap, PHashSet, PVec, PVecDeque, Persist, Txn, View};

use super::sorted::Sorted;
use super::streams::Stream;
use crate::text::words;

/// A string. Commands replace it, and do not change it in place.
pub type Str<'r> = P<'r, [u8]>;

/// A list of strings.
pub type List<'r> = PVecDeque<'r, Str<'r>>;

/// A hash: fields and their values.
pub type Hash<'r> = PHashMap<'r, Str<'r>, Str<'r>>;

/// A set of strings.
pub type Set<'r> = PHashSet<'r, Str<'r>>;

/// The value of a key. Commands keep no empty lists, hashes, sets and sorted sets: the command that removes
/// the last element removes the key.
#[derive(Persist, Clone, Copy, Debug)]
#[repr(u8)]
pub enum Value<'r> {
    /// A string that is the canonical decimal form of this number.
    Int(i64),
    /// A string.
    Bytes(Str<'r>),
    /// A string that commands change in place, in the middle or at its end.
    Buffer(P<'r, PVec<'r, u8>>),
    /// A list.
    List(P<'r, List<'r>>),
    /// A hash.
    Hash(P<'r, Hash<'r>>),
    /// A set.
    Set(P<'r, Set<'r>>),
    /// A sorted set.
    Sorted(P<'r, Sorted<'r>>),
    /// A stream.
    Stream(P<'r, Stream<'r>>),
}

impl<'r> Value<'r> {
    /// Makes a string value: [`Value::Int`] if the text is a number in canonical form, else [`Value::Bytes`].
    ///
    /// # Errors
    /// As for [`Txn::alloc_slice_copy`].
    pub fn string(tx: &Txn<'r>, text: &[u8]) -> pheap::Result<Value<'r>> {
        match words::int(text) {
            Some(number) => Ok(Value::Int(number)),
            None => Ok(Value::Bytes(tx.alloc_slice_copy(text)?)),
        }
    }

    /// Returns the name of the type, as `TYPE` replies it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Int(_) | Value::Bytes(_) | Value::Buffer(_) => "string",
            Value::List(_) => "list",
            Value::Hash(_) => "hash",
            Value::Set(_) => "set",
            Value::Sorted(_) => "zset",
            Value::Stream(_) => "stream",
        }
    }

    /// Calls `f` with the bytes of a string. Returns None if the value is not a string.
    pub fn with_bytes<R>(&self, view: &View<'r>, f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        Some(match self {
            Value::Int(number) => f(words::decimal(*number, &mut [0; 20])),
            Value::Bytes(bytes) => f(&view[*bytes]),
            Value::Buffer(buffer) => f(view[*buffer].as_slice(view, ..)),
            Value::List(_) | Value::Hash(_) | Value::Set(_) | Value::Sorted(_) | Value::Stream(_) => {
                return None;
            }
        })
    }
}
