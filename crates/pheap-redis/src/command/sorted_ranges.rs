//! Sorted sets: members in ranges of ranks, scores or names.

use super::args::{index_range, int};
use super::sorted_sets::{store_members, write_member, write_members_head};
use super::table::{ADD, KEY, READ, READ_FAST, TWO_KEYS, WRITE};
use super::{Args, Command, Cx, Done, Fail, answer};
use crate::data::{P, Rank, Sorted, Txn, View};
use crate::resp::Reply;
use crate::text::words;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("zcount", 4, READ_FAST, KEY, |cx, args, out| count(cx, args, RangeType::Score, out)),
    Command::new("zlexcount", 4, READ_FAST, KEY, |cx, args, out| count(cx, args, RangeType::Lex, out)),
    Command::new("zrange", -4, READ, KEY, |cx, args, out| range(cx, args, None, out)),
    Command::new("zrangebylex", -4, READ, KEY, |cx, args, out| {
        range(cx, args, Some((RangeType::Lex, false)), out)
    }),
    Command::new("zrangebyscore", -4, READ, KEY, |cx, args, out| {
        range(cx, args, Some((RangeType::Score, false)), out)
    }),
    Command::new("zrangestore", -5, ADD, TWO_KEYS, zrangestore).accesses("OW update", "RO access"),
    Command::new("zremrangebylex", 4, WRITE, KEY, |cx, args, out| {
        remove(cx, args, RangeType::Lex, "zremrangebylex", out)
    })
    .access("RW delete"),
    Command::new("zremrangebyrank", 4, WRITE, KEY, |cx, args, out| {
        remove(cx, args, RangeType::Rank, "zremrangebyrank", out)
    })
    .access("RW delete"),
    Command::new("zremrangebyscore", 4, WRITE, KEY, |cx, args, out| {
        remove(cx, args, RangeType::Score, "zremrangebyscore", out)
    })
    .access("RW delete"),
    Command::new("zrevrange", -4, READ, KEY, |cx, args, out| {
        range(cx, args, Some((RangeType::Rank, true)), out)
    }),
    Command::new("zrevrangebylex", -4, READ, KEY, |cx, args, out| {
        range(cx, args, Some((RangeType::Lex, true)), out)
    }),
    Command::new("zrevrangebyscore", -4, READ, KEY, |cx, args, out| {
        range(cx, args, Some((RangeType::Score, true)), out)
    }),
];

/// The property of members that a range limits.
#[derive(Debug, Clone, Copy, PartialEq)]
enum RangeType {
    Rank,
    Score,
    Lex,
}

/// A bound of a range, and whether the range excludes the bound itself.
type Bound<T> = (T, bool);

/// A range of the members of a sorted set.
#[derive(Debug, PartialEq)]
enum MemberRange<'a> {
    /// First and last rank. Negative ranks count from the end: -1 is the last member.
    Ranks(i64, i64),
    Scores(Bound<f64>, Bound<f64>),
    Names(LexBound<'a>, LexBound<'a>),
}

/// A bound of a range of names.
#[derive(Debug, PartialEq)]
enum LexBound<'a> {
    BeforeAll,
    At(Bound<&'a [u8]>),
    AfterAll,
}

impl<'a> LexBound<'a> {
    fn parse(text: &'a [u8]) -> Result<LexBound<'a>, Fail> {
        match text {
            b"-" => Ok(LexBound::BeforeAll),
            b"+" => Ok(LexBound::AfterAll),
            [b'[', name @ ..] => Ok(LexBound::At((name, false))),
            [b'(', name @ ..] => Ok(LexBound::At((name, true))),
            _ => Err(Fail::err("min or max not valid string range item")),
        }
    }

    /// Returns whether a name precedes this bound. For a name equal to the bound, returns what `is_included`
    /// returns for whether the range excludes the bound.
    fn is_after(&self, name: &[u8], is_included: impl Fn(bool) -> bool) -> bool {
        match self {
            LexBound::BeforeAll => false,
            LexBound::AfterAll => true,
            LexBound::At((bound, is_excluded)) => {
                name < *bound || name == *bound && is_included(*is_excluded)
            }
        }
    }
}

fn score(text: &[u8]) -> Result<Bound<f64>, Fail> {
    let (number, is_excluded) = text.strip_prefix(b"(").map_or((text, false), |number| (number, true));
    let number = words::c_float(number).ok_or_else(|| Fail::err("min or max is not a float"))?;
    Ok((number, is_excluded))
}

impl<'a> MemberRange<'a> {
    fn parse(by: RangeType, min: &'a [u8], max: &'a [u8]) -> Result<MemberRange<'a>, Fail> {
        Ok(match by {
            RangeType::Rank => MemberRange::Ranks(int(min)?, int(max)?),
            RangeType::Score => MemberRange::Scores(score(min)?, score(max)?),
            RangeType::Lex => MemberRange::Names(LexBound::parse(min)?, LexBound::parse(max)?),
        })
    }

