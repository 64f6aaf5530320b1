//! Intersections, unions and differences of sorted sets and sets.
//!
//! The keys may be in different shards, so members are copied out of one, and looked up in the others. A
//! union copies the members of all.

use std::collections::HashMap;

use super::args::{counted_keys, int, one_of};
use super::set_algebra::limit;
use super::sorted_sets::{ScoredMembers, sort_members, store_members, write_member, write_members_head};
use super::table::{ADD, COUNTED, READ};
use super::{Args, Command, Cx, Done, Fail, Keys, answer};
use crate::data::{P, Set, Sorted, Value, View};
use crate::resp::Reply;
use crate::text::words;

const TARGET_AND_COUNTED: Keys = Keys::Find(|args, keys| {
    keys.push(1);
    counted_keys(args, 2, keys);
});

pub(super) const COMMANDS: &[Command] = &[
    Command::new("zdiff", -3, READ, COUNTED, |cx, args, out| {
        answer(cx, args, AlgebraOp::Difference, "zdiff", out)
    }),
    Command::new("zdiffstore", -4, ADD, TARGET_AND_COUNTED, |cx, args, out| {
        answer_count(cx, args, AlgebraOp::Difference, "zdiffstore", out)
    })
    .accesses("OW update", "RO access"),
    Command::new("zinter", -3, READ, COUNTED, |cx, args, out| {
        answer(cx, args, AlgebraOp::Intersection, "zinter", out)
    }),
    Command::new("zintercard", -3, READ, COUNTED, zintercard),
    Command::new("zinterstore", -4, ADD, TARGET_AND_COUNTED, |cx, args, out| {
        answer_count(cx, args, AlgebraOp::Intersection, "zinterstore", out)
    })
    .accesses("OW update", "RO access"),
    Command::new("zunion", -3, READ, COUNTED, |cx, args, out| {
        answer(cx, args, AlgebraOp::Union, "zunion", out)
    }),
    Command::new("zunionstore", -4, ADD, TARGET_AND_COUNTED, |cx, args, out| {
        answer_count(cx, args, AlgebraOp::Union, "zunionstore", out)
    })
    .accesses("OW update", "RO access"),
];

/// The operation on several sets.
#[derive(Clone, Copy, PartialEq)]
enum AlgebraOp {
    Union,
    Intersection,
    Difference,
}

/// How the scores of the same member are combined.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

const AGGREGATES: &[(&str, Aggregate)] =
    &[("sum", Aggregate::Sum), ("min", Aggregate::Min), ("max", Aggregate::Max)];

impl Aggregate {
    fn apply(self, one: f64, two: f64) -> f64 {
        match self {
            // The sum of plus and minus infinity counts as 0.
            Aggregate::Sum if (one + two).is_nan() => 0.0,
            Aggregate::Sum => one + two,
            Aggregate::Min if two < one => two,
            Aggregate::Max if two > one => two,
            Aggregate::Min | Aggregate::Max => one,
        }
    }
}

/// A sorted set, or a set. Elements of a set count as having the score 1.
enum ScoreSource<'v, 'r> {
    Sorted(&'v Sorted<'r>),
    Set(P<'r, Set<'r>>),
}

impl<'v, 'r> ScoreSource<'v, 'r> {
    fn len(&self, view: &View<'r>) -> usize {
        match self {
            ScoreSource::Sorted(sorted) => sorted.len(),
            ScoreSource::Set(set) => view[*set].len(),
        }
    }

    fn score(&self, view: &View<'r>, member: &[u8]) -> Option<f64> {
        match self {
            ScoreSource::Sorted(sorted) => sorted.score(view, member),
            ScoreSource::Set(set) => set.contains(view, member).then_some(1.0),
        }
    }

