//! Transactions and reads as futures: the task waits for the sync, and its thread runs other tasks.

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
    /// Like [`txn`](Self::txn), for tasks: while the disk syncs, the task waits, and its thread runs other
    /// tasks.
    ///
    /// The first poll runs `f` (a later one if too much is unsynced), as one transaction and to its end, in
    /// the polling thread. The future is ready when the whole transaction is durable. It needs no particular
    /// runtime: a thread of the heap, which syncs for all tasks at once, wakes the task.
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
    /// # When a thread still waits
    /// * **Another transaction on the root** runs in another thread: the poll waits until the other
    ///   transaction has committed in memory, not until it is durable. It also waits for the
    ///   [reads](Self::read) of the root that have begun.
    /// * **`f`** itself. A closure that takes more than about a millisecond delays other tasks of this
    ///   thread, like any computation: run `root.txn(f)` on the runtime's threads for blocking work
    ///   (`spawn_blocking`), or split it into several transactions.
    /// * **A page fault**: if a page of the file was evicted, or was not read since the heap was opened, it
    ///   is read from the disk when `f` accesses it. If the data are larger than memory, use
    ///   `spawn_blocking`. The growth of the file also takes time.
    /// * **A disk that stays behind**: with [`Durability::Wal`](crate::Durability::Wal), a transaction waits
    ///   for a checkpoint if the [log](crate::Options::log_limit) is full, or too many
    ///   [pages](crate::Options::memory_limit) are dirty. (If more than
    ///   [`Options::unsynced_limit`](crate::Options::unsynced_limit) is not synced, the task waits, before
    ///   `f` runs.)
    /// * **The log of a heap that was closed properly**: the first transaction creates it, and waits for the
    ///   disk. A transaction without changes, before the runtime starts, creates it as well.
    ///
    /// `f` cannot contain `.await`, so no task keeps a root locked while it waits for another event.
    ///
    /// # Dropping the future
    /// Before the first poll, nothing has happened. After it, the transaction has run (or failed), unless too
    /// much was unsynced: then it may not have begun. If it has run, dropping the future only loses the
    /// report. (So in a `select!`, a dropped transaction may have happened. Spawn a task for a transaction
    /// whose result must be known.)
    ///
    /// With other durabilities, and with [`SyncPolicy::OnDemand`](crate::SyncPolicy::OnDemand) or
    /// [`Every`](crate::SyncPolicy::Every), this is [`txn`](Self::txn), which does not wait for the disk
    /// then. Where the heap cannot start the thread that wakes tasks, the poll waits: in a heap that a forked
    /// child has opened itself, for example.
    ///
    /// # Errors
    /// As for [`txn`](Self::txn). An error of `f` is returned after the wait for the data that `f` has read.
    ///
    /// # Panics
    /// In the poll, if `f` panics; its changes are rolled back.
    pub async fn txn_async<R>(
        &self,
        f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, T::At<'r>>) -> Result<R>,
    ) -> Result<R> {
        self.try_txn_async(f).await
    }

    /// Like [`txn_async`](Self::txn_async), with an error type of the program.
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
                break; // the log has failed, and the transaction returns the reason
            }
        }
        let (result, commit) = self.begun(f);
        commit.await?;
        result
    }

    /// Runs a transaction, and returns its result, and a `Commit` that reports when the result may be
    /// returned.
    fn begun<R, E: From<Error>>(
        &self,
        f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, T::At<'r>>) -> Result<R, E>,
    ) -> (Result<R, E>, Commit) {
        let commit = Cell::new(Commit::done());
        let result = self.run_or(
            f,
            |exclusive, _| {
                commit.set(self.heap.commit_of_read(exclusive.commit_deferred()?));
                exclusive.tell();
                Ok(())
            },
            |exclusive| {
                commit.set(self.heap.commit_of_read(exclusive.abort()));
                Ok(())
            },
        );
        (result, commit.into_inner())
    }

    /// Like [`read`](Self::read), for tasks: the first poll runs `f`, and the future is ready when `read`
    /// would return. While the disk syncs, the task waits, and its thread runs other tasks, as for a
    /// [transaction](Self::txn_async).
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
    /// In the poll, if `f` panics.
    pub async fn read_async<R>(&self, f: impl for<'r> FnOnce(&View<'r>, P<'r, T::At<'r>>) -> R) -> Result<R> {
        if !self.heap.waits_for_syncs() {
            return self.read(f);
        }
        let (result, commit) = self.read_deferred(f)?;
        commit.await?;
        Ok(result)
    }
}

/// Like [`txn`](crate::txn()) over several roots of one heap, for tasks; see [`Root::txn_async`].
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
/// As for [`Root::txn_async`]; [`Error::DuplicateRoot`]; [`Error::InvalidOption`] if the roots belong to
/// several heaps, or the slice has no root.
pub async fn txn_async<S: RootSet, R>(
    roots: S,
    f: impl for<'a, 'b, 'c, 'd> FnOnce(S::Args<'a, 'b, 'c, 'd>) -> Result<R>,
) -> Result<R> {
    if !roots.waits_for_syncs() {
        return roots.run(f, End::Waits);
    }
    while let Some(commit) = roots.backlog() {
        if commit.await.is_err() {
            break; // the log has failed, and the transaction returns the reason
        }
    }
    let mut commit = Commit::done();
    let result = roots.run(f, End::Task(&mut commit));
    commit.await?;
    result
}
