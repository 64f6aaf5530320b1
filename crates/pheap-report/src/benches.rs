//! A table of the micro-benchmarks, with the facts that are needed to compare their rows.

/// A benchmark of `cargo bench --bench paper`.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) name: &'static str,
    /// The operation of which a run has `n`. `None` if the time of the whole run is compared.
    pub(crate) operation: Option<&'static str>,
    /// Names of the pheap variant with straightforward code, after the durability. The first one that exists
    /// counts.
    pub(crate) written: &'static [&'static str],
    /// Parts of names of variants. A variant of pheap with such a part is not compared: it begins with other
    /// data, or only serves as an explanation.
    pub(crate) not_comparable: &'static [&'static str],
    /// The variant of volatile Rust that pheap is compared with. `None` if there is none.
    pub(crate) volatile: Option<&'static str>,
    pub(crate) floor: Floor,
}

/// The time that the hardware needs for the same work.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Floor {
    None,
    /// Each operation takes the time of this row of the floor.
    Row(&'static str),
    /// The time of volatile Rust, and this row of the floor for each operation.
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

/// The benchmarks, in the order of the tables.
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

/// Returns the benchmark with this name.
pub(crate) fn bench(name: &str) -> Option<&'static Bench> {
    BENCHES.iter().find(|bench| bench.name == name)
}

/// Returns whether a variant of PMDK is compared. One with `persist` in its name, which has no transaction,
/// is not.
pub(crate) fn pmdk_is_comparable(variant: &str) -> bool {
    !variant.contains("persist")
}

/// Names of straightforward variants of PMDK. The first one that exists counts.
pub(crate) const PMDK_WRITTEN: [&str; 4] = ["field", "field8", "tx_oid", "tx"];
