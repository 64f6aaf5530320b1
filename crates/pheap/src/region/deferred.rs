//! Transactions that wait for no disk, and what reads wait for, once they have let go of the region.

use super::{Exclusive, Group, Region, Shared, guard};
use crate::error::Result;
use crate::store::Store;

impl Exclusive<'_> {
    /// [`commit`](Exclusive::commit), without waiting for a sync. With a write-ahead log: the position behind the record.
    #[inline(always)]
    pub(crate) fn commit_deferred(&mut self) -> Result<u64> {
        self.commit_then(|_| {}, |store, position| Ok(store.hand_over(position)))
    }
}

impl Group<'_> {
    /// [`commit`](Group::commit), as for [one region](Exclusive::commit_deferred).
    pub(crate) fn commit_deferred(&mut self) -> Result<u64> {
        self.commit_then(|store, position| Ok(store.hand_over(position)))
    }
}

impl Region {
    /// Notes what a read sees that has just begun.
    #[inline(never)] // reads without a log need the registers
    pub(super) fn note_seen(&self, store: &Store) {
        guard::note_seen(store.id(), self.counters.position.get());
    }
}

impl Shared<'_> {
    /// Lets go of the region, and then waits until what was seen may be told to others, unless the read that this one is nested in waits for that.
    #[inline(always)]
    pub(crate) fn finish(self) -> Result<()> {
        if self.store.wal().is_none() {
            return Ok(());
        }
        self.let_go_and_wait()
    }

    #[inline(never)] // as above
    fn let_go_and_wait(self) -> Result<()> {
        let store = self.store;
        let (seen, waits_later) = guard::seen(store.id());
        drop(self);
        if waits_later { Ok(()) } else { store.acknowledge(seen) }
    }

    /// Lets go of the region. With a write-ahead log: the position behind all that was seen.
    pub(crate) fn defer(self) -> u64 {
        if self.store.wal().is_some() { guard::seen(self.store.id()).0 } else { 0 }
    }
}
