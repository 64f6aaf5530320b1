//! What the fuzz targets share.

use std::ffi::c_char;
use std::path::Path;

mod files;
pub use files::{Durable, Files};

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

/// What AddressSanitizer does unless `ASAN_OPTIONS` says otherwise. A stack trace of each allocation would take half of the time.
#[unsafe(no_mangle)]
pub extern "C" fn __asan_default_options() -> *const c_char {
    // A script may ask for more memory than there is, and is refused; but a string of 1 GiB is allowed.
    c"malloc_context_size=0:quarantine_size_mb=16:detect_stack_use_after_return=0:\
      allocator_may_return_null=1:max_allocation_size_mb=1100"
        .as_ptr()
}

/// Does nothing; but a target that calls it is linked with what this crate tells the sanitizer.
#[inline(never)]
pub fn tell_sanitizer() {}
