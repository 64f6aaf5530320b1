//! The address range of a heap and what is mapped into it.

#![allow(unsafe_code)]

use std::fmt::Display;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::calls::{statfs, unlock};
use super::file_system::is_tmpfs;
use super::holes::reserve_range;
use super::memory;
use super::own_file::OwnFile;
use super::reservation::{Place, Reservation, keep_from_children, take_kept};
use super::simulated::Simulated;
use crate::error::{Error, Result, is_full};
use crate::faults::{Kind, Lab, is_left_out};
use crate::units::PAGE;

/// Where heaps are placed: 16 TiB to 80 TiB, which neither programs, stacks nor `mmap` use by themselves on 64-bit Linux.
#[cfg(not(pheap_tsan))]
const PLACES: std::ops::Range<u64> = 0x1000_0000_0000..0x5000_0000_0000;
/// The thread sanitizer knows only what lies where `mmap` puts it by itself, and has what it knows elsewhere.
#[cfg(pheap_tsan)]
const PLACES: std::ops::Range<u64> = 0x7b00_0000_0000..0x7e00_0000_0000;

/// Heaps are read and written.
const ACCESS: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

/// What a mapping shows.
#[derive(Debug)]
pub(crate) enum Backing {
    /// A file that stores go to.
    Shared {
        file: OwnFile,
        path: PathBuf,
        /// Mapped with `MAP_SYNC`: a page fault returns only when the file system's metadata is durable.
        sync: bool,
    },
    /// A file that is only read: stores stay in this process. If it is a copy that nobody else has, they go to it; else
    /// to private memory.
    Private { file: OwnFile, is_copy: bool },
    /// A file that a write-ahead log writes: stores stay in this process.
    Logged { file: OwnFile, path: PathBuf },
    /// Nothing but memory.
    Memory,
    /// A copy of what a simulated medium holds.
    #[allow(dead_code)] // the simulator's
    Simulated(Box<dyn Simulated>, Lab),
}

/// A contiguous reservation of addresses, whose beginning shows the backing.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    reserved: u64,
    backing: Backing,
    /// Whether stores go to a file in a tmpfs.
    tmpfs: bool,
    /// Whether the kernel was told to [expect no order](Self::expect_no_order).
    orderless: AtomicBool,
    /// See [`was_locked`](Self::was_locked).
    was_locked: AtomicBool,
    /// The addresses, until they are given back.
    addresses: Mutex<Option<Reservation>>,
}

// SAFETY: a mapping is a range of addresses; who may touch which part is the business of the regions' locks.
unsafe impl Send for Mapping {}
// SAFETY: a shared mapping gives addresses only, and calls the kernel, which keeps threads apart.
unsafe impl Sync for Mapping {}

fn is_in_tmpfs(backing: &Backing) -> bool {
    matches!(backing, Backing::Shared { file, .. } if is_tmpfs(file))
}

fn last_os_error() -> io::Error {
    io::Error::last_os_error()
}

impl Mapping {
    /// Reserves `reserved` bytes at `base`.
    pub(crate) fn reserve(base: u64, reserved: u64, backing: Backing) -> Result<Mapping, (Error, Backing)> {
        let kept =
            Lab::here().and_then(|_| take_kept(base, reserved, matches!(backing, Backing::Simulated(..))));
        let addresses = match kept.map_or_else(|| Reservation::new(base, reserved), Ok) {
            Ok(addresses) => addresses,
            Err(error) => return Err((error, backing)),
        };
        let tmpfs = is_in_tmpfs(&backing);
        let base = addresses.start();
        Ok(Mapping {
            base,
            reserved,
            backing,
            tmpfs,
            orderless: AtomicBool::new(false),
            was_locked: AtomicBool::new(false),
            addresses: Mutex::new(Some(addresses)),
        })
    }

