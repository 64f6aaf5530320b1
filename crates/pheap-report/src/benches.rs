//! What there is to know about each micro-benchmark in order to compare its rows: a table.

/// A benchmark of `cargo bench --bench paper`.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) name: &'static str,
    /// What there are `n` of; none where the time of everything is what counts.
    pub(crate) operation: Option<&'static str>,
    /// How a variant of pheap is called, after the durability, that is straightforward code: the first one that exists.
    pub(crate) written: &'static [&'static str],
    /// Variants of pheap that compute the same as the others, but start from something else, or are for insight.
    pub(crate) not_comparable: &'static [&'static str],
    /// What volatile Rust is compared with, where that means something.
    pub(crate) volatile: Option<&'static str>,
    pub(crate) floor: Floor,
}

/// What the hardware takes for the same.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Floor {
    None,
    /// Each operation takes what this row of the floor says.
    Row(&'static str),
    /// The same, and what volatile Rust takes.
    VolatileAndRow(&'static str),
}

const PLAIN: Bench = Bench {
    name: "",
    operation: None,
    written: &[""],
    not_comparable: &[],
    volatile: None,
    floor: Floor::None,
};

/// In the order of the tables.
pub(crate) const BENCHES: [Bench; 11] = [
    Bench { name: "txn_empty", operation: Some("transaction"), floor: Floor::Row("nt_line"), ..PLAIN },
    Bench {
        name: "txn_small",
        operation: Some("transaction"),
        volatile: Some("vec"),
        floor: Floor::Row("nt_line"),
        ..PLAIN
    },
    Bench {
        name: "txn_objects",
        operation: Some("transaction"),
        volatile: Some("vec"),
        floor: Floor::Row("nt_5_lines"),
        ..PLAIN
    },
    Bench {
        name: "sps",
        operation: Some("swap"),
        written: &["element_txn", "element"],
        volatile: Some("vec"),
        ..PLAIN
    },
    Bench {
        name: "nbody",
        operation: Some("step"),
        written: &["objects_txn", "objects"],
        volatile: Some("array"),
        floor: Floor::VolatileAndRow("nt_5_lines"),
        ..PLAIN
    },
    Bench { name: "fannkuch", written: &["element_txn"], volatile: Some("array"), ..PLAIN },
    Bench { name: "binary_trees", volatile: Some("box"), ..PLAIN },
    Bench {
        name: "alloc",
        operation: Some("replacement"),
        written: &["30", ""],
        volatile: Some("box"),
        ..PLAIN
    },
    Bench { name: "sps_recovery", written: &["element_txn", "element", ""], ..PLAIN },
    Bench { name: "fill_heap", volatile: Some("vec"), ..PLAIN },
    Bench { name: "fill_heap_open", not_comparable: &["mapped"], ..PLAIN },
];

/// The benchmark of this name.
pub(crate) fn bench(name: &str) -> Option<&'static Bench> {
    BENCHES.iter().find(|bench| bench.name == name)
}

/// Whether this is what PMDK's row of that variant is compared by: a variant without a transaction is not.
pub(crate) fn pmdk_is_comparable(variant: &str) -> bool {
    !variant.contains("persist")
}

/// How straightforward programs are called on the side of PMDK: the first one that exists.
pub(crate) const PMDK_WRITTEN: [&str; 4] = ["field", "field8", "tx_oid", "tx"];
