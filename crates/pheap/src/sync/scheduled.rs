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
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{self, Ordering};
use std::sync::{Arc, LockResult, PoisonError, TryLockError, TryLockResult};
use std::time::Duration;

use super::Mistake;

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

/// The same with a lock of std.
#[inline]
fn lock_step(what: &'static str) {
    if is_scheduled() {
        call(|scheduler, me| {
            scheduler.step(me, what);
            pass_lock(me);
        });
    }
}

fn wait_for<T>(what: &T, limited: bool) -> bool {
    call(|scheduler, me| {
        pass_lock(me);
        scheduler.wait(me, (&raw const *what).addr(), limited)
    })
    .expect("it is scheduled")
}

#[inline]
fn wake<T>(what: &T) {
    if is_scheduled() {
        call(|scheduler, me| {
            pass_lock(me);
            scheduler.wake((&raw const *what).addr());
        });
    }
}

/// Takes a lock by `attempt`, or waits for it by `wait`.
fn take<T, G>(lock: &T, attempt: impl Fn() -> TryLockResult<G>, wait: impl FnOnce() -> LockResult<G>) -> G {
    if !is_scheduled() {
        return wait().unwrap_or_else(PoisonError::into_inner);
    }
    lock_step("lock");
    loop {
        match attempt() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(error)) => return error.into_inner(),
            Err(TryLockError::WouldBlock) => drop(wait_for(lock, false)),
        }
    }
}

/// That of a lock: wakes those who wait for it.
pub(crate) struct Guard<'a, G, T> {
    /// `None` when it is let go of.
    guard: Option<G>,
    lock: &'a T,
}

impl<G, T> Drop for Guard<'_, G, T> {
    fn drop(&mut self) {
        if self.guard.take().is_some() {
            wake(self.lock);
        }
    }
}

impl<G: Deref, T> Deref for Guard<'_, G, T> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        self.guard.as_ref().expect("locked")
    }
}

impl<G: DerefMut, T> DerefMut for Guard<'_, G, T> {
    fn deref_mut(&mut self) -> &mut G::Target {
        self.guard.as_mut().expect("locked")
    }
}

/// That of std.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);
pub(crate) type MutexGuard<'a, T> = Guard<'a, std::sync::MutexGuard<'a, T>, Mutex<T>>;

impl<T> Mutex<T> {
    pub(super) const fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    pub(super) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let guard = take(self, || self.0.try_lock(), || self.0.lock());
        Ok(Guard { guard: Some(guard), lock: self })
    }

    pub(super) fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        lock_step("try lock");
        match self.0.try_lock() {
            Ok(guard) => Ok(Guard { guard: Some(guard), lock: self }),
            Err(TryLockError::Poisoned(error)) => Ok(Guard { guard: Some(error.into_inner()), lock: self }),
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
        }
    }

    pub(super) fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }
}

/// That of std.
#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(std::sync::RwLock<T>);
pub(crate) type RwLockReadGuard<'a, T> = Guard<'a, std::sync::RwLockReadGuard<'a, T>, RwLock<T>>;
pub(crate) type RwLockWriteGuard<'a, T> = Guard<'a, std::sync::RwLockWriteGuard<'a, T>, RwLock<T>>;

impl<T> RwLock<T> {
    pub(super) const fn new(value: T) -> RwLock<T> {
        RwLock(std::sync::RwLock::new(value))
    }

    pub(super) fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        let guard = take(self, || self.0.try_write(), || self.0.write());
        Ok(Guard { guard: Some(guard), lock: self })
    }

    pub(super) fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        lock_step("try lock");
        let guard = self.0.try_read().map_err(|_| TryLockError::WouldBlock)?;
        Ok(Guard { guard: Some(guard), lock: self })
    }

    pub(super) fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        lock_step("try lock");
        let guard = self.0.try_write().map_err(|_| TryLockError::WouldBlock)?;
        Ok(Guard { guard: Some(guard), lock: self })
    }
}

/// That of std.
#[derive(Debug, Default)]
pub(crate) struct Condvar(std::sync::Condvar);

/// Whether the time was over.
pub(crate) struct TimedOut(bool);

impl TimedOut {
    pub(super) fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    pub(super) const fn new() -> Condvar {
        Condvar(std::sync::Condvar::new())
    }

    pub(super) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.wait_by(guard, None, |guard| (self.0.wait(guard).unwrap_or_else(PoisonError::into_inner), false))
            .map(|(guard, _)| guard)
            .map_err(|_| unreachable!("it never is an error"))
    }

    pub(super) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, TimedOut)> {
        self.wait_by(guard, Some(time), |guard| {
            let (guard, result) = self.0.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner);
            (guard, result.timed_out())
        })
    }

    pub(super) fn wait_timeout_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        time: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, TimedOut)> {
        if !is_scheduled() {
            let end = std::time::Instant::now() + time;
            while condition(&mut guard) {
                let left = end.saturating_duration_since(std::time::Instant::now());
                if left.is_zero() {
                    return Ok((guard, TimedOut(true)));
                }
                (guard, _) = self.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner);
            }
            return Ok((guard, TimedOut(false)));
        }
        let mut over = false;
        while !over && condition(&mut guard) {
            (guard, TimedOut(over)) = self.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner);
        }
        Ok((guard, TimedOut(over)))
    }

    fn wait_by<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        time: Option<Duration>,
        wait: impl FnOnce(std::sync::MutexGuard<'a, T>) -> (std::sync::MutexGuard<'a, T>, bool),
    ) -> LockResult<(MutexGuard<'a, T>, TimedOut)> {
        let lock = guard.lock;
        if !is_scheduled() {
            let (guard, over) = wait(guard.guard.take().expect("locked"));
            return Ok((Guard { guard: Some(guard), lock }, TimedOut(over)));
        }
        // Nobody comes in between: this thread runs until it waits.
        drop(guard);
        let woken = time.is_none_or(|time| !time.is_zero()) && wait_for(self, time.is_some());
        let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
        Ok((guard, TimedOut(!woken)))
    }

    pub(super) fn notify_one(&self) {
        wake(self);
        self.0.notify_one();
    }

    pub(super) fn notify_all(&self) {
        wake(self);
        self.0.notify_all();
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
    pub(crate) fn fetch_or(&self, value: u64, order: Ordering) -> u64 {
        self.locked().fetch_or(value, order)
    }

    #[inline]
    pub(crate) fn fetch_and(&self, value: u64, order: Ordering) -> u64 {
        self.locked().fetch_and(value, order)
    }

    #[inline]
    pub(crate) fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        self.locked().fetch_add(value, order)
    }

    #[inline]
    pub(crate) fn fetch_sub(&self, value: u64, order: Ordering) -> u64 {
        self.locked().fetch_sub(value, order)
    }

    #[inline]
    pub(crate) fn fetch_max(&self, value: u64, order: Ordering) -> u64 {
        self.locked().fetch_max(value, order)
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
