//! The directory of roots: a region for each, found by scanning the span tables when a heap is opened.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::arena::{SpanEntry, SpanKind};
use super::{Heap, HeapInner, Meta};
use crate::error::{Error, Result};
use crate::layout::Persist;
use crate::layout::desc::Desc;
use crate::media::{Bug, LINE, Media, bug};
use crate::region::header::{MAX_NAME, REGION_SIZE, RegionHeader, root_word};
use crate::region::{Exclusive, Identity, Region, Root, guard};
use crate::sync::MutexGuard;
use crate::txn::Txn;
use crate::txn::context::Context;
use crate::txn::log::{Log, Segment};

/// A root, as [`Heap::roots`] lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RootInfo {
    /// Its name.
    pub name: String,
    /// The name of its type, in the program that created it.
    pub type_name: String,
}

impl Heap {
    /// The root with this name. Created, with the default value, if there is none.
    ///
    /// # Errors
    /// [`Error::TypeMismatch`] if the root is of another type (see [`migrate`](Self::migrate)); [`Error::InvalidName`]; [`Error::ReadOnly`], [`Error::OutOfSpace`] and
    /// [`Error::Nested`] if it would have to be created.
    pub fn root<T: Persist + Default>(&self, name: &str) -> Result<Root<T>> {
        // SAFETY: a value made outside of any transaction contains no pointers.
        self.root_or_init(name, |tx| unsafe { tx.alloc_unbranded(T::default()) }.map(|p| p.addr().as_ptr()))
    }

    /// The root with this name. Created by `init`, which runs in the transaction that creates it, if there is none.
    ///
    /// # Errors
    /// As for [`root`](Self::root), and what `init` returns.
    pub fn root_or<T: Persist>(
        &self,
        name: &str,
        init: impl for<'r> FnOnce(&mut Txn<'r>) -> Result<T::At<'r>>,
    ) -> Result<Root<T>> {
        self.root_or_init(name, |tx| {
            let value = init(tx)?;
            // SAFETY: `init` works for all brands, so what it returns has that of the transaction.
            unsafe { tx.alloc_unbranded(value) }.map(|p| p.addr().as_ptr())
        })
    }

    /// The root with this name, which must exist.
    ///
    /// # Errors
    /// [`Error::NoSuchRoot`], [`Error::TypeMismatch`].
    pub fn existing_root<T: Persist>(&self, name: &str) -> Result<Root<T>> {
        let heap = self.inner();
        heap.check_open()?;
        let region =
            heap.meta.lock().roots.get(name).cloned().ok_or_else(|| Error::NoSuchRoot(name.to_owned()))?;
        let ty = heap.check_type(&region, name, <T as Persist>::desc())?;
        // SAFETY: the number was just looked up.
        Ok(unsafe { Root::new(heap.clone(), region, ty) })
    }

    /// All roots, by name. (In a forked child, none if the heap was being changed.)
    pub fn roots(&self) -> Vec<RootInfo> {
        let roots = |meta: &Meta| {
            let info = |(name, region): (&String, &Arc<Region>)| RootInfo {
                name: name.clone(),
                type_name: meta.types.types[region.ty() as usize].name.clone(),
            };
            meta.roots.iter().map(info).collect()
        };
        self.inner().look_at_meta(roots).unwrap_or_default()
    }

    /// Gives a root another name, durably, or not at all. Handles stay valid.
    ///
    /// # Errors
    /// [`Error::NoSuchRoot`], [`Error::RootExists`], [`Error::InvalidName`], [`Error::ReadOnly`], [`Error::Nested`].
    pub fn rename_root(&self, old: &str, new: &str) -> Result<()> {
        let heap = self.inner();
        heap.check_not_forked()?;
        if guard::is_inside(heap.id()) {
            return Err(Error::Nested);
        }
        check_name(new)?;
        let _creation = heap.lock_creation()?;
        let mut meta = heap.meta.lock();
        let region = meta.roots.get(old).cloned().ok_or_else(|| Error::NoSuchRoot(old.to_owned()))?;
        if meta.roots.contains_key(new) {
            return if old == new { Ok(()) } else { Err(Error::RootExists(new.to_owned())) };
        }
        // SAFETY: the header is mapped, and the metadata are locked.
        unsafe { region.header.set_name(&meta.media, new) };
        heap.acknowledge_all()?;
        meta.roots.remove(old);
        new.clone_into(&mut region.name.lock());
        meta.roots.insert(new.to_owned(), region);
        Ok(())
    }

    /// Removes a root and all its objects, durably, or not at all. Waits for the transactions and reads that are running on it;
    /// handles fail with [`Error::Closed`] from then on.
    ///
    /// # Errors
    /// [`Error::NoSuchRoot`], [`Error::ReadOnly`], [`Error::Nested`] if this thread is inside a transaction or read of the heap.
    pub fn remove_root(&self, name: &str) -> Result<()> {
        let heap = self.inner();
        heap.check_not_forked()?;
        if guard::is_inside(heap.id()) {
            return Err(Error::Nested);
        }
        let _creation = heap.lock_creation()?;
        let region =
            heap.meta.lock().roots.get(name).cloned().ok_or_else(|| Error::NoSuchRoot(name.to_owned()))?;
        // From here on its log must never be replayed: its memory is about to belong to others.
        let spans = region.retire(heap, |context| {
            // SAFETY: the region is locked.
            unsafe { region.header.set_removed(&context.media) };
            if !bug(Bug::ReuseBeforeRemoval) {
                context.media.fence();
            }
            context.spans()
        })?;
        let mut meta = heap.meta.lock();
        // SAFETY: it was marked as removed just now, and is gone for everyone.
        unsafe { meta.free_spans(heap, &spans) };
        // Before anyone is told that there is no such root.
        let durable = if bug(Bug::TellAtOnce) { Ok(()) } else { heap.acknowledge_all() };
        meta.roots.remove(name);
        drop(meta);
        if bug(Bug::TellAtOnce) {
            return heap.acknowledge_all();
        }
        durable
    }

    /// `init` allocates the root object and returns its address.
    fn root_or_init<T: Persist>(
        &self,
        name: &str,
        init: impl FnOnce(&mut Txn<'_>) -> Result<*mut u8>,
    ) -> Result<Root<T>> {
        match self.existing_root(name) {
            Err(Error::NoSuchRoot(_)) => {}
            found => return found,
        }
        let heap = self.inner();
        heap.check_writable()?;
        check_name(name)?;
        if guard::is_inside(heap.id()) {
            return Err(Error::Nested);
        }
        let _creation = heap.lock_creation()?;
        match self.existing_root(name) {
            Err(Error::NoSuchRoot(_)) => {} // nobody else was faster
            found => return found,
        }
        let region = Arc::new(heap.meta.lock().create_region(heap, name, <T as Persist>::desc())?);
        let mut unfinished = Unfinished { heap, region: Some(region) };
        let offset = heap.create_root_object(unfinished.region(), init)?;
        let region = unfinished.region.take().expect("it was there just now");
        region.set_root(offset);
        heap.meta.lock().roots.insert(name.to_owned(), region.clone());
        let ty = region.ty();
        // SAFETY: the region was created with the number of `T`.
        Ok(unsafe { Root::new(heap.clone(), region, ty) })
    }
}

