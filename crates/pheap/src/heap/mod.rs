//! The `Heap` handle, and the state of an open heap that its handles, its roots and the background threads
//! share.
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
//! This module must not know the program's types: it gets descriptions of them.

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

/// The state of an open heap that its handles, its roots and the background threads share.
pub(crate) struct HeapInner {
    store: ManuallyDrop<Store>,
    collections: Collections,
    workers: ManuallyDrop<BackgroundThreads>,
    recovered: RecoveredCounts,
    /// The region of each root, by the root's name. A thread holds this lock briefly, and takes no other lock
    /// meanwhile.
    pub(crate) directory: Mutex<BTreeMap<String, Arc<Region>>>,
    pub(crate) shown: Arc<ReferencedRoots>,
    /// The number that the next new region gets. A thread holds this lock while it creates, removes or
    /// renames a root, and while roots must stay as they are, as during a check or the closing of the heap.
    /// [`CreationLock`](directory::CreationLock) takes the lock, before that of any region.
    creation: Mutex<u32>,
    /// A lock without a value. Backups that run during transactions share it; the thread that closes the heap
    /// has it exclusively. Taken before all other locks, by a thread that has entered
    /// [`Scope::Copy`](crate::region::guard::Scope).
    copies: RwLock<()>,
    /// This heap's entry in the process's list of open heaps, made with the lock on the heap's file. `None`
    /// if this heap has no lock of its own: it is in memory, simulated, a follower's copy, or opened only to
    /// be verified. As long as the file is locked, no other process opens the heap, except as a follower or,
    /// if this heap is read-only, read-only, too.
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

    /// Returns which crashes the committed transactions of this heap survive; never [`Durability::Auto`]. For
    /// a heap that is in memory or read-only, the result is [`Durability::Process`].
    pub fn durability(&self) -> Durability {
        Durability::from_medium(self.inner.medium.kind())
    }

    /// Returns the path with which the heap's file was opened; `None` if the heap is in memory or read-only.
    pub fn path(&self) -> Option<&Path> {
        self.inner.mapping.path()
    }

    /// Returns the address of the heap's first byte. All pointers in the open heap are addresses behind this
    /// one. The address is the same at each opening, if the heap's range of addresses is free and
    /// [`Options::base`] does not choose another.
    pub fn base(&self) -> u64 {
        self.inner.base().addr() as u64
    }

    /// Tells the kernel that the caller is about to read these bytes of the heap, which may lie on several
    /// pages.
    ///
    /// If the heap may not fit in memory (its file is larger than 64 MiB, and than half of the memory), pheap
    /// has told the kernel not to read ahead. With this hint, the kernel reads all of these pages at once,
    /// and not one after the other. The hint costs a system call. For other heaps, and for bytes within one
    /// page or outside the heap, this call does nothing. It cannot fail.
    #[inline]
    pub fn will_read(&self, bytes: &[u8]) {
        self.inner.mapping.will_read(bytes);
    }

    /// Returns counters since the heap was opened, and its present sizes. The numbers may include the work of
    /// a running transaction. (In a forked child they are 0.)
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
    /// If a transaction delays the closing for more than a second, a warning through the crate `tracing`
    /// names the transaction's root. [`holders`](Self::holders) lists the handles that exist, before or after
    /// the closing.
    ///
    /// # Errors
    /// [`Error::Nested`] if this thread is inside a transaction or read of the heap, [`Error::SeveralHeaps`]
    /// if it is inside another heap, [`Error::Unsupported`] if it is inside too many heaps; [`Error::Closed`]
    /// if the heap is closed already, [`Error::Forked`]. [`Error::Io`], [`Error::OutcomeUnknown`] or
    /// [`Error::Failed`] if the disk fails, and [`Error::Misplaced`] if the heap's files cannot be found: the
    /// heap is then closed, but perhaps not marked as closed in its file. [`Error::Removed`] if the heap's
    /// file was removed: then the heap stays open until its last handle is dropped, so that another handle
    /// can [save](Heap::backup) its content. [`Error::Failed`] also if the heap has failed before. (If it has
    /// failed because `membarrier` is refused, its file is released when the last handle is dropped.)
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
// compiler cannot derive this from the cells and locks in a `Heap`.
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
        // A thread that removes a root locks the tables before it frees the root's spans, and unlocks them
        // only when the root is no longer in the directory. So this thread, which has the tables locked,
        // finds no root whose spans are free. (It may find a root that no thread can enter any more.)
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
