//! Helpers of the tests, the crash lab, the benchmarks and the fuzz targets.
//!
//! | file | |
//! |---|---|
//! | [`rng`] | random numbers from a seed |
//! | [`files`] | the bytes of a heap file, and copies as a kill leaves them |
//! | [`sample`] | a small heap with content |
//! | [`process`] | other processes: this test program again in another role, and examples |
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

/// Returns the number of rounds of a test: `few`, or twenty times as many if `PHEAP_THOROUGH` is set.
pub fn rounds(few: u32) -> u32 {
    if is_thorough() { few * 20 } else { few }
}

/// Returns whether `PHEAP_THOROUGH` is set: for tests that take too long for each change.
pub fn is_thorough() -> bool {
    std::env::var_os("PHEAP_THOROUGH").is_some()
}

/// Returns options for small, fast heaps.
pub fn small() -> Options {
    Options::new().arena_size(MIB).reserve(1 << 30).durability(Durability::Process)
}

/// Returns options for both kinds of transactions: ones that begin short, and ones that are long from the
/// beginning.
pub fn both() -> [Options; 2] {
    [small(), small().pin_undo(true)]
}

/// Makes a folder for one test. It is removed when the value is dropped.
///
/// # Panics
/// If the folder cannot be made.
pub fn tempdir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}
