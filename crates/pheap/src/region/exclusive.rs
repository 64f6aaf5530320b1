//! `Exclusive`: a region whose only writer is this thread. A transaction holds one for each of its roots.

#![allow(unsafe_code)]

use std::time::Duration;

use super::guard::{self, Scope};
use super::{Region, refused, watch};
use crate::error::{Error, Result};
use crate::faults::{Bug, bug, may_panic};
use crate::store::Store;
use crate::txn::commit;
use crate::txn::context::{Context, HotFields};

/// A thread that waits longer than this for a region's lock, to close the heap, remove the root or collect
/// the region, logs the root. Waits for readers, which follow, are not logged.
const PATIENCE: Duration = Duration::from_secs(1);

/// A region whose only writer is this thread. Dropping it rolls an open transaction back, and releases the
/// region. In a forked child, where the transaction and the lock are the parent's, the drop does neither.
pub(crate) struct Exclusive<'a> {
    pub(super) store: &'a Store,
    pub(crate) region: &'a Region,
    /// The flags [`OPEN`], [`ENDING`], [`LOCKED`], [`LAST`] and [`UNTOLD`]. The flags are in one word,
    /// because padding between separate flags would be copied, too.
    state: usize,
}

/// A flag of [`Exclusive`]: the transaction is neither committed nor rolled back.
const OPEN: usize = 1;
/// A flag of [`Exclusive`]: this thread has the region's lock.
const LOCKED: usize = 2;
/// A flag of [`Exclusive`]: this thread [leaves](guard::leave) the heap when it releases the region.
const LAST: usize = 4;
/// A flag of [`Exclusive`]: the transaction has ended, but the work after its end is not complete. Also set
/// for work [without a transaction](Region::lock_alone).
const ENDING: usize = 8;
/// A flag of [`Exclusive`]: the transaction has committed, perhaps with a change, and the watchers of the
/// root, if there are any, were not called yet.
const UNTOLD: usize = 16;