    /// Reserves `reserved` bytes (a power of two) at a place derived from `uuid`, or another one if that is taken.
    pub(crate) fn reserve_anywhere(uuid: u128, reserved: u64, mut backing: Backing) -> Result<Mapping> {
        let places = ((PLACES.end - PLACES.start) / reserved).max(1);
        let first = (uuid % u128::from(places)) as u64;
        let mut error = Error::InvalidOption("`Options::reserve` is larger than the usable address space");
        for i in 0..places {
            let base = PLACES.start.next_multiple_of(reserved) + (first + i) % places * reserved;
            if base + reserved > PLACES.end {
                continue;
            }
            match Mapping::reserve(base, reserved, backing) {
                Ok(mapping) => return Ok(mapping),
                Err((Error::AddressInUse { .. }, back)) => {
                    (error, backing) = (Error::TooManyHeaps { reserved }, back);
                }
                Err((e, _)) => return Err(e),
            }
        }
        Err(error)
    }

    /// First address.
    #[inline(always)]
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    pub(crate) fn reserved(&self) -> u64 {
        self.reserved
    }

    pub(crate) fn path(&self) -> Option<&Path> {
        self.changed_file().map(|(_, path)| path)
    }

    /// The file, if the heap in it is changed, and where it was opened.
    fn changed_file(&self) -> Option<(&OwnFile, &Path)> {
        match &self.backing {
            Backing::Shared { file, path, .. } | Backing::Logged { file, path } => Some((file, path)),
            _ => None,
        }
    }

    /// The file, if stores go to one.
    pub(crate) fn shared_file(&self) -> Option<&File> {
        match &self.backing {
            Backing::Shared { file, .. } => Some(file),
            _ => None,
        }
    }

    /// The file, if there is one.
    pub(crate) fn file(&self) -> Option<&File> {
        match &self.backing {
            Backing::Shared { file, .. } | Backing::Private { file, .. } | Backing::Logged { file, .. } => {
                Some(file)
            }
            _ => None,
        }
    }

    /// Shows something else, where it is [mapped](Self::map) from now on.
    pub(crate) fn show(&mut self, backing: Backing) {
        self.tmpfs = is_in_tmpfs(&backing);
        self.backing = backing;
    }

    /// Whether to map with `MAP_SYNC` from here on.
    pub(crate) fn set_sync(&mut self, to: bool) {
        if let Backing::Shared { sync, .. } = &mut self.backing {
            *sync = to;
        }
    }

