//! Charts of rates, and of the reads of redb's table.

use super::tables::threads;
use super::{DISK, Line, MEMORY, Part, Row, TURNS, redb, systems};
use crate::Result;
use crate::charts::bars::{self, Bar, BarChart};
use crate::charts::{Look, display_name};
use crate::numbers::{time, with_commas};

/// Draws all charts that have rows. Returns names of files, and SVG.
pub(super) fn all(rows: &[Row]) -> Result<Vec<(&'static str, String)>> {
    let rates = |part: &Part, workloads| groups_of(&Part { workloads, ..*part }.lines(rows));
    let charts = [
        (
            "kv_memory_writes",
            "Writes in memory, each synced, with 1 thread and 16",
            rates(&MEMORY, &["fillrandom", "overwrite", "ycsb_a", "ycsb_g"]),
        ),
        (
            "kv_memory_reads",
            "Reads in memory, with 1 thread and 16",
            rates(&MEMORY, &["readrandom", "readwhilewriting", "seekrandom", "ycsb_c"]),
        ),
        (
            "kv_disk",
            "Writes on a disk, each synced, with 1 thread and 16",
            rates(&DISK, &["fillrandom", "overwrite", "ycsb_a"]),
        ),
    ];
    let rate: fn(f64) -> String = |rate| format!("{} k", with_commas(rate / 1e3));
    let redb = ("kv_redb", "Reads of redb's table, 500,000 entries, two processors", reads_of_redb(rows));
    let charts = charts.map(|chart| (chart, "operations a second; longer is better", rate));
    charts
        .into_iter()
        .chain([(redb, "time of the row; shorter is better", time as fn(f64) -> String)])
        .filter(|((_, _, groups), ..)| !groups.is_empty())
        .map(|((file, title, groups), note, label)| {
            Ok((file, bars::draw(&BarChart { title: title.into(), note: note.into(), groups, label })?))
        })
        .collect()
}

type Group = (String, Vec<Bar>);

fn groups_of(lines: &[Line<'_>]) -> Vec<Group> {
    let bar = |row: &Row| {
        let rate = row.ops_per_second?;
        Some(bar(row, rate, row.least.unwrap_or(rate), row.most.unwrap_or(rate)))
    };
    let title = |line: &Line<'_>| format!("{}, {}", line.what.replace('`', ""), threads(line.threads));
    lines.iter().map(|line| (title(line), bars_of(line, bar))).collect()
}

/// The rows of redb's table that its chart shows.
const READS: [&str; 4] =
    ["random reads", "random range reads", "random reads (4 threads)", "random reads (16 threads)"];

fn reads_of_redb(rows: &[Row]) -> Vec<Group> {
    let lines = redb(rows, TURNS).into_iter().filter(|line| READS.contains(&line.what.as_str()));
    let bar = |row: &Row| row.ms.map(|ms| bar(row, ms / 1e3, ms / 1e3, ms / 1e3));
    lines.map(|line| (line.what.clone(), bars_of(&line, bar))).collect()
}

fn bars_of(line: &Line<'_>, bar: impl Fn(&Row) -> Option<Bar>) -> Vec<Bar> {
    let systems = systems(line.rows.iter().copied());
    systems.into_iter().filter_map(|system| bar(line.of(system)?)).collect()
}

fn bar(row: &Row, value: f64, low: f64, high: f64) -> Bar {
    Bar { label: display_name(&row.system).to_owned(), look: Look::of_system(&row.system), value, low, high }
}