impl<'a> Exclusive<'a> {
    /// Waits for the region, whose root must have the type `ty`, and opens a transaction on it.
    #[inline(always)] // a call would return the value through memory
    pub(crate) fn begin_transaction(store: &'a Store, region: &'a Region, ty: u32) -> Result<Exclusive<'a>> {
        store.check_writable()?;
        store.wait_for_memory();
        guard::enter(store.id(), Scope::Transaction)?;
        if region.access().lock_upgradable(guard::is_nested).is_err() {
            return Err(refused(store));
        }
        let exclusive = Exclusive::locked(store, region, ty)?;
        exclusive.context().begin_transaction();
        Ok(exclusive)
    }

    /// Makes an `Exclusive` of a region whose lock this thread has just taken. The thread has
    /// [entered](guard::enter) the heap, and leaves it if this fails.
    #[inline(always)]
    pub(super) fn locked(store: &'a Store, region: &'a Region, ty: u32) -> Result<Exclusive<'a>> {
        if region.serves(ty) {
            Ok(Exclusive { store, region, state: OPEN | LOCKED | LAST })
        } else {
            Err(Exclusive { store, region, state: LOCKED | LAST }.wrong_type())
        }
    }

    /// Takes the lock of the region if this thread need not wait for it; returns `None` otherwise. This
    /// thread already has another region of the same heap.
    pub(super) fn try_locked(
        store: &'a Store,
        (region, ty): (&'a Region, u32),
    ) -> Result<Option<Exclusive<'a>>> {
        if !region.access().try_lock_upgradable().map_err(|_| store.set_unfenced())? {
            return Ok(None);
        }
        if region.serves(ty) {
            Ok(Some(Exclusive { store, region, state: OPEN | LOCKED }))
        } else {
            Err(Exclusive { store, region, state: LOCKED }.wrong_type())
        }
    }

    /// Releases a region that is gone, or whose root does not have the requested type, and returns the error.
    #[cold]
    #[inline(never)]
    fn wrong_type(self) -> Error {
        let (store, region) = (self.store, self.region);
        drop(self); // `why_not` may wait for the disk; other threads need not wait for that
        store.check_open().err().unwrap_or_else(|| region.why_not(store))
    }

    #[inline(always)]
    #[allow(clippy::mut_from_ref)] // one context per lock, and its users are one after the other
    pub(crate) fn context(&self) -> &mut Context {
        debug_assert!(self.state & LOCKED != 0, "the region was let go of");
        // SAFETY: this thread has the region's lock until `let_go`, and no caller asks for the context
        // afterwards (`LOCKED`, asserted in debug builds). No caller keeps a reference into the context
        // across calls, so references do not overlap.
        unsafe { &mut *self.region.context.get() }
    }

    #[inline(always)]
    pub(crate) fn hot(&self) -> &'a HotFields {
        &self.region.front.hot
    }

    /// Commits the transaction, releases the region, and waits as the sync policy requires. If the commit has
    /// worked, `done` is called before any other thread sees its changes, and before the collector runs. In a
    /// forked child, or if the program has caught a panic of pheap, this fails and leaves the rest to the
    /// drop.
    // `commit` takes `self` by reference: a move of a value that was just written in parts would stall the
    // processor.
    #[inline(always)]
    pub(crate) fn commit(&mut self, done: impl FnOnce(&mut Context)) -> Result<()> {
        self.commit_then(done, |store, position| store.acknowledge(position))
    }

    /// [`commit`](Self::commit), but with a write-ahead log a commit that has worked calls `wait` last, which
    /// gets the region's position in the log: after the newest record that the transaction has written or
    /// seen.
    #[inline(always)]
    pub(super) fn commit_then<R: Default>(
        &mut self,
        done: impl FnOnce(&mut Context),
        wait: impl FnOnce(&Store, u64) -> Result<R>,
    ) -> Result<R> {
        let result = self.commit_locked(done)?;
        let (store, region) = (self.store, self.region);
        let is_untold = result.is_ok() && region.is_to_tell(store);
        if store.wal().is_none() {
            self.context().collect_some();
            self.let_go();
            if is_untold {
                self.state = UNTOLD;
            }
            return result.map(|()| R::default()).map_err(|error| *error);
        }
        let context = self.context();
        let position = context.media.position();
        context.collect_some();
        // Other threads may get the region now. If they wait for the disk, they wait for this record, too.
        self.let_go();
        if is_untold {
            self.state = UNTOLD;
        }
        result.map_err(|error| *error)?;
        wait(store, position)
    }

    /// Commits the open transaction and, if that works, calls `done`. The region stays locked.
    ///
    /// # Errors
    /// Fails in a forked child, or if the program has caught a panic of pheap: then the transaction is
    /// neither committed nor rolled back. The inner result is that of the commit.
    #[inline(always)]
    fn commit_locked(&mut self, done: impl FnOnce(&mut Context)) -> Result<commit::CommitResult> {
        self.store.check_not_forked()?;
        let context = self.context();
        let result = if context.is_untouched() {
            context.end_mode();
            Ok(())
        } else if context.is_between {
            return Err(self.caught());
        } else {
            commit::commit(context)
        };
        // The transaction has been committed or rolled back.
        self.state = self.state & !OPEN | ENDING;
        if result.is_ok() {
            done(self.context());
        }
        self.end_held(result.is_ok());
        Ok(result)
    }

    /// Commits the open transaction, calls `done`, and opens the next transaction. The region stays locked
    /// in between: no other thread changes it, or reads it after a change, and its collector gets no turn.
    /// Does not wait for a sync. Returns the region's position in the log; 0 without a write-ahead log.
    ///
    /// # Errors
    /// Those of a commit. If the commit itself has failed, the transaction is rolled back, and the region is
    /// released. In a forked child, or if the program has caught a panic of pheap, the rest is left to the
    /// drop of this value.
    pub(crate) fn commit_and_go_on(&mut self, done: impl FnOnce(&mut Context)) -> Result<u64> {
        let result = self.commit_locked(done)?;
        if let Err(error) = result {
            self.let_go();
            return Err(*error);
        }
        let position = self.store.hand_over(self.context().media.position());
        self.state = self.state & !ENDING | OPEN;
        self.context().begin_transaction();
        Ok(position)
    }

    /// Calls the watchers of the root, if the transaction may have committed a change. The caller has waited
    /// as the sync policy requires, successfully or not, or has made the `Commit` of the transaction. (So
    /// with some policies, no sync has been requested yet.) Only for transactions of the program: other
    /// transactions may hold locks that the watchers need.
    #[inline(always)]
    pub(crate) fn tell(&mut self) {
        if self.take_untold() {
            watch::tell(&[self.region]);
        }
    }

    /// Returns whether there are watchers to call for a committed transaction, and leaves the calls to the
    /// caller. If the transaction was not committed, it stays open until this value is dropped, which rolls
    /// it back.
    #[inline(always)]
    pub(super) fn take_untold(&mut self) -> bool {
        if self.state != UNTOLD {
            return false;
        }
        self.state = 0;
        self.region.is_watched()
    }

    /// Rolls the transaction back and releases the region. The error for which the transaction was given up
    /// may depend on data that the transaction has read. So, with a write-ahead log, the caller must wait
    /// until the records up to the returned log position are acknowledged, or let its own caller wait.
    #[cold]
    #[must_use = "the caller waits until what was read is durable"]
    pub(crate) fn abort(self) -> u64 {
        let region = self.region;
        drop(self);
        region.counters.position.get()
    }

    #[inline(always)]
    pub(super) fn end_held(&self, committed: bool) {
        may_panic();
        if committed {
            self.region.note_version(self.context());
        }
        let made = &mut self.context().held;
        if !made.is_empty() {
            self.region.held.end_transaction(made, committed);
        }
    }
}

