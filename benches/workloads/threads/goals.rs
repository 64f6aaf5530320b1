//! Goals for concurrent threads. A figure is computed from the rows of one round, and the median of the
//! rounds decides.

use super::syncs::LONG;
use crate::measure::{Row, median};
use std::fmt;

/// A figure, and its bound.
pub struct Goal {
    /// Name of the row.
    what: String,
    /// Median of the rounds.
    figure: f64,
    unit: &'static str,
    bound: Bound,
}

enum Bound {
    AtLeast(f64),
    AtMost(f64),
    /// The figure is only reported.
    None,
}
use Bound::{AtLeast, AtMost};

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Goal { what, figure, unit, bound } = self;
        write!(f, "{what:<48} {figure:>9.2} {unit}")?;
        let (words, bound, reached) = match *bound {
            AtLeast(bound) => ("at least", bound, *figure >= bound),
            AtMost(bound) => ("at most", bound, *figure <= bound),
            Bound::None => return Ok(()),
        };
        write!(f, ", {words} {bound} {}", if reached { "ok" } else { "MISSED" })
    }
}

/// Returns the goals of the rows of one group.
pub fn goals(rows: &[Row]) -> Vec<Goal> {
    rows.iter().flat_map(|row| Group(rows).goals(row)).flatten().collect()
}

/// The rows that took turns.
struct Group<'a>(&'a [Row]);

impl Group<'_> {
    fn goals(&self, row: &Row) -> Vec<Option<Goal>> {
        let (mode, variant) = row.variant.split_once(':').unwrap_or((&row.variant, ""));
        let beside = |variant| self.row(row.system, &format!("{mode}:{variant}"), row.threads);
        match (row.bench, variant) {
            ("read_in_closure", "beside") => vec![
                goal(row, Some(row), "us, p99 of reads", AtMost(50.0), |row, _, i| {
                    micros(row, i, "read_p99")
                }),
                goal(row, beside("alone"), "us, p99 of reads alone", Bound::None, |_, alone, i| {
                    micros(alone, i, "read_p99")
                }),
                goal(row, beside("alone"), "x its reads alone", Bound::None, times),
            ],
            ("writer_and_reader", "both") => {
                let writes = |row: &Row, i| note(row, i, "writes_per_second");
                vec![
                    goal(row, beside("reader"), "x its reads alone", AtLeast(0.5), times),
                    goal(row, beside("writer"), "x its writes alone", AtLeast(0.5), |row, alone, i| {
                        writes(row, i) * alone.nanos(i) * 1e-9
                    }),
                    goal(row, beside("apart"), "x its reads apart", Bound::None, times),
                    goal(row, beside("apart"), "x its writes apart", Bound::None, |row, apart, i| {
                        writes(row, i) / writes(apart, i)
                    }),
                ]
            }
            ("read_one", "one") => {
                let more = |row: &Row, many: &Row, i| row.nanos(i) - many.nanos(i);
                vec![goal(row, beside("thousand"), "ns more than one of a thousand", AtMost(12.0), more)]
            }
            ("reads" | "txn_small" | "alloc" | "insert" | "update_wal", _) if row.threads > 1 => {
                let least = AtLeast(if row.bench == "update_wal" { 0.8 } else { 0.95 });
                let bound = if row.threads == 2 { least } else { Bound::None };
                let apart = beside("own_heaps").filter(|_| variant != "own_heaps");
                let single = self.row(row.system, &row.variant, 1);
                vec![
                    goal(row, apart, "x own_heaps", bound, times),
                    goal(row, single, "x one thread", Bound::None, times),
                ]
            }
            ("reads_beside_sync", "beside" | "deferred") => {
                let (itself, floor) = (Some(row), self.row("floor", "write_and_sync", 1));
                let told = |other, unit, name: &'static str| {
                    goal(row, other, unit, Bound::None, move |_, other, i| micros(other, i, name))
                };
                vec![
                    told(itself, "us, median of reads", "read_p50"),
                    told(itself, "us, p99 of reads", "read_p99"),
                    told(itself, "us, median of reads seen", "read_seen_p50"),
                    told(itself, "us, p99 of reads seen", "read_seen_p99"),
                    told(beside("alone"), "us, p99 of reads seen alone", "read_seen_p99"),
                    told(itself, "us, p99 of writes", "write_p99"),
                    told(floor, "us, p99 of write and sync", "write_p99"),
                    goal(row, beside("alone"), "x its reads alone", Bound::None, times),
                ]
            }
            ("writes_beside_long_reads", "beside") => {
                let share = |row: &Row, alone: &Row, i| {
                    (LONG.as_secs_f64() * 1e6 + micros(alone, i, "write_mean")) / micros(row, i, "write_mean")
                };
                vec![goal(row, beside("alone"), "x one write a read and a sync", AtLeast(0.8), share)]
            }
            ("durable_beside_sync", "beside") => {
                let of_reads = |unit, most, name: &'static str| {
                    goal(row, Some(row), unit, AtMost(most), move |_, row, i| micros(row, i, name))
                };
                vec![
                    of_reads("us, median of reads", 2.0, "read_p50"),
                    of_reads("us, p99 of reads", 100.0, "read_p99"),
                    goal(row, beside("alone"), "x its reads alone", Bound::None, times),
                ]
            }
            ("tasks_beside_sync", "beside") => {
                vec![goal(row, beside("alone"), "x its reads alone", AtLeast(0.8), times)]
            }
            ("mix", _) if row.system == "pheap" => {
                let peer = |system| self.row(system, &row.variant, row.threads);
                vec![
                    goal(row, peer("rwlock"), "x rwlock", Bound::None, times),
                    goal(row, peer("dashmap"), "x dashmap", Bound::None, times),
                ]
            }
            ("swaps" | "set_hash" | "set_tree" | "queue", _) if row.system == "pheap" => {
                let parameter = variant.rsplit(':').next().unwrap_or(variant);
                let peer = |system| self.row(system, parameter, row.threads);
                vec![
                    goal(row, peer("trinity"), "x trinity", Bound::None, times),
                    goal(row, peer("quadra"), "x quadra", Bound::None, times),
                    goal(row, peer("romulus"), "x romulus", Bound::None, times),
                ]
            }
            _ => Vec::new(),
        }
    }

    fn row(&self, system: &str, variant: &str, threads: u64) -> Option<&Row> {
        self.0.iter().find(|row| row.system == system && row.variant == variant && row.threads == threads)
    }
}

/// Computes a figure from two rows in each round. Returns `None` if the other row is missing.
fn goal(
    row: &Row,
    other: Option<&Row>,
    unit: &'static str,
    bound: Bound,
    figure: impl Fn(&Row, &Row, usize) -> f64,
) -> Option<Goal> {
    let other = other?;
    let rounds = row.seconds.len().min(other.seconds.len());
    let figure = median((0..rounds).map(|round| figure(row, other, round)));
    let threads = if row.threads > 1 { format!(" threads={}", row.threads) } else { String::new() };
    let what = format!("{} {}{threads}", row.bench, row.variant);
    Some(Goal { what, figure, unit, bound })
}

/// Returns the rate of a row, divided by that of the other.
fn times(row: &Row, other: &Row, round: usize) -> f64 {
    other.nanos(round) / row.nanos(round)
}

fn note(row: &Row, round: usize, name: &str) -> f64 {
    row.notes[round].get(name).unwrap_or(f64::NAN)
}

fn micros(row: &Row, round: usize, name: &str) -> f64 {
    note(row, round, name) * 1e6
}
