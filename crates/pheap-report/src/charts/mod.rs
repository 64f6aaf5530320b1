//! Charts: the list of charts, their data, and drawing them.

mod axis;
pub(crate) mod bars;
mod lines;
mod style;
mod table;

pub(crate) use style::{Look, display_name, rank};
pub(crate) use table::{CHARTS, Chart};

use crate::Result;
use crate::benches::bench;
use crate::choose::{Figure, Rows};
use crate::numbers::{round_count, round_time, time};
use crate::row::{Row, Size};
use axis::Axis;
use bars::{Bar, BarChart};
use lines::{Line, LineChart, Point};
use table::{Bars, Group, Kind, Series, X, Y};

/// Returns the text that explains labels and marks.
fn note<'a>(mut labels: impl Iterator<Item = &'a str>) -> String {
    let forms = if labels.any(|label| label.ends_with("plain code")) {
        "; plain code: as one writes it first, best code: as fast as we know how"
    } else {
        ""
    };
    format!("medians; whiskers: fastest and slowest run{forms}")
}

/// Draws the chart as SVG. Returns `None` if there are no rows for it.
pub(crate) fn draw(chart: &Chart, rows: Rows<'_>) -> Result<Option<String>> {
    match &chart.kind {
        Kind::Lines { bench, x, y, x_title, series } => {
            let lines = series_of(rows, bench, *x, *y, series);
            let (y_title, y_label): (_, fn(f64) -> String) = match y {
                Y::Time => ("time", round_time),
                Y::TimeOfEach => ("time of a transaction", round_time),
                Y::Rate => ("operations a second", round_count),
            };
            draw_lines(chart.title, *x, x_title, y_title, y_label, lines)
        }
        Kind::Systems { bench, y_title } => {
            let lines = systems_over_threads(rows, bench);
            draw_lines(chart.title, X::Threads, "threads", y_title, round_count, lines)
        }
        Kind::Bars { groups, value } => {
            let groups: Vec<(String, Vec<Bar>)> = groups
                .iter()
                .map(|group| (group.title.to_owned(), bars_of(rows, group)))
                .filter(|group| !group.1.is_empty())
                .collect();
            if groups.is_empty() {
                return Ok(None);
            }
            let labels = groups.iter().flat_map(|group| &group.1).map(|bar| bar.label.as_str());
            let note = format!("{value}; {}", note(labels));
            let chart = BarChart { title: chart.title.into(), note, groups, label: time };
            bars::draw(&chart).map(Some)
        }
    }
}

fn draw_lines(
    title: &str,
    x: X,
    x_title: &str,
    y_title: &str,
    y_label: fn(f64) -> String,
    lines: Vec<Line>,
) -> Result<Option<String>> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let (low, high) = points()
        .fold((f64::INFINITY, 0.0_f64), |(low, high), point| (low.min(point.low), high.max(point.high)));
    if points().next().is_none() {
        return Ok(None);
    }
    let chart = LineChart {
        title: title.into(),
        note: note(lines.iter().map(|line| line.label.as_str())),
        x_title: x_title.into(),
        y_title: y_title.into(),
        x: Axis::of_values(points().map(|point| point.x), x != X::Exponent),
        y: Axis::of_range(low, high),
        x_label: round_count,
        y_label,
        lines,
    };
    lines::draw(&chart).map(Some)
}

fn series_of(rows: Rows<'_>, name: &str, x: X, y: Y, series: &[Series]) -> Vec<Line> {
    let Some(bench) = bench(name) else { return Vec::new() };
    let sizes = rows.sizes(name);
    let mut lines: Vec<(Vec<Option<String>>, Line)> = Vec::new();
    for series in series {
        let figures: Vec<(Size, Figure)> =
            sizes.iter().filter_map(|&size| Some((size, rows.find(bench, size, series.choice)?))).collect();
        let points = figures.iter().filter_map(|(size, figure)| point(*size, figure, x, y)).collect();
        let line = Line { label: series.label.to_owned(), look: series.look, points };
        let variants: Vec<Option<String>> =
            figures.into_iter().map(|(_, figure)| Some(figure.variant)).collect();
        // If straightforward code is the best variant, one line stands for both.
        let same = lines.iter_mut().find(|(others, other)| {
            *others == variants && other.look.system == line.look.system && !line.points.is_empty()
        });
        match same {
            Some((_, other)) => other.label = display_name(other.look.system).to_owned(),
            None if line.points.is_empty() => {}
            None => lines.push((variants, line)),
        }
    }
    lines.into_iter().map(|(_, line)| line).collect()
}

