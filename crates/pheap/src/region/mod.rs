//! Regions: there is one for each named root, with a separate lock, allocator and log. A transaction on one
//! root holds an [`Exclusive`], one on several roots a [`RegionGroup`], and a read a [`SharedRegion`].
//!
//! This module knows how a thread gets a region and releases it, also after a panic or in a forked child. It
//! must not know the program's types, except by number and description, nor what a transaction does.

#![allow(unsafe_code)]

pub(crate) mod all;
mod collect;
mod deferred;
mod exclusive;
mod group;
pub(crate) mod guard;
#[cfg(test)]
mod panics_tests;
#[cfg(all(test, not(pheap_loom)))]
mod refused_tests;
pub(crate) mod rewrite;
mod versions;
mod watch;

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::alloc::bitmaps::LiveSlots;
use crate::alloc::span::ObjectSpan;
use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::gc::held::HeldTable;
use crate::gc::{Collector, Pace, RegionFacts};
use crate::layout::PointerMap;
use crate::media::Media;
use crate::stats::Counters;
use crate::store::Store;
use crate::store::region_header::RegionHeader;
use crate::store::spans::TakenSpan;
use crate::sync::Mutex;
use crate::sync::RegionLock;
use crate::sync::access::Entry;
use crate::sync::fence::FenceRefused;
use crate::txn::context::{Context, HotFields, RegionFront};
use crate::txn::log::RegionLog;

pub(crate) use exclusive::Exclusive;
pub(crate) use group::RegionGroup;
use guard::Scope;
pub(crate) use versions::NewRoot;
pub use watch::Watch;

/// The state of a region in this process. Aligned to separate lines, like its [`Counters`].
#[repr(align(128))]
pub(crate) struct Region {
    /// The context of the region, guarded by the region's lock. Its address does not change. It is in an `Rc`
    /// and not in a `Box`: moving a `Box` would invalidate the pointers that were made from it.
    context: Rc<UnsafeCell<Context>>,
    front: Rc<RegionFront>,
    /// Number of the root's type in the type table, for threads without the region's lock. When the root gets
    /// another type, this is set once the commit is acknowledged: with some policies, before the medium has
    /// it.
    listed: AtomicU32,
    /// The type number that a handle of the root must have to access the region; [`GONE`] if no thread may
    /// access it. Written under the region's lock.
    serves: AtomicU32,
    /// Number of the root type whose versions are kept, or [`versions::NONE`]. If the root gets a type
    /// without versions, this stays the old type until the version after that change is recorded. Written
    /// under the region's lock, or before any other thread has the region.
    versioned: AtomicU32,
    watchers: watch::Watchers,
    pub(crate) header: RegionHeader,
    pub(crate) name: Mutex<String>,
    pub(crate) held: Arc<HeldTable>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) state: Arc<RegionFacts>,
}

/// A value of [`Region::serves`]: the region was removed, has failed, or its heap was closed, so no further
/// thread may touch its memory. No type has this number.
const GONE: u32 = u32::MAX;

// SAFETY: threads touch the context only under the region's lock. They touch the region's objects only under
// that lock, or in snapshots: these only read objects that are held and that no thread writes any more. The
// `Rc`s of the context and of `front` are never cloned, so no thread changes their counts while another one
// has the region; only the writer uses `front.hot`. All other fields are `Send` and `Sync`.
unsafe impl Send for Region {}
// SAFETY: threads touch the context only under the region's lock, and the region's objects only under that
// lock or in snapshots, which read objects that no thread writes. All other fields are `Sync`.
unsafe impl Sync for Region {}

/// The facts about a region that are on the medium.
pub(crate) struct RegionIdentity {
    pub(crate) id: u32,
    pub(crate) ty: u32,
    pub(crate) header: RegionHeader,
    pub(crate) offset: u64,
    pub(crate) root: u64,
    /// Generation of the region's log.
    pub(crate) generation: u64,
    pub(crate) name: String,
}

