//! Explores what a power failure can do to a heap.
//!
//! A [`Program`] is a few operations over two roots. It runs on the simulated medium of `pheap`, which notes a point at each
//! fence and at each acknowledgement: what is durable there, and which words may have reached the medium beyond that. For each point the
//! explorer makes images with subsets of these words, opens them, and compares what recovery makes of them with a model: it
//! must be the state before or after the operation that was running, whole. Then it runs transactions on the recovered heap,
//! crashes again, and compares again; and it does the same to some of these recoveries, for a crash during recovery is a crash like
//! any other.
//!
//! Programs on a disk, with a write-ahead log, are explored in the same way: points are syncs and acknowledgements there, and any subset of
//! sectors may have reached the disk. What a killed process leaves is another matter: what it has written can be read, and is not durable.
//!
//! | file | |
//! |---|---|
//! | [`program`] | operations, programs and their text |
//! | [`program::alphabet`] | which programs there are |
//! | [`model`] | what a heap should hold |
//! | [`layouts`], [`shelf`], [`ops`] | the persistent types; what operations do |
//! | [`objects`] | how roots are found, and read |
//! | [`medium`], [`fault`] | simulated memory and disks, and calls that fail |
//! | [`tuning`] | numbers for short programs |
//! | [`run`] | running a program on a simulated medium |
//! | [`image`], [`disk_image`], [`subset`] | what a crash leaves behind |
//! | [`explore`] | crashing everywhere |
//! | [`steered`] | crashing where an input says |
//! | [`schedule`] | which programs are explored in which order, and how far that has come |
//! | [`shrink`] | the shortest program that fails |
//! | [`report`] | figures and crashes |
//! | [`seeded`] | bugs that the explorer must find |
//! | [`contention`] | threads that meet at every lock |
//! | [`threads`] | two threads, in all orders, and crashes at each step |
//! | [`mutate`] | the mutation score: each flush, fence, log entry … left out, one at a time |

pub mod contention;
pub mod disk_image;
pub mod explore;
pub mod fault;
pub mod image;
pub mod layouts;
pub mod medium;
pub mod model;
pub mod mutate;
mod named;
pub mod objects;
pub mod ops;
pub mod program;
pub mod report;
pub mod run;
pub mod schedule;
pub mod seeded;
pub mod shelf;
pub mod shrink;
pub mod steered;
pub mod subset;
pub mod threads;
pub mod tuning;

pub use explore::{Explorer, Failure, Limits};
pub use program::Program;
pub use report::Totals;
pub use steered::{Script, Steered};
