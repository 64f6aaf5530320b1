//! The sync policy: when the log is synced. It may change while the log is in use.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Wal, most_mapped};
use crate::error::Result;
use crate::os::storage::Storage;

/// When the log of a heap with [`Durability::Wal`](crate::Durability::Wal) is synced to its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SyncPolicy {
    /// The log is synced before a transaction returns: a power failure loses no commit that has returned, and
    /// nothing that a read has returned. Transactions that commit at the same time may share a sync. (A
    /// deferred [transaction](crate::Root::txn_deferred) or [read](crate::Root::read_deferred) may return
    /// before the sync.)
    #[default]
    EveryCommit,
    /// Like `EveryCommit`, but a deferred transaction is synced only when its [`Commit`](crate::Commit) is
    /// waited for or polled, or with any other sync. This is for a server that waits once for all
    /// transactions of some time. If no thread waits for a deferred transaction, the end of the process may
    /// lose it, too.
    Awaited,
    /// The log is synced when [`Heap::sync`](crate::Heap::sync) is called, when a [`Commit`](crate::Commit)
    /// is waited for or polled, when the policy [changes](crate::Heap::set_sync_policy), when the heap is
    /// closed, and by checkpoints. A power failure may lose the transactions since the last sync: the newest
    /// ones, each as a whole. The end of the process loses none.
    OnDemand,
    /// Like `OnDemand`, and the log is also synced in the background, at least this often while anything is
    /// unsynced. A power failure loses no transaction that returned longer ago than this time and two syncs.
    /// The end of the process loses none. If pheap has no thread for that (in a forked child, for example),
    /// this is like `EveryCommit`.
    Every(Duration),
}

/// The sync policy as one word, which all threads read: nanoseconds between two syncs, or one of three
/// special values.
#[derive(Debug)]
pub(super) struct PolicyWord(AtomicU64);

const EVERY_COMMIT: u64 = 0;
const AWAITED: u64 = u64::MAX - 1;
const ON_DEMAND: u64 = u64::MAX;

impl PolicyWord {
    pub(super) fn new(policy: SyncPolicy) -> PolicyWord {
        PolicyWord(AtomicU64::new(PolicyWord::encode(policy)))
    }

    /// Returns the word of a policy.
    fn encode(policy: SyncPolicy) -> u64 {
        match policy {
            SyncPolicy::EveryCommit => EVERY_COMMIT,
            SyncPolicy::Awaited => AWAITED,
            SyncPolicy::OnDemand => ON_DEMAND,
            // An interval of 0 becomes one nanosecond. An interval is cut to 584 years.
            SyncPolicy::Every(interval) => {
                u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).clamp(EVERY_COMMIT + 1, AWAITED - 1)
            }
        }
    }

    #[inline]
    pub(super) fn get(&self) -> SyncPolicy {
        match self.0.load(Ordering::Relaxed) {
            EVERY_COMMIT => SyncPolicy::EveryCommit,
            AWAITED => SyncPolicy::Awaited,
            ON_DEMAND => SyncPolicy::OnDemand,
            nanos => SyncPolicy::Every(Duration::from_nanos(nanos)),
        }
    }

    /// Returns whether records may stay in memory until they are synced. A commit that is not deferred waits
    /// for the sync then.
    #[inline]
    pub(super) fn keeps_records(&self) -> bool {
        matches!(self.0.load(Ordering::Relaxed), EVERY_COMMIT | AWAITED)
    }

    /// Returns whether deferred transactions are synced at once, although no thread waits for them.
    #[inline]
    pub(super) fn syncs_deferred(&self) -> bool {
        self.0.load(Ordering::Relaxed) == EVERY_COMMIT
    }
}

impl Wal {
    #[inline]
    pub(crate) fn policy(&self) -> SyncPolicy {
        self.policy.get()
    }

    /// Changes the policy, and syncs. So earlier commits are durable on success, whatever the new policy.
    ///
    /// # Errors
    /// As for [`sync`](Wal::sync).
    pub(crate) fn set_policy(&self, policy: SyncPolicy) -> Result<()> {
        {
            // A log that begins maps its file as the policy requires, so it must not begin while the policy
            // changes.
            // SURVIVES unreached: no program of the crash lab changes the policy; tests of this file do.
            let _beginning = self.beginning.lock();
            // The log's file must keep its length until the log knows that the file is mapped.
            // SURVIVES unreached: no program of the crash lab changes the policy.
            let _growth = self.growth.lock();
            let new = PolicyWord::new(policy);
            let mapped = self.is_mapped() || !new.keeps_records() && self.has_begun() && self.map(self.log());
            // SURVIVES unreached: no program of the crash lab changes the policy.
            let state = self.state.lock();
            self.mapped.store(mapped, Ordering::Relaxed);
            self.policy.0.store(new.0.into_inner(), Ordering::Relaxed);
            // The new policy changes what the thread that syncs waits for.
            self.ordered.notify_all();
            drop(state);
        }
        self.sync()
    }

    /// Maps the log's file. Returns whether that has worked.
    pub(super) fn map(&self, log: &dyn Storage) -> bool {
        log.map(most_mapped(self.layout, self.settings))
    }

    /// Returns whether the log's file is mapped. A mapped file never becomes shorter.
    #[inline]
    pub(super) fn is_mapped(&self) -> bool {
        self.mapped.load(Ordering::Relaxed)
    }

