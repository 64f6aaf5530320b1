//! The lock at which the writers of a region queue: how long a thread spins, and how it parks and is woken.
//! Either one thread holds it exclusively, or several threads share it.
//!
//! All state of the lock is in the lock itself. Libraries that keep the waiting threads of all locks of a
//! process in one table cannot be used: in a forked child that table still has the threads of the parent, and
//! perhaps a part that stays locked for ever. So a lock that a child creates works as in any process.
//!
//! **Turns.** Waiting threads are served in order of arrival, except that [nested](LockMode::Nested) threads
//! come first. A new thread may overtake them, so that a lock that is often taken does not pass through a
//! sleeping thread each time. A thread that releases the lock, and wakes waiting threads, checks whether the
//! first one has waited for [`OVERTAKE`] or longer. If it has, no thread that wants exclusive access
//! overtakes it any more. A thread that wants to share the lock waits behind threads that wait for exclusive
//! access, unless it is nested.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use super::mutex::{Condvar, Mutex, MutexGuard};
use super::watch::LockWatch;
use super::{AtomicU64, LockMode, Mistake, mistake, schedule, spins};

/// After this wait, the next thread that releases the lock keeps threads that want exclusive access from
/// overtaking the first waiting thread.
const OVERTAKE: Duration = Duration::from_micros(500);

/// A bit of the lock's word: a thread holds the lock exclusively.
const EXCLUSIVE: u64 = 1;
/// A bit of the lock's word: the thread that releases the lock must wake the waiting threads. If any thread
/// waits, this bit is set, or one of them is awake and sets it.
const WAITING: u64 = 1 << 1;
/// A bit of the lock's word: a thread waits for exclusive access.
const CLOSED: u64 = 1 << 2;
/// A bit of the lock's word: new threads that want exclusive access must not overtake the thread at the front
/// of the queue.
const FAIR: u64 = 1 << 3;
/// One thread that shares the lock, as a number in the lock's word: this bit and all higher ones are the
/// number of threads that share the lock.
const READER: u64 = 1 << 4;

impl LockMode {
    /// Returns the bits of the lock's word that keep a thread out when it is the thread's turn. If any of
    /// them is set, the thread waits.
    fn kept_out_by(self) -> u64 {
        match self {
            LockMode::Exclusive => !(WAITING | CLOSED | FAIR),
            LockMode::Shared | LockMode::Nested => EXCLUSIVE,
        }
    }

    /// Returns further bits of the lock's word, which keep a thread out only if it has just arrived and is
    /// not in the queue.
    fn overtaken_by(self) -> u64 {
        match self {
            LockMode::Exclusive => FAIR,
            LockMode::Shared => CLOSED,
            LockMode::Nested => 0,
        }
    }

    fn adds(self) -> u64 {
        match self {
            LockMode::Exclusive => EXCLUSIVE,
            LockMode::Shared | LockMode::Nested => READER,
        }
    }
}

struct Waiter {
    number: u64,
    want: LockMode,
    since: Instant,
    /// Notified when the waiting thread should look at the lock's word again.
    woken: Arc<Condvar>,
}

impl Waiter {
    fn wants_exclusive(&self) -> bool {
        self.want == LockMode::Exclusive
    }

    /// Whether other threads must not overtake this waiting thread any more.
    fn waits_for_long(&self) -> bool {
        if cfg!(all(test, pheap_loom)) || schedule::is_scheduled() {
            return self.number.is_multiple_of(2); // no time passes in models and labs: try both answers
        }
        self.since.elapsed() >= OVERTAKE
    }
}

struct WaitQueue {
    /// How many threads have waited for the lock since it was made.
    count: u64,
    /// The waiting threads in order of arrival, except that [nested](LockMode::Nested) threads come first.
    waiters: VecDeque<Waiter>,
}

impl WaitQueue {
    /// Adds this thread to the queue. Returns the number by which the queue knows the thread.
    fn add(&mut self, want: LockMode, woken: Arc<Condvar>) -> u64 {
        self.count += 1;
        let waiter = Waiter { number: self.count, want, since: Instant::now(), woken };
        match want {
            LockMode::Nested => self.waiters.push_front(waiter),
            LockMode::Exclusive | LockMode::Shared => self.waiters.push_back(waiter),
        }
        self.count
    }

    fn position(&self, number: u64) -> usize {
        self.waiters.iter().position(|waiter| waiter.number == number).expect("it is removed by itself only")
    }

    /// Whether no other thread in the queue goes before the thread with this number.
    fn is_its_turn(&self, number: u64, want: LockMode) -> bool {
        let before = self.position(number);
        match want {
            LockMode::Exclusive => before == 0,
            LockMode::Shared => !self.waiters.iter().take(before).any(Waiter::wants_exclusive),
            LockMode::Nested => true,
        }
    }

    /// Wakes the threads whose turn it may be.
    fn wake(&self) {
        for waiter in &self.waiters {
            waiter.woken.notify_all();
            if waiter.wants_exclusive() {
                break;
            }
        }
    }
}

/// A lock that guards no value itself. Code that uses it must ensure that only a thread that has the lock
/// releases it.
pub(crate) struct RawRwLock {
    watch: LockWatch,
    word: AtomicU64,
    /// The threads that wait for the lock. This mutex is locked for short moments only.
    queue: Mutex<WaitQueue>,
}

impl RawRwLock {
    /// Creates a lock that no thread holds.
    pub(crate) fn new() -> RawRwLock {
        let queue = WaitQueue { count: 0, waiters: VecDeque::new() };
        RawRwLock { watch: Default::default(), word: AtomicU64::new(0), queue: Mutex::new(queue) }
    }

