//! The list of comparisons in which another system is faster than pheap.

use super::ratios::size;
use crate::benches::BENCHES;
use crate::charts::{display_name, systems};
use crate::choose::{Choice, Code, Figure, Rows};
use crate::numbers::three_digits;
use crate::row::Row;
use std::fmt::Write as _;

pub(super) fn list(rows: Rows<'_>) -> String {
    let mut out = String::new();
    let mut compared = 0;
    for bench in &BENCHES {
        for at in rows.sizes(bench.name) {
            for (code, name) in [(Code::Best, "best code"), (Code::Written, "plain code")] {
                let find = |choice| rows.find(bench, at, choice);
                let both = find(Choice::Pheap("pmem", code)).zip(find(Choice::Pmdk(code)));
                let Some((pheap, pmdk)) = both else { continue };
                compared += 1;
                let what = format!("`{}`, {}, {name}: PMDK `{}`", bench.name, size(at), pmdk.variant);
                out.push_str(&faster(&what, &pmdk, &pheap));
            }
        }
    }
    for bench in ["update8_sync", "update8_nosync", "insert_sync", "insert_nosync", "get"] {
        for row in rows.of_bench(bench).filter(|row| !matches!(row.system.as_str(), "pheap" | "floor")) {
            let Some(pheap) = rows.of_bench(bench).find(|other| is_counterpart(other, row)) else { continue };
            compared += 1;
            let detail = match (bench, row.threads) {
                ("get", _) => format!(", {} a transaction", lookups(row)),
                (_, 1) => String::new(),
                (_, threads) => format!(", {threads} threads"),
            };
            let what = format!("`{bench}`{detail}: {}", display_name(&row.system));
            out.push_str(&faster(&what, &each(row), &each(pheap)));
        }
    }
    match (compared, out.is_empty()) {
        (0, _) => String::new(),
        (_, true) => format!("Nowhere, of {compared} comparisons."),
        (_, false) => format!("In {} of {compared} comparisons:\n\n{out}", out.lines().count()),
    }
}

/// Returns a line if the peer is faster, or else nothing.
fn faster(what: &str, peer: &Figure, pheap: &Figure) -> String {
    let ratio = pheap.seconds / peer.seconds;
    let mut out = String::new();
    if ratio > 1.0 {
        let overlap = if peer.max >= pheap.min { " (their runs overlap)" } else { "" };
        let _ = writeln!(out, "* {what} takes {} of the time{overlap}", three_digits(1.0 / ratio));
    }
    out
}

/// Returns whether `pheap` is pheap's row of the same work as `other`, a row of the same benchmark. With one
/// thread, a store that should wait for the disk and does not is not compared.
fn is_counterpart(pheap: &Row, other: &Row) -> bool {
    let comparable = |row: &Row| {
        row.bench.ends_with("_nosync") || row.bench == "get" || row.syncs_each_commit != Some(false)
    };
    pheap.system == "pheap"
        && pheap.threads == other.threads
        && (other.bench != "get" || lookups(pheap) == lookups(other))
        && (other.threads > 1 || comparable(other))
}

/// Returns the number of lookups in a transaction, which is a part of the variant.
pub(super) fn lookups(row: &Row) -> &str {
    row.variant.rsplit(':').next().unwrap_or_default()
}

/// Returns the time of one of the `n` operations.
fn each(row: &Row) -> Figure {
    let n = row.n.max(1) as f64;
    Figure { variant: row.variant.clone(), seconds: row.seconds / n, min: row.min() / n, max: row.max() / n }
}

/// Returns the systems except the floor, in the order of legends.
pub(super) fn stores(rows: Rows<'_>, bench: &str) -> Vec<String> {
    let mut systems = systems(rows, bench);
    systems.retain(|system| system != "floor");
    systems
}
