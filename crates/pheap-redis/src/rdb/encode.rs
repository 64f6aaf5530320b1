//! Encodes values for RDB files: each type in one form, without packed strings except in streams.

use super::write::{put_length, put_string};
use super::{Result, kinds, streams};
use crate::data::Owned;

/// Returns the number of a value's type.
pub fn rdb_type(value: &Owned) -> u8 {
    match value {
        Owned::String(_) => kinds::STRING,
        Owned::List(_) => kinds::LIST,
        Owned::Hash(_) => kinds::HASH,
        Owned::Set(_) => kinds::SET,
        Owned::Sorted(_) => kinds::ZSET_2,
        Owned::Stream(_) => kinds::STREAM_LISTPACKS_2,
    }
}

/// Appends a value, without its type.
///
/// # Errors
/// If a stream has an entry that is too large for the format.
pub fn encode(value: &Owned, out: &mut Vec<u8>) -> Result<()> {
    match value {
        Owned::String(bytes) => put_string(out, bytes),
        Owned::List(elements) | Owned::Set(elements) => {
            put_length(out, elements.len() as u64);
            elements.iter().for_each(|element| put_string(out, element));
        }
        Owned::Hash(pairs) => {
            put_length(out, pairs.len() as u64);
            for (field, value) in pairs {
                put_string(out, field);
                put_string(out, value);
            }
        }
        Owned::Sorted(members) => {
            put_length(out, members.len() as u64);
            for (member, score) in members {
                put_string(out, member);
                out.extend_from_slice(&score.to_le_bytes());
            }
        }
        Owned::Stream(stream) => streams::encode(stream, out)?,
    }
    Ok(())
}
