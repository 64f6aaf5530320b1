//! `Heap::collect`: collections of the whole heap, by a call or in the background after an opening.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::close::BackgroundTask;
use super::options::Options;
use super::{Heap, HeapInner};
use crate::error::Result;
use crate::gc::{CollectionStage, Pace};
use crate::os::{cores, fork};
use crate::region::{Region, guard};

/// Bytes of a region's spans below which one thread alone marks the region.
const WORTH_THREADS: u64 = 8 << 20;
/// The time that background marking waits before it begins. The kernel may put a new thread on its parent's
/// processor, even if others are idle; the opening thread would then wait longer than the opening has taken.
const HEAD_START: Duration = Duration::from_millis(1);

/// The state of a heap's collections.
#[derive(Default)]
pub(crate) struct Collections {
    pub(super) pace: Arc<Pace>,
    /// The number of marking threads that the program asks for; 0 for one a processor, but at most 8. See
    /// [`Options::collect_threads`](crate::Options::collect_threads).
    threads: usize,
    /// Set when the heap is closed or dropped: tells all threads that mark to end.
    stop: AtomicBool,
}

impl Collections {
    pub(super) fn new(options: &Options) -> Collections {
        let pace = Arc::new(Pace::new(options.collect_growth.into(), options.collect_least));
        Collections { pace, threads: options.collect_threads, ..Collections::default() }
    }
}

impl Heap {
    /// Waits for the marking after opening to finish. After that, memory that a crash has leaked can be
    /// reused.
    ///
    /// A heap can be used as soon as it is open. If its file does not say which objects are alive (because it
    /// was not closed before, for example), its objects are marked in the background; this call waits for the
    /// marking, and helps. A read-only heap is not marked.
    ///
    /// # Errors
    /// [`Error::Nested`](crate::Error::Nested) if this thread is inside a transaction or read of the heap,
    /// [`Error::SeveralHeaps`](crate::Error::SeveralHeaps) if it is inside another heap,
    /// [`Error::Unsupported`](crate::Error::Unsupported) if it is inside too many heaps;
    /// [`Error::Failed`](crate::Error::Failed), [`Error::Misplaced`](crate::Error::Misplaced),
    /// [`Error::Closed`](crate::Error::Closed), [`Error::Forked`](crate::Error::Forked).
    pub fn wait_ready(&self) -> Result<()> {
        let heap = self.inner();
        for region in heap.regions_to_collect()? {
            if region.is_opening(heap) {
                heap.drive(&region);
            }
        }
        heap.check_open()
    }

    /// Collects all roots: objects that were unreachable at the call are free when it returns. Transactions
    /// and reads go on during it.
    ///
    /// Programs need not call this: a root is collected automatically when it has allocated about as much as
    /// is live (see [`Options::collect_growth`](crate::Options::collect_growth)).
    ///
    /// # Errors
    /// [`Error::Nested`](crate::Error::Nested) if this thread is inside a transaction or read of the heap,
    /// [`Error::SeveralHeaps`](crate::Error::SeveralHeaps) if it is inside another heap,
    /// [`Error::Unsupported`](crate::Error::Unsupported) if it is inside too many heaps;
    /// [`Error::ReadOnly`](crate::Error::ReadOnly), [`Error::Failed`](crate::Error::Failed),
    /// [`Error::Misplaced`](crate::Error::Misplaced), [`Error::Closed`](crate::Error::Closed),
    /// [`Error::Forked`](crate::Error::Forked); the error of making the log, if the log is still to be made
    /// (see [`Durability::Wal`](crate::Durability::Wal)).
    pub fn collect(&self) -> Result<()> {
        let heap = self.inner();
        heap.check_writable()?;
        for region in heap.regions_to_collect()? {
            heap.collect(&region);
        }
        heap.check_open()
    }
}

impl HeapInner {
    /// Returns all regions. Fails if the heap is not open, or if this thread cannot wait for regions.
    fn regions_to_collect(&self) -> Result<Vec<Arc<Region>>> {
        self.check_open()?;
        guard::may_wait(self.id())?;
        Ok(self.regions())
    }

    /// Collects one region. This thread is not inside a transaction or read of the heap.
    pub(crate) fn collect(&self, region: &Region) {
        // A collection cycle that was already running misses objects that became garbage since it began, so
        // it is completed and another one follows.
        while let Some(false) = region.begin_cycle(self) {
            self.drive(region);
        }
        self.drive(region);
    }

    /// Completes the running collection cycle of the region, unless the heap is being closed. Several threads
    /// mark if the region is large.
    fn drive(&self, region: &Region) {
        let mark = || {
            while region.mark_beside_readers(self) == CollectionStage::Working && !self.collections.stops() {}
        };
        let threads = if region.span_bytes(self) < WORTH_THREADS {
            1
        } else {
            marking_threads(self.collections.threads)
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                // If a thread cannot be started, the calling thread does its work.
                let _ = std::thread::Builder::new().spawn_scoped(scope, mark);
            }
            mark();
        });
        while region.collect_alone(self) && !self.collections.stops() {}
    }

    /// Marks live objects of a heap that was just opened, in a background thread.
    pub(super) fn mark_in_background(self: &Arc<Self>) {
        let work = |heap: &HeapInner| {
            std::thread::park_timeout(HEAD_START); // a thread that closes the heap ends this wait
            for region in heap.regions() {
                while !heap.collections.stops()
                    && region.mark_beside_readers(heap) == CollectionStage::Working
                {}
                while !heap.collections.stops() && region.collect_alone(heap) {}
            }
        };
        // If the thread cannot be started, transactions do its work in slices.
        self.start(BackgroundTask::Marking, "pheap marking", work);
    }

    /// Tells all threads that mark to end, and waits for the background thread. The caller has no region
    /// locked, because that thread may wait for the lock.
    pub(super) fn stop_background(&self) {
        self.collections.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.workers.take_thread(BackgroundTask::Marking) {
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

/// Returns the number of threads that mark while a caller waits, for the option `threads`.
fn marking_threads(threads: usize) -> usize {
    match threads {
        0 => cores().min(8),
        _ if !fork::may_start_threads() => 1,
        _ => threads,
    }
}
