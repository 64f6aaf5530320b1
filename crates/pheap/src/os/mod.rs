//! Services of the operating system and the processor: files, their names and locks, maps, forks, cache
//! lines.
//!
//! This module knows bytes, descriptors and addresses. It must not know the content of heaps or logs.

mod calls;
pub(crate) mod cpu;
pub(crate) mod file_lock;
pub(crate) mod file_system;
pub(crate) mod fork;
pub(crate) mod holes;
pub(crate) mod identity;
pub(crate) mod mapping;
pub(crate) mod maps;
mod memory;
pub(crate) mod names;
pub(crate) mod own_file;
pub(crate) mod regular;
pub(crate) mod reservation;
pub(crate) mod simulated;
pub(crate) mod storage;
pub(crate) mod syncs;
mod unnamed;

use std::num::NonZero;
use std::sync::OnceLock;

pub(crate) use calls::{
    check_file_size, file_in_memory, file_size_limit, memory, random, rename_to_new, seek_data, set_len,
    try_lock, unlock, will_read, write_at, write_out,
};
pub use memory::limit as memory_limit;
pub(crate) use unnamed::unnamed_file;

/// Returns the number of threads, this one included, that are useful for parallel work; 1 in a forked child.
/// The system is asked once, by the first call, because that takes long.
pub(crate) fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    if !fork::may_start_threads() {
        return 1;
    }
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, NonZero::get))
}
