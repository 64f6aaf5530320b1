//! Commands for hashes.

use super::args::{Scan, int};
use super::pick::{self, PickCount};
use super::table::{ADD_FAST, KEY, READ, READ_FAST, WRITE_FAST};
use super::values::{self, get, get_or_new};
use super::{Args, Command, Cx, Done, Fail, answer, ok, yes_or_no};
use crate::data::{Hash, P, Txn};
use crate::resp::Reply;
use crate::text::extended::Extended;
use crate::text::random::random;
use crate::text::words;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("hdel", -3, WRITE_FAST, KEY, hdel).access("RW delete"),
    Command::new("hexists", 3, READ_FAST, KEY, hexists).access("RO"),
    Command::new("hget", 3, READ_FAST, KEY, hget),
    Command::new("hgetall", 2, READ, KEY, hgetall),
    Command::new("hincrby", 4, ADD_FAST, KEY, hincrby),
    Command::new("hincrbyfloat", 4, ADD_FAST, KEY, hincrbyfloat),
    Command::new("hkeys", 2, READ, KEY, |cx, args, out| all(cx, args[1], EntryPart::Field, out)),
    Command::new("hlen", 2, READ_FAST, KEY, values::answer_len::<Hash>).access("RO"),
    Command::new("hmget", -3, READ_FAST, KEY, hmget),
    Command::new("hmset", -4, ADD_FAST, KEY, |cx, args, out| {
        set(cx, args, "hmset")?;
        ok(out)
    })
    .access("RW update"),
    Command::new("hrandfield", -2, READ, KEY, hrandfield),
    Command::new("hscan", -3, READ, KEY, hscan),
    Command::new("hset", -4, ADD_FAST, KEY, |cx, args, out| answer::count(out, set(cx, args, "hset")?))
        .access("RW update"),
    Command::new("hsetnx", 4, ADD_FAST, KEY, hsetnx).access("RW insert"),
    Command::new("hstrlen", 3, READ_FAST, KEY, hstrlen).access("RO"),
    Command::new("hvals", 2, READ, KEY, |cx, args, out| all(cx, args[1], EntryPart::Value, out)),
];

/// The part of each entry with which `HKEYS` or `HVALS` answers.
#[derive(Clone, Copy, PartialEq)]
enum EntryPart {
    Field,
    Value,
}

/// Sets the value of a field. Returns whether the field is new.
fn put<'r>(tx: &mut Txn<'r>, hash: P<'r, Hash<'r>>, field: &[u8], value: &[u8]) -> pheap::Result<bool> {
    let value = tx.alloc_slice_copy(value)?;
    Ok(hash.insert(tx, field, value)?.is_none())
}

/// Calls `f` with the value of a field.
fn with_field(cx: &mut Cx<'_>, args: &Args<'_>, f: impl FnOnce(Option<&[u8]>)) -> Done {
    cx.read_value::<Hash, _>(args[1], |view, hash| {
        let value = hash.and_then(|hash| hash.get(view, args[2]));
        f(value.map(|&value| &view[value]));
        Ok(())
    })
}

fn hget(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    with_field(cx, args, |value| out.maybe_bulk(value))
}

fn hexists(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    with_field(cx, args, |value| out.count(usize::from(value.is_some())))
}

fn hstrlen(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    with_field(cx, args, |value| out.count(value.map_or(0, <[u8]>::len)))
}

fn hmget(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    cx.read_value::<Hash, _>(args[1], |view, hash| {
        out.array(args.len() - 2);
        for field in &args[2..] {
            out.maybe_bulk(hash.and_then(|hash| hash.get(view, field)).map(|&value| &view[value]));
        }
        Ok(())
    })
}

fn hgetall(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    cx.read_value::<Hash, _>(args[1], |view, hash| {
        out.map(hash.map_or(0, |hash| view[hash].len()));
        for (field, &value) in hash.into_iter().flat_map(|hash| hash.iter(view)) {
            out.bulk(field);
            out.bulk(&view[value]);
        }
        Ok(())
    })
}

/// Answers with all fields, or with all values.
fn all(cx: &mut Cx<'_>, key: &[u8], part: EntryPart, out: &mut Reply) -> Done {
    cx.read_value::<Hash, _>(key, |view, hash| {
        out.array(hash.map_or(0, |hash| view[hash].len()));
        for (field, &value) in hash.into_iter().flat_map(|hash| hash.iter(view)) {
            out.bulk(if part == EntryPart::Field { field } else { &view[value] });
        }
        Ok(())
    })
}

