//! Maps a heap's backing into its reserved addresses.

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
use super::reservation::{MappedWords, Reservation, keep_from_children, take_kept};
use super::simulated::SimulatedMedium;
use crate::error::{Error, Result, is_full};
use crate::faults::{Kind, Lab, is_left_out};
use crate::units::PAGE;

/// The addresses for heaps: 16 TiB to 80 TiB, which programs, stacks and `mmap` do not use by themselves on
/// 64-bit Linux.
#[cfg(not(pheap_tsan))]
const PLACES: std::ops::Range<u64> = 0x1000_0000_0000..0x5000_0000_0000;
/// The thread sanitizer supports only the addresses that `mmap` chooses by itself, and keeps its shadow
/// memory elsewhere.
#[cfg(pheap_tsan)]
const PLACES: std::ops::Range<u64> = 0x7b00_0000_0000..0x7e00_0000_0000;

/// The access to the mapped pages of a heap.
const ACCESS: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

/// The content that a mapping shows.
#[derive(Debug)]
pub(crate) enum Backing {
    /// A file to which stores go.
    Shared {
        file: OwnFile,
        path: PathBuf,
        /// Whether the file is mapped with `MAP_SYNC`: then a page fault returns only when the file system's
        /// metadata are durable.
        sync: bool,
    },
    /// The file of a heap that is open read-only. Stores stay in this process: they go to the file if that is
    /// a temporary copy, which no other process has, and else to private memory.
    Private { file: OwnFile, is_copy: bool },
    /// A file that a write-ahead log writes: stores stay in this process.
    Logged { file: OwnFile, path: PathBuf },
    /// Memory without a file.
    Memory,
    /// A copy of a simulated medium.
    #[allow(dead_code)] // for the simulator
    Simulated(Box<dyn SimulatedMedium>, Lab),
}

/// A contiguous reservation of addresses, whose beginning shows the backing.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    reserved: u64,
    backing: Backing,
    /// Whether the backing is a shared file in a tmpfs.
    tmpfs: bool,
    /// Whether the kernel was told to [expect no order](Self::expect_no_order).
    orderless: AtomicBool,
    /// Whether the kernel has refused to drop private copies of pages; see [`was_locked`](Self::was_locked).
    was_locked: AtomicBool,
    /// The reservation, until it is given back.
    addresses: Mutex<Option<Reservation>>,
}

// SAFETY: a mapping is a range of addresses without references to its memory. The locks of the regions
// coordinate accesses to it.
unsafe impl Send for Mapping {}
// SAFETY: a shared mapping only returns addresses and calls the kernel, which serializes calls of several
// threads. Its other state is atomic or locked.
unsafe impl Sync for Mapping {}

fn is_in_tmpfs(backing: &Backing) -> bool {
    matches!(backing, Backing::Shared { file, .. } if is_tmpfs(file))
}

fn last_os_error() -> io::Error {
    io::Error::last_os_error()
}

impl Mapping {
    /// Reserves `reserved` bytes at `base`. If that fails, returns the backing with the error.
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

    /// Reserves `reserved` bytes (a power of two) at an address derived from `uuid`, or at another one if
    /// that is taken.
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

    /// Returns the first address.
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

    /// Returns the file, if the heap in it may be changed, and its path at the opening.
    fn changed_file(&self) -> Option<(&OwnFile, &Path)> {
        match &self.backing {
            Backing::Shared { file, path, .. } | Backing::Logged { file, path } => Some((file, path)),
            _ => None,
        }
    }

    /// Returns the file, if it is the heap's and stores go to it.
    pub(crate) fn shared_file(&self) -> Option<&File> {
        match &self.backing {
            Backing::Shared { file, .. } => Some(file),
            _ => None,
        }
    }

    /// Returns the file, if there is one.
    pub(crate) fn file(&self) -> Option<&File> {
        match &self.backing {
            Backing::Shared { file, .. } | Backing::Private { file, .. } | Backing::Logged { file, .. } => {
                Some(file)
            }
            _ => None,
        }
    }

