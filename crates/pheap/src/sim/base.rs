//! The addresses at which simulated heaps are mapped. They differ by thread, so that threads can have heaps
//! at the same time.

use std::sync::{Mutex, PoisonError};

/// The first address of a simulated heap. Other heaps are mapped from there on only if the program chooses
/// such a base.
const FIRST: u64 = 0x5f00_0000_0000;
/// Distance in bytes between the heaps of two threads. A simulated heap must reserve at most as many bytes of
/// addresses.
const APART: u64 = 1 << 33;

/// Numbers of threads that have ended, and the next new number.
static NUMBERS: Mutex<(Vec<u64>, u64)> = Mutex::new((Vec::new(), 0));

/// The number of a thread that runs. Its drop makes the number free for another thread.
struct ThreadNumber(u64);

impl ThreadNumber {
    fn new() -> ThreadNumber {
        let mut numbers = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
        let (free, next) = &mut *numbers;
        ThreadNumber(free.pop().unwrap_or_else(|| {
            *next += 1;
            *next - 1
        }))
    }
}

impl Drop for ThreadNumber {
    fn drop(&mut self) {
        NUMBERS.lock().unwrap_or_else(PoisonError::into_inner).0.push(self.0);
    }
}

/// Returns the address for a new heap of this thread, if its program names no base.
#[must_use]
pub fn base() -> u64 {
    thread_local! {
        static NUMBER: ThreadNumber = ThreadNumber::new();
    }
    FIRST + NUMBER.with(|number| number.0) * APART
}
