//! Sorted sets: members and their scores.

use super::args::{Scan, float};
use super::pick::{self, PickCount};
use super::table::{ADD_FAST, KEY, READ, READ_FAST, WRITE_FAST};
use super::values::{self, get, get_or_new};
use super::{Args, Command, Cx, Done, Fail, answer};
use crate::data::{Item, Owned, Rank, Sorted};
use crate::resp::Reply;
use crate::text::random::below;
use crate::text::words;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("zadd", -4, ADD_FAST, KEY, |cx, args, out| zadd(cx, args, false, out)).access("RW update"),
    Command::new("zcard", 2, READ_FAST, KEY, values::answer_len::<Sorted>).access("RO"),
    Command::new("zincrby", 4, ADD_FAST, KEY, |cx, args, out| zadd(cx, args, true, out)),
    Command::new("zmscore", -3, READ_FAST, KEY, zmscore),
    Command::new("zrandmember", -2, READ, KEY, zrandmember),
    Command::new("zrank", 3, READ_FAST, KEY, |cx, args, out| zrank(cx, args, false, out)),
    Command::new("zrem", -3, WRITE_FAST, KEY, zrem).access("RW delete"),
    Command::new("zrevrank", 3, READ_FAST, KEY, |cx, args, out| zrank(cx, args, true, out)),
    Command::new("zscan", -3, READ, KEY, zscan),
    Command::new("zscore", 3, READ_FAST, KEY, zscore),
];

/// Copied members and their scores.
pub(super) type ScoredMembers = Vec<(Vec<u8>, f64)>;

/// Replaces the value of a key by these members, or removes the key if there are none.
pub(super) fn store_members(cx: &mut Cx<'_>, key: &[u8], event: &str, mut members: ScoredMembers) -> Done {
    // The members are sorted first, because inserting in order gives a smaller tree.
    sort_members(&mut members);
    cx.replace_value(key, b'z', event, &Owned::Sorted(members))
}

/// Sorts members in the order of a sorted set.
pub(super) fn sort_members(members: &mut ScoredMembers) {
    let order = |one: &(Vec<u8>, f64), two: &(Vec<u8>, f64)| {
        one.1.partial_cmp(&two.1).unwrap_or(std::cmp::Ordering::Equal).then_with(|| one.0.cmp(&two.0))
    };
    members.sort_unstable_by(order);
}

/// Writes the head of an array of members, which [`write_member`] writes.
pub(super) fn write_members_head(out: &mut Reply, count: usize, with_scores: bool) {
    out.array(if with_scores && !out.is_resp3() { 2 * count } else { count });
}

/// Writes a member, and its score if there is one.
pub(super) fn write_member(out: &mut Reply, member: &[u8], score: Option<f64>) {
    if score.is_some() && out.is_resp3() {
        out.array(2);
    }
    out.bulk(member);
    if let Some(score) = score {
        out.double(score);
    }
}

/// The options of `ZADD` and `GEOADD`.
#[derive(Default)]
pub(super) struct ZaddOptions {
    pub(super) if_absent: bool,
    pub(super) if_present: bool,
    if_greater: bool,
    if_less: bool,
    adds: bool,
    counts_changed: bool,
}

impl ZaddOptions {
    /// Parses the options of `GEOADD`, and if `is_zadd` the others of `ZADD`, too. Returns them and the
    /// arguments after them.
    pub(super) fn parse<'a>(mut args: &'a Args<'a>, is_zadd: bool) -> (ZaddOptions, &'a Args<'a>) {
        let mut how = ZaddOptions::default();
        while let [option, rest @ ..] = args {
            let flag = match option.len() {
                2 | 4 => match option.to_ascii_lowercase().as_slice() {
                    b"nx" => &mut how.if_absent,
                    b"xx" => &mut how.if_present,
                    b"gt" if is_zadd => &mut how.if_greater,
                    b"lt" if is_zadd => &mut how.if_less,
                    b"ch" => &mut how.counts_changed,
                    b"incr" if is_zadd => &mut how.adds,
                    _ => break,
                },
                _ => break,
            };
            *flag = true;
            args = rest;
        }
        (how, args)
    }

    fn has_conditions(&self) -> bool {
        self.if_absent || self.if_present || self.if_greater || self.if_less
    }

    /// Returns the new score of a member, given its `old` score if it has one, or `None` if the options
    /// refuse it.
    fn new_score(&self, old: Option<f64>, score: f64) -> Result<Option<f64>, Fail> {
        let Some(old) = old else { return Ok((!self.if_present).then_some(score)) };
        if self.if_absent {
            return Ok(None);
        }
        let new = if self.adds { old + score } else { score };
        Fail::err_when(new.is_nan(), "resulting score is not a number (NaN)")?;
        let is_refused = self.if_less && new >= old || self.if_greater && new <= old;
        Ok((!is_refused).then_some(new))
    }
}

