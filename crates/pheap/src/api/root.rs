//! `Root`, a program's handle of a region: `txn`, `read`. Root objects are created and replaced here, too.
//!
//! Here and in [`several`](super::several), a lock and the number of a type become a [`Txn`] and a [`P`] with
//! a unique brand. No other file of this folder makes them from a lock.

#![allow(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::tx::Txn;
use super::view::View;
use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::heap::HeapInner;
use crate::heap::check::rule;
use crate::layout::Persist;
use crate::layout::desc::Desc;
use crate::ptr::P;
use crate::region::{Exclusive, NewRoot, Region, SharedRegion, Watch, guard};
use crate::stats::Live;
use crate::store::arena::{SpanEntry, SpanKind};
use crate::store::region_header::{REGION_SIZE, root_word};
use crate::store::spans::TakenSpan;
use crate::txn::context::{Context, HotFields};
use crate::units::PAGE;

/// A named root of a heap: an object of type `T`, and a separate region for all objects that it leads to.
///
/// A handle is cheap to clone and can be sent to other threads. Transactions on one root run one after the
/// other; reads run concurrently with one another, and with a transaction until it stores its changes in
/// place. Transactions on different roots run concurrently, so a program scales with threads by using several
/// roots.
///
/// The lifetime of a type in a heap is that of a transaction, and a handle has none. So in a struct or a
/// signature, the lifetime is written `'static`, which says nothing about how long anything lives (in a `let`
/// it can be left out):
///
/// ```
/// use pheap::{Heap, PHashMap, PVecDeque, Persist, Root, field};
///
/// #[derive(Persist, Default)]
/// #[repr(C)]
/// struct Queue<'r> {
///     waiting: PVecDeque<'r, u64>,
///     done: PHashMap<'r, u64, u32>,
/// }
///
/// /// Has no lifetime: it can be in an `Arc`, in another thread, in a `static`.
/// struct Service {
///     heap: Heap,
///     queue: Root<Queue<'static>>,
/// }
///
/// impl Service {
///     fn new(heap: Heap) -> pheap::Result<Service> {
///         Ok(Service { queue: heap.root("queue")?, heap })
///     }
///
///     fn submit(&self, job: u64) -> pheap::Result<()> {
///         self.queue.txn(|tx, queue| field!(queue.waiting).push_back(tx, job))
///     }
///
///     fn stop(self) -> pheap::Result<()> {
///         self.heap.close()
///     }
/// }
///
/// # fn main() -> pheap::Result<()> {
/// let service = Service::new(Heap::in_memory()?)?;
/// service.submit(7)?;
/// service.stop()
/// # }
/// ```
//
// Invariant: `region` belongs to `heap`, and `ty` is the number of `T` in the type table of that heap, or, in
// a read-only heap, of a type whose values are all values of `T`. Only `find_by_name` and `clone` make a
// `Root`: the marker is private. (Other files read the other fields; none writes them.)
pub struct Root<T> {
    pub(crate) heap: Arc<HeapInner>,
    pub(crate) region: Arc<Region>,
    /// The number of the root's type when the handle was made. An access compares it with the number that the
    /// region serves, to detect a migrated root.
    pub(crate) ty: u32,
    marker: PhantomData<fn() -> T>,
}

impl<T> Clone for Root<T> {
    fn clone(&self) -> Self {
        Root { heap: self.heap.clone(), region: self.region.clone(), ty: self.ty, marker: PhantomData }
    }
}

// A panic does not leave an inconsistent root: a transaction is rolled back, a read changes nothing, and a
// heap that cannot be repaired fails. The impls for `Heap` have the reasons.
impl<T> std::panic::UnwindSafe for Root<T> {}
impl<T> std::panic::RefUnwindSafe for Root<T> {}

impl<T> fmt::Debug for Root<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Root").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl<T> Root<T> {
    /// Returns the root's name, or an empty string in a forked child.
    pub fn name(&self) -> String {
        if self.heap.is_forked() {
            return String::new();
        }
        self.region.name.lock().clone()
    }
}

