//! Lists.

use pheap::{P, PVecDeque};

use super::args::{int, timeout};
use super::{Args, Block, Command, Cx, Done, Fail, Flags, Keys};
use crate::data::{Change, Db, List, Txn, Value, View};
use crate::resp::Reply;
use crate::words;

const KEY: Keys = Keys::Range(1, 1, 1);
const WRITE: &[Flags] = &[Flags::WRITE, Flags::DENYOOM, Flags::FAST];
const READ: &[Flags] = &[Flags::READONLY];
const BLOCK: &[Flags] = &[Flags::WRITE, Flags::NOSCRIPT, Flags::BLOCKING];

pub(super) const COMMANDS: &[Command] = &[
    Command::new("blmove", 6, BLOCK, Keys::Range(1, 2, 1), |cx, args, out| {
        let (from, to) = (End::parse(args[3])?, End::parse(args[4])?);
        blocking_move(cx, args, from, to, timeout(args[5])?, out)
    }),
    Command::new("blpop", -3, BLOCK, Keys::Range(1, -2, 1), |cx, args, out| {
        blocking_pop(cx, args, End::Left, out)
    }),
    Command::new("brpop", -3, BLOCK, Keys::Range(1, -2, 1), |cx, args, out| {
        blocking_pop(cx, args, End::Right, out)
    }),
    Command::new("brpoplpush", 4, BLOCK, Keys::Range(1, 2, 1), |cx, args, out| {
        blocking_move(cx, args, End::Right, End::Left, timeout(args[3])?, out)
    }),
    Command::new("lindex", 3, READ, KEY, lindex),
    Command::new("llen", 2, &[Flags::READONLY, Flags::FAST], KEY, llen),
    Command::new("lmove", 5, &[Flags::WRITE, Flags::DENYOOM], Keys::Range(1, 2, 1), |cx, args, out| {
        move_one(cx, args, End::parse(args[3])?, End::parse(args[4])?, out).map(drop)
    }),
    Command::new("lpop", -2, &[Flags::WRITE, Flags::FAST], KEY, |cx, args, out| {
        pop(cx, args, End::Left, out)
    }),
    Command::new("lpush", -3, WRITE, KEY, |cx, args, out| push(cx, args, End::Left, false, out)),
    Command::new("lpushx", -3, WRITE, KEY, |cx, args, out| push(cx, args, End::Left, true, out)),
    Command::new("lrange", 4, READ, KEY, lrange),
    Command::new("lset", 4, &[Flags::WRITE, Flags::DENYOOM], KEY, lset),
    Command::new("rpop", -2, &[Flags::WRITE, Flags::FAST], KEY, |cx, args, out| {
        pop(cx, args, End::Right, out)
    }),
    Command::new("rpoplpush", 3, &[Flags::WRITE, Flags::DENYOOM], Keys::Range(1, 2, 1), |cx, args, out| {
        move_one(cx, args, End::Right, End::Left, out).map(drop)
    }),
    Command::new("rpush", -3, WRITE, KEY, |cx, args, out| push(cx, args, End::Right, false, out)),
    Command::new("rpushx", -3, WRITE, KEY, |cx, args, out| push(cx, args, End::Right, true, out)),
];

/// An end of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Left,
    Right,
}

impl End {
    fn parse(text: &[u8]) -> Result<End, Fail> {
        match text.to_ascii_lowercase().as_slice() {
            b"left" => Ok(End::Left),
            b"right" => Ok(End::Right),
            _ => Err(Fail::SYNTAX),
        }
    }

    /// The letter by which events name it.
    fn letter(self) -> char {
        if self == End::Left { 'l' } else { 'r' }
    }
}

/// The list of a key, if there is one.
fn list<'r>(view: &View<'r>, db: &Db<'r>, key: &[u8], now: i64) -> Result<Option<P<'r, List<'r>>>, Fail> {
    match db.get(view, key, now) {
        None => Ok(None),
        Some(Value::List(list)) => Ok(Some(list)),
        Some(_) => Err(Fail::WRONG_TYPE),
    }
}

/// A place in a list, which may be counted from its end (-1 is the last one).
fn place(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 { index.checked_add(len as i64)? } else { index };
    usize::try_from(index).ok().filter(|&index| index < len)
}

