//! Writes whole replies. The functions return `Ok`, so that a command can end with a call.

use super::Done;
use crate::resp::Reply;

macro_rules! answers {
    ($($(#[$doc:meta])* $name:ident($part:ident: $type:ty);)*) => {$(
        $(#[$doc])*
        pub(super) fn $name(out: &mut Reply, $part: $type) -> Done {
            out.$name($part);
            Ok(())
        }
    )*};
}

answers! {
    /// Answers with an integer.
    int(number: i64);
    /// Answers with a number of things.
    count(number: usize);
    /// Answers with a string.
    bulk(text: &[u8]);
    /// Answers with a string, or null.
    maybe_bulk(text: Option<&[u8]>);
    /// Answers with a short text without line ends.
    simple(text: &str);
    /// Answers with text for people.
    text(text: impl AsRef<[u8]>);
    /// Answers with an array of strings.
    bulks(texts: impl ExactSizeIterator<Item: AsRef<[u8]>>);
}

/// Answers `OK`.
pub(super) fn ok(out: &mut Reply) -> Done {
    out.ok();
    Ok(())
}

/// Answers 1 or 0.
pub(super) fn yes_or_no(out: &mut Reply, is_so: bool) -> Done {
    int(out, i64::from(is_so))
}

/// Answers with null.
pub(super) fn null(out: &mut Reply) -> Done {
    out.null();
    Ok(())
}

/// Answers with a null array; in RESP3, with null.
pub(super) fn null_array(out: &mut Reply) -> Done {
    out.null_array();
    Ok(())
}

/// Answers with an empty array.
pub(super) fn empty(out: &mut Reply) -> Done {
    out.array(0);
    Ok(())
}
