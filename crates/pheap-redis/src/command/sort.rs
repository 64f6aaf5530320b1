//! `SORT`: sorts the elements of a list, set or sorted set, possibly by the values of other keys.

use std::cmp::Ordering;

use super::args::{int, value};
use super::table::{ADD, READ};
use super::{Args, Command, Cx, Done, Fail, Keys};
use crate::data::{Owned, Value};
use crate::resp::Reply;
use crate::text::words;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("sort", -2, ADD, Keys::Perhaps { keys, everything }, |cx, args, out| {
        sort(cx, args, true, out)
    })
    .accesses("RO access", "OW update"),
    Command::new("sort_ro", -2, READ, Keys::Perhaps { keys, everything }, |cx, args, out| {
        sort(cx, args, false, out)
    }),
];

/// The parsed arguments of `SORT`.
#[derive(Default)]
struct SortArgs<'a> {
    descending: bool,
    by_text: bool,
    /// The index of the first sorted element to answer, and the number of elements.
    limit: Option<(i64, i64)>,
    /// Pattern of the keys that contain the weights. `None`: the elements themselves are the weights.
    by: Option<&'a [u8]>,
    /// Patterns of the values to answer for each element. Empty: the elements themselves.
    get: Vec<&'a [u8]>,
    /// Key to store the result in.
    store: Option<&'a [u8]>,
}

