//! Strings.

use std::sync::atomic::Ordering::Relaxed;

use super::args::{int, invalid_time};
use super::{Args, Command, Cx, Done, Fail, Flags, Keys};
use crate::data::{Change, Value};
use crate::resp::Reply;
use crate::words;

const KEY: Keys = Keys::Range(1, 1, 1);
const WRITE: &[Flags] = &[Flags::WRITE, Flags::DENYOOM, Flags::FAST];
const SLOW_WRITE: &[Flags] = &[Flags::WRITE, Flags::DENYOOM];
const READ: &[Flags] = &[Flags::READONLY, Flags::FAST];

pub(super) const COMMANDS: &[Command] = &[
    Command::new("append", 3, WRITE, KEY, append),
    Command::new("decr", 2, WRITE, KEY, |cx, args, out| add(cx, args[1], -1, out)),
    Command::new("decrby", 3, WRITE, KEY, decrby),
    Command::new("get", 2, READ, KEY, get),
    Command::new("getdel", 2, &[Flags::WRITE, Flags::FAST], KEY, getdel),
    Command::new("getrange", 4, &[Flags::READONLY], KEY, getrange),
    Command::new("getset", 3, WRITE, KEY, getset),
    Command::new("incr", 2, WRITE, KEY, |cx, args, out| add(cx, args[1], 1, out)),
    Command::new("incrby", 3, WRITE, KEY, |cx, args, out| add(cx, args[1], int(args[2])?, out)),
    Command::new("mget", -2, READ, Keys::Range(1, -1, 1), mget),
    Command::new("mset", -3, SLOW_WRITE, Keys::Range(1, -1, 2), mset),
    Command::new("msetnx", -3, SLOW_WRITE, Keys::Range(1, -1, 2), msetnx),
    Command::new("psetex", 4, SLOW_WRITE, KEY, |cx, args, out| setex(cx, args, 1, out)),
    Command::new("set", -3, SLOW_WRITE, KEY, set),
    Command::new("setex", 4, SLOW_WRITE, KEY, |cx, args, out| setex(cx, args, 1000, out)),
    Command::new("setnx", 3, WRITE, KEY, setnx),
    Command::new("strlen", 2, READ, KEY, strlen),
    Command::new("substr", 4, &[Flags::READONLY], KEY, getrange),
];

/// Writes what a key stands for, which must be a string.
fn bulk(cx: &mut Cx<'_>, key: &[u8], out: &mut Reply) -> Done {
    let now = cx.now;
    cx.read(key, |view, db| match db.get(view, key, now) {
        None => {
            out.null();
            Ok(())
        }
        Some(value) => value.with_bytes(view, |bytes| out.bulk(bytes)).ok_or(Fail::WRONG_TYPE),
    })
}

fn get(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    bulk(cx, args[1], out)
}

fn mget(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    out.array(args.len() - 1);
    for key in &args[1..] {
        if bulk(cx, key, out).is_err() {
            out.null();
        }
    }
    Ok(())
}

fn strlen(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.now);
    out.count(cx.read(key, |view, db| match db.get(view, key, now) {
        None => Ok(0),
        Some(value) => value.with_bytes(view, <[u8]>::len).ok_or(Fail::WRONG_TYPE),
    })?);
    Ok(())
}

fn getrange(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, start, end, now) = (args[1], int(args[2])?, int(args[3])?, cx.now);
    cx.read(key, |view, db| {
        let Some(value) = db.get(view, key, now) else {
            out.bulk(b"");
            return Ok(());
        };
        let part = |bytes: &[u8]| {
            let len = bytes.len() as i64;
            let from_end = |at: i64| if at < 0 { at.saturating_add(len).max(0) } else { at };
            // Both before the beginning, and the wrong way round: nothing.
            let is_backwards = start < 0 && end < 0 && start > end;
            let (first, last) = (from_end(start), from_end(end).min(len - 1));
            if is_backwards || first > last {
                out.bulk(b"")
            } else {
                out.bulk(&bytes[first as usize..=last as usize])
            }
        };
        value.with_bytes(view, part).ok_or(Fail::WRONG_TYPE)
    })
}

