//! Parses the arguments of commands.

use std::ops::Range;

use super::object::{EncodingLimits, is_compact};
use super::values::ValueType;
use super::{Args, Cx, Done, Fail, answer};
use crate::data::{DATABASES, P, View};
use crate::resp::Reply;
use crate::text::words;

/// Parses a whole number.
pub(super) fn int(text: &[u8]) -> Result<i64, Fail> {
    words::int(text).ok_or(Fail::NOT_AN_INTEGER)
}

/// Returns the argument that follows an option, or a syntax error if there is none.
pub(super) fn value<'a>(rest: &mut std::slice::Iter<'_, &'a [u8]>) -> Result<&'a [u8], Fail> {
    rest.next().copied().ok_or(Fail::SYNTAX)
}

/// Returns the meaning of a word, in any letter case, or `None` if the word is not in the list.
pub(super) fn word<T: Copy>(text: &[u8], words: &[(&str, T)]) -> Option<T> {
    words.iter().find(|(word, _)| text.eq_ignore_ascii_case(word.as_bytes())).map(|(_, meaning)| *meaning)
}

/// Returns the meaning of a word, in any letter case, or a syntax error if the word is not in the list.
pub(super) fn one_of<T: Copy>(text: &[u8], words: &[(&str, T)]) -> Result<T, Fail> {
    word(text, words).ok_or(Fail::SYNTAX)
}

/// Returns the meaning of an optional last argument, or `default` without one. `None` if the word is not in
/// the list, or not the last one.
pub(super) fn last_word<T: Copy>(args: &Args<'_>, default: T, words: &[(&str, T)]) -> Option<T> {
    match args {
        [] => Some(default),
        [text] => word(text, words),
        _ => None,
    }
}

/// The options `SYNC` and `ASYNC`, which make a difference only in Redis.
pub(super) const SYNC_OR_ASYNC: &[(&str, ())] = &[("sync", ()), ("async", ())];

/// Parses a whole number of at least 0. Fails with `error` if the text is no such number.
pub(super) fn count(text: &[u8], error: impl std::fmt::Display) -> Result<usize, Fail> {
    maybe_count(text).ok_or_else(|| Fail::err(error))
}

/// Parses a whole number of at least 0. Returns `None` if the text is no such number.
pub(super) fn maybe_count(text: &[u8]) -> Option<usize> {
    words::int(text).and_then(|number| usize::try_from(number).ok())
}

/// Parses a whole number greater than 0. Fails with `error` if the text is no such number.
pub(super) fn positive(text: &[u8], error: impl std::fmt::Display) -> Result<usize, Fail> {
    maybe_count(text).filter(|&number| number > 0).ok_or_else(|| Fail::err(error))
}

/// Parses an optional last argument that is a number of elements.
pub(super) fn maybe_number(args: &Args<'_>, too_many: impl FnOnce() -> Fail) -> Result<Option<usize>, Fail> {
    match args {
        [] => Ok(None),
        [number] => count(number, "value is out of range, must be positive").map(Some),
        _ => Err(too_many()),
    }
}

/// Adds the positions of the keys of a command whose argument `at` is their number. The keys follow it. Adds
/// none if the number is invalid, or greater than the number of arguments behind it.
pub(super) fn counted_keys(args: &Args<'_>, at: usize, keys: &mut Vec<usize>) {
    if let Some(count) = maybe_count(args[at]).filter(|&count| count < args.len() - at) {
        keys.extend(at + 1..=at + count);
    }
}