impl<T: Persist> Root<T> {
    /// Returns the root with this name, if it is a `T`, or can be read as one in a read-only heap.
    pub(super) fn find_by_name(heap: &Arc<HeapInner>, name: &str) -> Result<Root<T>> {
        heap.check_open()?;
        let region = heap.region(name)?;
        let ty = heap.check_type(&region, name, <T as Persist>::desc())?;
        region.held.set_heap(heap);
        Ok(Root { heap: heap.clone(), region, ty, marker: PhantomData })
    }

    /// Whether the root's type is the one that `desc` describes.
    pub(super) fn has_type(&self, desc: &'static Desc) -> Result<bool> {
        self.heap.tables.lock().types.matches_type(self.ty, desc)
    }

    /// Runs `f` as one transaction: all its changes take effect, or none does. Before this returns, they are
    /// as durable as the heap's [`Durability`](crate::Durability) and [`SyncPolicy`](crate::SyncPolicy) say.
    ///
    /// If `f` returns an error or panics, its changes are rolled back. After a crash at any moment, the root
    /// has the state before or after the transaction. If another thread has a transaction on the root, this
    /// waits.
    ///
    /// Reads run until the transaction stores its changes in place: at the commit, or earlier, when it
    /// becomes long. It becomes long if it changes thousands of objects. It may become long earlier if it
    /// accesses objects many times after it has changed some, or changes many objects that lie close
    /// together. Before it stores in place, it waits for the reads that have begun; any access to the heap in
    /// `f` may wait for that.
    ///
    /// The error type is fixed, so that a closure may end in `Ok(())`; see [`try_txn`](Self::try_txn) for
    /// others.
    ///
    /// Inside `f`, do not wait for a thread that needs the same root, nor for an event for which a reader of
    /// the root may wait: the commit, and any access before it, may wait until that read ends. Nor wait for a
    /// thread that creates, renames or removes any root, or that migrates, converts, checks, copies or
    /// inspects the heap: such methods run one after the other, and the running one may wait for this root.
    /// To use several roots of one heap, open them together with [`pheap::txn`](crate::txn()). Transactions
    /// on two *heaps* do not nest, unless [`with_several_heaps`](crate::with_several_heaps) allows it.
    ///
    /// # Cost
    /// A transaction without writes and allocations costs a lock. With
    /// [`Durability::Wal`](crate::Durability::Wal), it also waits until the data that it may have read are as
    /// durable as the policy requires. For others, see the crate's documentation.
    ///
    /// # Errors
    /// The error that `f` returns; [`Error::Nested`] if this thread is inside a transaction or read of the
    /// heap already, and [`Error::SeveralHeaps`] if it is inside a transaction of another heap;
    /// [`Error::Unsupported`] if it is inside 16 transactions, reads and accesses to snapshots already;
    /// [`Error::OutOfSpace`], [`Error::ReservationFull`], [`Error::Removed`] or [`Error::Io`] if a log cannot
    /// grow; [`Error::ReadOnly`], [`Error::Closed`], [`Error::Migrated`], [`Error::Forked`];
    /// [`Error::Failed`] if the disk has failed before, or a panic has left the heap inconsistent;
    /// [`Error::Misplaced`] if the heap's files cannot be found. All of them leave the root as it was. With
    /// [`Durability::Wal`](crate::Durability::Wal), [`Error::OutcomeUnknown`] if the disk fails while this
    /// transaction waits for it, and other errors if the log cannot be created.
    #[inline]
    pub fn txn<R>(&self, f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, T::At<'r>>) -> Result<R>) -> Result<R> {
        self.try_txn(f)
    }

    /// Like [`txn`](Self::txn), with an error type of the program.
    ///
    /// # Errors
    /// As for `txn`.
    #[inline]
    pub fn try_txn<R, E: From<Error>>(
        &self,
        f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, T::At<'r>>) -> Result<R, E>,
    ) -> Result<R, E> {
        self.run(f, |exclusive, _| {
            let committed = exclusive.commit(|_| {});
            exclusive.tell();
            committed
        })
    }

