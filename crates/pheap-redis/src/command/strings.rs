//! Commands for strings.

use super::args::{byte_range, int, invalid_time, value};
use super::buffers::{StringLimit, buffer};
use super::table::{ADD, ADD_FAST, ALL_KEYS, KEY, READ, READ_FAST, WRITE_FAST};
use super::{Args, Command, Cx, Done, Fail, Keys, answer, ok, yes_or_no};
use crate::data::{Change, Value};
use crate::resp::Reply;
use crate::text::extended::Extended;
use crate::text::words;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("append", 3, ADD_FAST, KEY, append).access("RW insert"),
    Command::new("decr", 2, ADD_FAST, KEY, |cx, args, out| add(cx, args[1], -1, out)),
    Command::new("decrby", 3, ADD_FAST, KEY, decrby),
    Command::new("get", 2, READ_FAST, KEY, |cx, args, out| bulk(cx, args[1], out)),
    Command::new("getdel", 2, WRITE_FAST, KEY, getdel).access("RW access delete"),
    Command::new("getex", -2, WRITE_FAST, KEY, getex),
    Command::new("getrange", 4, READ, KEY, getrange),
    Command::new("getset", 3, ADD_FAST, KEY, getset),
    Command::new("incr", 2, ADD_FAST, KEY, |cx, args, out| add(cx, args[1], 1, out)),
    Command::new("incrby", 3, ADD_FAST, KEY, |cx, args, out| add(cx, args[1], int(args[2])?, out)),
    Command::new("incrbyfloat", 3, ADD_FAST, KEY, incrbyfloat),
    Command::new("mget", -2, READ_FAST, ALL_KEYS, mget),
    Command::new("mset", -3, ADD, Keys::Range(1, -1, 2), mset).access("OW update"),
    Command::new("msetnx", -3, ADD, Keys::Range(1, -1, 2), msetnx).access("OW insert"),
    Command::new("psetex", 4, ADD, KEY, |cx, args, out| setex(cx, args, 1, out)).access("OW update"),
    Command::new("set", -3, ADD, KEY, set),
    Command::new("setex", 4, ADD, KEY, |cx, args, out| setex(cx, args, 1000, out)).access("OW update"),
    Command::new("setnx", 3, ADD_FAST, KEY, setnx).access("OW insert"),
    Command::new("setrange", 4, ADD, KEY, setrange).access("RW update"),
    Command::new("strlen", 2, READ_FAST, KEY, strlen).access("RO"),
    Command::new("substr", 4, READ, KEY, getrange),
];

/// Answers with the string of a key.
fn bulk(cx: &mut Cx<'_>, key: &[u8], out: &mut Reply) -> Done {
    cx.read_string(key, |bytes| answer::maybe_bulk(out, bytes))
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
    cx.read_string(args[1], |bytes| Ok(bytes.map_or(0, <[u8]>::len))).map(|len| out.count(len))
}

fn getrange(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (start, end) = (int(args[2])?, int(args[3])?);
    cx.read_string(args[1], |bytes| {
        let bytes = bytes.unwrap_or_default();
        // If start and end both count from the end of the string and are in the wrong order, the range is
        // empty.
        let is_backwards = start < 0 && end < 0 && start > end;
        let places = if is_backwards { 0..0 } else { byte_range(start, end, bytes.len()) };
        answer::bulk(out, &bytes[places])
    })
}

/// Condition of `SET`.
#[derive(Clone, Copy, PartialEq)]
enum SetCondition {
    Always,
    Absent,
    Present,
}

/// What `SET` or `GETEX` does with the deadline of the key.
#[derive(Clone, Copy, PartialEq)]
enum ExpiryOption<'a> {
    /// No option is given: the command does what it does by default.
    Default,
    /// The deadline stays.
    Keep,
    /// The deadline is removed.
    Persist,
    /// The deadline is set to `number` units of `unit_ms` milliseconds: a point in time if `is_time`, or a
    /// time from now.
    At { number: &'a [u8], unit_ms: i64, is_time: bool },
}

