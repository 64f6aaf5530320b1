//! `txn()` over several roots: tuples of up to four, and [`Shards`].
//!
//! As in [`root`](super::root), locks and the numbers of types become [`Txn`]s and [`P`]s here, with a unique
//! brand for each root.

#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;

use super::root::Root;
use super::tx::Txn;
use crate::error::{Error, Result};
use crate::heap::HeapInner;
use crate::layout::Persist;
use crate::ptr::P;
use crate::region::{Region, RegionGroup, guard};
use crate::wal::Commit;

/// Runs `f` as one transaction over several roots of one heap: all its changes take effect, or none does.
///
/// `roots` is a tuple of up to four roots, or a slice of roots of one type ([`Shards`]). Each root has its
/// own [`Txn`] and brand, so a pointer of one root cannot be stored in another. A thread waits for a root
/// only while it has none of the others, so such transactions cannot deadlock with one another, whatever the
/// order of their `roots`.
///
/// ```
/// # fn main() -> pheap::Result<()> {
/// let heap = pheap::Heap::in_memory()?;
/// let (alice, bob) = (heap.root::<u64>("alice")?, heap.root::<u64>("bob")?);
/// alice.txn(|tx, money| Ok(tx[money] = 10))?;
/// pheap::txn((&alice, &bob), |((ta, a), (tb, b))| {
///     ta[a] -= 3;
///     tb[b] += 3;
///     Ok(())
/// })?;
/// assert_eq!(bob.read(|view, money| view[money])?, 3);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As for [`Root::txn`]; [`Error::DuplicateRoot`]; [`Error::InvalidOption`] if the roots belong to several
/// heaps, or the slice has no root.
pub fn txn<S: RootSet, R>(
    roots: S,
    f: impl for<'a, 'b, 'c, 'd> FnOnce(S::Args<'a, 'b, 'c, 'd>) -> Result<R>,
) -> Result<R> {
    roots.run(f, End::Waits)
}

/// Runs `f`, in which this thread may open a transaction on one heap while it is inside a transaction on
/// another, and may do all other nesting that is [`Error::SeveralHeaps`] elsewhere.
///
/// **Two such transactions are not one.** The inner one has committed when it returns `Ok`. If the outer one
/// then fails, or the program is killed, the change of the inner heap stays, and that of the outer heap is
/// rolled back. So a program that moves data from one heap to another must find out at its start whether one
/// of the heaps has them, or both. Nest the heaps in the same order everywhere, as with any two locks.
///
/// ```
/// # use pheap::{Error, Heap};
/// # fn main() -> pheap::Result<()> {
/// let (orders, archive) = (Heap::in_memory()?, Heap::in_memory()?);
/// let (new, old) = (orders.root::<u64>("count")?, archive.root::<u64>("count")?);
/// let refused = new.txn(|_, _| old.txn(|tx, old| Ok(tx[old] += 1)));
/// assert!(matches!(refused, Err(Error::SeveralHeaps)));
/// pheap::with_several_heaps(|| {
///     new.txn(|tx, new| {
///         old.txn(|tx, old| Ok(tx[old] += 1))?;
///         Ok(tx[new] = 0)
///     })
/// })?;
/// assert_eq!(old.read(|view, old| view[old])?, 1);
/// # Ok(())
/// # }
/// ```
pub fn with_several_heaps<R>(f: impl FnOnce() -> R) -> R {
    guard::with_several_heaps(f)
}

/// Roots that one transaction can be opened on; see [`txn`](crate::txn()).
pub trait RootSet: sealed::Sealed {
    /// The argument of the transaction's closure: for a tuple, a `(&mut Txn<'_>, P<'_, T>)` for each root;
    /// for a slice, [`Shards`].
    type Args<'a, 'b, 'c, 'd>;

    #[doc(hidden)]
    fn run<R>(
        self,
        f: impl for<'a, 'b, 'c, 'd> FnOnce(Self::Args<'a, 'b, 'c, 'd>) -> Result<R>,
        end: End<'_>,
    ) -> Result<R>;
}

pub(super) mod sealed {
    use crate::wal::Commit;

    pub trait Sealed {
        /// Whether a transaction on these roots that is not deferred waits for a sync; `false` if there is no
        /// root.
        fn waits_for_syncs(&self) -> bool;

        /// Returns the commit that must be durable before a task may commit more on these roots; `None` if
        /// the unsynced bytes are within their limit, or if there is no root.
        fn backlog(&self) -> Option<Commit>;
    }

