//! Tables of rates, and redb's table.

use super::{Line, Row, is_pheap, systems};
use crate::numbers::{three_digits, with_commas};
use crate::report::{NOTHING, table as markdown};

/// Returns a table of rates, in thousands of operations per second, and of the 99th percentiles in µs, and a
/// sentence on the rows in which another system is faster.
pub(super) fn rates(lines: &[Line<'_>]) -> String {
    let systems = systems(lines.iter().flat_map(|line| line.rows.iter().copied()));
    if systems.is_empty() {
        return String::new();
    }
    let mut wins = Wins::default();
    let cells = lines.iter().map(|line| {
        let rates: Vec<Option<f64>> = systems.iter().map(|system| line.of(system)?.ops_per_second).collect();
        let best = rates.iter().flatten().copied().fold(0.0, f64::max);
        let what = format!("{}, {}", line.what, threads(line.threads));
        wins.add(&what, &systems, &rates.iter().map(|rate| rate.map(|rate| 1.0 / rate)).collect::<Vec<_>>());
        let cell = |(system, rate): (&&str, &Option<f64>)| {
            let Some(rate) = rate else { return NOTHING.to_owned() };
            let figure = bold(with_commas(rate / 1e3), *rate >= best);
            match line.of(system).and_then(|row| row.p99_us) {
                Some(within) => format!("{figure}; {}", with_commas(within)),
                None => figure,
            }
        };
        let figures = systems.iter().zip(&rates).map(cell);
        [line.what.clone(), line.threads.to_string()].into_iter().chain(figures).collect()
    });
    let cells: Vec<Vec<String>> = cells.collect();
    let header: Vec<&str> = ["workload", "threads"].into_iter().chain(systems.iter().copied()).collect();
    format!("{}\n{}", markdown(&header, &cells), wins.text("rows"))
}

pub(super) fn threads(number: u64) -> String {
    if number == 1 { "1 thread".into() } else { format!("{number} threads") }
}

/// Returns a table of each store's rate and write amplification, of the size of its files, and of its memory.
pub(super) fn written(unsynced: Option<&Line<'_>>, synced: Option<&Line<'_>>) -> String {
    let lines = [(unsynced, "no"), (synced, "each write")];
    let cells = lines.iter().filter_map(|(line, sync)| Some(((*line)?, sync))).flat_map(|(line, sync)| {
        systems(line.rows.iter().copied()).into_iter().filter_map(move |system| {
            let row = line.of(system)?;
            let number = |number: Option<f64>| number.map_or(NOTHING.into(), with_commas);
            let put = (row.entries * (row.value + KEY)) as f64;
            Some(vec![
                system.to_owned(),
                (*sync).to_owned(),
                number(row.ops_per_second.map(|rate| rate / 1e3)),
                number(row.system_amplification),
                number(row.disk_amplification),
                number(row.space.map(|space| space / put)),
                number(row.anonymous.map(|bytes| bytes / 1e6)),
                number(row.mapped.map(|bytes| bytes / 1e6)),
            ])
        })
    });
    let cells: Vec<Vec<String>> = cells.collect();
    if cells.is_empty() {
        return String::new();
    }
    let header = [
        "system",
        "synced",
        "thousands a second",
        "`write(2)`",
        "disk",
        "files",
        "own memory, MB",
        "of files, MB",
    ];
    markdown(&header, &cells)
}

/// Bytes of a key, in db_bench's workloads.
const KEY: u64 = 16;

/// Returns the table of redb's own comparison, and a sentence on the times for which another system is
/// faster.
pub(super) fn redb(lines: &[Line<'_>]) -> String {
    let systems = systems(lines.iter().flat_map(|line| line.rows.iter().copied()));
    if systems.is_empty() {
        return String::new();
    }
    let mut wins = Wins::default();
    let cells = lines.iter().map(|line| {
        let figures: Vec<Option<Figure>> =
            systems.iter().map(|system| Figure::of(line.of(system)?)).collect();
        let least = figures.iter().flatten().map(|figure| figure.value).fold(f64::INFINITY, f64::min);
        let time = |figure: &Option<Figure>| figure.as_ref().filter(|figure| figure.is_time).map(|f| f.value);
        wins.add(&line.what, &systems, &figures.iter().map(time).collect::<Vec<_>>());
        let cell = |figure: &Option<Figure>| match figure {
            Some(figure) => bold(figure.text(), figure.value <= least),
            None => NOTHING.to_owned(),
        };
        [line.what.clone()].into_iter().chain(figures.iter().map(cell)).collect()
    });
    let cells: Vec<Vec<String>> = cells.collect();
    let header: Vec<&str> = ["row"].into_iter().chain(systems.iter().copied()).collect();
    format!("{}\n{}", markdown(&header, &cells), wins.text("rows that are times"))
}

/// A value in milliseconds or in bytes.
struct Figure {
    value: f64,
    is_time: bool,
}

impl Figure {
    fn of(row: &Row) -> Option<Figure> {
        let time = row.ms.map(|ms| Figure { value: ms.max(AT_ONCE), is_time: true });
        time.or_else(|| row.bytes.map(|value| Figure { value, is_time: false }))
    }

    fn text(&self) -> String {
        match self.value {
            bytes if !self.is_time => format!("{:.2} GB", bytes / 1e9),
            ms if ms <= AT_ONCE => "<1 ms".into(),
            ms if ms < 1e3 => format!("{ms:.0} ms"),
            ms => format!("{:.2} s", ms / 1e3),
        }
    }
}

/// Shorter times, in milliseconds, count as this.
const AT_ONCE: f64 = 1.0;

fn bold(text: String, is_best: bool) -> String {
    if is_best { format!("**{text}**") } else { text }
}

/// Number of rows that have pheap-kv, and the rows in which another system is faster.
#[derive(Default)]
struct Wins {
    all: usize,
    others: Vec<String>,
}

impl Wins {
    /// Adds a row with the time of each system, if pheap-kv has one.
    fn add(&mut self, what: &str, systems: &[&str], times: &[Option<f64>]) {
        let all = || systems.iter().zip(times).filter_map(|(system, time)| Some((*system, (*time)?)));
        // If there are several systems of pheap, the slowest counts.
        let own = all().filter(|(system, _)| is_pheap(system)).map(|(_, time)| time).reduce(f64::max);
        let Some(own) = own else { return };
        let others = all().filter(|(system, _)| !is_pheap(system));
        let (best, least) = others.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or(("", f64::INFINITY));
        self.all += 1;
        if own > least {
            self.others.push(format!("{what} ({best}, {} times)", three_digits(own / least)));
        }
    }

    fn text(&self, rows: &str) -> String {
        match (self.all, self.others.as_slice()) {
            (0, _) => String::new(),
            (all, []) => format!("No other is faster than pheap-kv in any of {all} {rows}.\n"),
            (all, others) => format!(
                "No other is faster than pheap-kv in {} of {all} {rows}. Where one is: {}.\n",
                all - others.len(),
                others.join("; ")
            ),
        }
    }
}
