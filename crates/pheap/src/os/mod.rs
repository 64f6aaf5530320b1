//! What the operating system and the processor do for us: files, their names and locks, maps, forks, cache lines.
//!
//! Knows bytes, descriptors and addresses. Must not know what a heap or a log holds.

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
pub(crate) use memory::limit as memory_limit;
pub(crate) use unnamed::unnamed_file;

/// Threads that are worth starting for what several can do, with this one. Asked once, and not before it matters: the answer takes longer than to open a small heap does.
pub(crate) fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    if !fork::may_start_threads() {
        return 1;
    }
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, NonZero::get))
}