    /// Sets another backing. It is visible where it is [mapped](Self::map) from now on.
    pub(crate) fn show(&mut self, backing: Backing) {
        self.tmpfs = is_in_tmpfs(&backing);
        self.backing = backing;
    }

    /// Sets whether later mappings use `MAP_SYNC`, if the backing is a shared file.
    pub(crate) fn set_sync(&mut self, to: bool) {
        if let Backing::Shared { sync, .. } = &mut self.backing {
            *sync = to;
        }
    }

    /// Returns whether the backing is a simulated medium.
    pub(crate) fn is_simulated(&self) -> bool {
        matches!(self.backing, Backing::Simulated(..))
    }

    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self.backing, Backing::Private { .. })
    }

    /// Maps `from..to` of the backing into the reservation. These are whole pages, and the file is at least
    /// that long.
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
            // These maps reserve no swap space: only changed pages take memory, and `Options::memory_limit`
            // limits them.
            Backing::Private { file, .. } | Backing::Logged { file, .. } => {
                (libc::MAP_PRIVATE | libc::MAP_NORESERVE, file.as_raw_fd())
            }
            Backing::Simulated(source, _) => return self.map_copy(&**source, from, to),
            Backing::Memory => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1),
        };
        // Whether this process gets private copies of pages of a file.
        let is_copied = fd >= 0 && flags & libc::MAP_PRIVATE != 0;
        // SAFETY: `from..to` lies in the reservation (`to` was checked above), which belongs to this mapping.
        // No thread accesses that range during the call.
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
            // A process may have all of its memory locked (`mlockall`). The kernel would then copy each page
            // of the file, and the map would not show the writes of checkpoints.
            // SAFETY: the range was mapped just now.
            unsafe { libc::munlock(got, (to - from) as usize) };
            // SAFETY: the range was mapped just now, and no other thread knows it yet.
            if unsafe { libc::mprotect(got, (to - from) as usize, ACCESS) } != 0 {
                return Err(Error::io("mapping the heap", last_os_error()));
            }
        }
        // SAFETY: the range was mapped just now, in this mapping's reservation.
        unsafe { keep_from_children(got, to - from) };
        if fd >= 0 && memory::is_much(to) {
            self.expect_no_order(to);
        }
        Ok(())
    }

    /// Tells the kernel that pages next to a page that is read are not needed. Otherwise it reads up to
    /// megabytes for each, and if the file is larger than the memory, that evicts other pages. The call is
    /// only a hint.
    fn expect_no_order(&self, to: u64) {
        self.orderless.store(true, Ordering::Relaxed);
        // SAFETY: these pages are mapped, and the call changes no byte.
        unsafe { libc::madvise(self.base.as_ptr().cast(), to as usize, libc::MADV_RANDOM) };
    }

    /// Makes the kernel read several pages at once that are about to be read, if it would read them one by
    /// one. The call is only a hint.
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
            // SAFETY: the pages are in the reservation (checked above), and the call changes no byte. The
            // kernel refuses pages that are not mapped.
            unsafe { libc::madvise(first.cast_mut().cast(), end - first.addr(), libc::MADV_WILLNEED) };
        }
    }

    fn addresses(&self) -> MutexGuard<'_, Option<Reservation>> {
        // SURVIVES unreached: locks of std's own are not watched.
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does the work of [`map`](Self::map) for a simulated medium.
    fn map_copy(&self, source: &dyn SimulatedMedium, from: u64, to: u64) -> Result<()> {
        let addresses = self.addresses();
        let open = addresses.as_ref().expect("it is mapped").open(to);
        open.map_err(|e| Error::io("mapping the heap", e))?;
        // SAFETY: `open` has made the range accessible, and no other thread accesses it yet.
        unsafe { self.copy(source, from, to - from)? };
        if let Some(file) = source.mapped_file() {
            // SAFETY: the bytes up to `to` are accessible until the mapping is given back; from then on no
            // thread syncs the file. One thread opens and closes a simulated heap, so no other thread
            // accesses them during that.
            file.set_copy(unsafe { MappedWords::new(self.base(), to) });
        }
        Ok(())
    }

    /// Fills a part of the map with the content of the simulated medium.
    ///
    /// # Safety
    /// The `len` bytes at `offset` are accessible, and no other thread accesses them during the call.
    unsafe fn copy(&self, source: &dyn SimulatedMedium, offset: u64, len: u64) -> Result<()> {
        // SAFETY: the bytes are accessible, and no other thread accesses them during the call: the caller's
        // premises.
        let part = unsafe {
            std::slice::from_raw_parts_mut(self.base().wrapping_add(offset as usize), len as usize)
        };
        source.read(part, offset)
    }

    /// Makes the backing `to` bytes long (it had `from`), with the space reserved, so that stores do not fail
    /// for want of space (as far as the file system can guarantee that). Does nothing for memory, and for a
    /// file that is only read.
    pub(crate) fn grow_file(&self, from: u64, to: u64) -> Result<()> {
        let error = |what: &dyn Display, e: io::Error| match is_full(&e) {
            true => Error::OutOfSpace { reason: format!("growing {what} to {to} bytes: {e}") },
            false => Error::io(format!("growing {what}"), e),
        };
        if let Backing::Simulated(source, _) = &self.backing {
            return source.extend(from, to).map_err(|e| error(&"a simulated file", e));
        }
        let Some((file, path)) = self.changed_file() else { return Ok(()) };
        // Bytes behind the heap belong to no arena: a crash may have come before a new arena was recorded.
        // They are cut off, because new arenas must be zero.
        truncate_to(file, from).and_then(|()| allocate(file, from, to - from)).map_err(|e| {
            let _ = file.set_len(from); // gives back the space of a partial allocation
            error(&path.display(), e)
        })
    }

    /// Makes the file's [length](Self::grow_file) durable. (That of a simulated file is durable already.)
    pub(crate) fn sync_length(&self) -> Result<()> {
        let Some((file, path)) = self.changed_file() else { return Ok(()) };
        // SURVIVES unreached: this syncs a real file, and the crash lab has none. `ci/power-cut.sh` tests
        // syncs of real files.
        file.sync().map_err(|e| Error::io(format!("syncing {}", path.display()), e))
    }

    /// Truncates the file to `len` bytes, the length of the heap, if it is longer.
    pub(crate) fn shrink_file(&self, len: u64) -> Result<()> {
        let Some((file, path)) = self.changed_file() else { return Ok(()) };
        truncate_to(file, len).map_err(|e| Error::io(format!("shortening {}", path.display()), e))
    }

    /// Waits until the file's disk has all stores so far. Does nothing for memory, for a map with `MAP_SYNC`,
    /// and for a map whose stores do not go to the file.
    #[track_caller]
    pub(crate) fn sync(&self) -> Result<()> {
        if let Backing::Simulated(source, _) = &self.backing {
            let Some(file) = source.mapped_file() else { return Ok(()) };
            let written = file.write_copy();
            // `file.sync` is not called in a closure, where `track_caller` would not see the caller.
            let synced = if written.is_ok() { file.sync() } else { written };
            return synced.map_err(|e| Error::io("syncing a simulated file", e));
        }
        let Backing::Shared { file, path, sync: false } = &self.backing else { return Ok(()) };
        // SURVIVES unreached: this syncs a real file, and the crash lab has none.
        file.sync().map_err(|e| Error::io(format!("syncing {}", path.display()), e))
    }

    /// Makes all stores to the file durable, of any process, also those that were not flushed. On persistent
    /// memory the kernel knows the written pages, and flushes their lines.
    #[track_caller]
    pub(crate) fn sync_leftovers(&self) -> Result<()> {
        if is_left_out(Kind::FileSync) {
            return Ok(());
        }
        match &self.backing {
            Backing::Shared { file, path, .. } => {
                // SURVIVES unreached: this syncs a real file; the sync of simulated memory is below.
                file.sync().map_err(|e| Error::io(format!("syncing {}", path.display()), e))
            }
            Backing::Simulated(source, _) => {
                source.sync();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Maps the pages of this range ahead of their first use, which is cheaper than a page fault for each
    /// page. The call is only a hint.
    pub(crate) fn populate(&self, offset: u64, len: u64) {
        self.map_ahead(offset, len, MADV_POPULATE_WRITE);
    }

    /// Like [`populate`](Self::populate), for pages that have content and are about to be written again.
    pub(crate) fn populate_again(&self, offset: u64, len: u64) {
        // In a tmpfs a page that is mapped for reading can be written, too, and a read fault also maps pages
        // around it that have content.
        self.map_ahead(offset, len, if self.tmpfs { MADV_POPULATE_READ } else { MADV_POPULATE_WRITE });
    }

    /// Like [`populate_again`](Self::populate_again), for a range that may not be written everywhere. Does
    /// something only in a tmpfs: elsewhere, populating would mark all of the pages as written.
    pub(crate) fn populate_around(&self, offset: u64, len: u64) {
        if self.tmpfs {
            self.populate_again(offset, len);
        }
    }

    fn map_ahead(&self, offset: u64, len: u64, advice: libc::c_int) {
        let first = offset & !(PAGE - 1);
        let start = self.base.as_ptr().wrapping_add(first as usize);
        // SAFETY: callers pass a range of the heap, which is mapped.
        unsafe { populate_pages(start, (offset + len - first) as usize, advice) };
    }

    /// Drops the private copies of these pages: they show the file again. Only for a heap with a write-ahead
    /// log. Returns whether they are dropped: the kernel may refuse.
    ///
    /// # Safety
    /// The file has the content of the copies, or no thread reads these pages before they are stored to. No
    /// thread stores to them during the call (nor reads them, if the medium is simulated).
    pub(crate) unsafe fn drop_copies(&self, offset: u64, len: u64) -> bool {
        if let Backing::Simulated(source, _) = &self.backing {
            // If the page cannot be read, it keeps its copy, which has the same content. On a real system the
            // next access to the page would fault, which cannot be simulated. SAFETY: the pages are the
            // heap's, and no thread accesses them during the call (premise).
            let _ = unsafe { self.copy(&**source, offset, len) };
            return true;
        }
        debug_assert!(matches!(self.backing, Backing::Logged { .. }));
        let start = self.base.as_ptr().wrapping_add(offset as usize);
        // SAFETY: the pages are mapped pages of this heap. Their content does not change, or is not read
        // before it is stored to (premise).
        let drop = || unsafe { libc::madvise(start.cast(), len as usize, libc::MADV_DONTNEED) } == 0;
        drop() || self.unlock_memory() && drop()
    }

    /// Unlocks the pages of the heap, if the process has all of its memory locked (`mlockall`), so that the
    /// kernel can drop them. Returns whether it did.
    #[cold]
    fn unlock_memory(&self) -> bool {
        self.was_locked.store(true, Ordering::Relaxed);
        // SAFETY: the range is the reservation, and the call changes no byte.
        unsafe { libc::munlock(self.base.as_ptr().cast(), self.reserved as usize) == 0 }
    }

    /// Returns whether the kernel has refused to drop copies. Then the process has locked its memory since
    /// the heap was mapped, and there are private copies of pages that were never stored to.
    pub(crate) fn was_locked(&self) -> bool {
        self.was_locked.load(Ordering::Relaxed)
    }

    /// Gives the addresses back.
    ///
    /// # Safety
    /// No thread accesses the heap any more.
    pub(crate) unsafe fn unmap(&self) {
        let Some(addresses) = self.addresses().take() else { return };
        if let Backing::Simulated(source, _) = &self.backing {
            // The stores are written to the simulated page cache: a kernel has them even if the process is
            // killed.
            let _ = source.mapped_file().map(|file| file.write_copy());
            addresses.keep_reserved();
        }
    }

    /// Releases the lock on the file.
    pub(crate) fn unlock(&self) {
        if let Some(file) = self.file() {
            unlock(file);
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the owner of this mapping drops it, and a handle of the heap would keep it alive.
        unsafe { self.unmap() };
    }
}

/// Truncates a file that is longer than `len`.
fn truncate_to(file: &File, len: u64) -> io::Result<()> {
    if file.metadata()?.len() > len { file.set_len(len) } else { Ok(()) }
}

/// Reserves space in a file, which becomes at least `offset + len` bytes long.
fn allocate(file: &OwnFile, offset: u64, len: u64) -> io::Result<()> {
    // If the disk is too full, `fallocate` is not tried: it would take all free space and give it back, which
    // takes long, for each transaction that finds the disk full.
    if statfs(file).is_ok_and(|found| found.free.is_some_and(|free| free < len)) {
        return Err(io::Error::from_raw_os_error(libc::ENOSPC));
    }
    reserve_range(file, offset, len)
}

/// Returns whether the file system of `file` can be mapped with `MAP_SYNC`, that is, is persistent memory.
/// Returns `false` for a file of less than a page.
pub(crate) fn supports_map_sync(file: &File) -> bool {
    if !file.metadata().is_ok_and(|metadata| metadata.len() >= PAGE) {
        return false;
    }
    // SAFETY: the kernel chooses the address, so the map replaces none.
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
    // SAFETY: the page was mapped just now, and has no references.
    unsafe { libc::munmap(map, PAGE as usize) };
    true
}

/// Advice of `madvise` since Linux 5.14: populates the pages as a read, or a write, of each page does.
const MADV_POPULATE_READ: libc::c_int = 22;
const MADV_POPULATE_WRITE: libc::c_int = 23;

/// Maps the pages of a range ahead of their use. The call is only a hint.
///
/// # Safety
/// The `len` bytes at `start` are mapped.
unsafe fn populate_pages(start: *mut u8, len: usize, advice: libc::c_int) {
    // SAFETY: the pages are mapped (premise), and populating changes no byte. A kernel without this advice
    // refuses it, which does no harm.
    unsafe { libc::madvise(start.cast(), len, advice) };
}

/// Maps the whole pages within ordinary memory that is about to be written. The call is only a hint.
pub(crate) fn populate<T>(memory: &[T]) {
    let bytes = memory.as_ptr_range();
    let (start, end) =
        (bytes.start.addr().next_multiple_of(PAGE as usize), bytes.end.addr() & !(PAGE as usize - 1));
    if start < end {
        // SAFETY: `start..end` are whole pages within `memory`, which is mapped.
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

    /// Returns whether all pages of these bytes are in memory.
    fn is_in_memory(bytes: &[u8]) -> bool {
        let first = bytes.as_ptr().map_addr(|addr| addr & !(PAGE as usize - 1));
        let len = bytes.as_ptr_range().end.addr() - first.addr();
        let mut pages = vec![0u8; len.div_ceil(PAGE as usize)];
        // SAFETY: these pages are mapped, and `pages` has a byte for each of them.
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
        // This call drops the file's pages from memory, except in a tmpfs.
        let file = File::open(&path).unwrap();
        // SAFETY: `posix_fadvise` takes no addresses.
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
                // Empty ranges, and bytes that are not the heap's, are ignored.
                for bytes in [&[][..], &bytes[..0], &[1; 3 * PAGE as usize]] {
                    heap.will_read(bytes);
                }
            })
            .unwrap();
    }
}
