//! A cycle of marking: the work that is left, and how threads share it.
//!
//! Work lies in bundles. A thread takes one, and has it for itself, until it is done or the slice ends: then the rest goes back. It
//! looks now and then whether others have nothing to do, and hands over half of what it has.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, hint, mem, thread};

use crossbeam_deque::{Injector, Steal};

use crate::local::Local;
use crate::{Budget, Heap};

/// Entries of the mark stack, unless the limit is set.
const LIMIT: usize = 1 << 22;

/// What a slice has achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All is marked.
    Done,
    /// There may be more to do.
    More,
}

/// The state of marking. Between slices nothing of it is elsewhere.
///
/// A slice is either [`run`](Self::run), alone, or one of several [`run_shared`](Self::run_shared). All is marked when a slice says
/// [`Progress::Done`] and nothing was pushed since. Then the next cycle may begin.
///
/// The mark stack may overflow: no more entries are added, and in the end the heap is searched for marked objects that point to others
/// that are not. What was [pushed](Self::push) is never dropped.
pub struct Marking<O> {
    /// Bundles that nobody works on.
    queue: Injector<Bundle<O>>,
    /// One more bundle, if it is not empty.
    pushed: Mutex<Vec<u64>>,
    /// Whether the mark stack has overflowed, so the heap is to be searched.
    overflowed: AtomicBool,
    /// How many bundles there are: in the queue, pushed, and at work. The search of the heap counts as one.
    pub(crate) bundles: AtomicUsize,
    /// Entries that bundles may have, together.
    limit: usize,
    /// Entries that they have reserved.
    reserved: AtomicUsize,
    shared: Shared,
}

/// Looked at by all threads all the time, and seldom changed: on lines of its own.
#[repr(align(128))]
struct Shared {
    /// Threads that wait for work.
    hungry: AtomicUsize,
}

/// Some work: pointers to follow, and objects to trace.
pub(crate) struct Bundle<O> {
    pub(crate) pointers: Vec<u64>,
    pub(crate) objects: Vec<O>,
}

/// What a thread finds to do.
pub(crate) enum Work<O> {
    Bundle(Bundle<O>),
    /// To search the heap.
    Search,
}

impl<O: Copy> Marking<O> {
    /// Nothing to do yet.
    pub fn new() -> Marking<O> {
        Marking::with_limit(LIMIT)
    }

    /// Limits the mark stack, all threads' together: to `entries` of 8 bytes (parts of large objects: that of an [`Heap::Object`]).
    /// Default: 2^22.
    pub fn with_limit(entries: usize) -> Marking<O> {
        Marking {
            queue: Injector::new(),
            pushed: Mutex::default(),
            overflowed: AtomicBool::new(false),
            bundles: AtomicUsize::new(0),
            limit: entries,
            reserved: AtomicUsize::new(0),
            shared: Shared { hungry: AtomicUsize::new(0) },
        }
    }

    /// Adds a pointer to follow: a root, or one that is about to be overwritten.
    pub fn push(&self, pointer: u64) {
        let mut pushed = self.pushed();
        if pushed.is_empty() {
            self.bundles.fetch_add(1, Ordering::Relaxed);
        }
        pushed.push(pointer);
    }

    /// [`push`](Self::push) without a lock.
    #[inline]
    pub fn push_mut(&mut self, pointer: u64) {
        let pushed = self.pushed.get_mut().unwrap_or_else(PoisonError::into_inner);
        if pushed.is_empty() {
            *self.bundles.get_mut() += 1;
        }
        pushed.push(pointer);
    }

    /// Whether there is no work, and no thread has some. It comes to stay only if nobody pushes.
    pub fn is_done(&self) -> bool {
        self.bundles.load(Ordering::Acquire) == 0
    }

    /// A slice by one thread.
    ///
    /// After an overflow of the mark stack, a search of the heap is one step: it may take longer than the budget allows.
    pub fn run(&mut self, heap: &impl Heap<Object = O>, budget: &mut Budget) -> Progress {
        let mut local = Local::new(self);
        while local.take() {
            if !local.work::<false, _>(heap, budget) {
                break;
            }
        }
        drop(local);
        let done = self.is_done();
        debug_assert!(!done || *self.reserved.get_mut() == 0, "the mark stack is accounted for");
        if done { Progress::Done } else { Progress::More }
    }

