//! One transaction over several roots.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use super::tx::Txn;
use crate::api::root::Root;
use crate::error::{Error, Result};
use crate::heap::HeapInner;
use crate::layout::Persist;
use crate::ptr::P;
use crate::region::{Group, Region};

/// Runs `f` as one transaction over several roots of one heap: all of it happens, durably, or nothing.
///
/// `roots` is a tuple of up to four roots, or a slice of roots of one type ([`Shards`]). Each root comes with a [`Txn`] and a brand of
/// its own, so no pointer of one can be stored in another. The locks are taken in one fixed order, whatever the order in
/// `roots`, so transactions cannot deadlock with one another.
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
/// As for [`Root::txn`], and [`Error::DuplicateRoot`].
pub fn txn<S: RootSet, R>(
    roots: S,
    f: impl for<'a, 'b, 'c, 'd> FnOnce(S::Args<'a, 'b, 'c, 'd>) -> Result<R>,
) -> Result<R> {
    roots.run(f)
}

/// Roots that one transaction can be opened on; see [`txn`](crate::txn()).
pub trait RootSet: sealed::Sealed {
    /// What the transaction's closure is given: for a tuple, a `(&mut Txn<'_>, P<'_, T>)` for each root.
    type Args<'a, 'b, 'c, 'd>;

    #[doc(hidden)]
    fn run<R>(self, f: impl for<'a, 'b, 'c, 'd> FnOnce(Self::Args<'a, 'b, 'c, 'd>) -> Result<R>)
    -> Result<R>;
}

mod sealed {
    pub trait Sealed {}
}

/// The heap that all of these belong to.
fn common_heap<'h>(mut heaps: impl Iterator<Item = &'h Arc<HeapInner>>) -> Result<&'h HeapInner> {
    let first = heaps.next().ok_or(Error::InvalidOption("a transaction needs a root"))?;
    if heaps.all(|heap| Arc::ptr_eq(first, heap)) {
        Ok(first)
    } else {
        Err(Error::InvalidOption("the roots of one transaction must belong to one heap"))
    }
}

/// Commits, or rolls back.
fn end<R>(group: Group<'_>, result: Result<R>) -> Result<R> {
    match &result {
        Ok(_) => group.commit()?,
        Err(_) => group.give_up()?,
    }
    result
}

macro_rules! tuples {
    ($($T:ident $lt:lifetime $i:tt),*) => {
        impl<$($T: Persist),*> sealed::Sealed for ($(&Root<$T>,)*) {}

        impl<$($T: Persist),*> RootSet for ($(&Root<$T>,)*) {
            type Args<'a, 'b, 'c, 'd> = ($((&$lt mut Txn<$lt>, P<$lt, $T::At<$lt>>),)*);

            fn run<R>(self, f: impl for<'a, 'b, 'c, 'd> FnOnce(Self::Args<'a, 'b, 'c, 'd>) -> Result<R>) -> Result<R> {
                let heap = common_heap([$(&self.$i.heap),*].into_iter())?;
                let regions: &[(&Region, u32)] = &[$((&*self.$i.region, self.$i.ty)),*];
                let group = Group::begin(heap, regions)?;
                // SAFETY: the regions are locked until `group` goes; the closure works for all brands.
                let result = unsafe { f(($((&mut Txn::new(group.hot($i), group.held($i)), self.$i.object()),)*)) };
                end(group, result)
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
/// They are visited one or two at a time, so that each has a brand of its own.
pub struct Shards<'a, T> {
    group: NonNull<Group<'static>>,
    roots: NonNull<[Root<T>]>,
    marker: PhantomData<&'a mut ()>,
}

impl<T: Persist> Shards<'_, T> {
    /// Number of roots.
    #[allow(clippy::len_without_is_empty)] // it never is
    pub fn len(&self) -> usize {
        self.roots.len()
    }

    /// Runs `f` on root `index` within the transaction.
    ///
    /// # Panics
    /// If there is no such root.
    pub fn with<R>(
        &mut self,
        index: usize,
        f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, T::At<'r>>) -> R,
    ) -> R {
        let (group, root) = self.get(index);
        // SAFETY: the region is locked as long as this lives; `&mut self` keeps other views of it away; `f` works for all brands.
        unsafe { f(&mut Txn::new(group.hot(index), group.held(index)), root.object()) }
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
        assert!(first != second, "root {first} cannot be visited twice at a time");
        let ((group, a), (_, b)) = (self.get(first), self.get(second));
        // SAFETY: as in `with`, for two different regions.
        unsafe {
            f(
                &mut Txn::new(group.hot(first), group.held(first)),
                a.object(),
                &mut Txn::new(group.hot(second), group.held(second)),
                b.object(),
            )
        }
    }

    fn get(&self, index: usize) -> (&Group<'static>, &Root<T>) {
        // SAFETY: both outlive the transaction, and so this.
        unsafe { (self.group.as_ref(), &self.roots.as_ref()[index]) }
    }
}

impl<T: Persist> sealed::Sealed for &[Root<T>] {}

impl<T: Persist> RootSet for &[Root<T>] {
    type Args<'a, 'b, 'c, 'd> = Shards<'a, T>;

    fn run<R>(self, f: impl for<'a, 'b, 'c, 'd> FnOnce(Shards<'a, T>) -> Result<R>) -> Result<R> {
        let heap = common_heap(self.iter().map(|root| &root.heap))?;
        let regions: Vec<(&Region, u32)> = self.iter().map(|root| (&*root.region, root.ty)).collect();
        let group = Group::begin(heap, &regions)?;
        let shards = Shards {
            group: NonNull::from_ref(&group).cast(),
            roots: NonNull::from_ref(self),
            marker: PhantomData,
        };
        let result = f(shards);
        end(group, result)
    }
}

impl<T: Persist> sealed::Sealed for &Vec<Root<T>> {}

impl<T: Persist> RootSet for &Vec<Root<T>> {
    type Args<'a, 'b, 'c, 'd> = Shards<'a, T>;

    fn run<R>(self, f: impl for<'a, 'b, 'c, 'd> FnOnce(Shards<'a, T>) -> Result<R>) -> Result<R> {
        self.as_slice().run(f)
    }
}
