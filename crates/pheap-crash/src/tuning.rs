//! What heaps of the lab are tuned to. What ships is made for programs that do much; those of the lab are short, and are to come to both sides of each number.

use pheap::sim::Tuning;

/// For heaps of the lab.
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
