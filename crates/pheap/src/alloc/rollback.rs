//! Takes back the allocations of a transaction.

use super::{Allocator, NO_SPAN};
use crate::faults::{Bug, bug};
use crate::store::Store;

/// The state of a class before the open transaction.
pub(super) struct SavedClass {
    pub(super) class: u32,
    next: usize,
    end: usize,
    current: u32,
    cursor: u32,
}

impl SavedClass {
    /// Forgets a span that was removed: another span will get its number, and its pages will have another
    /// owner.
    fn forget(&mut self, span: u32) {
        if self.current == span {
            // The class had no free slot left in its run. Otherwise these slots would be marked, and the
            // sweep would not have removed the span.
            (self.current, self.cursor, self.next) = (NO_SPAN, 0, self.end);
        }
    }
}

/// Slots that the open transaction has taken, to fill them one after the other.
pub(super) struct TakenSlots {
    pub(super) span: u32,
    pub(super) first: u32,
    pub(super) count: u32,
}

impl Allocator {
    /// Saves the state of a class, if the open transaction has not done so.
    pub(super) fn save(&mut self, number: u32) {
        let class = &mut self.classes[number as usize];
        if class.txn != self.txn {
            class.txn = self.txn;
            class.fresh_from = class.next;
            let &mut super::Class { next, end, current, cursor, .. } = class;
            self.saved.push(SavedClass { class: number, next, end, current, cursor });
        }
    }

    /// Forgets a span that a sweep has removed. If that happens in a transaction, its rollback must not bring
    /// the span back.
    pub(super) fn forget_saved(&mut self, span: u32) {
        if !bug(Bug::RollbackToSwept) {
            self.saved.iter_mut().for_each(|saved| saved.forget(span));
        }
    }

    /// Takes back the allocations of the open transaction, and forgets its frees.
    pub(crate) fn rollback(&mut self, store: &Store) {
        self.hot = Default::default();
        for saved in self.saved.drain(..) {
            let SavedClass { class, next, end, current, cursor } = saved;
            let class = &mut self.classes[class as usize];
            // Slots before the saved cursor may have become free during the transaction, if it has completed
            // a running collection or emptied the log.
            let cursor = if class.current == current { cursor.min(class.cursor) } else { cursor };
            (class.next, class.end, class.current, class.cursor) = (next, end, current, cursor);
            class.fresh_from = next;
            class.txn = 0;
        }
        for (number, span) in self.taken.drain(..).filter(|(number, _)| *number != NO_SPAN) {
            let removed = self.spans.remove(&store.page_map, number);
            if let Some(class) = self.classes.get_mut(removed.class as usize) {
                class.owned -= removed.bytes;
            }
            self.runs.retain(|run| run.span != number);
            store.give_back(&span);
        }
        for run in std::mem::take(&mut self.runs) {
            self.spans.get_mut(run.span).free(run.first, run.count);
            self.list(run.span, run.first);
        }
        // A collection may have ended in the transaction, and left marks on slots that are free again.
        self.mark_runs(store);
        self.frees.clear();
        self.end_transaction();
    }
}
