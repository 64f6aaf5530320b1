//! Regions: one for each named root, with a lock, an allocator and a log of its own. `Exclusive` and `Shared` are what a transaction and a read hold.
//!
//! Knows how a thread gets a region and lets go of it, whatever happens meanwhile. Must not know types, nor what a transaction does.

#![allow(unsafe_code)]

pub(crate) mod all;
mod collect;
mod deferred;
mod group;
pub(crate) mod guard;
#[cfg(test)]
mod panics;
#[cfg(all(test, not(pheap_loom)))]
mod refused;
pub(crate) mod rewrite;
mod versions;
mod watch;

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::alloc::bitmaps::LiveSlots;
use crate::alloc::span::ObjectSpan;
use crate::error::{Error, Result};
use crate::faults::{Bug, bug, may_panic};
use crate::gc::held::HeldTable;
use crate::gc::{Collector, Pace, State};
use crate::layout::PointerMap;
use crate::media::Media;
use crate::os::cpu::settle_flushes;
use crate::stats::Counters;
use crate::store::Store;
use crate::store::region_header::RegionHeader;
use crate::store::spans::Span;
use crate::sync::Access;
use crate::sync::access::Entry;
use crate::sync::fence::Refused;
use crate::sync::{Mutex, look_at};
use crate::txn::commit;
use crate::txn::context::{Context, Front, Hot};
use crate::txn::log::Log;
use crate::wal::Wal;

pub(crate) use group::Group;
pub use watch::Watch;

/// A region while the heap is open. On lines of its own, like its [`Counters`].
#[repr(align(128))]
pub(crate) struct Region {
    /// Guarded by the lock. Its address does not change. Not a box: to move one would end the pointers that were made of it.
    context: Rc<UnsafeCell<Context>>,
    front: Rc<Front>,
    /// Number of the root's type in the type table, as others are told it: what the medium has.
    listed: AtomicU32,
    /// The number that a handle must have been made for, or [`GONE`]. Written under the lock.
    serves: AtomicU32,
    /// The number of the type of which versions are kept, if the root is of such a type. Written under the lock, or before anybody else has the region.
    versioned: AtomicU32,
    watchers: watch::Watchers,
    pub(crate) header: RegionHeader,
    pub(crate) name: Mutex<String>,
    pub(crate) held: Arc<HeldTable>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) state: Arc<State>,
}

/// Who waits longer than this to close a heap says for whom.
const PATIENCE: Duration = Duration::from_secs(1);

/// Serves nobody: removed, or its heap closed, and nothing may be touched any more. No type has this number.
const GONE: u32 = u32::MAX;

// SAFETY: the context and the memory of the region are touched under the lock only, and there is one `Rc` of it and of `front`, of which `hot` is the writer's; the rest is made for sharing.
unsafe impl Send for Region {}
// SAFETY: the context and the memory of the region are touched under the lock only; the rest is made for sharing.
unsafe impl Sync for Region {}

/// What identifies a region on the medium.
pub(crate) struct Identity {
    pub(crate) id: u32,
    pub(crate) ty: u32,
    pub(crate) header: RegionHeader,
    pub(crate) offset: u64,
    pub(crate) root: u64,
    /// Of its log.
    pub(crate) generation: u64,
    pub(crate) name: String,
}

impl Region {
    /// # Safety
    /// `store` outlives every lock that is taken on the region; the region's header is mapped as long.
    pub(crate) unsafe fn new(
        store: *const Store,
        pace: Arc<Pace>,
        media: Media,
        log: Log,
        identity: Identity,
    ) -> Region {
        let Identity { id, ty, header, root, name, .. } = identity;
        let counters = media.counters().clone();
        let held: Arc<HeldTable> = Arc::default();
        let state = Arc::new(State { root: AtomicU64::new(root), ..State::default() });
        // SAFETY: the store is there, the caller's premise.
        let streak = unsafe { (*store).tuning.streak };
        let front = Rc::new(Front { hot: Hot::new(), lock: Access::new(streak) });
        let gc = Collector::new(pace, state.clone(), held.clone());
        // SAFETY: the store is there as long as any lock on the region, the caller's premise; `front` is the region's own.
        let context =
            Rc::new(UnsafeCell::new(unsafe { Context::new(store, id, media, log, gc, Rc::as_ptr(&front)) }));
        front.hot.context.set(context.get());
        Region {
            context,
            front,
            listed: AtomicU32::new(ty),
            serves: AtomicU32::new(ty),
            versioned: AtomicU32::new(versions::NONE),
            watchers: watch::Watchers::default(),
            header,
            name: Mutex::new(name),
            held,
            counters,
            state,
        }
    }

