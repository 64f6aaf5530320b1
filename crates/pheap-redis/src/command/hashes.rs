//! Hashes.

use super::args::{Scan, cursor, int};
use super::object::{Limits, is_compact};
use super::pick::{Wanted, pick};
use super::{Args, Command, Cx, Done, Fail, Flags, Keys};
use crate::data::{Change, Db, Hash, P, Txn, Value, View};
use crate::extended::Extended;
use crate::random::random;
use crate::resp::Reply;
use crate::words;

const KEY: Keys = Keys::Range(1, 1, 1);
const WRITE: &[Flags] = &[Flags::WRITE, Flags::DENYOOM, Flags::FAST];
const READ: &[Flags] = &[Flags::READONLY, Flags::FAST];
const SLOW_READ: &[Flags] = &[Flags::READONLY];

pub(super) const COMMANDS: &[Command] = &[
    Command::new("hdel", -3, &[Flags::WRITE, Flags::FAST], KEY, hdel),
    Command::new("hexists", 3, READ, KEY, hexists),
    Command::new("hget", 3, READ, KEY, hget),
    Command::new("hgetall", 2, SLOW_READ, KEY, hgetall),
    Command::new("hincrby", 4, WRITE, KEY, hincrby),
    Command::new("hincrbyfloat", 4, WRITE, KEY, hincrbyfloat),
    Command::new("hkeys", 2, SLOW_READ, KEY, |cx, args, out| all(cx, args[1], Part::Field, out)),
    Command::new("hlen", 2, READ, KEY, hlen),
    Command::new("hmget", -3, READ, KEY, hmget),
    Command::new("hmset", -4, WRITE, KEY, |cx, args, out| {
        set(cx, args, "hmset")?;
        out.ok();
        Ok(())
    }),
    Command::new("hrandfield", -2, SLOW_READ, KEY, hrandfield),
    Command::new("hscan", -3, SLOW_READ, KEY, hscan),
    Command::new("hset", -4, WRITE, KEY, |cx, args, out| {
        out.count(set(cx, args, "hset")?);
        Ok(())
    }),
    Command::new("hsetnx", 4, WRITE, KEY, hsetnx),
    Command::new("hstrlen", 3, READ, KEY, hstrlen),
    Command::new("hvals", 2, SLOW_READ, KEY, |cx, args, out| all(cx, args[1], Part::Value, out)),
];

/// What of an entry is asked for.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Field,
    Value,
}

/// The hash of a key, if there is one.
fn hash<'r>(view: &View<'r>, db: &Db<'r>, key: &[u8], now: i64) -> Result<Option<P<'r, Hash<'r>>>, Fail> {
    match db.get(view, key, now) {
        None => Ok(None),
        Some(Value::Hash(hash)) => Ok(Some(hash)),
        Some(_) => Err(Fail::WRONG_TYPE),
    }
}

/// The hash of a key, which is made if there is none.
fn hash_to_fill<'r>(
    tx: &mut Txn<'r>,
    db: P<'r, Db<'r>>,
    key: &[u8],
    now: i64,
) -> Result<P<'r, Hash<'r>>, Fail> {
    if let Some(hash) = hash(tx, &tx[db], key, now)? {
        return Ok(hash);
    }
    let hash = tx.alloc(Hash::new())?;
    db.set(tx, key, Value::Hash(hash))?;
    Ok(hash)
}

/// Gives a field a value. Whether it is new.
fn put<'r>(tx: &mut Txn<'r>, hash: P<'r, Hash<'r>>, field: &[u8], value: &[u8]) -> pheap::Result<bool> {
    let value = tx.alloc_slice_copy(value)?;
    Ok(hash.insert(tx, field, value)?.is_none())
}

/// Shows `f` the value of a field.
fn with_field<R>(cx: &mut Cx<'_>, args: &Args<'_>, f: impl FnOnce(Option<&[u8]>) -> R) -> Result<R, Fail> {
    let (key, field, now) = (args[1], args[2], cx.now);
    cx.read(key, |view, db| {
        let value = hash(view, db, key, now)?.and_then(|hash| hash.get(view, field));
        Ok(f(value.map(|&value| &view[value])))
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
    let (key, now) = (args[1], cx.now);
    cx.read(key, |view, db| {
        let hash = hash(view, db, key, now)?;
        out.array(args.len() - 2);
        for field in &args[2..] {
            out.maybe_bulk(hash.and_then(|hash| hash.get(view, field)).map(|&value| &view[value]));
        }
        Ok(())
    })
}

fn hlen(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.now);
    out.count(
        cx.read(key, |view, db| Ok::<_, Fail>(hash(view, db, key, now)?.map_or(0, |hash| view[hash].len())))?,
    );
    Ok(())
}

fn hgetall(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.now);
    cx.read(key, |view, db| {
        let Some(hash) = hash(view, db, key, now)? else {
            out.map(0);
            return Ok(());
        };
        out.map(view[hash].len());
        hash.iter(view).for_each(|(field, &value)| {
            out.bulk(field);
            out.bulk(&view[value]);
        });
        Ok(())
    })
}

