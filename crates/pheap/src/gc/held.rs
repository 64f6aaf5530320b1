//! Pointers that programs keep between transactions.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock, Weak};

use super::accesses::Accesses;
use super::versions::{RootVersion, RootVersions};
use crate::error::{Error, Result};
use crate::layout::Pointee;
use crate::os::fork::Process;
use crate::sync::{Mistake, Mutex, MutexGuard, mistake};

#[cfg(all(test, pheap_loom))]
mod model;

/// A pointer that outlives its transaction: a [`P`](crate::P) without the brand of the transaction.
/// [`Txn::hold`](crate::Txn::hold) makes it, and [`View::get`](crate::View::get) turns it into a
/// [`P`](crate::P) again, in the same transaction, or in a later transaction on the same root or read of it.
///
/// A held pointer belongs to one open heap, and keeps its object alive there. It cannot be stored in a heap.
/// If the transaction that made the pointer, or the nested part of that transaction, was rolled back, the
/// pointer is invalid: `get` fails.
pub struct Held<T: Pointee + ?Sized> {
    table: Arc<HeldTable>,
    slot: u32,
    generation: u32,
    target: PhantomData<fn() -> *mut T>,
}

/// The held pointers of a region.
#[derive(Default)]
pub(crate) struct HeldTable {
    slots: Mutex<HeldSlots>,
    /// Versions of the root that are kept. Locked before `slots`.
    versions: Mutex<RootVersions>,
    /// Counts accesses to held objects without the lock of the region, as readers of snapshots make them.
    pub(crate) accesses: Accesses,
    /// The heap of the region, for snapshots, which keep the heap open. Set when the program gets its first
    /// handle of the root.
    heap: OnceLock<Weak<dyn Any + Send + Sync>>,
    /// The process that opened the heap. In a forked child, the locks of the table may stay locked for ever.
    pub(crate) process: Process,
}

#[derive(Debug, Default)]
struct HeldSlots {
    slots: Vec<HeldSlot>,
    free: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct HeldSlot {
    addr: usize,
    generation: u32,
    /// Number of `Held`s that refer to this slot. It cannot overflow: each `Held` has a reference to the
    /// table, too, and an `Arc` aborts the program before its count reaches 2^63.
    references: u64,
    state: HeldState,
    /// Whether the pointer belongs to a snapshot. Otherwise it belongs to the program.
    by_snapshot: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeldState {
    /// The open transaction has made the pointer.
    Pending,
    Published,
    /// The transaction that made the pointer, or a nested part of it, was rolled back, or no `Held` refers to
    /// the slot any more.
    Dead,
}

impl HeldTable {
    /// Makes a pointer that holds the object at `addr`. If `published`, the pointer belongs to a snapshot,
    /// and collections keep its object from now on. Otherwise they keep it once the open transaction has been
    /// committed.
    pub(crate) fn hold<T: Pointee + ?Sized>(self: &Arc<Self>, addr: usize, published: bool) -> Held<T> {
        if self.process.is_parent() {
            // A forked child must not lock the table. It gets a `Held` without a slot: its transaction cannot
            // be committed.
            return Held { table: self.clone(), slot: 0, generation: 0, target: PhantomData };
        }
        let mut table = self.slots.lock();
        let state = if published { HeldState::Published } else { HeldState::Pending };
        let slot = table.free.pop().unwrap_or_else(|| {
            let slot = u32::try_from(table.slots.len()).expect("a root has no more than 2^32 held pointers");
            table.slots.push(HeldSlot { addr: 0, generation: 0, references: 0, state, by_snapshot: false });
            slot
        });
        let entry = &mut table.slots[slot as usize];
        let generation = entry.generation.wrapping_add(1);
        *entry = HeldSlot { addr, generation, references: 1, state, by_snapshot: published };
        Held { table: self.clone(), slot, generation, target: PhantomData }
    }

    /// Sets the heap that the table belongs to, unless it is set.
    pub(crate) fn set_heap<H: Send + Sync + 'static>(&self, heap: &Arc<H>) {
        self.heap.get_or_init(|| Arc::<H>::downgrade(heap));
    }

    /// Returns the heap that the table belongs to, as long as that heap exists; `None` before
    /// [`set_heap`](Self::set_heap).
    pub(crate) fn heap<H: Send + Sync + 'static>(&self) -> Option<Arc<H>> {
        self.heap.get()?.upgrade()?.downcast().ok()
    }

    /// Publishes the pointers that a transaction has made, in the slots `made`, or invalidates them if the
    /// transaction, or the nested part that made them, was rolled back.
    pub(crate) fn end_transaction(&self, made: &mut Vec<u32>, committed: bool) {
        let mut table = self.slots.lock();
        for slot in made.drain(..) {
            let slot = &mut table.slots[slot as usize];
            // `made` has a slot twice if the transaction has dropped its pointer there, and has then made
            // another one in the same slot.
            if slot.state == HeldState::Pending {
                slot.state = if committed { HeldState::Published } else { HeldState::Dead };
            }
        }
    }

