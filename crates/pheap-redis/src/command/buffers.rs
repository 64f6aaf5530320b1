//! Strings that are changed in place.

use std::sync::atomic::Ordering::Relaxed;

use pheap::{P, PVec};

use super::{Cx, Fail};
use crate::data::{Change, Db, Txn, Value};

/// Maximum length of a string, in bytes.
#[derive(Clone, Copy)]
pub(super) struct StringLimit(u64);

impl StringLimit {
    pub(super) fn of_client(cx: &Cx<'_>) -> StringLimit {
        // A master has accepted the length already, so its commands have no limit.
        StringLimit(if cx.session.is_master { u64::MAX } else { cx.server.options.bulk.load(Relaxed) })
    }

    /// Returns `len + more`, or an error if that is too long for a string.
    pub(super) fn check(self, len: usize, more: usize) -> Result<usize, Fail> {
        let sum = len.checked_add(more).filter(|&sum| sum as u64 <= self.0);
        sum.ok_or_else(|| Fail::err("string exceeds maximum allowed size (proto-max-bulk-len)"))
    }
}

/// Returns the bytes of a key's string in a form that can be changed in place. Creates an empty string if the
/// key does not exist.
pub(super) fn buffer<'r>(
    tx: &mut Txn<'r>,
    db: P<'r, Db<'r>>,
    key: &[u8],
    now: i64,
) -> Result<P<'r, PVec<'r, u8>>, Fail> {
    let value = tx[db].get(tx, key, now);
    let bytes = match value {
        None => PVec::new(),
        Some(Value::Buffer(buffer)) => return Ok(buffer),
        Some(value) => value.with_bytes(tx, |old| PVec::from_slice(tx, old)).ok_or(Fail::WRONG_TYPE)??,
    };
    let buffer = tx.alloc(bytes)?;
    match value {
        None => db.set(tx, key, Value::Buffer(buffer))?,
        Some(_) => db.put(tx, key, Value::Buffer(buffer))?,
    }
    Ok(buffer)
}