    /// How a transaction over several roots ends.
    pub enum End<'c> {
        /// The transaction waits until its changes are as durable as the sync policy requires. If the closure
        /// fails, the transaction waits in the same way for the data that it has read.
        Waits,
        /// A transaction that succeeds sets the `Commit`, and does not wait for the disk. One that fails
        /// waits for the data that it has read, as with [`Waits`](End::Waits).
        Deferred(&'c mut Commit),
        /// The transaction sets the `Commit`, whether the closure succeeds or fails, and does not wait for
        /// the disk.
        Task(&'c mut Commit),
    }
}

use sealed::End;

/// Returns the heap to which all roots belong. Fails if they belong to several heaps, or if there is no root.
fn common_heap<'h>(mut heaps: impl Iterator<Item = &'h Arc<HeapInner>>) -> Result<&'h Arc<HeapInner>> {
    let first = heaps.next().ok_or(Error::InvalidOption("a transaction needs at least one root"))?;
    if heaps.all(|heap| Arc::ptr_eq(first, heap)) {
        Ok(first)
    } else {
        Err(Error::InvalidOption("the roots of one transaction must belong to one heap"))
    }
}

/// Commits the transaction if `result`, that of the closure, is `Ok`; rolls it back otherwise. `how` says for
/// what to wait.
fn commit_or_roll_back<R>(
    heap: &Arc<HeapInner>,
    mut group: RegionGroup<'_>,
    result: Result<R>,
    how: End<'_>,
) -> Result<R> {
    let committed = match (&result, how) {
        (Ok(_), End::Waits) => group.commit(),
        (Ok(_), End::Deferred(commit)) => group.commit_deferred().map(|end| *commit = heap.deferred(end)),
        (Ok(_), End::Task(commit)) => group.commit_deferred().map(|end| *commit = heap.commit_of_read(end)),
        (Err(_), End::Task(commit)) => {
            *commit = heap.commit_of_read(group.abort());
            return result;
        }
        (Err(_), _) => {
            heap.acknowledge_seen(group.abort())?;
            return result;
        }
    };
    group.tell();
    committed?;
    result
}

/// Implements `waits_for_syncs` and `backlog`, which a task calls before it opens a transaction on several
/// roots. Both ask the heap of the first root.
macro_rules! asks_the_heap {
    ($roots:ident, $first:expr) => {
        fn waits_for_syncs(&self) -> bool {
            let $roots = self;
            $first.is_some_and(|heap| heap.waits_for_syncs())
        }

        fn backlog(&self) -> Option<Commit> {
            let $roots = self;
            $first.and_then(|heap| heap.backlog())
        }
    };
}

macro_rules! tuples {
    ($($T:ident $lt:lifetime $i:tt),*) => {
        impl<$($T: Persist),*> sealed::Sealed for ($(&Root<$T>,)*) {
            asks_the_heap!(roots, Some(&roots.0.heap));
        }

        impl<$($T: Persist),*> RootSet for ($(&Root<$T>,)*) {
            type Args<'a, 'b, 'c, 'd> = ($((&$lt mut Txn<$lt>, P<$lt, $T::At<$lt>>),)*);

            fn run<R>(
                self,
                f: impl for<'a, 'b, 'c, 'd> FnOnce(Self::Args<'a, 'b, 'c, 'd>) -> Result<R>,
                end: End<'_>,
            ) -> Result<R> {
                let heap = common_heap([$(&self.$i.heap),*].into_iter())?;
                let regions: &[(&Region, u32)] = &[$((&*self.$i.region, self.$i.ty)),*];
                let group = RegionGroup::begin_transaction(heap, regions)?;
                let result = f(($((
                    // SAFETY: `group` has the region of root `$i` locked, with an open transaction, until
                    // `commit_or_roll_back`. There is one `Txn` for each member, because members are
                    // distinct. `f` works for all brands, so the brand is unique.
                    &mut unsafe { Txn::new(group.hot($i), group.held($i)) },
                    // SAFETY: the region was locked for a root of type `self.$i.ty`, and `f` works for all
                    // brands, so the brand is unique.
                    unsafe { self.$i.object() },
                ),)*));
                self::commit_or_roll_back(heap, group, result, end)
            }
        }
    };
}

