//! What is in the file of a heap: its header, arenas and their span tables, pages, types, and the headers of regions.
//!
//! Knows pages, spans and types. Must not know regions that are open, transactions, or objects.

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
use crate::os::maps::Table;
use crate::os::names::has_name;
use crate::sync::Mutex;
use crate::tuning::Tuning;
use crate::wal::Wal;
use ahead::Ahead;
use arena::Arena;
use header::Header;
use page_map::PageMap;
use pages::Pages;
use types::TypeTable;
use words::Words;

pub(crate) const OPEN: u8 = 0;
pub(crate) const READ_ONLY: u8 = 1;
/// Open, but its log has not [begun](Wal::begin).
pub(crate) const UNCHANGED: u8 = 2;
pub(crate) const CLOSED: u8 = 3;
/// The disk has failed, or something has panicked that must not.
pub(crate) const FAILED: u8 = 4;

/// Nobody knows who is inside of a region: see [`Refused`](crate::sync::fence::Refused).
const UNFENCED: u8 = 5;

const PANICKED: &str = "a panic has interrupted the end of a transaction, or a collection";

pub(crate) fn panicked() -> Error {
    Error::Failed { reason: PANICKED.to_owned() }
}

fn unfenced() -> Error {
    let reason = "membarrier(2) is refused, and was not when a root was first used, so it cannot be known any more \
        whether the thread that did so is inside of it; allow it in the filter of system calls, or install that before \
        the heap is opened";
    Error::Failed { reason: reason.to_owned() }
}

/// Words of bits for each word of so many bytes.
fn blocks(bytes: u64) -> usize {
    bytes.div_ceil(64 * 8) as usize
}

pub(crate) type Evict = Box<dyn Fn(&Wal) + Send + Sync>;

/// An open file of pages, spans and types.
pub(crate) struct Store {
    pub(crate) mapping: Mapping,
    /// [`OPEN`], [`READ_ONLY`], [`UNCHANGED`], [`CLOSED`], [`FAILED`] or [`UNFENCED`].
    pub(crate) state: AtomicU8,
    /// Whether the file had a name when it was opened, and is to keep one.
    pub(crate) has_name: bool,
    pub(crate) pin_undo: bool,
    pub(crate) max_size: u64,
    pub(crate) tuning: Tuning,
    pub(crate) page_map: PageMap,
    /// A bit for each word of the heap: whether a long transaction that is open has logged it.
    pub(crate) logged: OnceLock<Arc<Table<AtomicU64>>>,
    pub(crate) medium: Medium,
    /// Gives private pages back, where no thread in the background does. Set when the heap is opened, if at all.
    pub(crate) evict: OnceLock<Evict>,
    /// With what keys are hashed. The same for the heap's whole life, and nothing that anyone else could choose.
    pub(crate) hash_secret: [u64; 2],
    pub(crate) process: Process,
    pub(crate) ahead: Ahead,
    /// Locked after a region, if at all.
    pub(crate) tables: Mutex<Tables>,
}

/// The metadata: the header, who owns which pages, and the types.
pub(crate) struct Tables {
    /// What is mapped, until the heap is closed.
    pub(crate) heap: Words<'static>,
    pub(crate) header: Header,
    pub(crate) media: Media,
    pub(crate) arenas: Vec<Arena>,
    pub(crate) pages: Pages,
    pub(crate) types: TypeTable,
    /// How often somebody had to wait for the file to grow.
    pub(crate) growth_waits: u64,
}

impl Store {
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

    /// A bit for each word of the heap, for long transactions; made for the first of them. None if there are no addresses for it: it is a 64th of what the heap has reserved.
    pub(crate) fn logged(&self) -> Option<&Arc<Table<AtomicU64>>> {
        if self.logged.get().is_none() {
            // Locked until it is there: the heap may grow, and this with it.
            let tables = self.tables.lock();
            let [blocks, open] = [self.mapping.reserved(), tables.header.mapped].map(blocks);
            let _ = self.logged.set(Arc::new(Table::new(blocks, open).ok()?));
        }
        self.logged.get()
    }

    /// Makes the tables with an entry for each page or word ready for a heap of so many bytes. The metadata
    /// are locked.
    fn extend_tables(&self, mapped: u64) -> Result<()> {
        self.page_map.extend(mapped)?;
        self.medium.wal().map_or(Ok(()), |wal| wal.pages.extend(mapped))?;
        self.logged.get().map_or(Ok(()), |logged| logged.open(blocks(mapped)))
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.mapping.is_read_only()
    }

    /// Whether this process was forked from the one that opened the heap.
    #[inline(always)]
    pub(crate) fn is_forked(&self) -> bool {
        self.process.is_parent()
    }

    /// Fails in a process that was forked from the one that opened the heap.
    #[inline(always)]
    pub(crate) fn check_not_forked(&self) -> Result<()> {
        self.process.check()
    }

    /// Fails unless objects can be read.
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

    /// Lets nobody use the heap any more: a panic has left part of it between two states. What was acknowledged is on the disk, or in the system's memory, as it
    /// would be if the process had died.
    pub(crate) fn set_panicked(&self) {
        self.set_failed();
        if let Some(wal) = self.wal() {
            wal.poison(PANICKED, &std::io::Error::other("see what it has printed"));
        }
    }

    /// Lets nobody use the heap any more, for it cannot be known who does. Those who do finish what they are at. Returns what to tell others.
    #[cold]
    pub(crate) fn set_unfenced(&self) -> Error {
        // In this order: a heap that is unchanged may become open meanwhile.
        for state in [READ_ONLY, UNCHANGED, OPEN] {
            let _ = self.state.compare_exchange(state, UNFENCED, Ordering::Relaxed, Ordering::Relaxed);
        }
        unfenced()
    }

    /// Lets nobody use the heap any more, for its disk has failed.
    pub(crate) fn set_failed(&self) {
        // In this order: see above.
        for state in [UNCHANGED, OPEN] {
            let _ = self.state.compare_exchange(state, FAILED, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Fails unless objects can be written. With a write-ahead log, makes sure that it has begun: an error here has changed nothing.
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
                self.note_failure(wal.begin())?;
                let _ = self.state.compare_exchange(UNCHANGED, OPEN, Ordering::Relaxed, Ordering::Relaxed);
                self.check_open() // it may have been closed meanwhile
            }
            _ => Err(Error::ReadOnly),
        }
    }

    /// Fails if the file of the heap has been removed, or another one was given its last name.
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

    /// Whether runs must be repeatable: no threads that nobody asked for, no looking at clocks.
    pub(crate) fn is_simulated(&self) -> bool {
        self.mapping.is_simulated()
    }
}