impl Exclusive<'_> {
    /// Handles the case that the program has caught a panic from an inconsistent region. The heap fails, as
    /// if the program had not caught it.
    #[cold]
    pub(super) fn caught(&mut self) -> Error {
        self.region.fail();
        self.store.check_open().err().unwrap_or(Error::Closed)
    }

    /// Rolls a transaction back that was given up, or that a panic has interrupted before or within its
    /// commit. If only the next opening can repair the region, the heap fails instead. Does nothing to a
    /// region that is gone.
    #[cold]
    fn roll_back(&mut self) {
        // The group is dropped here, even if the region is never used again: another thread may drop the
        // region, and an `Rc` must not be shared with that thread.
        self.context().group = None;
        if self.region.is_gone() {
            return;
        }
        if self.state & ENDING != 0 || self.context().is_between {
            return self.region.fail();
        }
        let unwound = RollbackPanicGuard(self);
        commit::rollback(unwound.0.context());
        unwound.0.end_held(false);
        unwound.0.context().collect_after_rollback();
        std::mem::forget(unwound);
    }

    /// Releases the region, unless that was done before.
    #[inline(always)]
    fn let_go(&mut self) {
        let state = std::mem::take(&mut self.state);
        if state & LOCKED == 0 {
            return;
        }
        // If this thread flushed lines before this point, they are written back before the first fence of the
        // next holder has passed, whatever processor the next holder runs on: unlocking is a locked
        // instruction, or the thread that revokes the lock makes its owner pass a fence. `LOCKED` was set, so
        // this thread has the lock: it took the lock when this value was made, and has not released it since.
        self.region.access().unlock_upgradable();
        if state & LAST != 0 {
            guard::leave(self.store.id());
        }
    }

    /// Releases the region. The transaction, if there was one, has ended, and so has the work after its end.
    pub(super) fn ended(mut self) {
        self.state &= !(OPEN | ENDING);
    }

    /// Notes whether watchers may have to be called for a committed transaction. Called before the region's
    /// collector runs.
    pub(super) fn note_untold(&mut self) {
        if self.region.is_to_tell(self.store) {
            self.state |= UNTOLD;
        }
    }

    /// [`ended`](Self::ended), but keeps the note that [watchers are to be called](Self::take_untold).
    pub(super) fn ended_untold(&mut self) {
        let untold = self.state & UNTOLD;
        self.state &= !(OPEN | ENDING);
        self.let_go();
        self.state = untold;
    }

    pub(super) fn is_locked(&self) -> bool {
        self.state & LOCKED != 0
    }

    /// Sets whether this thread leaves the heap when it releases this region.
    pub(super) fn set_last(&mut self, last: bool) {
        self.state = self.state & !LAST | if last { LAST } else { 0 };
    }
}

impl Drop for Exclusive<'_> {
    #[inline(always)] // there is nothing to do after a commit
    fn drop(&mut self) {
        if self.state != 0 {
            self.dropped();
        }
    }
}

