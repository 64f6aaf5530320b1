//! All regions of a heap at once, for whoever wants to see the heap while nobody changes it.

use std::sync::Arc;

use super::guard::{self, Scope};
use super::{Beside, Region};
use crate::alloc::span::ObjectSpan;
use crate::error::Result;
use crate::store::Store;

/// Regions in which there is no transaction: they wait, reads go on.
pub(crate) struct SharedAll<'a> {
    store: &'a Store,
    locked: Vec<Beside<Arc<Region>>>,
}

impl<'a> SharedAll<'a> {
    /// Waits for each of the regions until no transaction has it. They are one scope of this thread, however many they are.
    ///
    /// The caller keeps roots from being created and removed, and is not inside of the heap: who waits for regions while others may wait
    /// for his could wait for ever.
    pub(crate) fn begin(store: &'a Store, regions: Vec<Arc<Region>>) -> Result<SharedAll<'a>> {
        store.check_open()?;
        guard::enter(store.id(), Scope::Read)?;
        // A transaction never waits for a second root while it has one, so each of these ends.
        // Also of the first one: whoever calls this keeps others from creating roots, and these may have a region of another heap. Besides, no two of
        // them overlap.
        let mut all = SharedAll { store, locked: Vec::with_capacity(regions.len()) };
        for region in regions {
            all.locked.push(Beside::lock(region, true).map_err(|_| store.set_unfenced())?);
        }
        // A transaction that was waited for may have left its root as only the next opening can make it whole.
        store.check_open()?;
        // As a read does: nothing is shown that may be lost.
        store.check_log()?;
        store.acknowledge_all()?;
        Ok(all)
    }
}

impl SharedAll<'_> {
    /// Tells whether the allocators take the slot at a heap offset for one that holds an object. `None` for what is in no span of theirs, or
    /// as long as they do not know.
    pub(crate) fn is_live(&self) -> impl Fn(u64) -> Option<bool> + '_ {
        let contexts = self.locked.iter().filter_map(Beside::context);
        let spans = contexts.flat_map(|context| context.alloc.spans.iter());
        // With their offsets, so that a search of them looks at nothing else.
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
            std::mem::forget(locked); // a forked child leaves the locks to the parent
        } else {
            drop(locked);
        }
        guard::leave(self.store.id());
    }
}
