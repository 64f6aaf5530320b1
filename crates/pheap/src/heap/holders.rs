//! `Heap::holders`: lists the handles that keep a heap open. The use of a heap updates no counters for this:
//! handles are references, and `holders` reads their reference counts.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::{Heap, HeapInner};
use crate::gc::held::HeldTable;
use crate::region::Region;

/// The handles of a heap, as [`Heap::holders`] has found them. The `Display` is a text like "2 handles of
/// roots (`jobs`, `users`), 1 snapshot (`users`)".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holders {
    /// Handles of the heap itself, other than the one that `holders` was called on.
    pub heaps: usize,
    /// The roots, ordered by name, of which the program has a handle, a snapshot, a held pointer or a watch.
    pub roots: Vec<RootHolders>,
}

/// Numbers of handles and other references to one root; see [`Holders`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RootHolders {
    /// The root's name: its last name, if the root is removed.
    pub name: String,
    /// Number of [`Root`](crate::Root) handles.
    pub handles: usize,
    /// Number of [`Snapshot`](crate::Snapshot)s. Clones count once.
    pub snapshots: usize,
    /// Number of [`Held`](crate::Held) pointers. Clones count once. Held pointers do not keep the heap open.
    pub held: usize,
    /// Number of [`Watch`](crate::Watch)es. Watches do not keep the heap open, but handles in their closures
    /// may.
    pub watches: usize,
}

impl Heap {
    /// Returns the program's other handles of the heap, by kind and root: to find out what keeps a heap open
    /// whose last handle was thought to be dropped, or what a part of the program that should have ended has
    /// left.
    ///
    /// [`close`](Self::close) closes the heap even if there are handles. After that, `holders` lists the
    /// handles that return [`Error::Closed`](crate::Error::Closed). Without `close`, a heap is closed when
    /// there are no handles and no snapshots any more. If a heap is opened twice,
    /// [`Error::AlreadyOpen`](crate::Error::AlreadyOpen) has the part of this list that keeps the heap open.
    ///
    /// Other threads may make and drop handles during this call, and an operation of another thread on the
    /// heap (a collection, a backup) may count as a handle while it lasts. In a forked child, the result is
    /// empty.
    ///
    /// ```
    /// # use pheap::{Heap, Root};
    /// # fn main() -> pheap::Result<()> {
    /// let heap = Heap::in_memory()?;
    /// let jobs: Root<u64> = heap.root("jobs")?;
    /// let worker = std::thread::spawn({
    ///     let jobs = jobs.clone();
    ///     move || jobs.txn(|tx, n| Ok(tx[n] += 1))
    /// });
    /// worker.join().unwrap()?;
    /// assert_eq!(heap.holders().to_string(), "1 handle of a root (`jobs`)");
    /// drop(jobs);
    /// assert!(heap.holders().is_empty(), "the heap is still held: {}", heap.holders());
    /// heap.close()
    /// # }
    /// ```
    ///
    /// # Cost
    /// The call takes some locks, each of them briefly, and looks at each held pointer. It adds no work to
    /// transactions and reads, and waits for no transaction.
    pub fn holders(&self) -> Holders {
        let inner = self.inner();
        if inner.is_forked() {
            return Holders::default(); // in a forked child, the locks of the list may stay locked for ever
        }
        let mut holders = inner.shown.holders(Arc::strong_count(inner));
        holders.heaps = holders.heaps.saturating_sub(1);
        holders
    }
}

impl Holders {
    /// Returns whether there are no other handles, no snapshots, no held pointers and no watches.
    pub fn is_empty(&self) -> bool {
        self.heaps == 0 && self.roots.is_empty()
    }

    /// Leaves out held pointers and watches, which do not keep the heap open.
    fn that_keep_it_open(mut self) -> Holders {
        for root in &mut self.roots {
            (root.held, root.watches) = (0, 0);
        }
        self
    }
}

impl fmt::Display for Holders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut is_first = true;
        let mut part = |f: &mut fmt::Formatter<'_>, n: usize, one: &str, many: &str| {
            let comma = if std::mem::take(&mut is_first) { "" } else { ", " };
            write!(f, "{comma}{n} {}", if n == 1 { one } else { many })
        };
        if self.heaps > 0 {
            part(f, self.heaps, "handle of the heap", "handles of the heap")?;
        }
        type Count = fn(&RootHolders) -> usize;
        let kinds: [(Count, &str, &str); 4] = [
            (|root| root.handles, "handle of a root", "handles of roots"),
            (|root| root.snapshots, "snapshot", "snapshots"),
            (|root| root.held, "held object", "held objects"),
            (|root| root.watches, "watch", "watches"),
        ];
        for (count, one, many) in kinds {
            let of_each = || self.roots.iter().map(|root| (root, count(root))).filter(|&(_, n)| n > 0);
            let total = of_each().map(|(_, n)| n).sum();
            if total == 0 {
                continue;
            }
            part(f, total, one, many)?;
            for (i, (root, n)) in of_each().enumerate() {
                write!(f, "{}`{}`", if i == 0 { " (" } else { ", " }, root.name)?;
                if n > 1 {
                    write!(f, " {n} times")?;
                }
            }
            f.write_str(")")?;
        }
        if is_first { f.write_str("nobody") } else { Ok(()) }
    }
}

