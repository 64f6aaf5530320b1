//! Gives the space of free pages back to the disk while a heap is open: the heap's file gets holes. This is
//! done for heaps with a write-ahead log only.
//!
//! A hole reads as zeros, so no state that a crash may leave may need the old content of its pages. Therefore
//! only pages that are free *before* a checkpoint begins, and stay free until it is complete, become holes.
//! Then the record that freed them is in the file, and no recovery begins before that record. Later
//! transactions that take the pages have their records behind it.

use std::thread;

use super::HeapInner;
use super::memory::PATIENCE;
use crate::wal::Wal;

/// A checkpoint other than `Heap::checkpoint` gives space back only if free pages that have space in the file
/// are at least a fraction of 1/`PART` of the heap.
const PART: u64 = 4;

impl HeapInner {
    /// Notes which pages are free before a checkpoint, and returns the number of this note, for
    /// [`give_back`](Self::give_back). Returns `None` if the log has not begun, or if the tables stay locked.
    /// Unless the program has `asked` for all space that can be given back, it also returns `None` if there
    /// is too little of it.
    pub(super) fn watch_free_pages(&self, wal: &Wal, asked: bool) -> Option<u64> {
        // As long as the log has not begun, the heap counts as closed, and its free pages may have the
        // bitmaps of live slots.
        if !wal.has_begun() {
            return None;
        }
        // The thread that has the tables locked may wait for room in the log, hence for a checkpoint. So this
        // wait for the tables has a limit.
        let mut tables = self.tables_within(PATIENCE)?;
        if !asked {
            let free = tables.pages.total().saturating_sub(tables.pages.holes.bytes());
            if free < self.tuning.free_kept || free < tables.header.mapped / PART {
                return None;
            }
        }
        // Pages of the newest arena that were never used keep their space in the file, because new spans are
        // going to take them.
        let end = tables.arenas.last().map_or(0, |newest| newest.used);
        Some(tables.pages.watch(self.tuning.hole, end))
    }

    /// Makes holes of runs of pages that have been free since `watch_free_pages` returned `watch`. Ends early
    /// if another checkpoint is due, if the tables stay locked, or if a hole cannot be made. Runs at the end
    /// of the checkpoint that began after the call of `watch_free_pages`.
    pub(super) fn give_back(&self, wal: &Wal, watch: Option<u64>) {
        let Some(watch) = watch else { return };
        // Makes a hole of one part of a run at a time, so that threads that need pages wait no longer than
        // for one part.
        while let Some(mut tables) = self.tables_within(PATIENCE) {
            if self.check_open().is_err() {
                return; // another thread has closed and unmapped the heap
            }
            let Some((offset, len)) = tables.pages.next_quiet(watch, self.tuning.hole) else { return };
            // The hole is noted before `punch` is called, because a failed call may have made a part of it.
            tables.pages.holes.add(offset, len);
            if wal.data().punch(offset, len).is_err() {
                return; // most likely the file system makes no holes
            }
            // Drops the private copies of the pages' old content.
            self.drop_range(wal, offset, len, |_| true);
            drop(tables);
            if wal.is_room_wanted() {
                return; // the next checkpoint makes room, and may give back the pages that are free then
            }
            // The lock of the tables is not fair: without a pause, a waiting thread might never get it.
            thread::sleep(PATIENCE / 100);
        }
    }
}

#[cfg(all(test, not(pheap_loom)))]
mod tests {
    use super::HeapInner;
    use crate::os::file_system::is_tmpfs;
    use crate::{Durability, Heap, Options, P, PVec, Result, Root, SyncPolicy};

    type List = Root<PVec<'static, P<'static, [u64]>>>;

    /// Returns a heap with two roots, of which the first has 64 MiB.
    fn heap(folder: &tempfile::TempDir, options: &Options) -> Result<(Heap, [List; 2])> {
        let options = options.clone().durability(Durability::Wal).sync_policy(SyncPolicy::OnDemand);
        let heap = options.open(folder.path().join("heap"))?;
        let roots: [List; 2] = [heap.root("a")?, heap.root("b")?];
        for _ in 0..32 {
            fill(&roots[0], 1 << 18)?;
        }
        Ok((heap, roots))
    }

    fn fill(list: &List, words: usize) -> Result<()> {
        list.txn(|tx, list| {
            let block = tx.alloc_slice(words, |i| i as u64)?;
            list.push(tx, block)
        })
    }

    fn holes(heap: &HeapInner) -> u64 {
        heap.tables.lock().pages.holes.bytes()
    }

    /// Giving back all free space of a large heap takes seconds. During that time no other checkpoint can
    /// make room in the log or in memory, so `give_back` ends when a thread wants room.
    #[test]
    fn nobody_waits_for_room_until_all_is_given_back() -> Result<()> {
        let small_log = Options::new().log_limit(16 << 20);
        let small_memory = Options::new().memory_limit(32 << 20).log_limit(1 << 30);
        for options in [small_log, small_memory] {
            let folder = tempfile::tempdir().unwrap();
            let (heap, [a, b]) = heap(&folder, &options)?;
            let inner = heap.inner();
            // background checkpoints would wait for the checkpoint below, or give space back before it
            inner.stop_checkpoints();
            drop(a);
            heap.remove_root("a")?;
            let wal = inner.wal().unwrap();
            let watch = inner.watch_free_pages(wal, true);
            wal.checkpoint(|| {
                // A thread that appends much more than this loop would wait for the end of the checkpoint in
                // which the loop runs.
                for _ in 0..160 {
                    if wal.is_room_wanted() {
                        break;
                    }
                    fill(&b, 1 << 14).unwrap();
                }
                inner.give_back(wal, watch);
            })?;
            let holes = holes(inner);
            assert!(holes < 4 * inner.tuning.hole, "{holes} bytes");
            heap.close()?;
        }
        Ok(())
    }

    /// The background thread may do other work, such as making the log longer, while another thread gives
    /// space back. That must not keep the other thread from giving back all space.
    #[test]
    fn who_makes_no_checkpoint_keeps_nobody_from_giving_back() -> Result<()> {
        let folder = tempfile::tempdir().unwrap();
        let (heap, [a, _]) = heap(&folder, &Options::new().memory_limit(1 << 30).log_limit(1 << 30))?;
        let inner = heap.inner();
        inner.stop_checkpoints(); // this thread does the background thread's round of work instead
        drop(a);
        heap.remove_root("a")?;
        let wal = inner.wal().unwrap();
        let watch = inner.watch_free_pages(wal, true);
        wal.checkpoint(|| {
            wal.work(|| inner.watch_free_pages(wal, true), |_| panic!("nothing calls for a checkpoint"));
            inner.give_back(wal, watch);
        })?;
        if !is_tmpfs(wal.data().file().unwrap()) {
            assert!(holes(inner) > 32 << 20);
        }
        heap.close()
    }
}
