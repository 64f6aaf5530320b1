//! The measured variants of the C programs: the fastest that we could write, and the code that follows the
//! examples.

/// A variant with its name in C, and the largest sizes at which it does not take too long.
pub(crate) struct Variant {
    pub(crate) name: &'static str,
    largest: u64,
    largest_quickly: u64,
}

impl Variant {
    /// Returns the largest size to measure.
    pub(crate) fn largest(&self, quick: bool) -> u64 {
        if quick { self.largest_quickly } else { self.largest }
    }
}

const fn any(name: &'static str) -> Variant {
    up_to(u64::MAX, u64::MAX, name)
}

const fn up_to(largest: u64, largest_quickly: u64, name: &'static str) -> Variant {
    Variant { name, largest, largest_quickly }
}

/// Returns the variants of a workload. Returns none if there is no program for it.
pub(crate) fn of(bench: &str) -> &'static [Variant] {
    match bench {
        "txn_empty" => const { &[any("tx")] },
        "txn_small" => const { &[any("field8"), any("object64"), any("publish")] },
        "txn_objects" => const { &[any("tx"), any("publish")] },
        "sps" => {
            const { &[any("tuned"), up_to(1_000_000, 100_000, "field"), up_to(1_000_000, 1_000_000, "field_log")] }
        }
        "sps_recovery" => const { &[any("tuned"), up_to(1_000_000, 1_000_000, "field")] },
        "nbody" => const { &[any("tuned"), up_to(100_000, 100_000, "field")] },
        "fannkuch" => const { &[any("tuned"), any("field")] },
        "binary_trees" => const { &[up_to(16, 12, "reserve"), up_to(14, 12, "tx"), up_to(14, 12, "tx_oid")] },
        "alloc" => const { &[any("reserve"), any("tx_batch"), any("tx")] },
        "fill_heap" => const { &[any("reserve"), any("tx")] },
        "fill_heap_open" => const { &[any("tx")] },
        _ => &[],
    }
}

/// A second parameter of a workload, in addition to its size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Extra {
    /// No second parameter.
    None,
    /// Number of objects that a transaction changes.
    Objects(u64),
    /// Number of threads.
    Threads(u64),
}

impl Extra {
    /// Returns the number of threads of a case.
    pub fn threads(self) -> u64 {
        if let Extra::Threads(threads) = self { threads } else { 1 }
    }

    /// Returns the name of a variant, including the number of objects.
    pub(crate) fn apply(self, variant: &str) -> String {
        if let Extra::Objects(k) = self { format!("{variant}:k{k}") } else { variant.to_owned() }
    }
}
