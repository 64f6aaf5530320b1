//! `Root`, the handle that programs have of a region: `txn`, `read`; root objects are created and replaced here.
//!
//! Here and in [`several`](super::several) a lock and the number of a type become a [`Txn`] and a [`P`] with a brand of their own. No other file of this room does that.

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
use crate::region::{Exclusive, NewRoot, Region, Shared, Watch, guard};
use crate::stats::Live;
use crate::store::arena::{SpanEntry, SpanKind};
use crate::store::region_header::{REGION_SIZE, root_word};
use crate::store::spans::Span;
use crate::txn::context::{Context, Hot};
use crate::units::PAGE;

/// A named root of a heap: an object of type `T`, and a region of its own for everything that it points to.
///
/// A handle is cheap to clone and can be sent to other threads. Transactions on one root run one after the other, reads run
/// concurrently, also beside a transaction. Different roots do not wait for one another, so threads scale by using several.
///
/// The lifetime of a type in a heap is that of a transaction, and a handle has none. So in a struct or a signature it is written `'static`, which says nothing of how long anything lives
/// (in a `let` it can be left out):
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
// Invariant: `region` belongs to `heap`, and `ty` is the number of `T` in the type table of that heap. Only `find` makes a `Root`: the marker is private. (The
// other fields are seen by tests of other rooms, and written by none.)
pub struct Root<T> {
    pub(crate) heap: Arc<HeapInner>,
    pub(crate) region: Arc<Region>,
    /// By which the region knows whether its root still is a `T`.
    pub(crate) ty: u32,
    marker: PhantomData<fn() -> T>,
}

impl<T> Clone for Root<T> {
    fn clone(&self) -> Self {
        Root { heap: self.heap.clone(), region: self.region.clone(), ty: self.ty, marker: PhantomData }
    }
}

// As for a `Heap`, where it is said why.
impl<T> std::panic::UnwindSafe for Root<T> {}
impl<T> std::panic::RefUnwindSafe for Root<T> {}

impl<T> fmt::Debug for Root<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Root").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl<T> Root<T> {
    /// The root's name. (In a forked child, it is empty.)
    pub fn name(&self) -> String {
        if self.heap.is_forked() {
            return String::new();
        }
        self.region.name.lock().clone()
    }
}

impl<T: Persist> Root<T> {
    /// The root with this name, if it is a `T`.
    pub(super) fn find(heap: &Arc<HeapInner>, name: &str) -> Result<Root<T>> {
        heap.check_open()?;
        let region = heap.region(name)?;
        let ty = heap.check_type(&region, name, <T as Persist>::desc())?;
        region.held.set_heap(heap);
        Ok(Root { heap: heap.clone(), region, ty, marker: PhantomData })
    }

    /// Whether this type is the one that `desc` describes.
    pub(super) fn is(&self, desc: &'static Desc) -> Result<bool> {
        self.heap.tables.lock().types.is(self.ty, desc)
    }

    /// Runs `f` as one transaction: all of it happens, durably before this returns, or nothing.
    ///
    /// If `f` returns an error or panics, everything that it did is rolled back. A crash at any moment leaves the whole state before or
    /// after the transaction. Waits while another thread has a transaction on the root. Reads go on until the changes are stored: at the commit, or earlier, when the transaction
    /// leaves its copies: it changes thousands of objects, or, with [`Durability::Process`](crate::Durability::Process), it comes back hundreds of times to those that it has changed, or has changed 64 and then looks at hundreds. For that it waits for the reads that
    /// have begun, in whatever access to the heap it is.
    ///
    /// The error type is fixed, so that a closure may end in `Ok(())`; see [`try_txn`](Self::try_txn) for others.
    ///
    /// Inside, do not wait for a thread that needs the same root, nor for anything that a thread may wait for
    /// which reads it: the commit, and any access before it, may wait for its read to end. Nor for a thread
    /// that creates, renames or removes a root, or that migrates, converts, checks, copies or looks into the
    /// heap, whatever root that is about: such methods wait for one another, and the one whose turn it is may
    /// wait for this root. Roots of one heap are opened together with [`pheap::txn`](crate::txn());
    /// transactions on two *heaps* do not nest, unless [`with_several_heaps`](crate::with_several_heaps)
    /// allows it.
    ///
    /// # Cost
    /// A transaction without writes and allocations costs a lock, at most. One that changes a few small objects costs one fence; see the
    /// crate's documentation for longer ones.
    ///
    /// # Errors
    /// What `f` returns; [`Error::Nested`] if this thread is inside a transaction or read of the heap already, and [`Error::SeveralHeaps`] if it is inside a transaction of another one; [`Error::OutOfSpace`] if
    /// the log cannot grow; [`Error::ReadOnly`], [`Error::Closed`], [`Error::Migrated`], [`Error::Forked`]. All of them leave the root as it was. With
    /// [`Durability::Wal`](crate::Durability::Wal), [`Error::OutcomeUnknown`] if the disk fails while this transaction waits for it, and
    /// [`Error::Failed`] if it has failed before.
    #[inline]
    pub fn txn<R>(&self, f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, T::At<'r>>) -> Result<R>) -> Result<R> {
        self.try_txn(f)
    }