    fn for_each(&self, view: &'v View<'r>, mut f: impl FnMut(&[u8], f64)) {
        match self {
            ScoreSource::Sorted(sorted) => {
                sorted.scores().iter(view).for_each(|(member, score)| f(member, *score))
            }
            ScoreSource::Set(set) => set.iter(view).for_each(|element| f(element, 1.0)),
        }
    }
}

/// Calls `f` with the sorted set or set of a key, or with `None` if the key does not exist.
fn with_source<R>(
    cx: &mut Cx<'_>,
    key: &[u8],
    f: impl for<'v, 'r> FnOnce(&'v View<'r>, Option<ScoreSource<'v, 'r>>) -> R,
) -> Result<R, Fail> {
    let now = cx.now;
    cx.read(key, |view, db| {
        let source = match db.get(view, key, now) {
            None => None,
            Some(Value::Sorted(sorted)) => Some(ScoreSource::Sorted(&view[sorted])),
            Some(Value::Set(set)) => Some(ScoreSource::Set(set)),
            Some(_) => return Err(Fail::WRONG_TYPE),
        };
        Ok(f(view, source))
    })
}

/// The parsed arguments of a command on several sorted sets.
struct AlgebraArgs<'a> {
    op: AlgebraOp,
    /// For each key: name, weight, and number of members.
    sources: Vec<(&'a [u8], f64, usize)>,
    aggregate: Aggregate,
    with_scores: bool,
    limit: usize,
}

/// What the command does with the result, on which its options depend.
#[derive(Clone, Copy, PartialEq)]
enum CommandPurpose {
    Answer,
    Storing,
    Counting,
}

impl<'a> AlgebraArgs<'a> {
    /// Parses the number of keys, the keys, and the options.
    fn parse(
        cx: &mut Cx<'_>,
        args: &'a Args<'a>,
        op: AlgebraOp,
        command: &str,
        purpose: CommandPurpose,
    ) -> Result<AlgebraArgs<'a>, Fail> {
        let count = int(args[0])?;
        Fail::err_when(count < 1, format_args!("at least 1 input key is needed for '{command}' command"))?;
        let count = count as usize;
        Fail::SYNTAX.when(count > args.len() - 1)?;
        let (keys, mut options) = args[1..].split_at(count);
        let mut sources = Vec::with_capacity(count);
        for key in keys {
            let len = with_source(cx, key, |view, source| source.map_or(0, |source| source.len(view)))?;
            sources.push((*key, 1.0, len));
        }
        let mut asked =
            AlgebraArgs { op, sources, aggregate: Aggregate::Sum, with_scores: false, limit: usize::MAX };
        if purpose == CommandPurpose::Counting {
            asked.limit = limit(options)?;
            return Ok(asked);
        }
        let has_weights = op != AlgebraOp::Difference;
        while let [option, rest @ ..] = options {
            options = match option.to_ascii_lowercase().as_slice() {
                b"weights" if has_weights && rest.len() >= count => {
                    for (source, weight) in asked.sources.iter_mut().zip(rest) {
                        let weight = words::float(weight);
                        source.1 = weight.ok_or_else(|| Fail::err("weight value is not a float"))?;
                    }
                    &rest[count..]
                }
                b"aggregate" if has_weights && !rest.is_empty() => {
                    asked.aggregate = one_of(rest[0], AGGREGATES)?;
                    &rest[1..]
                }
                b"withscores" if purpose == CommandPurpose::Answer => {
                    asked.with_scores = true;
                    rest
                }
                _ => return Err(Fail::SYNTAX),
            };
        }
        Ok(asked)
    }

    /// Returns the members of the result, in no particular order.
    fn combine(mut self, cx: &mut Cx<'_>) -> Result<ScoredMembers, Fail> {
        if self.op != AlgebraOp::Difference {
            // The smallest set comes first, and an intersection copies only that set.
            self.sources.sort_by_key(|&(_, _, len)| len);
        }
        match self.op {
            AlgebraOp::Union => self.union(cx),
            AlgebraOp::Intersection => self.intersection(cx),
            AlgebraOp::Difference => self.difference(cx),
        }
    }

    fn union(self, cx: &mut Cx<'_>) -> Result<ScoredMembers, Fail> {
        let most = self.sources.last().map_or(0, |&(_, _, len)| len);
        let mut all: HashMap<Vec<u8>, f64> = HashMap::with_capacity(most);
        for (key, weight, _) in self.sources {
            with_source(cx, key, |view, source| {
                let Some(source) = source else { return };
                source.for_each(view, |member, score| {
                    let score = weighted_score(weight, score);
                    match all.get_mut(member) {
                        Some(sum) => *sum = self.aggregate.apply(*sum, score),
                        None => drop(all.insert(member.to_vec(), score)),
                    }
                });
            })?;
        }
        Ok(all.into_iter().collect())
    }

    fn intersection(self, cx: &mut Cx<'_>) -> Result<ScoredMembers, Fail> {
        let (key, weight, len) = self.sources[0];
        if len == 0 {
            return Ok(Vec::new());
        }
        let mut common = copy_members(cx, key, weight)?;
        for &(key, weight, _) in &self.sources[1..] {
            with_source(cx, key, |view, source| {
                common.retain_mut(|(member, sum)| {
                    let score = source.as_ref().and_then(|source| source.score(view, member));
                    if let Some(score) = score {
                        let score = weight * score;
                        *sum = self.aggregate.apply(*sum, score);
                    }
                    score.is_some()
                });
            })?;
        }
        Ok(common)
    }

    fn difference(self, cx: &mut Cx<'_>) -> Result<ScoredMembers, Fail> {
        let mut rest = copy_members(cx, self.sources[0].0, 1.0)?;
        for (key, _, len) in &self.sources[1..] {
            if *len > 0 && !rest.is_empty() {
                with_source(cx, key, |view, source| {
                    rest.retain(|(member, _)| {
                        source.as_ref().is_none_or(|source| source.score(view, member).is_none())
                    });
                })?;
            }
        }
        Ok(rest)
    }
}

