//! Transactions and reads that return before their data are durable. A [`Commit`] reports when the changes of
//! the transaction, or the data that the read has seen, are durable.

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
    /// Like [`txn`](Self::txn), but does not wait until the transaction is durable: this returns after the
    /// commit in memory, when all other threads see the changes. The [`Commit`] reports when the changes are
    /// durable.
    ///
    /// This is for servers: one thread runs transactions as fast as requests come, one sync covers all
    /// transactions since the last one, and the server sends each answer when its `Commit` is ready. With
    /// [`SyncPolicy::EveryCommit`](crate::SyncPolicy::EveryCommit), a thread of the heap syncs as long as
    /// such commits are not durable, also if their `Commit`s are dropped. (The first transaction or read of
    /// this kind starts the thread.) With this policy and with `Awaited`,
    /// [`Options::unsynced_limit`](crate::Options::unsynced_limit) bounds the bytes that are not durable:
    /// beyond it, deferred transactions wait.
    ///
    /// With [`Awaited`](crate::SyncPolicy::Awaited), [`OnDemand`](crate::SyncPolicy::OnDemand) and
    /// [`Every`](crate::SyncPolicy::Every), the log is synced when the program waits for or polls a `Commit`
    /// (with `Every`, also at its interval). So a program can make a single transaction durable soon, or many
    /// at once by the last of their `Commit`s. With durabilities other than
    /// [`Wal`](crate::Durability::Wal), the transaction has its full durability when this returns.
    ///
    /// # Crashes
    /// After a crash, a transaction that was not durable yet has taken effect entirely or not at all, and
    /// never without the transactions that committed before it in the same heap. With
    /// [`SyncPolicy::EveryCommit`](crate::SyncPolicy::EveryCommit) and `Awaited`, this holds for the end of
    /// the process and for a power failure. With the other policies, the end of the process loses no
    /// transaction for which this has returned.
    ///
    /// # Cost
    /// The cost of [`txn`](Self::txn) without the sync, and a reference count. (The first transaction of a
    /// heap that was closed properly creates its log, and waits for the disk.) If a later transaction or read
    /// of the same root is *not* deferred and waits for the disk, it waits for this transaction, too.
    ///
    /// # Errors
    /// As for [`txn`](Self::txn), except that the [`Commit`] returns [`Error::OutcomeUnknown`] if the disk
    /// fails after the transaction. If `f` fails, this waits for the data that `f` has read as
    /// [`txn`](Self::txn) does, because the error may depend on them.
    ///
    /// # Panics
    /// If `f` panics; its changes are rolled back.
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

    /// Like [`read`](Self::read), but does not wait until the data that `f` has read are durable: this waits
    /// for the root only. The [`Commit`] reports when the data are durable.
    ///
    /// So a server delays the answer, and not the thread. Until the `Commit` is ready, a crash may take back
    /// the data that the read has returned. (With [`SyncPolicy::OnDemand`](crate::SyncPolicy::OnDemand),
    /// [`read`](Self::read) does not wait for a sync either; waiting for the `Commit` syncs the log.)
    ///
    /// # Errors
    /// [`Error::Nested`] if this thread is inside a transaction of the heap; [`Error::Unsupported`] as for
    /// [`read`](Self::read); [`Error::Closed`], [`Error::Migrated`], [`Error::Forked`]; [`Error::Failed`] or
    /// [`Error::Misplaced`] if the heap has failed before. The [`Commit`] returns an error if the disk fails
    /// later.
    ///
    /// # Panics
    /// If `f` panics.
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
        let (result, position) = self.read_and_finish(f, |shared| Ok(shared.defer()))?;
        Ok((result, self.heap.commit_of_read(position)))
    }
}

/// Like [`txn`](crate::txn()) over several roots of one heap, but does not wait until the transaction is
/// durable; see [`Root::txn_deferred`].
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
/// As for [`Root::txn_deferred`]; [`Error::DuplicateRoot`]; [`Error::InvalidOption`] if the roots belong to
/// several heaps, or the slice has no root.
pub fn txn_deferred<S: RootSet, R>(
    roots: S,
    f: impl for<'a, 'b, 'c, 'd> FnOnce(S::Args<'a, 'b, 'c, 'd>) -> Result<R>,
) -> Result<(R, Commit)> {
    let mut commit = Commit::done();
    let result = roots.run(f, End::Deferred(&mut commit))?;
    Ok((result, commit))
}