fn llen(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.now);
    out.count(
        cx.read(key, |view, db| Ok::<_, Fail>(list(view, db, key, now)?.map_or(0, |list| view[list].len())))?,
    );
    Ok(())
}

fn lindex(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.now);
    cx.read(key, |view, db| {
        let Some(list) = list(view, db, key, now)? else {
            out.null();
            return Ok(());
        };
        let index = int(args[2])?;
        let element = place(index, view[list].len()).and_then(|index| view[list].get(view, index));
        out.maybe_bulk(element.map(|&element| &view[element]));
        Ok(())
    })
}

fn lrange(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, start, end, now) = (args[1], int(args[2])?, int(args[3])?, cx.now);
    cx.read(key, |view, db| {
        let Some(list) = list(view, db, key, now)? else {
            out.array(0);
            return Ok(());
        };
        let list = &view[list];
        let len = list.len() as i64;
        let from_end = |at: i64| if at < 0 { at.saturating_add(len).max(0) } else { at };
        let (first, last) = (from_end(start), if end < -len { -1 } else { from_end(end).min(len - 1) });
        let count = (last - first + 1).max(0) as usize;
        out.array(count);
        for index in (first.min(len) as usize..).take(count) {
            out.maybe_bulk(list.get(view, index).map(|&element| &view[element]));
        }
        Ok(())
    })
}

fn lset(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, value, now) = (args[1], args[3], cx.now);
    cx.write(key, |tx, db| {
        let list = list(tx, &tx[db], key, now)?.ok_or(Fail::NO_SUCH_KEY)?;
        let index = place(int(args[2])?, tx[list].len()).ok_or(Fail::OUT_OF_RANGE)?;
        let value = tx.alloc_slice_copy(value)?;
        *list.get_mut(tx, index).ok_or(Fail::OUT_OF_RANGE)? = value;
        Ok::<_, Fail>(())
    })?;
    cx.touched(b'l', "lset", key);
    out.ok();
    Ok(())
}

/// Adds elements to one end of a list, which is made if there is none. Its new length.
fn add<'r>(
    tx: &mut Txn<'r>,
    db: P<'r, Db<'r>>,
    key: &[u8],
    elements: &[&[u8]],
    end: End,
    now: i64,
) -> Result<usize, Fail> {
    let list = match list(tx, &tx[db], key, now)? {
        Some(list) => list,
        None => {
            let list = tx.alloc(PVecDeque::new())?;
            db.set(tx, key, Value::List(list))?;
            list
        }
    };
    for element in elements {
        let element = tx.alloc_slice_copy(element)?;
        if end == End::Left { list.push_front(tx, element)? } else { list.push_back(tx, element)? }
    }
    Ok(tx[list].len())
}

/// Takes an element from one end of a list, whose key is removed with the last one.
fn take<'r>(
    tx: &mut Txn<'r>,
    db: P<'r, Db<'r>>,
    key: &[u8],
    list: P<'r, List<'r>>,
    end: End,
) -> Option<Vec<u8>> {
    let element = if end == End::Left { list.pop_front(tx) } else { list.pop_back(tx) }?;
    if tx[list].is_empty() {
        db.remove(tx, key);
    }
    Some(tx[element].to_vec())
}

fn push(cx: &mut Cx<'_>, args: &Args<'_>, end: End, only_if_there: bool, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.now);
    let len = cx.write(key, |tx, db| {
        let is_there = list(tx, &tx[db], key, now)?.is_some();
        if only_if_there && !is_there { Ok(None) } else { add(tx, db, key, &args[2..], end, now).map(Some) }
    })?;
    if len.is_some() {
        cx.touched(b'l', &format!("{}push", end.letter()), key);
    }
    out.count(len.unwrap_or(0));
    Ok(())
}

/// Takes up to `count` elements from one end of a key's list. None if there is no such key.
fn take_some(cx: &mut Cx<'_>, key: &[u8], count: usize, end: End) -> Result<Option<Vec<Vec<u8>>>, Fail> {
    let now = cx.now;
    let (taken, is_gone) = cx.write(key, |tx, db| {
        let Some(list) = list(tx, &tx[db], key, now)? else { return Ok::<_, Fail>((None, false)) };
        let count = count.min(tx[list].len());
        let taken: Vec<Vec<u8>> = (0..count).map_while(|_| take(tx, db, key, list, end)).collect();
        Ok((Some(taken), tx[list].is_empty()))
    })?;
    if taken.as_ref().is_some_and(|taken| !taken.is_empty()) {
        cx.touched(b'l', &format!("{}pop", end.letter()), key);
        if is_gone {
            cx.notify(b'g', "del", key);
        }
    }
    Ok(taken)
}

