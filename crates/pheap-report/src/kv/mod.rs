//! `docs/benchmarks/kv.md`: tables and charts of the output of `cargo bench --bench kv`.

mod charts;
mod tables;

use crate::{Result, report};
use serde::Deserialize;
use std::fs;
use std::path::Path;

/// One line of the output: a rate, a time or a size, depending on its fields.
#[derive(Clone, Debug, Deserialize)]
struct Row {
    bench: String,
    system: String,
    dir: String,
    processors: u64,
    #[serde(default)]
    threads: u64,
    #[serde(default)]
    sync: bool,
    /// Bytes of a value.
    #[serde(default)]
    value: u64,
    entries: u64,
    ops_per_second: Option<f64>,
    /// Rate of the slowest run, and of the fastest run.
    least: Option<f64>,
    most: Option<f64>,
    p99_us: Option<f64>,
    /// Bytes written for each byte put: as counted at system calls, and at the disk.
    system_amplification: Option<f64>,
    disk_amplification: Option<f64>,
    /// Bytes of the files, of the store's private memory, and of the files that it has in memory.
    space: Option<f64>,
    anonymous: Option<f64>,
    mapped: Option<f64>,
    /// Fields of redb's table.
    row: Option<String>,
    ms: Option<f64>,
    bytes: Option<f64>,
}

fn parse(text: &str) -> Result<Vec<Row>> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| serde_json::from_str(line).map_err(|error| format!("{error}, in the line {line}").into()))
        .collect()
}

/// Rows that one table shows.
struct Part {
    /// Name of the block in the page.
    name: &'static str,
    dir: &'static str,
    processors: u64,
    sync: bool,
    /// Number of entries. Rows with a tenth, as `ycsb_g` has it, count too.
    entries: u64,
    workloads: &'static [&'static str],
    values: &'static [u64],
}

/// Bytes of values, in the workloads of db_bench and of YCSB.
const LARGE: &[u64] = &[800, 1_000, 10_000];
const DB_BENCH: &[&str] =
    &["fillseq", "fillrandom", "overwrite", "readrandom", "readwhilewriting", "seekrandom", "deleterandom"];
const YCSB: &[&str] = &["ycsb_a", "ycsb_b", "ycsb_c", "ycsb_d", "ycsb_e", "ycsb_f", "ycsb_g"];

const MEMORY: Part = Part {
    name: "memory",
    dir: "tmpfs",
    processors: 16,
    sync: true,
    entries: 200_000,
    workloads: &[
        "fillrandom",
        "overwrite",
        "readrandom",
        "readwhilewriting",
        "seekrandom",
        "ycsb_a",
        "ycsb_c",
        "ycsb_g",
    ],
    values: LARGE,
};
const DISK: Part = Part {
    name: "disk",
    dir: "disk",
    processors: 16,
    sync: true,
    entries: 20_000,
    workloads: &["fillrandom", "overwrite", "ycsb_a", "ycsb_g"],
    values: LARGE,
};
const TWO: Part = Part {
    name: "two",
    dir: "disk",
    processors: 2,
    sync: true,
    entries: 50_000,
    workloads: DB_BENCH,
    values: &[800],
};
/// The tables of bytes written and of memory.
const WRITTEN: Part = Part { name: "written", entries: 200_000, workloads: &["overwrite"], ..TWO };
const WRITTEN_UNSYNCED: Part = Part { sync: false, ..WRITTEN };
const PARTS: [Part; 9] = [
    MEMORY,
    Part { name: "two_memory", processors: 2, ..MEMORY },
    Part {
        name: "memory_values",
        workloads: &["fillrandom", "overwrite", "readrandom"],
        values: &[100, 400],
        ..MEMORY
    },
    DISK,
    Part { name: "disk_unsynced", sync: false, entries: 200_000, workloads: &["overwrite"], ..DISK },
    TWO,
    Part { name: "two_unsynced", sync: false, ..TWO },
    Part { name: "two_ycsb", workloads: YCSB, values: LARGE, ..TWO },
    Part { name: "two_ycsb_unsynced", workloads: YCSB, values: LARGE, sync: false, ..TWO },
];

impl Part {
    fn has(&self, row: &Row) -> bool {
        (row.dir.as_str(), row.processors, row.sync) == (self.dir, self.processors, self.sync)
            && [row.entries, row.entries * 10].contains(&self.entries)
            && self.workloads.contains(&row.bench.as_str())
            && self.values.contains(&row.value)
            && row.ops_per_second.is_some()
    }

