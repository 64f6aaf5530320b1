//! Answers of one part, with which a command ends.

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
    /// A whole number.
    int(number: i64);
    /// A number of things.
    count(number: usize);
    /// A string.
    bulk(text: &[u8]);
    /// A string, or that there is none.
    maybe_bulk(text: Option<&[u8]>);
    /// A short text without line ends.
    simple(text: &str);
    /// Text for people.
    text(text: impl AsRef<[u8]>);
    /// An array of strings.
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

/// Answers that there is no such thing.
pub(super) fn null(out: &mut Reply) -> Done {
    out.null();
    Ok(())
}

/// The same, where there would have been an array.
pub(super) fn null_array(out: &mut Reply) -> Done {
    out.null_array();
    Ok(())
}

/// Answers with an array without elements.
pub(super) fn empty(out: &mut Reply) -> Done {
    out.array(0);
    Ok(())
}
