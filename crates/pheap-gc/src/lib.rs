//! Marking for a garbage collector: precise, incremental, parallel, and not tied to any heap.
//!
//! A [`Heap`] marks and traces its objects. A [`Marking`] finds all objects that can be reached from the
//! pointers pushed to it. It works in slices, each limited by a [`Budget`] and run by one thread or by
//! several at once. Between slices the program may change the heap if it keeps two rules: it pushes the old
//! value of a pointer before it overwrites it, and it allocates new objects marked. So marking finds all
//! objects that were reachable at the beginning of the cycle (Yuasa, "Real-time garbage collection on
//! general-purpose machines", 1990).
//!
//! | file | |
//! |---|---|
//! | [`heap`](Heap) | the interface between the marker and a heap |
//! | [`marking`](Marking) | a cycle of marking: open work, and how threads share it |
//! | `local` | the innermost loop: a thread's mark stack, and a queue of prefetches |
//! | [`budget`](Budget) | limits of a slice |
//! | [`bitmap`] | allocation bits and mark bits of slots |

#![forbid(unsafe_code)]

pub mod bitmap;
mod budget;
mod heap;
mod local;
mod marking;

pub use budget::Budget;
pub use heap::Heap;
pub use marking::{Marking, Progress, mark_all};
