//! Reservations of addresses in this process.

#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::{io, slice};

use super::fork;
use super::own_file::{self, ForkListed};
use crate::error::{Error, Result};

/// A contiguous range of addresses that belongs to the owner of the `Reservation` until it is dropped. At
/// first no byte of the range is accessible.
#[derive(Debug)]
pub(crate) struct Reservation {
    start: NonNull<u8>,
    len: u64,
    /// Number of bytes from the start that [are accessible](Self::open).
    open: AtomicU64,
    /// The entry in the list that forked children give up; `None` if a forked child has a copy of these
    /// addresses.
    listed: Option<ForkListed>,
}

// SAFETY: a reservation is a range of addresses without references to its memory. The owners of mappings in
// it coordinate accesses.
unsafe impl Send for Reservation {}
// SAFETY: a shared reservation only returns addresses and makes memory accessible. The kernel serializes such
// calls of several threads.
unsafe impl Sync for Reservation {}

/// Reservations of closed simulated heaps, to be used again at the same addresses. Mapping them anew, with a
/// fault for each page, would take long.
static KEPT: Mutex<Vec<Reservation>> = Mutex::new(Vec::new());

/// Keeps the range from forked children: they must not share the heap, and may need the addresses. The kernel
/// may refuse this; each transaction checks the process, too.
///
/// # Safety
/// The `len` bytes at `start` are mapped, and belong to the caller.
pub(super) unsafe fn keep_from_children(start: *mut libc::c_void, len: u64) {
    // SAFETY: the caller owns the mapping at `start` (premise). The call changes nothing in this process.
    unsafe { libc::madvise(start, len as usize, libc::MADV_DONTFORK) };
}

/// Maps `len` bytes without access to them, at `start` or, for 0, where the kernel chooses.
fn map_nothing(start: usize, len: u64, how: libc::c_int) -> io::Result<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | how;
    let place = std::ptr::without_provenance_mut(start);
    // SAFETY: the new mapping replaces none: the kernel chooses the address, or `MAP_FIXED_NOREPLACE` refuses
    // an address range that is in use.
    let got = unsafe { libc::mmap(place, len as usize, libc::PROT_NONE, flags, -1, 0) };
    if got == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(NonNull::new(got.cast()).expect("not at 0"))
}

impl Reservation {
    /// Reserves `len` bytes of addresses at `start`.
    ///
    /// # Errors
    /// [`Error::AddressInUse`], [`Error::Io`].
    pub(crate) fn new(start: u64, len: u64) -> Result<Reservation> {
        own_file::watch();
        let in_use = Error::AddressInUse { base: start, size: len };
        // With `MAP_FIXED_NOREPLACE`, the kernel returns an error if the range is in use.
        let got = match map_nothing(start as usize, len, libc::MAP_FIXED_NOREPLACE) {
            Err(e) if e.raw_os_error() == Some(libc::EEXIST) => return Err(in_use),
            Err(e) => {
                let what = format!(
                    "reserving {len} bytes of addresses at {start:#x} (if `ulimit -v` or, with `mlockall`, \
                     `ulimit -l` allows less, raise it, or create heaps with a smaller `Options::reserve`)"
                );
                return Err(Error::io(what, e));
            }
            Ok(got) => got,
        };
        // SAFETY: the range was mapped just now, for this reservation.
        unsafe { keep_from_children(got.as_ptr().cast(), len) };
        // Pointers into the range are read from the file as plain addresses, so its provenance must be
        // exposed.
        let address = got.as_ptr().expose_provenance();
        let listed = ForkListed::addresses(address, len as usize);
        let got = NonNull::new(std::ptr::with_exposed_provenance_mut(address)).expect("not at 0");
        let reservation = Reservation::from_mapped(got, len, Some(listed));
        // A kernel older than 4.17 treats the address as a hint.
        if address as u64 == start { Ok(reservation) } else { Err(in_use) }
    }

    /// Reserves `len` bytes of addresses where the kernel chooses. A forked child has a copy of the memory
    /// there.
    ///
    /// # Errors
    /// The error of the operating system.
    pub(super) fn anywhere(len: u64) -> io::Result<Reservation> {
        Ok(Reservation::from_mapped(map_nothing(0, len, 0)?, len, None))
    }

