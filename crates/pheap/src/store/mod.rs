//! The file of a heap: its header, arenas and their span tables, pages, types, and the headers of regions.
//!
//! This module knows pages, spans and types. It must not know open regions or transactions.

mod ahead;
pub(crate) mod arena;
mod durability;
pub(crate) mod header;
pub(crate) mod page_map;
pub(crate) mod pages;
pub(crate) mod region_header;
pub(crate) mod relocate;
mod space;
pub(crate) mod spans;
pub(crate) mod stored;
pub(crate) mod types;
pub(crate) mod word;
pub(crate) mod words;

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::media::{Media, Medium};
use crate::os::fork::Process;
use crate::os::mapping::Mapping;
use crate::os::maps::ZeroedArray;
use crate::os::names::has_name;
use crate::sync::Mutex;
use crate::tuning::Tuning;
use crate::wal::Wal;
use ahead::SpaceAhead;
use arena::Arena;
use header::Header;
use page_map::PageMap;
use pages::FreePages;
use types::TypeTable;
use words::MetadataWords;

pub(crate) const OPEN: u8 = 0;
pub(crate) const READ_ONLY: u8 = 1;
/// The heap is open, but its log has not [begun](Wal::ensure_log).
pub(crate) const UNCHANGED: u8 = 2;
pub(crate) const CLOSED: u8 = 3;
/// The heap refuses all use, because the disk has failed, or a panic has interrupted a change of pheap's
/// state.
pub(crate) const FAILED: u8 = 4;

/// The heap refuses all use, because it is unknown which thread is inside a region: see
/// [`FenceRefused`](crate::sync::fence::FenceRefused).
const UNFENCED: u8 = 5;

const PANICKED: &str = "a panic has interrupted the end of a transaction, or a collection";

pub(crate) fn panicked() -> Error {
    Error::Failed { reason: PANICKED.to_owned() }
}

fn unfenced() -> Error {
    let reason = "the kernel refuses membarrier(2), and allowed it when a root was first used, so it is \
        unknown whether the thread that used it first is inside it; allow membarrier in the filter of system \
        calls, or install the filter before the heap is opened";
    Error::Failed { reason: reason.to_owned() }
}

/// Returns the length in words of a bitmap that has one bit for each word in `bytes` bytes.
fn blocks(bytes: u64) -> usize {
    bytes.div_ceil(64 * 8) as usize
}

/// A function that evicts private pages of a heap with a write-ahead log.
pub(crate) type Evict = Box<dyn Fn(&Wal) + Send + Sync>;

/// The open file of a heap, or its memory, as pages, spans and types.
pub(crate) struct Store {
    pub(crate) mapping: Mapping,
    /// [`OPEN`], [`READ_ONLY`], [`UNCHANGED`], [`CLOSED`], [`FAILED`] or [`UNFENCED`].
    pub(crate) state: AtomicU8,
    /// Whether the heap's file had a name when it was opened, and the heap is not only read. If so, the file
    /// must keep a name.
    pub(crate) has_name: bool,
    /// Whether each transaction is long from the beginning: changes objects in place, with undo entries.
    pub(crate) pin_undo: bool,
    pub(crate) max_size: u64,
    pub(crate) tuning: Tuning,
    pub(crate) page_map: PageMap,
    /// A bit for each word of the heap: whether the open long transaction of its region has logged the word.
    pub(crate) logged: OnceLock<Arc<ZeroedArray<AtomicU64>>>,
    pub(crate) medium: Medium,
    /// A function that evicts private pages, if no background thread does. Set when the heap is opened, or
    /// never.
    pub(crate) evict: OnceLock<Evict>,
    /// The secret with which keys of collections are hashed. It is the same for the whole life of the heap.
    pub(crate) hash_secret: [u64; 2],
    pub(crate) process: Process,
    pub(crate) ahead: SpaceAhead,
    /// The tables of metadata. Locked after a region's lock, if a thread takes both.
    pub(crate) tables: Mutex<Tables>,
}

/// The metadata: the header, the owners of pages, and the types.
pub(crate) struct Tables {
    /// The words of the mapped part of the heap, which stays mapped until the heap is closed.
    pub(crate) heap: MetadataWords<'static>,
    pub(crate) header: Header,
    pub(crate) media: Media,
    pub(crate) arenas: Vec<Arena>,
    pub(crate) pages: FreePages,
    pub(crate) types: TypeTable,
    /// How often a thread has needed an arena for which the file was not ready.
    pub(crate) growth_waits: u64,
}

impl Store {
    /// Returns the address at which the heap is mapped.
    #[inline(always)]
    pub(crate) fn base(&self) -> *mut u8 {
        self.mapping.base()
    }

