//! Lists: what is at their ends, and at places. See [`lists_inside`](super::lists_inside) and [`lists_waiting`](super::lists_waiting).

use pheap::{P, PVecDeque};

use super::args::int;
use super::{Args, Command, Cx, Done, Fail, Flags, Keys};
use crate::data::{Change, Db, List, Str, Txn, Value, View};
use crate::resp::Reply;
use crate::words;

const KEY: Keys = Keys::Range(1, 1, 1);
const WRITE: &[Flags] = &[Flags::WRITE, Flags::DENYOOM, Flags::FAST];
const READ: &[Flags] = &[Flags::READONLY];

pub(super) const COMMANDS: &[Command] = &[
    Command::new("lindex", 3, READ, KEY, lindex),
    Command::new("llen", 2, &[Flags::READONLY, Flags::FAST], KEY, llen),
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
    Command::new("rpush", -3, WRITE, KEY, |cx, args, out| push(cx, args, End::Right, false, out)),
    Command::new("rpushx", -3, WRITE, KEY, |cx, args, out| push(cx, args, End::Right, true, out)),
];

/// An end of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Left,
    Right,
}

impl End {
    pub(super) fn parse(text: &[u8]) -> Result<End, Fail> {
        match text.to_ascii_lowercase().as_slice() {
            b"left" => Ok(End::Left),
            b"right" => Ok(End::Right),
            _ => Err(Fail::SYNTAX),
        }
    }

    /// The event when something is added there.
    pub(super) fn pushed(self) -> &'static str {
        if self == End::Left { "lpush" } else { "rpush" }
    }

    /// The event when something is taken from there.
    pub(super) fn popped(self) -> &'static str {
        if self == End::Left { "lpop" } else { "rpop" }
    }

    /// Adds an element there.
    pub(super) fn push<'r>(
        self,
        tx: &mut Txn<'r>,
        list: P<'r, List<'r>>,
        element: Str<'r>,
    ) -> pheap::Result<()> {
        if self == End::Left { list.push_front(tx, element) } else { list.push_back(tx, element) }
    }

    /// Takes an element from there.
    pub(super) fn pop<'r>(self, tx: &mut Txn<'r>, list: P<'r, List<'r>>) -> Option<Str<'r>> {
        if self == End::Left { list.pop_front(tx) } else { list.pop_back(tx) }
    }
}

/// The list of a key, if there is one.
pub(super) fn list<'r>(
    view: &View<'r>,
    db: &Db<'r>,
    key: &[u8],
    now: i64,
) -> Result<Option<P<'r, List<'r>>>, Fail> {
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

/// The list of a key, which is made if there is none.
pub(super) fn list_or_new<'r>(
    tx: &mut Txn<'r>,
    db: P<'r, Db<'r>>,
    key: &[u8],
    now: i64,
) -> Result<P<'r, List<'r>>, Fail> {
    if let Some(list) = list(tx, &tx[db], key, now)? {
        return Ok(list);
    }
    let list = tx.alloc(PVecDeque::new())?;
    db.set(tx, key, Value::List(list))?;
    Ok(list)
}

fn push(cx: &mut Cx<'_>, args: &Args<'_>, end: End, only_if_there: bool, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.now);
    let len = cx.write(key, |tx, db| {
        if only_if_there && list(tx, &tx[db], key, now)?.is_none() {
            return Ok::<_, Fail>(0);
        }
        let list = list_or_new(tx, db, key, now)?;
        for element in &args[2..] {
            let element = tx.alloc_slice_copy(element)?;
            end.push(tx, list, element)?;
        }
        Ok(tx[list].len())
    })?;
    if len > 0 {
        cx.touched(b'l', end.pushed(), key);
        cx.effects.dirty += args.len() as u64 - 3;
    }
    out.count(len);
    Ok(())
}

/// Takes up to `count` elements from one end of a key's list and writes them, after what `head` writes. The key is removed with the last one. Whether there is such a key.
pub(super) fn take(
    cx: &mut Cx<'_>,
    key: &[u8],
    count: usize,
    end: End,
    out: &mut Reply,
    head: impl FnOnce(&mut Reply, usize),
) -> Result<bool, Fail> {
    let now = cx.now;
    let taken = cx.write(key, |tx, db| {
        let Some(list) = list(tx, &tx[db], key, now)? else { return Ok::<_, Fail>(None) };
        let count = count.min(tx[list].len());
        head(out, count);
        for _ in 0..count {
            if let Some(element) = end.pop(tx, list) {
                out.bulk(&tx[element]);
            }
        }
        let is_empty = tx[list].is_empty();
        if is_empty {
            db.remove(tx, key);
        }
        Ok(Some((count, is_empty)))
    })?;
    if let Some((count @ 1.., is_empty)) = taken {
        cx.touched(b'l', end.popped(), key);
        cx.effects.dirty += count as u64 - 1;
        if is_empty {
            cx.notify(b'g', "del", key);
        }
    }
    Ok(taken.is_some())
}

fn pop(cx: &mut Cx<'_>, args: &Args<'_>, end: End, out: &mut Reply) -> Done {
    match args[2..] {
        [] => {
            if !take(cx, args[1], 1, end, out, |_, _| {})? {
                out.null();
            }
        }
        [count] => {
            let count = words::int(count).and_then(|count| usize::try_from(count).ok());
            let count = count.ok_or_else(|| Fail::err("value is out of range, must be positive"))?;
            if !take(cx, args[1], count, end, out, Reply::array)? {
                out.null_array();
            }
        }
        _ => return Err(Fail::arity(end.popped())),
    }
    Ok(())
}