/// When `SET` does something.
#[derive(Clone, Copy, PartialEq)]
enum If {
    Always,
    Absent,
    Present,
}

fn set(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, value) = (args[1], args[2]);
    let (mut condition, mut deadline, mut keeps, mut gets) = (If::Always, None, false, false);
    let mut rest = args[3..].iter();
    while let Some(option) = rest.next() {
        match option.to_ascii_lowercase().as_slice() {
            b"nx" if condition != If::Present => condition = If::Absent,
            b"xx" if condition != If::Absent => condition = If::Present,
            b"get" => gets = true,
            b"keepttl" if deadline.is_none() => keeps = true,
            unit @ (b"ex" | b"px" | b"exat" | b"pxat") if deadline.is_none() && !keeps => {
                let number = int(rest.next().ok_or(Fail::SYNTAX)?)?;
                let unit_ms = if unit.starts_with(b"e") { 1000 } else { 1 };
                deadline = Some(deadline_of(number, unit_ms, unit.ends_with(b"at"), cx.now, "set")?);
            }
            _ => return Err(Fail::SYNTAX),
        }
    }
    let now = cx.now;
    let was_there = cx.read(key, |view, db| db.get(view, key, now).is_some());
    if gets {
        bulk(cx, key, out)?;
    }
    let is_wanted = match condition {
        If::Always => true,
        If::Absent => !was_there,
        If::Present => was_there,
    };
    if !is_wanted {
        if !gets {
            out.null();
        }
        return Ok(());
    }
    store(cx, key, value, deadline, keeps)?;
    if !gets {
        out.ok();
    }
    Ok(())
}

/// When something expires that is given a number of seconds, or milliseconds, or a time.
pub(super) fn deadline_of(
    number: i64,
    unit_ms: i64,
    is_time: bool,
    now: i64,
    command: &str,
) -> Result<i64, Fail> {
    let invalid = || invalid_time(command);
    let ms = number.checked_mul(unit_ms).filter(|&ms| ms > 0).ok_or_else(invalid)?;
    if is_time { Ok(ms) } else { ms.checked_add(now).ok_or_else(invalid) }
}

/// Gives a key a string.
fn store(cx: &mut Cx<'_>, key: &[u8], value: &[u8], deadline: Option<i64>, keeps: bool) -> Done {
    let now = cx.now;
    cx.write(key, |tx, db| {
        // A key that has expired has no deadline to keep.
        let is_there = tx[db].get(tx, key, now).is_some();
        let value = Value::string(tx, value)?;
        if keeps && is_there {
            db.put(tx, key, value)?;
        } else {
            db.set(tx, key, value)?;
        }
        if deadline.is_some() {
            db.set_deadline(tx, key, deadline)?;
        }
        Ok::<(), pheap::Error>(())
    })?;
    cx.touched(b'$', "set", key);
    if deadline.is_some() {
        cx.notify(b'g', "expire", key);
    }
    Ok(())
}

fn setex(cx: &mut Cx<'_>, args: &Args<'_>, unit_ms: i64, out: &mut Reply) -> Done {
    let command = if unit_ms == 1 { "psetex" } else { "setex" };
    let deadline = deadline_of(int(args[2])?, unit_ms, false, cx.now, command)?;
    store(cx, args[1], args[3], Some(deadline), false)?;
    out.ok();
    Ok(())
}

fn setnx(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.now);
    let is_absent = cx.read(key, |view, db| db.get(view, key, now).is_none());
    if is_absent {
        store(cx, key, args[2], None, false)?;
    }
    out.int(i64::from(is_absent));
    Ok(())
}

fn getset(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    bulk(cx, args[1], out)?;
    store(cx, args[1], args[2], None, false)
}

