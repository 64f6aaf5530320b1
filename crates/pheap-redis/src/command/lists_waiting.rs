//! Lists that elements are moved between, and that clients wait for.

use super::args::timeout;
use super::lists::{End, list, list_or_new, take};
use super::{Args, Block, Command, Cx, Done, Fail, Flags, Keys};
use crate::data::Change;
use crate::resp::Reply;
use crate::words;

const TWO: Keys = Keys::Range(1, 2, 1);
const MOVE: &[Flags] = &[Flags::WRITE, Flags::DENYOOM];
const BLOCK: &[Flags] = &[Flags::WRITE, Flags::NOSCRIPT, Flags::BLOCKING];
const BLOCKING_MOVE: &[Flags] = &[Flags::WRITE, Flags::DENYOOM, Flags::NOSCRIPT, Flags::BLOCKING];

pub(super) const COMMANDS: &[Command] = &[
    Command::new("blmove", 6, BLOCKING_MOVE, TWO, |cx, args, out| {
        let (from, to) = (End::parse(args[3])?, End::parse(args[4])?);
        blocking_move(cx, args, from, to, timeout(args[5])?, out)
    }),
    Command::new(
        "blmpop",
        -5,
        &[Flags::WRITE, Flags::BLOCKING, Flags::MOVABLE_KEYS],
        Keys::Find(|args, keys| find_keys(args, 2, keys)),
        blmpop,
    ),
    Command::new("blpop", -3, BLOCK, Keys::Range(1, -2, 1), |cx, args, out| {
        blocking_pop(cx, args, End::Left, out)
    }),
    Command::new("brpop", -3, BLOCK, Keys::Range(1, -2, 1), |cx, args, out| {
        blocking_pop(cx, args, End::Right, out)
    }),
    Command::new("brpoplpush", 4, BLOCKING_MOVE, TWO, |cx, args, out| {
        blocking_move(cx, args, End::Right, End::Left, timeout(args[3])?, out)
    }),
    Command::new("lmove", 5, MOVE, TWO, |cx, args, out| {
        move_or_null(cx, args, End::parse(args[3])?, End::parse(args[4])?, out)
    }),
    Command::new(
        "lmpop",
        -4,
        &[Flags::WRITE, Flags::MOVABLE_KEYS],
        Keys::Find(|args, keys| find_keys(args, 1, keys)),
        lmpop,
    ),
    Command::new("rpoplpush", 3, MOVE, TWO, |cx, args, out| {
        move_or_null(cx, args, End::Right, End::Left, out)
    }),
];

/// Takes up to `count` elements from the first of these keys that is there. Whether there is one.
fn take_first(
    cx: &mut Cx<'_>,
    keys: &[&[u8]],
    count: usize,
    end: End,
    out: &mut Reply,
    head: impl Fn(&mut Reply, &[u8], usize),
) -> Result<bool, Fail> {
    for key in keys {
        if cx.session.looks_at(key) {
            match take(cx, key, count, end, out, |out, count| head(out, key, count)) {
                Ok(false) => {}
                Ok(true) => return Ok(true),
                // It has become something else while the command was waiting.
                Err(Fail::Error(_)) if cx.session.resumes => {}
                Err(fail) => return Err(fail),
            }
        }
    }
    Ok(false)
}

/// Waits for one of these keys, unless that is not possible: then there is nothing.
fn wait(cx: &Cx<'_>, keys: &[&[u8]], timeout: Option<f64>, out: &mut Reply) -> Done {
    if !cx.may_block {
        out.null_array();
        return Ok(());
    }
    let keys = keys.iter().map(|key| key.to_vec()).collect();
    Err(Fail::Block(Block { keys, timeout, gives_up_with_null: false, needs_keys: false, instead: None }))
}

fn blocking_pop(cx: &mut Cx<'_>, args: &Args<'_>, end: End, out: &mut Reply) -> Done {
    let (keys, timeout) = (&args[1..args.len() - 1], timeout(args[args.len() - 1])?);
    let head = |out: &mut Reply, key: &[u8], _| {
        out.array(2);
        out.bulk(key);
    };
    if take_first(cx, keys, 1, end, out, head)? { Ok(()) } else { wait(cx, keys, timeout, out) }
}

/// Where the keys are of a command with a number of keys at `at`.
fn find_keys(args: &Args<'_>, at: usize, keys: &mut Vec<usize>) {
    let count = words::int(args[at]).and_then(|count| usize::try_from(count).ok());
    if let Some(count) = count.filter(|&count| count < args.len() - at) {
        keys.extend(at + 1..=at + count);
    }
}

