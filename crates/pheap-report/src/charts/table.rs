//! The table of charts.

use super::style::{Look, Marker, Stroke};
use crate::choose::{Choice, Code};

/// A chart.
pub(crate) struct Chart {
    /// Name of its file, without the ending.
    pub(crate) file: &'static str,
    pub(crate) title: &'static str,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    /// Lines of one benchmark, with a point for each size.
    Lines { bench: &'static str, x: X, y: Y, x_title: &'static str, series: &'static [Series] },
    /// Lines over the number of threads, one for each system.
    Systems { bench: &'static str, y_title: &'static str },
    /// Bars in groups that share a scale.
    Bars { groups: &'static [Group], value: &'static str },
}

/// The quantity on the horizontal axis.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum X {
    /// `n`, on a logarithmic axis.
    N,
    /// `n` on a linear axis: the work grows exponentially with `n`, or faster.
    Exponent,
    Threads,
    /// Number of objects in a transaction.
    Objects,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Y {
    Time,
    /// The time of one of the `n` operations.
    TimeOfEach,
    /// Number of operations per second.
    Rate,
}

#[derive(Clone, Copy)]
pub(super) struct Series {
    pub(super) label: &'static str,
    pub(super) choice: Choice,
    pub(super) look: Look,
}

pub(super) struct Group {
    pub(super) title: &'static str,
    pub(super) bench: &'static str,
    pub(super) bars: Bars,
}

pub(super) enum Bars {
    /// A bar for each series, at the last size of a benchmark; the time of one of the `n` operations.
    Each(&'static [Series]),
    /// A bar for each system; the time of one of the `n` operations. The first row of a system counts whose
    /// variant has this part, or the first of all if it is empty.
    Systems(&'static str),
    /// A bar for each of these variants, with its name for people; the time of the whole run.
    Variants(&'static [(&'static str, &'static str, Look)]),
}

const PHEAP: Series = Series {
    label: "pheap, best code",
    choice: Choice::Pheap("pmem", Code::Best),
    look: Look::new("pheap", Stroke::Solid, Marker::Circle),
};
const PHEAP_WRITTEN: Series = Series {
    label: "pheap, plain code",
    choice: Choice::Pheap("pmem", Code::Written),
    look: Look::new("pheap", Stroke::Dashed, Marker::Ring),
};
const PHEAP_PROCESS: Series = Series {
    label: "pheap, Process",
    choice: Choice::Pheap("process", Code::Best),
    look: Look::new("pheap", Stroke::Dotted, Marker::Triangle),
};
const PHEAP_WAL: Series = Series {
    label: "pheap, Wal",
    choice: Choice::Pheap("wal", Code::Best),
    look: Look::new("pheap", Stroke::Dotted, Marker::Square),
};
const PMDK: Series = Series {
    label: "PMDK, best code",
    choice: Choice::Pmdk(Code::Best),
    look: Look::new("pmdk", Stroke::Solid, Marker::Circle),
};
const PMDK_WRITTEN: Series = Series {
    label: "PMDK, plain code",
    choice: Choice::Pmdk(Code::Written),
    look: Look::new("pmdk", Stroke::Dashed, Marker::Ring),
};
const VOLATILE: Series = Series {
    label: "volatile Rust",
    choice: Choice::Volatile,
    look: Look::new("volatile", Stroke::Solid, Marker::Circle),
};
const FLOOR: Series =
    Series { label: "floor", choice: Choice::Floor, look: Look::new("floor", Stroke::Dashed, Marker::None) };
const ALL: &[Series] = &[PHEAP, PHEAP_WRITTEN, PHEAP_PROCESS, PHEAP_WAL, PMDK, PMDK_WRITTEN, VOLATILE, FLOOR];
/// For benchmarks that fill or open a heap: without `Process` and the floor.
const RESTART: &[Series] = &[PHEAP, PHEAP_WRITTEN, PHEAP_WAL, PMDK, PMDK_WRITTEN, VOLATILE];

const fn lines(bench: &'static str, x: X, y: Y, x_title: &'static str) -> Kind {
    Kind::Lines { bench, x, y, x_title, series: ALL }
}

const fn restart(bench: &'static str, x_title: &'static str) -> Kind {
    Kind::Lines { bench, x: X::N, y: Y::Time, x_title, series: RESTART }
}

/// The charts in the order of the report.
pub(crate) const CHARTS: [Chart; 15] = [
    Chart {
        file: "txn",
        title: "Transactions that do nothing, or set one 8-byte field",
        kind: Kind::Bars {
            groups: &[
                Group { title: "empty transaction (txn_empty)", bench: "txn_empty", bars: Bars::Each(ALL) },
                Group { title: "one 8-byte field (txn_small)", bench: "txn_small", bars: Bars::Each(ALL) },
            ],
            value: "time of a transaction",
        },
    },
    Chart {
        file: "txn_objects",
        title: "Transactions that change one field in each of k objects (txn_objects)",
        kind: lines("txn_objects", X::Objects, Y::TimeOfEach, "objects in a transaction"),
    },
    Chart {
        file: "sps",
        title: "Random swaps in an array, one transaction (sps)",
        kind: lines("sps", X::N, Y::Time, "elements, and swaps"),
    },
    Chart {
        file: "nbody",
        title: "n-body, a transaction for each step (nbody)",
        kind: lines("nbody", X::N, Y::Time, "steps"),
    },
    Chart {
        file: "binary_trees",
        title: "Trees allocated and let go, collections included (binary_trees)",
        kind: lines("binary_trees", X::Exponent, Y::Time, "depth of the deepest tree"),
    },
    Chart {
        file: "fannkuch",
        title: "Permutations, one transaction (fannkuch)",
        kind: lines("fannkuch", X::Exponent, Y::Time, "length of the permutation"),
    },
    Chart {
        file: "alloc",
        title: "Random objects replaced by new ones, a root for each thread (alloc)",
        kind: lines("alloc", X::Threads, Y::Rate, "threads"),
    },
    Chart {
        file: "sps_recovery",
        title: "A heap opened after a kill before the commit of sps (sps_recovery)",
        kind: restart("sps_recovery", "elements, and swaps that are rolled back"),
    },
    Chart {
        file: "fill_heap",
        title: "A heap filled with objects of 64 bytes (fill_heap)",
        kind: restart("fill_heap", "MB of objects"),
    },
    Chart {
        file: "fill_heap_open",
        title: "A heap opened after a kill, until its first transaction (fill_heap_open)",
        kind: restart("fill_heap_open", "MB of objects"),
    },
    Chart {
        file: "update8_sync",
        title: "Transactions that wait for the disk, 8 bytes each (update8_sync)",
        kind: Kind::Systems { bench: "update8_sync", y_title: "transactions a second" },
    },
    Chart {
        file: "update8_nosync",
        title: "Transactions that do not wait for the disk, 8 bytes each (update8_nosync)",
        kind: Kind::Systems { bench: "update8_nosync", y_title: "transactions a second" },
    },
    Chart {
        file: "inserts",
        title: "Entries of 116 bytes inserted in random order, 1000 a transaction",
        kind: Kind::Bars {
            groups: &[
                Group {
                    title: "each commit waits for the disk (insert_sync)",
                    bench: "insert_sync",
                    bars: Bars::Systems(""),
                },
                Group {
                    title: "no commit does (insert_nosync)",
                    bench: "insert_nosync",
                    bars: Bars::Systems(""),
                },
            ],
            value: "time of an entry",
        },
    },
    Chart {
        file: "gets",
        title: "Entries looked up in random order (get)",
        kind: Kind::Bars {
            groups: &[
                Group { title: "1000 in a read transaction", bench: "get", bars: Bars::Systems("1000") },
                Group { title: "1 in a read transaction", bench: "get", bars: Bars::Systems("1") },
            ],
            value: "time of a lookup",
        },
    },
    Chart {
        file: "compile_time",
        title: "What #[txn] and #[derive(Persist)] add to a build",
        kind: Kind::Bars {
            groups: &[
                Group {
                    title: "cargo check, functions that do nothing but change records",
                    bench: "compile_time",
                    bars: Bars::Variants(CHECK),
                },
                Group { title: "cargo build, the same", bench: "compile_time", bars: Bars::Variants(BUILD) },
                Group {
                    title: "cargo build, the example churn, which has one #[txn]",
                    bench: "compile_time",
                    bars: Bars::Variants(EXAMPLE),
                },
            ],
            value: "time of the crate",
        },
    },
];

const fn compiled(suffix: [&'static str; 3]) -> [(&'static str, &'static str, Look); 3] {
    [
        (suffix[0], "with #[txn]", Look::new("pheap", Stroke::Solid, Marker::Circle)),
        (suffix[1], "the attribute left out", Look::new("pheap", Stroke::Dashed, Marker::Ring)),
        (suffix[2], "without pheap", Look::new("volatile", Stroke::Solid, Marker::Circle)),
    ]
}
const CHECK: &[(&str, &str, Look)] = &compiled(["annotated:check", "plain:check", "volatile:check"]);
const BUILD: &[(&str, &str, Look)] = &compiled(["annotated:build", "plain:build", "volatile:build"]);
const EXAMPLE: &[(&str, &str, Look)] = &compiled(["example:build", "example_plain:build", ""]);
