//! Sorted sets: taking members from either end.

use super::args::timeout;
use super::set_algebra::counted_keys;
use super::sorted_sets::{member, removed, sorted};
use super::{Args, Block, Command, Cx, Done, Fail, Flags, Keys};
use crate::data::{Change, Rank};
use crate::resp::Reply;
use crate::words;

const KEY: Keys = Keys::Range(1, 1, 1);
const POP: &[Flags] = &[Flags::WRITE, Flags::FAST];
const BLOCK: &[Flags] = &[Flags::WRITE, Flags::NOSCRIPT, Flags::FAST, Flags::BLOCKING];

pub(super) const COMMANDS: &[Command] = &[
    Command::new("bzmpop", -5, &[Flags::WRITE, Flags::BLOCKING], Keys::Find(counted_keys_later), bzmpop),
    Command::new("bzpopmax", -3, BLOCK, Keys::Range(1, -2, 1), |cx, args, out| {
        bzpop(cx, args, End::Max, out)
    }),
    Command::new("bzpopmin", -3, BLOCK, Keys::Range(1, -2, 1), |cx, args, out| {
        bzpop(cx, args, End::Min, out)
    }),
    Command::new("zmpop", -4, &[Flags::WRITE], Keys::Find(counted_keys), zmpop),
    Command::new("zpopmax", -2, POP, KEY, |cx, args, out| zpop(cx, args, End::Max, out)),
    Command::new("zpopmin", -2, POP, KEY, |cx, args, out| zpop(cx, args, End::Min, out)),
];

/// The keys of a command that has their number behind another argument.
pub(super) fn counted_keys_later(args: &Args<'_>, keys: &mut Vec<usize>) {
    counted_keys(&args[1..], keys);
    keys.iter_mut().for_each(|at| *at += 1);
}

/// Which members are taken.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Min,
    Max,
}

/// How members are shown.
#[derive(Clone, Copy)]
enum Shown {
    /// One behind the other, with their scores.
    Flat,
    /// The same, behind the key.
    BehindKey,
    /// In pairs, in an array behind the key.
    PairsBehindKey,
    /// As the version of the protocol has them.
    Pairs,
}

/// Takes up to `count` members of a key's sorted set, and shows them. Whether there is one.
fn take(
    cx: &mut Cx<'_>,
    key: &[u8],
    count: usize,
    end: End,
    shown: Shown,
    out: &mut Reply,
) -> Result<bool, Fail> {
    let now = cx.now;
    if cx.read(key, |view, db| sorted(view, db, key, now).map(|sorted| sorted.is_none()))? {
        return Ok(false);
    }
    let (count, is_gone) = cx.write(key, |tx, db| {
        let Some(sorted) = sorted(tx, &tx[db], key, now)? else { return Ok::<_, Fail>((0, false)) };
        let len = tx[sorted].len();
        let count = count.min(len);
        let from = if end == End::Max { len - 1 } else { 0 };
        match shown {
            Shown::Flat => out.array(2 * count),
            Shown::Pairs => super::sorted_sets::members(out, count, true),
            Shown::BehindKey => {
                out.array(1 + 2 * count);
                out.bulk(key);
            }
            Shown::PairsBehindKey => {
                out.array(2);
                out.bulk(key);
                out.array(count);
            }
        }
        for item in tx[sorted].iter(tx, from, count, end == End::Max) {
            match shown {
                Shown::Pairs => member(out, &tx[item.member], Some(item.score)),
                Shown::PairsBehindKey => {
                    out.array(2);
                    out.bulk(&tx[item.member]);
                    out.double(item.score);
                }
                Shown::Flat | Shown::BehindKey => {
                    out.bulk(&tx[item.member]);
                    out.double(item.score);
                }
            }
        }
        if count == len {
            db.remove(tx, key);
            return Ok((count, true));
        }
        let mut member = Vec::new();
        for _ in 0..count {
            let from = if end == End::Max { tx[sorted].len() - 1 } else { 0 };
            let Some(item) = tx[sorted].iter(tx, from, 1, false).next() else { break };
            member.clear();
            member.extend_from_slice(&tx[item.member]);
            sorted.remove(tx, &member);
        }
        Ok((count, false))
    })?;
    removed(cx, key, if end == End::Max { "zpopmax" } else { "zpopmin" }, count, is_gone);
    Ok(true)
}

