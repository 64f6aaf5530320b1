//! Threads: their numbers, and the slots in which they say that they read.
//!
//! A slot belongs to one thread while that thread lives, and later perhaps to another. The content of a slot
//! outlives both. A thread that reads while its thread-locals are destroyed may have no slot any more, and
//! when all slots are taken, the next thread gets none. Threads without a slot share one counter at each
//! lock.

use std::cell::Cell;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// Number of threads that can have a slot at a time.
pub(super) const SLOTS: usize = u64::BITS as usize;

/// Values of [`SLOT`]: `UNKNOWN` if the thread has not asked for a slot yet, `NONE` if it gets no slot.
const UNKNOWN: usize = usize::MAX;
const NONE: usize = usize::MAX - 1;

/// The slots that threads have: bit `i` is set while slot `i` is taken.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Gives the slot back when the thread ends.
struct TakenSlot(usize);

impl Drop for TakenSlot {
    fn drop(&mut self) {
        SLOT.set(NONE);
        // `Release`: the next thread that has the slot finds its content as this thread has left it.
        TAKEN.fetch_and(!(1 << self.0), Release);
    }
}

thread_local! {
    // `NUMBER` and `SLOT` have no destructors, so that access to them is a plain load.
    static NUMBER: Cell<u64> = const { Cell::new(0) };
    static SLOT: Cell<usize> = const { Cell::new(UNKNOWN) };
    static GUARD: Cell<Option<TakenSlot>> = const { Cell::new(None) };
}

/// Returns the number of this thread, from 1 on. No other thread ever has the same number.
#[inline(always)]
pub(crate) fn this_thread() -> u64 {
    #[cold]
    fn next() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Relaxed);
        NUMBER.set(number);
        number
    }
    #[cfg(all(test, pheap_loom))]
    return model::this_thread();
    #[cfg(not(all(test, pheap_loom)))]
    match NUMBER.get() {
        0 => next(),
        number => number,
    }
}

/// Returns the slot of this thread: less than [`SLOTS`], or [`NONE`].
#[inline(always)]
pub(super) fn slot_of_thread() -> usize {
    #[cfg(all(test, pheap_loom))]
    return model::this_thread() as usize - 1;
    #[cfg(not(all(test, pheap_loom)))]
    match SLOT.get() {
        UNKNOWN => take_slot(),
        slot => slot,
    }
}

#[cold]
fn take_slot() -> usize {
    let free = |taken: u64| (!taken != 0).then(|| taken | (taken + 1));
    let slot = match TAKEN.fetch_update(AcqRel, Acquire, free) {
        Ok(before) => before.trailing_ones() as usize,
        Err(_) => NONE,
    };
    if slot != NONE && GUARD.try_with(|guard| guard.set(Some(TakenSlot(slot)))).is_err() {
        // This thread is ending, and has not asked for a slot before. (`TakenSlot` was dropped, so the slot
        // is free again.)
        return NONE;
    }
    SLOT.set(slot);
    slot
}

/// The threads of a model run in one system thread, so the model sets their numbers.
#[cfg(all(test, pheap_loom))]
pub(super) mod model {
    use std::cell::Cell;

    loom::thread_local! {
        static NUMBER: Cell<u64> = Cell::new(1);
    }

    pub(in crate::sync) fn this_thread() -> u64 {
        NUMBER.with(Cell::get)
    }

    pub(in crate::sync) fn be(number: u64) {
        NUMBER.with(|me| me.set(number));
    }
}

#[cfg(all(test, not(pheap_loom)))]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_slot_is_given_to_another_thread_when_its_own_has_ended() {
        /// Asks for the slot of its thread when it is dropped.
        struct Late(std::sync::mpsc::Sender<usize>);
        impl Drop for Late {
            fn drop(&mut self) {
                self.0.send(slot_of_thread()).unwrap();
            }
        }
        thread_local!(static LATE: Cell<Option<Late>> = const { Cell::new(None) });

        let mine = slot_of_thread();
        assert!(mine < SLOTS && slot_of_thread() == mine);
        let (tell, told) = std::sync::mpsc::channel();
        // Starts many more threads, one after the other, than there are slots.
        for _ in 0..3 * SLOTS {
            let tell = tell.clone();
            let other = thread::spawn(|| {
                LATE.set(Some(Late(tell))); // set before the thread has a slot: dropped after that
                slot_of_thread()
            });
            let other = other.join().unwrap();
            assert!(other < SLOTS && other != mine);
        }
        assert!(told.try_iter().all(|late| late == NONE));
    }
}
