//! Targets of pheap relative to the floor, to volatile Rust and to PMDK, checked on the rows of one group.
//!
//! The speed of a shared machine drifts. So a figure is divided by the bound of its own round, and the median
//! of these ratios decides. (A target for a note compares the medians of the notes.)

use crate::measure::{Row, median};
use std::fmt;

/// A measured figure, and its upper bound.
pub struct Target {
    what: String,
    n: u64,
    threads: u64,
    /// The figure and the bound: medians of all rounds.
    figure: f64,
    bound: f64,
    unit: &'static str,
    /// The median of the figure divided by the bound.
    ratio: f64,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Target { what, n, threads, figure, bound, unit, ratio } = self;
        let verdict = if *ratio <= 1.0 { "ok" } else { "MISSED" };
        let size = if *threads > 1 { format!("{n} threads={threads}") } else { n.to_string() };
        let decimals = if *bound < 10.0 { 3 } else { 1 };
        write!(
            f,
            "{what:<58} n={size:<17} {figure:>9.decimals$} {unit}, bound {bound:>9.decimals$} {unit}, ratio {ratio:.2} {verdict}"
        )
    }
}

/// Returns the targets for which the rows of one group have all figures.
pub fn targets(rows: &[Row]) -> Vec<Target> {
    let pheap = rows.iter().filter(|row| row.system == "pheap");
    pheap.flat_map(|row| Group(rows).targets(row).into_iter().chain(Group(rows).beside_pmdk(row))).collect()
}

/// The rows that took turns.
struct Group<'a>(&'a [Row]);

