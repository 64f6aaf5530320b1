//! The work that transactions do for the garbage collection of their region: slices between transactions,
//! cycles that are completed at once, and the write barrier.

use std::time::{Duration, Instant};

use pheap_gc::Budget;

use super::context::{Context, Mode};
use crate::faults::{Bug, bug};

impl Context {
    /// Does some work of the collection, if any is due. Called between transactions.
    #[inline(always)]
    pub(crate) fn collect_some(&mut self) {
        if self.gc.is_due(&self.alloc.usage) {
            self.between_states(Context::assist);
        }
    }

    /// [`collect_some`](Self::collect_some) for all roots of a transaction. Lets readers in to all of them
    /// first: a slice may take as long as the transaction did.
    pub(crate) fn collect_some_of(contexts: &mut [&mut Context]) {
        let is_due = |context: &Context| context.gc.is_due(&context.alloc.usage);
        if !contexts.iter().any(|context| is_due(context)) {
            return;
        }
        let mut due = Vec::new();
        for context in contexts.iter_mut() {
            if is_due(context) {
                due.push(context.between_states(Context::assess));
            } else {
                context.front().lock.downgrade();
                due.push(None);
            }
        }
        for (context, due) in contexts.iter_mut().zip(due) {
            context.between_states(|context| context.work_off(due));
        }
    }

    /// [`collect_some`](Self::collect_some) after a rollback. If the transaction failed for lack of space, a
    /// cycle must begin. So this first waits until no thread reads.
    #[cold]
    pub(crate) fn collect_after_rollback(&mut self) {
        if self.gc.wanted && self.gc.is_idle() {
            self.upgrade();
        }
        self.collect_some();
    }

    #[cold]
    fn assist(&mut self) {
        let due = self.assess();
        self.work_off(due);
    }

    fn work_off(&mut self, due: Option<(u64, Duration)>) {
        if let Some((bytes, length)) = due {
            let marked = self.slice(bytes, length);
            self.gc.pay(marked);
        }
    }

    /// Begins a cycle if one is due, and lets readers in. Returns the work that is due now: bytes to mark,
    /// and the longest time.
    ///
    /// A cycle begins while no thread reads: a reader may have got an object from a [`Held`](crate::Held)
    /// that was dropped since, and the cycle would not find that object. So a cycle begins at the end of a
    /// transaction that was upgraded, or after a rollback that has [waited](Self::collect_after_rollback) for
    /// readers.
    fn assess(&mut self) -> Option<(u64, Duration)> {
        let store = self.store();
        let can_begin = !self.gc.is_idle() || self.front().lock.is_upgraded();
        let due = if can_begin { self.gc.assess(&mut self.alloc, store) } else { None };
        self.front().lock.downgrade();
        due
    }

    /// Does one slice: marks about `bytes` bytes, or what is left, and sweeps once all is marked, for about
    /// `length` at most. In a simulation the time is not limited. Returns the number of marked bytes.
    pub(crate) fn slice(&mut self, bytes: u64, length: Duration) -> u64 {
        let start = Instant::now();
        let deadline = (!self.store().is_simulated()).then(|| start + length);
        let mut budget = Budget::work(bytes);
        if let Some(deadline) = deadline {
            budget = budget.and_until(deadline);
        }
        self.advance(&mut budget, deadline);
        self.gc.pause(start.elapsed());
        budget.marked_bytes()
    }

    /// Continues the running cycle: marks within `budget`, and sweeps until `deadline` once all is marked.
    fn advance(&mut self, budget: &mut Budget, deadline: Option<Instant>) {
        let store = self.store();
        if self.gc.is_marking() {
            if !self.gc.mark(&self.alloc, store, budget) {
                return;
            }
            // Records may name memory that a sweep is about to free, so the log is emptied first. In a long
            // transaction the log has no records: it was emptied when the transaction became long. Its undo
            // entries may name garbage next to objects that it has stored to. Such garbage is in a span with
            // a marked object, so the span stays with the region, and only this transaction can allocate the
            // slot. A rollback restores the bytes of garbage there, which is harmless.
            if self.mode == Mode::Short && !bug(Bug::SweepKeepsRecords) {
                self.retire_records();
            }
            self.gc.begin_sweep(&mut self.alloc);
        }
        self.gc.sweep(&mut self.alloc, store, &self.media, deadline);
    }

    /// Completes the running cycle, if there is one, within this transaction, so that the memory that it
    /// frees can be allocated.
    ///
    /// This is sound because the cycle began before the transaction: every object that the transaction can
    /// reach was reachable then, or is new. (A cycle that began here would miss objects that the transaction
    /// has unlinked, and still has a `P` to.)
    #[cold]
    pub(crate) fn complete_collection(&mut self) {
        let start = Instant::now();
        self.alloc.return_runs();
        while !self.gc.is_idle() {
            self.advance(&mut Budget::unlimited(), None);
        }
        self.gc.pause(start.elapsed());
    }

    /// Begins a full cycle, unless a cycle is running, and completes the cycle. An open transaction has done
    /// nothing yet, except with [`Bug::CycleInTransaction`].
    #[cold]
    pub(crate) fn begin_and_complete_collection(&mut self) {
        let store = self.store();
        self.gc.begin_full(&mut self.alloc, store);
        self.complete_collection();
    }

    /// Gives the collector, while it marks, the pointers in these bytes, which the open transaction may
    /// overwrite. During marking, the bytes lie in one object.
    #[inline(always)]
    pub(crate) fn shade(&mut self, addr: usize, len: usize) {
        if self.gc.is_marking() && !bug(Bug::NoShadeAtLogging) {
            let store = self.store();
            self.gc.shade(&self.alloc, store, addr, len);
        }
    }

    /// [`shade`](Self::shade) for all originals that the commit is about to replace.
    #[inline(always)]
    pub(crate) fn shade_originals(&mut self) {
        if self.gc.is_marking() && !bug(Bug::NoShadeAtCommit) {
            let store = self.store();
            let Context { gc, alloc, set, .. } = self;
            set.copies().for_each(|(addr, _, words)| gc.shade(alloc, store, addr, words * 8));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::gc::{SLICE_WORK, WORK_PER_TRANSACTION};
    use crate::{Durability, Options, P};

    type Objects = P<'static, [P<'static, [u64; 128]>]>;

    #[test]
    fn who_only_stores_gets_rid_of_a_cycle() {
        const OBJECTS: usize = 1 << 13;
        let heap = Options::new().durability(Durability::Process).in_memory().unwrap();
        let root = heap
            .root_or::<Objects>("objects", |tx| {
                let objects = (0..OBJECTS).map(|_| tx.alloc([0; 128])).collect::<crate::Result<Vec<_>>>()?;
                tx.alloc_slice(OBJECTS, |i| objects[i])
            })
            .unwrap();
        heap.collect().unwrap();
        assert_eq!(root.region.begin_cycle(heap.inner()), Some(true));
        // With this much work for each transaction, and without counting its lookups, not even one slice
        // would be due.
        let transactions = SLICE_WORK / WORK_PER_TRANSACTION / 2;
        for i in 0..transactions {
            root.txn(|tx, p| {
                let objects = tx[p];
                (0..OBJECTS).for_each(|at| {
                    let object = tx[objects.at(tx, at)];
                    tx[object][0] = i;
                });
                Ok(())
            })
            .unwrap();
        }
        assert_eq!(root.region.begin_cycle(heap.inner()), Some(true), "the first one has not ended");
    }
}