    /// [`txn`](Self::txn) with an error type of your own.
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

    /// Opens a transaction, runs `f` in it, and hands what it returns to `commit`. If `f` fails, rolls the transaction back.
    #[inline(always)]
    pub(super) fn run<R, E: From<Error>>(
        &self,
        f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, T::At<'r>>) -> Result<R, E>,
        commit: impl FnOnce(&mut Exclusive<'_>, &R) -> Result<()>,
    ) -> Result<R, E> {
        self.run_or(f, commit, |exclusive| self.heap.acknowledge_seen(exclusive.give_up()))
    }

    /// [`run`](Self::run) that leaves to `give_up` how a transaction is rolled back whose `f` has failed.
    #[inline(always)]
    pub(super) fn run_or<R, E: From<Error>>(
        &self,
        f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, T::At<'r>>) -> Result<R, E>,
        commit: impl FnOnce(&mut Exclusive<'_>, &R) -> Result<()>,
        give_up: impl FnOnce(Exclusive<'_>) -> Result<()>,
    ) -> Result<R, E> {
        let mut exclusive = Exclusive::begin(&self.heap, &self.region, self.ty)?;
        // SAFETY: `exclusive` has the region locked, with an open transaction, and is not used before `f` returns, when `tx` is gone. The brand is
        // one of its own, for `f` works for all of them.
        let tx = &mut unsafe { Txn::new(exclusive.hot(), &self.region.held) };
        // SAFETY: the lock was taken for a root of type `self.ty`, and `f` works for all brands.
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

    /// Runs `f`, which may read but not write. Reads of one root run concurrently, and beside a transaction, of which they see nothing before it has been committed. They wait while
    /// it stores its changes.
    ///
    /// With [`Durability::Wal`](crate::Durability::Wal), what `f` returns is handed out when all that it has seen is durable, so that nobody is told what a power failure then
    /// takes back. For that, a read waits when `f` has run and nothing is locked any more, at most for the sync that is in progress and the next one
    /// ([`read_deferred`](Self::read_deferred) does not). What `f` itself does while it runs, or says in a panic, is not waited for, as in a transaction: to send something
    /// elsewhere, return it. A read that is nested in another read of the heap leaves waiting to that one, which waits for both; one in a transaction on another heap waits
    /// before it returns.
    ///
    /// Reads of several roots and heaps may nest in any order. A read that is not nested waits for a transaction that is already waiting for reads to end, so that
    /// overlapping reads cannot starve a transaction. A nested read does not wait. So if threads overlap without end and read a root only in nested reads, transactions on
    /// it may starve; make the read of that root the outermost. Inside, do not wait for a thread that needs the same root, also to read: it may queue after a transaction that waits for this read. Nor for
    /// one that is inside of a transaction on this root, which may wait for this read.
    /// Nor for one that creates, renames or removes a root, or that migrates, converts, checks, copies or
    /// looks into the heap; see [`txn`](Self::txn).
    ///
    /// # Errors
    /// [`Error::Nested`] if this thread is inside a transaction of the heap; [`Error::Closed`], [`Error::Migrated`], [`Error::Forked`]; with `Wal`,
    /// [`Error::OutcomeUnknown`] and [`Error::Failed`] if the disk has failed; what `f` has returned is then dropped.
    #[inline]
    pub fn read<R>(&self, f: impl for<'r> FnOnce(&View<'r>, P<'r, T::At<'r>>) -> R) -> Result<R> {
        Ok(self.look(f, |shared| shared.finish())?.0)
    }

    /// [`read`](Self::read) with a closure that may fail, so that one `?` is enough: `root.try_read(|view, p| Ok::<_, MyError>(..))?`.
    ///
    /// # Errors
    /// What `f` returns, and as for `read`.
    #[inline]
    pub fn try_read<R, E: From<Error>>(
        &self,
        f: impl for<'r> FnOnce(&View<'r>, P<'r, T::At<'r>>) -> Result<R, E>,
    ) -> Result<R, E> {
        self.read(f)?
    }

    /// Runs `f` in a read that `end` ends.
    #[inline(always)]
    pub(super) fn look<R, E>(
        &self,
        f: impl for<'r> FnOnce(&View<'r>, P<'r, T::At<'r>>) -> R,
        end: impl FnOnce(Shared<'_>) -> Result<E>,
    ) -> Result<(R, E)> {
        let shared = Shared::begin(&self.heap, &self.region, self.ty)?;
        // SAFETY: `shared` has the region locked until `f` has returned, a reader has no context, and `f` works for all brands.
        let view = &unsafe { View::new(Hot::reader(), &self.region.held) };
        // SAFETY: the lock was taken for a root of type `self.ty`, and `f` works for all brands.
        let result = f(view, unsafe { self.object() });
        Ok((result, end(shared)?))
    }

    /// Collects the root: objects that were unreachable when this was called are free when it returns. Transactions and reads go on meanwhile.
    /// See [`Heap::collect`](crate::Heap::collect).
    ///
    /// # Errors
    /// [`Error::Nested`] if this thread is inside a transaction or read of the heap, [`Error::SeveralHeaps`] if of another
    /// one; [`Error::ReadOnly`], [`Error::Closed`], [`Error::Forked`].
    pub fn collect(&self) -> Result<()> {
        self.heap.check_writable()?;
        guard::may_wait(self.heap.id())?;
        self.heap.collect(&self.region);
        Ok(())
    }

    /// Has `f` called after each transaction on this root that has changed something, until what this returns is dropped: to wake those who wait for a change.
    ///
    /// It is called by the thread that has run the transaction, when nothing of the heap is locked any more, before `txn` returns: when the transaction is durable, if `txn` waits for that, or when the disk has
    /// failed meanwhile. So it may do anything with the heap, and others may have changed the root again. It
    /// is told nothing; whoever wants to know what has changed looks.
    /// (It may be called when nothing has: for a transaction over several roots, if it has changed one of them, and for long ones.)
    ///
    /// Those who are not to wait for the disk, [deferred](Self::txn_deferred) transactions and [tasks](Self::txn_async), call it when it was seen to that the transaction becomes durable. (A
    /// [`read`](Self::read) in `f` waits for that; a [`read_deferred`](Self::read_deferred) does not.) In a transaction that is [nested](crate::with_several_heaps) in one of another heap, or in a read of one,
    /// what that has locked is still locked. Transactions of other processes, migrations, and the end of the root or the heap
    /// are not told of.
    ///
    /// A call that another thread has begun may go on for a moment when the `Watch` is dropped.
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
    /// Nothing for roots that nobody watches, but for a look at a flag.
    ///
    /// # Panics
    /// A panic of `f` comes out of the `txn` that has called it, which has committed, when all others who watch have been told.
    pub fn watch(&self, f: impl Fn() + Send + Sync + 'static) -> Watch {
        Watch::new(&self.region, Arc::new(f))
    }

    /// What is known to be alive of what the root leads to. Reads two numbers, and waits for nobody.
    pub fn live(&self) -> Live {
        self.region.state.live()
    }

    /// The root object.
    ///
    /// # Safety
    /// * This thread has the region locked, by a call that was told to expect a root of type `self.ty`, and has not let go of it.
    /// * `'r` is a brand that only pointers into this region have, and it ends before the lock does.
    #[inline(always)]
    pub(super) unsafe fn object<'r>(&self) -> P<'r, T::At<'r>> {
        let addr = self.heap.base().wrapping_add(self.region.root() as usize);
        // SAFETY: an address within the mapping, which is not at 0.
        let addr = unsafe { NonNull::new_unchecked(addr) };
        // SAFETY: the root of a region that is locked is live. It is a `T`, for the region serves the number `self.ty` (first premise), which is that of `T` (an
        // invariant of this type); and `T::At<'r>` is a `T`. The brand is the second premise.
        unsafe { P::from_addr(addr) }
    }
}

/// Making roots, and making others of them. Meanwhile nobody else creates or removes any.
impl<T: Persist> Root<T> {
    /// Completes a region of `heap` that was created for a `T`: `init` makes its root object. If that comes to nothing, its pages are given back.
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
            let mut exclusive = Exclusive::begin(heap, region, ty)?;
            assert!(ptr::eq(exclusive.context().store(), &raw const **heap), "a region of another heap");
            // SAFETY: `exclusive` has the region locked, with an open transaction, and is not used before `init` returns, when `tx` is gone. The brand is one of
            // its own, for `init` works for all of them.
            let tx = &mut unsafe { Txn::new(exclusive.hot(), &region.held) };
            let root = init(tx)?.addr();
            heap.check_not_forked()?;
            let offset = (root.addr().get() - heap.base().addr()) as u64;
            // SAFETY: a word of the region's header; the transaction is open, and `tx` is not used any more.
            unsafe { write_word(&exclusive, region.header.root_word(), root_word(offset)) };
            // Before the collector gets its turn: this may be all that there will ever be.
            exclusive.commit(|_| region.set_root(offset))?;
            ty
        };
        let mut region = unfinished.region.take().expect("set above");
        if has_versions(heap, ty) {
            Arc::get_mut(&mut region).expect("nobody else has it").keep_versions();
        }
        Ok(region)
    }

    /// Gives the root another type, in one transaction: what `f` returns becomes the root.
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

