//! What the fuzz targets share.

use std::ffi::c_char;
use std::ops::Range;
use std::path::Path;

mod files;
#[cfg(feature = "redis")]
pub mod redis;
pub use files::{Durable, Files};

use pheap::{Error, Heap};
use tempfile::TempDir;

/// Where heaps are mapped.
pub const BASES: [u64; 2] = [0x5400 << 32, 0x5401 << 32];

/// A part of something of this length, for two places anywhere.
pub fn range(from: impl Into<usize>, to: impl Into<usize>, len: usize) -> Range<usize> {
    let [a, b] = [from.into(), to.into()].map(|place| place % (len + 1));
    a.min(b)..a.max(b)
}

/// Checks a heap, which must be sound.
pub fn assert_sound(heap: &Heap) {
    let report = heap.check().expect("it can be checked");
    assert!(report.is_clean(), "the heap is not sound: {report}");
}

/// Whether there is no room for what was to be written.
pub fn is_full(error: &Error) -> bool {
    matches!(error, Error::OutOfSpace { .. } | Error::ReservationFull { .. })
}

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