/// The roots to which the program may have references, removed roots included. The list lies outside of the
/// `HeapInner`, because the function that describes the holders for an `Error::AlreadyOpen` reads the list,
/// and must not keep the heap open.
#[derive(Default)]
pub(crate) struct ReferencedRoots(Mutex<Vec<Entry>>);

pub(super) struct Entry {
    name: String,
    region: Weak<Region>,
    table: Weak<HeldTable>,
    /// Whether the root is in the heap's directory of roots.
    listed: bool,
}

impl ReferencedRoots {
    pub(super) fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        // SURVIVES unreached: the crash lab does not watch the locks of std. No other operation of a heap
        // depends on this list.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a root that is about to be, or just was, added to the heap's directory.
    pub(crate) fn add(&self, name: &str, region: &Arc<Region>) {
        let (name, table) = (name.to_owned(), Arc::downgrade(&region.held));
        let mut entries = self.entries();
        if entries.len() == entries.capacity() {
            // Entries of roots without references are removed only when the list is full. Otherwise, creating
            // many roots would take quadratic time.
            entries.retain(|entry| entry.region.strong_count() > 0 || entry.table.strong_count() > 0);
            let as_many = entries.len() + 1;
            entries.reserve(as_many);
        }
        entries.push(Entry { name, region: Arc::downgrade(region), table, listed: true });
    }

    pub(super) fn rename(&self, region: &Arc<Region>, name: &str) {
        self.change_entry(region, |entry| name.clone_into(&mut entry.name));
    }

    /// Notes that the heap's directory does not have this root any more.
    pub(super) fn remove(&self, region: &Arc<Region>) {
        self.change_entry(region, |entry| entry.listed = false);
    }

    fn change_entry(&self, region: &Arc<Region>, change: impl FnOnce(&mut Entry)) {
        let is_it = |entry: &&mut Entry| std::ptr::eq(entry.region.as_ptr(), Arc::as_ptr(region));
        if let Some(entry) = self.entries().iter_mut().find(is_it) {
            change(entry);
        }
    }

    /// Notes that the heap's directory of roots is empty.
    pub(super) fn remove_all(&self) {
        self.entries().iter_mut().for_each(|entry| entry.listed = false);
    }

    /// Counts the references to the roots and to the heap. `references` is the number of all references to
    /// the `HeapInner`; those of root handles and snapshots are subtracted from it.
    fn holders(&self, references: usize) -> Holders {
        let of =
            |entry: &Entry| (entry.name.clone(), entry.region.upgrade(), entry.table.upgrade(), entry.listed);
        let all: Vec<_> = self.entries().iter().map(of).collect();
        // The list of roots is not locked here, because this loop may drop the last reference to a region.
        let mut roots = Vec::new();
        for (name, region, table, listed) in all {
            let mut root = RootHolders { name, ..RootHolders::default() };
            if let Some(region) = &region {
                root.watches = region.watches();
                let others = 1 + usize::from(listed) + root.watches;
                root.handles = Arc::strong_count(region).saturating_sub(others);
            }
            if let Some(table) = &table {
                // References to the table other than those of held pointers and snapshots: the one in
                // `table`, that of the region, and that of the region's collector.
                let others = if region.is_some() { 3 } else { 1 };
                (root.held, root.snapshots) = table.holders(others);
            }
            if (root.handles, root.snapshots, root.held, root.watches) != (0, 0, 0, 0) {
                roots.push(root);
            }
        }
        roots.sort_by(|a, b| a.name.cmp(&b.name));
        let of_roots: usize = roots.iter().map(|root| root.handles + root.snapshots).sum();
        Holders { heaps: references.saturating_sub(of_roots), roots }
    }
}

impl HeapInner {
    /// Returns the function that describes the references to this heap, for an `Error::AlreadyOpen`. The
    /// function does not keep the heap open.
    pub(super) fn held_by(self: &Arc<Self>) -> impl Fn() -> String + Send + Sync + use<> {
        let (heap, shown) = (Arc::downgrade(self), self.shown.clone());
        move || match heap.strong_count() {
            0 => "being closed".to_owned(),
            references => format!("held by {}", shown.holders(references).that_keep_it_open()),
        }
    }
}

#[cfg(all(test, not(pheap_loom)))]
mod tests {
    use crate::{Heap, Result, Root};

    /// In a program that removes roots and creates others, the list of referenced roots does not grow without
    /// bound.
    #[test]
    fn roots_that_are_gone_are_forgotten() -> Result<()> {
        let heap = Heap::in_memory()?;
        let shown = heap.inner().shown.clone();
        for _ in 0..100 {
            let a: Root<u64> = heap.root("a")?;
            assert_eq!(heap.holders().to_string(), "1 handle of a root (`a`)");
            drop(a);
            heap.remove_root("a")?;
        }
        assert!(shown.entries().len() < 10);
        Ok(())
    }
}