    /// Returns the first rank in the range, and the rank after the last one. With `is_reverse`, the ranks in
    /// `self` are counted from the last member.
    fn ranks<'r>(&self, view: &View<'r>, sorted: &Sorted<'r>, is_reverse: bool) -> (usize, usize) {
        let (first, end) = match self {
            MemberRange::Ranks(start, end) => {
                let places = index_range(*start, *end, sorted.len());
                let from_end = |rank: usize| sorted.len() - rank;
                if is_reverse {
                    (from_end(places.end), from_end(places.start))
                } else {
                    (places.start, places.end)
                }
            }
            MemberRange::Scores((min, without_min), (max, without_max)) => {
                let is_before = |score: f64| if *without_min { score <= *min } else { score < *min };
                let is_up_to = |score: f64| if *without_max { score < *max } else { score <= *max };
                (
                    sorted.count_before(view, |item| is_before(item.score)),
                    sorted.count_before(view, |item| is_up_to(item.score)),
                )
            }
            MemberRange::Names(min, max) => (
                sorted.count_before(view, |item| min.is_after(&view[item.member], |is_excluded| is_excluded)),
                sorted
                    .count_before(view, |item| max.is_after(&view[item.member], |is_excluded| !is_excluded)),
            ),
        };
        (first, end.max(first))
    }
}

/// The parsed arguments of `ZRANGE` and the like.
struct RangeArgs<'a> {
    range: MemberRange<'a>,
    is_reverse: bool,
    with_scores: bool,
    offset: i64,
    limit: i64,
}

impl<'a> RangeArgs<'a> {
    /// Parses two bounds and the options after them. `fixed` is set for the older commands: kind and
    /// direction of their range are not options.
    fn parse(
        args: &'a Args<'a>,
        fixed: Option<(RangeType, bool)>,
        may_have_scores: bool,
    ) -> Result<RangeArgs<'a>, Fail> {
        let (mut by, mut is_reverse) = fixed.unzip();
        let (mut with_scores, mut offset, mut limit) = (false, 0, -1);
        let mut rest = &args[2..];
        while let [option, after @ ..] = rest {
            rest = after;
            match option.to_ascii_lowercase().as_slice() {
                b"withscores" if may_have_scores => with_scores = true,
                b"limit" if after.len() >= 2 => {
                    (offset, limit) = (int(after[0])?, int(after[1])?);
                    rest = &after[2..];
                }
                b"rev" if is_reverse.is_none() => is_reverse = Some(true),
                b"bylex" if by.is_none() => by = Some(RangeType::Lex),
                b"byscore" if by.is_none() => by = Some(RangeType::Score),
                _ => return Err(Fail::SYNTAX),
            }
        }
        let (by, is_reverse) = (by.unwrap_or(RangeType::Rank), is_reverse.unwrap_or(false));
        Fail::err_when(
            limit != -1 && by == RangeType::Rank,
            "syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        )?;
        if by == RangeType::Rank {
            offset = 0; // as in Redis, which ignores `LIMIT n -1` here
        }
        Fail::err_when(
            with_scores && by == RangeType::Lex,
            "syntax error, WITHSCORES not supported in combination with BYLEX",
        )?;
        let (min, max) =
            if is_reverse && by != RangeType::Rank { (args[1], args[0]) } else { (args[0], args[1]) };
        Ok(RangeArgs { range: MemberRange::parse(by, min, max)?, is_reverse, with_scores, offset, limit })
    }

