//! `Exclusive`, what a transaction holds: a region whose only writer this thread is.

#![allow(unsafe_code)]

use std::time::Duration;

use super::guard::{self, Scope};
use super::{Region, refused, watch};
use crate::error::{Error, Result};
use crate::faults::{Bug, bug, may_panic};
use crate::store::Store;
use crate::sync::fence::Refused;
use crate::txn::commit;
use crate::txn::context::{Context, Hot};

/// Who waits longer than this to close a heap says for whom.
const PATIENCE: Duration = Duration::from_secs(1);

/// A region whose only writer this thread is. Dropping it rolls the transaction back, unless it was committed, which lets go of the region, too.
pub(crate) struct Exclusive<'a> {
    pub(super) store: &'a Store,
    pub(crate) region: &'a Region,
    /// [`OPEN`], [`ENDING`], [`LOCKED`], [`LAST`] and [`UNTOLD`]. A word: padding between flags would be copied along with them.
    state: usize,
}

/// The transaction is neither committed nor rolled back.
const OPEN: usize = 1;
/// The region is not let go of.
const LOCKED: usize = 2;
/// This thread [leaves](guard::leave) the heap with the region.
const LAST: usize = 4;
/// The transaction has ended, and what comes after that has not.
const ENDING: usize = 8;
/// The transaction has committed a change, of which those who watch the root, if somebody does, have not been told.
const UNTOLD: usize = 16;

