//! The `Heap` handle, and the state that its handles, roots and threads share.
//!
//! | file | |
//! |---|---|
//! | [`options`], [`open`], [`close`] | from a path to an open heap, and back |
//! | [`directory`], [`holders`] | roots by name, and the handles that keep a heap open |
//! | [`checkpoints`], [`deferred`], [`collections`], [`growth`], [`holes`] | work in the background |
//! | [`backup`], [`inspect`], [`check`], [`occupied`] | copies of a heap, and its content |
//! | [`memory`] | regions, private pages, and unmapping |
//! | [`types`] | whether a root has a type of the program |
//!
//! This module must not know the program's types: they come as descriptions.

mod backup;
pub(crate) mod check;
mod checkpoints;
mod close;
mod collections;
mod deferred;
mod directory;
#[cfg(all(test, not(pheap_loom)))]
mod forked_tests;
mod growth;
mod holders;
mod holes;
mod inspect;
mod memory;
pub(crate) mod occupied;
mod open;
mod options;
pub(crate) mod types;

use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::os::file_lock::OpenFileEntry;
use crate::region::Region;
use crate::stats::Stats;
use crate::store::Store;
use crate::sync::{Mutex, RwLock};
use crate::txn::recovery::RecoveredCounts;
use close::BackgroundThreads;
use collections::Collections;
use holders::ReferencedRoots;

pub use backup::Backup;
pub use check::{Report, Usage};
pub use directory::RootInfo;
pub(crate) use directory::check_name;
pub use holders::{Holders, RootHolders};
pub(crate) use inspect::ViewedObjects;
pub use inspect::{
    Elements, Entries, Entry, Field, Fields, HeapInfo, Object, Objects, Pointer, Purpose, SpanUse, TypeInfo,
    Value,
};
pub use options::{Durability, Options};

/// An open heap: Rust objects in a file that is mapped into memory, or in memory only.
///
/// A handle is cheap to clone. The heap is closed when the last handle, the last [`Root`](crate::Root) and
/// the last [`Snapshot`](crate::Snapshot) are dropped, or by [`close`](Heap::close), which can report errors.
/// Safety never depends on closing: a program may be killed at any instant.
#[derive(Clone)]
pub struct Heap {
    inner: Arc<HeapInner>,
}

/// The state that handles, roots and background threads share.
pub(crate) struct HeapInner {
    store: ManuallyDrop<Store>,
    collections: Collections,
    workers: ManuallyDrop<BackgroundThreads>,
    recovered: RecoveredCounts,
    /// The roots by name. Locked briefly, and after all other locks.
    pub(crate) directory: Mutex<BTreeMap<String, Arc<Region>>>,
    pub(crate) shown: Arc<ReferencedRoots>,
    /// The number of the next region. The lock is held while a root is created, removed or renamed, and while
    /// roots must stay as they are, such as during a check or the closing. It is taken before any region's,
    /// by [`CreationLock`](directory::CreationLock).
    creation: Mutex<u32>,
    /// Shared by backups that run during transactions; exclusive while the heap is being closed. Taken before
    /// all other locks, by a thread that has entered [`Scope::Copy`](crate::region::guard::Scope).
    copies: RwLock<()>,
    /// The lock on the heap's file, if this heap has one. While it is held, no other process opens the file,
    /// except as a follower. If this heap is read-only, others may open it read-only, too.
    file: ManuallyDrop<Option<OpenFileEntry>>,
}

impl Deref for HeapInner {
    type Target = Store;

    #[inline(always)]
    fn deref(&self) -> &Store {
        &self.store
    }
}

