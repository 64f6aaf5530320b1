//! What the explorer finds, and what it does not.

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
