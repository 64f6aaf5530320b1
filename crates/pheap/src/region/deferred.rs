//! Transactions that do not wait for the disk, and the waits of reads for the disk after they have released
//! the region.

use super::{Exclusive, Region, RegionGroup, SharedRegion, guard};
use crate::error::Result;
use crate::store::Store;

impl Exclusive<'_> {
    /// [`commit`](Exclusive::commit) without waiting for a sync. Returns the position in the log up to which
    /// a caller must wait; 0 without a write-ahead log.
    #[inline(always)]
    pub(crate) fn commit_deferred(&mut self) -> Result<u64> {
        self.commit_then(|_| {}, |store, position| Ok(store.hand_over(position)))
    }
}

impl RegionGroup<'_> {
    /// [`commit`](RegionGroup::commit) without waiting for a sync, as for [one
    /// region](Exclusive::commit_deferred).
    pub(crate) fn commit_deferred(&mut self) -> Result<u64> {
        self.commit_then(|store, position| Ok(store.hand_over(position)))
    }
}

impl Region {
    /// Notes the position up to which a read, which has just begun, sees the log.
    #[inline(never)] // reads without a log need the registers
    pub(super) fn note_seen(&self, store: &Store) {
        guard::note_seen(store.id(), self.counters.position.get());
    }
}

impl SharedRegion<'_> {
    /// Releases the region, and then waits until everything that the read has seen is acknowledged. If this
    /// read is nested in a read of the same heap, with no transaction in between, it does not wait: the outer
    /// read has the position of this read, too, and waits for it.
    #[inline(always)]
    pub(crate) fn wait_for_seen(self) -> Result<()> {
        if self.store.wal().is_none() {
            return Ok(());
        }
        self.let_go_and_wait()
    }

    #[inline(never)] // reads without a log need the registers
    fn let_go_and_wait(self) -> Result<()> {
        let store = self.store;
        let (seen, waits_later) = guard::newest_read_position(store.id());
        drop(self);
        if waits_later { Ok(()) } else { store.acknowledge(seen) }
    }

    /// Releases the region. Returns the position in the log up to which the read has seen records; 0 without
    /// a write-ahead log.
    pub(crate) fn defer(self) -> u64 {
        if self.store.wal().is_some() { guard::newest_read_position(self.store.id()).0 } else { 0 }
    }
}