    /// Gives a region that was read from the medium the spans of its objects, and which slots of them are live, if that is known.
    /// `pointers` gives the map of a type.
    pub(crate) fn load(
        &mut self,
        spans: &[Span],
        pointers: impl FnMut(u32) -> Arc<PointerMap>,
        live: Option<&LiveSlots>,
    ) {
        let context = Rc::get_mut(&mut self.context).expect("nobody else has it").get_mut();
        let store = context.store();
        let is_live = |span: &ObjectSpan| live.is_some_and(|live| live.load(span));
        context.alloc.load(spans, pointers, is_live);
        context.gc.incomplete = context.alloc.spans.iter().any(|span| span.live.is_empty());
        if live.is_none() && !store.is_read_only() {
            context.gc.begin_opening(&mut context.alloc, store);
        }
        context.gc.publish(&context.alloc);
    }

    /// Offset of the root object.
    #[inline]
    pub(crate) fn root(&self) -> u64 {
        self.state.root.load(Ordering::Relaxed)
    }

    pub(crate) fn set_root(&self, offset: u64) {
        self.state.root.store(offset, Ordering::Relaxed);
    }

    /// Number of the root's type.
    pub(crate) fn ty(&self) -> u32 {
        self.listed.load(Ordering::Relaxed)
    }

    /// Tells others of a type that the root now has, durably.
    pub(crate) fn set_ty(&self, ty: u32) {
        self.listed.store(ty, Ordering::Relaxed);
    }

    /// Gives the region another root object, of another type, of which `versions` are kept or not. Handles for the old one get nothing from now on.
    ///
    /// The region is locked, and no transaction is open on it.
    pub(crate) fn replace_root(&self, offset: u64, ty: u32, versions: bool) {
        self.set_root(offset);
        self.serves.store(ty, Ordering::Relaxed);
        if versions {
            self.versioned.store(ty, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    pub(crate) fn access(&self) -> &Access {
        &self.front.lock
    }

    #[track_caller]
    pub(crate) fn look_at_name(&self, forked: bool) -> String {
        look_at(&self.name, forked, String::clone).unwrap_or_default()
    }

    /// Whether handles for roots of this type may have what is in the region, which is locked.
    #[inline(always)]
    fn serves(&self, ty: u32) -> bool {
        self.serves.load(Ordering::Relaxed) == ty
    }

    /// Why a handle gets nothing, once that is durable: it may not be found again after a crash.
    fn why_not(&self, store: &Store) -> Error {
        let why =
            if self.is_gone() { Error::Closed } else { Error::Migrated { root: self.name.lock().clone() } };
        if bug(Bug::TellAtOnce) {
            return why;
        }
        self.wait_for_records(store).err().unwrap_or(why)
    }

    /// Whether the region's memory may not be touched any more.
    #[inline(always)]
    pub(crate) fn is_gone(&self) -> bool {
        self.serves.load(Ordering::Relaxed) == GONE
    }

    /// Keeps everyone away from a region.
    fn give_up(&self) {
        self.serves.store(GONE, Ordering::Relaxed);
    }

    /// Keeps everyone away from a region that a panic has left between two states, and from the heap: as after a crash, the next opening finds a state that is
    /// whole. This thread has the region locked.
    #[cold]
    #[inline(never)]
    fn fail(&self) {
        // SAFETY: the lock is held, if only for reading; where the heap is never changes.
        let store = unsafe { (*self.context.get()).store() };
        store.set_panicked();
        self.give_up();
    }
}

/// Fails the heap, which this thread has [entered](guard::enter), for a region that it was about to lock is one that nobody can lock any more.
#[cold]
#[inline(never)]
fn refused(store: &Store) -> Error {
    guard::leave(store.id());
    store.set_unfenced()
}

/// A region in which this thread has seen to it that there is no transaction, whatever heaps it is inside of. Dropping it lets go of the lock, also in a panic.
struct Beside<R: Deref<Target = Region>> {
    region: R,
    /// Who has locked it is the thread that lets go of it.
    thread: PhantomData<*const ()>,
}

impl<R: Deref<Target = Region>> Beside<R> {
    /// Waits for the region until no transaction has it. `overtakes` says whether this thread may wait for none that wait.
    fn lock(region: R, overtakes: bool) -> Result<Beside<R>, Refused> {
        region.access().lock_quiescent(overtakes)?;
        Ok(Beside { region, thread: PhantomData })
    }

    /// What the region's lock guards, unless the region is gone.
    fn context(&self) -> Option<&Context> {
        // SAFETY: the lock is held as long as this lives, so there is no writer, and the context is not written, apart from its atomics.
        (!self.region.is_gone()).then(|| unsafe { &*self.region.context.get() })
    }
}

impl<R: Deref<Target = Region>> Drop for Beside<R> {
    fn drop(&mut self) {
        // Locked in `lock`, by this thread, for this goes to no other.
        self.region.access().unlock_quiescent();
    }
}

/// A region whose only writer this thread is. Dropping it rolls the transaction back, unless it was committed, which lets go of the region, too.
pub(crate) struct Exclusive<'a> {
    store: &'a Store,
    pub(crate) region: &'a Region,
    /// [`OPEN`], [`ENDING`], [`LOCKED`] and [`LAST`]. A word: padding between flags would be copied along with them.
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

impl<'a> Exclusive<'a> {
    /// Waits for the region, whose root is to be of type `ty`, and opens a transaction on it.
    #[inline(always)] // a call would return it through memory, which costs as much as the lock
    pub(crate) fn begin(store: &'a Store, region: &'a Region, ty: u32) -> Result<Exclusive<'a>> {
        store.check_writable()?;
        store.wait_for_memory();
        guard::enter(store.id(), true)?;
        if region.access().lock_upgradable(guard::is_nested).is_err() {
            return Err(refused(store));
        }
        let exclusive = Exclusive::locked(store, region, ty)?;
        exclusive.context().begin();
        Ok(exclusive)
    }

    /// The lock was taken. The thread has [entered](guard::enter) the heap, and leaves it if this fails.
    #[inline(always)]
    fn locked(store: &'a Store, region: &'a Region, ty: u32) -> Result<Exclusive<'a>> {
        if region.serves(ty) {
            Ok(Exclusive { store, region, state: OPEN | LOCKED | LAST })
        } else {
            Err(Exclusive { store, region, state: LOCKED | LAST }.wrong_type())
        }
    }

    /// Takes the lock if it is free, beside another one of the same heap.
    fn try_locked(store: &'a Store, (region, ty): (&'a Region, u32)) -> Result<Option<Exclusive<'a>>> {
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

