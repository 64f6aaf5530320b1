//! The addresses at which simulated heaps are mapped. They differ by thread, so that threads can have heaps
//! at the same time.

use std::sync::{Mutex, PoisonError};

/// The first address. Other heaps are not mapped there, unless the program chooses such a base.
const FIRST: u64 = 0x5f00_0000_0000;
/// Distance of the addresses of two threads in bytes. Each of these heaps must reserve at most as much.
const APART: u64 = 1 << 33;

/// Numbers of threads that have ended, and the next new number.
static NUMBERS: Mutex<(Vec<u64>, u64)> = Mutex::new((Vec::new(), 0));

/// The number of a thread while it runs.
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
