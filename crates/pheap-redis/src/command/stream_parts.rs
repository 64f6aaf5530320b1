//! Common parts of the commands for streams: ids, groups, and entries in replies.

use pheap::{P, field};

use super::Fail;
use super::values::ValueType;
use crate::data::View;
use crate::data::streams::{self, Consumers, Id, Stream, id};
use crate::resp::Reply;
use crate::text::words;

/// The class of keyspace notifications about streams.
pub(super) const CLASS: u8 = Stream::CLASS;

pub(super) const CREATED_CONSUMER: &str = "xgroup-createconsumer";

fn invalid_id() -> Fail {
    Fail::err("Invalid stream ID specified as stream command argument")
}

/// Parses half of an id. Spaces, a plus and zeros before the number are allowed, as in C's `strtoull`.
fn parse_half(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii_start();
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    if !digits.first().is_some_and(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The id that `XADD` gives to the new entry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum NewId {
    /// Any id after all earlier ones.
    Any,
    /// The next id in this millisecond.
    In(u64),
    /// Exactly this id.
    This(Id),
}

impl NewId {
    pub(super) fn parse(text: &[u8]) -> Result<NewId, Fail> {
        match text.strip_suffix(b"-*") {
            _ if text == b"*" => Ok(NewId::Any),
            Some(ms) if text.len() < 128 && !ms.contains(&b'-') => {
                parse_half(ms).map(NewId::In).ok_or_else(invalid_id)
            }
            _ => parse_id(text, 0).map(NewId::This),
        }
    }
}

/// Parses an id: `ms-seq`, or `ms`, where `missing` stands for `seq`.
pub(super) fn parse_id(text: &[u8], missing: u64) -> Result<Id, Fail> {
    let parsed = (text.len() < 128).then(|| match text.iter().position(|&byte| byte == b'-') {
        Some(dash) => Some(id(parse_half(&text[..dash])?, parse_half(&text[dash + 1..])?)),
        None => Some(id(parse_half(text)?, missing)),
    });
    parsed.flatten().ok_or_else(invalid_id)
}

/// Parses an id, or `-` or `+` for the smallest and the greatest id.
pub(super) fn parse_id_or_extreme(text: &[u8], missing: u64) -> Result<Id, Fail> {
    match text {
        b"-" => Ok(0),
        b"+" => Ok(Id::MAX),
        _ => parse_id(text, missing),
    }
}

/// Parses the start of a range. An id after `(` is excluded.
pub(super) fn parse_range_start(text: &[u8]) -> Result<Id, Fail> {
    match text {
        [b'(', exclusive @ ..] if !exclusive.is_empty() => parse_id(exclusive, 0)?
            .checked_add(1)
            .ok_or_else(|| Fail::err("invalid start ID for the interval")),
        _ => parse_id_or_extreme(text, 0),
    }
}

/// Parses the end of a range. An id after `(` is excluded.
pub(super) fn parse_range_end(text: &[u8]) -> Result<Id, Fail> {
    match text {
        [b'(', exclusive @ ..] if !exclusive.is_empty() => parse_id(exclusive, u64::MAX)?
            .checked_sub(1)
            .ok_or_else(|| Fail::err("invalid end ID for the interval")),
        _ => parse_id_or_extreme(text, u64::MAX),
    }
}

/// Returns a group of a stream.
pub(super) fn find_group<'r>(
    view: &View<'r>,
    stream: Option<P<'r, Stream<'r>>>,
    name: &[u8],
) -> Option<P<'r, Consumers<'r>>> {
    let stream = stream?;
    field!(stream.groups).get(view, name).copied()
}

/// Returns the error for a stream or group that does not exist.
pub(super) fn no_group(key: &[u8], group: &[u8], context: &str) -> Fail {
    let (key, group) = (words::lossy(key), words::lossy(group));
    Fail::Error(format!("NOGROUP No such key '{key}' or consumer group '{group}'{context}").into())
}

/// Returns the error for a group that does not exist in an existing stream.
pub(super) fn no_such_group(key: &[u8], group: &[u8]) -> Fail {
    let (key, group) = (words::lossy(key), words::lossy(group));
    Fail::Error(format!("NOGROUP No such consumer group '{group}' for key name '{key}'").into())
}

/// Writes an id, as `MS-SEQ`.
pub(super) fn write_id(out: &mut Reply, id: Id) {
    use std::io::Write;
    let mut text = [0; 41];
    let mut rest = &mut text[..];
    write!(rest, "{}-{}", streams::ms(id), streams::seq(id)).expect("two numbers of at most 20 digits");
    let len = 41 - rest.len();
    out.bulk(&text[..len]);
}

/// Writes an entry: its id, and an array of its fields and values.
pub(super) fn write_entry(out: &mut Reply, id: Id, packed: &[u8]) {
    out.array(2);
    write_id(out, id);
    let (count, words) = streams::unpack(packed);
    out.array(count);
    words.for_each(|word| out.bulk(word));
}

/// Writes an array of at most `count` entries (0: all) of a stream in a range. Calls `seen` with the id of
/// each written entry.
pub(super) fn write_range<'r>(
    view: &View<'r>,
    stream: P<'r, Stream<'r>>,
    range: (Id, Id),
    count: usize,
    backwards: bool,
    out: &mut Reply,
    mut seen: impl FnMut(Id),
) {
    let (begun, mut written) = (out.defer_len(), 0);
    if range.0 <= range.1 {
        let mut entries = field!(stream.entries).range(view, range.0..=range.1);
        while let Some((&id, &packed)) = if backwards { entries.next_back() } else { entries.next() } {
            write_entry(out, id, &view[packed]);
            seen(id);
            written += 1;
            if written == count {
                break;
            }
        }
    }
    out.end_array(begun, written);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_and_written() {
        let read = |text: &str| parse_id(text.as_bytes(), 7).ok();
        assert_eq!(read("5"), Some(id(5, 7)));
        assert_eq!(read("5-0"), Some(id(5, 0)));
        assert_eq!(read(" +05-003"), Some(id(5, 3)));
        assert_eq!(read("18446744073709551615-18446744073709551615"), Some(Id::MAX));
        for wrong in ["", "-", "+", "5-", "-5", "5--1", "5-1 ", "18446744073709551616", "5-*", "a"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!(NewId::parse(b"5-*").ok(), Some(NewId::In(5)));
        assert_eq!(NewId::parse(b"*").ok(), Some(NewId::Any));
        assert_eq!(NewId::parse(b"1-2-*").ok(), None);
        assert_eq!(parse_range_start(b"(5").ok(), Some(id(5, 1)));
        assert_eq!(parse_range_end(b"(5").ok(), Some(id(5, u64::MAX - 1)));
        assert_eq!(parse_range_end(b"(5-0").ok(), Some(id(4, u64::MAX)));
        assert_eq!(
            [parse_range_start(b"(+").ok(), parse_range_start(b"(").ok(), parse_range_end(b"(0-0").ok()],
            [None; 3]
        );
        let mut out = Reply::new(false);
        write_id(&mut out, Id::MAX);
        assert_eq!(out.take(), b"$41\r\n18446744073709551615-18446744073709551615\r\n");
    }
}
