//! `Heap::checkpoint`, `fold_log` and `sync`: the heap's access to the write-ahead log.

use std::sync::Arc;

use super::close::BackgroundTask;
use super::{Heap, HeapInner};
use crate::error::Result;
use crate::faults::{Bug, bug};
use crate::wal::{SyncPolicy, Wal};

impl Heap {
    /// With [`Durability::Wal`](crate::Durability::Wal), waits until all earlier commits survive a power
    /// failure. With [`Pmem`](crate::Durability::Pmem) they do already, on persistent memory; with
    /// [`Process`](crate::Durability::Process) they never do.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`](crate::Error::OutcomeUnknown) if the disk fails;
    /// [`Error::Failed`](crate::Error::Failed) if it has failed before;
    /// [`Error::Misplaced`](crate::Error::Misplaced) or `OutcomeUnknown` if the heap's files cannot be found;
    /// [`Error::Removed`](crate::Error::Removed) if the heap's file was removed;
    /// [`Error::Closed`](crate::Error::Closed), [`Error::Forked`](crate::Error::Forked).
    pub fn sync(&self) -> Result<()> {
        let heap = self.inner();
        heap.check_open()?;
        heap.sync_log()?;
        heap.check_named()
    }

    /// With [`Durability::Wal`](crate::Durability::Wal), sets when the log is synced from now on; see
    /// [`Options::sync_policy`](crate::Options::sync_policy). This call also [syncs](Self::sync) the log, so
    /// that earlier commits are durable, whatever the two policies. With other durabilities it does nothing.
    ///
    /// A log that was used with [`OnDemand`](SyncPolicy::OnDemand) or [`Every`](SyncPolicy::Every) may keep
    /// its length until the heap is closed.
    ///
    /// # Errors
    /// As for [`sync`](Self::sync). If the sync fails, the policy has changed nevertheless.
    pub fn set_sync_policy(&self, policy: SyncPolicy) -> Result<()> {
        let heap = self.inner();
        heap.check_open()?;
        let Some(wal) = heap.wal() else { return Ok(()) };
        let set = wal.set_policy(policy);
        heap.sync_at_intervals();
        heap.note_failure(set)?;
        heap.check_named()
    }

    /// With [`Durability::Wal`](crate::Durability::Wal), makes a checkpoint: writes the records of the log to
    /// the heap's file. A background thread makes a checkpoint when the log is half full, when too many pages
    /// are [private](crate::Options::memory_limit), or when the log has more than 1 MiB of records and
    /// nothing was appended for a second. Transactions go on during a checkpoint. If the log's file has
    /// grown, and nothing is appended during the checkpoint, this call makes the log's file as short as it
    /// was at first; the background thread does so when nothing was appended for ten seconds. (With a
    /// [`SyncPolicy`](crate::SyncPolicy) other than `EveryCommit` and `Awaited`, the log may keep its
    /// length.) With other durabilities this call does nothing.
    ///
    /// A checkpoint also gives the space of free pages back to the disk, in runs of 1 MiB or more: the heap's
    /// file gets holes, and keeps its length. To free as much as possible, [collect](Self::collect) first. A
    /// checkpoint in the background gives space back when free pages that have space are a quarter of the
    /// heap, and at least 64 MiB. A transaction that needs the pages again waits until the file has space for
    /// them, or gets [`Error::OutOfSpace`](crate::Error::OutOfSpace).
    ///
    /// # Errors
    /// As for [`sync`](Self::sync). If the disk fails during the call, the error may also be
    /// [`Error::Failed`](crate::Error::Failed) or [`Error::Io`](crate::Error::Io).
    pub fn checkpoint(&self) -> Result<()> {
        self.inner().checkpoint(true)
    }

    /// With [`Durability::Wal`](crate::Durability::Wal), makes a checkpoint that empties the log: writes its
    /// records to the heap's file now, and not when the log is half full or idle. So an opening after a kill
    /// has little to recover, and for a while no checkpoint competes with commits for the disk. Unlike
    /// [`checkpoint`](Self::checkpoint), it gives space of free pages back only when a background checkpoint
    /// would, and the log's file keeps its length.
    ///
    /// # Errors
    /// As for [`checkpoint`](Self::checkpoint).
    pub fn fold_log(&self) -> Result<()> {
        self.inner().checkpoint(false)
    }
}

