//! Lists: moves between lists, blocking commands, and `LMPOP`.

use std::ops::Range;

use super::args::{counted_pop, timeout};
use super::lists::{ListEnd, pop_elements};
use super::table::{ADD, COUNTED, COUNTED_BEHIND_ONE, TWO_KEYS, WRITE};
use super::values::{get, get_or_new};
use super::{Args, Block, Command, Cx, Done, Fail, Flags, Keys, answer};
use crate::data::{Change, List};
use crate::resp::Reply;

const BLOCK: Flags = WRITE.and(Flags::NOSCRIPT).and(Flags::BLOCKING);
const BLOCK_COUNTED: Flags = WRITE.and(Flags::BLOCKING).and(Flags::MOVABLE_KEYS);
const BLOCKING_MOVE: Flags = ADD.and(Flags::NOSCRIPT).and(Flags::BLOCKING);

pub(super) const COMMANDS: &[Command] = &[
    Command::new("blmove", 6, BLOCKING_MOVE, TWO_KEYS, |cx, args, out| {
        let (from, to) = (ListEnd::parse(args[3])?, ListEnd::parse(args[4])?);
        blocking_move(cx, args, from, to, timeout(args[5])?, out)
    })
    .accesses("RW access delete", "RW insert"),
    Command::new("blmpop", -5, BLOCK_COUNTED, COUNTED_BEHIND_ONE, blmpop).access("RW access delete"),
    Command::new("blpop", -3, BLOCK, Keys::Range(1, -2, 1), |cx, args, out| {
        blocking_pop(cx, args, ListEnd::Left, out)
    })
    .access("RW access delete"),
    Command::new("brpop", -3, BLOCK, Keys::Range(1, -2, 1), |cx, args, out| {
        blocking_pop(cx, args, ListEnd::Right, out)
    })
    .access("RW access delete"),
    Command::new("brpoplpush", 4, BLOCKING_MOVE, TWO_KEYS, |cx, args, out| {
        blocking_move(cx, args, ListEnd::Right, ListEnd::Left, timeout(args[3])?, out)
    })
    .accesses("RW access delete", "RW insert"),
    Command::new("lmove", 5, ADD, TWO_KEYS, |cx, args, out| {
        move_or_null(cx, args, ListEnd::parse(args[3])?, ListEnd::parse(args[4])?, out)
    })
    .accesses("RW access delete", "RW insert"),
    Command::new("lmpop", -4, WRITE.and(Flags::MOVABLE_KEYS), COUNTED, lmpop).access("RW access delete"),
    Command::new("rpoplpush", 3, ADD, TWO_KEYS, |cx, args, out| {
        move_or_null(cx, args, ListEnd::Right, ListEnd::Left, out)
    })
    .accesses("RW access delete", "RW insert"),
];

