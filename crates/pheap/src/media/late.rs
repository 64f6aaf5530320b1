//! What a [mutant](crate::faults::mutant) makes of a flush, a fence or a log entry: nothing, or the same a little later.

use std::cell::{Cell, RefCell};
use std::panic::Location;

use crate::faults::mutant::{Kind, Mutation, is_dropped, reached};
use crate::media::{Media, Medium};

/// What is late on a medium.
#[derive(Debug, Default)]
pub(crate) struct Late {
    /// Comes after the next fence: addresses and lengths.
    flushes: RefCell<Vec<(usize, usize)>>,
    /// Comes after the next flush.
    fence: Cell<bool>,
    /// What is appended next is flushed after the next fence.
    append: Cell<bool>,
}

type Place = &'static Location<'static>;

impl Media {
    /// Whether a flush is not to take place now.
    pub(in crate::media) fn keeps_from_flushing(&self, addr: *const u8, len: usize, place: Place) -> bool {
        let kind = match &self.medium {
            Medium::Sim(_) => Kind::Flush,
            Medium::Wal(_) => Kind::LogEntry,
            Medium::Process | Medium::Pmem(_) | Medium::Synced(_) => return false,
        };
        let mutation = reached(kind, place);
        if mutation == Some(Mutation::Delay) {
            self.late.flushes.borrow_mut().push((addr.addr(), len));
        }
        mutation.is_some()
    }

    /// Whether a fence is not to take place now.
    pub(in crate::media) fn keeps_from_fencing(&self, place: Place) -> bool {
        let mutation = match &self.medium {
            Medium::Sim(_) => reached(Kind::Fence, place),
            Medium::Synced(_) => reached(Kind::FileSync, place),
            Medium::Wal(_) => return self.keeps_from_recording(place),
            Medium::Process | Medium::Pmem(_) => return false,
        };
        if mutation == Some(Mutation::Delay) {
            self.late.fence.set(true);
        }
        mutation.is_some()
    }

    /// Whether what was noted is not to be recorded now. A late record is part of the next one.
    pub(in crate::media) fn keeps_from_recording(&self, place: Place) -> bool {
        if self.noted.borrow().is_empty() {
            return false;
        }
        let mutation = reached(Kind::LogEntry, place);
        if mutation == Some(Mutation::Drop) {
            self.noted.borrow_mut().clear();
        }
        mutation.is_some()
    }

    /// A flush has taken place.
    pub(in crate::media) fn has_flushed(&self) {
        if self.late.fence.take() {
            self.fence_now();
        }
    }

    /// A fence has taken place.
    pub(in crate::media) fn has_fenced(&self) {
        self.late.fence.set(false);
        let late = self.late.flushes.take();
        late.into_iter().for_each(|(addr, len)| self.flush_now(std::ptr::with_exposed_provenance(addr), len));
    }

    /// Whether a log entry is to be left out. If it is late instead, [`appends_late`](Self::appends_late) will say so.
    pub(crate) fn drops_entry(&self, place: Place) -> bool {
        if self.wal().is_some() {
            // It is for rollback only.
            return is_dropped(Kind::LogEntry, place);
        }
        let mutation = reached(Kind::LogEntry, place);
        self.late.append.set(mutation == Some(Mutation::Delay));
        mutation == Some(Mutation::Drop)
    }

    /// Whether what is being appended is not to be flushed now.
    pub(in crate::media) fn appends_late(&self, addr: *const u8, len: usize) -> bool {
        let late = self.late.append.take();
        if late {
            self.late.flushes.borrow_mut().push((addr.expose_provenance(), len));
        }
        late
    }
}
