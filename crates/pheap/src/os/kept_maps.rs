//! Maps of simulated heaps, kept between one opening and the next one at the same address: to map them anew, with a fault for each page,
//! would take longer than what a crash explorer looks at.
//!
//! What is behind the longest heap so far stays inaccessible, as behind any other heap.

use std::ptr::NonNull;

use parking_lot::Mutex;

use crate::error::{Error, Result};

/// A reservation of addresses.
struct Kept {
    base: usize,
    reserved: u64,
    /// How much of it can be accessed.
    mapped: u64,
    in_use: bool,
}

static MAPS: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

/// The reservation that was kept at `base`, if it is that of a simulated heap. Whatever else was kept of these addresses is given back.
pub(crate) fn take(base: u64, reserved: u64, is_simulated: bool) -> Option<NonNull<u8>> {
    let (start, end) = (base as usize, base as usize + reserved as usize);
    let mut maps = MAPS.lock();
    if is_simulated
        && let Some(map) =
            maps.iter_mut().find(|map| !map.in_use && (map.base, map.reserved) == (start, reserved))
    {
        map.in_use = true;
        return NonNull::new(std::ptr::with_exposed_provenance_mut(start));
    }
    maps.retain(|map| {
        let overlaps = map.base < end && start < map.base + map.reserved as usize;
        if map.in_use || !overlaps {
            return true;
        }
        // SAFETY: reserved by a heap that is gone, and used by no other.
        unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(map.base), map.reserved as usize) };
        false
    });
    None
}

/// Keeps the reservation of a heap that is gone.
pub(crate) fn keep(base: NonNull<u8>, reserved: u64) {
    let base = base.addr().get();
    let mut maps = MAPS.lock();
    match maps.iter_mut().find(|map| map.base == base) {
        Some(map) => map.in_use = false,
        None => maps.push(Kept { base, reserved, mapped: 0, in_use: false }), // it was never mapped
    }
}

/// Makes the first `to` bytes of a reservation accessible. What they hold is not defined.
///
/// # Safety
/// The reservation at `base` is the caller's, and that long.
pub(crate) unsafe fn extend(base: NonNull<u8>, reserved: u64, to: u64) -> Result<()> {
    let start = base.addr().get();
    let mut maps = MAPS.lock();
    let at = match maps.iter().position(|map| map.base == start) {
        Some(at) => at,
        None => {
            maps.push(Kept { base: start, reserved, mapped: 0, in_use: true });
            maps.len() - 1
        }
    };
    if to > maps[at].mapped {
        // SAFETY: within the reservation, by the caller's promise.
        let done =
            unsafe { libc::mprotect(base.as_ptr().cast(), to as usize, libc::PROT_READ | libc::PROT_WRITE) };
        if done != 0 {
            return Err(Error::io("mapping the heap", std::io::Error::last_os_error()));
        }
        maps[at].mapped = to;
    }
    Ok(())
}
