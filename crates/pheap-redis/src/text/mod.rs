//! Values that byte strings encode: words, numbers, places, HyperLogLogs; and random numbers. This module
//! knows nothing of the heap.

pub mod extended;
pub mod geo;
pub mod hll;
pub mod random;
pub mod words;