fn zadd(cx: &mut Cx<'_>, args: &Args<'_>, adds: bool, out: &mut Reply) -> Done {
    let key = args[1];
    let (mut how, pairs) = ZaddOptions::parse(&args[2..], true);
    how.adds |= adds;
    let pairs = pairs.chunks_exact(2);
    Fail::SYNTAX.when(!pairs.remainder().is_empty() || pairs.len() == 0)?;
    Fail::err_when(how.if_absent && how.if_present, "XX and NX options at the same time are not compatible")?;
    Fail::err_when(
        how.if_absent && (how.if_greater || how.if_less) || how.if_greater && how.if_less,
        "GT, LT, and/or NX options at the same time are not compatible",
    )?;
    Fail::err_when(how.adds && pairs.len() > 1, "INCR option supports a single increment-element pair")?;
    for pair in pairs.clone() {
        float(pair[0])?;
    }
    let pairs = pairs.map(|pair| (words::float(pair[0]).unwrap_or_default(), pair[1]));
    add_members(cx, key, &how, pairs, out)
}

/// Sets or increases the scores of members of a key's sorted set, as `how` says, and writes the answer of
/// `ZADD`. Creates the key if necessary, unless `if_present` is set.
pub(super) fn add_members<'a>(
    cx: &mut Cx<'_>,
    key: &[u8],
    how: &ZaddOptions,
    pairs: impl Iterator<Item = (f64, &'a [u8])>,
    out: &mut Reply,
) -> Done {
    let (now, mut added, mut updated, mut last) = (cx.now, 0, 0, None);
    cx.write(key, |tx, db| {
        if how.if_present && get::<Sorted>(tx, &tx[db], key, now)?.is_none() {
            return Ok::<_, Fail>(());
        }
        let sorted = get_or_new::<Sorted>(tx, db, key, now)?;
        for (mut score, member) in pairs {
            if how.adds || how.has_conditions() {
                match how.new_score(tx[sorted].score(tx, member), score)? {
                    None => continue,
                    Some(new) => score = new,
                }
            }
            last = Some(score);
            match sorted.set_score(tx, member, score)? {
                None => added += 1,
                Some(old) if old != score => updated += 1,
                Some(_) => {}
            }
        }
        Ok(())
    })?;
    cx.touched_often(b'z', if how.adds { "zincr" } else { "zadd" }, key, (added + updated) as u64);
    match (how.adds, last) {
        (true, None) => out.null(),
        (true, Some(score)) => out.double(score),
        (false, _) => out.count(if how.counts_changed { added + updated } else { added }),
    }
    Ok(())
}

fn zrem(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let count = cx.remove_elements::<Sorted>(args[1], "zrem", |tx, sorted, _| {
        Ok(args[2..].iter().filter(|member| sorted.remove(tx, member).is_some()).count())
    });
    count.map(|count| out.count(count.unwrap_or(0)))
}

fn zscore(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let score = cx.read_value::<Sorted, _>(args[1], |view, sorted| {
        Ok(sorted.and_then(|sorted| view[sorted].score(view, args[2])))
    });
    score.map(|score| out.maybe_double(score))
}

fn zmscore(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    cx.read_value::<Sorted, _>(args[1], |view, sorted| {
        out.array(args.len() - 2);
        for member in &args[2..] {
            out.maybe_double(sorted.and_then(|sorted| view[sorted].score(view, member)));
        }
        Ok(())
    })
}

fn zrank(cx: &mut Cx<'_>, args: &Args<'_>, is_reverse: bool, out: &mut Reply) -> Done {
    cx.read_value::<Sorted, _>(args[1], |view, sorted| {
        let sorted = sorted.map(|sorted| &view[sorted]);
        let place = sorted.and_then(|sorted| Some((sorted, sorted.score(view, args[2])?)));
        let Some((sorted, score)) = place else {
            return answer::null(out);
        };
        let rank = sorted.rank(view, score, args[2]);
        answer::count(out, if is_reverse { sorted.len() - 1 - rank } else { rank })
    })
}

fn zrandmember(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let asked = PickCount::of_pairs(&args[2..], "withscores")?;
    cx.read_value::<Sorted, _>(args[1], |view, sorted| {
        let sorted = sorted.map(|sorted| &view[sorted]);
        let len = sorted.map_or(0, Sorted::len);
        let one = || sorted?.iter(view, below(len), 1, false).next();
        let all = || sorted.into_iter().flat_map(|sorted| sorted.iter(view, 0, len, false));
        let write = |item: Item<'_>, out: &mut Reply| out.double(item.score);
        pick::answer(asked, len, one, all, |item| &view[item.member], out, write)
    })
}

fn zscan(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    Scan::of_value::<Sorted>(cx, args, out, |view, sorted, asked, is_compact, out| {
        let sorted = &view[sorted];
        let write = |(member, score): (&[u8], f64), out: &mut Reply| {
            out.bulk(member);
            out.bulk_float(score);
            2
        };
        if is_compact {
            // A set that is compact in Redis is scanned in the order of the scores, as in Redis.
            let all =
                || sorted.iter(view, 0, sorted.len(), false).map(|item| (&view[item.member], item.score));
            asked.answer(true, |_| (all(), 0), |(member, _)| member, out, write);
        } else {
            let step = |from| {
                let (some, next) = sorted.scores().scan(view, from);
                (some.map(|(member, &score)| (member, score)), next)
            };
            asked.answer(false, step, |(member, _)| member, out, write);
        }
    })
}
