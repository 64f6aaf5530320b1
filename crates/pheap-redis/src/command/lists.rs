//! Lists: their ends, and elements by index. See also [`lists_inside`](super::lists_inside) and
//! [`lists_waiting`](super::lists_waiting).

use super::args::{index_range, int, maybe_number, one_of};
use super::table::{ADD, ADD_FAST, KEY, READ, READ_FAST, WRITE_FAST};
use super::values::{self, get, get_or_new};
use super::{Args, Command, Cx, Done, Fail, answer, ok};
use crate::data::{List, P, Str, Txn};
use crate::resp::Reply;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("lindex", 3, READ, KEY, lindex),
    Command::new("llen", 2, READ_FAST, KEY, values::answer_len::<List>).access("RO"),
    Command::new("lpop", -2, WRITE_FAST, KEY, |cx, args, out| pop(cx, args, ListEnd::Left, out))
        .access("RW access delete"),
    Command::new("lpush", -3, ADD_FAST, KEY, |cx, args, out| push(cx, args, ListEnd::Left, false, out))
        .access("RW insert"),
    Command::new("lpushx", -3, ADD_FAST, KEY, |cx, args, out| push(cx, args, ListEnd::Left, true, out))
        .access("RW insert"),
    Command::new("lrange", 4, READ, KEY, lrange),
    Command::new("lset", 4, ADD, KEY, lset).access("RW update"),
    Command::new("rpop", -2, WRITE_FAST, KEY, |cx, args, out| pop(cx, args, ListEnd::Right, out))
        .access("RW access delete"),
    Command::new("rpush", -3, ADD_FAST, KEY, |cx, args, out| push(cx, args, ListEnd::Right, false, out))
        .access("RW insert"),
    Command::new("rpushx", -3, ADD_FAST, KEY, |cx, args, out| push(cx, args, ListEnd::Right, true, out))
        .access("RW insert"),
];

/// An end of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListEnd {
    Left,
    Right,
}

impl ListEnd {
    pub(super) fn parse(text: &[u8]) -> Result<ListEnd, Fail> {
        one_of(text, &[("left", ListEnd::Left), ("right", ListEnd::Right)])
    }

    /// Returns the name of the keyspace event for adding an element at this end.
    pub(super) fn pushed(self) -> &'static str {
        if self == ListEnd::Left { "lpush" } else { "rpush" }
    }

    /// Returns the name of the keyspace event for removing an element from this end.
    pub(super) fn popped(self) -> &'static str {
        if self == ListEnd::Left { "lpop" } else { "rpop" }
    }

    /// Adds an element at this end.
    pub(super) fn push<'r>(
        self,
        tx: &mut Txn<'r>,
        list: P<'r, List<'r>>,
        element: Str<'r>,
    ) -> pheap::Result<()> {
        if self == ListEnd::Left { list.push_front(tx, element) } else { list.push_back(tx, element) }
    }

    /// Removes the element at this end.
    pub(super) fn pop<'r>(self, tx: &mut Txn<'r>, list: P<'r, List<'r>>) -> Option<Str<'r>> {
        if self == ListEnd::Left { list.pop_front(tx) } else { list.pop_back(tx) }
    }
}

/// Returns the index of an element, or `None` if it is out of range. Negative numbers count from the end: -1
/// is the last element.
fn list_index(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 { index.checked_add(len as i64)? } else { index };
    usize::try_from(index).ok().filter(|&index| index < len)
}

fn lindex(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    cx.read_value::<List, _>(args[1], |view, list| {
        let Some(list) = list else {
            return answer::null(out);
        };
        let index = int(args[2])?;
        let element = list_index(index, view[list].len()).and_then(|index| view[list].get(view, index));
        answer::maybe_bulk(out, element.map(|&element| &view[element]))
    })
}

fn lrange(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (start, end) = (int(args[2])?, int(args[3])?);
    cx.read_value::<List, _>(args[1], |view, list| {
        let Some(list) = list else {
            return answer::empty(out);
        };
        let list = &view[list];
        let places = index_range(start, end, list.len());
        out.array(places.len());
        for place in places {
            out.maybe_bulk(list.get(view, place).map(|&element| &view[element]));
        }
        Ok(())
    })
}

fn lset(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    cx.change_value::<List, _>(args[1], |tx, list| {
        let list = list.ok_or(Fail::NO_SUCH_KEY)?;
        let index = list_index(int(args[2])?, tx[list].len()).ok_or(Fail::OUT_OF_RANGE)?;
        let value = tx.alloc_slice_copy(args[3])?;
        *list.get_mut(tx, index).ok_or(Fail::OUT_OF_RANGE)? = value;
        Ok(())
    })?;
    cx.touched(b'l', "lset", args[1]);
    ok(out)
}

fn push(cx: &mut Cx<'_>, args: &Args<'_>, end: ListEnd, only_if_there: bool, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.now);
    let len = cx.write(key, |tx, db| {
        if only_if_there && get::<List>(tx, &tx[db], key, now)?.is_none() {
            return Ok::<_, Fail>(0);
        }
        let list = get_or_new::<List>(tx, db, key, now)?;
        for element in &args[2..] {
            let element = tx.alloc_slice_copy(element)?;
            end.push(tx, list, element)?;
        }
        Ok(tx[list].len())
    })?;
    if len > 0 {
        cx.touched_often(b'l', end.pushed(), key, args.len() as u64 - 2);
    }
    answer::count(out, len)
}

/// Removes up to `count` elements from one end of a key's list. Calls `head` with their number, and then
/// writes the elements. Removes the key with its last element. Returns whether the key existed.
pub(super) fn pop_elements(
    cx: &mut Cx<'_>,
    key: &[u8],
    count: usize,
    end: ListEnd,
    out: &mut Reply,
    head: impl FnOnce(&mut Reply, usize),
) -> Result<bool, Fail> {
    let taken = cx.remove_elements::<List>(key, end.popped(), |tx, list, len| {
        let count = count.min(len);
        head(out, count);
        for _ in 0..count {
            if let Some(element) = end.pop(tx, list) {
                out.bulk(&tx[element]);
            }
        }
        Ok(count)
    });
    Ok(taken?.is_some())
}

fn pop(cx: &mut Cx<'_>, args: &Args<'_>, end: ListEnd, out: &mut Reply) -> Done {
    match maybe_number(&args[2..], || Fail::arity(end.popped()))? {
        None => {
            if !pop_elements(cx, args[1], 1, end, out, |_, _| {})? {
                out.null();
            }
        }
        Some(count) => {
            if !pop_elements(cx, args[1], count, end, out, Reply::array)? {
                out.null_array();
            }
        }
    }
    Ok(())
}