    /// Waits until this thread has the lock. A thread that has the lock already may wait for ever, unless it
    /// shares the lock and asks for [`LockMode::Nested`].
    #[inline(always)]
    #[track_caller]
    pub(crate) fn lock(&self, want: LockMode) {
        let wait = || {
            let is_taken = match want {
                LockMode::Exclusive => self.word.compare_exchange(0, EXCLUSIVE, Acquire, Relaxed).is_ok(),
                LockMode::Shared | LockMode::Nested => self.try_once(want),
            };
            (is_taken || self.lock_slowly(want, None)).then_some(())
        };
        self.watch.acquire_watched(want, || self.try_once(want).then_some(()), wait);
    }

    #[cold]
    fn lock_slowly(&self, want: LockMode, end: Option<Instant>) -> bool {
        self.spin(want) || self.wait(want, end)
    }

    /// [`lock`](Self::lock), if this thread can have the lock without waiting. Returns whether this thread
    /// has the lock.
    #[inline]
    #[track_caller]
    pub(crate) fn try_lock(&self, want: LockMode) -> bool {
        self.watch.acquire_watched(want, || None, || self.try_once(want).then_some(())).is_some()
    }

    /// [`lock`](Self::lock), but waits at most until `end`. Returns whether this thread has the lock.
    #[track_caller]
    pub(crate) fn try_lock_until(&self, want: LockMode, end: Instant) -> bool {
        let attempt = || self.try_once(want).then_some(());
        let wait = || self.lock_slowly(want, Some(end)).then_some(());
        self.watch.acquire_watched(want, attempt, wait).is_some()
    }

    fn try_once(&self, want: LockMode) -> bool {
        self.try_acquire(want, want.kept_out_by() | want.overtaken_by())
    }

    /// Takes the lock, unless one of the bits `kept_out_by` of the word is set. Returns whether this thread
    /// has the lock.
    #[inline(always)]
    fn try_acquire(&self, want: LockMode, kept_out_by: u64) -> bool {
        let mut word = self.word.load(Relaxed);
        while word & kept_out_by == 0 {
            match self.word.compare_exchange_weak(word, word + want.adds(), Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Tries to take the lock for a while, unless other threads wait already. Returns whether this thread has
    /// the lock.
    fn spin(&self, want: LockMode) -> bool {
        for round in 0..spins(10) {
            if self.try_once(want) {
                return true;
            }
            if self.word.load(Relaxed) & WAITING != 0 {
                return false;
            }
            if round < 3 {
                (0..2 << round).for_each(|_| std::hint::spin_loop());
            } else {
                std::thread::yield_now();
            }
        }
        false
    }

    fn queue(&self) -> MutexGuard<'_, WaitQueue> {
        self.queue.lock_unwatched()
    }

    /// Waits in the queue for this thread's turn, at most until `end`. Returns whether this thread has the
    /// lock.
    fn wait(&self, want: LockMode, end: Option<Instant>) -> bool {
        let woken = Arc::new(Condvar::new());
        let mut queue = self.queue();
        let me = queue.add(want, woken.clone());
        if want == LockMode::Exclusive {
            self.word.fetch_or(CLOSED, Relaxed);
        }
        let mut is_over = false;
        loop {
            // `WAITING` is set before the last look at the word: a thread that holds the lock then sees the
            // bit when it releases the lock.
            if !mistake(Mistake::WaitUnseen) {
                self.word.fetch_or(WAITING, Relaxed);
            }
            let taken = queue.is_its_turn(me, want) && self.try_acquire(want, want.kept_out_by());
            if taken || is_over {
                self.stop_waiting(&mut queue, me, taken);
                return taken;
            }
            is_over = woken.wait_at_most(&mut queue, end);
        }
    }

    fn stop_waiting(&self, queue: &mut WaitQueue, number: u64, taken: bool) {
        let position = queue.position(number);
        queue.waiters.remove(position);
        let mut over = if position == 0 { FAIR } else { 0 };
        if !queue.waiters.iter().any(Waiter::wants_exclusive) {
            over |= CLOSED;
        }
        if queue.waiters.is_empty() {
            over |= WAITING;
        }
        self.word.fetch_and(!over, Relaxed);
        // Another thread may have waited only because this one was before it in the queue.
        if !taken && !mistake(Mistake::GiveUpQuietly) {
            queue.wake();
        }
    }

    /// Releases a lock that this thread holds exclusively.
    #[inline(always)]
    pub(crate) fn unlock_exclusive(&self) {
        self.watch.leave(LockMode::Exclusive);
        let word = self.word.load(Relaxed);
        let alone = word & WAITING == 0
            && self.word.compare_exchange(word, word & !EXCLUSIVE, Release, Relaxed).is_ok();
        if !alone {
            self.unlock_and_wake(EXCLUSIVE);
        }
    }

    /// Releases a lock that this thread shares.
    #[inline(always)]
    pub(crate) fn unlock_shared(&self) {
        self.watch.leave(LockMode::Shared);
        let before = self.word.fetch_sub(READER, Release);
        if before & WAITING != 0 && before / READER == 1 {
            self.unlock_and_wake(0);
        }
    }

    #[cold]
    fn unlock_and_wake(&self, bit: u64) {
        let queue = self.queue();
        // `FAIR` is set before an exclusive lock is released. Otherwise another thread could overtake the
        // first waiting thread once more.
        if queue.waiters.front().is_some_and(Waiter::waits_for_long) {
            self.word.fetch_or(FAIR, Relaxed);
        }
        self.word.fetch_and(!(bit | WAITING), Release);
        queue.wake();
    }
}

#[cfg(all(test, pheap_loom))]
mod model;
#[cfg(all(test, not(pheap_loom)))]
mod tests;