    /// Calls `visit` with the address of each published pointer that is still held.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(usize)) {
        let table = self.slots.lock();
        table
            .slots
            .iter()
            .filter(|slot| slot.references > 0 && slot.state == HeldState::Published)
            .for_each(|slot| visit(slot.addr));
    }

    /// Whether any pointer is held. The lock of the versions makes this wait for threads that have found a
    /// durable version and are about to hold it.
    pub(crate) fn is_used(&self) -> bool {
        let _versions = self.versions.lock();
        self.slots.lock().slots.iter().any(|slot| slot.references > 0)
    }

    /// Returns the number of pointers that programs hold (copies of one count once), and the number of
    /// snapshots. `others` is the number of further references to the table.
    pub(crate) fn holders(self: &Arc<Self>, others: usize) -> (usize, usize) {
        // SURVIVES unreached: no program of the crash lab asks for the holders of a heap.
        let table = self.slots.lock();
        let held = table.slots.iter().filter(|slot| slot.references > 0 && !slot.by_snapshot).count();
        // Each `Held` has a reference to the table, and a snapshot has another one without a `Held`.
        let references: u64 = table.slots.iter().map(|slot| slot.references).sum();
        let snapshots = (Arc::strong_count(self) - others) as u64;
        (held, snapshots.saturating_sub(references) as usize)
    }

    /// Records the version of the root after a transaction; see [`RootVersions::add_version`].
    pub(crate) fn note_version(&self, new: RootVersion, ends: &[u64]) {
        self.versions.lock().add_version(new, ends);
    }

    /// Calls `change` with the versions locked, so that no other thread asks for one meanwhile.
    pub(crate) fn change_versions(&self, change: impl FnOnce(&mut RootVersions)) {
        change(&mut self.versions.lock());
    }

    /// Returns the newest durable version of the root, if there is one, and a pointer that holds its top
    /// object, if it has one.
    pub(crate) fn durable_version(
        self: &Arc<Self>,
        durable_end: impl FnOnce() -> u64,
    ) -> Option<(RootVersion, Option<Held<u8>>)> {
        let versions = self.versions.lock();
        // The durable end is read with the versions locked. Otherwise a collection could begin after the
        // reading, with a later durable end, and not keep the older version that is found here.
        let durable = versions.durable(durable_end())?;
        // The top is held before the versions are unlocked, because another thread may then forget this
        // version.
        Some((*durable, durable.top().map(|top| self.hold(top, true))))
    }

    /// Calls `visit` with the address of the top of each version that a thread may ask for.
    pub(crate) fn for_each_version(&self, durable_end: impl FnOnce() -> u64, visit: impl FnMut(usize)) {
        let versions = self.versions.lock();
        versions.wanted(durable_end()).filter_map(RootVersion::top).for_each(visit);
    }

    /// Returns the address of the object that `held` holds, if `held` is of this table. A pointer that the
    /// open transaction has made is valid only if the caller is that transaction (`in_transaction`).
    pub(crate) fn get<T: Pointee + ?Sized>(&self, held: &Held<T>, in_transaction: bool) -> Result<usize> {
        if !std::ptr::eq(self, Arc::as_ptr(&held.table)) {
            return Err(Error::NotHeld);
        }
        self.process.check()?;
        let table = self.slots.lock();
        let slot = table.slots[held.slot as usize];
        let is_there =
            slot.state == HeldState::Published || slot.state == HeldState::Pending && in_transaction;
        if slot.generation != held.generation || !is_there {
            return Err(Error::NotHeld);
        }
        Ok(slot.addr)
    }
}

impl<T: Pointee + ?Sized> Held<T> {
    pub(crate) fn table_slot(&self) -> u32 {
        self.slot
    }
}

impl<T: Pointee + ?Sized> Clone for Held<T> {
    fn clone(&self) -> Self {
        if !self.table.process.is_parent() {
            self.table.slots.lock().slots[self.slot as usize].references += 1;
        }
        Held { table: self.table.clone(), ..*self }
    }
}

impl<T: Pointee + ?Sized> Drop for Held<T> {
    fn drop(&mut self) {
        if self.table.process.is_parent() {
            return;
        }
        let mut table = self.table.slots.lock();
        table.slots[self.slot as usize].references -= 1;
        if mistake(Mistake::LetGoTwice) {
            MutexGuard::unlocked(&mut table, || {});
        }
        let slot = &mut table.slots[self.slot as usize];
        if slot.references == 0 {
            slot.state = HeldState::Dead;
            table.free.push(self.slot);
        }
    }
}

impl<T: Pointee + ?Sized> std::fmt::Debug for Held<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").field("slot", &self.slot).field("generation", &self.generation).finish()
    }
}

#[cfg(all(test, not(pheap_loom)))]
pub(crate) mod tests {
    use super::*;

    /// Locks the versions and the slots.
    pub(crate) fn lock_table(table: &HeldTable) -> impl Sized + '_ {
        (table.versions.lock(), table.slots.lock())
    }

    /// The count that this test sets stands for a program that has cloned a held pointer 2^32 times, and has
    /// passed the clones to `mem::forget`. That is safe code.
    #[test]
    fn more_copies_than_fit_into_half_a_word() {
        let table: Arc<HeldTable> = Arc::default();
        let held: Held<u64> = table.hold(8, true);
        table.slots.lock().slots[0].references = u64::from(u32::MAX);
        drop(held.clone());
        let copies = [held.clone(), held.clone()];
        drop(copies);
        let mut found = Vec::new();
        table.for_each(|addr| found.push(addr));
        assert_eq!(found, [8]);
        assert_eq!(table.get(&held, false).unwrap(), 8);
        let other: Held<u64> = table.hold(16, true);
        assert_ne!(other.table_slot(), held.table_slot());
        assert_eq!(table.get(&held, false).unwrap(), 8);
    }
}
