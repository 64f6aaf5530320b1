//! Addresses that this process has reserved.

#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::{io, slice};

use super::fork;
use super::own_file::{self, Listed};
use crate::error::{Error, Result};

/// A contiguous range of addresses that is nobody else's until this is dropped. Nothing can be accessed at first.
#[derive(Debug)]
pub(crate) struct Reservation {
    start: NonNull<u8>,
    len: u64,
    /// How much of it [can be accessed](Self::open).
    open: AtomicU64,
    /// `None` for addresses that a forked child has a copy of.
    listed: Option<Listed>,
}

// SAFETY: a reservation is a range of addresses; who may touch which part is the business of those who map something there.
unsafe impl Send for Reservation {}
// SAFETY: shared, it gives addresses, and makes memory accessible, which the kernel lets any threads do at once.
unsafe impl Sync for Reservation {}

/// What simulated heaps had, for the next ones at the same place: to map them anew, with a fault for each page, would take longer than what a crash explorer looks at.
static KEPT: Mutex<Vec<Reservation>> = Mutex::new(Vec::new());

/// A forked child must not share the heap, and may want the addresses for itself. Best effort: each transaction checks, too.
///
/// # Safety
/// The range is the caller's.
pub(super) unsafe fn keep_from_children(start: *mut libc::c_void, len: u64) {
    // SAFETY: the range is the caller's, who promises that; in this process, nothing changes.
    unsafe { libc::madvise(start, len as usize, libc::MADV_DONTFORK) };
}

/// Maps `len` bytes that nothing is accessible of.
fn map_nothing(start: usize, len: u64, how: libc::c_int) -> io::Result<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | how;
    let place = std::ptr::without_provenance_mut(start);
    // SAFETY: at an address of the kernel's choice, or, by `MAP_FIXED_NOREPLACE`, where nothing is mapped.
    let got = unsafe { libc::mmap(place, len as usize, libc::PROT_NONE, flags, -1, 0) };
    if got == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(NonNull::new(got.cast()).expect("not at 0"))
}

impl Reservation {
    /// Reserves `len` bytes at `start`.
    ///
    /// # Errors
    /// [`Error::AddressInUse`], [`Error::Io`].
    pub(crate) fn new(start: u64, len: u64) -> Result<Reservation> {
        own_file::watch();
        let in_use = Error::AddressInUse { base: start, size: len };
        // The kernel maps nothing where something is mapped, and says so.
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
        // SAFETY: the range was mapped just now.
        unsafe { keep_from_children(got.as_ptr().cast(), len) };
        // Pointers into it come back from the file as plain addresses.
        let address = got.as_ptr().expose_provenance();
        let listed = Listed::addresses(address, len as usize);
        let got = NonNull::new(std::ptr::with_exposed_provenance_mut(address)).expect("not at 0");
        let reservation = Reservation::of(got, len, Some(listed));
        // A kernel older than 4.17 takes the address for a hint.
        if address as u64 == start { Ok(reservation) } else { Err(in_use) }
    }

    /// Reserves `len` bytes where the kernel likes, of which a forked child has a copy.
    ///
    /// # Errors
    /// What the operating system says.
    pub(super) fn anywhere(len: u64) -> io::Result<Reservation> {
        Ok(Reservation::of(map_nothing(0, len, 0)?, len, None))
    }

    fn of(start: NonNull<u8>, len: u64, listed: Option<Listed>) -> Reservation {
        Reservation { start, len, open: AtomicU64::new(0), listed }
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Makes the first `to` bytes accessible: memory, whose content is not defined.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn open(&self, to: u64) -> io::Result<()> {
        if to <= self.open.load(Ordering::Relaxed) {
            return Ok(());
        }
        assert!(to <= self.len);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: within the reservation, which nobody has mapped anything else to: see `keep`.
        if unsafe { libc::mprotect(self.start.as_ptr().cast(), to as usize, protection) } != 0 {
            return Err(io::Error::last_os_error());
        }
        self.open.fetch_max(to, Ordering::Relaxed);
        Ok(())
    }

    /// Keeps it for [`take_kept`]: one that nothing was mapped to, only [opened](Self::open).
    pub(crate) fn keep(self) {
        // SURVIVES unreached: locks of std's own are not watched, and this is one, for it is made in a constant.
        KEPT.lock().unwrap_or_else(PoisonError::into_inner).push(self);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(listed) = &self.listed {
            listed.remove();
        }
        // SAFETY: `map_nothing` mapped it for this, and this is the last use: what maps something there owns
        // the reservation.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len as usize) };
    }
}

/// The reservation that was kept at these addresses, if there is one and it is `wanted`. Whatever else was kept of them is given back.
pub(crate) fn take_kept(start: u64, len: u64, wanted: bool) -> Option<Reservation> {
    if !fork::may_start_threads() {
        return None; // a child: they are the parent's
    }
    // SURVIVES unreached: locks of std's own are not watched, and this is one, for it is made in a constant.
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let of = |kept: &Reservation| kept.start.as_ptr().addr() as u64;
    if wanted && let Some(at) = kept.iter().position(|kept| (of(kept), kept.len) == (start, len)) {
        return Some(kept.swap_remove(at));
    }
    kept.retain(|kept| start + len <= of(kept) || of(kept) + kept.len <= start);
    None
}

/// A part of a heap that a simulated medium looks at.
#[derive(Debug, Clone, Copy)]
#[allow(dead_code)] // the simulator's
pub(crate) struct Place {
    start: usize,
    words: usize,
}

#[allow(dead_code)] // the simulator's
impl Place {
    /// # Safety
    /// As long as there is a copy of this, so many bytes (whole words) are mapped there to be read and written, and nobody else accesses them while one of its functions runs or what
    /// that has returned is used.
    pub(crate) unsafe fn new(start: *mut u8, len: u64) -> Place {
        Place { start: start.expose_provenance(), words: len as usize / 8 }
    }

    pub(crate) fn start(&self) -> usize {
        self.start
    }

    pub(crate) fn words(&self) -> &[u64] {
        // SAFETY: so many words can be read there, and do not change meanwhile, as `new` was promised.
        unsafe { slice::from_raw_parts(std::ptr::with_exposed_provenance(self.start), self.words) }
    }

    pub(crate) fn write(&self, at: usize, word: u64) {
        assert!(at < self.words);
        // SAFETY: within what can be written there, which nobody else accesses meanwhile, as `new` was promised.
        unsafe { std::ptr::with_exposed_provenance_mut::<u64>(self.start).wrapping_add(at).write(word) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{LINE, LINE_WORDS};

    #[allow(dead_code)] // the simulator's tests call them
    impl Place {
        /// Lines of zeros, which are never freed.
        pub(crate) fn leaked(lines: usize) -> Place {
            let words = Box::leak(vec![0u64; lines * LINE_WORDS + LINE_WORDS].into_boxed_slice());
            let first = words.as_ptr().align_offset(LINE);
            // SAFETY: this is all that there is of the memory, which is there for ever.
            unsafe { Place::new(words[first..].as_mut_ptr().cast(), (lines * LINE) as u64) }
        }

        /// The first bytes of it.
        pub(crate) fn up_to(self, len: u64) -> Place {
            assert!(len as usize / 8 <= self.words);
            Place { words: len as usize / 8, ..self }
        }
    }
}