    /// Opens a transaction, runs `f` in it, and passes the result of `f` to `commit`. If `f` fails, rolls the
    /// transaction back, and waits for the data that `f` may have read, as the sync policy requires.
    #[inline(always)]
    pub(super) fn run<R, E: From<Error>>(
        &self,
        f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, T::At<'r>>) -> Result<R, E>,
        commit: impl FnOnce(&mut Exclusive<'_>, &R) -> Result<()>,
    ) -> Result<R, E> {
        self.run_or(f, commit, |exclusive| self.heap.acknowledge_seen(exclusive.abort()))
    }

    /// Like [`run`](Self::run), but if `f` fails, calls `give_up`, which rolls the transaction back.
    #[inline(always)]
    pub(super) fn run_or<R, E: From<Error>>(
        &self,
        f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, T::At<'r>>) -> Result<R, E>,
        commit: impl FnOnce(&mut Exclusive<'_>, &R) -> Result<()>,
        give_up: impl FnOnce(Exclusive<'_>) -> Result<()>,
    ) -> Result<R, E> {
        let mut exclusive = Exclusive::begin_transaction(&self.heap, &self.region, self.ty)?;
        // SAFETY: `exclusive` has the region locked, with an open transaction, and is not used before `f`
        // returns, when `tx` is not used any more. `f` works for all brands, so the brand is unique.
        let tx = &mut unsafe { Txn::new(exclusive.hot(), &self.region.held) };
        // SAFETY: the region was locked for a root of type `self.ty`, and `f` works for all brands, so the
        // brand is unique.
        let object = unsafe { self.object() };
        match f(tx, object) {
            Ok(result) => {
                commit(&mut exclusive, &result)?;
                Ok(result)
            }
            Err(error) => {
                give_up(exclusive)?;
                Err(error)
            }
        }
    }

    /// Runs `f`, which may read but not write. Reads of one root run concurrently with one another and with a
    /// transaction, of which they see nothing before it commits. They wait while it stores its changes.
    ///
    /// With [`Durability::Wal`](crate::Durability::Wal), if the policy makes commits wait for a sync, the
    /// result of `f` is returned after all data that `f` has read are durable, so that no caller learns of a
    /// change that a power failure then takes back. The read waits for that after `f` has run, and without
    /// the root's lock ([`read_deferred`](Self::read_deferred) does not wait). As in a transaction, side
    /// effects of `f` and messages of its panics do not wait: to send something elsewhere, return it. A read
    /// that is nested in another read of the heap does not wait; the outer read waits for both. A read inside
    /// a transaction on another heap waits before it returns.
    ///
    /// Reads of several roots and heaps may nest in any order. If a transaction is already waiting for reads
    /// to end, a read that is not nested waits for it, so that overlapping reads cannot starve a transaction.
    /// A nested read does not wait for such a transaction. So if threads overlap without end and read a root
    /// only in nested reads, transactions on it may starve; make the read of that root the outermost. Inside
    /// `f`, do not wait for a thread that needs the same root, even to read it: its read may queue after a
    /// transaction that waits for this read. Nor wait for a thread that is inside a transaction on this root,
    /// which may wait for this read. Nor wait for a thread that creates, renames or removes a root, or that
    /// migrates, converts, checks, copies or inspects the heap; see [`txn`](Self::txn).
    ///
    /// # Errors
    /// [`Error::Nested`] if this thread is inside a transaction of the heap; [`Error::Unsupported`] if it is
    /// inside 16 transactions, reads and accesses to snapshots already; [`Error::Closed`],
    /// [`Error::Migrated`], [`Error::Forked`], [`Error::Failed`], [`Error::Misplaced`]; with `Wal`,
    /// [`Error::OutcomeUnknown`] if the disk fails while this waits for it. If `f` has run by then, its
    /// result is dropped.
    #[inline]
    pub fn read<R>(&self, f: impl for<'r> FnOnce(&View<'r>, P<'r, T::At<'r>>) -> R) -> Result<R> {
        Ok(self.read_and_finish(f, |shared| shared.wait_for_seen())?.0)
    }

    /// Like [`read`](Self::read), with a closure that may fail, so that one `?` is enough:
    /// `root.try_read(|view, p| Ok::<_, MyError>(..))?`.
    ///
    /// # Errors
    /// The error that `f` returns, and those of `read`.
    #[inline]
    pub fn try_read<R, E: From<Error>>(
        &self,
        f: impl for<'r> FnOnce(&View<'r>, P<'r, T::At<'r>>) -> Result<R, E>,
    ) -> Result<R, E> {
        self.read(f)?
    }

    /// Runs `f` in a read, and ends the read by `end`.
    #[inline(always)]
    pub(super) fn read_and_finish<R, E>(
        &self,
        f: impl for<'r> FnOnce(&View<'r>, P<'r, T::At<'r>>) -> R,
        end: impl FnOnce(SharedRegion<'_>) -> Result<E>,
    ) -> Result<(R, E)> {
        let shared = SharedRegion::begin_read(&self.heap, &self.region, self.ty)?;
        // SAFETY: `shared` has the region locked until `f` has returned; the `HotFields` of a reader have no
        // context; `f` works for all brands, so the brand is unique.
        let view = &unsafe { View::new(HotFields::reader(), &self.region.held) };
        // SAFETY: the region was locked for a root of type `self.ty`, and `f` works for all brands, so the
        // brand is unique.
        let result = f(view, unsafe { self.object() });
        Ok((result, end(shared)?))
    }

    /// Collects the garbage of the root: objects that were unreachable at the call are free when it returns.
    /// Transactions and reads continue during the collection.
    /// See [`Heap::collect`](crate::Heap::collect).
    ///
    /// # Errors
    /// [`Error::Nested`] if this thread is inside a transaction or read of the heap, or reads a snapshot of
    /// it, [`Error::SeveralHeaps`] if of another one; [`Error::ReadOnly`], [`Error::Closed`],
    /// [`Error::Forked`], [`Error::Failed`], [`Error::Misplaced`], and others if the log cannot be created.
    pub fn collect(&self) -> Result<()> {
        self.heap.check_writable()?;
        guard::may_wait(self.heap.id())?;
        self.heap.collect(&self.region);
        self.heap.check_open()
    }

    /// Registers `f` to be called after each transaction on this root that has changed data, until the
    /// returned `Watch` is dropped: for example to wake threads that wait for a change.
    ///
    /// The thread that has run the transaction calls `f` before `txn` returns, with no lock of the heap held:
    /// after the transaction is durable, if `txn` waits for that, or after the disk has failed. So `f` may
    /// use the heap in any way, and other threads may have changed the root again. `f` gets no arguments; to
    /// find the change, read the root. (`f` may also be called although nothing has changed: for a
    /// transaction over several roots, if it has changed one of them, and for long transactions.)
    ///
    /// Transactions that do not wait for the disk, [deferred](Self::txn_deferred) ones and
    /// [tasks](Self::txn_async), call `f` before the sync that makes them durable has ended. (A
    /// [`read`](Self::read) in `f` may wait for that sync; a [`read_deferred`](Self::read_deferred) does
    /// not.) If the transaction is [nested](crate::with_several_heaps) in a transaction or read of another
    /// heap, the locks of the outer one are still held. Transactions of other processes, migrations, and the
    /// end of the root or the heap do not call `f`.
    ///
    /// If another thread has begun a call of `f`, that call may continue for a moment after the `Watch` is
    /// dropped. In a forked child, this does nothing.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    /// # fn main() -> pheap::Result<()> {
    /// # let heap = pheap::Heap::in_memory()?;
    /// let hits = heap.root::<u64>("hits")?;
    /// let changes = Arc::new(AtomicU64::new(0));
    /// let counter = changes.clone();
    /// let watch = hits.watch(move || drop(counter.fetch_add(1, Relaxed)));
    /// hits.txn(|tx, hits| Ok(tx[hits] += 1))?;
    /// hits.txn(|tx, hits| Ok(tx[hits]))?; // changes nothing
    /// drop(watch);
    /// hits.txn(|tx, hits| Ok(tx[hits] += 1))?;
    /// assert_eq!(changes.load(Relaxed), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A closure that has a handle of the heap keeps it open until the `Watch` is dropped.
    ///
    /// # Cost
    /// If no `Watch` of the root exists, a check of flags.
    ///
    /// # Panics
    /// A panic of `f` propagates out of the `txn` that has called it, after the functions of all other
    /// `Watch`es were called. The transaction has committed.
    pub fn watch(&self, f: impl Fn() + Send + Sync + 'static) -> Watch {
        Watch::new(&self.region, Arc::new(f))
    }

    /// Returns how much of the root's memory is known to be alive. Reads two numbers, and never waits.
    pub fn live(&self) -> Live {
        self.region.state.live()
    }

    /// Returns a pointer to the root object.
    ///
    /// # Safety
    /// * This thread has locked the region, by a call that expected a root of type `self.ty`, and has not
    ///   unlocked it.
    /// * `'r` is a brand that only pointers into this region have, and it ends before the lock is released.
    #[inline(always)]
    pub(super) unsafe fn object<'r>(&self) -> P<'r, T::At<'r>> {
        let addr = self.heap.base().wrapping_add(self.region.root() as usize);
        // SAFETY: `addr` is within the mapping, which is not at 0.
        let addr = unsafe { NonNull::new_unchecked(addr) };
        // SAFETY: the root of a locked region is live. It is a `T`: the region serves the number `self.ty`
        // (first premise), and values of that type are values of `T` (an invariant of this type). `T::At<'r>`
        // is `T` with another brand. The brand is the second premise.
        unsafe { P::from_addr(addr) }
    }
}