impl<'a> Exclusive<'a> {
    /// Waits for the region, whose root is to be of type `ty`, and opens a transaction on it.
    #[inline(always)] // a call would return it through memory, which costs as much as the lock
    pub(crate) fn begin(store: &'a Store, region: &'a Region, ty: u32) -> Result<Exclusive<'a>> {
        store.check_writable()?;
        store.wait_for_memory();
        guard::enter(store.id(), Scope::Transaction)?;
        if region.access().lock_upgradable(guard::is_nested).is_err() {
            return Err(refused(store));
        }
        let exclusive = Exclusive::locked(store, region, ty)?;
        exclusive.context().begin();
        Ok(exclusive)
    }

    /// The lock was taken. The thread has [entered](guard::enter) the heap, and leaves it if this fails.
    #[inline(always)]
    pub(super) fn locked(store: &'a Store, region: &'a Region, ty: u32) -> Result<Exclusive<'a>> {
        if region.serves(ty) {
            Ok(Exclusive { store, region, state: OPEN | LOCKED | LAST })
        } else {
            Err(Exclusive { store, region, state: LOCKED | LAST }.wrong_type())
        }
    }

    /// Takes the lock if it is free, beside another one of the same heap.
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

    /// Lets go of a region that is not what was asked for.
    #[cold]
    #[inline(never)]
    fn wrong_type(self) -> Error {
        let (store, region) = (self.store, self.region);
        drop(self); // others need not wait as well
        store.check_open().err().unwrap_or_else(|| region.why_not(store))
    }

    #[inline(always)]
    #[allow(clippy::mut_from_ref)] // one context per lock, and its users are one after the other
    pub(crate) fn context(&self) -> &mut Context {
        debug_assert!(self.state & LOCKED != 0, "the region was let go of");
        // SAFETY: the lock is held, for nobody asks after a commit; no reference into the context is kept across calls.
        unsafe { &mut *self.region.context.get() }
    }

    #[inline(always)]
    pub(crate) fn hot(&self) -> &'a Hot {
        &self.region.front.hot
    }

    /// Commits the transaction and lets go of the region. If the commit has worked, `done` is called before
    /// anyone sees the region, its collector included.
    // Takes a reference, for a processor would wait to move what was just written in parts.
    #[inline(always)]
    pub(crate) fn commit(&mut self, done: impl FnOnce(&mut Context)) -> Result<()> {
        self.commit_then(done, |store, position| store.acknowledge(position))
    }

    /// [`commit`](Self::commit). With a write-ahead log, `wait` is called at the end, with the position
    /// behind the transaction's record.
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
        // Others may have the region meanwhile. They will wait for their own records, which are behind this one.
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
    /// If the transaction was neither committed nor rolled back. The inner result is that of the commit.
    #[inline(always)]
    fn commit_locked(&mut self, done: impl FnOnce(&mut Context)) -> Result<commit::Done> {
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

    /// Commits the open transaction, calls `done`, and opens the next transaction. The region stays locked in
    /// between: no other thread reads or changes it, and its collector gets no turn. Waits for no sync. Returns the
    /// position behind the record, with a write-ahead log.
    ///
    /// # Errors
    /// Those of a commit. The transaction is rolled back then, and the region let go of.
    pub(crate) fn commit_and_go_on(&mut self, done: impl FnOnce(&mut Context)) -> Result<u64> {
        let result = self.commit_locked(done)?;
        if let Err(error) = result {
            self.let_go();
            return Err(*error);
        }
        let position = self.store.hand_over(self.context().media.position());
        self.state = self.state & !ENDING | OPEN;
        self.context().begin();
        Ok(position)
    }

    /// Tells those who watch the root of what was committed, whether it is known to be durable or never will be. For transactions of the program's: others may have locked what those need.
    #[inline(always)]
    pub(crate) fn tell(&mut self) {
        if self.take_untold() {
            watch::tell(&[self.region]);
        }
    }

    /// Whether somebody is to be told, which is the caller's business from now on. A transaction that was not committed is still to be rolled back.
    #[inline(always)]
    pub(super) fn take_untold(&mut self) -> bool {
        if self.state != UNTOLD {
            return false;
        }
        self.state = 0;
        self.region.is_watched()
    }

    /// Rolls the transaction back and lets go of the region. Why it was given up may tell of what it has
    /// read. So the caller waits until that is durable: with a write-ahead log, what is before the position
    /// that this returns.
    #[cold]
    #[must_use = "the caller waits until what was read is durable"]
    pub(crate) fn give_up(self) -> u64 {
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
    /// The program has caught a panic that has left the region between two states. It is as if nobody had.
    #[cold]
    pub(super) fn caught(&mut self) -> Error {
        self.region.fail();
        self.store.check_open().err().unwrap_or(Error::Closed)
    }

    /// Rolls a transaction back that was given up, or that a panic has interrupted, before its commit or within; unless only a crash leaves it whole.
    #[cold]
    fn roll_back(&mut self) {
        // Also if the region is never used again: the last ones that have the list of a transaction over
        // several roots may drop it in any thread.
        self.context().group = None;
        if self.region.is_gone() {
            return;
        }
        if self.state & ENDING != 0 || self.context().is_between {
            return self.region.fail();
        }
        let unwound = Unwound(self);
        commit::rollback(unwound.0.context());
        unwound.0.end_held(false);
        unwound.0.context().collect_after_rollback();
        std::mem::forget(unwound);
    }

    /// Lets go of the region, if that was not done before.
    #[inline(always)]
    fn let_go(&mut self) {
        let state = std::mem::take(&mut self.state);
        if state & LOCKED == 0 {
            return;
        }
        // Whoever has it next, on whatever processor, can rely on it that lines which were flushed before this are written
        // back before its first fence has passed: the lock ends with a locked instruction, or whoever revokes it lets its
        // owner pass a fence.
        // Locked by this thread, when this was made, and not let go of since.
        self.region.access().unlock_upgradable();
        if state & LAST != 0 {
            guard::leave(self.store.id());
        }
    }

    /// Lets go of the region when the transaction has ended, and all that comes after that.
    pub(super) fn ended(mut self) {
        self.state &= !(OPEN | ENDING);
    }

    /// Notes that a change was committed, if it was, before the region's collector goes on.
    pub(super) fn note_untold(&mut self) {
        if self.region.is_to_tell(self.store) {
            self.state |= UNTOLD;
        }
    }

    /// [`ended`](Self::ended), but that somebody may be [to be told](Self::take_untold).
    pub(super) fn ended_untold(&mut self) {
        let untold = self.state & UNTOLD;
        self.state &= !(OPEN | ENDING);
        self.let_go();
        self.state = untold;
    }

    pub(super) fn is_locked(&self) -> bool {
        self.state & LOCKED != 0
    }

    /// Says that this thread leaves the heap with this region, or with another one.
    pub(super) fn set_last(&mut self, last: bool) {
        self.state = self.state & !LAST | if last { LAST } else { 0 };
    }
}

impl Drop for Exclusive<'_> {
    #[inline(always)] // for who has committed there is nothing to do here
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
                // The transaction is the parent's: its region is not here, and its lock is that of a thread
                // there.
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

/// Dropped in a panic only: within a rollback, or what comes after it.
struct Unwound<'e, 'a>(&'e mut Exclusive<'a>);

impl Drop for Unwound<'_, '_> {
    fn drop(&mut self) {
        self.0.region.fail();
        self.0.let_go();
    }
}

impl Region {
    /// Calls `f` with the spans of objects (offset, bytes, whether they have pointers) from number `from` on, up to about so many bytes of them, while nobody changes anything in the region. Returns
    /// the number of the next one; `None` if there is none, or the region cannot be had that soon.
    pub(crate) fn with_spans(
        &self,
        from: usize,
        bytes: u64,
        patience: Duration,
        mut f: impl FnMut(u64, u64, bool),
    ) -> Option<usize> {
        if self.access().try_lock_for(patience) != Ok(true) {
            return None;
        }
        // SAFETY: where the heap is never changes.
        let store = unsafe { (*self.context.get()).store() };
        let _locked = Exclusive { store, region: self, state: LOCKED };
        let mut next = None;
        if !self.is_gone() {
            // SAFETY: the lock is held, and no other reference to the context is made meanwhile.
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

    /// Waits for the region, for work that leaves nothing certain of it until it has [ended](Exclusive::ended). The thread is not inside of the heap.
    pub(super) fn lock_alone(&self) -> Result<Exclusive<'_>, Refused> {
        if !self.access().try_lock_for(PATIENCE)? {
            // SURVIVES unreached: nothing in the lab takes so long.
            let root = self.name.lock().clone();
            tracing::warn!(root, "closing a heap, or removing a root, waits for a transaction on it");
            // SURVIVES unreached: as above.
            self.access().lock_collected()?;
        }
        // SAFETY: the lock is held, as long as which the heap lives, and where that is never changes.
        let store = unsafe { (*self.context.get()).store() };
        Ok(Exclusive { store, region: self, state: LOCKED | ENDING })
    }

    /// Waits for the region, empties its log, and runs `last`. Then waits for those who look at snapshots. Nobody can have the region any more after that.
    ///
    /// # Errors
    /// [`Error::Closed`] if it is gone already; [`Error::Failed`] if it cannot be had: somebody may be inside for as long as there are handles.
    pub(crate) fn retire<R>(&self, store: &Store, last: impl FnOnce(&mut Context) -> R) -> Result<R> {
        // The thread is not inside of the heap: its callers have looked. So nothing is entered, and nothing left.
        let exclusive = self.lock_alone().map_err(|_| store.set_unfenced())?;
        // Also if it is gone: whoever has read it since before it failed looks at memory that is about to go.
        self.access().upgrade();
        let retired = (!self.is_gone()).then(|| {
            let context = exclusive.context();
            if !store.is_read_only() {
                context.retire_records();
            }
            let result = last(context);
            self.give_up();
            result
        });
        exclusive.ended();
        // Without the region's lock, which who looks at a snapshot may wait for.
        self.held.accesses.end();
        retired.ok_or(Error::Closed)
    }
}
