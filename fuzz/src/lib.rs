//! Functions that the fuzz targets share.

use std::ffi::c_char;
use std::ops::Range;
use std::path::Path;

mod files;
#[cfg(feature = "redis")]
pub mod redis;
pub use files::{Durable, Files};

use pheap::{Error, Heap};
use tempfile::TempDir;

/// Addresses at which some targets map their heaps.
pub const BASES: [u64; 2] = [0x5400 << 32, 0x5401 << 32];

/// Returns the range between two places, in a sequence of `len` elements.
pub fn range(from: impl Into<usize>, to: impl Into<usize>, len: usize) -> Range<usize> {
    let [a, b] = [from.into(), to.into()].map(|place| place % (len + 1));
    a.min(b)..a.max(b)
}

/// Checks a heap, which must be sound.
pub fn assert_sound(heap: &Heap) {
    let report = heap.check().expect("it can be checked");
    assert!(report.is_clean(), "the heap is not sound: {report}");
}

/// Returns whether an error means that the heap is full.
pub fn is_full(error: &Error) -> bool {
    matches!(error, Error::OutOfSpace { .. } | Error::ReservationFull { .. })
}

/// Returns a folder for one run, in `/dev/shm` if that exists. It remains if the run fails, so that the heap
/// can be examined.
pub fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() {
        TempDir::with_prefix_in("pheap-fuzz-", memory)
    } else {
        TempDir::with_prefix("pheap-fuzz-")
    };
    dir.expect("there is a place for temporary files")
}

/// Returns the default options of AddressSanitizer, which `ASAN_OPTIONS` overrides. There is no stack trace
/// of each allocation, because that would be slow.
#[unsafe(no_mangle)]
pub extern "C" fn __asan_default_options() -> *const c_char {
    // If a script asks for more than 1100 MB at once, the allocation fails. A string of 1 GiB is allowed.
    c"malloc_context_size=0:quarantine_size_mb=16:detect_stack_use_after_return=0:\
      allocator_may_return_null=1:max_allocation_size_mb=1100"
        .as_ptr()
}

/// Does nothing. A target that calls this function is linked with the options for the sanitizer.
#[inline(never)]
pub fn tell_sanitizer() {}