/// These methods create and replace roots. The caller has the `CreationLock`, so no other thread creates,
/// renames or removes roots.
impl<T: Persist> Root<T> {
    /// Completes a region of `heap` that was created for a `T`: `init` makes its root object. If `init` or
    /// the commit fails, the region's pages are freed (except in a forked child).
    pub(super) fn complete(
        heap: &HeapInner,
        region: Region,
        name: &str,
        init: impl for<'r> FnOnce(&mut Txn<'r>) -> Result<P<'r, T::At<'r>>>,
    ) -> Result<Arc<Region>> {
        let mut unfinished = Unfinished { heap, region: Some(Arc::new(region)) };
        let ty = {
            let region = unfinished.region.as_deref().expect("set above");
            let ty = heap.check_type(region, name, <T as Persist>::desc())?;
            let mut exclusive = Exclusive::begin_transaction(heap, region, ty)?;
            assert!(ptr::eq(exclusive.context().store(), &raw const **heap), "a region of another heap");
            // SAFETY: `exclusive` has the region locked, with an open transaction, and is not used before
            // `init` returns, when `tx` is not used any more. `init` works for all brands, so the brand is
            // unique.
            let tx = &mut unsafe { Txn::new(exclusive.hot(), &region.held) };
            let root = init(tx)?.addr();
            heap.check_not_forked()?;
            let offset = (root.addr().get() - heap.base().addr()) as u64;
            // SAFETY: `root_word` is a word of the region's header; the transaction is open, and `tx` is not
            // used any more.
            unsafe { write_word(&exclusive, region.header.root_word(), root_word(offset)) };
            // Sets the root before the commit runs the collector: without a root, a collection would free the
            // new object.
            exclusive.commit(|_| region.set_root(offset))?;
            ty
        };
        let mut region = unfinished.region.take().expect("set above");
        if has_versions(heap, ty) {
            Arc::get_mut(&mut region).expect("nobody else has it").keep_versions();
        }
        Ok(region)
    }

    /// Replaces the root object and the root's type, in one transaction: the result of `f` becomes the root.
    pub(super) fn replace<New: Persist>(
        &self,
        f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, T::At<'r>>) -> Result<P<'r, New::At<'r>>>,
    ) -> Result<()> {
        let (ty, _) = self.heap.register(<New as Persist>::desc())?;
        self.run(
            |tx, old| Ok(f(tx, old)?.addr()),
            |exclusive, new| {
                let offset = (new.addr().get() - self.heap.base().addr()) as u64;
                let replace = write_root(&self.heap, &self.region, exclusive, offset, ty, NewRoot::Another)?;
                exclusive.commit(replace)
            },
        )?;
        self.region.set_ty(ty);
        Ok(())
    }
}