impl Group<'_> {
    fn targets(&self, row: &Row) -> Vec<Target> {
        let n = row.n;
        let found = match (row.bench, row.variant.as_str()) {
            ("txn_empty", "pmem") => vec![self.nanos("txn_empty <= 0.25 nt_line", row, &[(0.25, "nt_line")])],
            ("txn_small", "pmem") => vec![self.nanos("txn_small <= 1.3 nt_line", row, &[(1.3, "nt_line")])],
            ("txn_objects", "pmem:k8") => {
                vec![self.nanos("txn_objects, k = 8, <= 1.6 nt_5_lines", row, &[(1.6, "nt_5_lines")])]
            }
            ("nbody", "pmem") if n >= 100_000 => vec![self.nanos(
                "nbody, a step <= 1.2 (volatile + nt_5_lines)",
                row,
                &[(1.2, "array"), (1.2, "nt_5_lines")],
            )],
            ("sps", "pmem:slice_mut") if n == 1_000_000 => {
                vec![self.nanos("sps slice_mut, a swap <= 1.3 volatile", row, &[(1.3, "vec")])]
            }
            ("sps", "pmem:slice_mut") if n == 10_000_000 => {
                vec![self.nanos("sps slice_mut, a swap <= 1.1 volatile", row, &[(1.1, "vec")])]
            }
            ("sps", "pmem:element") if n == 1_000_000 => {
                let fences = row.counts.map_or(0.0, |counts| counts.fences as f64 / n as f64);
                vec![self.nanos(
                    "sps element, a swap <= 1.3 (fences x nt_line) + volatile",
                    row,
                    &[(1.3 * fences, "nt_line"), (1.0, "vec")],
                )]
            }
            ("fannkuch", "pmem") => vec![self.millis("fannkuch <= 1.1 volatile", row, 1.1, "array")],
            ("binary_trees", "pmem") if n >= 16 => vec![
                self.millis("binary_trees <= 0.6 box", row, 0.6, "box"),
                self.millis("binary_trees <= box-mimalloc", row, 1.0, "box-mimalloc"),
                noted("binary_trees, file <= 3 x most live bytes", row, "file_bytes", "MB", 1e-6, || {
                    Some(3.0 * row.note("most_live_bytes")?)
                }),
            ],
            ("alloc", "pmem:1000") => {
                vec![self.nanos("alloc, 1000 a transaction, <= 1.5 malloc + free", row, &[(1.5, "box")])]
            }
            ("alloc", "pmem:30") => {
                vec![self.nanos("alloc, 30 a transaction, <= 1.5 malloc + free", row, &[(1.5, "box")])]
            }
            ("fill_heap", "pmem") => {
                let each = |row: &Row| Some(1e9 / row.note("objects")?);
                vec![each(row).map(|scale| absolute("fill_heap, an object <= 25 ns", row, 25.0, "ns", scale))]
            }
            ("fill_heap_open", "pmem") => {
                vec![Some(absolute("fill_heap_open <= 5 ms", row, 5.0, "ms", 1e3))]
            }
            ("fill_heap_marked", "pmem") => {
                vec![self.millis("fill_heap_marked <= 1.5 walk", row, 1.5, "walk")]
            }
            ("fill_heap_marked", "pmem:mapped") => {
                vec![self.millis("fill_heap_marked, all pages mapped, <= 1.5 walk", row, 1.5, "walk")]
            }
            ("relocate", "pmem") => {
                vec![self.millis("relocate <= 2 plain passes", row, 2.0, "read-write")]
            }
            ("pauses", "pmem") => {
                vec![noted("pauses, p99 of slices <= 1 ms", row, "slice_p99", "us", 1e6, || Some(1e-3))]
            }
            _ => Vec::new(),
        };
        found.into_iter().flatten().collect()
    }

    /// Compares `pmem` with the fastest variant of PMDK that does the same. A variant that logs elements is
    /// compared with one that logs elements. A transaction is compared with a transaction, and also with a
    /// publication, which is none.
    fn beside_pmdk(&self, row: &Row) -> Vec<Target> {
        let (durability, variant) = row.variant.split_once(':').unwrap_or((&row.variant, ""));
        if durability != "pmem" {
            return Vec::new();
        }
        type Chosen = fn(&str) -> bool;
        let any: Chosen = |_| true;
        let (published, field): (Chosen, Chosen) =
            (|name| name.starts_with("publish"), |name| name.starts_with("field"));
        let transaction: Chosen = |name| !name.starts_with("publish");
        let peers = match (row.bench, variant) {
            ("sps" | "sps_recovery", "slice_mut") => vec![any],
            ("sps" | "sps_recovery", "element") => vec![field],
            ("txn_objects", k) if k.contains(':') => Vec::new(),
            ("txn_objects", _) | ("txn_small", "") => vec![transaction, published],
            ("alloc", _) | (_, "") => vec![any],
            _ => Vec::new(),
        };
        let (factor, factor_name) =
            if row.bench == "fill_heap_open" { (1.0 / 3.0, "1/3 ") } else { (1.0, "") };
        let target = |peer: &Row| {
            let name = if variant.is_empty() { String::new() } else { format!(" {variant}") };
            let what = format!("{}{name} <= {factor_name}PMDK ({})", row.bench, peer.variant);
            let bound = |round: usize| factor * peer.seconds[round] * 1e3;
            relative(what, row, peer.seconds.len(), |round| row.seconds[round] * 1e3, bound, "ms")
        };
        peers.into_iter().filter_map(|peer| self.fastest_pmdk(peer)).map(target).collect()
    }

    fn fastest_pmdk(&self, mine: fn(&str) -> bool) -> Option<&Row> {
        let pmdk = self.0.iter().filter(|row| row.system == "pmdk" && mine(&row.variant));
        pmdk.min_by(|a, b| a.median().total_cmp(&b.median()))
    }

    /// Returns the row of a bound: a row of the floor by its name, or of volatile Rust by its variant.
    fn other(&self, name: &str) -> Option<&Row> {
        self.0.iter().find(|row| match row.system {
            "floor" => row.bench == name || row.variant == name,
            "volatile" => row.variant == name,
            _ => false,
        })
    }

    /// Returns a target for one operation. The bound is the sum of other rows, each times a factor.
    fn nanos(&self, what: &str, row: &Row, weights: &[(f64, &str)]) -> Option<Target> {
        let weights: Option<Vec<(f64, &Row)>> =
            weights.iter().map(|&(factor, name)| Some((factor, self.other(name)?))).collect();
        let weights = weights?;
        let rounds = weights.iter().map(|(_, other)| other.seconds.len()).min()?;
        let bound = |round| weights.iter().map(|(factor, other)| factor * other.nanos(round)).sum();
        Some(relative(what, row, rounds, |round| row.nanos(round), bound, "ns"))
    }

    /// Returns a target for the whole run. The bound is another row, times a factor.
    fn millis(&self, what: &str, row: &Row, factor: f64, name: &str) -> Option<Target> {
        let other = self.other(name)?;
        let bound = |round: usize| factor * other.seconds[round] * 1e3;
        Some(relative(what, row, other.seconds.len(), |round| row.seconds[round] * 1e3, bound, "ms"))
    }
}

/// Compares the figure with the bound in each round. The rows of the bound may have fewer rounds.
fn relative(
    what: impl Into<String>,
    row: &Row,
    rounds: usize,
    figure: impl Fn(usize) -> f64,
    bound: impl Fn(usize) -> f64,
    unit: &'static str,
) -> Target {
    let rounds = 0..rounds.min(row.seconds.len());
    Target {
        what: what.into(),
        n: row.n,
        threads: row.threads,
        figure: median(rounds.clone().map(&figure)),
        bound: median(rounds.clone().map(&bound)),
        unit,
        ratio: median(rounds.map(|round| figure(round) / bound(round))),
    }
}

/// Returns a target with a constant bound.
fn absolute(what: &str, row: &Row, bound: f64, unit: &'static str, scale: f64) -> Target {
    relative(what, row, usize::MAX, |round| row.seconds[round] * scale, |_| bound, unit)
}

/// Returns a target for a note.
fn noted(
    what: &str,
    row: &Row,
    name: &str,
    unit: &'static str,
    scale: f64,
    bound: impl Fn() -> Option<f64>,
) -> Option<Target> {
    let (figure, bound) = (row.note(name)? * scale, bound()? * scale);
    Some(Target {
        what: what.into(),
        n: row.n,
        threads: row.threads,
        figure,
        bound,
        unit,
        ratio: figure / bound,
    })
}
