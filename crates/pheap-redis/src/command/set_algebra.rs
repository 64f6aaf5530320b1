//! Intersections, unions and differences of sets.
//!
//! The keys may be in different shards, so elements are copied out of one set, and looked up in the others. A
//! union copies the elements of all sets.

use std::collections::HashSet;

use super::args::{count, positive};
use super::table::{ADD, ALL_KEYS, COUNTED, READ};
use super::{Args, Command, Cx, Done, Fail, answer};
use crate::data::{Owned, Set};
use crate::resp::Reply;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("sdiff", -2, READ, ALL_KEYS, |cx, args, out| answer(cx, args, difference, out)),
    Command::new("sdiffstore", -3, ADD, ALL_KEYS, |cx, args, out| {
        store(cx, args, "sdiffstore", difference, out)
    })
    .accesses("OW update", "RO access"),
    Command::new("sinter", -2, READ, ALL_KEYS, |cx, args, out| answer(cx, args, intersection, out)),
    Command::new("sintercard", -3, READ, COUNTED, sintercard),
    Command::new("sinterstore", -3, ADD, ALL_KEYS, |cx, args, out| {
        store(cx, args, "sinterstore", intersection, out)
    })
    .accesses("RW update", "RO access"),
    Command::new("sunion", -2, READ, ALL_KEYS, |cx, args, out| answer(cx, args, union, out)),
    Command::new("sunionstore", -3, ADD, ALL_KEYS, |cx, args, out| {
        store(cx, args, "sunionstore", union, out)
    })
    .accesses("OW update", "RO access"),
];

type Elements = Vec<Vec<u8>>;

/// Returns the length of each key's set, or `None` where there is no key.
fn lengths(cx: &mut Cx<'_>, keys: &[&[u8]]) -> Result<Vec<Option<usize>>, Fail> {
    let len = |key: &&[u8]| cx.read_value::<Set, _>(key, |view, set| Ok(set.map(|set| view[set].len())));
    keys.iter().map(len).collect()
}

/// Returns the elements of a key's set.
fn elements(cx: &mut Cx<'_>, key: &[u8]) -> Result<Elements, Fail> {
    cx.read_value::<Set, _>(key, |view, set| {
        Ok(set.into_iter().flat_map(|set| set.iter(view)).map(<[u8]>::to_vec).collect())
    })
}

/// Keeps only the elements that are in a key's set, or, if `is_in` is false, those that are not in it.
fn retain_elements(cx: &mut Cx<'_>, key: &[u8], elements: &mut Elements, is_in: bool) -> Done {
    cx.read_value::<Set, _>(key, |view, set| {
        elements.retain(|element| set.is_some_and(|set| set.contains(view, element)) == is_in);
        Ok(())
    })
}

fn intersection(cx: &mut Cx<'_>, keys: &[&[u8]]) -> Result<Elements, Fail> {
    let lengths = lengths(cx, keys)?;
    if lengths.contains(&None) {
        return Ok(Vec::new());
    }
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by_key(|&at| lengths[at]);
    let mut common = elements(cx, keys[order[0]])?;
    for &at in &order[1..] {
        retain_elements(cx, keys[at], &mut common, true)?;
    }
    Ok(common)
}

fn difference(cx: &mut Cx<'_>, keys: &[&[u8]]) -> Result<Elements, Fail> {
    lengths(cx, keys)?;
    let mut rest = elements(cx, keys[0])?;
    for key in &keys[1..] {
        if rest.is_empty() {
            break;
        }
        retain_elements(cx, key, &mut rest, false)?;
    }
    Ok(rest)
}

fn union(cx: &mut Cx<'_>, keys: &[&[u8]]) -> Result<Elements, Fail> {
    lengths(cx, keys)?;
    let mut all = HashSet::new();
    for key in keys {
        cx.read_value::<Set, _>(key, |view, set| {
            for element in set.into_iter().flat_map(|set| set.iter(view)) {
                if !all.contains(element) {
                    all.insert(element.to_vec());
                }
            }
            Ok(())
        })?;
    }
    Ok(all.into_iter().collect())
}

fn answer(
    cx: &mut Cx<'_>,
    args: &Args<'_>,
    combine: fn(&mut Cx<'_>, &[&[u8]]) -> Result<Elements, Fail>,
    out: &mut Reply,
) -> Done {
    let elements = combine(cx, &args[1..])?;
    out.set(elements.len());
    elements.iter().for_each(|element| out.bulk(element));
    Ok(())
}

fn store(
    cx: &mut Cx<'_>,
    args: &Args<'_>,
    event: &str,
    combine: fn(&mut Cx<'_>, &[&[u8]]) -> Result<Elements, Fail>,
    out: &mut Reply,
) -> Done {
    let elements = combine(cx, &args[2..])?;
    out.count(elements.len());
    cx.replace_value(args[1], b's', event, &Owned::Set(elements))
}

fn sintercard(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let count = positive(args[1], "numkeys should be greater than 0")?;
    Fail::err_when(count > args.len() - 2, "Number of keys can't be greater than number of args")?;
    let (keys, options) = args[2..].split_at(count);
    let limit = limit(options)?;
    answer::count(out, intersection(cx, keys)?.len().min(limit))
}

/// Parses the option `LIMIT`: the maximum count. Without it, or if it is 0, there is no limit (`usize::MAX`).
pub(super) fn limit(options: &[&[u8]]) -> Result<usize, Fail> {
    let mut limit = 0;
    for option in options.chunks(2) {
        let [name, number] = option else { return Err(Fail::SYNTAX) };
        Fail::SYNTAX.when(!name.eq_ignore_ascii_case(b"limit"))?;
        limit = count(number, "LIMIT can't be negative")?;
    }
    Ok(if limit == 0 { usize::MAX } else { limit })
}
