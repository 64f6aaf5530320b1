//! Transactions and reads as futures: a task waits for the disk, and no thread does.

use std::cell::Cell;

use super::root::Root;
use super::several::RootSet;
use super::several::sealed::End;
use super::tx::Txn;
use super::view::View;
use crate::error::{Error, Result};
use crate::layout::Persist;
use crate::ptr::P;
use crate::wal::Commit;

impl<T: Persist> Root<T> {
    /// [`txn`](Self::txn) for tasks: while the disk syncs, the task waits, and its thread does something else.
    ///
    /// The first poll runs `f`, as one transaction and to its end, in the thread that polls. The future is ready when all of it is durable. It belongs to no runtime: a thread of the heap,
    /// which syncs for all tasks at once, wakes the task.
    ///
    /// ```
    /// # use pheap::{Heap, PVec, Root};
    /// async fn append(log: &Root<PVec<'static, u64>>, number: u64) -> pheap::Result<usize> {
    ///     log.txn_async(move |tx, log| {
    ///         log.push(tx, number)?;
    ///         Ok(tx[log].len())
    ///     })
    ///     .await // durable
    /// }
    /// ```
    ///
    /// # What a thread still waits for
    /// * **Another transaction on the root**, which runs in another thread: until its closure has returned, not until it is durable. And for the [reads](Self::read) of the root that have begun.
    /// * **`f`** itself. One that takes more than about a millisecond keeps other tasks of this thread waiting, like any computation: give `root.txn(f)` to the runtime's threads for
    ///   blocking work (`spawn_blocking`), or make several transactions of it.
    /// * **Memory that is not there**: a page of the file that was evicted, or was not read since the heap was opened, comes from the disk when `f` touches it. If the data are larger than
    ///   memory, use `spawn_blocking`. So it is while the file grows.
    /// * **A disk that is behind for long**: with [`Durability::Wal`](crate::Durability::Wal), a transaction waits for a checkpoint if the [log](crate::Options::log_limit) is full, or too
    ///   many [pages](crate::Options::memory_limit) are dirty. (If more than [`Options::unsynced_limit`](crate::Options::unsynced_limit) is not synced, it is the task that waits, before `f` runs.)
    /// * **The log of a heap that was closed well**: the first change makes it, and waits for the disk five times. A transaction that does nothing, before the runtime starts, makes it as well.
    ///
    /// Inside `f` there is no `.await`, so no task keeps a root to itself while it waits for something else.
    ///
    /// # Dropping the future
    /// Before its first poll, nothing has happened. After that, the transaction has taken place (or failed): it becomes durable, and it is only not told when. If too much was unsynced, it may not have
    /// begun. (So in a `select!`, what was dropped may have happened. Spawn a task for what must be known.)
    ///
    /// With other durabilities, and with [`SyncPolicy::OnDemand`](crate::SyncPolicy::OnDemand) or [`Every`](crate::SyncPolicy::Every), this is [`txn`](Self::txn), which does not wait for the disk then.
    /// In a forked child, which has no threads, it waits in the poll.
    ///
    /// # Errors
    /// As for [`txn`](Self::txn). What `f` returns as an error is told when all that it has seen is durable.
    ///
    /// # Panics
    /// In the poll, if `f` does, and everything that it did is rolled back.
    pub async fn txn_async<R>(
        &self,
        f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, T::At<'r>>) -> Result<R>,
    ) -> Result<R> {
        self.try_txn_async(f).await
    }

    /// [`txn_async`](Self::txn_async) with an error type of your own.
    ///
    /// # Errors
    /// As for `txn_async`.
    pub async fn try_txn_async<R, E: From<Error>>(
        &self,
        f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, T::At<'r>>) -> Result<R, E>,
    ) -> Result<R, E> {
        if !self.heap.waits_for_syncs() {
            return self.try_txn(f);
        }
        while let Some(commit) = self.heap.backlog() {
            if commit.await.is_err() {
                break; // the transaction says why
            }
        }
        let (result, commit) = self.begun(f);
        commit.await?;
        result
    }

    /// What comes of a transaction, and what tells when that may be told.
    fn begun<R, E: From<Error>>(
        &self,
        f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, T::At<'r>>) -> Result<R, E>,
    ) -> (Result<R, E>, Commit) {
        let commit = Cell::new(Commit::done());
        let result = self.run_or(
            f,
            |exclusive, _| {
                commit.set(self.heap.seen(exclusive.commit_deferred()?));
                exclusive.tell();
                Ok(())
            },
            |exclusive| {
                commit.set(self.heap.seen(exclusive.give_up()));
                Ok(())
            },
        );
        (result, commit.into_inner())
    }

    /// [`read`](Self::read) for tasks: the first poll runs `f`, and the future is ready when all that `f` has seen is durable. As for a [transaction](Self::txn_async), it is a task that
    /// waits for that, and no thread.
    ///
    /// ```
    /// # use pheap::{Heap, PVec, Root};
    /// async fn last(log: &Root<PVec<'static, u64>>) -> pheap::Result<Option<u64>> {
    ///     log.read_async(|view, log| view[log].last(view).copied()).await
    /// }
    /// ```
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    ///
    /// # Panics
    /// In the poll, if `f` does.
    pub async fn read_async<R>(&self, f: impl for<'r> FnOnce(&View<'r>, P<'r, T::At<'r>>) -> R) -> Result<R> {
        if !self.heap.waits_for_syncs() {
            return self.read(f);
        }
        let (result, commit) = self.read_deferred(f)?;
        commit.await?;
        Ok(result)
    }
}

/// [`txn`](crate::txn()) over several roots of one heap for tasks; see [`Root::txn_async`].
///
/// ```
/// # use pheap::Root;
/// async fn pay(from: &Root<u64>, to: &Root<u64>, amount: u64) -> pheap::Result<()> {
///     pheap::txn_async((from, to), move |((tx, from), (tx_to, to))| {
///         tx[from] = tx[from].checked_sub(amount).ok_or_else(|| pheap::Error::abort("not enough"))?;
///         tx_to[to] += amount;
///         Ok(())
///     })
///     .await
/// }
/// ```
///
/// # Errors
/// As for [`Root::txn_async`], and [`Error::DuplicateRoot`].
pub async fn txn_async<S: RootSet, R>(
    roots: S,
    f: impl for<'a, 'b, 'c, 'd> FnOnce(S::Args<'a, 'b, 'c, 'd>) -> Result<R>,
) -> Result<R> {
    if !roots.waits_for_syncs() {
        return roots.run(f, End::Waits);
    }
    while let Some(commit) = roots.backlog() {
        if commit.await.is_err() {
            break; // the transaction says why
        }
    }
    let mut commit = Commit::done();
    let result = roots.run(f, End::Task(&mut commit));
    commit.await?;
    result
}
