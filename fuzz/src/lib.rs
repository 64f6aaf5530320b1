//! What the fuzz targets share.

use std::path::Path;

use tempfile::TempDir;

/// A folder for one run, in memory if there is such a place. It stays behind when the run fails, so that the heap can be looked at.
pub fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() {
        TempDir::with_prefix_in("pheap-fuzz-", memory)
    } else {
        TempDir::with_prefix("pheap-fuzz-")
    };
    dir.expect("there is a place for temporary files")
}
