//! Threads that run when a [`Scheduler`] lets them, and the times at which other threads see their stores.
//! The crash lab uses this to try all orders.
//!
//! A scheduled thread asks whether it is its turn at each lock, condition variable and atomic, and wherever
//! else the code calls [`step`](step()). A thread that has to wait gives the scheduler the address of the
//! lock or condition variable. So one thread runs at a time, and the scheduler knows when no thread can run.
//! Threads that are not scheduled use the types of std.
//!
//! Plain stores of a thread to an `AtomicU64`, and write-backs of the lines that it has flushed, are *late*:
//! they happen in order, and other threads see them only after this thread has passed a fence (a locked
//! instruction is one), or after the scheduler [makes it pass one](pass_fence). Processors of the x86 family
//! do the same, except that a store may become visible at any time; here it becomes visible where the
//! scheduler switches. A lock of std makes stores visible, but does not complete write-backs: no code should
//! rely on it for that.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{self, Ordering};

use super::Mistake;

/// The types of which the locks are made.
pub(super) mod below {
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
}

/// Number of threads that can be scheduled.
pub const THREADS: usize = 2;

/// Decides which scheduled thread continues.
pub trait Scheduler: Send + Sync + fmt::Debug {
    /// Thread number `me` is about to do `what`. Returns when it is its turn.
    fn step(&self, me: usize, what: &'static str);

    /// Thread number `me` waits until it is [woken](Self::wake) for the lock or condition variable at
    /// `address`. If its time is `limited`, the scheduler may let it continue without a wake when no thread
    /// can continue. Returns whether it was woken.
    fn wait(&self, me: usize, address: usize, limited: bool) -> bool;

    /// Lets the threads continue that wait for `address`.
    fn wake(&self, address: usize);
}

type ScheduledThread = (Arc<dyn Scheduler>, usize);

thread_local! {
    pub(crate) static ME: RefCell<Option<ScheduledThread>> = const { RefCell::new(None) };
    static MISTAKE: Cell<Option<Mistake>> = const { Cell::new(None) };
}

/// Seeds a mistake in this thread, or none.
pub fn set_mistake(mistake: Option<Mistake>) {
    MISTAKE.set(mistake);
}

/// Whether this mistake was seeded in this thread.
#[inline]
pub(super) fn is_seeded(mistake: Mistake) -> bool {
    MISTAKE.get() == Some(mistake)
}

/// A counter for each scheduled thread.
type ThreadCounts = [atomic::AtomicU64; THREADS];

/// For each thread, `STORED` counts its stores and flushes, and `LAST` is the count at its last store. Other
/// threads see its stores up to the count `SEEN`; its lines are written back up to the count `WRITTEN`.
static STORED: ThreadCounts = [const { atomic::AtomicU64::new(0) }; THREADS];
static LAST: ThreadCounts = [const { atomic::AtomicU64::new(0) }; THREADS];
static SEEN: ThreadCounts = [const { atomic::AtomicU64::new(0) }; THREADS];
static WRITTEN: ThreadCounts = [const { atomic::AtomicU64::new(0) }; THREADS];

/// Schedules this thread from now on, with the given scheduler and number; `None` ends that. A process has
/// one scheduler at a time.
pub fn schedule(scheduler: Option<ScheduledThread>) {
    if let Some(me) = me() {
        pass_fence(me);
    }
    ME.set(scheduler);
}

/// The number of this thread, if it is scheduled.
#[inline]
pub(crate) fn me() -> Option<usize> {
    ME.with_borrow(|me| me.as_ref().map(|(_, number)| *number))
}

/// The moment of a store or flush: the number of its thread, and that thread's count `STORED` then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoreMoment(usize, u64);

impl StoreMoment {
    /// Returns the present moment of thread `me`, which is this thread, and counts a store or flush.
    pub(crate) fn new(me: usize) -> StoreMoment {
        StoreMoment(me, STORED[me].fetch_add(1, Relaxed) + 1)
    }

