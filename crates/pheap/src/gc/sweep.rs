//! Sweeping: slots that were not marked become free.

use std::time::Instant;

use super::{CollectionPhase, Collector, SLICE_WORK};
use crate::alloc::{Allocator, SweptSpan};
use crate::media::Media;
use crate::store::Store;

/// Number of spans that are swept between two looks at the clock.
const SPANS_AT_A_TIME: u32 = 32;

impl Collector {
    /// Ends marking, and begins the sweep, which frees slots that are not marked. The caller has made sure
    /// that no redo record in the region's log names such a slot.
    pub(crate) fn begin_sweep(&mut self, alloc: &mut Allocator) {
        alloc.collecting = false;
        // All pointers in marked objects lead to marked objects now. Lines that are written from here on are
        // noted for the next minor cycle.
        self.remembered.start();
        self.phase = CollectionPhase::Sweeping { next: 0, end: alloc.spans.end_number() };
    }

    /// Sweeps spans until about `deadline`, or all that are left if it is `None`; only one span in tests with
    /// a small `least`. Ends the cycle after the last span.
    pub(crate) fn sweep(
        &mut self,
        alloc: &mut Allocator,
        store: &Store,
        media: &Media,
        deadline: Option<Instant>,
    ) {
        let CollectionPhase::Sweeping { mut next, end } = self.phase else { return };
        let is_short = self.pace.least < SLICE_WORK;
        let at_a_time = if is_short { 1 } else { SPANS_AT_A_TIME };
        let mut empty = Vec::new();
        while next < end {
            let until = end.min(next + at_a_time);
            for number in next..until {
                if let SweptSpan::Empty(span) = alloc.sweep(store, number) {
                    empty.push(span);
                }
            }
            next = until;
            if is_short || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break;
            }
        }
        if !empty.is_empty() {
            alloc.unlist_removed();
            store.free_object_spans(media, &empty);
        }
        self.phase = CollectionPhase::Sweeping { next, end };
        if next == end {
            self.end_cycle(alloc, store);
        }
    }
}