/// Makes the object at `offset`, of type `ty`, the root, within the open transaction, whose `Txn` is not used
/// any more. `by` says how the object relates to the old root. Returns a function that the caller runs after
/// the commit, before another thread sees the region.
pub(super) fn write_root<'a>(
    heap: &'a HeapInner,
    region: &'a Region,
    exclusive: &mut Exclusive<'_>,
    offset: u64,
    ty: u32,
    by: NewRoot,
) -> Result<impl FnOnce(&mut Context) + 'a> {
    let header = region.header;
    heap.check_not_forked()?;
    let versions = has_versions(heap, ty);
    let at = (header.addr() - heap.base().addr()) as u64;
    let (salt, entry_at) = {
        let tables = heap.tables.lock();
        (tables.header.salt, tables.arena_of(at).entry(at))
    };
    let context = exclusive.context();
    let pages = (REGION_SIZE / PAGE) as u32;
    let entry = SpanEntry { kind: SpanKind::Region, slot: 0, pages, ty, region: context.region };
    // The transaction records the header's entry of the span table as it records those of spans that it
    // takes, and not by `write_word`: the same line of the table has entries of other spans.
    context.alloc.record_again(TakenSpan { offset: at, entry_at, entry });
    let words = header.with_root(offset, ty, salt);
    for (at, word) in header.logged_words().into_iter().zip(words) {
        let at = heap.base().wrapping_add(at as usize).cast::<u64>();
        if bug(Bug::TypeUnlogged) && at != header.root_word() {
            let media = &exclusive.context().media;
            // SAFETY: `at` is a word of the region's header, mapped and aligned; other threads read it under
            // the region's lock only.
            unsafe { media.store_word(at, word) };
            media.persist(at.cast(), 8);
            continue;
        }
        // SAFETY: `at` is a word of the region's header; the transaction is open, and its `Txn` is not used
        // any more, because `write_root` is called at its commit.
        unsafe { write_word(exclusive, at, word) };
    }
    Ok(move |context: &mut Context| {
        if bug(Bug::CycleFromOldRoot) {
            context.collect_some();
        }
        region.replace_root(context, offset, ty, versions, by);
    })
}