    /// Whether the line that was flushed at this moment is written back.
    pub(crate) fn is_over(self) -> bool {
        self.1 <= WRITTEN[self.0].load(Relaxed)
    }

    /// Whether other threads see the store of this moment.
    fn is_seen(self) -> bool {
        self.1 <= SEEN[self.0].load(Relaxed)
    }

    pub(crate) fn is_of(self, thread: usize) -> bool {
        self.0 == thread
    }
}

/// Makes all stores of `thread` visible to other threads, and completes the write-back of the lines that it
/// has flushed.
pub fn pass_fence(thread: usize) {
    pass_lock(thread);
    WRITTEN[thread].store(STORED[thread].load(Relaxed), Relaxed);
}

/// Makes all stores of `thread` visible to other threads.
fn pass_lock(thread: usize) {
    SEEN[thread].store(STORED[thread].load(Relaxed), Relaxed);
}

/// Returns whether any store or flush of `thread` is late, and whether a store is.
pub fn is_late(thread: usize) -> (bool, bool) {
    let before = |numbers: &ThreadCounts| numbers[thread].load(Relaxed);
    let store = before(&SEEN) < before(&LAST);
    (store || before(&WRITTEN) < before(&STORED), store)
}

/// Makes all scheduled threads pass a fence, if this is one of them. Returns whether it is.
pub(super) fn pass_fences() -> bool {
    let scheduled = is_scheduled();
    if scheduled {
        (0..THREADS).for_each(pass_fence);
    }
    scheduled
}

/// Whether a scheduler decides when this thread continues.
#[inline]
pub(crate) fn is_scheduled() -> bool {
    ME.with_borrow(Option::is_some)
}

/// Calls the scheduler of this thread, if it has one.
#[inline]
fn call<R>(f: impl FnOnce(&dyn Scheduler, usize) -> R) -> Option<R> {
    // The scheduler is cloned, so that `ME` is not borrowed during the call.
    let (scheduler, me) = ME.with_borrow(Clone::clone)?;
    Some(f(&*scheduler, me))
}

/// Tells the scheduler of this thread, if it has one, that this thread is about to do `what`: an access to
/// something that threads share.
#[inline]
pub fn step(what: &'static str) {
    if is_scheduled() {
        call(|scheduler, me| scheduler.step(me, what));
    }
}

/// Tells the scheduler of this thread, if it has one, that this thread is about to try to take a lock, and
/// makes its stores visible.
#[inline]
pub(super) fn lock_step() {
    step("lock");
    if let Some(me) = me() {
        pass_lock(me);
    }
}

/// Takes a lock by `wait`; in a scheduled thread by `attempt`, again and again, and waits in between.
#[inline]
pub(super) fn acquire_scheduled<T, G>(
    lock: &T,
    attempt: impl Fn() -> Option<G>,
    wait: impl FnOnce() -> G,
) -> G {
    if !is_scheduled() {
        return wait();
    }
    lock_step();
    loop {
        match attempt() {
            Some(guard) => return guard,
            None => drop(wait_for(lock, false)),
        }
    }
}

/// Waits until another thread [wakes](wake) the threads that wait for `what`. `limited` says that this thread
/// may continue without a wake when no thread can continue. Returns whether it was woken.
pub(super) fn wait_for<T>(what: &T, limited: bool) -> bool {
    call(|scheduler, me| {
        pass_lock(me);
        scheduler.wait(me, (&raw const *what).addr(), limited)
    })
    .expect("it is scheduled")
}

/// Lets the threads continue that wait for `what`, if this thread is scheduled.
#[inline]
pub(super) fn wake<T>(what: &T) {
    if is_scheduled() {
        call(|scheduler, me| {
            pass_lock(me);
            scheduler.wake((&raw const *what).addr());
        });
    }
}

/// The `AtomicU64` of std, except that plain stores of scheduled threads are [late](self).
#[derive(Debug, Default)]
pub(crate) struct AtomicU64 {
    seen: atomic::AtomicU64,
    /// The newest plain store, if it may be late: its value; the number of its thread, plus 1 (0 if no store
    /// is late); and the count `STORED` of that thread then.
    late: atomic::AtomicU64,
    thread: atomic::AtomicU64,
    stored: atomic::AtomicU64,
}

impl AtomicU64 {
    pub(crate) const fn new(value: u64) -> AtomicU64 {
        AtomicU64 {
            seen: atomic::AtomicU64::new(value),
            late: atomic::AtomicU64::new(0),
            thread: atomic::AtomicU64::new(0),
            stored: atomic::AtomicU64::new(0),
        }
    }

