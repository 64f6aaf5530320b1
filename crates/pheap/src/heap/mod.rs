//! Heaps: the file and its mapping, arenas and spans, the type table, and the roots.

pub(crate) mod arena;
mod backup;
pub(crate) mod bitmaps;
pub(crate) mod check;
mod checkpoints;
mod collections;
pub(crate) mod fork;
pub(crate) mod header;
mod holes;
pub(crate) mod identity;
mod inspect;
pub(crate) mod lock;
mod logged;
pub(crate) mod mapping;
mod migrate;
mod open;
mod options;
pub(crate) mod page_map;
mod pages;
mod pauses;
mod regular;
mod relocate;
mod removed;
mod roots;
#[cfg(feature = "sim")]
mod simulated;
mod spans;
pub(crate) mod stored;
mod survey;
pub(crate) mod syncs;
pub(crate) mod table;
mod types;
pub(crate) mod word;
mod worker;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::media::wal::Wal;
use crate::media::{Bug, Counters, Media, Medium, bug};
use crate::region::{Region, guard};
use crate::sync::{Mutex, look_at};
use crate::tuning::Tuning;
use crate::txn::recovery::Recovered;
use arena::Arena;
use collections::Collections;
use header::{Header, Use};
use lock::OpenFile;
use mapping::Mapping;
use page_map::PageMap;
use pages::Pages;
use types::TypeTable;
use worker::Worker;

pub use check::{Report, Usage};
pub use inspect::{Elements, Field, Fields, HeapInfo, Object, Pointer, TypeInfo, Value};
pub(crate) use open::random;
pub use options::{Durability, Options, SyncPolicy};
pub use pauses::Pauses;
pub use roots::RootInfo;
pub(crate) use spans::Span;

/// An open heap: a file of Rust objects, mapped into memory.
///
/// A handle is cheap to clone. The file is closed when the last handle and the last [`Root`](crate::Root) are gone, or by
/// [`close`](Heap::close), which can report errors. Closing is never needed for safety: a program may be killed at any instant.
#[derive(Clone)]
pub struct Heap {
    inner: Arc<HeapInner>,
}

/// What a heap holds, and what has been done with it since it was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Fences. Always 0 in `Process` durability.
    pub fences: u64,
    /// Cache lines flushed, not counting log entries. Always 0 in `Process` durability.
    pub flushed_lines: u64,
    /// Bytes of log entries written.
    pub log_bytes: u64,
    /// Syncs of the write-ahead log. Always 0 but in `Wal` durability, like the next three.
    pub syncs: u64,
    /// Checkpoints: how often the log was brought to the heap's file.
    pub checkpoints: u64,
    /// Bytes that checkpoints wrote to the heap's file.
    pub checkpoint_bytes: u64,
    /// Bytes of the heap that are in memory of this process; see [`Options::memory_limit`].
    pub private_bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes of pages that no root uses.
    pub free_bytes: u64,
    /// Objects, and bytes of their slots, that are live: those that the last collection of their root found, and all that were allocated
    /// since. Those of a root that is [not ready](Stats::ready) are not counted.
    pub live_objects: u64,
    /// See [`live_objects`](Stats::live_objects).
    pub live_bytes: u64,
    /// Whether it is known of all roots what is live in them; see [`Heap::wait_ready`].
    pub ready: bool,
    /// Collections of a root that were completed.
    pub collections: u64,
    /// How long collections have worked, all threads together.
    pub collecting: Duration,
    /// How long transactions had to wait for a collection at most, slice by slice.
    pub pauses: Pauses,
    /// Redo records that opening the heap replayed.
    pub replayed_records: u64,
    /// Undo entries that opening the heap rolled back.
    pub rolled_back_entries: u64,
}

const OPEN: u8 = 0;
const READ_ONLY: u8 = 1;
const CLOSED: u8 = 2;
/// The disk has failed, or something has panicked that must not.
const FAILED: u8 = 3;

const PANICKED: &str = "a panic has interrupted the end of a transaction, or a collection";

fn panicked() -> Error {
    Error::Failed { reason: PANICKED.to_owned() }
}

