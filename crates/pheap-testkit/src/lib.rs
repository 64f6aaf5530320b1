//! What the tests, the crash lab, the benchmarks and the fuzz targets share.
//!
//! | file | |
//! |---|---|
//! | [`rng`] | random numbers from a seed |
//! | [`files`] | the bytes of a heap file, and what a kill leaves of it |
//! | [`sample`] | a small heap with something in it |
//! | [`process`] | other processes: this test program again, in another role |
//! | [`forks`] | children of this process |
//! | [`threads`] | whether a thread waits |

pub mod files;
pub mod forks;
pub mod process;
pub mod rng;
pub mod sample;
pub mod threads;

pub use files::*;
pub use process::*;
pub use rng::Rng;
pub use threads::*;

use pheap::{Durability, Options};

/// A mebibyte.
pub const MIB: u64 = 1 << 20;

/// How many rounds a test takes: `few` for each change, and twenty times as many each night, where
/// `PHEAP_THOROUGH` is set.
pub fn rounds(few: u32) -> u32 {
    if is_thorough() { few * 20 } else { few }
}

/// Whether `PHEAP_THOROUGH` is set: for tests that take too long for each change.
pub fn is_thorough() -> bool {
    std::env::var_os("PHEAP_THOROUGH").is_some()
}

/// Options for heaps that cost little.
pub fn small() -> Options {
    Options::new().arena_size(MIB).reserve(1 << 30).durability(Durability::Process)
}

/// Both paths of a transaction: short ones, and all of them long.
pub fn both() -> [Options; 2] {
    [small(), small().pin_undo(true)]
}

/// A folder for one test, removed when it is dropped.
///
/// # Panics
/// If there is no place for it.
pub fn tempdir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}
