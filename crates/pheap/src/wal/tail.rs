//! The end of the log, and the two ways to append there.
//!
//! Under the mutex of the log's state, anything can be done. Where a log is mapped, that leaves it *open*: up to a limit, which is within the last segment, records are appended without the
//! mutex. Who does so *reserves* a place by moving the end of the log, copies the record there, and *publishes* it when all before it are published. What could be in the way was looked at before
//! the log was opened: in between, nothing fails, waits for anything but a copy, or allocates.
//!
//! Whoever locks the mutex closes the log, and waits for those who have reserved something. So there is nobody to think of: see `docs/design.md`.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::State;
use super::format::LEAST;
use crate::sync::{AtomicU64, Condvar, Mistake, Mutex, MutexGuard, Turns, mistake};
use crate::units::LINE;

/// In the position of the end: only who has the mutex appends. (Positions are those of lines.)
const CLOSED: u64 = 1;

// Records are made of whole lines.
const _: () = assert!(LINE as u64 == Turns::UNIT);

/// On a line of its own.
#[derive(Debug)]
#[repr(align(128))]
struct End(AtomicU64);

#[derive(Debug)]
pub(super) struct Tail {
    state: Mutex<State>,
    /// Position of the next record, while it is open.
    end: End,
    /// Position up to which records have been handed to the kernel.
    pub(super) written: Turns,
    /// Up to where it is open, and what is added to a position to have its place in the file. Changed while it is closed. As each time it was opened the end was another one, who
    /// moves the end has seen what belongs to that.
    limit: AtomicU64,
    shift: AtomicU64,
}

/// The state, while the log is closed.
pub(super) struct Locked<'a> {
    state: MutexGuard<'a, State>,
    tail: &'a Tail,
}

/// The mutex is locked, the log perhaps open.
pub(super) struct LockedOpen<'a>(MutexGuard<'a, State>);

impl Tail {
    /// All before `written` is in the log.
    pub(super) fn new(state: State, written: u64) -> Tail {
        Tail {
            state: Mutex::new(state),
            end: End(AtomicU64::new(CLOSED)),
            written: Turns::new(written),
            limit: AtomicU64::new(0),
            shift: AtomicU64::new(0),
        }
    }

    #[inline]
    #[track_caller]
    pub(super) fn lock(&self) -> Locked<'_> {
        self.close(LockedOpen(self.state.lock()))
    }

    /// [`lock`](Self::lock), to say that the log has failed.
    #[track_caller]
    pub(super) fn lock_to_fail(&self) -> Locked<'_> {
        let mut locked = Locked { state: self.state.lock(), tail: self };
        if !mistake(Mistake::FailOpen) {
            locked.close();
        }
        locked
    }

    /// Waits until nobody else has the mutex, but leaves the log open: another thread that has waited for the mutex may have opened it.
    #[inline]
    #[track_caller]
    pub(super) fn lock_open(&self) -> LockedOpen<'_> {
        LockedOpen(self.state.lock_briefly())
    }

    #[inline]
    pub(super) fn close<'a>(&'a self, LockedOpen(state): LockedOpen<'a>) -> Locked<'a> {
        let mut locked = Locked { state, tail: self };
        locked.close();
        locked
    }

    /// Where a record of so many bytes may be appended now, without the mutex.
    #[inline]
    pub(super) fn look(&self, bytes: u64) -> Option<u64> {
        let end = self.end.0.load(Ordering::Acquire);
        self.is_open(end, bytes).then_some(end)
    }

    #[inline]
    fn is_open(&self, end: u64, bytes: u64) -> bool {
        let bytes = bytes.max(LEAST as u64 * 8);
        end & CLOSED == 0
            && (end + bytes <= self.limit.load(Ordering::Relaxed) || mistake(Mistake::OverlookEnd))
    }

    /// Reserves so many bytes, at `end` or later, and returns their position and their place in the file. Who has them must [publish](Self::publish) them soon: all others wait.
    #[inline]
    pub(super) fn reserve(&self, mut end: u64, bytes: u64) -> Option<(u64, u64)> {
        while self.is_open(end, bytes) {
            let shift = self.shift.load(Ordering::Relaxed);
            let next = end + bytes;
            // Then the mutex waits for those who append.
            if next.saturating_sub(self.written.get()) > Turns::SPAN {
                return None;
            }
            match self.end.0.compare_exchange_weak(end, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some((end, end.wrapping_add(shift))),
                Err(other) => end = other,
            }
        }
        None
    }

    /// Says that the bytes between these positions are in the log, as all before them.
    #[inline]
    pub(super) fn publish(&self, start: u64, end: u64) {
        if mistake(Mistake::PublishEarly) {
            return self.written.raise(end);
        }
        self.written.end(start, end);
    }
}

impl Locked<'_> {
    /// Waits for those who append, and takes the end of the log over from them.
    #[inline]
    fn close(&mut self) {
        let end = &self.tail.end.0;
        // Only who has the mutex opens it.
        if end.load(Ordering::Relaxed) & CLOSED != 0 {
            return;
        }
        let end = end.fetch_or(CLOSED, Ordering::AcqRel);
        if !mistake(Mistake::CloseEarly) {
            self.tail.written.wait_for(end);
        }
        self.state.buffer.set_end(end);
    }

    /// Opens the log, up to a limit. Something was appended since it was closed.
    #[inline]
    pub(super) fn open(&mut self, limit: u64) {
        let (end, place) = self.state.buffer.end_and_place();
        debug_assert!(end.is_multiple_of(LINE as u64) && self.tail.written.get() == end);
        self.tail.limit.store(limit, Ordering::Relaxed);
        self.tail.shift.store(place.wrapping_sub(end), Ordering::Relaxed);
        // At once: who has looked at the end before may try to move it. `SeqCst` says so to the simulator of late stores.
        self.tail.end.0.store(end, Ordering::SeqCst);
    }

    /// Lets others at it while `f` runs.
    #[track_caller]
    pub(super) fn unlocked<R>(&mut self, f: impl FnOnce() -> R) -> R {
        let result = MutexGuard::unlocked(&mut self.state, f);
        self.close();
        result
    }

    /// Lets others at it until `changed` is notified.
    #[track_caller]
    pub(super) fn wait(&mut self, changed: &Condvar) {
        changed.wait(&mut self.state);
        self.close();
    }

    /// [`wait`](Self::wait), but not longer than until `end`. Whether that is over.
    #[track_caller]
    pub(super) fn wait_until(&mut self, changed: &Condvar, end: Instant) -> bool {
        let is_over = changed.wait_until(&mut self.state, end);
        self.close();
        is_over
    }
}

impl Deref for Locked<'_> {
    type Target = State;

    #[inline]
    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Locked<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}
