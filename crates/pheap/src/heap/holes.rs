//! Space that the file gives back while the heap is open: holes where pages are free. With a write-ahead log only.
//!
//! A hole is zeros, so what was there must be of no use in any state that a crash may leave. The pages are free *before* a checkpoint begins, and stay so until it is complete: then the record by which they became
//! free is in the file, and no recovery begins before it. What takes them later is in records behind that.

use std::thread;

use super::HeapInner;
use super::memory::PATIENCE;
use crate::wal::Wal;

/// Of the file, the part that is free, with space, before a checkpoint that nobody has asked for gives any back.
const PART: u64 = 4;

impl HeapInner {
    /// To be called before a checkpoint, for [`give_back`](Self::give_back). `None` if there is too little to give back for one that was not `asked` for.
    pub(super) fn watch_free_pages(&self, wal: &Wal, asked: bool) -> Option<u64> {
        // One that has not begun is closed, for whoever opens the heap next, and its free pages tell what is live.
        if !wal.has_begun() {
            return None;
        }
        // Who has them may wait for room in the log.
        let mut tables = self.tables_within(PATIENCE)?;
        if !asked {
            let free = tables.pages.total().saturating_sub(tables.pages.holes.bytes());
            if free < self.tuning.free_kept || free < tables.header.mapped / PART {
                return None;
            }
        }
        // What was never used is what the heap grows into.
        let end = tables.arenas.last().map_or(0, |newest| newest.used);
        Some(tables.pages.watch(self.tuning.hole, end))
    }

    /// Makes holes of the pages that have been free since they were watched. Runs within the checkpoint that has begun after that, when it is complete.
    pub(super) fn give_back(&self, wal: &Wal, watch: Option<u64>) {
        let Some(watch) = watch else { return };
        // A part of a run at a time: whoever needs pages waits for no more.
        while let Some(mut tables) = self.tables_within(PATIENCE) {
            if self.check_open().is_err() {
                return; // closed meanwhile, and not mapped any more
            }
            let Some((offset, len)) = tables.pages.next_quiet(watch, self.tuning.hole) else { return };
            // Also if it fails, which may be halfway.
            tables.pages.holes.add(offset, len);
            if wal.data().punch(offset, len).is_err() {
                return; // the file system cannot
            }
            // Copies of what was there.
            self.drop_range(wal, offset, len, |_| true);
            drop(tables);
            if wal.is_room_wanted() {
                return; // that takes another checkpoint, which goes on with what is free then
            }
            // Who waits for the lock does not get it by itself.
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

    /// A heap with two roots, of which the first has 64 MiB.
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

    /// To give back all that a large heap has takes seconds, and no other checkpoint makes room meanwhile, in the log or in memory.
    #[test]
    fn nobody_waits_for_room_until_all_is_given_back() -> Result<()> {
        let small_log = Options::new().log_limit(16 << 20);
        let small_memory = Options::new().memory_limit(32 << 20).log_limit(1 << 30);
        for options in [small_log, small_memory] {
            let folder = tempfile::tempdir().unwrap();
            let (heap, [a, b]) = heap(&folder, &options)?;
            let inner = heap.inner();
            inner.stop_checkpoints(); // they would wait for the one below, or give back before it
            drop(a);
            heap.remove_root("a")?;
            let wal = inner.wal().unwrap();
            let watch = inner.watch_free_pages(wal, true);
            wal.checkpoint(|| {
                // Whoever goes on much longer waits for what is done here.
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

    /// The thread in the background may have something else to do, such as to make the log longer, while somebody gives space back.
    #[test]
    fn who_makes_no_checkpoint_keeps_nobody_from_giving_back() -> Result<()> {
        let folder = tempfile::tempdir().unwrap();
        let (heap, [a, _]) = heap(&folder, &Options::new().memory_limit(1 << 30).log_limit(1 << 30))?;
        let inner = heap.inner();
        inner.stop_checkpoints(); // this thread is the one
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