impl Exclusive<'_> {
    #[cold]
    #[inline(never)]
    fn dropped(&mut self) {
        if self.state & (OPEN | ENDING) != 0 {
            if self.store.is_forked() && !bug(Bug::ForksRollBack) {
                // The transaction belongs to the parent. This process has no memory of the region, and a
                // thread of the parent holds its lock.
                if self.state & LAST != 0 {
                    guard::leave(self.store.id());
                }
                return;
            }
            self.roll_back();
        }
        self.let_go();
    }
}

/// Fails and releases the region when dropped, which happens only if a rollback, or the work after it,
/// panics.
struct RollbackPanicGuard<'e, 'a>(&'e mut Exclusive<'a>);

impl Drop for RollbackPanicGuard<'_, '_> {
    fn drop(&mut self) {
        self.0.region.fail();
        self.0.let_go();
    }
}

impl Region {
    /// Calls `f` for spans of objects (offset, bytes, whether they have pointers), except the first `from` of
    /// them, while no transaction changes the region. Stops when the spans of this call have `bytes` bytes or
    /// more together. Returns the `from` of the next call; `None` if no spans are left, if the region is not
    /// free within `patience`, if the region is gone, or if the system refuses the fence (then the heap
    /// fails).
    pub(crate) fn with_spans(
        &self,
        store: &Store,
        from: usize,
        bytes: u64,
        patience: Duration,
        mut f: impl FnMut(u64, u64, bool),
    ) -> Option<usize> {
        let locked = self.access().try_lock_for(patience).map_err(|_| store.set_unfenced());
        if !matches!(locked, Ok(true)) {
            return None;
        }
        let _locked = Exclusive { store, region: self, state: LOCKED };
        let mut next = None;
        if !self.is_gone() {
            // SAFETY: this thread has the region's lock (`_locked`), and makes no other reference to the
            // context while this one is in use.
            let context = unsafe { &*self.context.get() };
            let mut seen = 0;
            for (number, span) in context.alloc.spans.iter().enumerate().skip(from) {
                if seen >= bytes {
                    next = Some(number);
                    break;
                }
                f(span.span.offset, span.bytes, span.pointers.has_pointers());
                seen += span.bytes;
            }
        }
        next
    }

    /// Locks the region for work without a transaction. If the work does not [end](Exclusive::ended), because
    /// it panics, the heap fails. The calling thread is not inside a transaction or read of the heap.
    ///
    /// # Errors
    /// [`Error::Failed`] if the system refuses the fence. Then the heap fails, too.
    pub(super) fn lock_alone<'a>(&'a self, store: &'a Store) -> Result<Exclusive<'a>> {
        let refused = |_| store.set_unfenced();
        if !self.access().try_lock_for(PATIENCE).map_err(refused)? {
            // SURVIVES unreached: nothing in the lab takes so long.
            let root = self.name.lock().clone();
            tracing::warn!(
                root,
                "closing a heap, removing a root, or collecting it waits for a transaction on it"
            );
            // SURVIVES unreached: nothing in the lab takes so long.
            self.access().lock_collected().map_err(refused)?;
        }
        Ok(Exclusive { store, region: self, state: LOCKED | ENDING })
    }

    /// Locks the region, waits for its readers, empties its log (unless the heap is read-only), and runs
    /// `last`. Then waits for threads that read snapshots. No thread can have the region afterwards.
    ///
    /// If the region is gone already, this only waits for the threads inside, and fails.
    ///
    /// # Errors
    /// [`Error::Closed`] if the region is gone already; [`Error::Failed`] if the system refuses the fence:
    /// then other threads may still be inside the region when this returns.
    pub(crate) fn retire<R>(&self, store: &Store, last: impl FnOnce(&mut Context) -> R) -> Result<R> {
        // Callers have entered `Scope::Roots`, which nests in no transaction or read of the heap. So there is
        // no scope to enter or leave here.
        let exclusive = self.lock_alone(store)?;
        // Readers are waited for even if the region is gone: a thread that has read the region since before
        // the region failed looks at memory that is about to be unmapped.
        self.access().upgrade();
        let retired = (!self.is_gone()).then(|| {
            let context = exclusive.context();
            if !store.is_read_only() {
                context.retire_records();
            }
            let result = last(context);
            self.mark_gone();
            result
        });
        exclusive.ended();
        // Called without the region's lock: a thread that reads a snapshot may wait for that lock.
        self.held.accesses.close_and_wait();
        retired.ok_or(Error::Closed)
    }
}
