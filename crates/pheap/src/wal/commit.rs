//! `Commit`: what tells when something that was done without waiting for the disk is durable.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::Wal;
use crate::error::{Error, Result};

/// Tells when a [deferred transaction](crate::Root::txn_deferred), or what a [deferred read](crate::Root::read_deferred) has seen, is durable.
///
/// Ask in one of three ways: [`wait`](Commit::wait) for it, look with [`is_durable`](Commit::is_durable), or `await` it. The future belongs to no runtime; a thread of
/// the heap wakes the task. (So a waker must return soon, and wait for nothing: who closes the heap waits for
/// it. Nothing is locked, so it may call any method of the heap. If it panics, the panic ends there.)
///
/// Nothing depends on a `Commit`, which may be dropped. It may outlive the heap and all its handles. Closing a heap makes everything
/// durable, or fails, and this says which. (Meanwhile it keeps the file of the log open.)
///
/// Who asks is what has it synced, if the [`SyncPolicy`](crate::SyncPolicy) does not: with `EveryCommit` it is synced at once, also if this is dropped; with `OnDemand` and `Every`, when this is
/// waited for or polled, and all before it with it. So a server whose policy is `OnDemand` may run what has come from many clients, and then ask for the last `Commit` only (see [`is_before`](Commit::is_before): what a read has seen may have been long ago).
/// A clone tells the same, and is polled by a task of its own.
///
/// The commits of a heap become durable in the order in which they took place, so one that is durable says the same of all before it.
///
/// With [`Durability::Wal`](crate::Durability::Wal), durable means that a power failure loses nothing, whatever the [`SyncPolicy`](crate::SyncPolicy). With other durabilities
/// each transaction is durable, in their sense, when it returns, and this says so at once.
///
/// # Errors
/// As a future, and from [`wait`](Commit::wait): [`Error::OutcomeUnknown`] if the disk has failed before it was durable (or the heap's files were
/// [misplaced](Error::Misplaced), or something has panicked within pheap): only opening the heap again tells. Then it stays like that.
/// [`Error::Forked`] in a forked child, if the parent had not made it durable before.
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
/// // Others see it already. Whoever relies on it waits.
/// commit.wait()?;
/// assert!(commit.is_durable() && n == 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Commit(Option<Ticket>);

/// A place in a log.
struct Ticket {
    wal: Arc<Wal>,
    position: u64,
    /// Number of the waker that the log has, if it has had one. A clone has none.
    waker: Option<u64>,
}

impl Commit {
    /// Of what is durable in the sense of the heap's durability.
    pub(crate) fn done() -> Commit {
        Commit(None)
    }

    /// Of all that was appended to a log before `position`.
    pub(crate) fn at(wal: &Arc<Wal>, position: u64) -> Commit {
        Commit(Some(Ticket { wal: wal.clone(), position, waker: None }))
    }

    /// Waits until it is durable. Who waits also syncs, for all commits up to then, unless another thread is doing that.
    ///
    /// Do not wait inside of a transaction or read: others would wait for its root meanwhile.
    ///
    /// # Errors
    /// See [above](Commit#errors).
    pub fn wait(&self) -> Result<()> {
        self.0.as_ref().map_or(Ok(()), |ticket| ticket.known().unwrap_or_else(|| ticket.sync()))
    }

    /// Whether this took place before another one of the same heap, or says the same: it is durable when that is.
    pub fn is_before(&self, other: &Commit) -> bool {
        match (&self.0, &other.0) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(a), Some(b)) => Arc::ptr_eq(&a.wal, &b.wal) && a.position <= b.position,
        }
    }

    /// Whether it is durable now. This waits for nothing, and asks nobody to sync. It stays `false` if the disk has failed; [`wait`](Commit::wait) says so, and then waits no
    /// longer.
    pub fn is_durable(&self) -> bool {
        self.0.as_ref().is_none_or(Ticket::is_durable)
    }
}

impl Future for Commit {
    type Output = Result<()>;

    /// Is ready at once where no thread could wake the task: then this waits itself.
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

    /// What can be said without a lock.
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
        let waker = waker.clone(); // which runs code of the program's, so not under a lock
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
