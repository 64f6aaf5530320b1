//! What the explorer finds, and what it does not. One heap at a time has the address that heaps are simulated at, so these run one after the other anyway.

mod collections;
mod common;
mod order;
mod random;
mod seeded;
mod steered;
mod wal;

/// An image takes hundreds of small allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