/// Returns a point of a line, if its size belongs to a chart with this axis, and a logarithmic axis has a
/// place for it.
fn point(size: Size, figure: &Figure, x: X, y: Y) -> Option<Point> {
    let at = match x {
        X::N | X::Exponent => Some(size.n).filter(|_| size.threads == 1),
        X::Threads => Some(size.threads),
        X::Objects => size.k,
    };
    let n = size.n as f64;
    let value = |seconds: f64| match y {
        Y::Time => seconds,
        Y::TimeOfEach => seconds / n,
        Y::Rate => n / seconds,
    };
    let ends = (value(figure.min), value(figure.max));
    let (low, high) = (ends.0.min(ends.1), ends.0.max(ends.1));
    let point = Point { x: at? as f64, y: value(figure.seconds), low, high };
    // A logarithmic axis has no place for zero.
    (point.x > 0.0 && low > 0.0 && high.is_finite()).then_some(point)
}

/// Returns the systems that have rows of a benchmark, in the order of legends.
pub(crate) fn systems(rows: Rows<'_>, bench: &str) -> Vec<String> {
    let mut systems: Vec<String> = rows.of_bench(bench).map(|row| row.system.clone()).collect();
    systems.sort_by(|a, b| (rank(a), a).cmp(&(rank(b), b)));
    systems.dedup();
    systems
}

fn systems_over_threads(rows: Rows<'_>, bench: &str) -> Vec<Line> {
    let line = |system: String| {
        let of = rows.of_bench(bench).filter(|row| row.system == system);
        let mut points: Vec<Point> =
            of.filter_map(|row| point(row.size(), &Figure::of(row), X::Threads, Y::Rate)).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        Line { label: display_name(&system).to_owned(), look: Look::of_system(&system), points }
    };
    systems(rows, bench).into_iter().map(line).collect()
}

fn bars_of(rows: Rows<'_>, group: &Group) -> Vec<Bar> {
    let bar = |label: &str, look, figure: Figure, n: f64| Bar {
        label: label.to_owned(),
        look,
        value: figure.seconds / n,
        low: figure.min / n,
        high: figure.max / n,
    };
    match &group.bars {
        Bars::Each(series) => {
            let Some(bench) = bench(group.bench) else { return Vec::new() };
            let Some(&size) = rows.sizes(group.bench).last() else { return Vec::new() };
            let mut seen: Vec<(&str, String)> = Vec::new();
            let mut bars: Vec<Bar> = Vec::new();
            for series in *series {
                let Some(figure) = rows.find(bench, size, series.choice) else { continue };
                let key = (series.look.system, figure.variant.clone());
                if let Some(i) = seen.iter().position(|other| *other == key) {
                    bars[i].label = display_name(series.look.system).to_owned();
                    continue;
                }
                seen.push(key);
                bars.push(bar(series.label, series.look, figure, size.n as f64));
            }
            bars
        }
        Bars::Systems(part) => {
            let first = |system: String| {
                let matches = |row: &&Row| row.system == system && (part.is_empty() || row.has(part));
                let row = rows.of_bench(group.bench).find(matches)?;
                Some(bar(display_name(&system), Look::of_system(&system), Figure::of(row), row.n as f64))
            };
            systems(rows, group.bench).into_iter().filter_map(first).collect()
        }
        Bars::Variants(variants) => {
            let found = |&(variant, label, look): &(&str, &str, Look)| {
                let row = rows.of_bench(group.bench).find(|row| row.variant == variant)?;
                Some(bar(label, look, Figure::of(row), 1.0))
            };
            variants.iter().filter_map(found).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Results;

    fn draw_all() -> Vec<(&'static str, String)> {
        let results = Results::parse(include_str!("../report/golden.jsonl")).unwrap();
        let rows: Vec<_> = results.rows().collect();
        let svg = |chart: &Chart| Some((chart.file, draw(chart, Rows(&rows)).unwrap()?));
        CHARTS.iter().filter_map(svg).collect()
    }

    #[test]
    fn charts_are_drawn_of_what_there_is() {
        let drawn = draw_all();
        let files: Vec<_> = drawn.iter().map(|chart| chart.0).collect();
        let expected =
            ["txn", "txn_objects", "sps", "fill_heap_open", "update8_sync", "gets", "compile_time"];
        assert_eq!(files, expected);
        for (_, svg) in &drawn {
            assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
            assert!(!svg.contains("NaN"), "{svg}");
        }
        for label in ["pheap, best code", "PMDK, plain code", "volatile Rust", "1M"] {
            assert!(drawn[2].1.contains(label), "{label}");
        }
    }

    #[test]
    fn the_same_rows_make_the_same_charts() {
        assert_eq!(draw_all(), draw_all());
    }
}
