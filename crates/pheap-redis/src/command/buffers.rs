//! Strings that are changed in the middle.

use std::sync::atomic::Ordering::Relaxed;

use pheap::{P, PVec};

use super::{Cx, Fail};
use crate::data::{Change, Db, Txn, Value};

/// How long a string may be.
#[derive(Clone, Copy)]
pub(super) struct Limit(u64);

impl Limit {
    pub(super) fn of(cx: &Cx<'_>) -> Limit {
        // A master has done it already.
        Limit(if cx.session.is_master { u64::MAX } else { cx.server.limits.bulk.load(Relaxed) })
    }

    /// The length of `len` and `more` bytes, if a string may have so many.
    pub(super) fn check(self, len: usize, more: usize) -> Result<usize, Fail> {
        let sum = len.checked_add(more).filter(|&sum| sum as u64 <= self.0);
        sum.ok_or_else(|| Fail::err("string exceeds maximum allowed size (proto-max-bulk-len)"))
    }
}

/// The bytes of a key's string, which can be changed from now on. An empty one is made if there is no such key.
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
