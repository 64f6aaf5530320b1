//! The files of a heap: how they grow, and how they are copied, removed, renamed, locked and read. Also files
//! that earlier versions have left.

mod ahead;
mod backup;
mod backup_beside;
mod copies;
mod follow;
mod full_disk;
mod growth;
mod holes;
mod little_memory;
mod memory_group;
mod predecessor;
mod readonly;
#[cfg(target_arch = "x86_64")]
mod refused;
mod removed;
mod unchanged;
mod wal;
mod wal_cut;
mod wal_names;