fn pop(cx: &mut Cx<'_>, args: &Args<'_>, end: End, out: &mut Reply) -> Done {
    let count = match args[2..] {
        [] => None,
        [count] => {
            let count = words::int(count).and_then(|count| usize::try_from(count).ok());
            Some(count.ok_or_else(|| Fail::err("value is out of range, must be positive"))?)
        }
        _ => return Err(Fail::arity(if end == End::Left { "lpop" } else { "rpop" })),
    };
    match (take_some(cx, args[1], count.unwrap_or(1), end)?, count) {
        (None, None) => out.null(),
        (None, Some(_)) => out.null_array(),
        (Some(taken), None) => out.maybe_bulk(taken.first().map(Vec::as_slice)),
        (Some(taken), Some(_)) => {
            out.array(taken.len());
            taken.iter().for_each(|element| out.bulk(element));
        }
    }
    Ok(())
}

fn blocking_pop(cx: &mut Cx<'_>, args: &Args<'_>, end: End, out: &mut Reply) -> Done {
    let keys = &args[1..args.len() - 1];
    let timeout = timeout(args[args.len() - 1])?;
    for key in keys {
        if let Some(taken) = take_some(cx, key, 1, end)? {
            out.array(2);
            out.bulk(key);
            out.maybe_bulk(taken.first().map(Vec::as_slice));
            return Ok(());
        }
    }
    if !cx.may_block {
        out.null_array();
        return Ok(());
    }
    let keys = keys.iter().map(|key| key.to_vec()).collect();
    Err(Fail::Block(Block { keys, timeout, gives_up_with_null: false, instead: None }))
}

/// Moves an element from one list to another, or to the other end. Whether there was one.
fn move_one(cx: &mut Cx<'_>, args: &Args<'_>, from: End, to: End, out: &mut Reply) -> Result<bool, Fail> {
    let (source, target, now) = (args[1], args[2], cx.now);
    let is_there = cx.read(source, |view, db| Ok::<_, Fail>(list(view, db, source, now)?.is_some()))?;
    if !is_there {
        out.null();
        return Ok(false);
    }
    if source == target {
        // Within one list, which is never empty meanwhile: its key stays, with its deadline.
        cx.write(source, |tx, db| {
            let Some(list) = list(tx, &tx[db], source, now)? else { return Ok(()) };
            let Some(element) = (if from == End::Left { list.pop_front(tx) } else { list.pop_back(tx) })
            else {
                return Ok(());
            };
            if to == End::Left {
                list.push_front(tx, element)?
            } else {
                list.push_back(tx, element)?
            }
            out.bulk(&tx[element]);
            Ok::<_, Fail>(())
        })?;
        cx.touched(b'l', &format!("{}push", to.letter()), source);
        cx.notify(b'l', &format!("{}pop", from.letter()), source);
        return Ok(true);
    }
    cx.read(target, |view, db| list(view, db, target, now).map(drop))?;
    let Some(element) = take_some(cx, source, 1, from)?.and_then(|taken| taken.into_iter().next()) else {
        out.null();
        return Ok(false);
    };
    cx.write(target, |tx, db| add(tx, db, target, &[&element], to, now))?;
    cx.touched(b'l', &format!("{}push", to.letter()), target);
    out.bulk(&element);
    Ok(true)
}

fn blocking_move(
    cx: &mut Cx<'_>,
    args: &Args<'_>,
    from: End,
    to: End,
    timeout: Option<f64>,
    out: &mut Reply,
) -> Done {
    let mark = out.len();
    if move_one(cx, args, from, to, out)? || !cx.may_block {
        return Ok(());
    }
    out.truncate(mark);
    Err(Fail::Block(Block { keys: vec![args[1].to_vec()], timeout, gives_up_with_null: true, instead: None }))
}
