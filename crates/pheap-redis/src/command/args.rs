//! Arguments that mean something.

use super::{Cx, Fail};
use crate::words;

/// A whole number.
pub(super) fn int(text: &[u8]) -> Result<i64, Fail> {
    words::int(text).ok_or(Fail::NOT_AN_INTEGER)
}

/// An option of the server that is a number.
pub(super) fn number_in(cx: &Cx<'_>, option: &str) -> usize {
    cx.server.config.read().int(option) as usize
}
