//! Targets of pheap, relative to other rows of the same run.

use crate::benches::Bench;
use crate::choose::{Choice, Code, Rows};
use crate::row::Size;

/// An upper bound on the best variant of pheap.
struct Target {
    bench: &'static str,
    sizes: fn(Size) -> bool,
    bound: Bound,
    factor: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    /// The time that the hardware needs: see [`crate::benches::Floor`].
    Floor,
    Volatile,
    Pmdk,
}

const fn any(_: Size) -> bool {
    true
}

const TARGETS: [Target; 9] = [
    Target { bench: "txn_empty", sizes: any, bound: Bound::Floor, factor: 0.25 },
    Target { bench: "txn_small", sizes: any, bound: Bound::Floor, factor: 1.3 },
    Target { bench: "txn_objects", sizes: |size| size.k == Some(8), bound: Bound::Floor, factor: 1.6 },
    Target { bench: "nbody", sizes: any, bound: Bound::Floor, factor: 1.2 },
    Target { bench: "sps", sizes: |size| size.n == 1_000_000, bound: Bound::Volatile, factor: 1.3 },
    Target { bench: "sps", sizes: |size| size.n == 10_000_000, bound: Bound::Volatile, factor: 1.1 },
    Target { bench: "fannkuch", sizes: any, bound: Bound::Volatile, factor: 1.1 },
    Target { bench: "binary_trees", sizes: |size| size.n >= 16, bound: Bound::Volatile, factor: 0.6 },
    Target { bench: "fill_heap_open", sizes: any, bound: Bound::Pmdk, factor: 1.0 / 3.0 },
];

/// Opening the largest heap may take this factor of the smallest heap's time, and still counts as independent
/// of the size.
pub(crate) const FLAT: f64 = 1.5;

/// A bound, and the result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    /// The bound in words.
    pub(crate) bound: String,
    /// The time of pheap, divided by the bound.
    pub(crate) ratio: f64,
}

impl Verdict {
    pub(crate) fn met(&self) -> bool {
        self.ratio <= 1.0
    }
}

/// Compares pheap with its target at this size. Without a target, and for straightforward code, the bound is
/// the time of PMDK. Returns `None` if pheap's row or the row to compare with is missing.
pub(crate) fn verdict(rows: Rows<'_>, bench: &Bench, size: Size, code: Code) -> Option<Verdict> {
    let figure = rows.find(bench, size, Choice::Pheap("pmem", code))?.seconds;
    let target = TARGETS.iter().find(|target| target.bench == bench.name && (target.sizes)(size));
    let (bound, factor) = match target {
        Some(target) if code == Code::Best => (target.bound, target.factor),
        _ => (Bound::Pmdk, 1.0),
    };
    let (choice, name) = match bound {
        Bound::Floor => (Choice::Floor, floor_name(bench)),
        Bound::Volatile => (Choice::Volatile, "volatile".to_owned()),
        Bound::Pmdk => (Choice::Pmdk(code), "PMDK".to_owned()),
    };
    let other = rows.find(bench, size, choice)?.seconds;
    let bound = match factor {
        1.0 => format!("≤ {name}"),
        factor if factor < 0.34 && bound == Bound::Pmdk => format!("≤ {name} / 3"),
        factor => format!("≤ {factor} × {name}"),
    };
    Some(Verdict { bound, ratio: figure / (factor * other) })
}

fn floor_name(bench: &Bench) -> String {
    use crate::benches::Floor;
    match bench.floor {
        Floor::None => "floor".into(),
        Floor::Row(name) => format!("`{name}`"),
        Floor::VolatileAndRow(name) => format!("(volatile + `{name}`)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benches::bench;
    use crate::row::Row;

    fn verdicts(lines: &[&str], name: &str, size: Size) -> [Option<Verdict>; 2] {
        let rows: Vec<Row> = lines.iter().map(|line| Row::parse(line).unwrap()).collect();
        let rows: Vec<&Row> = rows.iter().collect();
        [Code::Best, Code::Written].map(|code| verdict(Rows(&rows), bench(name).unwrap(), size, code))
    }

    #[test]
    fn a_target_is_a_multiple_of_what_was_measured_beside() {
        let lines = [
            r#"{"system":"pheap","bench":"sps","variant":"pmem:slice_mut","n":1000000,"seconds":2.6}"#,
            r#"{"system":"pheap","bench":"sps","variant":"pmem:element_txn","n":1000000,"seconds":8}"#,
            r#"{"system":"volatile","bench":"sps","variant":"vec","n":1000000,"seconds":2}"#,
            r#"{"system":"pmdk","bench":"sps","variant":"field","n":1000000,"seconds":4}"#,
        ];
        let [best, written] = verdicts(&lines, "sps", Size { n: 1_000_000, threads: 1, k: None });
        let (best, written) = (best.unwrap(), written.unwrap());
        assert_eq!((best.bound.as_str(), best.met()), ("≤ 1.3 × volatile", true));
        assert_eq!((written.bound.as_str(), written.ratio, written.met()), ("≤ PMDK", 2.0, false));
    }

    #[test]
    fn without_anything_to_compare_with_there_is_no_verdict() {
        let lines = [r#"{"system":"pheap","bench":"fill_heap_open","variant":"pmem","n":64,"seconds":1}"#];
        assert_eq!(verdicts(&lines, "fill_heap_open", Size { n: 64, threads: 1, k: None }), [None, None]);
    }
}