/// Makes the object at `offset`, of type `ty`, the root, within the open transaction, whose `Txn` is gone. `by` says
/// what the object is to the old root. Returns what must run once that is committed, before another thread sees the
/// region.
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
    // Not like the other words: the table has entries of others in the same line.
    context.alloc.record_again(Span { offset: at, entry_at, entry });
    let words = header.with_root(offset, ty, salt);
    for (at, word) in header.logged_words().into_iter().zip(words) {
        let at = heap.base().wrapping_add(at as usize).cast::<u64>();
        if bug(Bug::TypeUnlogged) && at != header.root_word() {
            let media = &exclusive.context().media;
            // SAFETY: a word of the header, which is mapped and aligned; others look at it behind the region's lock.
            unsafe { media.store_word(at, word) };
            media.persist(at.cast(), 8);
            continue;
        }
        // SAFETY: a word of the region's header; the transaction is open, and its `Txn` is gone, for this is its commit.
        unsafe { write_word(exclusive, at, word) };
    }
    Ok(move |context: &mut Context| {
        if bug(Bug::CycleFromOldRoot) {
            context.collect_some();
        }
        region.replace_root(context, offset, ty, versions, by);
    })
}

/// Whether versions of roots of this type are kept.
pub(super) fn has_versions(heap: &HeapInner, ty: u32) -> bool {
    rule::has_versions(&heap.tables.lock().types.types[ty as usize])
}

/// Writes a word of a region's header within the open transaction.
///
/// # Safety
/// * `at` is one of the words of the header of this region that transactions write.
/// * The transaction is open, and no `Txn` of it is used any more.
unsafe fn write_word(exclusive: &Exclusive<'_>, at: *mut u64, word: u64) {
    // SAFETY: the context of an open transaction of this thread (second premise), to which the reference is gone when the call begins; the word is mapped, and the
    // region's own (first premise).
    let place = unsafe { Context::writable(exclusive.context(), at.expose_provenance(), 8, 8, None) };
    // SAFETY: `writable` gives 8 bytes, aligned as asked, that are this transaction's alone.
    unsafe { place.cast::<u64>().write(word) };
}

/// A region whose root object is not there yet. Its pages are given back if that comes to nothing, also by a panic.
//
// Invariant: nobody else has the region.
struct Unfinished<'a> {
    heap: &'a HeapInner,
    region: Option<Arc<Region>>,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(region) = &self.region
            && !self.heap.is_forked()
        {
            region.set_root(0); // it may have been committed, and not be known to be durable
            let _ = self.heap.free_unfinished(region);
        }
    }
}