/// Parses the arguments of commands like `LMPOP`: number of keys, keys, end, and an optional number of
/// elements.
pub(super) fn counted_pop<'a, E>(
    args: &'a Args<'a>,
    end: impl FnOnce(&[u8]) -> Result<E, Fail>,
) -> Result<(&'a Args<'a>, E, usize), Fail> {
    let keys = positive(args[0], "numkeys should be greater than 0")?;
    Fail::SYNTAX.when(keys >= args.len() - 1)?;
    let (keys, options) = args[1..].split_at(keys);
    let end = end(options[0])?;
    match options[1..] {
        [] => Ok((keys, end, 1)),
        [option, count, ref more @ ..] if option.eq_ignore_ascii_case(b"count") => {
            let count = positive(count, "count should be greater than 0")?;
            if more.is_empty() { Ok((keys, end, count)) } else { Err(Fail::SYNTAX) }
        }
        _ => Err(Fail::SYNTAX),
    }
}

/// Returns the error for a time that is invalid or out of range as a deadline.
pub(super) fn invalid_time(command: &str) -> Fail {
    Fail::err(format_args!("invalid expire time in '{command}' command"))
}

/// Parses the number of a database.
pub(super) fn database(cx: &Cx<'_>, text: &[u8]) -> Result<usize, Fail> {
    let number = int(text)?;
    if i32::try_from(number).is_err() {
        let (least, most) = (i32::MIN, i32::MAX);
        return Err(Fail::err(format_args!("value is out of range, value must between {least} and {most}")));
    }
    let databases = (cx.server.config.read().int("databases") as usize).min(DATABASES);
    let db = usize::try_from(number).ok().filter(|&db| db < databases);
    db.ok_or_else(|| Fail::err("DB index is out of range"))
}

/// Parses a floating-point number.
pub(super) fn float(text: &[u8]) -> Result<f64, Fail> {
    words::float(text).ok_or(Fail::NOT_A_FLOAT)
}

/// Returns the indexes from `start` to `end`, inclusive, as far as they are indexes of `len` elements.
/// Negative arguments count from the end: -1 is the last element.
pub(super) fn index_range(start: i64, end: i64, len: usize) -> Range<usize> {
    let len = len as i64;
    let from_end = |at: i64| if at < 0 { at.saturating_add(len) } else { at };
    let (first, last) = (from_end(start).max(0), from_end(end).min(len - 1));
    if first > last { 0..0 } else { first as usize..last as usize + 1 }
}

/// Returns what [`index_range`] does, but an `end` before the first element means the first element.
pub(super) fn byte_range(start: i64, end: i64, len: usize) -> Range<usize> {
    index_range(start, end.max(-(len as i64)), len)
}

/// Parses a timeout in milliseconds. 0 means no timeout.
pub(super) fn timeout_ms(text: &[u8]) -> Result<u64, Fail> {
    let ms = words::int(text).ok_or_else(|| Fail::err("timeout is not an integer or out of range"))?;
    u64::try_from(ms).map_err(|_| Fail::err("timeout is negative"))
}

/// Parses the timeout of a blocking command, in seconds. Returns `None` for no timeout.
pub(super) fn timeout(text: &[u8]) -> Result<Option<f64>, Fail> {
    let seconds = words::float(text).ok_or_else(|| Fail::err("timeout is not a float or out of range"))?;
    // Rounded up to whole milliseconds, so a timeout between -1 ms and 0 counts as 0.
    let ms = (seconds * 1000.0).ceil();
    Fail::err_when(ms < 0.0, "timeout is negative")?;
    Fail::err_when(ms >= i64::MAX as f64 / 1e3, "timeout is out of range")?;
    Ok(Some(ms / 1000.0).filter(|&seconds| seconds > 0.0))
}

/// The arguments of `SCAN`, `HSCAN`, `SSCAN` and `ZSCAN`.
pub(super) struct Scan<'a> {
    /// Position to continue from, as [`cursor`] returns it.
    pub(super) from: u64,
    /// Pattern that names must match. `None`: any name matches.
    pub(super) pattern: Option<&'a [u8]>,
    /// Number of elements to look at. A step may look at a few more.
    pub(super) count: usize,
    /// Type that the keys must have, in small letters. `None`: any type.
    pub(super) kind: Option<Vec<u8>>,
}