    /// Commits the transaction and lets go of the region.
    #[inline(always)]
    pub(crate) fn commit(&mut self) -> Result<()> {
        self.commit_and(|_| {})
    }

    /// [`commit`](Self::commit), and if that has worked, calls `done` before anyone sees the region, its collector included.
    // Takes a reference, for a processor would wait to move what was just written in parts.
    #[inline(always)]
    pub(crate) fn commit_and(&mut self, done: impl FnOnce(&mut Context)) -> Result<()> {
        self.commit_then(done, |store, wal, position| store.acknowledge(wal, position))
    }

    /// [`commit_and`](Self::commit_and), and with a write-ahead log then what `wait` does, with the position behind the transaction's record.
    #[inline(always)]
    fn commit_then(
        &mut self,
        done: impl FnOnce(&mut Context),
        wait: impl FnOnce(&Store, &Wal, u64) -> Result<()>,
    ) -> Result<()> {
        if self.store.is_forked() {
            return self.abandon();
        }
        let context = self.context();
        if context.is_between {
            return self.caught();
        }
        let result = commit::commit(context);
        self.end_transaction();
        if result.is_ok() {
            done(self.context());
        }
        self.end_held(result.is_ok());
        let (store, region) = (self.store, self.region);
        let tells = region.is_to_tell() && result.is_ok();
        let Some(wal) = store.wal() else {
            self.context().collect_some();
            self.let_go();
            if tells {
                region.tell();
            }
            return result.map_err(|error| *error);
        };
        let context = self.context();
        let position = context.media.position();
        context.collect_some();
        // Others may have the region meanwhile. They will wait for their own records, which are behind this one.
        self.let_go();
        result.map_err(|error| *error)?;
        wait(store, wal, position)?;
        if tells {
            region.tell();
        }
        Ok(())
    }

    /// Rolls the transaction back and lets go of the region. Why it was given up may tell of what it has read, so that must be durable.
    #[cold]
    pub(crate) fn give_up(self) -> Result<()> {
        let (store, region) = (self.store, self.region);
        drop(self);
        if store.is_forked() {
            return Ok(()); // what it has read cannot be waited for, and the caller has an error already
        }
        region.wait_for_records(store)
    }

