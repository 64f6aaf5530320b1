//! A cycle of marking: the open work, and how threads share it.
//!
//! Work is divided into bundles. A thread takes a bundle and works on it alone until the bundle is finished
//! or the slice ends. At the end of a slice it returns the rest to the queue. Now and then it looks for
//! threads that wait for work, and hands over up to half of its own.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, hint, mem, thread};

use crossbeam_deque::{Injector, Steal};

use crate::local::Local;
use crate::{Budget, Heap};

/// Default limit of the mark stack, in entries.
const LIMIT: usize = 1 << 22;

/// The result of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All reachable objects are marked.
    Done,
    /// There may be open work.
    More,
}

/// The state of a cycle of marking. Between slices, a `Marking` holds all of it.
///
/// A slice is either one [`run`](Self::run), or several [`run_shared`](Self::run_shared) at once. Marking is
/// complete if a slice has returned [`Progress::Done`] and no pointer was pushed since. Then the next cycle
/// may begin.
///
/// The mark stack has a limit. If it overflows, marking drops the entry, and in the end searches the heap for
/// marked objects that point to unmarked ones. [Pushed](Self::push) pointers are never dropped.
pub struct Marking<O> {
    /// Bundles that no thread works on.
    queue: Injector<Bundle<O>>,
    /// Pushed pointers. In `bundles` they count as one bundle, unless there are none.
    pushed: Mutex<Vec<u64>>,
    /// Whether the mark stack has overflowed since the last search of the heap began.
    overflowed: AtomicBool,
    /// Number of open bundles: in `queue`, in `pushed`, and held by threads. A pending search counts as one.
    pub(crate) bundles: AtomicUsize,
    /// Limit of the mark stack: entries of all bundles together.
    limit: usize,
    /// Number of reserved entries of the mark stack: those that threads have reserved, and those of queued
    /// bundles. The entries of `pushed` do not count.
    reserved: AtomicUsize,
    shared: Shared,
}

/// Fields that all threads read often and change seldom, on cache lines that hold no other field.
#[repr(align(128))]
struct Shared {
    /// Number of threads that wait for work.
    hungry: AtomicUsize,
}

/// A bundle of work: pointers to follow, and objects to trace.
pub(crate) struct Bundle<O> {
    pub(crate) pointers: Vec<u64>,
    pub(crate) objects: Vec<O>,
}

/// Work that a thread takes from the marking.
pub(crate) enum Work<O> {
    Bundle(Bundle<O>),
    /// The search of the heap for marked objects that point to unmarked ones.
    Search,
}

impl<O: Copy> Marking<O> {
    /// Returns a marking without work, with the default limit of 2^22 entries.
    pub fn new() -> Marking<O> {
        Marking::with_limit(LIMIT)
    }

    /// Returns a marking without work that limits the mark stacks of all threads together to `entries`. A
    /// pointer takes 8 bytes, an object to trace the size of a [`Heap::Object`].
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

    /// Adds a pointer to follow: a root, or a pointer that the program is about to overwrite.
    pub fn push(&self, pointer: u64) {
        let mut pushed = self.pushed();
        if pushed.is_empty() {
            self.bundles.fetch_add(1, Ordering::Relaxed);
        }
        pushed.push(pointer);
    }

    /// Adds a pointer as [`push`](Self::push) does, without locking.
    #[inline]
    pub fn push_mut(&mut self, pointer: u64) {
        let pushed = self.pushed.get_mut().unwrap_or_else(PoisonError::into_inner);
        if pushed.is_empty() {
            *self.bundles.get_mut() += 1;
        }
        pushed.push(pointer);
    }

    /// Returns whether no work is left, neither queued nor held by a thread. A later [`push`](Self::push)
    /// adds work again.
    pub fn is_done(&self) -> bool {
        self.bundles.load(Ordering::Acquire) == 0
    }

    /// Runs a slice on one thread.
    ///
    /// After an overflow of the mark stack, the search of the heap is one step, which may exceed the budget.
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

    /// Runs the share of one thread in a slice. Threads may join and leave at any time.
    ///
    /// A thread that finds no work waits for other threads to hand over some, until all work is done or the
    /// deadline has passed. If the budget limits work alone, the thread waits only for a moment.
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

    /// Waits for work. Returns whether `local` has taken some.
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

    /// Takes work that no thread holds. The work counts in `bundles` until [`finish`](Self::finish).
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
        // A search is sound at any time. But as long as other bundles are open, they may overflow, too, and
        // need another search. So the search comes last.
        let is_last = self.bundles.load(Ordering::Relaxed) == 1;
        // Acquires what `overflow` has released: the search must see the mark bits that threads had set
        // before they dropped entries of the mark stack.
        (is_last && self.overflowed.swap(false, Ordering::AcqRel)).then_some(Work::Search)
    }

    /// Queues a bundle that `bundles` counts already.
    pub(crate) fn put(&self, bundle: Bundle<O>) {
        self.queue.push(bundle);
    }

    /// Removes a finished bundle from `bundles`.
    pub(crate) fn finish(&self) {
        self.bundles.fetch_sub(1, Ordering::Release);
    }

    /// Requests a search of the heap. The calling thread must hold a bundle.
    pub(crate) fn overflow(&self) {
        if !self.overflowed.swap(true, Ordering::AcqRel) {
            self.bundles.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns whether a thread waits for work and the queue is empty.
    #[inline(always)]
    pub(crate) fn is_hungry(&self) -> bool {
        self.shared.hungry.load(Ordering::Relaxed) != 0 && self.queue.is_empty()
    }

    /// Reserves up to `entries` entries of the mark stack for a thread. Returns the number granted, which the
    /// limit may reduce.
    pub(crate) fn reserve(&self, entries: usize) -> usize {
        let before = self.reserved.fetch_add(entries, Ordering::Relaxed);
        let granted = entries.min(self.limit.saturating_sub(before));
        self.unreserve(entries - granted);
        granted
    }

    /// Reserves entries of the mark stack that exist already, even beyond the limit.
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

/// Marks all objects that can be reached from `roots`, on `threads` threads.
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
        // If a thread cannot be spawned, the calling thread does its work.
        (1..threads).for_each(|_| drop(thread::Builder::new().spawn_scoped(scope, work)));
        work();
    });
}
