//! What the operating system and the processor do for us: files, their names and locks, maps, forks, cache lines.
//!
//! Knows bytes, descriptors and addresses. Must not know what a heap or a log holds.

pub(crate) mod cpu;
pub(crate) mod file_lock;
pub(crate) mod file_system;
pub(crate) mod fork;
pub(crate) mod holes;
pub(crate) mod identity;
pub(crate) mod mapping;
pub(crate) mod names;
pub(crate) mod own_file;
pub(crate) mod regular;
pub(crate) mod reservation;
pub(crate) mod simulated;
pub(crate) mod storage;
pub(crate) mod syncs;
pub(crate) mod table;

use std::io;
use std::num::NonZero;
use std::sync::OnceLock;

/// Numbers that nobody could guess.
pub(crate) fn random<const N: usize>() -> [u64; N] {
    let mut words = [0u64; N];
    // SAFETY: the buffer has this many bytes. Up to 256 of them come whole.
    let got = unsafe { libc::getrandom(words.as_mut_ptr().cast(), N * 8, 0) };
    assert_eq!(got, N as isize * 8, "getrandom failed: {}", io::Error::last_os_error());
    words
}

/// Threads that can run at a time. Asked once, and not before it matters: the answer takes longer than to open a small heap does.
pub(crate) fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, NonZero::get))
}
