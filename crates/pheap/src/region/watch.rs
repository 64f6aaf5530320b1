//! Calls functions of the program after commits that may have changed a region.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Region;
use crate::store::Store;

/// A function of the program that is called after a commit.
type CommitCallback = Arc<dyn Fn() + Send + Sync>;

/// The functions of the program that are called after commits to a region, in the order in which they were
/// added.
#[derive(Default)]
pub(super) struct Watchers {
    /// Whether `list` has any entry. Written while `list` is locked.
    any: AtomicBool,
    list: Mutex<CallbackList>,
}

/// The number of the function that was added last, and the functions with their numbers.
type CallbackList = (u64, Vec<(u64, CommitCallback)>);

impl Watchers {
    fn list(&self) -> MutexGuard<'_, CallbackList> {
        // SURVIVES unreached: the simulator does not watch mutexes of std. This one is of std because it
        // guards no state of the heap, only functions of the program.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls a function after each transaction of this process that has changed the root, until this `Watch` is
/// dropped. Made by [`Root::watch`](crate::Root::watch).
#[must_use = "the function is called until this is dropped"]
pub struct Watch {
    region: Arc<Region>,
    /// The number of this watcher's function in the region's list; 0 for a `Watch` that a forked child has
    /// made.
    number: u64,
}

impl Watch {
    /// Adds `told` to the functions of the region. Adds nothing in a forked child, where there are no
    /// commits.
    pub(crate) fn new(region: &Arc<Region>, told: CommitCallback) -> Watch {
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
        // The program may next look at the durable version, without the region's lock. The fence keeps the
        // store above from coming after that look. A thread that raises the durable position looks at `any`
        // afterwards.
        fence(Ordering::SeqCst);
        Watch { region, number }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.region.held.process.is_parent() {
            // A forked child must never drop the last reference to the region, and with it the log.
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
        // The function is dropped with nothing locked: it belongs to the program, and may have the last
        // handle of a heap.
        drop(gone);
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

impl Region {
    /// Returns the number of functions that are called after commits to this region.
    pub(crate) fn watches(&self) -> usize {
        self.watchers.list().1.len()
    }

    /// Whether there are watchers. Suppose a thread adds a watcher, and then reads the root in the state
    /// before a transaction, with the lock of the region or of its versions. A call of this function after
    /// that transaction sees the watcher.
    #[inline(always)]
    pub(super) fn is_watched(&self) -> bool {
        self.watchers.any.load(Ordering::Relaxed)
    }

    /// Whether watchers may have to be called for a transaction whose commit has just worked. The region is
    /// still locked. Only a transaction that was upgraded can have stored something. With a write-ahead log,
    /// an upgraded transaction counts even if there are no watchers yet: as long as the transaction is not
    /// durable, its change [may not be visible](crate::Root::durable_snapshot) to watchers that are added
    /// later.
    #[inline(always)]
    pub(super) fn is_to_tell(&self, store: &Store) -> bool {
        (store.wal().is_some() || self.is_watched()) && self.access().is_upgraded()
    }
}

/// Calls all watchers of these regions. This thread has none of the heap's regions locked.
///
/// # Panics
/// If a watcher panics, but only after all watchers were called. If several panic, the first panic counts.
#[cold]
#[inline(never)]
pub(super) fn tell(regions: &[&Region]) {
    let mut first = None;
    for region in regions {
        let list = region.watchers.list();
        let all: Vec<CommitCallback> = list.1.iter().map(|(_, told)| told.clone()).collect();
        drop(list);
        for told in all {
            // The closure owns the function, so a panic of the function's drop is caught, too: the `Watch`
            // may be gone, and this may be the last reference to the function.
            match (catch_unwind(AssertUnwindSafe(move || told())), &first) {
                (Ok(()), _) => {}
                (Err(panic), None) => first = Some(panic),
                // Dropping the payload of a panic may panic, too.
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
