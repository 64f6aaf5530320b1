//! The table of the stores' rates.

use super::peers::{lookups, stores};
use super::{NOTHING, table as markdown};
use crate::charts::display_name;
use crate::choose::Rows;
use crate::numbers::{three_digits, with_commas};
use crate::row::Row;

pub(super) fn tables(rows: Rows<'_>) -> String {
    let updates: Vec<Line> =
        ["update8_sync", "update8_nosync"].iter().flat_map(|bench| updates(rows, bench)).collect();
    let others: Vec<Line> = ["insert_sync", "insert_nosync"]
        .iter()
        .map(|bench| Line { what: format!("`{bench}`"), rows: rows.of_bench(bench).collect() })
        .chain(["1000", "1"].iter().map(|part| Line {
            what: format!("`get`, {part} a transaction"),
            rows: rows.of_bench("get").filter(|row| lookups(row) == *part).collect(),
        }))
        .collect();
    let lines: Vec<Line> = updates.into_iter().chain(others).filter(|line| !line.rows.is_empty()).collect();
    if lines.is_empty() {
        return String::new();
    }
    let mut systems: Vec<String> = lines.iter().flat_map(|line| names(rows, line)).collect();
    systems.sort_by_key(|system| (crate::charts::rank(system), system.clone()));
    systems.dedup();
    let mut header = vec!["operations a second"];
    header.extend(systems.iter().map(|system| display_name(system)));
    header.push("pheap ÷ best other");
    let cells: Vec<Vec<String>> = lines.iter().map(|line| line.cells(&systems)).collect();
    let mut out = markdown(&header, &cells);
    let unsynced: Vec<&str> = systems
        .iter()
        .filter(|system| lines.iter().any(|line| line.does_not_sync(system)))
        .map(|system| display_name(system))
        .collect();
    if !unsynced.is_empty() {
        out.push_str(&format!("\nDoes not wait for the disk at each commit: {}.\n", unsynced.join(", ")));
    }
    if lines.iter().any(|line| line.rows.iter().any(|row| row.disk_too_fast())) {
        out.push_str("\nThe disk answers faster than disks do: what waits for it says nothing.\n");
    }
    out
}

/// Rows that are compared with each other.
struct Line<'a> {
    what: String,
    rows: Vec<&'a Row>,
}

fn updates<'a>(rows: Rows<'a>, bench: &'a str) -> Vec<Line<'a>> {
    let mut threads: Vec<u64> = rows.of_bench(bench).map(|row| row.threads).collect();
    threads.sort_unstable();
    threads.dedup();
    let line = |threads: u64| Line {
        what: format!("`{bench}`, {threads} thread{}", if threads == 1 { "" } else { "s" }),
        rows: rows.of_bench(bench).filter(|row| row.threads == threads).collect(),
    };
    threads.into_iter().map(line).collect()
}

fn names(rows: Rows<'_>, line: &Line<'_>) -> Vec<String> {
    let mut names: Vec<String> = line.rows.iter().flat_map(|row| stores(rows, &row.bench)).collect();
    names.extend(line.rows.iter().filter(|row| row.system == "floor").map(|row| row.system.clone()));
    names
}

impl Line<'_> {
    fn rate(&self, system: &str) -> Option<f64> {
        let row = self.rows.iter().find(|row| row.system == system)?;
        Some(row.per_second.unwrap_or(row.n as f64 / row.seconds))
    }

    fn does_not_sync(&self, system: &str) -> bool {
        let of = |row: &&&Row| row.system == system && row.threads == 1 && row.bench.ends_with("_sync");
        self.rows.iter().find(of).is_some_and(|row| row.syncs_each_commit == Some(false))
    }

    fn cells(&self, systems: &[String]) -> Vec<String> {
        let mut cells = vec![self.what.clone()];
        cells.extend(systems.iter().map(|system| self.rate(system).map_or(NOTHING.into(), with_commas)));
        let others = systems.iter().filter(|system| !matches!(system.as_str(), "pheap" | "floor"));
        let best = others.filter(|system| !self.does_not_sync(system)).filter_map(|system| self.rate(system));
        let best = best.max_by(f64::total_cmp);
        let ratio = self.rate("pheap").zip(best).map(|(pheap, best)| three_digits(pheap / best));
        cells.push(ratio.unwrap_or_else(|| NOTHING.into()));
        cells
    }
}