    /// Whether it shows a simulated medium.
    pub(crate) fn is_simulated(&self) -> bool {
        matches!(self.backing, Backing::Simulated(..))
    }

    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self.backing, Backing::Private { .. })
    }

    /// Maps `from..to` of the backing (whole pages; the file is that long) into the reservation.
    pub(crate) fn map(&self, from: u64, to: u64) -> Result<()> {
        debug_assert!(from.is_multiple_of(PAGE) && to.is_multiple_of(PAGE));
        if to > self.reserved {
            return Err(Error::ReservationFull { need: to, reserved: self.reserved });
        }
        if from == to {
            return Ok(());
        }
        let (flags, fd) = match &self.backing {
            Backing::Shared { file, sync, .. } => (
                if *sync { libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC } else { libc::MAP_SHARED },
                file.as_raw_fd(),
            ),
            Backing::Private { file, is_copy: true } => (libc::MAP_SHARED, file.as_raw_fd()),
            // Only the pages that are changed count, and of them a log keeps few at a time.
            Backing::Private { file, .. } | Backing::Logged { file, .. } => {
                (libc::MAP_PRIVATE | libc::MAP_NORESERVE, file.as_raw_fd())
            }
            Backing::Simulated(source, _) => return self.map_copy(&**source, from, to),
            Backing::Memory => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1),
        };
        // Pages of a file of which this process gets copies.
        let is_copied = fd >= 0 && flags & libc::MAP_PRIVATE != 0;
        // SAFETY: `from..to` lies in the reservation, which belongs to this mapping, and nothing is used
        // there yet.
        let got = unsafe {
            libc::mmap(
                self.base.as_ptr().wrapping_add(from as usize).cast(),
                (to - from) as usize,
                if is_copied { libc::PROT_NONE } else { ACCESS },
                flags | libc::MAP_FIXED,
                fd,
                from as libc::off_t,
            )
        };
        if got == libc::MAP_FAILED {
            return Err(Error::io("mapping the heap", last_os_error()));
        }
        if is_copied {
            // A program may keep all of its memory (`mlockall`). The kernel would copy each page of the file
            // then, and the map would not show what checkpoints write.
            // SAFETY: the range was mapped just now.
            unsafe { libc::munlock(got, (to - from) as usize) };
            // SAFETY: as for that call: nobody else knows of the range yet.
            if unsafe { libc::mprotect(got, (to - from) as usize, ACCESS) } != 0 {
                return Err(Error::io("mapping the heap", last_os_error()));
            }
        }
        // SAFETY: the range was mapped just now.
        unsafe { keep_from_children(got, to - from) };
        if fd >= 0 && memory::is_much(to) {
            self.expect_no_order(to);
        }
        Ok(())
    }

    /// Tells the kernel that what lies beside a page that is read is of no use. It would read up to megabytes for each, and with more of the file than memory can hold, that takes
    /// other pages away. Only a hint.
    fn expect_no_order(&self, to: u64) {
        self.orderless.store(true, Ordering::Relaxed);
        // SAFETY: these pages are mapped, and no byte of them changes.
        unsafe { libc::madvise(self.base.as_ptr().cast(), to as usize, libc::MADV_RANDOM) };
    }

    /// Has the kernel read several pages at once, which are about to be looked at, where it would read them one by one. Only a hint.
    #[inline]
    pub(crate) fn will_read(&self, bytes: &[u8]) {
        if self.orderless.load(Ordering::Relaxed) {
            self.read_ahead(bytes);
        }
    }

    #[cold]
    fn read_ahead(&self, bytes: &[u8]) {
        let range = bytes.as_ptr_range();
        let (first, end) = (range.start.map_addr(|start| start & !(PAGE as usize - 1)), range.end.addr());
        let heap = self.base().addr()..self.base().addr() + self.reserved as usize;
        if end - first.addr() > PAGE as usize && heap.contains(&first.addr()) && end <= heap.end {
            // SAFETY: no byte changes. Pages of the heap, or the kernel refuses.
            unsafe { libc::madvise(first.cast_mut().cast(), end - first.addr(), libc::MADV_WILLNEED) };
        }
    }

    fn addresses(&self) -> MutexGuard<'_, Option<Reservation>> {
        // SURVIVES unreached: locks of std's own are not watched.
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// [`map`](Self::map) for a simulated medium.
    fn map_copy(&self, source: &dyn Simulated, from: u64, to: u64) -> Result<()> {
        let addresses = self.addresses();
        let open = addresses.as_ref().expect("it is mapped").open(to);
        open.map_err(|e| Error::io("mapping the heap", e))?;
        // SAFETY: accessible, and nobody accesses it yet.
        unsafe { self.copy(source, from, to - from)? };
        if let Some(file) = source.mapped_file() {
            // SAFETY: accessible until it is given back, when nobody syncs the file any more. A heap is opened and closed by one thread.
            file.set_copy(unsafe { Place::new(self.base(), to) });
        }
        Ok(())
    }

    /// Has a part of the map say what the simulated medium holds.
    ///
    /// # Safety
    /// It is mapped, and nobody else accesses it.
    unsafe fn copy(&self, source: &dyn Simulated, offset: u64, len: u64) -> Result<()> {
        // SAFETY: mapped, and nobody else accesses it: the caller has promised both.
        let part = unsafe {
            std::slice::from_raw_parts_mut(self.base().wrapping_add(offset as usize), len as usize)
        };
        source.read(part, offset)
    }

    /// Makes the backing `to` bytes long (from `from`), with the space reserved, so that no store can fail for want of it.
    pub(crate) fn grow_file(&self, from: u64, to: u64) -> Result<()> {
        let error = |what: &dyn Display, e: io::Error| match is_full(&e) {
            true => Error::OutOfSpace { reason: format!("growing {what} to {to} bytes: {e}") },
            false => Error::io(format!("growing {what}"), e),
        };
        if let Backing::Simulated(source, _) = &self.backing {
            return source.extend(from, to).map_err(|e| error(&"a simulated file", e));
        }
        let Some((file, path)) = self.changed_file() else { return Ok(()) };
        // What lies behind the heap belongs to nobody: an arena that a crash kept from being recorded, perhaps. New arenas are zero.
        cut(file, from).and_then(|()| allocate(file, from, to - from)).map_err(|e| {
            let _ = file.set_len(from); // gives back what a partial allocation took
            error(&path.display(), e)
        })
    }

    /// Makes durable that the file is as [long](Self::grow_file) as it is. (A simulated one is that already.)
    pub(crate) fn sync_length(&self) -> Result<()> {
        let Some((file, path)) = self.changed_file() else { return Ok(()) };
        // SURVIVES unreached: of a real file. `ci/power-cut.sh` is for these.
        file.sync().map_err(|e| Error::io(format!("syncing {}", path.display()), e))
    }

    /// Cuts the file off behind the first `len` bytes, which is all that the heap has of it. Nothing to do if it is not longer.
    pub(crate) fn shrink_file(&self, len: u64) -> Result<()> {
        let Some((file, path)) = self.changed_file() else { return Ok(()) };
        cut(file, len).map_err(|e| Error::io(format!("shortening {}", path.display()), e))
    }

    /// Waits until the file's disk has everything that was stored so far. Nothing to do in memory, or for a map that is durable by
    /// itself.
    #[track_caller]
    pub(crate) fn sync(&self) -> Result<()> {
        if let Backing::Simulated(source, _) = &self.backing {
            let Some(file) = source.mapped_file() else { return Ok(()) };
            let written = file.write_copy();
            // Not in a closure, of which nobody would know who has called it.
            let synced = if written.is_ok() { file.sync() } else { written };
            return synced.map_err(|e| Error::io("syncing a simulated file", e));
        }
        let Backing::Shared { file, path, sync: false } = &self.backing else { return Ok(()) };
        // SURVIVES unreached: of a real file. See the calls of this.
        file.sync().map_err(|e| Error::io(format!("syncing {}", path.display()), e))
    }

    /// Makes durable what anybody has stored to the file, also if it was not flushed. On persistent memory the kernel knows which pages were written, and
    /// flushes their lines.
    #[track_caller]
    pub(crate) fn sync_leftovers(&self) -> Result<()> {
        if is_left_out(Kind::FileSync) {
            return Ok(());
        }
        match &self.backing {
            Backing::Shared { file, path, .. } => {
                // SURVIVES unreached: of a real file; that of simulated memory is below.
                file.sync().map_err(|e| Error::io(format!("syncing {}", path.display()), e))
            }
            Backing::Simulated(source, _) => {
                source.sync();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Maps the pages of this range ahead of their first use, which is cheaper than one fault each. Only a hint.
    pub(crate) fn populate(&self, offset: u64, len: u64) {
        self.map_ahead(offset, len, MADV_POPULATE_WRITE);
    }

    /// [`populate`](Self::populate) for pages that hold something: they are about to be written again.
    pub(crate) fn populate_again(&self, offset: u64, len: u64) {
        // In a tmpfs a page that is mapped to be read can be written, too, and a fault that reads maps those around it that hold something.
        self.map_ahead(offset, len, if self.tmpfs { MADV_POPULATE_READ } else { MADV_POPULATE_WRITE });
    }

    /// [`populate_again`](Self::populate_again) for a range of which not all may be written: only where that changes nothing.
    pub(crate) fn populate_around(&self, offset: u64, len: u64) {
        if self.tmpfs {
            self.populate_again(offset, len);
        }
    }

    fn map_ahead(&self, offset: u64, len: u64, advice: libc::c_int) {
        let first = offset & !(PAGE - 1);
        let start = self.base.as_ptr().wrapping_add(first as usize);
        // SAFETY: the range is mapped.
        unsafe { populate_pages(start, (offset + len - first) as usize, advice) };
    }

    /// Gives the private copies of these pages back: they show the file again. Only for a heap with a write-ahead log.
    /// Returns whether they are gone: the kernel may refuse.
    ///
    /// # Safety
    /// The file has what the copies hold, or nobody reads them before they are stored to; nobody stores to them meanwhile (nor looks at them, if the medium is simulated).
    pub(crate) unsafe fn drop_copies(&self, offset: u64, len: u64) -> bool {
        if let Backing::Simulated(source, _) = &self.backing {
            // A page that cannot be read would fault when it is looked at, which cannot be simulated: it keeps its copy, which says the same.
            // SAFETY: pages of the heap, which nobody accesses meanwhile: the caller has promised that.
            let _ = unsafe { self.copy(&**source, offset, len) };
            return true;
        }
        debug_assert!(matches!(self.backing, Backing::Logged { .. }));
        let start = self.base.as_ptr().wrapping_add(offset as usize);
        // SAFETY: mapped pages of this heap; their content does not change, or nobody reads it before it is stored to: the caller's premise.
        let drop = || unsafe { libc::madvise(start.cast(), len as usize, libc::MADV_DONTNEED) } == 0;
        drop() || self.unlock_memory() && drop()
    }

    /// Lets the kernel take pages of the heap again, if the program keeps all of its memory (`mlockall`).
    /// Returns whether it did.
    #[cold]
    fn unlock_memory(&self) -> bool {
        self.was_locked.store(true, Ordering::Relaxed);
        // SAFETY: no byte changes.
        unsafe { libc::munlock(self.base.as_ptr().cast(), self.reserved as usize) == 0 }
    }

    /// Whether the program has kept all of its memory since the heap was mapped: then there are copies of
    /// pages that nobody has stored to.
    pub(crate) fn was_locked(&self) -> bool {
        self.was_locked.load(Ordering::Relaxed)
    }

    /// Gives the addresses back.
    ///
    /// # Safety
    /// Nobody accesses the heap any more.
    pub(crate) unsafe fn unmap(&self) {
        let Some(addresses) = self.addresses().take() else { return };
        if let Backing::Simulated(source, _) = &self.backing {
            // The kernel has what was stored, whatever becomes of the process.
            let _ = source.mapped_file().map(|file| file.write_copy());
            addresses.keep();
        }
    }

    /// Lets others open the file.
    pub(crate) fn unlock(&self) {
        if let Some(file) = self.file() {
            unlock(file);
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the last handle of the heap is gone.
        unsafe { self.unmap() };
    }
}

/// Makes a file not longer than this.
fn cut(file: &File, len: u64) -> io::Result<()> {
    if file.metadata()?.len() > len { file.set_len(len) } else { Ok(()) }
}

/// Reserves space in a file, which becomes so long at least.
fn allocate(file: &File, offset: u64, len: u64) -> io::Result<()> {
    // What there is would be taken, and given back again: that takes milliseconds, for each transaction that finds the disk full.
    if statfs(file).is_ok_and(|found| found.free.is_some_and(|free| free < len)) {
        return Err(io::Error::from_raw_os_error(libc::ENOSPC));
    }
    reserve_range(file, offset, len)
}

/// Whether the file system of `file` can be mapped with `MAP_SYNC`, that is, is persistent memory.
pub(crate) fn supports_map_sync(file: &File) -> bool {
    if !file.metadata().is_ok_and(|metadata| metadata.len() >= PAGE) {
        return false;
    }
    // SAFETY: a map of one page at an address of the kernel's choice.
    let map = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            PAGE as usize,
            libc::PROT_READ,
            libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC,
            file.as_raw_fd(),
            0,
        )
    };
    if map == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: the page that was just mapped, of which nobody knows.
    unsafe { libc::munmap(map, PAGE as usize) };
    true
}

/// Of Linux 5.14: as if all pages were read, or written.
const MADV_POPULATE_READ: libc::c_int = 22;
const MADV_POPULATE_WRITE: libc::c_int = 23;

/// Maps these pages. Only a hint.
///
/// # Safety
/// They are mapped, as far as the program is concerned.
unsafe fn populate_pages(start: *mut u8, len: usize, advice: libc::c_int) {
    // SAFETY: the pages are mapped, the caller's premise; populating changes no byte. A kernel that does not know it refuses, and nothing is lost.
    unsafe { libc::madvise(start.cast(), len, advice) };
}

/// Maps the whole pages of ordinary memory that is about to be written. Only a hint.
pub(crate) fn populate<T>(memory: &[T]) {
    let bytes = memory.as_ptr_range();
    let (start, end) =
        (bytes.start.addr().next_multiple_of(PAGE as usize), bytes.end.addr() & !(PAGE as usize - 1));
    if start < end {
        // SAFETY: whole pages within `memory`, which are mapped.
        unsafe {
            populate_pages(
                memory.as_ptr().cast_mut().cast::<u8>().with_addr(start),
                end - start,
                MADV_POPULATE_WRITE,
            );
        };
    }
}

#[cfg(all(test, not(pheap_loom)))]
mod tests {
    use super::*;
    use crate::{Durability, Options, P};
    use std::time::{Duration, Instant};

    const BYTES: usize = 64 << 10;

    /// Whether all pages of these bytes are in memory.
    fn is_in_memory(bytes: &[u8]) -> bool {
        let first = bytes.as_ptr().map_addr(|addr| addr & !(PAGE as usize - 1));
        let len = bytes.as_ptr_range().end.addr() - first.addr();
        let mut pages = vec![0u8; len.div_ceil(PAGE as usize)];
        // SAFETY: mapped pages, and a byte for each of them.
        assert_eq!(unsafe { libc::mincore(first.cast_mut().cast(), len, pages.as_mut_ptr()) }, 0);
        pages.iter().all(|page| page & 1 == 1)
    }

    #[test]
    fn pages_that_will_be_read_are_read_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let (path, options) = (dir.path().join("heap"), Options::new().durability(Durability::Wal));
        let heap = options.clone().open(&path).unwrap();
        heap.root_or::<P<[u8]>>("bytes", |tx| tx.alloc_slice(BYTES, |i| i as u8)).unwrap();
        heap.close().unwrap();
        // In a tmpfs they stay in memory.
        let file = File::open(&path).unwrap();
        // SAFETY: nothing but advice on an open file.
        assert_eq!(unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) }, 0);
        let heap = options.open(&path).unwrap();
        let mapping = &heap.inner().mapping;
        mapping.expect_no_order(BYTES as u64);
        heap.existing_root::<P<[u8]>>("bytes")
            .unwrap()
            .read(|view, p| {
                let bytes = &view[view[p]];
                heap.will_read(bytes);
                let start = Instant::now();
                while !is_in_memory(bytes) {
                    assert!(start.elapsed() < Duration::from_secs(60), "they are not read");
                    std::thread::yield_now();
                }
                assert!(bytes.iter().enumerate().all(|(i, &byte)| byte == i as u8));
                // What is not of the heap is nobody's business.
                for bytes in [&[][..], &bytes[..0], &[1; 3 * PAGE as usize]] {
                    heap.will_read(bytes);
                }
            })
            .unwrap();
    }
}
