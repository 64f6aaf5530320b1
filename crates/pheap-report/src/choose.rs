//! Chooses the rows that stand for a system: its best variant, and the one with straightforward code.

use crate::benches::{Bench, Floor, PMDK_WRITTEN, pmdk_is_comparable};
use crate::row::{Row, Size};

/// A system, with the variant to choose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Choice {
    /// Pheap with this durability.
    Pheap(&'static str, Code),
    Pmdk(Code),
    Volatile,
    Floor,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Code {
    /// The fastest variant at this size.
    Best,
    /// Straightforward code: the first of the names that count as such.
    Written,
}

/// Straightforward code of pheap counts as the best variant if it takes at most this factor of the fastest
/// time.
const AS_FAST: f64 = 1.05;

/// The times of a row, or of a sum of multiples of rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) variant: String,
    pub(crate) seconds: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Figure {
    pub(crate) fn of(row: &Row) -> Figure {
        Figure { variant: row.variant.clone(), seconds: row.seconds, min: row.min(), max: row.max() }
    }

    /// Returns `factor` times another figure, under this name.
    fn times(factor: f64, name: &str, row: &Figure) -> Figure {
        Figure { variant: name.to_owned(), seconds: 0.0, min: 0.0, max: 0.0 }.plus(factor, row)
    }

    /// Adds `factor` times another figure.
    fn plus(mut self, factor: f64, other: &Figure) -> Figure {
        self.seconds += factor * other.seconds;
        self.min += factor * other.min;
        self.max += factor * other.max;
        self
    }
}

/// The rows to choose from.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a>(pub(crate) &'a [&'a Row]);

impl<'a> Rows<'a> {
    pub(crate) fn of_bench(self, name: &str) -> impl Iterator<Item = &'a Row> {
        self.0.iter().copied().filter(move |row| row.bench == name)
    }

    /// Returns the sizes at which this benchmark was run, in order.
    pub(crate) fn sizes(self, name: &str) -> Vec<Size> {
        let mut sizes: Vec<Size> = self.of_bench(name).map(Row::size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    pub(crate) fn find(self, bench: &Bench, size: Size, choice: Choice) -> Option<Figure> {
        let of = |system: &'static str| {
            self.of_bench(bench.name).filter(move |row| row.system == system && row.size() == size)
        };
        match choice {
            Choice::Pheap(durability, Code::Best) => {
                let best = fastest(of("pheap").filter(|row| is_comparable(bench, row, durability)))?;
                let written = self.find(bench, size, Choice::Pheap(durability, Code::Written));
                // Within the variation of the machine, straightforward code is as fast.
                Some(written.filter(|written| written.seconds <= AS_FAST * best.seconds).unwrap_or(best))
            }
            Choice::Pheap(durability, Code::Written) => {
                let names = bench.written.iter().map(|suffix| match *suffix {
                    "" => durability.to_owned(),
                    suffix => format!("{durability}:{suffix}"),
                });
                first_of(names, || of("pheap"))
            }
            Choice::Pmdk(Code::Best) => fastest(of("pmdk").filter(|row| pmdk_is_comparable(&row.variant))),
            Choice::Pmdk(Code::Written) => {
                first_of(PMDK_WRITTEN.iter().map(|&name| name.to_owned()), || of("pmdk"))
            }
            Choice::Volatile => {
                let name = bench.volatile?;
                of("volatile").find(|row| row.variant == name).map(Figure::of)
            }
            Choice::Floor => self.floor(bench, size),
        }
    }

    /// Returns the time of one operation of a row of the floor.
    pub(crate) fn floor_row(self, name: &str) -> Option<Figure> {
        let row = self.of_bench(name).find(|row| row.system == "floor" && row.n > 0)?;
        Some(Figure::times(1.0 / row.n as f64, name, &Figure::of(row)))
    }

    fn floor(self, bench: &Bench, size: Size) -> Option<Figure> {
        let n = size.n as f64;
        match bench.floor {
            Floor::None => None,
            Floor::Row(name) => Some(Figure::times(n, name, &self.floor_row(name)?)),
            Floor::VolatileAndRow(name) => {
                let volatile = self.find(bench, size, Choice::Volatile)?;
                Some(Figure { variant: name.to_owned(), ..volatile }.plus(n, &self.floor_row(name)?))
            }
        }
    }
}

fn is_comparable(bench: &Bench, row: &Row, durability: &str) -> bool {
    // `undo` only shows the cost of undo logging. `on_demand` commits transactions that are not durable yet.
    let known = |part: &str| !["undo", "on_demand"].contains(&part) && !bench.not_comparable.contains(&part);
    let mut parts = row.variant.split(':');
    parts.next() == Some(durability) && parts.all(known)
}

fn fastest<'a>(rows: impl Iterator<Item = &'a Row>) -> Option<Figure> {
    rows.min_by(|a, b| a.seconds.total_cmp(&b.seconds)).map(Figure::of)
}

