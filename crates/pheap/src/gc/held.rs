//! Pointers that are kept between transactions.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock, Weak};

use super::accesses::Accesses;
use super::versions::{Version, Versions};
use crate::error::{Error, Result};
use crate::layout::Pointee;
use crate::os::fork::Process;
use crate::sync::{Mistake, Mutex, MutexGuard, mistake};

#[cfg(all(test, pheap_loom))]
mod model;

/// A pointer that outlives its transaction, without the brand: made by [`Txn::hold`](crate::Txn::hold), turned into a [`P`](crate::P)
/// again by [`View::get`](crate::View::get) in a later transaction on the same root.
///
/// It belongs to one open heap and keeps its object alive there; it cannot be stored in a heap. If the transaction that made it was rolled
/// back, it is invalid: `get` fails.
pub struct Held<T: Pointee + ?Sized> {
    table: Arc<HeldTable>,
    slot: u32,
    generation: u32,
    target: PhantomData<fn() -> *mut T>,
}

/// What a region's held pointers point to.
#[derive(Default)]
pub(crate) struct HeldTable {
    slots: Mutex<Slots>,
    /// Versions of the root that are kept. Locked before `slots`.
    versions: Mutex<Versions>,
    /// Who looks at what is held, without the lock of the region.
    pub(crate) accesses: Accesses,
    /// The heap, for those who are to keep it open. There from the first handle of the root on.
    heap: OnceLock<Weak<dyn Any + Send + Sync>>,
    /// To which it belongs. In children, it may be locked for ever.
    pub(crate) process: Process,
}

#[derive(Debug, Default)]
struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    addr: usize,
    generation: u32,
    /// `Held`s that refer to it. As many as there can be: each has a reference to the table as well, and these stop the program before they are 2^63.
    references: u64,
    state: State,
    /// Whether a snapshot holds it.
    by_snapshot: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Made by the open transaction.
    Pending,
    Published,
    /// Made by one that was rolled back.
    Dead,
}

impl HeldTable {
    /// Holds the object at `addr`: for a snapshot, if it is `published` at once; else it counts only once its transaction has been committed.
    pub(crate) fn hold<T: Pointee + ?Sized>(self: &Arc<Self>, addr: usize, published: bool) -> Held<T> {
        if self.process.is_parent() {
            // Its transaction cannot be committed here.
            return Held { table: self.clone(), slot: 0, generation: 0, target: PhantomData };
        }
        let mut table = self.slots.lock();
        let state = if published { State::Published } else { State::Pending };
        let slot = table.free.pop().unwrap_or_else(|| {
            let slot = u32::try_from(table.slots.len()).expect("a root has no more than 2^32 held pointers");
            table.slots.push(Slot { addr: 0, generation: 0, references: 0, state, by_snapshot: false });
            slot
        });
        let entry = &mut table.slots[slot as usize];
        let generation = entry.generation.wrapping_add(1);
        *entry = Slot { addr, generation, references: 1, state, by_snapshot: published };
        Held { table: self.clone(), slot, generation, target: PhantomData }
    }

    /// Says which heap it belongs to.
    pub(crate) fn set_heap<H: Send + Sync + 'static>(&self, heap: &Arc<H>) {
        self.heap.get_or_init(|| Arc::<H>::downgrade(heap));
    }

    /// The heap that it belongs to, as long as that is open.
    pub(crate) fn heap<H: Send + Sync + 'static>(&self) -> Option<Arc<H>> {
        self.heap.get()?.upgrade()?.downcast().ok()
    }

    /// Publishes (or kills) what a transaction has made.
    pub(crate) fn end_transaction(&self, made: &mut Vec<u32>, committed: bool) {
        let mut table = self.slots.lock();
        for slot in made.drain(..) {
            let slot = &mut table.slots[slot as usize];
            // A slot that was given up again, and perhaps taken anew by this transaction, is in the list twice.
            if slot.state == State::Pending {
                slot.state = if committed { State::Published } else { State::Dead };
            }
        }
    }

    /// Calls `visit` with the address of each object that is held.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(usize)) {
        let table = self.slots.lock();
        table
            .slots
            .iter()
            .filter(|slot| slot.references > 0 && slot.state == State::Published)
            .for_each(|slot| visit(slot.addr));
    }

    /// Whether anything is held, by now also by who has found a version durable that is so no more.
    pub(crate) fn is_used(&self) -> bool {
        let _versions = self.versions.lock();
        self.slots.lock().slots.iter().any(|slot| slot.references > 0)
    }

    /// How many objects programs hold, and how many snapshots there are. So many `others` refer to the table.
    pub(crate) fn holders(self: &Arc<Self>, others: usize) -> (usize, usize) {
        // SURVIVES unreached: no program of the lab asks who has a heap.
        let table = self.slots.lock();
        let held = table.slots.iter().filter(|slot| slot.references > 0 && !slot.by_snapshot).count();
        // Each has a reference to the table; and so has a snapshot besides that.
        let references: u64 = table.slots.iter().map(|slot| slot.references).sum();
        let snapshots = (Arc::strong_count(self) - others) as u64;
        (held, snapshots.saturating_sub(references) as usize)
    }

    /// Notes what a transaction has left; see [`Versions::note`].
    pub(crate) fn note_version(&self, new: Version, ends: &[u64]) {
        self.versions.lock().note(new, ends);
    }

    /// Changes them, while nobody asks for one.
    pub(crate) fn change_versions(&self, change: impl FnOnce(&mut Versions)) {
        change(&mut self.versions.lock());
    }

    /// The newest version that is durable, if there is one, and what holds it.
    pub(crate) fn durable_version(
        self: &Arc<Self>,
        durable_end: impl FnOnce() -> u64,
    ) -> Option<(Version, Option<Held<u8>>)> {
        let versions = self.versions.lock();
        // Not before the lock: a collection that has begun meanwhile may have found an older one unwanted.
        let durable = versions.durable(durable_end())?;
        // Held before the version can be forgotten.
        Some((*durable, durable.top().map(|top| self.hold(top, true))))
    }

    /// Calls `visit` with the address of the top of each version that may be asked for.
    pub(crate) fn for_each_version(&self, durable_end: impl FnOnce() -> u64, visit: impl FnMut(usize)) {
        let versions = self.versions.lock();
        versions.wanted(durable_end()).filter_map(Version::top).for_each(visit);
    }

    /// The address that `held` stands for, if it is of this table. What the open transaction has made only that itself may have.
    pub(crate) fn get<T: Pointee + ?Sized>(&self, held: &Held<T>, in_transaction: bool) -> Result<usize> {
        if !std::ptr::eq(self, Arc::as_ptr(&held.table)) {
            return Err(Error::NotHeld);
        }
        self.process.check()?;
        let table = self.slots.lock();
        let slot = table.slots[held.slot as usize];
        let is_there = slot.state == State::Published || slot.state == State::Pending && in_transaction;
        if slot.generation != held.generation || !is_there {
            return Err(Error::NotHeld);
        }
        Ok(slot.addr)
    }
}

impl<T: Pointee + ?Sized> Held<T> {
    pub(crate) fn slot(&self) -> u32 {
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
            slot.state = State::Dead;
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

    /// Locks what there is.
    pub(crate) fn lock_table(table: &HeldTable) -> impl Sized + '_ {
        (table.versions.lock(), table.slots.lock())
    }

    /// As if a program had copied the pointer so often and forgotten the copies, which is safe, and takes a minute.
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
        assert_ne!(other.slot(), held.slot());
        assert_eq!(table.get(&held, false).unwrap(), 8);
    }
}