impl<'a> ExpiryOption<'a> {
    /// Parses the option `name` and its argument, which is taken from `rest`. The same option may be given
    /// again.
    fn parse(self, name: &[u8], rest: &mut std::slice::Iter<'_, &'a [u8]>) -> Result<ExpiryOption<'a>, Fail> {
        let (unit_ms, is_time) = match name {
            b"ex" => (1000, false),
            b"px" => (1, false),
            b"exat" => (1000, true),
            b"pxat" => (1, true),
            _ => return Err(Fail::SYNTAX),
        };
        match self {
            ExpiryOption::Default => {}
            ExpiryOption::At { unit_ms: unit, is_time: time, .. } if (unit, time) == (unit_ms, is_time) => {}
            _ => return Err(Fail::SYNTAX),
        }
        Ok(ExpiryOption::At { number: value(rest)?, unit_ms, is_time })
    }

    /// Returns the deadline that the option sets, if it sets one.
    fn deadline(self, now: i64, command: &str) -> Result<Option<i64>, Fail> {
        let ExpiryOption::At { number, unit_ms, is_time } = self else { return Ok(None) };
        deadline_of(int(number)?, unit_ms, is_time, now, command).map(Some)
    }
}

fn set(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, value) = (args[1], args[2]);
    let (mut condition, mut expiry, mut gets) = (SetCondition::Always, ExpiryOption::Default, false);
    let mut rest = args[3..].iter();
    while let Some(option) = rest.next() {
        match option.to_ascii_lowercase().as_slice() {
            b"nx" if condition != SetCondition::Present => condition = SetCondition::Absent,
            b"xx" if condition != SetCondition::Absent => condition = SetCondition::Present,
            b"get" => gets = true,
            b"keepttl" if matches!(expiry, ExpiryOption::Default | ExpiryOption::Keep) => {
                expiry = ExpiryOption::Keep
            }
            option => expiry = expiry.parse(option, &mut rest)?,
        }
    }
    let deadline = expiry.deadline(cx.clock, "set")?;
    if gets {
        bulk(cx, key, out)?;
    }
    let is_wanted = match condition {
        SetCondition::Always => true,
        _ => cx.key_exists(key) == (condition == SetCondition::Present),
    };
    if !is_wanted {
        if !gets {
            out.null();
        }
        return Ok(());
    }
    store(cx, key, value, deadline, expiry == ExpiryOption::Keep)?;
    if !gets {
        out.ok();
    }
    Ok(())
}

fn getex(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, now, mut expiry) = (args[1], cx.now, ExpiryOption::Default);
    let mut rest = args[2..].iter();
    while let Some(option) = rest.next() {
        match option.to_ascii_lowercase().as_slice() {
            b"persist" if matches!(expiry, ExpiryOption::Default | ExpiryOption::Persist) => {
                expiry = ExpiryOption::Persist
            }
            option => expiry = expiry.parse(option, &mut rest)?,
        }
    }
    bulk(cx, key, out)?;
    if expiry == ExpiryOption::Default || !cx.key_exists(key) {
        return Ok(());
    }
    let has_deadline = |cx: &mut Cx<'_>| cx.read(key, |view, db| db.deadline(view, key).is_some());
    match expiry.deadline(cx.clock, "getex")? {
        Some(at) if at <= now => _ = cx.remove(key),
        Some(at) => {
            cx.write(key, |tx, db| db.set_deadline(tx, key, Some(at)))?;
            cx.touched(b'g', "expire", key);
        }
        None if has_deadline(cx) => {
            cx.write(key, |tx, db| db.set_deadline(tx, key, None))?;
            cx.touched(b'g', "persist", key);
        }
        None => {}
    }
    Ok(())
}

/// Returns the deadline for `number` units of `unit_ms` milliseconds: a point in time if `is_time`, or a time
/// from now. Fails if the number is not positive, or if the deadline is out of range.
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

