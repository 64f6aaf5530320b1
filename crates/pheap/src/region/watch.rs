//! Who is told of the commits of a region.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Region;
use crate::store::Store;

/// What is called after a commit.
type Told = Arc<dyn Fn() + Send + Sync>;

/// The functions that are called after commits, in the order in which they came.
#[derive(Default)]
pub(super) struct Watchers {
    /// Whether there are any.
    any: AtomicBool,
    list: Mutex<List>,
}

/// With the number of the last one that came.
type List = (u64, Vec<(u64, Told)>);

impl Watchers {
    fn list(&self) -> MutexGuard<'_, List> {
        // SURVIVES unreached: locks of std's own are not watched. This is none of the heap's: what is called is the program's.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has a function called after each commit of a root, until it is dropped; made by [`Root::watch`](crate::Root::watch).
#[must_use = "the function is called until this is dropped"]
pub struct Watch {
    region: Arc<Region>,
    /// 0 in a forked child.
    number: u64,
}

impl Watch {
    /// In a forked child nobody commits.
    pub(crate) fn new(region: &Arc<Region>, told: Told) -> Watch {
        let region = region.clone();
        if region.held.process.is_parent() {
            return Watch { region, number: 0 };
        }
        let watchers = &region.watchers;
        let mut list = watchers.list();
        list.0 += 1;
        let number = list.0;
        list.1.push((number, told));
        watchers.any.store(true, Ordering::Relaxed);
        drop(list);
        // Before a look at what is durable, which takes no lock: who raises that looks here afterwards.
        fence(Ordering::SeqCst);
        Watch { region, number }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.region.held.process.is_parent() {
            // Never the last to have the region, and with it the log.
            return std::mem::forget(self.region.clone());
        }
        let watchers = &self.region.watchers;
        let gone = {
            let mut list = watchers.list();
            let gone =
                list.1.iter().position(|(number, _)| *number == self.number).map(|at| list.1.remove(at));
            watchers.any.store(!list.1.is_empty(), Ordering::Relaxed);
            gone
        };
        // With nothing locked: it is the program's, and may be the last to have a heap.
        drop(gone);
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

impl Region {
    /// How many watch.
    pub(crate) fn watches(&self) -> usize {
        self.watchers.list().1.len()
    }

    /// Whether anybody watches. Who has seen what was there before a transaction has come before its thread looks, and is seen: the region's lock is between them, or that of its versions.
    #[inline(always)]
    pub(super) fn is_watched(&self) -> bool {
        self.watchers.any.load(Ordering::Relaxed)
    }

    /// Whether somebody may be to be told of the transaction whose commit has just worked: it has stored something, and the region is locked still. With a write-ahead log, who watches may come
    /// later: as long as the transaction is not durable, its change [may not be seen](crate::Root::durable_snapshot).
    #[inline(always)]
    pub(super) fn is_to_tell(&self, store: &Store) -> bool {
        (store.wal().is_some() || self.is_watched()) && self.access().is_upgraded()
    }
}

/// Tells all who watch these regions. Nothing is locked, and this thread is not inside of the heap.
///
/// # Panics
/// If one of them does, when all have been told.
#[cold]
#[inline(never)]
pub(super) fn tell(regions: &[&Region]) {
    let mut first = None;
    for region in regions {
        let list = region.watchers.list();
        let all: Vec<Told> = list.1.iter().map(|(_, told)| told.clone()).collect();
        drop(list);
        for told in all {
            // The closure has it, for to drop it may panic, too: its `Watch` may be gone.
            match (catch_unwind(AssertUnwindSafe(move || told())), &first) {
                (Ok(()), _) => {}
                (Err(panic), None) => first = Some(panic),
                // So may that.
                (Err(panic), Some(_)) => std::mem::forget(panic),
            }
        }
    }
    if let Some(panic) = first {
        resume_unwind(panic);
    }
}

#[cfg(all(test, not(pheap_loom)))]
mod tests {
    use pheap_testkit::forks::in_child;

    use crate::{Heap, Root};

    #[test]
    fn a_child_waits_for_no_list_of_its_parent() {
        let root: Root<u64> = Heap::in_memory().unwrap().root("n").unwrap();
        let mut watch = Some(root.watch(|| {}));
        let list = root.region.watchers.list();
        let done = in_child(|| {
            drop(watch.take());
            drop(root.watch(|| {}));
            true
        });
        drop(list);
        done.unwrap();
    }
}