/// What handles, roots and regions share.
pub(crate) struct HeapInner {
    mapping: Mapping,
    state: AtomicU8,
    /// Whether the file had a name when it was opened, and is to keep one.
    has_name: bool,
    pin_undo: bool,
    max_size: u64,
    pub(crate) arena_unit: u64,
    /// In percent of what is live.
    pub(crate) collect_growth: u64,
    /// See [`Options::collect_threads`].
    collect_threads: usize,
    pub(crate) collect_least: u64,
    pub(crate) tuning: Tuning,
    pub(crate) page_map: PageMap,
    pub(crate) collections: Collections,
    /// The thread that makes checkpoints.
    checkpoints: Worker,
    medium: Medium,
    /// With what keys are hashed. The same for the heap's whole life, and nothing that anyone else could choose.
    pub(crate) hash_secret: [u64; 2],
    /// How many times this process had been forked from another one.
    forks: u64,
    recovered: Recovered,
    /// Metadata: the header, who owns which pages, types and roots. Locked after a region, if at all.
    meta: Mutex<Meta>,
    /// Held while a root is created, removed or renamed. Locked before any region.
    creation: Mutex<()>,
    /// Keeps the file from being opened again. After `mapping`, so that it is let go last.
    file: Option<OpenFile>,
}

pub(crate) struct Meta {
    header: Header,
    media: Media,
    arenas: Vec<Arena>,
    pages: Pages,
    types: TypeTable,
    roots: BTreeMap<String, Arc<Region>>,
    next_region: u32,
}

impl Stats {
    /// The share of the pages that roots use which holds no live object, 0 to 1: garbage, free slots that wait for an object of
    /// their type and size, and logs.
    pub fn fragmentation(&self) -> f64 {
        let used = self.file_bytes - self.free_bytes;
        if used == 0 { 0.0 } else { (1.0 - self.live_bytes as f64 / used as f64).max(0.0) }
    }
}

impl Heap {
    /// Opens the heap in the file at `path` with default [`Options`]: creates it if there is none, recovers it if its last user crashed.
    ///
    /// # Errors
    /// See [`Options::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Heap> {
        Options::new().open(path)
    }

    /// A heap without a file; see [`Options::in_memory`].
    ///
    /// # Errors
    /// See [`Options::in_memory`].
    pub fn in_memory() -> Result<Heap> {
        Options::new().in_memory()
    }

    /// What committed transactions survive; never [`Durability::Auto`].
    pub fn durability(&self) -> Durability {
        match self.inner.medium {
            Medium::Process => Durability::Process,
            Medium::Wal(_) => Durability::Wal,
            _ => Durability::Pmem,
        }
    }

    /// The file, unless the heap is in memory or read-only.
    pub fn path(&self) -> Option<&Path> {
        self.inner.mapping.path()
    }

    /// Counters since the heap was opened. Those of a running transaction may be included. (In a forked child they are what they were, or 0 if the heap was
    /// being changed.)
    pub fn stats(&self) -> Stats {
        self.inner.look_at_meta(|meta| self.stats_of(meta)).unwrap_or_default()
    }

    fn stats_of(&self, meta: &Meta) -> Stats {
        let (pauses, collecting) = self.inner.collections.pauses();
        let mut stats = Stats {
            ready: true,
            collections: self.inner.collections.count(),
            collecting,
            pauses,
            file_bytes: meta.header.mapped,
            free_bytes: meta.pages.total(),
            replayed_records: self.inner.recovered.replayed,
            rolled_back_entries: self.inner.recovered.rolled_back,
            ..Stats::default()
        };
        let mut add = |counters: &Counters| {
            stats.fences += counters.fences.get();
            stats.flushed_lines += counters.flushed_lines.get();
            stats.log_bytes += counters.log_bytes.get();
        };
        add(meta.media.counters());
        if let Some(wal) = self.inner.wal() {
            let counters = wal.counters();
            stats.syncs = counters.syncs.load(Ordering::Relaxed);
            stats.checkpoints = counters.checkpoints.load(Ordering::Relaxed);
            stats.checkpoint_bytes = counters.checkpoint_bytes.load(Ordering::Relaxed);
            stats.private_bytes = wal.pages.bytes();
        }
        for region in meta.roots.values() {
            add(&region.counters);
            stats.live_objects += region.state.objects.get();
            stats.live_bytes += region.state.bytes.get();
            stats.ready &= region.state.unknown.get() == 0;
        }
        stats
    }

    /// Closes the heap: waits for the transactions and reads that are running, makes everything durable, and lets go of the file.
    /// Roots that are still around fail with [`Error::Closed`] from now on.
    ///
    /// # Errors
    /// [`Error::Nested`] if this thread is inside a transaction or read of the heap, [`Error::Closed`] if it is closed already,
    /// [`Error::Io`] if the disk failed: the heap is then closed, but not marked so. [`Error::Removed`] if the heap's file was: then the heap stays open until its last handle
    /// is gone, so that another one can [save](Heap::backup) what is in it.
    pub fn close(self) -> Result<()> {
        self.inner.close(false)
    }

    pub(crate) fn inner(&self) -> &Arc<HeapInner> {
        &self.inner
    }
}

