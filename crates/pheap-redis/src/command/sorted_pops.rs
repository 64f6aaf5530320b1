//! Sorted sets: removing members from either end.

use super::args::{counted_pop, maybe_number, one_of, timeout};
use super::lists_waiting::pop_first_nonempty;
use super::sorted_ranges::remove_ranks;
use super::sorted_sets::{write_member, write_members_head};
use super::table::{COUNTED, COUNTED_BEHIND_ONE, KEY, WRITE, WRITE_FAST};
use super::{Args, Command, Cx, Done, Fail, Flags, Keys};
use crate::data::Sorted;
use crate::resp::Reply;

const BLOCK: Flags = WRITE_FAST.and(Flags::NOSCRIPT).and(Flags::BLOCKING);

pub(super) const COMMANDS: &[Command] = &[
    Command::new("bzmpop", -5, WRITE.and(Flags::BLOCKING), COUNTED_BEHIND_ONE, bzmpop)
        .access("RW access delete"),
    Command::new("bzpopmax", -3, BLOCK, Keys::Range(1, -2, 1), |cx, args, out| {
        bzpop(cx, args, ScoreEnd::Max, out)
    })
    .access("RW access delete"),
    Command::new("bzpopmin", -3, BLOCK, Keys::Range(1, -2, 1), |cx, args, out| {
        bzpop(cx, args, ScoreEnd::Min, out)
    })
    .access("RW access delete"),
    Command::new("zmpop", -4, WRITE, COUNTED, zmpop).access("RW access delete"),
    Command::new("zpopmax", -2, WRITE_FAST, KEY, |cx, args, out| zpop(cx, args, ScoreEnd::Max, out))
        .access("RW access delete"),
    Command::new("zpopmin", -2, WRITE_FAST, KEY, |cx, args, out| zpop(cx, args, ScoreEnd::Min, out))
        .access("RW access delete"),
];

/// The end of a sorted set at which members are removed.
#[derive(Clone, Copy, PartialEq)]
enum ScoreEnd {
    Min,
    Max,
}

/// How the reply contains the removed members.
#[derive(Clone, Copy)]
enum PopLayout {
    /// The members one after another, with their scores.
    Flat,
    /// The key, then members one after another, with their scores.
    BehindKey,
    /// The key, then an array of pairs.
    PairsBehindKey,
    /// In RESP3 an array of pairs; in RESP2 as `Flat`.
    Pairs,
}

/// Removes up to `count` members of a key's sorted set and writes them. Returns whether the key existed.
fn pop_members(
    cx: &mut Cx<'_>,
    key: &[u8],
    count: usize,
    end: ScoreEnd,
    shown: PopLayout,
    out: &mut Reply,
) -> Result<bool, Fail> {
    let event = if end == ScoreEnd::Max { "zpopmax" } else { "zpopmin" };
    let taken = cx.remove_elements::<Sorted>(key, event, |tx, sorted, len| {
        let count = count.min(len);
        match shown {
            PopLayout::Flat => out.array(2 * count),
            PopLayout::Pairs => write_members_head(out, count, true),
            PopLayout::BehindKey => {
                out.array(1 + 2 * count);
                out.bulk(key);
            }
            PopLayout::PairsBehindKey => {
                out.array(2);
                out.bulk(key);
                out.array(count);
            }
        }
        let is_reverse = end == ScoreEnd::Max;
        for item in tx[sorted].iter(tx, if is_reverse { len - 1 } else { 0 }, count, is_reverse) {
            match shown {
                PopLayout::Pairs => {
                    write_member(out, &tx[item.member], Some(item.score));
                    continue;
                }
                PopLayout::PairsBehindKey => out.array(2),
                PopLayout::Flat | PopLayout::BehindKey => {}
            }
            out.bulk(&tx[item.member]);
            out.double(item.score);
        }
        if count < len {
            remove_ranks(tx, sorted, if is_reverse { len - count } else { 0 }, count);
        }
        Ok(count)
    });
    Ok(taken?.is_some())
}

fn zpop(cx: &mut Cx<'_>, args: &Args<'_>, end: ScoreEnd, out: &mut Reply) -> Done {
    let count = maybe_number(&args[2..], || Fail::SYNTAX)?;
    let shown = if count.is_some() { PopLayout::Pairs } else { PopLayout::Flat };
    if !pop_members(cx, args[1], count.unwrap_or(1), end, shown, out)? {
        out.array(0);
    }
    Ok(())
}

fn bzpop(cx: &mut Cx<'_>, args: &Args<'_>, end: ScoreEnd, out: &mut Reply) -> Done {
    let (timeout, keys) = (timeout(args[args.len() - 1])?, &args[1..args.len() - 1]);
    pop_first_nonempty(cx, keys, Some((1, timeout)), out, |cx, key, out| {
        pop_members(cx, key, 1, end, PopLayout::BehindKey, out)
    })
}

fn parse(text: &[u8]) -> Result<ScoreEnd, Fail> {
    one_of(text, &[("min", ScoreEnd::Min), ("max", ScoreEnd::Max)])
}

fn zmpop(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    pop_from_first_sorted_set(cx, counted_pop(&args[1..], parse)?, None, out)
}

fn bzmpop(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let asked = counted_pop(&args[2..], parse)?;
    pop_from_first_sorted_set(cx, asked, Some((3, timeout(args[1])?)), out)
}

/// Removes members of the first key that exists. If none exists, does as [`pop_first_nonempty`].
fn pop_from_first_sorted_set(
    cx: &mut Cx<'_>,
    (keys, end, count): (&Args<'_>, ScoreEnd, usize),
    wait: Option<(usize, Option<f64>)>,
    out: &mut Reply,
) -> Done {
    pop_first_nonempty(cx, keys, wait, out, |cx, key, out| {
        pop_members(cx, key, count, end, PopLayout::PairsBehindKey, out)
    })
}
