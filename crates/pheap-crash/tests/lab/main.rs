//! The bugs that the explorer finds, and programs without bugs.

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