/// Whether the heap keeps versions of roots of this type.
pub(super) fn has_versions(heap: &HeapInner, ty: u32) -> bool {
    rule::has_versions(&heap.tables.lock().types.types[ty as usize])
}

/// Writes `word` to the word at `at` of a region's header, within the open transaction.
///
/// # Safety
/// * `at` is one of the words of the header of this region that transactions write.
/// * The transaction is open, and no `Txn` of it is used any more.
unsafe fn write_word(exclusive: &Exclusive<'_>, at: *mut u64, word: u64) {
    // SAFETY: the context is that of an open transaction of this thread (second premise), and no reference to
    // it exists when the call begins. The word is mapped, and belongs to this region (first premise).
    let place = unsafe { Context::writable(exclusive.context(), at.expose_provenance(), 8, 8, None) };
    // SAFETY: `writable` returns 8 bytes, aligned to 8, that only this transaction uses.
    unsafe { place.cast::<u64>().write(word) };
}

/// A region whose root object does not exist yet. Dropping it, also by a panic, frees the region's pages,
/// except in a forked child.
//
// Invariant: no other thread has the region.
struct Unfinished<'a> {
    heap: &'a HeapInner,
    region: Option<Arc<Region>>,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(region) = &self.region
            && !self.heap.is_forked()
        {
            region.set_root(0); // there is a root if the commit took place, but is not known to be durable
            let _ = self.heap.free_unfinished(region);
        }
    }
}
