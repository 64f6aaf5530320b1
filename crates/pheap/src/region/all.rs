//! All regions of a heap at once, for callers that look at the heap while no transaction is open.

use std::sync::Arc;

use super::guard::{self, Scope};
use super::{IdleRegion, Region};
use crate::alloc::span::ObjectSpan;
use crate::error::Result;
use crate::store::Store;

/// All regions of a heap, locked so that none has an open transaction. Transactions wait; reads continue.
pub(crate) struct SharedAll<'a> {
    store: &'a Store,
    locked: Vec<IdleRegion<Arc<Region>>>,
}

impl<'a> SharedAll<'a> {
    /// Waits for each of the regions until it has no transaction, and then until all commits are
    /// acknowledged. However many regions there are, they count as one scope of this thread.
    ///
    /// The caller prevents roots from being created and removed, and is not inside a transaction or read of
    /// the heap: a thread that waits for regions while others may wait for its own region could wait for
    /// ever.
    pub(crate) fn begin_reads(store: &'a Store, regions: Vec<Arc<Region>>) -> Result<SharedAll<'a>> {
        store.check_open()?;
        guard::enter(store.id(), Scope::Read)?;
        // A transaction never waits for a second root of this heap while it has one, so it ends without this
        // thread.
        // This thread overtakes waiting writers also at the first region: the caller keeps other threads from
        // creating roots, and these threads may have a region of another heap. No two callers overlap, so
        // writers cannot be overtaken for ever.
        let mut all = SharedAll { store, locked: Vec::with_capacity(regions.len()) };
        for region in regions {
            all.locked.push(IdleRegion::lock(region, true).map_err(|_| store.set_unfenced())?);
        }
        // A transaction that held a region before this thread may have panicked, and left its root in a state
        // that only the next opening repairs.
        store.check_open()?;
        // Like a read, a look at all regions shows only commits that are acknowledged.
        store.check_log()?;
        store.acknowledge_all()?;
        Ok(all)
    }
}

impl SharedAll<'_> {
    /// Returns a function that tells whether the allocators count the slot at a heap offset as taken by an
    /// object. It returns `None` for an offset outside their spans, and as long as the live slots are not
    /// known.
    pub(crate) fn is_live(&self) -> impl Fn(u64) -> Option<bool> + '_ {
        let contexts = self.locked.iter().filter_map(IdleRegion::context);
        let spans = contexts.flat_map(|context| context.alloc.spans.iter());
        // The list has the offsets of the spans, so that a search reads only this list.
        let mut spans: Vec<(u64, &ObjectSpan)> = spans.map(|span| (span.span.offset, span)).collect();
        spans.sort_unstable_by_key(|&(offset, _)| offset);
        move |offset| {
            let after = spans.partition_point(|&(start, _)| start <= offset);
            let (_, span) = spans.get(after.checked_sub(1)?)?;
            let slot = span.slot_of(offset)? as usize;
            (!span.live.is_empty()).then(|| span.live.test(slot))
        }
    }
}

impl Drop for SharedAll<'_> {
    fn drop(&mut self) {
        let locked = std::mem::take(&mut self.locked);
        if self.store.is_forked() {
            std::mem::forget(locked); // the locks belong to the parent of a forked child
        } else {
            drop(locked);
        }
        guard::leave(self.store.id());
    }
}