/// A region whose root object is not there yet. Its pages are given back if that comes to nothing, also by a panic.
struct Unfinished<'a> {
    heap: &'a HeapInner,
    region: Option<Arc<Region>>,
}

impl Unfinished<'_> {
    fn region(&self) -> &Region {
        self.region.as_ref().expect("only taken when it is finished")
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(region) = &self.region
            && !self.heap.is_forked()
            && let Ok(spans) = region.retire(self.heap, |context| context.spans())
        {
            // SAFETY: a region without a root counts as removed, and nobody else has seen it.
            unsafe { self.heap.meta.lock().free_spans(self.heap, &spans) };
        }
    }
}

/// Keeps roots as they are. In a forked child, what the parent has locked stays so.
pub(super) struct Creation<'a> {
    heap: &'a HeapInner,
    guard: ManuallyDrop<MutexGuard<'a, ()>>,
}

impl<'a> Creation<'a> {
    #[cfg_attr(feature = "sim", track_caller)]
    pub(super) fn lock(heap: &'a HeapInner) -> Creation<'a> {
        Creation { heap, guard: ManuallyDrop::new(heap.creation.lock()) }
    }
}

impl Drop for Creation<'_> {
    fn drop(&mut self) {
        if !self.heap.is_forked() {
            // SAFETY: once, for it is dropped once.
            unsafe { ManuallyDrop::drop(&mut self.guard) };
        }
    }
}

