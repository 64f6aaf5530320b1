//! `Commit`: tells when a deferred transaction or read is durable.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::Wal;
use crate::error::{Error, Result};

/// Tells when a [deferred transaction](crate::Root::txn_deferred), or the state that a
/// [deferred read](crate::Root::read_deferred) has seen, is durable.
///
/// A program can [`wait`](Commit::wait) for a `Commit`, look with [`is_durable`](Commit::is_durable), or
/// `await` it. The future works with any runtime: a thread of the heap wakes the task. (If that thread cannot
/// be started, the poll waits.) That thread calls the waker with nothing of the heap locked, so the waker may
/// call any method of the heap. The waker must return soon, and wait for nothing, because closing the heap
/// waits for this thread. If a waker panics, that thread catches the panic.
///
/// A `Commit` may be dropped; the transaction stays committed. A `Commit` may outlive the heap and all its
/// handles, and keeps the file of the log open. Closing a heap makes everything durable, or fails.
///
/// The [`SyncPolicy`](crate::SyncPolicy) says when a commit is synced. With `EveryCommit` it is synced at
/// once, also if the `Commit` is dropped. With the other policies it is synced at the latest when the
/// `Commit` is waited for or polled, with all commits before it. So a server with the policy `OnDemand` may
/// run the transactions of many clients, and then wait for the last `Commit` only.
/// ([`is_before`](Commit::is_before) tells which `Commit` is the last one: a read may have seen an older
/// state.) A clone of a `Commit` waits for the same transaction, and another task can poll it.
///
/// The commits of a heap become durable in the order in which they took place. So if one is durable, all
/// before it are.
///
/// With [`Durability::Wal`](crate::Durability::Wal), durable means that a power failure loses nothing,
/// whatever the [`SyncPolicy`](crate::SyncPolicy). With other durabilities, each transaction is durable in
/// their sense when it returns, and its `Commit` says so at once.
///
/// # Errors
/// As a future, and from [`wait`](Commit::wait): [`Error::OutcomeUnknown`] if the log has failed before the
/// commit was durable: because the disk has failed, the heap's files were [misplaced](Error::Misplaced), or a
/// thread has panicked within pheap, for example. Only opening the heap again tells then whether the commit
/// is on the disk. The error stays. [`Error::Forked`] in a forked child, if the parent had not made the
/// commit durable before the fork.
///
/// # Example
/// ```
/// # fn main() -> pheap::Result<()> {
/// let heap = pheap::Heap::in_memory()?;
/// let hits = heap.root::<u64>("hits")?;
/// let (n, commit) = hits.txn_deferred(|tx, hits| {
///     tx[hits] += 1;
///     Ok(tx[hits])
/// })?;
/// // Other threads see the change already. A thread that relies on it waits.
/// commit.wait()?;
/// assert!(commit.is_durable() && n == 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Commit(Option<Ticket>);

/// A position in a log, for which a `Commit` waits.
struct Ticket {
    wal: Arc<Wal>,
    position: u64,
    /// The number under which this `Commit` has left its newest waker in the log. `None` if it has left none,
    /// as in a new clone.
    waker: Option<u64>,
}

impl Commit {
    /// Creates a commit that counts as durable from the beginning, in the sense of the heap's durability.
    pub(crate) fn done() -> Commit {
        Commit(None)
    }

    /// Creates a commit that is durable once the log is synced up to `position`.
    pub(crate) fn for_position(wal: &Arc<Wal>, position: u64) -> Commit {
        Commit(Some(Ticket { wal: wal.clone(), position, waker: None }))
    }

    /// Waits until the commit is durable. The waiting thread syncs the log, for all commits up to this one at
    /// least, unless another thread is doing that.
    ///
    /// Do not wait inside a transaction or read: other threads may wait for its root.
    ///
    /// # Errors
    /// See [above](Commit#errors).
    pub fn wait(&self) -> Result<()> {
        self.0.as_ref().map_or(Ok(()), |ticket| ticket.known().unwrap_or_else(|| ticket.sync()))
    }

    /// Returns whether it is certain that this commit is durable once `other` is: it took place before
    /// `other` in the same heap, or is the same commit, or was durable from the beginning.
    pub fn is_before(&self, other: &Commit) -> bool {
        match (&self.0, &other.0) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(a), Some(b)) => Arc::ptr_eq(&a.wal, &b.wal) && a.position <= b.position,
        }
    }

    /// Returns whether the commit is durable now. This neither waits nor makes any thread sync. If the log
    /// has failed before the commit was durable, the result stays `false`; [`wait`](Commit::wait) then
    /// returns the error without waiting.
    pub fn is_durable(&self) -> bool {
        self.0.as_ref().is_none_or(Ticket::is_durable)
    }
}

impl Future for Commit {
    type Output = Result<()>;

    /// Polls the commit. If there is no thread that could wake the task, the poll waits for the disk and is
    /// then ready.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let Some(ticket) = &mut self.0 else { return Poll::Ready(Ok(())) };
        match ticket.known() {
            Some(known) => Poll::Ready(known),
            None => ticket.leave_waker(context.waker()),
        }
    }
}

impl fmt::Debug for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Commit").field("is_durable", &self.is_durable()).finish_non_exhaustive()
    }
}

impl Ticket {
    fn is_durable(&self) -> bool {
        self.wal.is_durable(self.position)
    }

    /// Returns the outcome of the commit if it is known without locking the log: the commit is durable, or
    /// this process is a forked child.
    fn known(&self) -> Option<Result<()>> {
        if self.is_durable() {
            return Some(Ok(()));
        }
        self.wal.process.is_parent().then_some(Err(Error::Forked))
    }

    fn sync(&self) -> Result<()> {
        self.wal.sync_up_to(self.position)
    }

    fn leave_waker(&mut self, waker: &Waker) -> Poll<Result<()>> {
        // Cloning a waker runs code of the program, so the waker is cloned before the log is locked.
        let waker = waker.clone();
        if self.wal.leave_waker(self.position, &mut self.waker, waker) {
            Poll::Pending
        } else {
            Poll::Ready(self.sync())
        }
    }
}

impl Clone for Ticket {
    fn clone(&self) -> Ticket {
        Ticket { wal: self.wal.clone(), position: self.position, waker: None }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.wal.process.is_parent() {
            self.wal.leave();
        } else if let Some(number) = self.waker {
            self.wal.take_waker(self.position, number);
        }
    }
}
