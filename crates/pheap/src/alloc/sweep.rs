//! The steps of a collection that change the allocator's spans.

use pheap_gc::bitmap::Bitmap;

use super::span::NO_CLASS;
use super::{Allocator, Usage};
use crate::store::Store;
use crate::store::spans::TakenSpan;

/// The result of [`Allocator::sweep`] for a span.
pub(crate) enum SweptSpan {
    /// Nothing was removed: the span does not exist, was not part of the cycle, was swept already, has
    /// objects, or is being filled by a class.
    Kept,
    /// The span had no objects, and was removed from the allocator. The caller must give it back.
    Empty(TakenSpan),
}

impl Allocator {
    /// Makes all present spans part of the cycle that begins, and those that are added while
    /// [`collecting`](Self::collecting) is set. Old objects stay marked if the cycle is a `minor` one.
    pub(crate) fn begin_collection(&mut self, minor: bool) {
        for span in self.spans.iter_mut() {
            span.pending = true;
            if !minor {
                span.marks.clear();
            }
        }
        self.collecting = true;
        self.usage.allocated = 0;
    }

    /// Frees the slots of a span that are not marked, if the cycle has not swept it yet. No redo record in
    /// the log names such a slot. Undo entries of the open transaction may name one, because they cover
    /// neighbours of its stores.
    pub(crate) fn sweep(&mut self, store: &Store, number: u32) -> SweptSpan {
        if !self.spans.get(number).is_some_and(|span| span.pending) {
            return SweptSpan::Kept;
        }
        let span = self.spans.get_mut(number);
        span.pending = false;
        if span.live.is_empty() {
            span.live = Bitmap::new(span.slots as usize);
            if let Some(class) = self.classes.get_mut(span.class as usize) {
                class.owned += span.bytes;
            }
        }
        span.live.copy_from(&span.marks);
        span.used = span.live.count_ones() as u32;
        let is_current =
            |class: u32| self.classes.get(class as usize).is_some_and(|class| class.current == number);
        let span = self.spans.get_mut(number);
        if span.used == 0 && !is_current(span.class) {
            let removed = self.spans.remove(&store.page_map, number);
            if removed.class != NO_CLASS {
                let class = &mut self.classes[removed.class as usize];
                class.owned -= removed.bytes;
                self.unlist |= removed.listed;
                self.forget_saved(number);
            }
            return SweptSpan::Empty(removed.span);
        }
        if span.class != NO_CLASS && span.used < span.slots {
            self.list(number, 0);
        }
        SweptSpan::Kept
    }

    /// Removes spans that do not exist any more from the lists of their classes. Called before their numbers
    /// are used again.
    pub(crate) fn unlist_removed(&mut self) {
        if std::mem::take(&mut self.unlist) {
            let Allocator { classes, spans, .. } = self;
            classes.iter_mut().for_each(|class| class.partial.retain(|&number| spans.get(number).is_some()));
        }
    }

    /// Updates the usage when the cycle has swept all its spans.
    pub(crate) fn end_collection(&mut self) {
        let mut usage = Usage { allocated: self.usage.allocated, ..Usage::default() };
        for span in self.spans.iter() {
            usage.objects += u64::from(span.used);
            usage.bytes += u64::from(span.used) * span.slot;
        }
        for class in self.classes.iter().filter(|class| class.next != class.end) {
            let unfilled = (class.end - class.next) as u64;
            usage.objects -= unfilled / u64::from(class.slot);
            usage.bytes -= unfilled;
        }
        // The allocations of an open transaction are subtracted, because they count when it commits.
        let saved = self.saved.iter().map(|saved| &self.classes[saved.class as usize]);
        for class in saved {
            let fresh = (class.next - class.fresh_from) as u64;
            usage.objects -= fresh / u64::from(class.slot);
            usage.bytes -= fresh;
        }
        let fresh: usize = self.fresh.ranges().iter().map(|(start, end)| end - start).sum();
        usage.objects -= self.objects;
        usage.bytes -= fresh as u64;
        self.usage = usage;
    }
}
