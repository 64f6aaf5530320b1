//! Words of metadata that are written alone, in one store: 48 bits of value, and 16 bits that check them.

use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, Result};
use crate::faults::holds;

pub(crate) const VALUE_BITS: u32 = 48;

/// Returns the word that has a value of at most 48 bits and its check.
pub(crate) fn with_check(value: u64) -> u64 {
    debug_assert!(value >> VALUE_BITS == 0);
    value | xxh3_64(&value.to_le_bytes()) >> VALUE_BITS << VALUE_BITS
}

/// Returns the value of a word that [`with_check`] has made. If the check fails, the error says that `what`
/// is damaged.
#[track_caller]
pub(crate) fn checked(word: u64, what: &str) -> Result<u64> {
    let value = word & ((1 << VALUE_BITS) - 1);
    if holds(word, with_check(value)) { Ok(value) } else { Err(Error::corrupt(format!("{what} is damaged"))) }
}