    #[inline(always)]
    fn end_held(&self, committed: bool) {
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
    fn caught(&mut self) -> Result<()> {
        self.region.fail();
        Err(self.store.check_open().err().unwrap_or(Error::Closed))
    }

    /// In a forked child: leaves the transaction to the parent. Its region is not here, and its lock is that of a thread there.
    #[cold]
    fn abandon(&mut self) -> Result<()> {
        self.leave_group();
        if std::mem::take(&mut self.state) & LAST != 0 {
            guard::leave(self.store.id());
        }
        Err(Error::Forked)
    }

    /// Lets go of the list of a transaction over several roots, also if the region is never used again: the last ones that have it may drop it in any thread.
    fn leave_group(&self) {
        self.context().group = None;
    }

    /// Rolls a transaction back that was given up, or that a panic has interrupted, before its commit or within; unless only a crash leaves it whole.
    #[cold]
    fn roll_back(&mut self) {
        self.leave_group();
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
        // Whoever has it next, on whatever processor, can rely on it that lines which were flushed before this are written back before its first fence has passed; and who evicts an
        // owner lets it pass a fence.
        settle_flushes();
        // Locked by this thread, when this was made, and not let go of since.
        self.region.access().unlock_upgradable();
        if state & LAST != 0 {
            guard::leave(self.store.id());
        }
    }

    /// The transaction has been committed or rolled back.
    #[inline(always)]
    fn end_transaction(&mut self) {
        self.state = self.state & !OPEN | ENDING;
    }

    /// Lets go of the region when the transaction has ended, and all that comes after that.
    fn ended(mut self) {
        self.state &= !(OPEN | ENDING);
    }

    /// Says that this thread leaves the heap with this region, or with another one.
    fn set_last(&mut self, last: bool) {
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
                let _ = self.abandon();
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

/// A region that this thread reads, beside others and beside a transaction that changes nothing yet.
pub(crate) struct Shared<'a> {
    store: &'a Store,
    region: &'a Region,
    entry: Entry,
}

impl<'a> Shared<'a> {
    /// Waits for the region, whose root is to be of type `ty`, until no transaction changes it.
    #[inline(always)]
    pub(crate) fn begin(store: &'a Store, region: &'a Region, ty: u32) -> Result<Shared<'a>> {
        store.check_open()?;
        guard::enter(store.id(), false)?;
        let Ok(entry) = region.access().lock_shared(guard::is_nested()) else { return Err(refused(store)) };
        let shared = Shared { store, region, entry };
        if !region.serves(ty) {
            return Err(shared.wrong_type());
        }
        if store.wal().is_some() {
            region.note_seen(store);
        }
        Ok(shared)
    }
}

impl Shared<'_> {
    /// Lets go of a region that is not what was asked for.
    #[cold]
    #[inline(never)]
    fn wrong_type(self) -> Error {
        let (store, region) = (self.store, self.region);
        drop(self); // others need not wait as well
        store.check_open().err().unwrap_or_else(|| region.why_not(store))
    }
}

impl Drop for Shared<'_> {
    #[inline]
    fn drop(&mut self) {
        // A forked child leaves the lock to the parent.
        if !self.store.is_forked() {
            // Locked in `begin`, by this thread.
            self.region.access().unlock_shared(self.entry);
        }
        guard::leave(self.store.id());
    }
}

impl Region {
    /// With a write-ahead log: waits until what was committed in the region may be told to others.
    #[inline(never)] // reads without such a log need the registers
    #[track_caller]
    fn wait_for_records(&self, store: &Store) -> Result<()> {
        match store.wal() {
            Some(wal) => store.acknowledge(wal, self.counters.position.get()),
            None => Ok(()),
        }
    }

    /// Calls `f` with the spans of objects (offset, bytes) from number `from` on, up to about so many bytes of them, while nobody changes anything in the region. Returns
    /// the number of the next one; `None` if there is none, or the region cannot be had that soon.
    pub(crate) fn with_spans(
        &self,
        from: usize,
        bytes: u64,
        patience: Duration,
        mut f: impl FnMut(u64, u64),
    ) -> Option<usize> {
        if self.access().try_lock_unbiased_for(patience) != Ok(true) {
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
                f(span.span.offset, span.bytes);
                seen += span.bytes;
            }
        }
        next
    }

    /// Waits for the region, for work that leaves nothing certain of it until it has [ended](Exclusive::ended). The thread is not inside of the heap.
    fn lock_alone(&self) -> Result<Exclusive<'_>, Refused> {
        if !self.access().try_lock_unbiased_for(PATIENCE)? {
            // SURVIVES unreached: nothing in the lab takes so long.
            let root = self.name.lock().clone();
            tracing::warn!(root, "closing a heap, or removing a root, waits for a transaction on it");
            // SURVIVES unreached: as above.
            self.access().lock_unbiased()?;
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
