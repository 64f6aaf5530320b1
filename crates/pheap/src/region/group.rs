//! Several regions at once, for one transaction over all of them.

use std::rc::Rc;
use std::sync::Arc;

use super::guard::{self, Scope};
use super::{Exclusive, Region, refused, watch};
use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::gc::held::HeldTable;
use crate::store::Store;
use crate::sync::gate::ClosedGates;
use crate::txn::commit;
use crate::txn::context::{Context, HotFields};

/// Several regions that this thread has locked as the writer, in one transaction.
pub(crate) struct RegionGroup<'a> {
    /// The locked regions, in the order of their addresses.
    locked: Vec<Exclusive<'a>>,
    /// For each region, in the caller's order: its index in `locked`.
    order: Vec<usize>,
    /// Whether the transaction has ended, but the work after its end is not complete.
    is_ending: bool,
}

impl<'a> RegionGroup<'a> {
    /// Waits for these regions, whose roots must have these types, and opens a transaction on them.
    pub(crate) fn begin_transaction(
        store: &'a Store,
        regions: &[(&'a Region, u32)],
    ) -> Result<RegionGroup<'a>> {
        store.check_writable()?;
        store.wait_for_memory();
        let place = |(region, _): &(&'a Region, u32)| region.header.addr();
        let mut sorted: Vec<(&'a Region, u32)> = regions.to_vec();
        // The regions are sorted by address: this order is the same in each run, so that the state after a
        // crash can be reproduced.
        sorted.sort_unstable_by_key(place);
        if let Some(twice) = sorted.windows(2).find(|pair| std::ptr::eq(pair[0].0, pair[1].0)) {
            return Err(Error::DuplicateRoot { root: twice[0].0.name.lock().clone() });
        }
        let locked = RegionGroup::lock_all(store, &sorted)?;
        // All contexts share one list: a separate list for each context would take memory in the square of
        // their number.
        let members: Rc<[*mut Context]> = sorted.iter().map(|(region, _)| region.context.get()).collect();
        for one in &locked {
            one.context().group = Some(members.clone());
        }
        Context::begin_all(&mut locked.iter().map(|one| one.context()).collect::<Vec<_>>());
        let order = regions
            .iter()
            .map(|one| sorted.binary_search_by_key(&place(one), place).expect("it is the same list"))
            .collect();
        Ok(RegionGroup { locked, order, is_ending: false })
    }

    /// Locks all regions as their writer. Waits for one region at a time, and only while this thread has none
    /// of them: another thread may hold one of them in a read, and wait for the next one within that read. If
    /// this thread cannot have all regions at once, it closes their gates: threads that arrive later, and
    /// have no lock of a heap, wait until this thread has all regions, or until the deadline of the gates.
    /// (The owner of a lock does not look at the gate until this thread revokes the lock.) Otherwise there
    /// might always be a thread in one of them.
    fn lock_all(store: &'a Store, regions: &[(&'a Region, u32)]) -> Result<Vec<Exclusive<'a>>> {
        if !bug(Bug::GatesForReads) {
            // This thread passes all gates before it closes any: a thread that waits at a gate must not keep
            // others out.
            regions.iter().for_each(|(region, _)| region.access().gate.pass(guard::is_inside_any));
        }
        let mut wait_for = 0;
        let mut gates: Option<ClosedGates<'_>> = None;
        'again: loop {
            guard::enter(store.id(), Scope::Transaction)?;
            let (region, ty) = regions[wait_for];
            if region.access().lock_collected().is_err() {
                return Err(refused(store));
            }
            let mut first = Some(Exclusive::locked(store, region, ty)?);
            let mut locked: Vec<Exclusive<'a>> = Vec::with_capacity(regions.len());
            for (i, &region) in regions.iter().enumerate() {
                let next = if i == wait_for { first.take() } else { Exclusive::try_locked(store, region)? };
                let Some(next) = next else {
                    wait_for = i;
                    match &mut gates {
                        None if bug(Bug::OpenGates) => {}
                        None => {
                            let all = regions.iter().map(|(region, _)| &region.access().gate);
                            gates = Some(ClosedGates::close(all.collect()));
                        }
                        Some(gates) => gates.lengthen(),
                    }
                    continue 'again; // releases all regions
                };
                locked.push(next);
            }
            // The heap was entered once, and is left once: by the `Exclusive` that is released last.
            let last = locked.len() - 1;
            for (i, one) in locked.iter_mut().enumerate() {
                one.set_last(i == last);
            }
            return Ok(locked);
        }
    }

    pub(crate) fn hot(&self, index: usize) -> &'a HotFields {
        self.locked[self.order[index]].hot()
    }

    pub(crate) fn held(&self, index: usize) -> &'a Arc<HeldTable> {
        &self.locked[self.order[index]].region.held
    }

    /// Commits the transaction and releases the regions. If the commit has worked, then calls `wait` with the
    /// largest of the regions' positions in the log, which is 0 without a write-ahead log. In a forked child,
    /// or if the program has caught a panic of pheap, this fails and leaves the rest to the drop.
    pub(super) fn commit_then<R>(&mut self, wait: impl FnOnce(&Store, u64) -> Result<R>) -> Result<R> {
        let store = self.locked[0].store;
        store.check_not_forked()?;
        if let Some(between) = self.locked.iter_mut().find(|one| one.context().is_between) {
            return Err(between.caught());
        }
        let result = commit::commit_group(&mut self.contexts());
        let position = self.locked.iter().map(|one| one.context().media.position()).max().unwrap_or(0);
        self.end_transactions(result.is_ok());
        result.map_err(|error| *error)?;
        wait(store, position)
    }

    pub(crate) fn commit(&mut self) -> Result<()> {
        self.commit_then(|store, position| store.acknowledge(position))
    }

    /// Calls the watchers of the roots that the transaction may have changed, as for [one
    /// region](Exclusive::tell).
    pub(crate) fn tell(&mut self) {
        let watched = self.locked.iter_mut().filter_map(|one| one.take_untold().then_some(one.region));
        let watched: Vec<&Region> = watched.collect();
        if !watched.is_empty() {
            watch::tell(&watched);
        }
    }

    /// Rolls the transaction back, as for [one region](Exclusive::abort). Returns the largest of the regions'
    /// positions in the log.
    #[must_use = "the caller waits until what was read is durable"]
    pub(crate) fn abort(self) -> u64 {
        let regions: Vec<&Region> = self.locked.iter().map(|one| one.region).collect();
        drop(self);
        regions.iter().map(|region| region.counters.position.get()).max().unwrap_or(0)
    }

    fn contexts(&mut self) -> Vec<&mut Context> {
        // The regions are distinct, so the contexts are, too.
        self.locked.iter().map(|one| one.context()).collect()
    }

    fn end_transactions(&mut self, committed: bool) {
        self.is_ending = true;
        for one in &mut self.locked {
            one.context().group = None;
            one.end_held(committed);
            if committed {
                one.note_untold();
            }
        }
        Context::collect_some_of(&mut self.contexts());
        self.locked.iter_mut().for_each(Exclusive::ended_untold);
    }

    /// Rolls a transaction back that was given up, or that a panic has interrupted before or within its
    /// commit. If only the next opening can repair the regions, the heap fails instead.
    #[cold]
    fn roll_back(&mut self) {
        if self.is_ending || self.locked.iter().any(|one| one.context().is_between) {
            return self.locked.iter().for_each(|one| one.region.fail());
        }
        struct GroupPanicGuard<'a>(Vec<&'a Region>);
        impl Drop for GroupPanicGuard<'_> {
            fn drop(&mut self) {
                self.0.iter().for_each(|region| region.fail());
            }
        }
        let mut unwound = GroupPanicGuard(self.locked.iter().map(|one| one.region).collect());
        commit::rollback_group(&mut self.contexts());
        self.end_transactions(false);
        unwound.0.clear();
    }
}

