//! Tests of what was read.

#[cfg(feature = "sim")]
use std::panic::Location;

#[cfg(feature = "sim")]
use super::sim::mutant::{Kind, is_dropped};

/// Whether a checksum, or another word by which something that was read proves to be what was written, is what it should be.
#[inline(always)]
#[cfg_attr(feature = "sim", track_caller)]
pub(crate) fn holds<T: PartialEq>(found: T, expected: T) -> bool {
    let holds = found == expected;
    #[cfg(feature = "sim")]
    let holds = is_dropped(Kind::Checksum, Location::caller()) || holds;
    holds
}
