//! Collects a region between its transactions: in the background thread for marking, and in threads that call
//! `Heap::collect`, `Heap::wait_ready` or `Root::collect`.

use std::time::Instant;

use super::{IdleRegion, Region, guard};
use crate::gc::{CollectionStage, SLICE};
use crate::store::Store;
use crate::txn::context::Context;

/// A region that a slice of marking has locked, while readers may be inside. If a panic interrupts the slice,
/// the state of the region is uncertain, so its heap fails.
struct CollectedRegion<'a> {
    region: IdleRegion<&'a Region>,
    is_finished: bool,
}

impl Drop for CollectedRegion<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.region.region.fail();
        }
    }
}

impl Region {
    /// Does a slice of marking. Readers and other threads that mark may run at the same time. If the system
    /// refuses the fence, the heap fails, and this returns `Idle`.
    pub(crate) fn mark_beside_readers(&self, store: &Store) -> CollectionStage {
        let Ok(region) = IdleRegion::lock(self, guard::is_inside_any()) else {
            store.set_unfenced();
            return CollectionStage::Idle;
        };
        let mut locked = CollectedRegion { region, is_finished: false };
        let start = Instant::now();
        let stage = locked.region.context().map_or(CollectionStage::Idle, |context| {
            let stage = context.gc.mark_shared(&context.alloc, store, start + SLICE);
            if stage != CollectionStage::Idle {
                context.gc.pause(start.elapsed());
            }
            stage
        });
        locked.is_finished = true;
        stage
    }

    /// Waits for the region's lock, and runs `work`. Readers may be inside. Returns `None` if the region is
    /// gone, or if the system refuses the fence (then the heap fails). The calling thread is not inside a
    /// transaction or read of the heap.
    fn in_turn<R>(&self, store: &Store, work: impl FnOnce(&mut Context) -> R) -> Option<R> {
        self.access().gate.pass(guard::is_inside_any);
        let exclusive = self.lock_alone(store).ok()?;
        let result = (!self.is_gone()).then(|| work(exclusive.context()));
        exclusive.ended();
        result
    }

    /// Does a slice of the collection's next work, with the region locked. Returns whether a cycle is still
    /// running; `false` also if the region is gone or cannot be locked.
    pub(crate) fn collect_alone(&self, store: &Store) -> bool {
        let slice = |context: &mut Context| {
            if context.gc.is_idle() {
                return false;
            }
            context.slice(u64::MAX, SLICE);
            !context.gc.is_idle()
        };
        self.in_turn(store, slice).unwrap_or(false)
    }

    /// Begins a full cycle, unless a cycle is running. Returns whether this call has begun one; `None` if the
    /// region is gone or cannot be locked.
    pub(crate) fn begin_cycle(&self, store: &Store) -> Option<bool> {
        self.in_turn(store, |context| {
            context.upgrade(); // a cycle begins while no thread reads; see `Context::assess`
            context.gc.begin_full(&mut context.alloc, store)
        })
    }

    /// Whether the collector is still finding the live slots of a heap that was opened; `false` also if the
    /// region is gone or cannot be locked.
    pub(crate) fn is_opening(&self, store: &Store) -> bool {
        self.in_turn(store, |context| context.gc.is_opening()).unwrap_or(false)
    }

    /// Returns the bytes of all spans of the region's objects; 0 if the region is gone or cannot be locked.
    pub(crate) fn span_bytes(&self, store: &Store) -> u64 {
        self.in_turn(store, |context| context.alloc.spans.iter().map(|span| span.bytes).sum()).unwrap_or(0)
    }
}