/// Sets the values of fields. Returns how many fields are new.
fn set(cx: &mut Cx<'_>, args: &Args<'_>, command: &str) -> Result<usize, Fail> {
    let pairs = args[2..].chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return Err(Fail::arity(command));
    }
    let count = pairs.len() as u64;
    let new = cx.change_or_create::<Hash, _>(args[1], |tx, hash| {
        let mut new = 0;
        for pair in pairs {
            new += usize::from(put(tx, hash, pair[0], pair[1])?);
        }
        Ok(new)
    })?;
    cx.touched_often(b'h', "hset", args[1], count);
    Ok(new)
}

fn hsetnx(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, field) = (args[1], args[2]);
    let is_new = cx.change_or_create::<Hash, _>(key, |tx, hash| {
        Ok(!hash.contains_key(tx, field) && put(tx, hash, field, args[3])?)
    })?;
    if is_new {
        cx.touched(b'h', "hset", key);
    }
    yes_or_no(out, is_new)
}

fn hdel(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let count = cx.remove_elements::<Hash>(args[1], "hdel", |tx, hash, _| {
        Ok(args[2..].iter().filter(|field| hash.remove(tx, *field).is_some()).count())
    });
    count.map(|count| out.count(count.unwrap_or(0)))
}

/// Replaces the value of a field by the one that `new` computes from the old value.
fn update<R>(
    cx: &mut Cx<'_>,
    args: &Args<'_>,
    event: &str,
    new: impl FnOnce(Option<&[u8]>, &mut Vec<u8>) -> Result<R, Fail>,
) -> Result<R, Fail> {
    let (key, field, now) = (args[1], args[2], cx.now);
    let result = cx.write(key, |tx, db| {
        let mut value = Vec::new();
        let hash = get::<Hash>(tx, &tx[db], key, now)?;
        let old = hash.and_then(|hash| hash.get(tx, field)).map(|&value| &tx[value]);
        let result = new(old, &mut value)?;
        let hash = get_or_new::<Hash>(tx, db, key, now)?;
        put(tx, hash, field, &value)?;
        Ok::<_, Fail>(result)
    })?;
    cx.touched(b'h', event, key);
    Ok(result)
}

fn hincrby(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let by = int(args[3])?;
    let new = update(cx, args, "hincrby", |old, value| {
        let old = old.map_or(Some(0), words::int).ok_or_else(|| Fail::err("hash value is not an integer"))?;
        let new = old.checked_add(by).ok_or_else(|| Fail::err("increment or decrement would overflow"))?;
        value.extend_from_slice(words::decimal(new, &mut [0; 20]));
        Ok(new)
    })?;
    answer::int(out, new)
}

fn hincrbyfloat(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let by = Extended::parse(args[3]).ok_or(Fail::NOT_A_FLOAT)?;
    let by = by.ok_or_else(|| Fail::err("value is NaN or Infinity"))?;
    update(cx, args, "hincrbyfloat", |old, value| {
        let infinite = || Fail::err("increment would produce NaN or Infinity");
        let old = match old {
            None => Extended::of(0),
            Some(text) => {
                let old = Extended::parse(text).ok_or_else(|| Fail::err("hash value is not a float"))?;
                old.ok_or_else(infinite)?
            }
        };
        let new = old.plus(by).ok_or_else(infinite)?;
        value.extend_from_slice(new.show().as_bytes());
        answer::bulk(out, value)
    })
}

fn hrandfield(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let asked = PickCount::of_pairs(&args[2..], "withvalues")?;
    cx.read_value::<Hash, _>(args[1], |view, hash| {
        let len = hash.map_or(0, |hash| view[hash].len());
        let one = || hash.and_then(|hash| hash.choose(view, random));
        let all = || hash.into_iter().flat_map(|hash| hash.iter(view));
        pick::answer(asked, len, one, all, |(field, _)| field, out, |(_, &value), out| out.bulk(&view[value]))
    })
}

fn hscan(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    Scan::of_value::<Hash>(cx, args, out, |view, hash, asked, is_compact, out| {
        let (step, name) = (|from| hash.scan(view, from), |(field, _)| field);
        asked.answer(is_compact, step, name, out, |(field, &value), out| {
            out.bulk(field);
            out.bulk(&view[value]);
            2
        });
    })
}
