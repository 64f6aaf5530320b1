//! Commits for which replies of a thread wait. The thread asks the log only about the latest commit of a
//! turn, which covers the others, and the log wakes the thread when the latest one is durable.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use pheap::Commit;

use crate::clients::unsynced::{Counted, Unsynced};
use crate::connections::mailbox::Mailbox;

/// Commits for which replies wait, and unsynced writes for which reads wait.
#[derive(Debug)]
pub(super) struct Syncs<'s> {
    unsynced: &'s Unsynced,
    durability_waker: Arc<DurabilityWaker>,
    waker: Waker,
    /// The latest commit noted in this turn.
    last: Option<Commit>,
    /// The writes of this turn.
    counted: Counted,
    /// The latest commit and the writes of each earlier turn that the log has not reported as durable.
    turns: VecDeque<(Commit, Counted)>,
    /// Whether a sync has failed, after which no commit becomes durable any more.
    has_failed: bool,
}

/// The waker that the log calls when a commit is durable or has failed. It also wakes the thread.
#[derive(Debug)]
struct DurabilityWaker {
    mailbox: Arc<Mailbox>,
    news: AtomicBool,
}

impl Wake for DurabilityWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.news.store(true, Ordering::Release);
        self.mailbox.wake_up();
    }
}

impl<'s> Syncs<'s> {
    pub(super) fn new(unsynced: &'s Unsynced, mailbox: Arc<Mailbox>) -> Syncs<'s> {
        let durability_waker = Arc::new(DurabilityWaker { mailbox, news: AtomicBool::new(false) });
        let waker = Waker::from(durability_waker.clone());
        Syncs {
            unsynced,
            durability_waker,
            waker,
            last: None,
            counted: Vec::new(),
            turns: VecDeque::new(),
            has_failed: false,
        }
    }

    /// Notes commits for which replies wait, and keeps the latest. A later call may note an earlier commit,
    /// because a read may have seen only an earlier state.
    pub(super) fn note_commits(&mut self, commits: &[Commit]) {
        for commit in commits {
            if self.last.as_ref().is_none_or(|last| !commit.is_before(last)) {
                self.last = Some(commit.clone());
            }
        }
    }

    /// Notes writes of this turn. Their commit must be [noted](Self::note_commits) in this turn, too, unless
    /// it is durable or no reply waits for it.
    pub(super) fn count_writes(&mut self, counted: &mut Counted) {
        self.counted.append(counted);
    }

    /// Returns whether a commit is durable.
    ///
    /// # Errors
    /// If the commit never becomes durable.
    pub(super) fn durability(&self, commit: &Commit) -> Poll<pheap::Result<()>> {
        if commit.is_durable() {
            Poll::Ready(Ok(()))
        } else if self.has_failed {
            Poll::Ready(commit.wait())
        } else {
            Poll::Pending
        }
    }

    /// Ends a turn: asks the log for a sync if a reply waits for one.
    pub(super) fn request_sync(&mut self) {
        let mut counted = std::mem::take(&mut self.counted);
        let Some(mut last) = self.last.take() else { return self.unsynced.uncount(&mut counted) };
        match self.poll(&mut last) {
            Poll::Pending => return self.turns.push_back((last, counted)),
            Poll::Ready(Ok(())) => self.unsynced.uncount(&mut counted),
            Poll::Ready(Err(_)) => {}
        }
        // Replies that found the commit pending in this turn have to look again.
        self.waker.wake_by_ref();
    }

    /// Returns whether more commits may be durable or may have failed since the last call.
    pub(super) fn has_newly_durable(&mut self) -> bool {
        // The swap makes visible what the log wrote before it woke the thread.
        if !self.durability_waker.news.swap(false, Ordering::AcqRel) {
            return false;
        }
        while let Some((mut last, mut counted)) = self.turns.pop_front() {
            match self.poll(&mut last) {
                Poll::Pending => {
                    self.turns.push_front((last, counted));
                    break;
                }
                Poll::Ready(Ok(())) => self.unsynced.uncount(&mut counted),
                // The writes of a failed commit stay counted, because they never become durable.
                Poll::Ready(Err(_)) => {}
            }
        }
        true
    }

    fn poll(&mut self, commit: &mut Commit) -> Poll<pheap::Result<()>> {
        let polled = Pin::new(commit).poll(&mut Context::from_waker(&self.waker));
        self.has_failed |= matches!(polled, Poll::Ready(Err(_)));
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pheap::{Durability, Heap, Options, SyncPolicy};

    fn add(heap: &Heap, root: &str) -> Commit {
        let root = heap.root::<u64>(root).unwrap();
        let added = root.txn_deferred(|tx, n| {
            tx[n] += 1;
            Ok(())
        });
        added.unwrap().1
    }

    #[test]
    fn one_commit_of_a_turn_stands_for_all() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new().durability(Durability::Wal).sync_policy(SyncPolicy::OnDemand);
        let heap = options.open(folder.path().join("heap")).unwrap();
        let poll = mio::Poll::new().unwrap();
        let mailbox = Arc::new(Mailbox::new(poll.registry(), mio::Token(0)).unwrap());
        let unsynced = Unsynced::default();
        let mut syncs = Syncs::new(&unsynced, mailbox);
        let (mut counted, key): (Counted, &[u8]) = (Vec::new(), b"key");
        for _ in 0..100 {
            let (first, second) = (add(&heap, "a"), add(&heap, "b"));
            let third = add(&heap, "a");
            unsynced.count(Some([key]), &mut counted);
            syncs.count_writes(&mut counted);
            // The order of noting need not be the order of the commits.
            syncs.note_commits(&[third.clone(), first.clone()]);
            syncs.note_commits(&[second]);
            assert!(syncs.last.as_ref().is_some_and(|last| third.is_before(last)));
            assert!(syncs.durability(&first).is_pending() && unsynced.is_unsynced(key));
            syncs.request_sync();
            while !syncs.has_newly_durable() {
                std::thread::yield_now();
            }
            assert!(third.is_durable() && matches!(syncs.durability(&third), Poll::Ready(Ok(()))));
            assert!(!unsynced.is_unsynced(key) && syncs.turns.is_empty());
        }
    }
}