fn zpop(cx: &mut Cx<'_>, args: &Args<'_>, end: End, out: &mut Reply) -> Done {
    let count = match args[2..] {
        [] => None,
        [count] => {
            let count = words::int(count).and_then(|count| usize::try_from(count).ok());
            Some(count.ok_or_else(|| Fail::err("value is out of range, must be positive"))?)
        }
        _ => return Err(Fail::SYNTAX),
    };
    let shown = if count.is_some() { Shown::Pairs } else { Shown::Flat };
    if count == Some(0) {
        let (key, now) = (args[1], cx.now);
        cx.read(key, |view, db| sorted(view, db, key, now).map(drop))?;
        out.array(0);
    } else if !take(cx, args[1], count.unwrap_or(1), end, shown, out)? {
        out.array(0);
    }
    Ok(())
}

fn bzpop(cx: &mut Cx<'_>, args: &Args<'_>, end: End, out: &mut Reply) -> Done {
    let (timeout, keys) = (timeout(args[args.len() - 1])?, &args[1..args.len() - 1]);
    take_or_wait(cx, keys, 1, end, Shown::BehindKey, timeout, out)
}

/// Takes from the first of these keys that has something, or waits for one.
fn take_or_wait(
    cx: &mut Cx<'_>,
    keys: &[&[u8]],
    count: usize,
    end: End,
    shown: Shown,
    timeout: Option<f64>,
    out: &mut Reply,
) -> Done {
    for key in keys {
        if !cx.session.looks_at(key) {
            continue;
        }
        match take(cx, key, count, end, shown, out) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            // Who waits for a sorted set waits on where there is something else.
            Err(Fail::Error(_)) if cx.session.resumes => {}
            Err(fail) => return Err(fail),
        }
    }
    if !cx.may_block {
        out.null_array();
        return Ok(());
    }
    let keys = keys.iter().map(|key| key.to_vec()).collect();
    Err(Fail::Block(Block { keys, timeout, gives_up_with_null: false, needs_keys: false, instead: None }))
}

/// The keys, the end, and the count behind them.
fn several<'a>(args: &'a Args<'a>) -> Result<(&'a [&'a [u8]], End, usize), Fail> {
    let positive = |text: &[u8], name: &str| {
        let number = words::int(text).and_then(|number| usize::try_from(number).ok());
        let number = number.filter(|&number| number > 0);
        number.ok_or_else(|| Fail::err(format_args!("{name} should be greater than 0")))
    };
    let keys = positive(args[0], "numkeys")?;
    if keys >= args.len() - 1 {
        return Err(Fail::SYNTAX);
    }
    let (keys, options) = args[1..].split_at(keys);
    let end = match options[0].to_ascii_lowercase().as_slice() {
        b"min" => End::Min,
        b"max" => End::Max,
        _ => return Err(Fail::SYNTAX),
    };
    let count = match options[1..] {
        [] => 1,
        [option, count, ref rest @ ..] if option.eq_ignore_ascii_case(b"count") => {
            let count = positive(count, "count")?;
            if !rest.is_empty() {
                return Err(Fail::SYNTAX);
            }
            count
        }
        _ => return Err(Fail::SYNTAX),
    };
    Ok((keys, end, count))
}

fn zmpop(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (keys, end, count) = several(&args[1..])?;
    for key in keys {
        if take(cx, key, count, end, Shown::PairsBehindKey, out)? {
            return Ok(());
        }
    }
    out.null_array();
    Ok(())
}

fn bzmpop(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (keys, end, count) = several(&args[2..])?;
    take_or_wait(cx, keys, count, end, Shown::PairsBehindKey, timeout(args[1])?, out)
}