    #[cold]
    fn late(&self, thread: u64) -> StoreMoment {
        StoreMoment(thread as usize - 1, self.stored.load(Relaxed))
    }

    /// Moves the late store to `seen` if other threads see it by now.
    #[inline]
    fn settle(&self) {
        let thread = self.thread.load(Relaxed);
        if thread != 0 && self.late(thread).is_seen() {
            self.seen.store(self.late.load(Relaxed), Relaxed);
            self.thread.store(0, Relaxed);
        }
    }

    /// Returns the atomic that a locked instruction of this thread changes. In a scheduled thread, a step and
    /// a fence come first.
    #[inline]
    fn locked(&self) -> &atomic::AtomicU64 {
        if is_scheduled() {
            call(|scheduler, me| {
                scheduler.step(me, "locked instruction");
                pass_fence(me);
            });
        }
        self.settle();
        // This model cannot represent late stores of two threads to one place.
        debug_assert_eq!(self.thread.load(Relaxed), 0, "another thread stores there plainly");
        &self.seen
    }

    #[inline]
    pub(crate) fn load(&self, order: Ordering) -> u64 {
        step("load");
        self.settle();
        let thread = self.thread.load(Relaxed);
        if thread != 0 && me().is_some_and(|me| self.late(thread).is_of(me)) {
            return self.late.load(Relaxed);
        }
        self.seen.load(order)
    }

    #[inline]
    pub(crate) fn store(&self, value: u64, order: Ordering) {
        let plain = me().filter(|_| order != Ordering::SeqCst);
        let Some(me) = plain else { return self.locked().store(value, order) };
        step("store");
        self.settle();
        let StoreMoment(_, stored) = StoreMoment::new(me);
        LAST[me].store(stored, Relaxed);
        self.late.store(value, Relaxed);
        self.thread.store(me as u64 + 1, Relaxed);
        self.stored.store(stored, Relaxed);
    }

    #[inline]
    pub(crate) fn compare_exchange(
        &self,
        old: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.locked().compare_exchange(old, new, success, failure)
    }

    #[inline]
    pub(crate) fn compare_exchange_weak(
        &self,
        old: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64> {
        self.compare_exchange(old, new, success, failure)
    }
}

/// The methods that change a number by one operand.
macro_rules! locked {
    ($($name:ident)*) => {
        impl AtomicU64 {$(
            #[inline]
            pub(crate) fn $name(&self, value: u64, order: Ordering) -> u64 {
                self.locked().$name(value, order)
            }
        )*}
    };
}
locked!(fetch_or fetch_and fetch_add fetch_sub fetch_max);

/// The `AtomicBool` of std. Its stores are never late.
#[derive(Debug, Default)]
pub(crate) struct AtomicBool(atomic::AtomicBool);

impl AtomicBool {
    pub(crate) const fn new(value: bool) -> AtomicBool {
        AtomicBool(atomic::AtomicBool::new(value))
    }

    #[inline]
    pub(crate) fn load(&self, order: Ordering) -> bool {
        step("load");
        self.0.load(order)
    }

    #[inline]
    pub(crate) fn store(&self, value: bool, order: Ordering) {
        step("store");
        self.0.store(value, order);
    }
}