/// Sets the string of a key, and its deadline to `deadline`. If that is `None`, the old deadline stays if
/// `keeps` is true, and is removed otherwise.
fn store(cx: &mut Cx<'_>, key: &[u8], value: &[u8], deadline: Option<i64>, keeps: bool) -> Done {
    let now = cx.now;
    cx.write(key, |tx, db| {
        let value = Value::string(tx, value)?;
        // The deadline of an expired key is not kept.
        if keeps && tx[db].get(tx, key, now).is_some() {
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
    let deadline = deadline_of(int(args[2])?, unit_ms, false, cx.clock, command)?;
    store(cx, args[1], args[3], Some(deadline), false)?;
    ok(out)
}

fn setnx(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let is_absent = !cx.key_exists(args[1]);
    if is_absent {
        store(cx, args[1], args[2], None, false)?;
    }
    yes_or_no(out, is_absent)
}

fn getset(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    bulk(cx, args[1], out)?;
    store(cx, args[1], args[2], None, false)
}

fn getdel(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    bulk(cx, args[1], out)?;
    cx.remove(args[1]);
    Ok(())
}

fn mset(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    for pair in pairs(args, "mset")? {
        store(cx, pair[0], pair[1], None, false)?;
    }
    ok(out)
}

fn msetnx(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let mut pairs = pairs(args, "msetnx")?;
    let is_free = pairs.clone().all(|pair| !cx.key_exists(pair[0]));
    if is_free {
        pairs.try_for_each(|pair| store(cx, pair[0], pair[1], None, false))?;
    }
    yes_or_no(out, is_free)
}

/// Returns the pairs of keys and values after the name of a command.
fn pairs<'a>(args: &'a Args<'a>, name: &str) -> Result<std::slice::ChunksExact<'a, &'a [u8]>, Fail> {
    let pairs = args[1..].chunks_exact(2);
    if pairs.remainder().is_empty() { Ok(pairs) } else { Err(Fail::arity(name)) }
}

fn decrby(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let by = int(args[2])?.checked_neg().ok_or_else(|| Fail::err("decrement would overflow"))?;
    add(cx, args[1], by, out)
}

/// Adds `by` to the number of a key.
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
    answer::int(out, new)
}

/// Sets the value of a key. The deadline stays, unless the key has expired.
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

fn incrbyfloat(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let key = args[1];
    let old = cx.read_string(key, |bytes| {
        bytes.map_or(Some(Some(Extended::ZERO)), Extended::parse).ok_or(Fail::NOT_A_FLOAT)
    })?;
    let by = Extended::parse(args[2]).ok_or(Fail::NOT_A_FLOAT)?;
    let sum = old.zip(by).and_then(|(old, by)| old.plus(by));
    let text = sum.ok_or_else(|| Fail::err("increment would produce NaN or Infinity"))?.show();
    put(cx, key, |tx| Value::string(tx, text.as_bytes()))?;
    cx.touched(b'$', "incrbyfloat", key);
    answer::bulk(out, text.as_bytes())
}

fn append(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, more, now) = (args[1], args[2], cx.now);
    let limit = StringLimit::of_client(cx);
    let len = cx.write(key, |tx, db| {
        let Some(value) = tx[db].get(tx, key, now) else {
            db.set(tx, key, Value::string(tx, more)?)?;
            return Ok(more.len());
        };
        let len = value.with_bytes(tx, <[u8]>::len).ok_or(Fail::WRONG_TYPE)?;
        let len = limit.check(len, more.len())?;
        buffer(tx, db, key, now)?.extend_from_slice(tx, more)?;
        Ok::<_, Fail>(len)
    })?;
    cx.touched(b'$', "append", key);
    answer::count(out, len)
}

fn setrange(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, part, now) = (args[1], args[3], cx.now);
    let offset = int(args[2])?;
    let offset = usize::try_from(offset).map_err(|_| Fail::err("offset is out of range"))?;
    let limit = StringLimit::of_client(cx);
    let len = cx.write(key, |tx, db| {
        let len = match tx[db].get(tx, key, now) {
            None => 0,
            Some(value) => value.with_bytes(tx, <[u8]>::len).ok_or(Fail::WRONG_TYPE)?,
        };
        if part.is_empty() {
            return Ok::<_, Fail>(len);
        }
        let end = limit.check(offset, part.len())?;
        let buffer = buffer(tx, db, key, now)?;
        if len < end {
            let more = end - tx[buffer].len();
            buffer.reserve(tx, more)?;
            buffer.resize(tx, offset, 0)?;
            buffer.extend_from_slice(tx, part)?;
        } else {
            buffer.as_mut_slice(tx, offset..end).copy_from_slice(part);
        }
        Ok(len.max(end))
    })?;
    if !part.is_empty() {
        cx.touched(b'$', "setrange", key);
    }
    answer::count(out, len)
}