impl Region {
    /// Makes a region that has no spans yet.
    ///
    /// # Safety
    /// `store` outlives every lock that is taken on the region, and the region's header is mapped until the
    /// heap is closed.
    pub(crate) unsafe fn new(
        store: *const Store,
        pace: Arc<Pace>,
        media: Media,
        log: RegionLog,
        identity: RegionIdentity,
    ) -> Region {
        let RegionIdentity { id, ty, header, root, name, .. } = identity;
        let counters = media.counters().clone();
        let held: Arc<HeldTable> = Arc::default();
        let state = Arc::new(RegionFacts { root: AtomicU64::new(root), ..RegionFacts::default() });
        let front = Rc::new(RegionFront { hot: HotFields::new(), lock: RegionLock::new() });
        let gc = Collector::new(pace, state.clone(), held.clone());
        // SAFETY: the caller guarantees that `store` outlives every lock on the region. `front` lives as long
        // as the region, which also owns the context.
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

    /// Gives a region that was read from the medium the spans of its objects. `live` has the live slots of
    /// these spans, if they are known; `pointers` returns the pointer map of a type. If the live slots are
    /// not known, and the heap is not read-only, begins the collector's cycle that finds them.
    pub(crate) fn load(
        &mut self,
        spans: &[TakenSpan],
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

    /// Returns the heap offset of the root object; 0 if there is none yet.
    #[inline]
    pub(crate) fn root(&self) -> u64 {
        self.state.root.load(Ordering::Relaxed)
    }

    pub(crate) fn set_root(&self, offset: u64) {
        self.state.root.store(offset, Ordering::Relaxed);
    }

    /// Returns the number of the root's type, as it was [published](Self::set_ty) last.
    pub(crate) fn ty(&self) -> u32 {
        self.listed.load(Ordering::Relaxed)
    }

    /// Publishes the type that the root now has, for [`ty`](Self::ty). The commit that has changed the type
    /// was acknowledged.
    pub(crate) fn set_ty(&self, ty: u32) {
        self.listed.store(ty, Ordering::Relaxed);
    }

    /// Gives the root another type, and another root object, or the same one at the same `offset`. `versions`
    /// says whether versions of the new root are kept. From now on, handles for the old type get an error.
    ///
    /// The caller has the region's lock, `context` is that of this region, and no transaction is open on it.
    pub(crate) fn replace_root(&self, context: &Context, offset: u64, ty: u32, versions: bool, by: NewRoot) {
        self.set_root(offset);
        if versions {
            self.versioned.store(ty, Ordering::Relaxed);
        }
        self.change_versions(context, ty, by, || self.serves.store(ty, Ordering::Relaxed));
    }

    #[inline(always)]
    pub(crate) fn access(&self) -> &RegionLock {
        &self.front.lock
    }

    /// Whether handles for roots of type `ty` may access the region. The caller has the region's lock, or the
    /// lock of its versions.
    #[inline(always)]
    fn serves(&self, ty: u32) -> bool {
        self.serves.load(Ordering::Relaxed) == ty
    }

    /// Returns the error for a handle that cannot access the region. First waits until the region's commits
    /// are acknowledged, because otherwise a crash could undo the reason for the error. If the wait fails,
    /// returns the error of the wait.
    fn why_not(&self, store: &Store) -> Error {
        let why =
            if self.is_gone() { Error::Closed } else { Error::Migrated { root: self.name.lock().clone() } };
        if bug(Bug::TellAtOnce) {
            return why;
        }
        store.acknowledge_seen(self.counters.position.get()).err().unwrap_or(why)
    }

    /// Whether no further thread may touch the region's memory.
    #[inline(always)]
    pub(crate) fn is_gone(&self) -> bool {
        self.serves.load(Ordering::Relaxed) == GONE
    }

    /// Refuses the region to all further threads.
    fn mark_gone(&self) {
        self.serves.store(GONE, Ordering::Relaxed);
    }

    /// Refuses a region that a panic has left between two states, and its heap, to all further threads. As
    /// after a crash, the next opening makes the state consistent. The calling thread has the region's lock.
    #[cold]
    #[inline(never)]
    fn fail(&self) {
        // SAFETY: the calling thread has the region's lock, perhaps shared. The context's pointer to the
        // store is set once, when the context is made.
        let store = unsafe { (*self.context.get()).store() };
        store.set_panicked();
        self.mark_gone();
    }
}

/// Fails the heap, because this thread cannot lock a region of it: the system refuses the fence. Returns the
/// error. The calling thread has [entered](guard::enter) the heap, and leaves it here.
#[cold]
#[inline(never)]
fn refused(store: &Store) -> Error {
    guard::leave(store.id());
    store.set_unfenced()
}

/// A region that has no open transaction while this value exists. Dropping the value releases the region's
/// lock, also in a panic.
struct IdleRegion<R: Deref<Target = Region>> {
    region: R,
    /// Keeps this value in the thread that has locked the region, and must release it.
    thread: PhantomData<*const ()>,
}

impl<R: Deref<Target = Region>> IdleRegion<R> {
    /// Waits until the region has no transaction. `overtakes` says whether this thread passes writers that
    /// wait for the lock.
    fn lock(region: R, overtakes: bool) -> Result<IdleRegion<R>, FenceRefused> {
        region.access().lock_quiescent(overtakes)?;
        Ok(IdleRegion { region, thread: PhantomData })
    }

    /// Returns the context that the region's lock guards, or `None` if the region is gone.
    fn context(&self) -> Option<&Context> {
        // SAFETY: this value shares the region's lock, so there is no writer. Without a writer, threads use
        // the context only by shared references.
        (!self.region.is_gone()).then(|| unsafe { &*self.region.context.get() })
    }
}

impl<R: Deref<Target = Region>> Drop for IdleRegion<R> {
    fn drop(&mut self) {
        // This thread locked the region in `lock`, because this value cannot be sent to another thread.
        self.region.access().unlock_quiescent();
    }
}

/// A region that this thread reads. Other threads may read it, too, and a transaction may be open that has
/// not begun to store.
pub(crate) struct SharedRegion<'a> {
    store: &'a Store,
    region: &'a Region,
    entry: Entry,
}

impl<'a> SharedRegion<'a> {
    /// Waits until no transaction stores to the region, whose root must have the type `ty`. Unless this
    /// thread has a lock of a heap already, also waits for transactions that wait to store.
    #[inline(always)]
    pub(crate) fn begin_read(store: &'a Store, region: &'a Region, ty: u32) -> Result<SharedRegion<'a>> {
        store.check_open()?;
        guard::enter(store.id(), Scope::Read)?;
        let Ok(entry) = region.access().lock_shared(guard::is_nested()) else { return Err(refused(store)) };
        let shared = SharedRegion { store, region, entry };
        if !region.serves(ty) {
            return Err(shared.wrong_type());
        }
        if store.wal().is_some() {
            region.note_seen(store);
        }
        Ok(shared)
    }
}

impl SharedRegion<'_> {
    /// Releases a region that is gone, or whose root does not have the requested type, and returns the error.
    #[cold]
    #[inline(never)]
    fn wrong_type(self) -> Error {
        let (store, region) = (self.store, self.region);
        drop(self); // `why_not` may wait for the disk; other threads need not wait for that
        store.check_open().err().unwrap_or_else(|| region.why_not(store))
    }
}

impl Drop for SharedRegion<'_> {
    #[inline]
    fn drop(&mut self) {
        // A forked child leaves the lock to the parent.
        if !self.store.is_forked() {
            // This thread locked the region in `begin_read`.
            self.region.access().unlock_shared(self.entry);
        }
        guard::leave(self.store.id());
    }
}
