//! Thresholds for the heaps of the lab. Those of the crate suit large programs. These are mostly smaller, so
//! that short programs come to both sides of them.

use pheap::sim::Tuning;

/// Thresholds of the heaps of the lab.
pub const SMALL: Tuning = Tuning {
    copies: 32,
    unindexed: 4,
    kept_lines: 8,
    lines_at_a_time: 4,
    fresh_in_record: 1024,
    patience: 2,
    hole: 2 << 12,
    free_kept: 4 << 12,
};