fn first_of<'a, I: Iterator<Item = &'a Row>>(
    mut names: impl Iterator<Item = String>,
    rows: impl Fn() -> I,
) -> Option<Figure> {
    names.find_map(|name| rows().find(|row| row.variant == name)).map(Figure::of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benches::bench;

    const SIZE: Size = Size { n: 10, threads: 1, k: None };

    fn row(system: &str, name: &str, variant: &str, n: u64, seconds: f64) -> Row {
        let line = format!(
            r#"{{"system":"{system}","bench":"{name}","variant":"{variant}","n":{n},"seconds":{seconds},"max":9}}"#
        );
        Row::parse(&line).unwrap()
    }

    fn variant(rows: &[Row], name: &str, choice: Choice) -> Option<String> {
        let rows: Vec<&Row> = rows.iter().collect();
        Rows(&rows).find(bench(name).unwrap(), SIZE, choice).map(|figure| figure.variant)
    }

    #[test]
    fn the_best_variant_is_the_fastest_of_a_durability() {
        let rows = [
            row("pheap", "sps", "pmem:element_txn", 10, 5.0),
            row("pheap", "sps", "pmem:slice_mut", 10, 2.0),
            row("pheap", "sps", "pmem:slice_mut:undo", 10, 1.0),
            row("pheap", "sps", "pmem:slice_mut", 11, 0.5),
            row("pheap", "sps", "process:slice_mut", 10, 0.5),
        ];
        let find = |durability, code| variant(&rows, "sps", Choice::Pheap(durability, code));
        assert_eq!(find("pmem", Code::Best).as_deref(), Some("pmem:slice_mut"));
        assert_eq!(find("pmem", Code::Written).as_deref(), Some("pmem:element_txn"));
        assert_eq!(find("process", Code::Best).as_deref(), Some("process:slice_mut"));
        assert_eq!(find("process", Code::Written), None);
        assert_eq!(find("wal", Code::Best), None);
    }

    #[test]
    fn nothing_is_better_than_straightforward_code_by_a_little() {
        let rows = [
            row("pheap", "txn_small", "pmem", 10, 1.04),
            row("pheap", "txn_small", "pmem:index_mut", 10, 1.0),
        ];
        let best = variant(&rows, "txn_small", Choice::Pheap("pmem", Code::Best));
        assert_eq!(best.as_deref(), Some("pmem"));
    }

    #[test]
    fn pmdk_without_a_transaction_does_not_count() {
        let rows = [
            row("pmdk", "txn_small", "field8_persist", 10, 0.1),
            row("pmdk", "txn_small", "field8", 10, 3.0),
            row("pmdk", "txn_small", "object64", 10, 2.0),
        ];
        let find = |code| variant(&rows, "txn_small", Choice::Pmdk(code));
        assert_eq!(find(Code::Best).as_deref(), Some("object64"));
        assert_eq!(find(Code::Written).as_deref(), Some("field8"));
    }

    #[test]
    fn the_floor_is_counted_in_operations() {
        let rows =
            [row("floor", "nt_5_lines", "movntdq", 5, 1.0), row("volatile", "nbody", "array", 10, 3.0)];
        let rows: Vec<&Row> = rows.iter().collect();
        let floor = Rows(&rows).find(bench("nbody").unwrap(), SIZE, Choice::Floor).unwrap();
        assert_eq!(floor, Figure { variant: "nt_5_lines".into(), seconds: 5.0, min: 5.0, max: 27.0 });
    }
}