impl std::fmt::Debug for Heap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Heap")
            .field("path", &self.path())
            .field("durability", &self.durability())
            .field("mapped_at", &self.inner.base())
            .finish_non_exhaustive()
    }
}

impl HeapInner {
    /// Where the heap is mapped.
    #[inline(always)]
    pub(crate) fn base(&self) -> *mut u8 {
        self.mapping.base()
    }

    /// Identity of the open heap.
    #[inline(always)]
    pub(crate) fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    #[inline(always)]
    pub(crate) fn pins_undo(&self) -> bool {
        self.pin_undo
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.mapping.is_read_only()
    }

    /// Whether this process was forked from the one that opened the heap.
    #[inline(always)]
    pub(crate) fn is_forked(&self) -> bool {
        self.forks != fork::forks()
    }

    /// Fails in a process that was forked from the one that opened the heap.
    pub(crate) fn check_not_forked(&self) -> Result<()> {
        if self.is_forked() { Err(Error::Forked) } else { Ok(()) }
    }

    /// Shows `f` the metadata. `None` only in a forked child, if they were being changed.
    #[cfg_attr(feature = "sim", track_caller)]
    fn look_at_meta<R>(&self, f: impl FnOnce(&Meta) -> R) -> Option<R> {
        look_at(&self.meta, self.is_forked(), f)
    }

