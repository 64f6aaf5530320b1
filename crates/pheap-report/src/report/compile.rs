//! The table of build times.

use super::table as markdown;
use crate::choose::Rows;
use crate::numbers::{three_digits, time, with_commas};
use crate::row::Row;

/// The cargo commands, as rows and as people name them.
const KINDS: [(&str, &str); 2] = [("check", "cargo check"), ("build", "cargo build")];

pub(super) fn table(rows: Rows<'_>) -> String {
    let find = |variant: String| rows.of_bench("compile_time").find(|row| row.variant == variant);
    let mut lines = Vec::new();
    for (program, annotated, plain, volatile) in
        [("functions", "annotated", "plain", Some("volatile")), ("example", "example", "example_plain", None)]
    {
        for (kind, command) in KINDS {
            let of = |variant: &str| find(format!("{variant}:{kind}"));
            let (Some(annotated), Some(plain)) = (of(annotated), of(plain)) else { continue };
            let volatile = volatile.and_then(of);
            let what = match program {
                "functions" => format!("{} functions", with_commas(annotated.n as f64)),
                _ => "the example `churn`".to_owned(),
            };
            let mut cells = vec![what, format!("`{command}`"), figure(annotated), figure(plain)];
            cells.push(more(annotated, plain));
            cells.push(volatile.map_or_else(|| super::NOTHING.into(), figure));
            cells.push(volatile.map_or_else(|| super::NOTHING.into(), |volatile| more(annotated, volatile)));
            lines.push(cells);
        }
    }
    if lines.is_empty() {
        return String::new();
    }
    let header =
        ["program", "command", "with `#[txn]`", "without the attribute", "more", "without pheap", "more"];
    markdown(&header, &lines)
}

fn figure(row: &Row) -> String {
    format!("{} ({} to {})", time(row.seconds), three_digits(row.min()), three_digits(row.max()))
}

/// Formats how much longer a build takes, in percent.
fn more(row: &Row, other: &Row) -> String {
    let percent = 100.0 * (row.seconds / other.seconds - 1.0);
    format!("{}{} %", if percent < 0.0 { "−" } else { "+" }, three_digits(percent.abs()))
}