    /// Returns the rank to start at, and the number of members. If `is_reverse`, ranks go down from there.
    fn start_and_count<'r>(&self, view: &View<'r>, sorted: &Sorted<'r>) -> (usize, usize) {
        let (first, end) = self.range.ranks(view, sorted, self.is_reverse);
        let Some(offset) = usize::try_from(self.offset).ok().filter(|&offset| offset < end - first) else {
            return (0, 0);
        };
        let count = (end - first - offset).min(usize::try_from(self.limit).unwrap_or(usize::MAX));
        (if self.is_reverse { end - 1 - offset } else { first + offset }, count)
    }
}

fn range(cx: &mut Cx<'_>, args: &Args<'_>, fixed: Option<(RangeType, bool)>, out: &mut Reply) -> Done {
    let asked = RangeArgs::parse(&args[2..], fixed, true)?;
    cx.read_value::<Sorted, _>(args[1], |view, sorted| {
        let Some(sorted) = sorted.map(|sorted| &view[sorted]) else {
            return answer::empty(out);
        };
        let (from, count) = asked.start_and_count(view, sorted);
        write_members_head(out, count, asked.with_scores);
        for item in sorted.iter(view, from, count, asked.is_reverse) {
            write_member(out, &view[item.member], asked.with_scores.then_some(item.score));
        }
        Ok(())
    })
}

fn zrangestore(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let asked = RangeArgs::parse(&args[3..], None, false)?;
    let found = cx.read_value::<Sorted, _>(args[2], |view, sorted| {
        let Some(sorted) = sorted.map(|sorted| &view[sorted]) else { return Ok(Vec::new()) };
        let (from, count) = asked.start_and_count(view, sorted);
        let items = sorted.iter(view, from, count, asked.is_reverse);
        Ok(items.map(|item| (view[item.member].to_vec(), item.score)).collect())
    })?;
    out.count(found.len());
    store_members(cx, args[1], "zrangestore", found)
}

fn count(cx: &mut Cx<'_>, args: &Args<'_>, by: RangeType, out: &mut Reply) -> Done {
    let range = MemberRange::parse(by, args[2], args[3])?;
    let ranks = cx.read_value::<Sorted, _>(args[1], |view, sorted| {
        Ok(sorted.map_or((0, 0), |sorted| range.ranks(view, &view[sorted], false)))
    });
    ranks.map(|(first, end)| out.count(end - first))
}

fn remove(cx: &mut Cx<'_>, args: &Args<'_>, by: RangeType, event: &str, out: &mut Reply) -> Done {
    let range = MemberRange::parse(by, args[2], args[3])?;
    let count = cx.remove_elements::<Sorted>(args[1], event, |tx, sorted, len| {
        let (first, end) = range.ranks(tx, &tx[sorted], false);
        if end - first < len {
            remove_ranks(tx, sorted, first, end - first);
        }
        Ok(end - first)
    });
    count.map(|count| out.count(count.unwrap_or(0)))
}

/// Removes `count` members from rank `first` on.
pub(super) fn remove_ranks<'r>(tx: &mut Txn<'r>, sorted: P<'r, Sorted<'r>>, first: usize, count: usize) {
    let items: Vec<_> = tx[sorted].iter(tx, first, count, false).collect();
    let mut member = Vec::new();
    for item in items {
        member.clear();
        member.extend_from_slice(&tx[item.member]);
        sorted.remove(tx, &member);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds() {
        assert_eq!(score(b"(1.5").unwrap(), (1.5, true));
        assert_eq!(score(b"-inf").unwrap(), (f64::NEG_INFINITY, false));
        // As in Redis, the number may be empty, may follow spaces, and may be too large for a float.
        assert_eq!(score(b"(").unwrap(), (0.0, true));
        assert_eq!(score(b" 1e400").unwrap(), (f64::INFINITY, false));
        assert_eq!(LexBound::parse(b"(").unwrap(), LexBound::At((b"", true)));
        for text in ["", "a", "-a", "++"] {
            assert!(LexBound::parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!([&b"((1"[..], b"nan", b" ", b"1 "].iter().all(|text| score(text).is_err()));
    }
}
