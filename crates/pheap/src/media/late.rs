//! Drops or delays a flush, a fence or a log entry, as a [mutant](crate::faults::mutant) of the crash lab
//! asks for it.

use std::cell::{Cell, RefCell};

use crate::faults::{Kind, Lab, Mutation, is_left_out, mutation};
use crate::media::{Media, Medium};

/// The delayed events of a medium: flushes, a fence, an append. Outside the crash lab there are none.
#[derive(Debug)]
pub(crate) struct DelayedEvents(Option<(DelayedState, Lab)>);

#[derive(Debug, Default)]
struct DelayedState {
    /// Addresses and lengths of delayed flushes, which come after the next fence.
    flushes: RefCell<Vec<(usize, usize)>>,
    /// Whether a delayed fence comes after the next flush, unless another fence comes first.
    fence: Cell<bool>,
    /// Whether the next append to a log is flushed only after the next fence.
    append: Cell<bool>,
}

impl DelayedEvents {
    pub(crate) fn new() -> DelayedEvents {
        DelayedEvents(Lab::here().map(|lab| (DelayedState::default(), lab)))
    }
}

impl Media {
    /// Returns whether a flush is not to take place now, because a mutant drops or delays it. A delayed flush
    /// is kept for later.
    #[inline(always)]
    #[track_caller]
    pub(in crate::media) fn keeps_from_flushing(&self, addr: *const u8, len: usize) -> bool {
        let Some((late, _)) = &self.late.0 else { return false };
        let mutation = match &self.medium {
            Medium::Sim(..) => mutation(Kind::Flush),
            Medium::Wal(_) => mutation(Kind::LogEntry),
            Medium::Process | Medium::Pmem(_) | Medium::Synced(_) => None,
        };
        if mutation == Some(Mutation::Delay) {
            late.flushes.borrow_mut().push((addr.addr(), len));
        }
        mutation.is_some()
    }

    /// Returns whether a fence is not to take place now, because a mutant drops or delays it. A delayed fence
    /// is kept for later.
    #[inline(always)]
    #[track_caller]
    pub(in crate::media) fn keeps_from_fencing(&self) -> bool {
        let Some((late, _)) = &self.late.0 else { return false };
        let mutation = match &self.medium {
            Medium::Sim(..) => mutation(Kind::Fence),
            Medium::Synced(_) => mutation(Kind::FileSync),
            Medium::Wal(_) => return self.keeps_from_recording(),
            Medium::Process | Medium::Pmem(_) => None,
        };
        if mutation == Some(Mutation::Delay) {
            late.fence.set(true);
        }
        mutation.is_some()
    }

    /// Returns whether the noted ranges are not to be recorded now, because a mutant drops or delays their
    /// record. If the record is delayed, the ranges become a part of the next record.
    #[inline(always)]
    #[track_caller]
    pub(in crate::media) fn keeps_from_recording(&self) -> bool {
        if Lab::here().is_none() || self.noted.borrow().is_empty() {
            return false;
        }
        let mutation = mutation(Kind::LogEntry);
        if mutation == Some(Mutation::Drop) {
            self.noted.borrow_mut().clear();
        }
        mutation.is_some()
    }

    /// Runs the delayed fence, if there is one, after a flush.
    #[inline(always)]
    pub(in crate::media) fn has_flushed(&self) {
        if self.late.0.as_ref().is_some_and(|(late, _)| late.fence.take()) {
            self.fence_now();
        }
    }

    /// Runs the delayed flushes after a fence. A delayed fence is cancelled, because this fence was another
    /// one.
    #[inline(always)]
    pub(in crate::media) fn has_fenced(&self) {
        let Some((late, _)) = &self.late.0 else { return };
        late.fence.set(false);
        let flushes = late.flushes.take();
        flushes
            .into_iter()
            .for_each(|(addr, len)| self.flush_now(std::ptr::with_exposed_provenance(addr), len));
    }

    /// Returns whether a log entry is to be left out, because a mutant drops it. If a mutant delays the
    /// entry, the next call of [`appends_late`](Self::appends_late) returns true.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn drops_entry(&self) -> bool {
        let Some((late, _)) = &self.late.0 else { return false };
        if self.wal().is_some() {
            // With a write-ahead log, the entry is an undo entry for a rollback, so it cannot be delayed.
            return is_left_out(Kind::LogEntry);
        }
        let mutation = mutation(Kind::LogEntry);
        late.append.set(mutation == Some(Mutation::Delay));
        mutation == Some(Mutation::Drop)
    }

    /// Returns whether the log entry that is being appended is not to be flushed now. If so, its flush is
    /// kept for later.
    pub(in crate::media) fn appends_late(&self, addr: *const u8, len: usize) -> bool {
        let Some((late, _)) = self.late.0.as_ref().filter(|(late, _)| late.append.take()) else {
            return false;
        };
        late.flushes.borrow_mut().push((addr.expose_provenance(), len));
        true
    }
}
