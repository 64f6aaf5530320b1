//! Explores the images that a crash can leave of a heap.
//!
//! A [`Program`] is a few operations over up to three roots. It runs on the simulated medium of `pheap`. The
//! medium notes a point before each event that makes words durable, such as a fence, and at each
//! acknowledgement. A point tells what is durable, and which changed words may have reached the medium. For
//! each point the explorer makes images with subsets of these words, opens those that it has not seen, and
//! compares the recovered state with a model. It must be the whole state before or after the operation that
//! was running; if commits are not synced, it may also be a state since the last sync. Some recovered heaps
//! run transactions, crash again, and are compared again. The explorer also crashes some of the recoveries.
//!
//! Programs on a disk have a write-ahead log and are explored in the same way. There, the events are calls
//! that make something durable, such as syncs, and subsets of the written sectors may have reached the disk.
//! A killed process is different: its writes can be read, and are not durable.
//!
//! | file | |
//! |---|---|
//! | [`program`] | operations, programs and their text |
//! | [`program::alphabet`] | the programs of the schedule |
//! | [`model`] | the expected content of a heap |
//! | [`layouts`], [`shelf`], [`ops`] | the persistent types; the effects of operations |
//! | [`objects`] | finding and reading roots |
//! | [`medium`], [`fault`] | simulated memory and disks, and calls that fail |
//! | [`tuning`] | smaller thresholds for short programs |
//! | [`run`] | running a program on a simulated medium |
//! | [`image`], [`disk_image`], [`subset`] | the images that a crash leaves |
//! | [`explore`] | crashes at the points of a program |
//! | [`steered`] | crashes that an input chooses |
//! | [`schedule`] | the order of programs, and the progress in it |
//! | [`shrink`] | shrinking a failing program |
//! | [`report`] | totals and crashes |
//! | [`seeded`] | seeded bugs that the explorer must find |
//! | [`contention`] | threads that meet at locks |
//! | [`threads`] | two threads, in many orders, and crashes at their points |
//! | [`mutate`] | the mutation score: flushes, fences, log entries … left out, one at a time |

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
