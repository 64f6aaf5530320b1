//! Marking for a garbage collector: precise, incremental, parallel, and not tied to any heap.
//!
//! A [`Heap`] says what its objects are and where they point to. A [`Marking`] finds all that can be reached from the pointers that are
//! pushed to it, in slices as long as a [`Budget`], each by one thread or by several at once. In between the heap may change, if it is
//! told to the marking: old values of pointers are pushed before they are overwritten, and new objects are born marked (a snapshot at
//! the beginning, after Yuasa, "Real-time garbage collection on general-purpose machines", 1990).
//!
//! | file | |
//! |---|---|
//! | [`heap`](Heap) | what the marker needs to know of a heap |
//! | [`marking`](Marking) | a cycle of marking: the work that is left, shared out among threads |
//! | `local` | the innermost loop: a thread's mark stack, with a queue of prefetches before it |
//! | [`budget`](Budget) | how much a slice may do |
//! | [`bitmap`] | which slots are taken, which are marked |

#![forbid(unsafe_code)]

pub mod bitmap;
mod budget;
mod heap;
mod local;
mod marking;

pub use budget::Budget;
pub use heap::Heap;
pub use marking::{Marking, Progress, mark_all};
