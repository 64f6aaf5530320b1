//! Where simulated heaps are mapped: those of each thread elsewhere, so that threads can have heaps beside each other.

use std::sync::{Mutex, PoisonError};

/// Where no other heap goes, nor the shadow of a sanitizer.
const FIRST: u64 = 0x5f00_0000_0000;
/// How far the places of two threads are from each other: more than any of these heaps reserves.
const APART: u64 = 1 << 33;

/// Numbers that threads had which have ended, and the next one.
static NUMBERS: Mutex<(Vec<u64>, u64)> = Mutex::new((Vec::new(), 0));

/// The number of a thread, as long as it runs.
struct Number(u64);

impl Number {
    fn new() -> Number {
        let mut numbers = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
        let (free, next) = &mut *numbers;
        Number(free.pop().unwrap_or_else(|| {
            *next += 1;
            *next - 1
        }))
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        NUMBERS.lock().unwrap_or_else(PoisonError::into_inner).0.push(self.0);
    }
}

/// Where a new heap of this thread goes that is not told. A heap that there is goes where it was made, whoever opens it.
#[must_use]
pub fn base() -> u64 {
    thread_local! {
        static NUMBER: Number = Number::new();
    }
    FIRST + NUMBER.with(|number| number.0) * APART
}