impl<'a> SortArgs<'a> {
    fn parse(args: &Args<'a>, may_store: bool) -> Result<SortArgs<'a>, Fail> {
        let mut asked = SortArgs::default();
        let mut rest = args[2..].iter();
        while let Some(option) = rest.next() {
            match (option.to_ascii_lowercase().as_slice(), rest.len()) {
                (b"asc", _) => asked.descending = false,
                (b"desc", _) => asked.descending = true,
                (b"alpha", _) => asked.by_text = true,
                (b"limit", 2..) => {
                    let mut number = || int(value(&mut rest)?);
                    asked.limit = Some((number()?, number()?));
                }
                (b"store", 1..) if may_store => asked.store = rest.next().copied(),
                (b"by", 1..) => asked.by = rest.next().copied(),
                (b"get", 1..) => asked.get.extend(rest.next()),
                _ => return Err(Fail::SYNTAX),
            }
        }
        Ok(asked)
    }

    /// Returns whether the elements are not sorted, because the pattern of `BY` contains no star.
    fn stays(&self) -> bool {
        self.by.is_some_and(|by| !by.contains(&b'*'))
    }
}

/// Adds the positions of the key and of the key to store in.
fn keys(args: &Args<'_>, keys: &mut Vec<usize>) {
    keys.push(1);
    let mut at = 2;
    let mut store = None;
    while at < args.len() {
        match args[at].to_ascii_lowercase().as_slice() {
            b"limit" => at += 2,
            b"get" | b"by" => at += 1,
            b"store" if at + 1 < args.len() => {
                store = Some(at + 1);
                at += 1;
            }
            _ => {}
        }
        at += 1;
    }
    keys.extend(store);
}

/// Returns whether a pattern names other keys, so that the command reads these, too.
fn everything(args: &Args<'_>) -> bool {
    SortArgs::parse(args, true).is_ok_and(|asked| {
        asked.get.iter().chain(&asked.by).any(|pattern| pattern.contains(&b'*') && *pattern != b"#")
    })
}

/// Returns the value of a pattern for an element. The pattern `#` means the element itself. Otherwise, the
/// star of the pattern is replaced by the element, and the result names a key with a string, or before `->` a
/// key with a hash and behind it a field. `None` if there is no such value.
fn by_pattern(cx: &mut Cx<'_>, pattern: &[u8], element: &[u8]) -> Option<Vec<u8>> {
    if pattern == b"#" {
        return Some(element.to_vec());
    }
    let star = pattern.iter().position(|&byte| byte == b'*')?;
    let (before, after) = (&pattern[..star], &pattern[star + 1..]);
    let arrow = after.windows(2).position(|two| two == b"->").filter(|&at| at + 2 < after.len());
    let (after, field) = match arrow {
        Some(at) => (&after[..at], Some(&after[at + 2..])),
        None => (after, None),
    };
    let (key, now) = ([before, element, after].concat(), cx.now);
    cx.read(&key, |view, db| match (db.get(view, &key, now)?, field) {
        (Value::Hash(hash), Some(field)) => view[hash].get(view, field).map(|&value| view[value].to_vec()),
        (value, None) => value.with_bytes(view, <[u8]>::to_vec),
        _ => None,
    })
}

/// The value by which an element is compared.
#[derive(PartialEq)]
enum SortWeight {
    Number(f64),
    /// The text of the weight. `None`, if there is no weight, precedes all texts.
    Text(Option<Vec<u8>>),
}

fn weight_of(cx: &mut Cx<'_>, asked: &SortArgs<'_>, element: &[u8]) -> Result<SortWeight, Fail> {
    let text = match asked.by {
        Some(pattern) => by_pattern(cx, pattern, element),
        None => Some(element.to_vec()),
    };
    if asked.by_text {
        return Ok(SortWeight::Text(text));
    }
    let Some(text) = text else { return Ok(SortWeight::Number(0.0)) };
    let number =
        words::c_float(&text).filter(|number| number.is_finite() || !text.iter().any(u8::is_ascii_digit));
    number
        .map(SortWeight::Number)
        .ok_or_else(|| Fail::err("One or more scores can't be converted into double"))
}

fn compare_by_weight(a: &(SortWeight, Vec<u8>), b: &(SortWeight, Vec<u8>), has_pattern: bool) -> Ordering {
    match (&a.0, &b.0) {
        (SortWeight::Number(x), SortWeight::Number(y)) => {
            x.partial_cmp(y).expect("these are no NaN").then_with(|| a.1.cmp(&b.1))
        }
        (SortWeight::Text(x), SortWeight::Text(y)) if has_pattern => x.cmp(y),
        _ => a.1.cmp(&b.1),
    }
}

fn sort(cx: &mut Cx<'_>, args: &Args<'_>, may_store: bool, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.now);
    let mut asked = SortArgs::parse(args, may_store)?;
    let (mut elements, is_set) = cx.read(key, |view, db| match db.get(view, key, now) {
        None => Ok((Vec::new(), false)),
        Some(Value::List(list)) => {
            Ok((view[list].iter(view).map(|&element| view[element].to_vec()).collect(), false))
        }
        Some(Value::Set(set)) => Ok((view[set].iter(view).map(<[u8]>::to_vec).collect(), true)),
        Some(Value::Sorted(sorted)) => {
            let sorted = &view[sorted];
            Ok((
                sorted.iter(view, 0, sorted.len(), false).map(|item| view[item.member].to_vec()).collect(),
                false,
            ))
        }
        Some(_) => Err(Fail::WRONG_TYPE),
    })?;
    if is_set && asked.stays() && (asked.store.is_some() || cx.session.is_script) {
        // A set is sorted nevertheless, so that the result does not depend on the order in which the set is
        // stored.
        (asked.by, asked.by_text) = (None, true);
    }
    if asked.stays() {
        if asked.descending && !is_set {
            elements.reverse();
        }
    } else {
        let weighed = elements.into_iter().map(|element| Ok((weight_of(cx, &asked, &element)?, element)));
        let mut weighed = weighed.collect::<Result<Vec<_>, Fail>>()?;
        weighed.sort_by(|a, b| {
            let order = compare_by_weight(a, b, asked.by.is_some());
            if asked.descending { order.reverse() } else { order }
        });
        elements = weighed.into_iter().map(|(_, element)| element).collect();
    }
    if let Some((start, count)) = asked.limit {
        let start = usize::try_from(start).unwrap_or(0).min(elements.len());
        elements.drain(..start);
        elements.truncate(usize::try_from(count).unwrap_or(usize::MAX));
    }
    let told: Vec<Option<Vec<u8>>> = if asked.get.is_empty() {
        elements.into_iter().map(Some).collect()
    } else {
        let pairs = elements.iter().flat_map(|element| asked.get.iter().map(move |get| (*get, element)));
        pairs.map(|(get, element)| by_pattern(cx, get, element)).collect()
    };
    let Some(target) = asked.store else {
        out.array(told.len());
        told.iter().for_each(|text| out.maybe_bulk(text.as_deref()));
        return Ok(());
    };
    out.count(told.len());
    let list = Owned::List(told.into_iter().map(Option::unwrap_or_default).collect());
    cx.replace_value(target, b'l', "sortstore", &list)
}