impl Heap {
    /// Opens the heap in the file at `path` with default [`Options`]. Creates it if there is none, and
    /// recovers it if its last user crashed.
    ///
    /// # Errors
    /// See [`Options::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Heap> {
        Options::new().open(path)
    }

    /// Creates a heap without a file; see [`Options::in_memory`].
    ///
    /// # Errors
    /// See [`Options::in_memory`].
    pub fn in_memory() -> Result<Heap> {
        Options::new().in_memory()
    }

    /// Returns which crashes committed transactions survive; never [`Durability::Auto`]. For a heap that is
    /// in memory or read-only, this is [`Durability::Process`].
    pub fn durability(&self) -> Durability {
        Durability::from_medium(self.inner.medium.kind())
    }

    /// Returns the path with which the heap's file was opened; `None` if the heap is in memory or read-only.
    pub fn path(&self) -> Option<&Path> {
        self.inner.mapping.path()
    }

    /// Returns the address of the heap's first byte. All pointers in the open heap are addresses behind it.
    /// It is the same at each opening, if the addresses are free and [`Options::base`] does not choose
    /// others.
    pub fn base(&self) -> u64 {
        self.inner.base().addr() as u64
    }

    /// Tells the kernel that the caller is about to read these bytes of the heap, which may lie on several
    /// pages.
    ///
    /// If the heap may not fit in memory (its file is larger than half of it), the kernel is told to read
    /// ahead no pages. With this hint it reads all of these pages at once, and not one after the other. That
    /// costs a system call. Otherwise, and for bytes within one page or outside the heap, the call does
    /// nothing. It cannot fail.
    #[inline]
    pub fn will_read(&self, bytes: &[u8]) {
        self.inner.mapping.will_read(bytes);
    }

    /// Returns counters since the heap was opened, and its present sizes. They may include a running
    /// transaction. (In a forked child they are 0.)
    pub fn stats(&self) -> Stats {
        if self.inner.is_forked() {
            return Stats::default();
        }
        let regions = self.inner.regions();
        let tables = self.inner.tables.lock();
        let mut stats = Stats {
            ready: true,
            file_bytes: tables.header.mapped,
            ahead_bytes: self.inner.ready().unwrap_or(0).saturating_sub(tables.header.mapped),
            growth_waits: tables.growth_waits,
            free_bytes: tables.pages.total(),
            ..Stats::default()
        };
        self.inner.collections.pace.add_to(&mut stats);
        self.inner.recovered.add_to(&mut stats);
        tables.media.counters().add_to(&mut stats);
        if let Some(wal) = self.inner.wal() {
            wal.add_to(&mut stats);
        }
        for region in regions {
            region.counters.add_to(&mut stats);
            region.state.add_to(&mut stats);
        }
        stats
    }

    /// Closes the heap: waits for running transactions and reads, makes everything durable, and releases the
    /// file. All handles of the heap and its roots, in any thread, fail with [`Error::Closed`] from now on.
    /// If a transaction delays the closing for a second, a warning of the crate `tracing` names its root.
    /// [`holders`](Self::holders) lists the handles that exist, before or after.
    ///
    /// # Errors
    /// [`Error::Nested`] if this thread is inside a transaction or read of the heap, [`Error::SeveralHeaps`]
    /// if it is inside another heap, [`Error::Closed`] if the heap is closed already, [`Error::Forked`].
    /// [`Error::Io`] or [`Error::OutcomeUnknown`] if the disk fails, and [`Error::Misplaced`] if the heap's
    /// files cannot be found: the heap is then closed, but perhaps not marked as closed. [`Error::Removed`]
    /// if the heap's file was removed: then the heap stays open until its last handle is dropped, so that
    /// another handle can [save](Heap::backup) its content. [`Error::Failed`] if the heap has failed. (If it
    /// has failed because `membarrier` is refused, its file is released with the last handle.)
    pub fn close(&self) -> Result<()> {
        self.inner.close(false)
    }

    pub(crate) fn inner(&self) -> &Arc<HeapInner> {
        &self.inner
    }
}

// After a panic, no handle shows an inconsistent heap. A panic within a transaction rolls it back before any
// other thread sees its changes. A panic within a read has changed nothing. If a panic in the middle of a
// commit or rollback leaves a region that cannot be rolled back, the heap fails (`Error::Failed`). The
// compiler cannot derive that from the cells and locks inside.
impl std::panic::UnwindSafe for Heap {}
impl std::panic::RefUnwindSafe for Heap {}

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
    /// Returns the region of the root with this name.
    ///
    /// # Errors
    /// [`Error::NoSuchRoot`].
    #[track_caller]
    pub(crate) fn region(&self, name: &str) -> Result<Arc<Region>> {
        // A thread that removes a root locks the tables before it frees the root's spans, until the directory
        // does not have the root any more. So no root with freed spans is found. (A root may be gone before.)
        let _tables = self.tables.lock();
        let directory = self.directory.lock();
        directory.get(name).cloned().ok_or_else(|| Error::NoSuchRoot(name.to_owned()))
    }

    /// Returns the regions of all roots in the directory.
    #[track_caller]
    fn regions(&self) -> Vec<Arc<Region>> {
        self.directory.lock().values().cloned().collect()
    }
}
