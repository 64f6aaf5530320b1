//! Random elements of a collection.

use std::collections::HashSet;

use super::{Args, Done, Fail, answer};
use crate::resp::Reply;
use crate::text::random::below;
use crate::text::words;

/// How many elements are wanted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum PickCount {
    /// This many distinct elements, or all if there are fewer.
    Distinct(usize),
    /// This many elements, each chosen among all elements, so that an element may come several times.
    Any(usize),
}

impl PickCount {
    /// Parses a count. A negative count means that elements may repeat. If each element is a pair, only half
    /// the range is allowed.
    pub(super) fn parse(text: &[u8], is_pair: bool) -> Result<PickCount, Fail> {
        let count = words::int(text).ok_or(Fail::NOT_AN_INTEGER)?;
        if count == i64::MIN {
            return Err(Fail::err(format_args!(
                "value is out of range, value must between {} and {}",
                -i64::MAX,
                i64::MAX
            )));
        }
        Fail::err_when(is_pair && count.abs() > i64::MAX / 2, "value is out of range")?;
        let number = count.unsigned_abs() as usize;
        Ok(if count < 0 { PickCount::Any(number) } else { PickCount::Distinct(number) })
    }

    /// Parses an optional count, and an option `name` after it that asks for pairs. `None`: a single element
    /// is wanted.
    pub(super) fn of_pairs(args: &Args<'_>, name: &str) -> Result<(Option<PickCount>, bool), Fail> {
        match args {
            [] => Ok((None, false)),
            [count] => Ok((Some(PickCount::parse(count, false)?), false)),
            [count, options @ ..] => {
                PickCount::parse(count, false)?;
                Fail::SYNTAX
                    .when(!matches!(options, [option] if option.eq_ignore_ascii_case(name.as_bytes())))?;
                Ok((Some(PickCount::parse(count, true)?), true))
            }
        }
    }

    /// Returns the number of elements chosen from a collection of `len` elements. `len` is not 0.
    pub(super) fn for_len(self, len: usize) -> usize {
        match self {
            PickCount::Distinct(count) => count.min(len),
            PickCount::Any(count) => count,
        }
    }
}

/// Chooses elements of a non-empty collection of `len` elements. Calls `each` with each chosen element until
/// `each` returns false. `one` returns a random element, `all` returns all elements, and `id` identifies an
/// element.
pub(super) fn pick<'v, T: Copy, I: Iterator<Item = T>>(
    wanted: PickCount,
    len: usize,
    mut one: impl FnMut() -> Option<T>,
    all: impl FnOnce() -> I,
    id: impl Fn(T) -> &'v [u8],
    mut each: impl FnMut(T) -> bool,
) {
    let count = wanted.for_len(len);
    if matches!(wanted, PickCount::Any(_)) || count <= 1 {
        (0..count).map_while(|_| one()).all(each);
    } else if count == len {
        all().all(each);
    } else if count > len / 3 {
        // Random draws would often hit elements that were chosen before, so shuffle all elements instead.
        let mut all: Vec<T> = all().collect();
        for at in 0..count.min(all.len()) {
            let other = at + below(all.len() - at);
            all.swap(at, other);
            if !each(all[at]) {
                return;
            }
        }
    } else {
        let mut chosen = HashSet::with_capacity(count);
        while chosen.len() < count
            && let Some(element) = one()
        {
            if chosen.insert(id(element)) && !each(element) {
                return;
            }
        }
    }
}

/// Answers `HRANDFIELD`, `SRANDMEMBER` and `ZRANDMEMBER`. `len` is the number of elements, or 0 if there is
/// no collection. `name` returns the name of an element, and `write` writes the value or score that belongs
/// to it, if pairs are wanted.
pub(super) fn answer<'v, T: Copy, I: Iterator<Item = T>>(
    (wanted, has_halves): (Option<PickCount>, bool),
    len: usize,
    mut one: impl FnMut() -> Option<T>,
    all: impl FnOnce() -> I,
    name: impl Fn(T) -> &'v [u8],
    out: &mut Reply,
    write: impl Fn(T, &mut Reply),
) -> Done {
    let Some(wanted) = wanted else { return answer::maybe_bulk(out, one().map(name)) };
    let count = if len == 0 { 0 } else { wanted.for_len(len) };
    let is_nested = has_halves && out.is_resp3();
    out.array(if has_halves && !is_nested { 2 * count } else { count });
    if count > 0 {
        pick(wanted, len, one, all, &name, |element| {
            if is_nested {
                out.array(2);
            }
            out.bulk(name(element));
            if has_halves {
                write(element, out);
            }
            !out.is_too_long()
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_wanted() {
        let elements: Vec<[u8; 1]> = (0..100).map(|number| [number]).collect();
        let chosen = |wanted| {
            let mut chosen = Vec::new();
            let one = || elements.get(below(100));
            let each = |element: &[u8; 1]| {
                chosen.push(element[0]);
                chosen.len() < 2000
            };
            pick(wanted, 100, one, || elements.iter(), |element| element, each);
            chosen
        };
        assert_eq!(chosen(PickCount::Any(usize::MAX)).len(), 2000);
        for count in [0, 1, 5, 33, 34, 99, 100, 1000] {
            let distinct: HashSet<u8> = chosen(PickCount::Distinct(count)).into_iter().collect();
            assert_eq!(distinct.len(), count.min(100));
            assert_eq!(chosen(PickCount::Any(count)).len(), count);
        }
    }

    #[test]
    fn counts() {
        assert_eq!(PickCount::parse(b"-3", true).unwrap(), PickCount::Any(3));
        assert_eq!(PickCount::parse(b"9223372036854775807", false).unwrap().for_len(5), 5);
        for (text, is_pair) in [("x", false), ("-9223372036854775808", false), ("4611686018427387904", true)]
        {
            assert!(PickCount::parse(text.as_bytes(), is_pair).is_err(), "{text}");
        }
    }
}
