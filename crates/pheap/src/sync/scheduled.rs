//! Threads of which a [`Scheduler`] decides who goes on, and what others see of them: for a lab that tries all orders.
//!
//! At each lock, condition variable and atomic, and wherever else it says that it makes a [step](step()), a scheduled thread asks whether it is its turn. One that has to wait
//! says for what. So one thread runs at a time, and the scheduler knows when none can. Threads that are not scheduled get what std has.
//!
//! Plain stores to atomics, and lines that are being written back, are *late*: they are in order, and others do not see them before the thread has passed a fence (a locked
//! instruction is one), or the scheduler [says so](pass_fence). That is what processors of the x86 family do, but that a store may become visible at any time: here it does where
//! the scheduler switches. And locks of std make nobody wait for lines: nothing should rely on that.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{self, Ordering};

use super::Mistake;

/// What locks are made of.
pub(super) mod below {
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
}

/// Threads that can be scheduled.
pub const THREADS: usize = 2;

/// Who decides which thread goes on.
pub trait Scheduler: Send + Sync + fmt::Debug {
    /// The thread with this number is about to do `what`. Returns when it is its turn.
    fn step(&self, me: usize, what: &'static str);

    /// It waits until it is [woken](Self::wake): for what is at this address. If it waits for a `limited` time, it may go on when no thread can. Returns whether it was woken.
    fn wait(&self, me: usize, address: usize, limited: bool) -> bool;

    /// Those that wait for what is at this address go on.
    fn wake(&self, address: usize);
}

type Me = (Arc<dyn Scheduler>, usize);

thread_local! {
    pub(crate) static ME: RefCell<Option<Me>> = const { RefCell::new(None) };
    static MISTAKE: Cell<Option<Mistake>> = const { Cell::new(None) };
}

/// Seeds a mistake in this thread, or none.
pub fn set_mistake(mistake: Option<Mistake>) {
    MISTAKE.set(mistake);
}

/// Whether this one was seeded.
#[inline]
pub(super) fn is_seeded(mistake: Mistake) -> bool {
    MISTAKE.get() == Some(mistake)
}

/// A number for each thread.
type Numbers = [atomic::AtomicU64; THREADS];

/// How many stores and flushes there have been, which of them was the last store, up to which all others see stores, and up to which lines are written back.
static STORED: Numbers = [const { atomic::AtomicU64::new(0) }; THREADS];
static LAST: Numbers = [const { atomic::AtomicU64::new(0) }; THREADS];
static SEEN: Numbers = [const { atomic::AtomicU64::new(0) }; THREADS];
static WRITTEN: Numbers = [const { atomic::AtomicU64::new(0) }; THREADS];

/// This thread is scheduled from now on, under this number; or not any more. A process has one scheduler at a time.
pub fn schedule(scheduler: Option<Me>) {
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

/// What a thread has flushed: its number, and how much it had stored and flushed by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Late(usize, u64);

impl Late {
    /// Of this thread, just now.
    pub(crate) fn new(me: usize) -> Late {
        Late(me, STORED[me].fetch_add(1, Relaxed) + 1)
    }

    /// Whether it is written back.
    pub(crate) fn is_over(self) -> bool {
        self.1 <= WRITTEN[self.0].load(Relaxed)
    }

    /// Whether others see it.
    fn is_seen(self) -> bool {
        self.1 <= SEEN[self.0].load(Relaxed)
    }

    pub(crate) fn is_of(self, thread: usize) -> bool {
        self.0 == thread
    }
}

/// All others see what this thread has stored, and what it has flushed is written back.
pub fn pass_fence(thread: usize) {
    pass_lock(thread);
    WRITTEN[thread].store(STORED[thread].load(Relaxed), Relaxed);
}

/// All others see what this thread has stored.
fn pass_lock(thread: usize) {
    SEEN[thread].store(STORED[thread].load(Relaxed), Relaxed);
}

/// Whether there is something late: anything, and a store.
pub fn is_late(thread: usize) -> (bool, bool) {
    let before = |numbers: &Numbers| numbers[thread].load(Relaxed);
    let store = before(&SEEN) < before(&LAST);
    (store || before(&WRITTEN) < before(&STORED), store)
}

/// Lets all scheduled threads pass a fence, if this is one of them.
pub(super) fn pass_fences() -> bool {
    let scheduled = is_scheduled();
    if scheduled {
        (0..THREADS).for_each(pass_fence);
    }
    scheduled
}

/// Whether this thread goes on when a scheduler says so.
#[inline]
pub(crate) fn is_scheduled() -> bool {
    ME.with_borrow(Option::is_some)
}

/// Calls the scheduler of this thread, if it has one.
#[inline]
fn call<R>(f: impl FnOnce(&dyn Scheduler, usize) -> R) -> Option<R> {
    // Not borrowed meanwhile.
    let (scheduler, me) = ME.with_borrow(Clone::clone)?;
    Some(f(&*scheduler, me))
}

/// This thread is about to do what others can see.
#[inline]
pub fn step(what: &'static str) {
    if is_scheduled() {
        call(|scheduler, me| scheduler.step(me, what));
    }
}

/// It is about to take a lock, if that is free.
#[inline]
pub(super) fn lock_step() {
    step("lock");
    if let Some(me) = me() {
        pass_lock(me);
    }
}

/// Takes a lock by `attempt`, or waits for it by `wait`.
#[inline]
pub(super) fn take<T, G>(lock: &T, attempt: impl Fn() -> Option<G>, wait: impl FnOnce() -> G) -> G {
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

/// Waits until somebody [wakes](wake) those who wait for this. `limited` says that it may go on when nobody can; returns
/// whether it was woken.
pub(super) fn wait_for<T>(what: &T, limited: bool) -> bool {
    call(|scheduler, me| {
        pass_lock(me);
        scheduler.wait(me, (&raw const *what).addr(), limited)
    })
    .expect("it is scheduled")
}

/// Lets those go on that wait for this.
#[inline]
pub(super) fn wake<T>(what: &T) {
    if is_scheduled() {
        call(|scheduler, me| {
            pass_lock(me);
            scheduler.wake((&raw const *what).addr());
        });
    }
}

/// That of std, but that plain stores of scheduled threads are [late](self).
#[derive(Debug, Default)]
pub(crate) struct AtomicU64 {
    seen: atomic::AtomicU64,
    /// What was stored, and by whom and when, if that may be late: one more than the number of the thread.
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
    fn late(&self, thread: u64) -> Late {
        Late(thread as usize - 1, self.stored.load(Relaxed))
    }

    /// Sees to it that what is not late any more is seen.
    #[inline]
    fn settle(&self) {
        let thread = self.thread.load(Relaxed);
        if thread != 0 && self.late(thread).is_seen() {
            self.seen.store(self.late.load(Relaxed), Relaxed);
            self.thread.store(0, Relaxed);
        }
    }

    /// What a locked instruction of this thread changes.
    #[inline]
    fn locked(&self) -> &atomic::AtomicU64 {
        if is_scheduled() {
            call(|scheduler, me| {
                scheduler.step(me, "locked instruction");
                pass_fence(me);
            });
        }
        self.settle();
        // Two threads that store plainly to one place need more than this.
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
        let Late(_, stored) = Late::new(me);
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

/// Those that change a number by one operand.
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

/// That of std: flags that are stored to seldom, and are seen at once.
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