    /// Returns the lines of the part, in order. A line has the rows of the same workload, value size and
    /// number of threads.
    fn lines<'r>(&self, rows: &'r [Row]) -> Vec<Line<'r>> {
        let mut lines: Vec<Line<'_>> = Vec::new();
        for &workload in self.workloads {
            let of = || rows.iter().filter(|row| self.has(row) && row.bench == workload);
            let mut kinds: Vec<(u64, u64)> = of().map(|row| (row.value, row.threads)).collect();
            kinds.sort_unstable();
            kinds.dedup();
            let several = kinds.first().map(|kind| kind.0) != kinds.last().map(|kind| kind.0);
            lines.extend(kinds.into_iter().map(|(value, threads)| {
                let what = if several { format!("`{workload}`, {value}") } else { format!("`{workload}`") };
                let of = of().filter(|row| (row.value, row.threads) == (value, threads));
                Line { what, threads, rows: of.collect() }
            }));
        }
        lines
    }
}

/// The `dir` of redb's table.
const WHOLE: &str = "disk";
/// The same with a tenth of the entries, the systems in turns.
const TURNS: &str = "disk, in turns";

/// Returns the lines of redb's table.
fn redb<'r>(rows: &'r [Row], dir: &str) -> Vec<Line<'r>> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    let of = rows.iter().filter(|row| row.dir == dir);
    for (row, name) in of.filter_map(|row| Some((row, row.row.as_deref()?))) {
        match lines.iter_mut().find(|line| line.what == name) {
            Some(line) => line.rows.push(row),
            None => lines.push(Line { what: name.to_owned(), threads: 0, rows: vec![row] }),
        }
    }
    lines
}

/// Rows that are compared with each other.
struct Line<'r> {
    what: String,
    threads: u64,
    rows: Vec<&'r Row>,
}

impl<'r> Line<'r> {
    /// Returns the row of a system: the last one, if there are several.
    fn of(&self, system: &str) -> Option<&'r Row> {
        self.rows.iter().rfind(|row| row.system == system).copied()
    }
}

/// Returns the systems of these rows, in the order of their first rows.
fn systems<'r>(rows: impl Iterator<Item = &'r Row>) -> Vec<&'r str> {
    let mut systems: Vec<&str> = Vec::new();
    for row in rows {
        if !systems.contains(&row.system.as_str()) {
            systems.push(&row.system);
        }
    }
    systems
}

fn is_pheap(system: &str) -> bool {
    system.starts_with("pheap")
}

/// Draws the charts, and fills in the blocks of `kv.md`, in the directory `out`.
pub(crate) fn write(file: &Path, out: &Path) -> Result<()> {
    let error = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let rows = parse(&fs::read_to_string(file).map_err(|e| error(file, e))?)?;
    fs::create_dir_all(out).map_err(|e| error(out, e))?;
    for (name, svg) in charts::all(&rows)? {
        fs::write(out.join(format!("{name}.svg")), svg)?;
    }
    let page = out.join("kv.md");
    let text = fs::read_to_string(&page).map_err(|e| error(&page, e))?;
    Ok(fs::write(&page, report::fill(&text, &|name| block(name, &rows))?)?)
}

fn block(name: &str, rows: &[Row]) -> Option<String> {
    if let Some((_, dir)) = [("redb", WHOLE), ("redb_turns", TURNS)].iter().find(|block| block.0 == name) {
        return Some(tables::redb(&redb(rows, dir)));
    }
    if name == WRITTEN.name {
        let of = |part: &Part| part.lines(rows).into_iter().next();
        return Some(tables::written(of(&WRITTEN_UNSYNCED).as_ref(), of(&WRITTEN).as_ref()));
    }
    PARTS.iter().find(|part| part.name == name).map(|part| tables::rates(&part.lines(rows)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = include_str!("golden.jsonl");
    const GOLDEN: &str = include_str!("golden.md");
    const PAGE: &str = "# A page\n\nBy hand.\n\n<!-- generated: memory -->\n<!-- end -->\n\n\
        <!-- generated: memory_values -->\n<!-- end -->\n\n<!-- generated: redb -->\n<!-- end -->\n\n\
        <!-- generated: redb_turns -->\n<!-- end -->\n\n<!-- generated: written -->\n<!-- end -->\n";

    #[test]
    fn a_small_page_is_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("kv.jsonl");
        fs::write(&file, LINES).unwrap();
        fs::write(dir.path().join("kv.md"), PAGE).unwrap();
        write(&file, dir.path()).unwrap();
        let page = fs::read_to_string(dir.path().join("kv.md")).unwrap();
        assert_eq!(page, GOLDEN, "if that is meant: golden.md should be\n{page}");
        // Filling it again changes nothing.
        write(&file, dir.path()).unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("kv.md")).unwrap(), GOLDEN);
        let svg = |name: &str| fs::read_to_string(dir.path().join(name)).ok();
        let writes = svg("kv_memory_writes.svg").unwrap();
        assert!(["fillrandom, 16 threads", "RocksDB", "346 k"].iter().all(|text| writes.contains(text)));
        assert!(svg("kv_redb.svg").unwrap().contains("8.43 s"));
        assert_eq!(svg("kv_disk.svg"), None, "without rows there is no chart");
    }

    #[test]
    fn lines_that_are_none_are_errors() {
        assert!(parse("{\"bench\":\"overwrite\"}").unwrap_err().to_string().contains("missing field"));
    }
}
