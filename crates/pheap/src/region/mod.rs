//! Regions: one for each named root, with a lock, an allocator and a log of its own. [`Exclusive`] and `Shared` are what a transaction and a read hold.
//!
//! Knows how a thread gets a region and lets go of it, whatever happens meanwhile. Must not know types, nor what a transaction does.

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
use crate::gc::{Collector, Pace, State};
use crate::layout::PointerMap;
use crate::media::Media;
use crate::stats::Counters;
use crate::store::Store;
use crate::store::region_header::RegionHeader;
use crate::store::spans::Span;
use crate::sync::Access;
use crate::sync::Mutex;
use crate::sync::access::Entry;
use crate::sync::fence::Refused;
use crate::txn::context::{Context, Front, Hot};
use crate::txn::log::Log;

pub(crate) use exclusive::Exclusive;
pub(crate) use group::Group;
use guard::Scope;
pub(crate) use versions::NewRoot;
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
        let front = Rc::new(Front { hot: Hot::new(), lock: Access::new() });
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
    /// The region is locked, this is its context, and no transaction is open on it.
    pub(crate) fn replace_root(&self, context: &Context, offset: u64, ty: u32, versions: bool, by: NewRoot) {
        self.set_root(offset);
        if versions {
            self.versioned.store(ty, Ordering::Relaxed);
        }
        self.change_versions(context, ty, by, || self.serves.store(ty, Ordering::Relaxed));
    }

    #[inline(always)]
    pub(crate) fn access(&self) -> &Access {
        &self.front.lock
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
        store.acknowledge_seen(self.counters.position.get()).err().unwrap_or(why)
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
        guard::enter(store.id(), Scope::Read)?;
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
