//! Rows, and their targets.

use crate::Result;
use crate::plan::Bench;
use crate::run::Run;
use crate::systems::System;
use pheap_suite::measure::median;
use std::fmt::{Display, Write as _};
use std::io::Write as _;

/// A case with all of its runs.
#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) system: System,
    pub(crate) bench: Bench,
    pub(crate) threads: usize,
    pub(crate) runs: Vec<Run>,
    variant: String,
    /// Number of operations in a transaction.
    per_transaction: u64,
    /// Whether a single thread makes at least one sync for each transaction. `None` if that is not known.
    syncs_each_commit: Option<bool>,
    /// Time of a transaction, divided by that of the floor.
    by_floor: Option<f64>,
    /// Further fields: names, and values as JSON.
    others: Vec<(&'static str, String)>,
}

impl Row {
    pub(crate) fn new(system: System, bench: Bench, sync: bool, threads: usize) -> Row {
        Row {
            system,
            bench,
            threads,
            runs: Vec::new(),
            variant: system.policy(sync).to_owned(),
            per_transaction: 1,
            syncs_each_commit: None,
            by_floor: None,
            others: Vec::new(),
        }
    }

    /// Sets the number of operations in a transaction. The variant of `get` includes it.
    pub(crate) fn per_transaction(&mut self, operations: u64) {
        self.per_transaction = operations;
        if self.bench == Bench::Get {
            let _ = write!(self.variant, ":{operations}");
        }
    }

    pub(crate) fn set(&mut self, name: &'static str, value: impl Display) {
        self.others.push((name, value.to_string()));
    }

    pub(crate) fn set_text(&mut self, name: &'static str, text: &str) {
        self.others.push((name, format!("\"{text}\"")));
    }

    /// Sets the syncs per transaction, counted with all threads of the row and with one thread.
    pub(crate) fn syncs(&mut self, syncs: Option<f64>, alone: Option<f64>) {
        let null = || "null".to_owned();
        self.syncs_each_commit = alone.map(|alone| alone > 0.99);
        self.set("syncs_per_commit", syncs.map_or_else(null, |syncs| format!("{syncs:.3}")));
        self.set("syncs_each_commit", self.syncs_each_commit.map_or_else(null, |each| each.to_string()));
    }

    /// Compares with the floor run by run, because the speed of disks varies.
    pub(crate) fn compare_with(&mut self, floor: &Row) {
        let ratios =
            self.runs.iter().zip(&floor.runs).map(|(run, floor)| floor.per_second() / run.per_second());
        let by_floor = median(ratios);
        self.by_floor = Some(by_floor);
        self.set("by_floor", format!("{by_floor:.3}"));
    }

    /// Returns the median run; of two in the middle, the slower one.
    fn median(&self) -> Run {
        let mut runs = self.runs.clone();
        runs.sort_by(|a, b| a.per_second().total_cmp(&b.per_second()));
        runs[(runs.len() - 1) / 2]
    }

    pub(crate) fn print(&self) -> Result<()> {
        let Run { n, seconds } = self.median();
        let rates = || self.runs.iter().map(|run| run.per_second());
        let mut line = format!(
            r#"{{"system":"{}","bench":"{}","variant":"{}","n":{n},"threads":{},"seconds":{seconds:.9}"#,
            self.system.name(),
            self.bench.name(),
            self.variant,
            self.threads,
        );
        let transactions = n.div_ceil(self.per_transaction);
        write!(
            line,
            r#","min":{:.9},"max":{:.9},"reps":{},"per_second":{:.1},"transactions":{transactions},"tx_per_s":{:.1}"#,
            n as f64 / rates().fold(0.0, f64::max),
            n as f64 / rates().fold(f64::INFINITY, f64::min),
            self.runs.len(),
            n as f64 / seconds,
            transactions as f64 / seconds,
        )?;
        for (name, value) in &self.others {
            write!(line, r#","{name}":{value}"#)?;
        }
        line.push('}');
        Ok(writeln!(std::io::stdout(), "{line}")?)
    }
}

/// The rows of `update8_sync`, which have targets.
#[derive(Default)]
pub(crate) struct Targets(Vec<Row>);

impl Targets {
    pub(crate) fn add(&mut self, row: Row) {
        if row.bench == Bench::Update8Sync {
            self.0.push(row);
        }
    }

    fn of(&self, system: System, threads: usize) -> Option<&Row> {
        self.0.iter().find(|row| (row.system, row.threads) == (system, threads))
    }

    pub(crate) fn print(&self) {
        // A row that does not sync each commit is not compared, whether of pheap or of another store.
        let synced = |row: &Row| row.syncs_each_commit != Some(false);
        let verdict = |row: &Row, met| match (synced(row), met) {
            (false, _) => "-",
            (true, true) => "met",
            (true, false) => "MISSED",
        };
        for row in self.0.iter().filter(|row| !synced(row) && row.threads == 1) {
            eprintln!("{} does not sync each commit", row.system.name());
        }
        let Some(one) = self.of(System::Pheap, 1) else { return };
        if let Some(ratio) = one.by_floor {
            let verdict = verdict(one, ratio <= 1.1);
            eprintln!("{verdict:6} update8_sync, 1 thread: {ratio:.2} x the time of the floor (at most 1.1)");
        }
        if let Some(many) = self.of(System::Pheap, 16) {
            let ratio = many.median().per_second() / one.median().per_second();
            let verdict = verdict(one, ratio >= 4.0);
            eprintln!("{verdict:6} update8_sync, 16 threads: {ratio:.2} x the rate of one (at least 4)");
        }
        for row in self.0.iter().filter(|row| !matches!(row.system, System::Pheap | System::Floor)) {
            let Some(pheap) = self.of(System::Pheap, row.threads) else { continue };
            let ratio = pheap.median().per_second() / row.median().per_second();
            let verdict = if synced(row) { verdict(pheap, ratio > 1.0) } else { "-" };
            let (threads, system) = (row.threads, row.system.name());
            eprintln!(
                "{verdict:6} update8_sync, threads: {threads}: {ratio:.2} x the rate of {system} (more than 1)"
            );
        }
    }
}