impl HeapInner {
    /// With a log, makes a checkpoint. If `all`, gives back as much free space as possible, and cuts the log
    /// down. Otherwise gives space back as a background checkpoint would.
    fn checkpoint(&self, all: bool) -> Result<()> {
        self.check_open()?;
        if let Some(wal) = self.wal() {
            let watch = self.watch_free_pages(wal, all);
            if all && bug(Bug::HolesEarly) {
                self.give_back(wal, watch);
            }
            let folded = wal.checkpoint(|| {
                self.drop_copies(wal);
                self.give_back(wal, watch);
            });
            self.note_failure(folded.and_then(|()| if all { wal.cut_down() } else { Ok(()) }))?;
        }
        // While another thread closes a heap whose log is misplaced, the checkpoint above may work. But until
        // the heap is closed, no opening would find the latest commits, so this call fails.
        self.check_log()?;
        self.check_named()
    }

    /// Waits until the disk has all records, with any sync policy.
    pub(crate) fn sync_log(&self) -> Result<()> {
        self.wal().map_or(Ok(()), |wal| self.note_failure(wal.sync()))
    }

    /// With a log, starts the thread that makes checkpoints. If it cannot start, transactions make them.
    pub(super) fn make_checkpoints(self: &Arc<Self>) {
        let Some(wal) = self.wal() else { return };
        if self.is_simulated() {
            return;
        }
        let wal_of_thread = wal.clone();
        let work = move |heap: &HeapInner| {
            let wal = wal_of_thread;
            /// A guard whose drop runs at the end of the checkpoint thread, also after a panic: otherwise
            /// other threads would wait for this thread for ever. After a panic the heap fails, because no
            /// thread can complete a half-done checkpoint.
            struct CheckpointEnd<'a>(&'a Wal, &'a HeapInner, bool);
            impl Drop for CheckpointEnd<'_> {
                fn drop(&mut self) {
                    if !self.2 {
                        self.1.set_panicked();
                    }
                    self.0.set_background(false);
                }
            }
            let mut ended = CheckpointEnd(&wal, heap, false);
            while wal.wait_for_request() {
                // `work` calls `watch` only if it makes a checkpoint: a new note of the free pages ends the
                // use of the last one by another thread that gives back space.
                let watch = || heap.watch_free_pages(&wal, false);
                wal.work(watch, |watch| {
                    heap.drop_copies(&wal);
                    heap.give_back(&wal, watch);
                });
            }
            ended.2 = true;
            drop(ended);
            if wal.failure().is_some() {
                heap.set_failed();
            }
        };
        wal.set_background(true);
        if !self.start(BackgroundTask::Checkpoints, "pheap checkpoints", work) {
            // Without the thread, transactions make the checkpoints. They hold a handle of the heap, so the
            // reference that `upgrade` returns below is never the last one.
            wal.set_background(false);
            let heap = Arc::downgrade(self);
            let evict = move |wal: &Wal| heap.upgrade().iter().for_each(|heap| heap.drop_copies(wal));
            let _ = self.evict.set(Box::new(evict));
        }
    }

    /// Ends the checkpoint thread, and waits for it. The caller has no region locked, because the thread may
    /// wait for the lock.
    pub(super) fn stop_checkpoints(&self) {
        if let (Some(thread), Some(wal)) = (self.workers.take_thread(BackgroundTask::Checkpoints), self.wal())
        {
            wal.stop_background();
            let _ = thread.join();
        }
    }
}

#[cfg(all(test, not(pheap_loom)))]
mod tests {
    use crate::{Durability, Options, P, Result, Root};

    #[test]
    fn a_folded_log_is_as_long_as_it_was() -> Result<()> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("heap");
        let heap = Options::new().durability(Durability::Wal).log_limit(64 << 20).open(&path)?;
        let root: Root<Option<P<'static, [u64]>>> = heap.root("array")?;
        heap.inner().stop_checkpoints(); // the background thread makes no checkpoint during the test
        root.txn(|tx, p| {
            tx[p] = Some(tx.alloc_slice(1 << 20, |i| i as u64)?);
            Ok(())
        })?;
        let log = || path.with_extension("wal").metadata().unwrap().len();
        let (grown, before) = (log(), heap.stats());
        assert!(grown > 8 << 20);
        heap.fold_log()?;
        let after = heap.stats();
        assert_eq!(after.checkpoints, before.checkpoints + 1);
        assert!(after.checkpoint_bytes >= before.checkpoint_bytes + (8 << 20));
        assert_eq!(log(), grown);
        // Nothing is left to fold, and this call cuts the log down.
        heap.checkpoint()?;
        assert!(log() < grown);
        heap.close()
    }
}
