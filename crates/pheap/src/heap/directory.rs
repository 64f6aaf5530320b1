//! The directory of a heap's roots: lists, renames and removes roots. An opening fills the directory from the
//! span tables.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::heap::{Heap, HeapInner};
use crate::region::Region;
use crate::region::guard::{Scope, ScopeGuard};
use crate::store::region_header::MAX_NAME;
use crate::sync::MutexGuard;

/// A root in the list that [`Heap::roots`] returns.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RootInfo {
    /// The root's name.
    pub name: String,
    /// The name of the root's type in the heap's type table.
    pub type_name: String,
}

impl Heap {
    /// Returns all roots, ordered by name. (If the heap is closed, or in a forked child, returns none.)
    pub fn roots(&self) -> Vec<RootInfo> {
        let heap = self.inner();
        if heap.is_forked() {
            return Vec::new();
        }
        // The numbers of the roots' types are read before the type table: types are only added to the table,
        // and the type of a root is in the table before the root gets its number.
        let of = |(name, region): (&String, &Arc<Region>)| (name.clone(), region.ty());
        let roots: Vec<(String, u32)> = heap.directory.lock().iter().map(of).collect();
        let types = heap.tables.lock().types.types.clone();
        let info = |(name, ty): (String, u32)| RootInfo { name, type_name: types[ty as usize].name.clone() };
        roots.into_iter().map(info).collect()
    }

    /// Renames a root as durably as a transaction commits, or not at all. Handles of the root stay valid.
    ///
    /// # Errors
    /// [`Error::NoSuchRoot`], [`Error::RootExists`], [`Error::InvalidName`], [`Error::ReadOnly`];
    /// [`Error::Nested`] if this thread is inside a transaction or read of the heap, [`Error::SeveralHeaps`]
    /// if it is inside another heap, [`Error::Unsupported`] if it is inside too many heaps;
    /// [`Error::OutcomeUnknown`] if the disk fails, [`Error::Failed`] if it has failed before,
    /// [`Error::Misplaced`] if the heap's files cannot be found; [`Error::Closed`], [`Error::Forked`]; the
    /// error of making the log, if the log is still to be made (see
    /// [`Durability::Wal`](crate::Durability::Wal)).
    pub fn rename_root(&self, old: &str, new: &str) -> Result<()> {
        let heap = self.inner();
        check_name(new)?;
        let _creation = heap.lock_creation()?;
        let region = heap.region(old)?;
        if heap.region(new).is_ok() {
            return if old == new { Ok(()) } else { Err(Error::RootExists(new.to_owned())) };
        }
        {
            let tables = heap.tables.lock();
            region.header.set_name(&tables.media, new);
            heap.acknowledge_all()?;
        }
        new.clone_into(&mut region.name.lock());
        heap.shown.rename(&region, new);
        let mut directory = heap.directory.lock();
        directory.remove(old);
        directory.insert(new.to_owned(), region);
        Ok(())
    }

    /// Removes a root and all its objects, as durably as a transaction commits, or not at all. Waits for
    /// running transactions and reads of the root; the root's handles fail with [`Error::Closed`] from then
    /// on.
    ///
    /// # Errors
    /// As for [`rename_root`](Self::rename_root), except [`Error::RootExists`] and [`Error::InvalidName`].
    pub fn remove_root(&self, name: &str) -> Result<()> {
        let heap = self.inner();
        let _creation = heap.lock_creation()?;
        let region = heap.region(name)?;
        let tables = heap.free_region(&region)?;
        // The removal must be acknowledged before a thread learns that there is no such root. A thread that
        // looks the root up waits for the tables' lock until then, so it cannot find the removed root.
        let durable = if bug(Bug::TellAtOnce) { Ok(()) } else { heap.acknowledge_all() };
        heap.directory.lock().remove(name);
        heap.shown.remove(&region);
        drop(tables);
        if bug(Bug::TellAtOnce) {
            return heap.acknowledge_all();
        }
        durable
    }
}

/// The guard of the lock under which roots are created, renamed and removed. A thread that has the guard of a
/// heap gets an error if it tries to take this lock again.
pub(crate) struct CreationLock<'a> {
    /// The number that the next new region gets.
    pub(super) next: MutexGuard<'a, u32>,
    _entered: ScopeGuard,
}

impl<'a> CreationLock<'a> {
    /// Takes the lock of `heap`. Waits for other threads that hold it.
    ///
    /// # Errors
    /// Those of [`may_wait`](crate::region::guard::may_wait).
    #[track_caller]
    pub(super) fn lock(heap: &'a HeapInner) -> Result<CreationLock<'a>> {
        let entered = ScopeGuard::new(heap.id(), Scope::Roots)?;
        Ok(CreationLock { next: heap.creation.lock(), _entered: entered })
    }
}

impl HeapInner {
    /// Keeps other threads from creating, renaming and removing roots, and from closing the heap, until the
    /// result is dropped. Fails unless the heap can be written to.
    pub(crate) fn lock_creation(&self) -> Result<CreationLock<'_>> {
        self.check_writable()?;
        let guard = CreationLock::lock(self)?;
        self.check_writable()?; // Another thread may have closed the heap during the wait.
        // A log that has failed ignores records of changed metadata without an error, so this looks for a
        // failure of the log.
        self.check_log()?;
        Ok(guard)
    }
}

pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > MAX_NAME { Err(Error::InvalidName(name.to_owned())) } else { Ok(()) }
}