    /// Fails unless objects can be read.
    #[inline(always)]
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.forks != fork::forks() {
            return Err(Error::Forked);
        }
        if self.state.load(Ordering::Relaxed) < CLOSED { Ok(()) } else { Err(self.why_not_open()) }
    }

    #[cold]
    fn why_not_open(&self) -> Error {
        match self.wal().and_then(|wal| wal.failure()) {
            Some(error) if self.state.load(Ordering::Relaxed) == FAILED => error,
            None if self.state.load(Ordering::Relaxed) == FAILED => panicked(),
            _ => Error::Closed,
        }
    }

    /// Lets nobody use the heap any more: a panic has left part of it between two states. What was acknowledged is on the disk, or in the system's memory, as it
    /// would be if the process had died.
    pub(crate) fn set_panicked(&self) {
        self.set_failed();
        if let Some(wal) = self.wal() {
            wal.poison(PANICKED, &std::io::Error::other("see what it has printed"));
        }
    }

    /// Lets nobody use the heap any more, for its disk has failed.
    pub(crate) fn set_failed(&self) {
        let _ = self.state.compare_exchange(OPEN, FAILED, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Fails unless objects can be written.
    #[inline(always)]
    pub(crate) fn check_writable(&self) -> Result<()> {
        let state = self.state.load(Ordering::Relaxed);
        if state == OPEN && self.forks == fork::forks() { Ok(()) } else { Err(self.why_not_writable()) }
    }

    #[cold]
    fn why_not_writable(&self) -> Error {
        self.check_open().err().unwrap_or(Error::ReadOnly)
    }

    /// Ends the use of a heap on a simulated medium as the death of its process would: nothing more reaches the medium.
    #[cfg(feature = "sim")]
    pub(crate) fn abandon(&self) {
        if self.state.swap(CLOSED, Ordering::Relaxed) == CLOSED {
            return;
        }
        self.stop_background();
        self.stop_checkpoints();
        // SURVIVES unreached: for the simulator, whose threads have ended.
        self.meta.lock().roots.clear();
        // SAFETY: its threads have ended, and the one that calls this runs no transaction.
        unsafe { self.mapping.unmap() };
    }

    /// Closes the heap; also one whose file was removed, if it is the `last` time that anybody could use it.
    fn close(&self, last: bool) -> Result<()> {
        if self.forks != fork::forks() {
            return Err(Error::Forked);
        }
        if guard::is_inside(self.id()) {
            return Err(Error::Nested);
        }
        let _creation = self.creation.lock();
        let regions: Vec<Arc<Region>> = self.meta.lock().roots.values().cloned().collect();
        // One that has failed cannot be saved any more.
        if !last && self.state.load(Ordering::Relaxed) < CLOSED {
            self.check_named()?;
        }
        if self.state.swap(CLOSED, Ordering::Relaxed) == CLOSED {
            return Err(Error::Closed);
        }
        self.stop_background();
        self.stop_checkpoints();
        let mut live = Some(Vec::new());
        let mut is_whole = true;
        for region in regions {
            let retired =
                region.retire(self, |context| live = live.take().and_then(|live| context.live_slots(live)));
            // One that a panic has left between two states is for the next opening to bring to one of them.
            is_whole &= retired.is_ok();
        }
        let mut meta = self.meta.lock();
        let refused = self.wal().is_some_and(|wal| wal.begin_to_close());
        if refused {
            live = None;
        }
        let closed = match self.wal().map_or(Ok(()), |wal| wal.may_write()) {
            // What the disk has is for the next opening to find out.
            Err(error) => Err(error),
            Ok(()) if !is_whole => Err(panicked()),
            Ok(()) if self.is_read_only() => Ok(()),
            Ok(()) => self.mark_closed(&mut meta, live, !refused).or_else(|error| {
                // The log may have been misplaced since it was looked for: that, closing gets over. If it has not failed, it is not looked for again: it may be removed.
                let gets_over = |wal: &Arc<Wal>| {
                    wal.failure().is_some() && wal.begin_to_close() && wal.may_write().is_ok()
                };
                if !self.wal().is_some_and(gets_over) {
                    return Err(error);
                }
                meta.header.live_slots = (0, 0); // the file may not have them
                self.mark_closed(&mut meta, None, false)
            }),
        };
        meta.roots.clear();
        // SAFETY: every region is gone, and metadata are only touched with `meta` locked and the heap open.
        unsafe { self.mapping.unmap() };
        // One that is opened to be checked first shares the lock of who is going to open it.
        if let Some(file) = &self.file {
            self.mapping.unlock();
            file.forget();
        }
        closed
    }

    /// Marks the heap as closed, once the disk has everything. `live` are the live slots, if they are known. `is_recorded` if every change of the metadata was recorded:
    /// else pages that are free here may be in use in the file.
    fn mark_closed(&self, meta: &mut Meta, live: Option<Vec<u64>>, is_recorded: bool) -> Result<()> {
        // A simulated medium cannot be cut off.
        let shorter = is_recorded && !self.is_simulated() && meta.drop_free_arenas();
        if let Some(wal) = self.wal() {
            // First of all: records of what was in these pages must not come after what is written there directly.
            wal.checkpoint(|| {})?;
        }
        if let Some(live) = live {
            meta.store_live_slots(self, &live);
        }
        self.mapping.sync()?;
        let Meta { header, media, .. } = meta;
        header.in_use = Use::Closed;
        // Both slots: should one be damaged later, the other must not say that the heap is in use, nor miss a log that is gone, nor a file that is longer. One after the other, for
        // a power failure may tear what is being written.
        let sync = || if bug(Bug::SyncHeadersAtOnce) { Ok(()) } else { self.mapping.sync() };
        // SAFETY: the header is mapped, and `meta` is locked.
        unsafe { header.write_both(media, self.base(), sync)? };
        if bug(Bug::SyncHeadersAtOnce) {
            self.mapping.sync()?;
        }
        if let Some(wal) = self.wal() {
            wal.may_write()?;
            wal.remove();
            wal.keep_data_found()?;
        }
        if shorter { self.mapping.shrink_file(header.mapped) } else { Ok(()) }
    }
}

impl Drop for HeapInner {
    fn drop(&mut self) {
        if self.forks != fork::forks() {
            self.collections.forget_background(); // it has stayed with the parent
            self.checkpoints.forget(); // and so has this one
        }
        // The last handle is gone, so no transaction runs. A forked child must leave the file alone.
        let _ = self.close(true);
    }
}
