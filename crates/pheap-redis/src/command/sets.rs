//! Sets: their elements.

use super::args::{Scan, cursor};
use super::object::{Limits, is_compact};
use super::pick::{Wanted, pick};
use super::{Args, Command, Cx, Done, Fail, Flags, Keys};
use crate::data::{Change, Db, P, Set, Txn, Value, View};
use crate::random::random;
use crate::resp::Reply;
use crate::words;

const KEY: Keys = Keys::Range(1, 1, 1);
const WRITE: &[Flags] = &[Flags::WRITE, Flags::DENYOOM, Flags::FAST];
const REMOVE: &[Flags] = &[Flags::WRITE, Flags::FAST];
const READ: &[Flags] = &[Flags::READONLY, Flags::FAST];
const SLOW_READ: &[Flags] = &[Flags::READONLY];

pub(super) const COMMANDS: &[Command] = &[
    Command::new("sadd", -3, WRITE, KEY, sadd),
    Command::new("scard", 2, READ, KEY, scard),
    Command::new("sismember", 3, READ, KEY, sismember),
    Command::new("smembers", 2, SLOW_READ, KEY, smembers),
    Command::new("smismember", -3, READ, KEY, smismember),
    Command::new("smove", 4, REMOVE, Keys::Range(1, 2, 1), smove),
    Command::new("spop", -2, REMOVE, KEY, spop),
    Command::new("srandmember", -2, SLOW_READ, KEY, srandmember),
    Command::new("srem", -3, REMOVE, KEY, srem),
    Command::new("sscan", -3, SLOW_READ, KEY, sscan),
];

/// The set of a key, if there is one.
pub(super) fn set<'r>(
    view: &View<'r>,
    db: &Db<'r>,
    key: &[u8],
    now: i64,
) -> Result<Option<P<'r, Set<'r>>>, Fail> {
    match db.get(view, key, now) {
        None => Ok(None),
        Some(Value::Set(set)) => Ok(Some(set)),
        Some(_) => Err(Fail::WRONG_TYPE),
    }
}

/// Adds elements to the set of a key, which is made if there is none. How many are new.
fn add<'r>(
    tx: &mut Txn<'r>,
    db: P<'r, Db<'r>>,
    key: &[u8],
    elements: &[&[u8]],
    now: i64,
) -> Result<usize, Fail> {
    let set = match set(tx, &tx[db], key, now)? {
        Some(set) => set,
        None => {
            let set = tx.alloc(Set::new())?;
            db.set(tx, key, Value::Set(set))?;
            set
        }
    };
    let mut new = 0;
    for element in elements {
        new += usize::from(set.insert(tx, element)?);
    }
    Ok(new)
}

fn sadd(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.now);
    let new = cx.write(key, |tx, db| add(tx, db, key, &args[2..], now))?;
    if new > 0 {
        cx.touched(b's', "sadd", key);
        cx.effects.dirty += new as u64 - 1;
    }
    out.count(new);
    Ok(())
}

/// Removes elements from the set of a key, and the key with the last one. How many were there, and whether the key is gone.
fn remove(cx: &mut Cx<'_>, key: &[u8], elements: &[&[u8]]) -> Result<(usize, bool), Fail> {
    let now = cx.now;
    cx.write(key, |tx, db| {
        let Some(set) = set(tx, &tx[db], key, now)? else { return Ok((0, false)) };
        let count = elements.iter().filter(|element| set.remove(tx, *element)).count();
        let is_gone = tx[set].is_empty();
        if is_gone {
            db.remove(tx, key);
        }
        Ok((count, is_gone))
    })
}

fn srem(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let key = args[1];
    let (count, is_gone) = remove(cx, key, &args[2..])?;
    if count > 0 {
        cx.touched(b's', "srem", key);
        cx.effects.dirty += count as u64 - 1;
        if is_gone {
            cx.notify(b'g', "del", key);
        }
    }
    out.count(count);
    Ok(())
}

fn smove(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (source, target, element, now) = (args[1], args[2], args[3], cx.now);
    let is_there = cx.read(source, |view, db| {
        Ok::<_, Fail>(set(view, db, source, now)?.map(|set| set.contains(view, element)))
    })?;
    let Some(is_there) = is_there else {
        out.int(0);
        return Ok(());
    };
    cx.read(target, |view, db| set(view, db, target, now).map(drop))?;
    out.int(i64::from(is_there));
    if source == target || !is_there {
        return Ok(());
    }
    let (_, is_gone) = remove(cx, source, &[element])?;
    cx.touched(b's', "srem", source);
    if is_gone {
        cx.notify(b'g', "del", source);
    }
    if cx.write(target, |tx, db| add(tx, db, target, &[element], now))? > 0 {
        cx.touched(b's', "sadd", target);
    }
    Ok(())
}