    /// A slice by one of several threads. They come and go as they like.
    ///
    /// A thread that finds no work waits for that of others: until all are done, or the deadline; only for a moment if the budget
    /// limits work alone.
    pub fn run_shared(&self, heap: &(impl Heap<Object = O> + Sync), budget: &mut Budget) -> Progress {
        let mut local = Local::new(self);
        loop {
            if !local.take() && !self.wait(&mut local, budget) {
                break;
            }
            if !local.work::<true, _>(heap, budget) {
                break;
            }
        }
        drop(local);
        if self.is_done() { Progress::Done } else { Progress::More }
    }

    /// Waits for work. Returns whether some was taken.
    #[cold]
    fn wait(&self, local: &mut Local<'_, O>, budget: &mut Budget) -> bool {
        const SPINS: u32 = 64;
        const YIELDS: u32 = 256;
        self.shared.hungry.fetch_add(1, Ordering::Relaxed);
        let mut round = 0_u32;
        let taken = loop {
            if self.is_done() {
                break false;
            }
            if local.take() {
                break true;
            }
            round += 1;
            if round < SPINS {
                hint::spin_loop();
            } else if !budget.may_wait() || budget.is_late() {
                break false;
            } else if round < YIELDS {
                thread::yield_now();
            } else {
                thread::sleep(Duration::from_micros(20));
            }
        };
        self.shared.hungry.fetch_sub(1, Ordering::Relaxed);
        taken
    }

    /// Work that nobody is at. It counts in `bundles` until it is finished.
    pub(crate) fn find_work(&self) -> Option<Work<O>> {
        loop {
            match self.queue.steal() {
                Steal::Success(bundle) => return Some(Work::Bundle(bundle)),
                Steal::Retry => continue,
                Steal::Empty => break,
            }
        }
        let pointers = mem::take(&mut *self.pushed());
        if !pointers.is_empty() {
            self.reserve_exactly(pointers.len());
            return Some(Work::Bundle(Bundle { pointers, objects: Vec::new() }));
        }
        // Sound at any time, but others may still be about to overflow.
        let is_last = self.bundles.load(Ordering::Relaxed) == 1;
        // Acquires the marks of those who have dropped something.
        (is_last && self.overflowed.swap(false, Ordering::AcqRel)).then_some(Work::Search)
    }

    /// Leaves a bundle to others, which counts already.
    pub(crate) fn put(&self, bundle: Bundle<O>) {
        self.queue.push(bundle);
    }

    /// Finishes a bundle.
    pub(crate) fn finish(&self) {
        self.bundles.fetch_sub(1, Ordering::Release);
    }

    /// Has the heap searched in the end. By a thread with a bundle.
    pub(crate) fn overflow(&self) {
        if !self.overflowed.swap(true, Ordering::AcqRel) {
            self.bundles.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether somebody waits for work.
    #[inline(always)]
    pub(crate) fn is_hungry(&self) -> bool {
        self.shared.hungry.load(Ordering::Relaxed) != 0 && self.queue.is_empty()
    }

    /// Reserves up to `entries` for a thread. Returns how many there were.
    pub(crate) fn reserve(&self, entries: usize) -> usize {
        let before = self.reserved.fetch_add(entries, Ordering::Relaxed);
        let granted = entries.min(self.limit.saturating_sub(before));
        self.unreserve(entries - granted);
        granted
    }

    /// Reserves entries that exist anyway.
    pub(crate) fn reserve_exactly(&self, entries: usize) {
        self.reserved.fetch_add(entries, Ordering::Relaxed);
    }

    pub(crate) fn unreserve(&self, entries: usize) {
        self.reserved.fetch_sub(entries, Ordering::Relaxed);
    }

    fn pushed(&self) -> MutexGuard<'_, Vec<u64>> {
        self.pushed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<O: Copy> Default for Marking<O> {
    fn default() -> Marking<O> {
        Marking::new()
    }
}

impl<O> fmt::Debug for Marking<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Marking").field("bundles", &self.bundles).finish_non_exhaustive()
    }
}

/// Marks all that can be reached from `roots`, with so many threads.
pub fn mark_all<H>(heap: &H, roots: impl IntoIterator<Item = u64>, threads: usize)
where
    H: Heap<Object: Send> + Sync,
{
    let mut marking = Marking::new();
    roots.into_iter().for_each(|root| marking.push_mut(root));
    if threads < 2 {
        marking.run(heap, &mut Budget::unlimited());
        return;
    }
    let marking = &marking;
    let work = move || marking.run_shared(heap, &mut Budget::unlimited());
    thread::scope(|scope| {
        // Without a thread, this one does its work.
        (1..threads).for_each(|_| drop(thread::Builder::new().spawn_scoped(scope, work)));
        work();
    });
}
