//! `Heap::collect`: collections of the whole heap, on demand and in the background after it was opened.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::close::Work;
use super::options::Options;
use super::{Heap, HeapInner};
use crate::error::Result;
use crate::gc::{Pace, Stage};
use crate::os::{cores, fork};
use crate::region::{Region, guard};

/// A region with fewer bytes is marked by one thread.
const WORTH_THREADS: u64 = 8 << 20;
/// How long marking in the background leaves whoever has opened the heap alone. A new thread may be given its parent's processor, also if others are idle,
/// and the parent would wait longer than the opening has taken.
const HEAD_START: Duration = Duration::from_millis(1);

/// What is known of a heap's collections.
#[derive(Default)]
pub(crate) struct Collections {
    pub(super) pace: Arc<Pace>,
    /// As many as there are processors, if 0. See [`Options::collect_threads`](crate::Options::collect_threads).
    threads: usize,
    /// Tells the thread in the background to end.
    stop: AtomicBool,
}

impl Collections {
    pub(super) fn new(options: &Options) -> Collections {
        let pace = Arc::new(Pace::new(options.collect_growth.into(), options.collect_least));
        Collections { pace, threads: options.collect_threads, ..Collections::default() }
    }
}

impl Heap {
    /// Waits for the marking after opening to finish. After that, memory that a crash has leaked is reused.
    ///
    /// A heap can be used as soon as it is open. If it was not closed before, its objects are marked in the background; this
    /// waits for that, and helps.
    ///
    /// # Errors
    /// [`Error::Nested`](crate::Error::Nested) if this thread is inside a transaction or read of the heap, [`Error::SeveralHeaps`](crate::Error::SeveralHeaps) if of another
    /// one; [`Error::Closed`](crate::Error::Closed), [`Error::Forked`](crate::Error::Forked).
    pub fn wait_ready(&self) -> Result<()> {
        let heap = self.inner();
        for region in heap.regions_to_collect()? {
            if region.is_opening() {
                heap.drive(&region);
            }
        }
        Ok(())
    }

    /// Collects all roots: objects that were unreachable when this was called are free when it returns. Transactions and reads go on meanwhile.
    ///
    /// Programs need not call it: a root is collected automatically when it has allocated about as much as is live (see
    /// [`Options::collect_growth`](crate::Options::collect_growth)).
    ///
    /// # Errors
    /// [`Error::Nested`](crate::Error::Nested) if this thread is inside a transaction or read of the heap, [`Error::SeveralHeaps`](crate::Error::SeveralHeaps) if of another
    /// one; [`Error::ReadOnly`](crate::Error::ReadOnly), [`Error::Closed`](crate::Error::Closed), [`Error::Forked`](crate::Error::Forked).
    pub fn collect(&self) -> Result<()> {
        let heap = self.inner();
        heap.check_writable()?;
        for region in heap.regions_to_collect()? {
            heap.collect(&region);
        }
        Ok(())
    }
}

impl HeapInner {
    /// Fails if this thread cannot wait for regions.
    fn regions_to_collect(&self) -> Result<Vec<Arc<Region>>> {
        self.check_open()?;
        guard::may_wait(self.id())?;
        Ok(self.regions())
    }

    /// Collects one region. This thread is not inside of the heap.
    pub(crate) fn collect(&self, region: &Region) {
        // A cycle that was running has begun before, and knows nothing of what became garbage since.
        while let Some(false) = region.begin_cycle() {
            self.drive(region);
        }
        self.drive(region);
    }

    /// Completes the cycle of a region, with as many threads as it is worth.
    fn drive(&self, region: &Region) {
        let mark =
            || while region.mark_beside_readers(self) == Stage::Working && !self.collections.stops() {};
        let threads =
            if region.span_bytes() < WORTH_THREADS { 1 } else { marking_threads(self.collections.threads) };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                // Without a thread, this one does its work.
                let _ = std::thread::Builder::new().spawn_scoped(scope, mark);
            }
            mark();
        });
        while region.collect_alone() && !self.collections.stops() {}
    }

    /// Marks what is live in a heap that was just opened, in a thread of its own.
    pub(super) fn mark_in_background(self: &Arc<Self>) {
        let work = |heap: &HeapInner| {
            std::thread::park_timeout(HEAD_START); // or until it is to stop
            for region in heap.regions() {
                while !heap.collections.stops() && region.mark_beside_readers(heap) == Stage::Working {}
                while !heap.collections.stops() && region.collect_alone() {}
            }
        };
        // Without a thread, the work is done by those who allocate.
        self.start(Work::Marking, "pheap marking", work);
    }

    /// Ends the thread in the background. No region is locked by this thread.
    pub(super) fn stop_background(&self) {
        self.collections.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.workers.take(Work::Marking) {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl Collections {
    fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// How many threads mark when somebody waits for it, if the option says `threads`.
fn marking_threads(threads: usize) -> usize {
    match threads {
        0 => cores().min(8),
        _ if !fork::may_start_threads() => 1,
        _ => threads,
    }
}