tuples!(A 'a 0);
tuples!(A 'a 0, B 'b 1);
tuples!(A 'a 0, B 'b 1, C 'c 2);
tuples!(A 'a 0, B 'b 1, C 'c 2, D 'd 3);

/// The roots of a transaction over a slice of roots of one type.
///
/// The closure visits one or two roots at a time, so that each has a unique brand.
//
// Invariant: `group` has locked the regions of `roots`, in this order, and the roots live as long as `'a`. (A
// reference to them would require `T: 'a`, which `RootSet::Args` does not state.)
pub struct Shards<'a, T> {
    group: &'a RegionGroup<'a>,
    roots: NonNull<[Root<T>]>,
}

impl<T: Persist> Shards<'_, T> {
    /// Returns the number of roots.
    #[allow(clippy::len_without_is_empty)] // there is always a root, so `is_empty` would always be false
    pub fn len(&self) -> usize {
        self.roots.len()
    }

    /// Runs `f` on the root with this index, within the transaction.
    ///
    /// # Panics
    /// If `index` is not less than [`len`](Self::len).
    pub fn with<R>(
        &mut self,
        index: usize,
        f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, T::At<'r>>) -> R,
    ) -> R {
        // SAFETY: `&mut self` excludes other calls until `f` returns, and `f` works for all brands.
        let (mut tx, root) = unsafe { self.open_shard(index) };
        f(&mut tx, root)
    }

    /// Runs `f` on two different roots within the transaction.
    ///
    /// # Panics
    /// If the indices are equal, or one of the roots does not exist.
    pub fn with_two<R>(
        &mut self,
        first: usize,
        second: usize,
        f: impl for<'r, 's> FnOnce(&mut Txn<'r>, P<'r, T::At<'r>>, &mut Txn<'s>, P<'s, T::At<'s>>) -> R,
    ) -> R {
        assert!(first != second, "the two indices are both {first}; `with_two` needs two different roots");
        // SAFETY: `&mut self` excludes other calls until `f` returns, `second` is another root, and `f` works
        // for all brands.
        let (mut tx_a, a) = unsafe { self.open_shard(first) };
        // SAFETY: `&mut self` excludes other calls until `f` returns, `first` is another root, and `f` works
        // for all brands.
        let (mut tx_b, b) = unsafe { self.open_shard(second) };
        f(&mut tx_a, a, &mut tx_b, b)
    }

    /// Returns a `Txn` of the root with this index, and the pointer to its root object.
    ///
    /// # Safety
    /// * While the returned `Txn` is used, no other `Txn` of the same root is used.
    /// * `'r` is a brand that only pointers into the root's region have, and it ends before `self` does.
    unsafe fn open_shard<'r>(&self, index: usize) -> (Txn<'r>, P<'r, T::At<'r>>) {
        // SAFETY: the roots live as long as `'a`, by the invariant of the type.
        let root = &unsafe { self.roots.as_ref() }[index];
        // SAFETY: `group` has the region locked, with an open transaction, while `self` lives. The uniqueness
        // of the `Txn` and of the brand are the caller's premises.
        let tx = unsafe { Txn::new(self.group.hot(index), self.group.held(index)) };
        // SAFETY: the region was locked for a root of type `root.ty`. The brand is the caller's premise.
        (tx, unsafe { root.object() })
    }
}

impl<T: Persist> sealed::Sealed for &[Root<T>] {
    asks_the_heap!(roots, roots.first().map(|root| &root.heap));
}

impl<T: Persist> RootSet for &[Root<T>] {
    type Args<'a, 'b, 'c, 'd> = Shards<'a, T>;

    fn run<R>(
        self,
        f: impl for<'a, 'b, 'c, 'd> FnOnce(Shards<'a, T>) -> Result<R>,
        end: End<'_>,
    ) -> Result<R> {
        let heap = common_heap(self.iter().map(|root| &root.heap))?;
        let regions: Vec<(&Region, u32)> = self.iter().map(|root| (&*root.region, root.ty)).collect();
        let group = RegionGroup::begin_transaction(heap, &regions)?;
        let result = f(Shards { group: &group, roots: NonNull::from(self) });
        self::commit_or_roll_back(heap, group, result, end)
    }
}

impl<T: Persist> sealed::Sealed for &Vec<Root<T>> {
    asks_the_heap!(roots, roots.first().map(|root| &root.heap));
}

impl<T: Persist> RootSet for &Vec<Root<T>> {
    type Args<'a, 'b, 'c, 'd> = Shards<'a, T>;

    fn run<R>(
        self,
        f: impl for<'a, 'b, 'c, 'd> FnOnce(Shards<'a, T>) -> Result<R>,
        end: End<'_>,
    ) -> Result<R> {
        self.as_slice().run(f, end)
    }
}