/// All fields, or all values.
fn all(cx: &mut Cx<'_>, key: &[u8], part: Part, out: &mut Reply) -> Done {
    let now = cx.now;
    cx.read(key, |view, db| {
        let Some(hash) = hash(view, db, key, now)? else {
            out.array(0);
            return Ok(());
        };
        out.array(view[hash].len());
        hash.iter(view).for_each(|(field, &value)| {
            out.bulk(if part == Part::Field { field } else { &view[value] });
        });
        Ok(())
    })
}

/// Gives fields values. How many are new.
fn set(cx: &mut Cx<'_>, args: &Args<'_>, command: &str) -> Result<usize, Fail> {
    let (key, now) = (args[1], cx.now);
    let pairs = args[2..].chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return Err(Fail::arity(command));
    }
    let count = pairs.len() as u64;
    let new = cx.write(key, |tx, db| {
        let hash = hash_to_fill(tx, db, key, now)?;
        let mut new = 0;
        for pair in pairs {
            new += usize::from(put(tx, hash, pair[0], pair[1])?);
        }
        Ok::<_, Fail>(new)
    })?;
    cx.touched(b'h', "hset", key);
    cx.effects.dirty += count - 1;
    Ok(new)
}

fn hsetnx(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, field, now) = (args[1], args[2], cx.now);
    let is_new = cx.write(key, |tx, db| {
        let is_there = hash(tx, &tx[db], key, now)?.is_some_and(|hash| hash.contains_key(tx, field));
        if !is_there {
            let hash = hash_to_fill(tx, db, key, now)?;
            put(tx, hash, field, args[3])?;
        }
        Ok::<_, Fail>(!is_there)
    })?;
    if is_new {
        cx.touched(b'h', "hset", key);
    }
    out.int(i64::from(is_new));
    Ok(())
}

fn hdel(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.now);
    let (count, is_gone) = cx.write(key, |tx, db| {
        let Some(hash) = hash(tx, &tx[db], key, now)? else { return Ok::<_, Fail>((0, false)) };
        let count = args[2..].iter().filter(|field| hash.remove(tx, *field).is_some()).count();
        let is_gone = tx[hash].is_empty();
        if is_gone {
            db.remove(tx, key);
        }
        Ok((count, is_gone))
    })?;
    if count > 0 {
        cx.touched(b'h', "hdel", key);
        cx.effects.dirty += count as u64 - 1;
        if is_gone {
            cx.notify(b'g', "del", key);
        }
    }
    out.count(count);
    Ok(())
}

/// Gives a field another value, which `new` makes of the old one.
fn update<R>(
    cx: &mut Cx<'_>,
    args: &Args<'_>,
    event: &str,
    new: impl FnOnce(Option<&[u8]>, &mut Vec<u8>) -> Result<R, Fail>,
) -> Result<R, Fail> {
    let (key, field, now) = (args[1], args[2], cx.now);
    let result = cx.write(key, |tx, db| {
        let mut value = Vec::new();
        let old = hash(tx, &tx[db], key, now)?.and_then(|hash| hash.get(tx, field)).map(|&value| &tx[value]);
        let result = new(old, &mut value)?;
        let hash = hash_to_fill(tx, db, key, now)?;
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
    out.int(new);
    Ok(())
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
        out.bulk(value);
        Ok(())
    })
}

fn hrandfield(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.now);
    let (wanted, with_values) = Wanted::of_pairs(&args[2..], "withvalues")?;
    cx.read(key, |view, db| {
        let hash = hash(view, db, key, now)?;
        let Some(wanted) = wanted else {
            out.maybe_bulk(hash.and_then(|hash| hash.choose(view, random)).map(|(field, _)| field));
            return Ok(());
        };
        let Some(hash) = hash else {
            out.array(0);
            return Ok(());
        };
        let len = view[hash].len();
        let is_nested = with_values && out.is_resp3();
        let count = wanted.of(len);
        out.array(if with_values && !is_nested { 2 * count } else { count });
        let (one, all) = (|| hash.choose(view, random), || hash.iter(view));
        pick(
            wanted,
            len,
            one,
            all,
            |(field, _)| field,
            |(field, &value)| {
                if is_nested {
                    out.array(2);
                }
                out.bulk(field);
                if with_values {
                    out.bulk(&view[value]);
                }
                !out.is_too_long()
            },
        );
        Ok(())
    })
}

fn hscan(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.now);
    cursor(args[2])?;
    let limits = Limits::of(cx);
    cx.read(key, |view, db| {
        let Some(hash) = hash(view, db, key, now)? else {
            Scan::nothing(out);
            return Ok(());
        };
        let asked = Scan::parse(&args[2..], false)?;
        asked.answer(
            is_compact(view, db.get(view, key, now), &limits),
            |from| hash.scan(view, from),
            |(field, _)| field,
            out,
            |(field, &value), out| {
                out.bulk(field);
                out.bulk(&view[value]);
                2
            },
        );
        Ok(())
    })
}