    fn from_mapped(start: NonNull<u8>, len: u64, listed: Option<ForkListed>) -> Reservation {
        Reservation { start, len, open: AtomicU64::new(0), listed }
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Makes the first `to` bytes accessible. Bytes that were never accessible before are zero.
    ///
    /// # Errors
    /// The error of the operating system.
    pub(crate) fn open(&self, to: u64) -> io::Result<()> {
        if to <= self.open.load(Ordering::Relaxed) {
            return Ok(());
        }
        assert!(to <= self.len);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the range is within the reservation (asserted above). `open` is called only for
        // reservations to which nothing else is mapped; see `keep_reserved`.
        if unsafe { libc::mprotect(self.start.as_ptr().cast(), to as usize, protection) } != 0 {
            return Err(io::Error::last_os_error());
        }
        self.open.fetch_max(to, Ordering::Relaxed);
        Ok(())
    }

    /// Keeps the reservation for [`take_kept`]. Nothing may be mapped to it; it may only be
    /// [opened](Self::open).
    pub(crate) fn keep_reserved(self) {
        // SURVIVES unreached: locks of std's own are not watched, and this is one, because it is made in a
        // constant.
        KEPT.lock().unwrap_or_else(PoisonError::into_inner).push(self);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(listed) = &self.listed {
            listed.remove();
        }
        // SAFETY: `map_nothing` has mapped the range for this reservation. Mappings within it are owned
        // together with the reservation, so this is the last use.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len as usize) };
    }
}

/// Returns the reservation that was kept at these addresses, if there is one and it is `wanted`. Otherwise
/// drops all kept ones that overlap them. In a forked child, does nothing.
pub(crate) fn take_kept(start: u64, len: u64, wanted: bool) -> Option<Reservation> {
    if !fork::may_start_threads() {
        return None; // in a forked child, the kept reservations are the parent's
    }
    // SURVIVES unreached: locks of std's own are not watched, and this is one, because it is made in a
    // constant.
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let of = |kept: &Reservation| kept.start.as_ptr().addr() as u64;
    if wanted && let Some(at) = kept.iter().position(|kept| (of(kept), kept.len) == (start, len)) {
        return Some(kept.swap_remove(at));
    }
    kept.retain(|kept| start + len <= of(kept) || of(kept) + kept.len <= start);
    None
}

/// A part of a heap that a simulated medium accesses.
#[derive(Debug, Clone, Copy)]
#[allow(dead_code)] // for the simulator
pub(crate) struct MappedWords {
    start: usize,
    words: usize,
}

#[allow(dead_code)] // for the simulator
impl MappedWords {
    /// Makes a place of `len` bytes (whole words) at `start`.
    ///
    /// # Safety
    /// While a copy of the result exists, `len` bytes are mapped at `start`, readable and writable. No other
    /// thread accesses them while a method of `MappedWords` runs, or a slice that it has returned is in use.
    pub(crate) unsafe fn new(start: *mut u8, len: u64) -> MappedWords {
        MappedWords { start: start.expose_provenance(), words: len as usize / 8 }
    }

    pub(crate) fn start(&self) -> usize {
        self.start
    }

    pub(crate) fn as_slice(&self) -> &[u64] {
        // SAFETY: `words` words are readable at `start`, and no other thread writes to them while the slice
        // is in use: the premise of `new`.
        unsafe { slice::from_raw_parts(std::ptr::with_exposed_provenance(self.start), self.words) }
    }

    pub(crate) fn write(&self, at: usize, word: u64) {
        assert!(at < self.words);
        // SAFETY: `at` is within the words (asserted above), which are writable, and no other thread accesses
        // them during the call: the premise of `new`.
        unsafe { std::ptr::with_exposed_provenance_mut::<u64>(self.start).wrapping_add(at).write(word) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{LINE, LINE_WORDS};

    #[allow(dead_code)] // the simulator's tests call them
    impl MappedWords {
        /// Returns lines of zeros that are never freed.
        pub(crate) fn leaked(lines: usize) -> MappedWords {
            let words = Box::leak(vec![0u64; lines * LINE_WORDS + LINE_WORDS].into_boxed_slice());
            let first = words.as_ptr().align_offset(LINE);
            // SAFETY: the memory is leaked, so it stays mapped. The returned place is the only reference to
            // it.
            unsafe { MappedWords::new(words[first..].as_mut_ptr().cast(), (lines * LINE) as u64) }
        }

        /// Returns the first `len` bytes of this place.
        pub(crate) fn up_to(self, len: u64) -> MappedWords {
            assert!(len as usize / 8 <= self.words);
            MappedWords { words: len as usize / 8, ..self }
        }
    }
}