    /// Returns the identity of the open heap: the address of this store.
    #[inline(always)]
    pub(crate) fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Returns the bitmap of the words that long transactions have logged. The bitmap is made for the first
    /// such transaction. Returns `None` if it cannot be made: it needs a 64th as many bytes of addresses as
    /// the heap's reservation.
    pub(crate) fn logged(&self) -> Option<&Arc<ZeroedArray<AtomicU64>>> {
        if self.logged.get().is_none() {
            // The tables stay locked until the bitmap is stored, because a heap that grows must extend it.
            let tables = self.tables.lock();
            let [blocks, open] = [self.mapping.reserved(), tables.header.mapped].map(blocks);
            let _ = self.logged.set(Arc::new(ZeroedArray::new(blocks, open).ok()?));
        }
        self.logged.get()
    }

    /// Extends the volatile tables that have an entry for each page or word to a heap of `mapped` bytes. The
    /// caller has locked the metadata.
    fn extend_tables(&self, mapped: u64) -> Result<()> {
        self.page_map.extend(mapped)?;
        self.medium.wal().map_or(Ok(()), |wal| wal.pages.extend(mapped))?;
        self.logged.get().map_or(Ok(()), |logged| logged.open(blocks(mapped)))
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.mapping.is_read_only()
    }

    /// Returns whether this process was forked from the one that opened the heap.
    #[inline(always)]
    pub(crate) fn is_forked(&self) -> bool {
        self.process.is_parent()
    }

    /// Fails in a process that was forked from the one that opened the heap.
    #[inline(always)]
    pub(crate) fn check_not_forked(&self) -> Result<()> {
        self.process.check()
    }

    /// Fails unless the heap is open for reading, at least: not closed, not failed, and not in a forked
    /// child.
    #[inline(always)]
    pub(crate) fn check_open(&self) -> Result<()> {
        self.check_not_forked()?;
        if self.state.load(Ordering::Relaxed) < CLOSED { Ok(()) } else { Err(self.why_not_open()) }
    }

    #[cold]
    fn why_not_open(&self) -> Error {
        if self.state.load(Ordering::Relaxed) == UNFENCED {
            return unfenced();
        }
        match self.wal().and_then(|wal| wal.failure()) {
            Some(error) if self.state.load(Ordering::Relaxed) == FAILED => error,
            None if self.state.load(Ordering::Relaxed) == FAILED => panicked(),
            _ => Error::Closed,
        }
    }

    /// Makes the heap refuse all use, unless it is read-only or closed, because a panic has left its state
    /// inconsistent. What was acknowledged is as durable as if the process had died.
    pub(crate) fn set_panicked(&self) {
        self.set_failed();
        if let Some(wal) = self.wal() {
            wal.poison(PANICKED, &std::io::Error::other("see the message of the panic"));
        }
    }

    /// Makes the heap refuse all use, unless it is closed or has failed, because it is unknown which threads
    /// are inside it. The threads that are inside finish their work. Returns the error that all others get.
    #[cold]
    pub(crate) fn set_unfenced(&self) -> Error {
        // `OPEN` is tried after `UNCHANGED`, because another thread may change the state from `UNCHANGED` to
        // `OPEN` at the same time.
        for state in [READ_ONLY, UNCHANGED, OPEN] {
            let _ = self.state.compare_exchange(state, UNFENCED, Ordering::Relaxed, Ordering::Relaxed);
        }
        unfenced()
    }

    /// Makes the heap refuse all use, unless it is read-only or closed, because its disk has failed.
    pub(crate) fn set_failed(&self) {
        // `OPEN` is tried after `UNCHANGED`, because another thread may change the state from `UNCHANGED` to
        // `OPEN` at the same time.
        for state in [UNCHANGED, OPEN] {
            let _ = self.state.compare_exchange(state, FAILED, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Fails unless the heap is open for writing. With a write-ahead log, makes sure that the log has begun.
    /// An error here has changed no object.
    #[inline(always)]
    pub(crate) fn check_writable(&self) -> Result<()> {
        let state = self.state.load(Ordering::Relaxed);
        if state == OPEN && !self.is_forked() { Ok(()) } else { self.make_writable() }
    }

    #[cold]
    fn make_writable(&self) -> Result<()> {
        self.check_open()?;
        match self.wal() {
            Some(wal) if !self.is_read_only() => {
                self.note_failure(wal.ensure_log())?;
                let _ = self.state.compare_exchange(UNCHANGED, OPEN, Ordering::Relaxed, Ordering::Relaxed);
                // Another thread may have closed the heap meanwhile.
                self.check_open()
            }
            _ => Err(Error::ReadOnly),
        }
    }

    /// Fails if the file of the heap had a name when it was opened and has none now: it was removed, or
    /// another file took its last name. Never fails for a heap that is only read.
    pub(crate) fn check_named(&self) -> Result<()> {
        if self.has_name
            && let (Some(file), Some(path)) = (self.mapping.file(), self.mapping.path())
            && has_name(file).is_ok_and(|named| !named)
            && !bug(Bug::OverlookRemoval)
        {
            return Err(Error::Removed { path: path.to_owned() });
        }
        Ok(())
    }

    /// Returns whether the heap is in the simulator, where runs must be repeatable.
    pub(crate) fn is_simulated(&self) -> bool {
        self.mapping.is_simulated()
    }
}