impl Drop for RegionGroup<'_> {
    fn drop(&mut self) {
        if self.locked.iter().any(Exclusive::is_locked) && !self.locked[0].store.is_forked() {
            self.roll_back();
        }
    }
}

#[cfg(all(test, not(pheap_loom)))]
#[allow(clippy::unit_arg)] // transactions of one assignment
mod tests {
    use std::thread;
    use std::time::Duration;

    use crate::sync::gate::Closer;
    use crate::{Options, Root};

    #[test]
    fn who_comes_for_a_transaction_waits_at_a_closed_gate() {
        let store = Options::new().reserve(1 << 30).in_memory().unwrap();
        let [a, b]: [Root<u64>; 2] = ["a", "b"].map(|name| store.root(name).unwrap());
        let (both, closer) = (|| crate::txn((&b, &a), |((tx, b), _)| Ok(tx[b] += 1)), Closer::patient());
        a.region.access().gate.close(closer);
        thread::scope(|scope| {
            let several = scope.spawn(both);
            let one = scope.spawn(|| a.txn(|tx, a| Ok(tx[a] += 1)));
            let collects = scope.spawn(|| store.collect().map(drop));
            thread::sleep(Duration::from_millis(50));
            assert!([several.is_finished(), one.is_finished(), collects.is_finished()] == [false; 3]);
            // A thread that is inside another heap does not wait.
            let other = Options::new().reserve(1 << 30).in_memory().unwrap();
            let outer: Root<u64> = other.root("outer").unwrap();
            crate::with_several_heaps(|| {
                outer.txn(|_, _| both())?;
                outer.txn(|_, _| a.txn(|tx, a| Ok(tx[a] += 1)))
            })
            .unwrap();
            a.region.access().gate.open(closer);
        });
        let counts = [&a, &b].map(|root| root.read(|view, n| view[n]).unwrap());
        assert_eq!(counts, [2, 2]);
    }
}
