//! The table of pheap's times, divided by those of other rows.

use super::{NOTHING, table as markdown};
use crate::benches::{BENCHES, Bench};
use crate::choose::{Choice, Code, Figure, Rows};
use crate::numbers::{three_digits, time};
use crate::row::Size;
use crate::targets::{FLAT, Verdict, verdict};
use std::fmt::Write as _;

/// Returns the table. A size has two lines if straightforward code does not count as the best variant.
pub(super) fn table(rows: Rows<'_>) -> String {
    let mut lines = Vec::new();
    let mut counts = (0, 0);
    for bench in &BENCHES {
        for size in rows.sizes(bench.name) {
            let best = Line::new(rows, bench, size, Code::Best);
            let differs = |written: &Line<'_>| {
                best.as_ref().is_none_or(|best| best.pheap.variant != written.pheap.variant)
            };
            let written = Line::new(rows, bench, size, Code::Written).filter(differs);
            let both = written.is_some();
            for line in [best, written].into_iter().flatten() {
                if let Some(verdict) = &line.verdict {
                    counts.0 += usize::from(verdict.met());
                    counts.1 += 1;
                }
                lines.push(line.cells(both));
            }
        }
    }
    if lines.is_empty() {
        return String::new();
    }
    let header = ["bench", "size", "code", "pheap", "÷ volatile", "÷ PMDK", "target", "of the target", "met"];
    let mut out = markdown(&header, &lines);
    if let Some(line) = flat(rows) {
        let _ = write!(out, "\n{line}\n");
    }
    let _ = write!(out, "\n{} of {} targets in the table are met.\n", counts.0, counts.1);
    out
}

struct Line<'a> {
    bench: &'a Bench,
    size: Size,
    code: Code,
    pheap: Figure,
    volatile: Option<Figure>,
    pmdk: [Option<Figure>; 2],
    verdict: Option<Verdict>,
}

impl<'a> Line<'a> {
    fn new(rows: Rows<'_>, bench: &'a Bench, size: Size, code: Code) -> Option<Line<'a>> {
        Some(Line {
            bench,
            size,
            code,
            pheap: rows.find(bench, size, Choice::Pheap("pmem", code))?,
            volatile: rows.find(bench, size, Choice::Volatile),
            pmdk: [Code::Best, Code::Written].map(|code| rows.find(bench, size, Choice::Pmdk(code))),
            verdict: verdict(rows, bench, size, code),
        })
    }

    fn cells(&self, both: bool) -> Vec<String> {
        let ratio = |other: &Option<Figure>, named: bool| match other {
            None => NOTHING.to_owned(),
            Some(other) => {
                let ratio = three_digits(self.pheap.seconds / other.seconds);
                if named { format!("{ratio} `{}`", other.variant) } else { ratio }
            }
        };
        let code = match (both, self.code) {
            (false, _) => "",
            (true, Code::Best) => "best",
            (true, Code::Written) => "plain",
        };
        let each = self.bench.operation.map_or(1.0, |_| self.size.n as f64);
        let (bound, part, met) = match &self.verdict {
            None => (NOTHING.into(), NOTHING.into(), NOTHING.into()),
            Some(verdict) => {
                let met = if verdict.met() { "yes" } else { "**no**" };
                (verdict.bound.clone(), three_digits(verdict.ratio), met.to_owned())
            }
        };
        vec![
            format!("`{}`", self.bench.name),
            size(self.size),
            code.to_owned(),
            format!("{} `{}`", time(self.pheap.seconds / each), self.pheap.variant),
            ratio(&self.volatile, false),
            ratio(&self.pmdk[0], true),
            ratio(&self.pmdk[1], true),
            bound,
            part,
            met,
        ]
    }
}

/// Formats a size for people.
pub(super) fn size(size: Size) -> String {
    let mut out = match size.n {
        n if n >= 1_000_000 && n % 1_000_000 == 0 => format!("{}M", n / 1_000_000),
        n if n >= 10_000 && n % 1000 == 0 => format!("{}k", n / 1000),
        n => n.to_string(),
    };
    if let Some(k) = size.k {
        out = format!("k = {k}");
    }
    if size.threads > 1 {
        let _ = write!(out, ", {} threads", size.threads);
    }
    out
}

/// Compares the times of opening the largest heap and the smallest one.
fn flat(rows: Rows<'_>) -> Option<String> {
    let bench = BENCHES.iter().find(|bench| bench.name == "fill_heap_open")?;
    let figures: Vec<(u64, f64)> = rows
        .sizes(bench.name)
        .into_iter()
        .filter_map(|size| Some((size.n, rows.find(bench, size, Choice::Pheap("pmem", Code::Best))?.seconds)))
        .collect();
    let (small, large) = (figures.first()?, figures.last()?);
    if small.0 == large.0 {
        return None;
    }
    let ratio = large.1 / small.1;
    let met = if ratio <= FLAT { "met" } else { "**not met**" };
    Some(format!(
        "Opening {} MB after a kill takes {} × as long as opening {} MB (at most {FLAT}: {met}).",
        large.0,
        three_digits(ratio),
        small.0
    ))
}
