//! Tuning numbers for the heaps of the lab. The numbers of the crate are made for large programs. With these,
//! short programs reach both sides of each number.

use pheap::sim::Tuning;

/// Tuning of all heaps of the lab.
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
