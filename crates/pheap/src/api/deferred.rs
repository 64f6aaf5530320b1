//! Transactions and reads that do not wait for the disk: a [`Commit`] tells when what they did, or saw, is durable.

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
    /// [`txn`](Self::txn) that does not wait until it is durable: it returns when it is committed in memory, where all others see it, and the [`Commit`] tells when it is durable.
    ///
    /// It is for servers: one thread runs transactions as fast as they come, syncs are shared by all that have come meanwhile, and each answer is sent when its `Commit` says so.
    /// With [`SyncPolicy::EveryCommit`](crate::SyncPolicy::EveryCommit), a thread of the heap syncs as long as there are such commits that are not durable, also if their `Commit`s are dropped.
    /// (It is started by the first one.) [`Options::unsynced_limit`](crate::Options::unsynced_limit) bounds how much is not: beyond that, deferred transactions wait.
    ///
    /// With [`Awaited`](crate::SyncPolicy::Awaited), [`OnDemand`](crate::SyncPolicy::OnDemand) and [`Every`](crate::SyncPolicy::Every), the thread syncs when a `Commit` is waited for or polled. So this is how a single
    /// transaction becomes durable soon, or, by the last of their `Commit`s, many at once. With other durabilities than [`Wal`](crate::Durability::Wal), a transaction is as durable as it will be when this returns.
    ///
    /// # Crashes
    /// A transaction that is not durable yet is there as a whole after a crash, or not at all, and never without those that have committed before it in the same heap. With
    /// [`SyncPolicy::EveryCommit`](crate::SyncPolicy::EveryCommit) and `Awaited`, that goes for the end of the process as for a power failure; with the others, the end of the process loses nothing for
    /// which this has returned.
    ///
    /// # Cost
    /// That of [`txn`](Self::txn) without the sync, and a reference count. (The first change of a heap that was closed well makes its log, and waits for the disk.) A transaction or read of the same root that is *not* deferred waits for this one, too.
    ///
    /// # Errors
    /// As for [`txn`](Self::txn), but that it is the [`Commit`] that says [`Error::OutcomeUnknown`] if the disk fails after the transaction. If `f` fails, this waits
    /// until what `f` has seen is durable, for the error may tell of it.
    ///
    /// # Panics
    /// If `f` does, and everything that it did is rolled back.
    ///
    /// # Example
    /// ```
    /// # async fn answer(log: &pheap::Root<pheap::PVec<'static, u64>>) -> pheap::Result<usize> {
    /// let (len, commit) = log.txn_deferred(|tx, log| {
    ///     log.push(tx, 7)?;
    ///     Ok(tx[log].len())
    /// })?;
    /// commit.await?; // other tasks go on
    /// Ok(len)
    /// # }
    /// ```
    #[inline]
    pub fn txn_deferred<R>(
        &self,
        f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, T::At<'r>>) -> Result<R>,
    ) -> Result<(R, Commit)> {
        self.try_txn_deferred(f)
    }

    /// [`txn_deferred`](Self::txn_deferred) with an error type of your own.
    ///
    /// # Errors
    /// As for `txn_deferred`.
    #[inline]
    pub fn try_txn_deferred<R, E: From<Error>>(
        &self,
        f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, T::At<'r>>) -> Result<R, E>,
    ) -> Result<(R, Commit), E> {
        let mut commit = Commit::done();
        let result = self.run(f, |exclusive, _| {
            commit = self.heap.deferred(exclusive.commit_deferred()?);
            exclusive.tell();
            Ok(())
        })?;
        Ok((result, commit))
    }

    /// [`read`](Self::read) that does not wait until what it has seen is durable: it waits for the root only, and the [`Commit`] tells when that is so.
    ///
    /// So a server keeps the answer back, and not the thread. What a read returns before may be gone after a crash. (With
    /// [`SyncPolicy::OnDemand`](crate::SyncPolicy::OnDemand), [`read`](Self::read) does not wait for a sync either, and waiting for the `Commit` is what makes the log
    /// synced.)
    ///
    /// # Errors
    /// [`Error::Nested`] if this thread is inside a transaction of the heap; [`Error::Closed`], [`Error::Migrated`], [`Error::Forked`]; with `Wal`, [`Error::Failed`]
    /// if the disk has failed before. The [`Commit`] says whether it has failed since.
    ///
    /// # Panics
    /// If `f` does.
    ///
    /// # Example
    /// ```
    /// # fn main() -> pheap::Result<()> {
    /// let heap = pheap::Heap::in_memory()?;
    /// let hits = heap.root::<u64>("hits")?;
    /// let (n, seen) = hits.read_deferred(|view, hits| view[hits])?;
    /// seen.wait()?;
    /// println!("{n}");
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn read_deferred<R>(
        &self,
        f: impl for<'r> FnOnce(&View<'r>, P<'r, T::At<'r>>) -> R,
    ) -> Result<(R, Commit)> {
        let (result, position) = self.look(f, |shared| Ok(shared.defer()))?;
        Ok((result, self.heap.seen(position)))
    }
}

/// [`txn`](crate::txn()) over several roots of one heap that does not wait until it is durable; see [`Root::txn_deferred`].
///
/// ```
/// # fn main() -> pheap::Result<()> {
/// let heap = pheap::Heap::in_memory()?;
/// let (alice, bob) = (heap.root::<u64>("alice")?, heap.root::<u64>("bob")?);
/// let ((), commit) = pheap::txn_deferred((&alice, &bob), |((ta, a), (tb, b))| {
///     ta[a] += 1;
///     tb[b] += 1;
///     Ok(())
/// })?;
/// commit.wait()?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As for [`Root::txn_deferred`], and [`Error::DuplicateRoot`].
pub fn txn_deferred<S: RootSet, R>(
    roots: S,
    f: impl for<'a, 'b, 'c, 'd> FnOnce(S::Args<'a, 'b, 'c, 'd>) -> Result<R>,
) -> Result<(R, Commit)> {
    let mut commit = Commit::done();
    let result = roots.run(f, End::Deferred(&mut commit))?;
    Ok((result, commit))
}
