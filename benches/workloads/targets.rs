//! What pheap promises relative to the floor and to volatile Rust, checked on the rows of one group.
//!
//! Speed drifts by a third within a minute on a shared machine, so a figure is divided by the bound of its own round,
//! and the median of these ratios decides.

use crate::measure::{Row, median};
use std::fmt;

/// A measured figure, and the bound that it should stay below.
pub struct Target {
    what: &'static str,
    n: u64,
    /// Nanoseconds an operation: the figure and the bound, medians of all rounds.
    nanos: f64,
    bound: f64,
    /// The median of figure divided by bound.
    ratio: f64,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Target { what, n, nanos, bound, ratio } = self;
        let verdict = if *ratio <= 1.0 { "ok" } else { "MISSED" };
        write!(f, "{what:<58} n={n:<8} {nanos:>9.1} ns, bound {bound:>9.1} ns, ratio {ratio:.2} {verdict}")
    }
}

/// The targets that the rows of one group have all figures for.
pub fn targets(rows: &[Row]) -> Vec<Target> {
    rows.iter().filter(|row| row.system == "pheap").filter_map(|row| target(row, rows)).collect()
}

fn target(row: &Row, rows: &[Row]) -> Option<Target> {
    let floor = |bench| rows.iter().find(|row| row.system == "floor" && row.bench == bench);
    let volatile = || rows.iter().find(|row| row.system == "volatile");
    let n = row.n;
    // The bound, as weights of other rows: nanoseconds an operation of one of them, times a factor.
    let (what, weights) = match (row.bench, row.variant.as_str()) {
        ("txn_empty", "pmem") => ("txn_empty <= 0.25 nt_line", vec![(0.25, floor("nt_line")?)]),
        ("txn_small", "pmem") => ("txn_small <= 1.5 nt_line", vec![(1.5, floor("nt_line")?)]),
        ("nbody", "pmem") if n >= 100_000 => (
            "nbody, a step <= 1.5 (volatile + nt_5_lines)",
            vec![(1.5, volatile()?), (1.5, floor("nt_5_lines")?)],
        ),
        ("sps", "pmem:slice_mut") if n == 1_000_000 => {
            ("sps slice_mut, a swap <= 1.5 volatile", vec![(1.5, volatile()?)])
        }
        ("sps", "pmem:element") if n == 1_000_000 => {
            let fences = row.counts?.fences as f64 / n as f64;
            (
                "sps element, a swap <= 1.3 (fences x nt_line) + volatile",
                vec![(1.3 * fences, floor("nt_line")?), (1.0, volatile()?)],
            )
        }
        _ => return None,
    };
    let rounds = 0..row.seconds.len();
    let bound = |round| weights.iter().map(|(factor, other)| factor * other.nanos(round)).sum::<f64>();
    Some(Target {
        what,
        n,
        nanos: median(rounds.clone().map(|round| row.nanos(round))),
        bound: median(rounds.clone().map(bound)),
        ratio: median(rounds.map(|round| row.nanos(round) / bound(round))),
    })
}
