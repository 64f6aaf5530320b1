//! Arguments that mean something.

use super::Fail;
use crate::words;

/// A whole number.
pub(super) fn int(text: &[u8]) -> Result<i64, Fail> {
    words::int(text).ok_or(Fail::NOT_AN_INTEGER)
}
