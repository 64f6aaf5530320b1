//! What strings of bytes stand for: words, numbers, places, HyperLogLogs. Knows nothing of the heap.

pub mod extended;
pub mod geo;
pub mod hll;
pub mod random;
pub mod words;