impl HeapInner {
    /// Keeps other threads from creating, renaming and removing roots, and from closing the heap.
    pub(super) fn lock_creation(&self) -> Result<Creation<'_>> {
        self.check_writable()?; // in a forked child, it may be locked for ever
        let guard = Creation::lock(self);
        self.check_writable()?; // it may have been closed meanwhile
        // A log that refuses records does not say so where metadata are changed.
        self.check_log()?;
        Ok(guard)
    }

    /// The transaction that completes a region. Returns the offset of its root object.
    fn create_root_object(
        &self,
        region: &Region,
        init: impl FnOnce(&mut Txn<'_>) -> Result<*mut u8>,
    ) -> Result<u64> {
        let mut exclusive = Exclusive::begin(self, region, region.ty())?;
        // SAFETY: the region is locked until `exclusive` goes.
        let root = unsafe { init(&mut Txn::new(exclusive.hot(), region))? };
        self.check_not_forked()?;
        let offset = (root.addr() - self.base().addr()) as u64;
        // SAFETY: a word of the region's header, which nothing refers to.
        unsafe { write_word(&exclusive, region.header.root_word(), root_word(offset)) };
        exclusive.commit()?;
        Ok(offset)
    }

    /// Fails unless the root of `region` has the layout that `desc` describes. Returns the number of that.
    fn check_type(&self, region: &Region, name: &str, desc: &'static Desc) -> Result<u32> {
        let mut meta = self.meta.lock();
        let ty = region.ty();
        if meta.types.is(ty, desc)? {
            return Ok(ty);
        }
        let difference = meta.types.difference(ty, desc)?.unwrap_or_default();
        Err(Error::TypeMismatch { root: name.to_owned(), difference })
    }
}

impl Meta {
    /// A region without a root object.
    fn create_region(&mut self, heap: &HeapInner, name: &str, desc: &'static Desc) -> Result<Region> {
        let ty = self.register(heap, desc)?;
        let id = self.next_region;
        let entry = SpanEntry { kind: SpanKind::Region, slot: 0, pages: 0, ty, region: id };
        let span = self.take_span(heap, REGION_SIZE, entry)?;
        self.next_region += 1;
        // No log before this one can have had entries of this generation.
        let generation = self.header.first_generation(id);
        // SAFETY: the span was taken just now. It is recorded only when its header is complete.
        let header = unsafe {
            let header = RegionHeader::at(heap.base(), span.offset);
            header.create(&self.media, id, ty, name, generation, self.header.salt);
            header
        };
        // SURVIVES drop fence: nothing names the region outside of it before the transaction that completes it has passed a fence of the same
        // processor. SURVIVES delay fence: see drop.
        heap.record_span(&span, &self.media);
        let identity =
            Identity { id, ty, header, offset: span.offset, root: 0, generation, name: name.to_owned() };
        // SAFETY: as above; regions are dropped, or gone, before their heap.
        Ok(unsafe { self.region(heap, identity, vec![first_segment(span.offset)]) })
    }

    /// # Safety
    /// The region is mapped, its log consists of `segments`, and `heap` outlives all use of it.
    pub(super) unsafe fn region(
        &self,
        heap: *const HeapInner,
        identity: Identity,
        segments: Vec<Segment>,
    ) -> Region {
        // SAFETY: passed on to the caller.
        unsafe {
            let (base, medium) = ((*heap).base(), (*heap).medium.clone());
            let mut log = Log::new(
                base,
                identity.header,
                identity.generation,
                self.header.log_identity(identity.id),
                segments,
            );
            if (*heap).wal().is_some() {
                log.keep_in_memory();
            }
            Region::new(heap, Media::new(medium), log, identity)
        }
    }
}

/// Writes a word of metadata within the open transaction.
///
/// # Safety
/// The word is mapped and belongs to the region; nothing refers to it.
pub(super) unsafe fn write_word(exclusive: &Exclusive<'_>, at: *mut u64, word: u64) {
    // SAFETY: the transaction is open, and nobody has a reference to its context; the place is 8 bytes, this transaction's own.
    unsafe {
        let place = Context::writable(exclusive.context(), at.expose_provenance(), 8, 8, None);
        place.cast::<u64>().write(word);
    }
}

/// The segment of a log that lies behind the header of its region.
pub(super) fn first_segment(region: u64) -> Segment {
    Segment { start: region + REGION_SIZE / 2, len: REGION_SIZE / 2 }
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > MAX_NAME { Err(Error::InvalidName(name.to_owned())) } else { Ok(()) }
}

const _: () = assert!((REGION_SIZE as usize / 2).is_multiple_of(LINE));
