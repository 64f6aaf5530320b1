//! Sweeping: what was not marked becomes free.

use std::time::Instant;

use super::{Phase, SLICE_WORK};
use crate::faults::{Bug, bug};
use crate::region::alloc::Swept;
use crate::txn::context::{Context, Mode};

/// Spans that are swept between two looks at the clock.
const SPANS_AT_A_TIME: u32 = 32;

impl Context {
    /// Marking is finished: from here on, slots become free.
    pub(super) fn begin_sweep(&mut self) {
        // Records may name what is about to be given to others. In a long transaction there are none: it has emptied the log when it
        // became long, and what it has logged since is reachable.
        if self.mode == Mode::Short && !bug(Bug::SweepKeepsRecords) {
            self.retire_records();
        }
        self.alloc.collecting = false;
        // All old objects point to old ones now.
        self.gc.remembered.start();
        self.gc.phase = Phase::Sweeping { next: 0, end: self.alloc.spans.end() };
    }

    /// Sweeps spans until `deadline`, or all of them.
    pub(super) fn sweep(&mut self, deadline: Option<Instant>) {
        let Phase::Sweeping { mut next, end } = self.gc.phase else { return };
        let is_short = self.gc.pace.least < SLICE_WORK;
        let at_a_time = if is_short { 1 } else { SPANS_AT_A_TIME };
        let mut empty = Vec::new();
        while next < end {
            let until = end.min(next + at_a_time);
            for number in next..until {
                if let Swept::Empty(span) = self.alloc.sweep(self.store(), number) {
                    empty.push(span);
                }
            }
            next = until;
            if is_short || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break;
            }
        }
        if !empty.is_empty() {
            self.alloc.unlist_removed();
            self.store().free_object_spans(&self.media, &empty);
        }
        self.gc.phase = Phase::Sweeping { next, end };
        if next == end {
            self.end_collection();
        }
    }
}