/// What `LMPOP` is asked for: keys, an end, how many elements. `at` is where the number of keys is.
fn several<'a>(args: &'a Args<'a>, at: usize) -> Result<(&'a Args<'a>, End, usize), Fail> {
    let positive = |text: &[u8], error: &'static str| {
        let number = words::int(text).and_then(|number| usize::try_from(number).ok());
        number.filter(|&number| number > 0).ok_or_else(|| Fail::err(error))
    };
    let count = positive(args[at], "numkeys should be greater than 0")?;
    let rest = &args[at + 1..];
    if count >= rest.len() {
        return Err(Fail::SYNTAX);
    }
    let (keys, rest) = rest.split_at(count);
    let end = End::parse(rest[0])?;
    match rest[1..] {
        [] => Ok((keys, end, 1)),
        [option, count, ref more @ ..] if option.eq_ignore_ascii_case(b"count") => {
            let count = positive(count, "count should be greater than 0")?;
            if more.is_empty() { Ok((keys, end, count)) } else { Err(Fail::SYNTAX) }
        }
        _ => Err(Fail::SYNTAX),
    }
}

/// The key, and an array of so many elements.
fn nested(out: &mut Reply, key: &[u8], count: usize) {
    out.array(2);
    out.bulk(key);
    out.array(count);
}

fn lmpop(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (keys, end, count) = several(args, 1)?;
    if !take_first(cx, keys, count, end, out, nested)? {
        out.null_array();
    }
    Ok(())
}

fn blmpop(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (keys, end, count) = several(args, 2)?;
    let timeout = timeout(args[1])?;
    if take_first(cx, keys, count, end, out, nested)? { Ok(()) } else { wait(cx, keys, timeout, out) }
}

/// Moves an element from one list to another, or to the other end, and writes it. Whether there was one.
fn move_one(cx: &mut Cx<'_>, args: &Args<'_>, from: End, to: End, out: &mut Reply) -> Result<bool, Fail> {
    let (source, target, now) = (args[1], args[2], cx.now);
    match cx.read(source, |view, db| list(view, db, source, now).map(|list| list.is_some())) {
        Ok(true) => {}
        // Or it has become something else while the command was waiting.
        Err(Fail::Error(_)) if cx.session.resumes => return Ok(false),
        other => return other,
    }
    let is_gone = if cx.store().shard_of(source) == cx.store().shard_of(target) {
        cx.write(source, |tx, db| {
            let (Some(source_list), _) = (list(tx, &tx[db], source, now)?, list(tx, &tx[db], target, now)?)
            else {
                return Ok(false);
            };
            let Some(element) = from.pop(tx, source_list) else { return Ok(false) };
            let target = list_or_new(tx, db, target, now)?;
            to.push(tx, target, element)?;
            out.bulk(&tx[element]);
            // Never within one list, whose key stays, with its deadline.
            let is_gone = tx[source_list].is_empty();
            if is_gone {
                db.remove(tx, source);
            }
            Ok::<_, Fail>(is_gone)
        })?
    } else {
        cx.read(target, |view, db| list(view, db, target, now).map(drop))?;
        let (element, is_gone) = cx.write(source, |tx, db| {
            let Some(list) = list(tx, &tx[db], source, now)? else { return Ok((None, false)) };
            let element = from.pop(tx, list).map(|element| tx[element].to_vec());
            let is_gone = tx[list].is_empty();
            if is_gone {
                db.remove(tx, source);
            }
            Ok::<_, Fail>((element, is_gone))
        })?;
        let Some(element) = element else { return Ok(false) };
        cx.write(target, |tx, db| {
            let list = list_or_new(tx, db, target, now)?;
            let element = tx.alloc_slice_copy(&element)?;
            to.push(tx, list, element).map_err(Fail::from)
        })?;
        out.bulk(&element);
        is_gone
    };
    cx.touched(b'l', to.pushed(), target);
    cx.touched(b'l', from.popped(), source);
    cx.effects.dirty -= 1; // it is one change
    if is_gone {
        cx.notify(b'g', "del", source);
    }
    Ok(true)
}

fn move_or_null(cx: &mut Cx<'_>, args: &Args<'_>, from: End, to: End, out: &mut Reply) -> Done {
    if !move_one(cx, args, from, to, out)? {
        out.null();
    }
    Ok(())
}

fn blocking_move(
    cx: &mut Cx<'_>,
    args: &Args<'_>,
    from: End,
    to: End,
    timeout: Option<f64>,
    out: &mut Reply,
) -> Done {
    if !cx.may_block {
        return move_or_null(cx, args, from, to, out);
    }
    if move_one(cx, args, from, to, out)? { Ok(()) } else { wait(cx, &args[1..2], timeout, out) }
}