    /// Returns whether the thread that appends records writes them at once, if no other thread is writing.
    /// Once the log has begun, the answer changes only while the state is locked.
    #[inline]
    pub(super) fn is_at_once(&self) -> bool {
        self.is_mapped() && !self.policy.keeps_records()
    }
}

#[cfg(all(test, not(pheap_loom)))]
#[allow(clippy::unit_arg)] // transactions of one assignment return its unit value
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;
    use crate::wal::deferred_tests::{add, get, options};
    use crate::wal::format::read_all;
    use crate::{Error, Heap, Root};

    const POLICIES: [SyncPolicy; 4] = [
        SyncPolicy::EveryCommit,
        SyncPolicy::OnDemand,
        SyncPolicy::Every(Duration::from_millis(1)),
        SyncPolicy::Awaited,
    ];

    fn wal(heap: &Heap) -> &Wal {
        heap.inner().wal().unwrap()
    }

    /// Checks that the log's file has all records, which is what the end of the process would leave.
    fn check_file(heap: &Heap) {
        let wal = wal(heap);
        let found = read_all(wal.log(), wal.layout, wal.seed).unwrap();
        assert_eq!(found.end, wal.end_position());
    }

    #[test]
    fn a_policy_is_a_word() {
        for policy in POLICIES {
            assert_eq!(PolicyWord::new(policy).get(), policy);
        }
        assert_eq!(
            PolicyWord::new(SyncPolicy::Every(Duration::ZERO)).get(),
            SyncPolicy::Every(Duration::from_nanos(1))
        );
        for long in [Duration::MAX, Duration::from_secs(1 << 55), Duration::from_nanos(u64::MAX - 1)] {
            let SyncPolicy::Every(found) = PolicyWord::new(SyncPolicy::Every(long)).get() else {
                panic!("{long:?}")
            };
            assert!(found > Duration::from_secs(500 * 365 * 86400));
        }
    }

    /// Changes each policy to each other, with a log that has begun, and with one that has not.
    #[test]
    fn a_commit_is_as_durable_as_the_policy_says() {
        for (from, to) in POLICIES.into_iter().flat_map(|from| POLICIES.map(|to| (from, to))) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("heap");
            let heap = options(from).open(&path).unwrap();
            let root: Root<u64> = heap.root("n").unwrap();
            let before = add(&root);
            heap.set_sync_policy(to).unwrap();
            assert!(before.is_durable(), "{from:?}, {to:?}");
            root.txn(|tx, n| Ok(tx[n] += 1)).unwrap();
            let seen = root.read_deferred(|_, _| ()).unwrap().1;
            match to {
                SyncPolicy::EveryCommit | SyncPolicy::Awaited => assert!(seen.is_durable()),
                SyncPolicy::OnDemand => assert!(!seen.is_durable()),
                SyncPolicy::Every(_) => {
                    while !seen.is_durable() {
                        thread::yield_now();
                    }
                }
            }
            check_file(&heap);
            heap.close().unwrap();
            assert!(matches!(heap.set_sync_policy(from), Err(Error::Closed)));
            let heap = options(from).open(&path).unwrap();
            heap.set_sync_policy(to).unwrap();
            let root: Root<u64> = heap.root("n").unwrap();
            assert_eq!(get(&root).unwrap(), 2);
            root.txn(|tx, n| Ok(tx[n] += 1)).unwrap();
            // The log is used as if it had been opened with the new policy.
            let other = options(to).open(folder.path().join("other")).unwrap();
            drop(add(&other.root("n").unwrap()));
            assert_eq!(wal(&heap).is_at_once(), wal(&other).is_at_once());
        }
    }

    /// Changes the policy while threads commit, and while the log grows and checkpoints run.
    #[test]
    fn a_policy_changes_beside_commits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("heap");
        let heap = options(SyncPolicy::EveryCommit).log_limit(1 << 20).open(&path).unwrap();
        let roots: [Root<[u64; 32]>; 3] = ["a", "b", "c"].map(|name| heap.root(name).unwrap());
        let ends = AtomicBool::new(false);
        let counts = thread::scope(|scope| {
            let threads = roots.each_ref().map(|root| {
                scope.spawn(|| {
                    let mut count = 0;
                    while !ends.load(Ordering::Relaxed) {
                        root.txn(|tx, n| Ok(tx[n] = [count + 1; 32])).unwrap();
                        count += 1;
                    }
                    count
                })
            });
            for round in 0..60 {
                heap.set_sync_policy(POLICIES[round % 4]).unwrap();
                if round % 5 == 0 {
                    heap.checkpoint().unwrap();
                }
                thread::sleep(Duration::from_millis(2));
            }
            heap.set_sync_policy(SyncPolicy::OnDemand).unwrap();
            ends.store(true, Ordering::Relaxed);
            threads.map(|thread| thread.join().unwrap())
        });
        check_file(&heap);
        drop((heap, roots));
        let heap = options(SyncPolicy::EveryCommit).open(&path).unwrap();
        for (name, count) in ["a", "b", "c"].into_iter().zip(counts) {
            let root: Root<[u64; 32]> = heap.root(name).unwrap();
            assert_eq!(root.read(|view, n| view[n]).unwrap(), [count; 32]);
        }
    }
}