/// Calls `pop` for each key until one has elements. If no key has elements, the command blocks according to
/// `wait` (position of the first key in the command, and timeout) if it may, or answers with a null array.
pub(super) fn pop_first_nonempty(
    cx: &mut Cx<'_>,
    keys: &Args<'_>,
    wait: Option<(usize, Option<f64>)>,
    out: &mut Reply,
    mut pop: impl FnMut(&mut Cx<'_>, &[u8], &mut Reply) -> Result<bool, Fail>,
) -> Done {
    for key in keys {
        match pop(cx, key, out) {
            Ok(false) => {}
            Ok(true) => return Ok(()),
            // The type of the key has changed since the command began to wait. The key then counts as having
            // no elements.
            Err(Fail::Error(_)) if cx.session.resumes => {}
            Err(fail) => return Err(fail),
        }
    }
    match wait.filter(|_| cx.may_block) {
        Some((first, timeout)) => Err(wait_for(first..first + keys.len(), timeout)),
        None => answer::null_array(out),
    }
}

/// Returns the failure that makes a command wait for one of these keys. If the first key is not the first
/// argument, the argument before it is the number of keys.
fn wait_for(keys: Range<usize>, timeout: Option<f64>) -> Fail {
    let (is_counted, has_ids, needs_keys, instead) = (keys.start > 1, false, false, None);
    Fail::Block(Block { keys, has_ids, is_counted, timeout, needs_keys, instead })
}

fn blocking_pop(cx: &mut Cx<'_>, args: &Args<'_>, end: ListEnd, out: &mut Reply) -> Done {
    let (keys, timeout) = (&args[1..args.len() - 1], timeout(args[args.len() - 1])?);
    pop_first_nonempty(cx, keys, Some((1, timeout)), out, |cx, key, out| {
        pop_elements(cx, key, 1, end, out, |out, _| {
            out.array(2);
            out.bulk(key);
        })
    })
}

fn lmpop(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    pop_from_first_list(cx, counted_pop(&args[1..], ListEnd::parse)?, None, out)
}

fn blmpop(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let asked = counted_pop(&args[2..], ListEnd::parse)?;
    pop_from_first_list(cx, asked, Some((3, timeout(args[1])?)), out)
}

/// Removes elements of the first key that exists, and answers with the key and an array of elements. If none
/// exists, does as [`pop_first_nonempty`].
fn pop_from_first_list(
    cx: &mut Cx<'_>,
    (keys, end, count): (&Args<'_>, ListEnd, usize),
    wait: Option<(usize, Option<f64>)>,
    out: &mut Reply,
) -> Done {
    pop_first_nonempty(cx, keys, wait, out, |cx, key, out| {
        pop_elements(cx, key, count, end, out, |out, count| {
            out.array(2);
            out.bulk(key);
            out.array(count);
        })
    })
}

/// Moves an element from one list to another, or within one list, and writes the element. Returns whether the
/// source had an element.
fn move_one(
    cx: &mut Cx<'_>,
    args: &Args<'_>,
    from: ListEnd,
    to: ListEnd,
    out: &mut Reply,
) -> Result<bool, Fail> {
    let (source, target, now) = (args[1], args[2], cx.now);
    match cx.read_value::<List, _>(source, |_, list| Ok(list.is_some())) {
        Ok(true) => {}
        // The type of the source may have changed since the command began to wait. It then counts as having
        // no elements.
        Err(Fail::Error(_)) if cx.session.resumes => return Ok(false),
        other => return other,
    }
    let is_gone = if cx.shard_of(source) == cx.shard_of(target) {
        cx.write(source, |tx, db| {
            let source_list = get::<List>(tx, &tx[db], source, now)?;
            get::<List>(tx, &tx[db], target, now)?;
            let Some(source_list) = source_list else { return Ok(false) };
            let Some(element) = from.pop(tx, source_list) else { return Ok(false) };
            let target = get_or_new::<List>(tx, db, target, now)?;
            to.push(tx, target, element)?;
            out.bulk(&tx[element]);
            // If the source is also the target, the list is not empty here, so the key and its deadline stay.
            let is_gone = tx[source_list].is_empty();
            if is_gone {
                db.remove(tx, source);
            }
            Ok::<_, Fail>(is_gone)
        })?
    } else {
        cx.read_value::<List, _>(target, |_, _| Ok(()))?;
        let (element, is_gone) = cx.write(source, |tx, db| {
            let Some(list) = get::<List>(tx, &tx[db], source, now)? else { return Ok((None, false)) };
            let element = from.pop(tx, list).map(|element| tx[element].to_vec());
            let is_gone = tx[list].is_empty();
            if is_gone {
                db.remove(tx, source);
            }
            Ok::<_, Fail>((element, is_gone))
        })?;
        let Some(element) = element else { return Ok(false) };
        cx.change_or_create::<List, _>(target, |tx, list| {
            let element = tx.alloc_slice_copy(&element)?;
            to.push(tx, list, element).map_err(Fail::from)
        })?;
        out.bulk(&element);
        is_gone
    };
    cx.touched(b'l', to.pushed(), target);
    cx.touched(b'l', from.popped(), source);
    cx.effects.dirty -= 1; // a move counts as one change
    if is_gone {
        cx.notify(b'g', "del", source);
    }
    Ok(true)
}

fn move_or_null(cx: &mut Cx<'_>, args: &Args<'_>, from: ListEnd, to: ListEnd, out: &mut Reply) -> Done {
    if !move_one(cx, args, from, to, out)? {
        out.null();
    }
    Ok(())
}

fn blocking_move(
    cx: &mut Cx<'_>,
    args: &Args<'_>,
    from: ListEnd,
    to: ListEnd,
    timeout: Option<f64>,
    out: &mut Reply,
) -> Done {
    if !cx.may_block {
        return move_or_null(cx, args, from, to, out);
    }
    if move_one(cx, args, from, to, out)? { Ok(()) } else { Err(wait_for(1..2, timeout)) }
}
