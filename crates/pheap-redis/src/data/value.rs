//! What a key stands for.

use pheap::{P, PHashMap, PHashSet, PVec, PVecDeque, Persist, Txn, View};

use super::sorted::Sorted;
use super::streams::Stream;
use crate::text::words;

/// A string that never changes.
pub type Str<'r> = P<'r, [u8]>;

/// A list: strings, which can be added and removed at both ends.
pub type List<'r> = PVecDeque<'r, Str<'r>>;

/// A hash: fields and their values.
pub type Hash<'r> = PHashMap<'r, Str<'r>, Str<'r>>;

/// A set of strings.
pub type Set<'r> = PHashSet<'r, Str<'r>>;

/// What a key stands for. Empty lists, hashes, sets and sorted sets are not kept: their keys are removed.
#[derive(Persist, Clone, Copy, Debug)]
#[repr(u8)]
pub enum Value<'r> {
    /// A string that is a whole number, written canonically.
    Int(i64),
    /// A string.
    Bytes(Str<'r>),
    /// A string that was changed in the middle, or at its end, and may be again.
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
    /// A string, stored in the smallest form.
    ///
    /// # Errors
    /// As for [`Txn::alloc`].
    pub fn string(tx: &Txn<'r>, text: &[u8]) -> pheap::Result<Value<'r>> {
        match words::int(text) {
            Some(number) => Ok(Value::Int(number)),
            None => Ok(Value::Bytes(tx.alloc_slice_copy(text)?)),
        }
    }

    /// The name of its type, as `TYPE` tells it.
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

    /// Shows `f` a string's bytes. None if it is no string.
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