fn getdel(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.now);
    bulk(cx, key, out)?;
    let was_there = cx.write(key, |tx, db| {
        let was_there = tx[db].get(tx, key, now).is_some();
        db.remove(tx, key);
        was_there
    });
    if was_there {
        cx.touched(b'g', "del", key);
    }
    Ok(())
}

fn mset(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    for pair in pairs(args, "mset")? {
        store(cx, pair[0], pair[1], None, false)?;
    }
    out.ok();
    Ok(())
}

fn msetnx(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let now = cx.now;
    let mut pairs = pairs(args, "msetnx")?;
    let is_free = pairs.clone().all(|pair| cx.read(pair[0], |view, db| db.get(view, pair[0], now).is_none()));
    if is_free {
        pairs.try_for_each(|pair| store(cx, pair[0], pair[1], None, false))?;
    }
    out.int(i64::from(is_free));
    Ok(())
}

/// Keys and values behind a command's name.
fn pairs<'a>(args: &'a Args<'a>, name: &str) -> Result<std::slice::ChunksExact<'a, &'a [u8]>, Fail> {
    let pairs = args[1..].chunks_exact(2);
    if pairs.remainder().is_empty() { Ok(pairs) } else { Err(Fail::arity(name)) }
}

fn decrby(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let by = int(args[2])?.checked_neg().ok_or_else(|| Fail::err("decrement would overflow"))?;
    add(cx, args[1], by, out)
}

/// Adds to a number.
fn add(cx: &mut Cx<'_>, key: &[u8], by: i64, out: &mut Reply) -> Done {
    let now = cx.now;
    let old = cx.read(key, |view, db| match db.get(view, key, now) {
        None => Ok(0),
        Some(Value::Int(number)) => Ok(number),
        Some(value) => {
            let number = value.with_bytes(view, words::int).ok_or(Fail::WRONG_TYPE)?;
            number.ok_or(Fail::NOT_AN_INTEGER)
        }
    })?;
    let new = old.checked_add(by).ok_or_else(|| Fail::err("increment or decrement would overflow"))?;
    put(cx, key, |_| Ok(Value::Int(new)))?;
    cx.touched(b'$', "incrby", key);
    out.int(new);
    Ok(())
}

/// Gives a key another value. Its deadline stays, unless it has expired.
fn put(
    cx: &mut Cx<'_>,
    key: &[u8],
    value: impl for<'r> FnOnce(&crate::data::Txn<'r>) -> pheap::Result<Value<'r>>,
) -> pheap::Result<()> {
    let now = cx.now;
    cx.write(key, |tx, db| {
        let value = value(tx)?;
        if tx[db].get(tx, key, now).is_some() { db.put(tx, key, value) } else { db.set(tx, key, value) }
    })
}

fn append(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, more, now) = (args[1], args[2], cx.now);
    let limit = cx.server.limits.bulk.load(Relaxed) as usize;
    let len = cx.write(key, |tx, db| {
        let buffer = match tx[db].get(tx, key, now) {
            None => {
                db.set(tx, key, Value::string(tx, more)?)?;
                return Ok(more.len());
            }
            Some(Value::Buffer(buffer)) => buffer,
            Some(value) => {
                let old = value.with_bytes(tx, <[u8]>::to_vec).ok_or(Fail::WRONG_TYPE)?;
                if old.len() + more.len() > limit {
                    return Err(Fail::err("string exceeds maximum allowed size (proto-max-bulk-len)"));
                }
                let bytes = pheap::PVec::from_slice(tx, &old)?;
                let buffer = tx.alloc(bytes)?;
                db.put(tx, key, Value::Buffer(buffer))?;
                buffer
            }
        };
        if tx[buffer].len() + more.len() > limit {
            return Err(Fail::err("string exceeds maximum allowed size (proto-max-bulk-len)"));
        }
        buffer.extend_from_slice(tx, more)?;
        Ok(tx[buffer].len())
    })?;
    cx.touched(b'$', "append", key);
    out.count(len);
    Ok(())
}
