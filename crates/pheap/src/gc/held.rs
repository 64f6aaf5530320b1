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

/// A pointer that outlives its transaction, without the brand. [`Txn::hold`](crate::Txn::hold) makes it, and
/// [`View::get`](crate::View::get) turns it into a [`P`](crate::P) again, in the same transaction, or in a
/// later transaction on the same root or read of it.
///
/// It belongs to one open heap and keeps its object alive there; it cannot be stored in a heap. If the
/// transaction that made it, or the nested part of it, was rolled back, it is invalid: `get` fails.
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
    /// Accesses to held objects without the lock of the region.
    pub(crate) accesses: Accesses,
    /// The heap, for holders that keep it open. Set from the first handle of the root on.
    heap: OnceLock<Weak<dyn Any + Send + Sync>>,
    /// The process that the table belongs to. In a child, its locks may stay locked for ever.
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
    /// table, too, and an `Arc` ends the program before it has 2^63.
    references: u64,
    state: HeldState,
    /// Whether a snapshot holds it.
    by_snapshot: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeldState {
    /// The open transaction has made it.
    Pending,
    Published,
    /// A transaction, or a part of one, that was rolled back has made it, or no `Held` refers to it any more.
    Dead,
}

impl HeldTable {
    /// Holds the object at `addr`. If `published`, the pointer counts at once, and belongs to a snapshot;
    /// otherwise it counts once its transaction has been committed.
    pub(crate) fn hold<T: Pointee + ?Sized>(self: &Arc<Self>, addr: usize, published: bool) -> Held<T> {
        if self.process.is_parent() {
            // In a child the transaction cannot be committed.
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

    /// Returns the heap that the table belongs to, as long as it exists. `None` before it was set.
    pub(crate) fn heap<H: Send + Sync + 'static>(&self) -> Option<Arc<H>> {
        self.heap.get()?.upgrade()?.downcast().ok()
    }

    /// Publishes the pointers that a transaction has made, or invalidates them if it was not committed.
    pub(crate) fn end_transaction(&self, made: &mut Vec<u32>, committed: bool) {
        let mut table = self.slots.lock();
        for slot in made.drain(..) {
            let slot = &mut table.slots[slot as usize];
            // The list has a slot twice if it was released, and taken again by this transaction.
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
        // SURVIVES unreached: no program of the lab asks for the holders of a heap.
        let table = self.slots.lock();
        let held = table.slots.iter().filter(|slot| slot.references > 0 && !slot.by_snapshot).count();
        // Each held pointer has a reference to the table. A snapshot has one more.
        let references: u64 = table.slots.iter().map(|slot| slot.references).sum();
        let snapshots = (Arc::strong_count(self) - others) as u64;
        (held, snapshots.saturating_sub(references) as usize)
    }

    /// Records the version of the root after a transaction; see [`RootVersions::add_version`].
    pub(crate) fn note_version(&self, new: RootVersion, ends: &[u64]) {
        self.versions.lock().add_version(new, ends);
    }

    /// Changes the versions, while no thread asks for one.
    pub(crate) fn change_versions(&self, change: impl FnOnce(&mut RootVersions)) {
        change(&mut self.versions.lock());
    }

    /// Returns the newest durable version, if there is one, and a pointer that holds its top.
    pub(crate) fn durable_version(
        self: &Arc<Self>,
        durable_end: impl FnOnce() -> u64,
    ) -> Option<(RootVersion, Option<Held<u8>>)> {
        let versions = self.versions.lock();
        // Read under the lock: otherwise a collection could begin in between, and no longer want the older
        // version that was found.
        let durable = versions.durable(durable_end())?;
        // Held before the version can be forgotten.
        Some((*durable, durable.top().map(|top| self.hold(top, true))))
    }

    /// Calls `visit` with the address of the top of each version that a thread may ask for.
    pub(crate) fn for_each_version(&self, durable_end: impl FnOnce() -> u64, visit: impl FnMut(usize)) {
        let versions = self.versions.lock();
        versions.wanted(durable_end()).filter_map(RootVersion::top).for_each(visit);
    }

    /// Returns the address of the object that `held` holds, if it is of this table. Only the open transaction
    /// gets a pointer that it has made itself.
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

    /// Stands for a program that has copied the pointer so often and forgotten the copies. That is safe code.
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