fn scard(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.now);
    out.count(
        cx.read(key, |view, db| Ok::<_, Fail>(set(view, db, key, now)?.map_or(0, |set| view[set].len())))?,
    );
    Ok(())
}

fn sismember(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, element, now) = (args[1], args[2], cx.now);
    let is_there = cx.read(key, |view, db| {
        Ok::<_, Fail>(set(view, db, key, now)?.is_some_and(|set| set.contains(view, element)))
    })?;
    out.int(i64::from(is_there));
    Ok(())
}

fn smismember(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.now);
    cx.read(key, |view, db| {
        let set = set(view, db, key, now)?;
        out.array(args.len() - 2);
        for element in &args[2..] {
            out.int(i64::from(set.is_some_and(|set| set.contains(view, element))));
        }
        Ok(())
    })
}

fn smembers(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.now);
    cx.read(key, |view, db| {
        let Some(set) = set(view, db, key, now)? else {
            out.set(0);
            return Ok(());
        };
        out.set(view[set].len());
        set.iter(view).for_each(|element| out.bulk(element));
        Ok(())
    })
}

fn sscan(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.now);
    cursor(args[2])?;
    let limits = Limits::of(cx);
    cx.read(key, |view, db| {
        let Some(set) = set(view, db, key, now)? else {
            Scan::nothing(out);
            return Ok(());
        };
        let asked = Scan::parse(&args[2..], false)?;
        asked.answer(
            is_compact(view, db.get(view, key, now), &limits),
            |from| set.scan(view, from),
            |element| element,
            out,
            |element, out| {
                out.bulk(element);
                1
            },
        );
        Ok(())
    })
}

fn srandmember(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.now);
    let wanted = match args[2..] {
        [] => None,
        [count] => Some(Wanted::parse(count, false)?),
        _ => return Err(Fail::SYNTAX),
    };
    cx.read(key, |view, db| {
        let set = set(view, db, key, now)?;
        let Some(wanted) = wanted else {
            out.maybe_bulk(set.and_then(|set| set.choose(view, random)));
            return Ok(());
        };
        let Some(set) = set else {
            out.array(0);
            return Ok(());
        };
        let len = view[set].len();
        out.array(wanted.of(len));
        let (one, all) = (|| set.choose(view, random), || set.iter(view));
        pick(
            wanted,
            len,
            one,
            all,
            |element| element,
            |element| {
                out.bulk(element);
                !out.is_too_long()
            },
        );
        Ok(())
    })
}

fn spop(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.now);
    let count = match args[2..] {
        [] => None,
        [count] => {
            let count = words::int(count).and_then(|count| usize::try_from(count).ok());
            Some(count.ok_or_else(|| Fail::err("value is out of range, must be positive"))?)
        }
        _ => return Err(Fail::SYNTAX),
    };
    let (taken, is_gone) = cx.write(key, |tx, db| {
        let Some(set) = set(tx, &tx[db], key, now)? else { return Ok::<_, Fail>((Vec::new(), false)) };
        let (len, mut taken) = (tx[set].len(), Vec::new());
        let wanted = Wanted::Distinct(count.unwrap_or(1));
        let (one, all) = (|| set.choose(tx, random), || set.iter(tx));
        pick(
            wanted,
            len,
            one,
            all,
            |element| element,
            |element| {
                taken.push(element.to_vec());
                true
            },
        );
        let is_gone = taken.len() == len;
        if is_gone {
            db.remove(tx, key);
        } else {
            taken.iter().for_each(|element| _ = set.remove(tx, element));
        }
        Ok((taken, is_gone))
    })?;
    if !taken.is_empty() {
        cx.touched(b's', "spop", key);
        cx.effects.dirty += taken.len() as u64 - 1;
        if is_gone {
            cx.notify(b'g', "del", key);
        }
    }
    if count.is_none() {
        out.maybe_bulk(taken.first().map(Vec::as_slice));
        return Ok(());
    }
    out.set(taken.len());
    taken.iter().for_each(|element| out.bulk(element));
    Ok(())
}