/// Returns a score times a weight, or 0 instead of NaN.
fn weighted_score(weight: f64, score: f64) -> f64 {
    let score = weight * score;
    if score.is_nan() { 0.0 } else { score }
}

/// Returns all members of a key's sorted set or set, with weighted scores.
fn copy_members(cx: &mut Cx<'_>, key: &[u8], weight: f64) -> Result<ScoredMembers, Fail> {
    with_source(cx, key, |view, source| {
        let mut all = Vec::new();
        if let Some(source) = source {
            all.reserve(source.len(view));
            source.for_each(view, |member, score| all.push((member.to_vec(), weighted_score(weight, score))));
        }
        all
    })
}

fn answer(cx: &mut Cx<'_>, args: &Args<'_>, op: AlgebraOp, command: &str, out: &mut Reply) -> Done {
    let asked = AlgebraArgs::parse(cx, &args[1..], op, command, CommandPurpose::Answer)?;
    let with_scores = asked.with_scores;
    let mut found = asked.combine(cx)?;
    sort_members(&mut found);
    write_members_head(out, found.len(), with_scores);
    found.iter().for_each(|(name, score)| write_member(out, name, with_scores.then_some(*score)));
    Ok(())
}

/// Runs a command that stores its result, and answers with the number of members.
fn answer_count(cx: &mut Cx<'_>, args: &Args<'_>, op: AlgebraOp, command: &str, out: &mut Reply) -> Done {
    let found = AlgebraArgs::parse(cx, &args[2..], op, command, CommandPurpose::Storing)?.combine(cx)?;
    out.count(found.len());
    store_members(cx, args[1], command, found)
}

fn zintercard(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let asked =
        AlgebraArgs::parse(cx, &args[1..], AlgebraOp::Intersection, "zintercard", CommandPurpose::Counting)?;
    let limit = asked.limit;
    answer::count(out, asked.combine(cx)?.len().min(limit))
}
