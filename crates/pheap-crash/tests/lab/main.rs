//! The bugs that the explorer finds, and programs without bugs.

mod collections;
mod common;
mod order;
mod random;
mod seeded;
mod steered;
mod wal;

/// Examining an image makes many small allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