/// Parses the cursor of a `SCAN`: a position in a map, with its bits in reverse order. The caller reverses
/// them. A position is a prefix of a hash, so its lowest bits are zero. The cursor is therefore a small
/// number unless the map is very large. That helps programs that keep it in a float.
pub(super) fn cursor(text: &[u8]) -> Result<u64, Fail> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| Fail::err("invalid cursor"))
}

impl<'a> Scan<'a> {
    /// Parses a cursor and the options after it. The option `TYPE` is allowed if `has_kind`.
    pub(super) fn parse(args: &Args<'a>, has_kind: bool) -> Result<Scan<'a>, Fail> {
        let mut scan = Scan { from: cursor(args[0])?, pattern: None, count: 10, kind: None };
        let options = args[1..].chunks_exact(2);
        Fail::SYNTAX.when(!options.remainder().is_empty())?;
        for option in options {
            match option[0].to_ascii_lowercase().as_slice() {
                b"match" => scan.pattern = Some(option[1]),
                b"count" => {
                    let count = usize::try_from(int(option[1])?).ok().filter(|&count| count > 0);
                    scan.count = count.ok_or(Fail::SYNTAX)?;
                }
                b"type" if has_kind => scan.kind = Some(option[1].to_ascii_lowercase()),
                _ => return Err(Fail::SYNTAX),
            }
        }
        Ok(scan)
    }

    /// Scans the elements of a key's value. `f` calls [`answer`](Self::answer); its fourth argument is
    /// whether Redis would keep the value in a compact encoding. If there is no such key, answers with the
    /// cursor 0 and no elements.
    pub(super) fn of_value<K: ValueType>(
        cx: &mut Cx<'_>,
        args: &Args<'_>,
        out: &mut Reply,
        f: impl for<'r> FnOnce(&View<'r>, P<'r, K::At<'r>>, Scan<'_>, bool, &mut Reply),
    ) -> Done {
        cursor(args[2])?;
        let limits = EncodingLimits::from_config(cx);
        cx.read_value::<K, _>(args[1], |view, this| {
            let Some(this) = this else {
                out.array(2);
                out.bulk(b"0");
                return answer::empty(out);
            };
            let is_compact = is_compact(view, K::into_value(this), &limits);
            f(view, this, Scan::parse(&args[2..], false)?, is_compact, out);
            Ok(())
        })
    }

    /// Answers a scan with the elements that match the pattern. Calls `step`, which returns some elements and
    /// the next position, until enough elements were seen or the position is 0. If the value is in a compact
    /// encoding in Redis (`is_compact`), looks at all its elements, as Redis does. `write` writes an element
    /// and returns the number of array elements that it wrote.
    pub(super) fn answer<'v, T: Copy, I: Iterator<Item = T>>(
        &self,
        is_compact: bool,
        step: impl Fn(u64) -> (I, u64),
        name: impl Fn(T) -> &'v [u8],
        out: &mut Reply,
        write: impl Fn(T, &mut Reply) -> usize,
    ) {
        let from = if is_compact { 0 } else { self.from.reverse_bits() };
        let (mut at, mut seen, mut found) = (from, 0, Vec::new());
        loop {
            let (some, next) = step(at);
            for element in some {
                seen += 1;
                if self.matches_pattern(name(element)) {
                    found.push(element);
                }
            }
            at = next;
            if at == 0 || seen >= self.count && !is_compact {
                break;
            }
        }
        out.array(2);
        out.bulk(at.reverse_bits().to_string().as_bytes());
        let (begun, mut count) = (out.defer_len(), 0);
        found.into_iter().for_each(|element| count += write(element, out));
        out.end_array(begun, count);
    }

    /// Returns whether the name matches the pattern. Without a pattern, every name matches.
    pub(super) fn matches_pattern(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| words::matches(pattern, name))
    }
}
