//! A number that threads raise one after the other, each when its turn has come.

use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;
use std::{hint, thread};

use super::AtomicU64;
use super::below::Patience;

/// On a line of its own, for those who wait look at it all the time.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Turns(AtomicU64, Patience);

impl Turns {
    pub(crate) fn new(number: u64) -> Turns {
        Turns(AtomicU64::new(number), Patience::default())
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Acquire)
    }

    /// Waits until the number is this one. Those whose turn comes before have little to do until then, and nothing to wait for.
    #[inline]
    pub(crate) fn wait_for(&self, number: u64) {
        let mut looks = 0u32;
        while self.get() != number {
            looks = looks.saturating_add(1);
            if !self.1.wait(|| self.get() == number) {
                pause(looks);
            }
        }
    }

    /// Says that the turn of this thread is over: the number is the next one's from now on.
    #[inline]
    pub(crate) fn set(&self, number: u64) {
        self.0.store(number, Release);
        self.1.wake();
    }

    /// Raises the number to this one, if it is less, when it is nobody's turn.
    pub(crate) fn raise(&self, number: u64) {
        self.0.fetch_max(number, Release);
        self.1.wake();
    }
}

/// Waits for a thread that is at work on another processor, and after a while for one that has to be given this one.
#[cold]
fn pause(looks: u32) {
    match looks {
        0..=100 => hint::spin_loop(),
        101..=1000 => thread::yield_now(),
        _ => thread::sleep(Duration::from_micros(50)), // it is of lower priority, perhaps
    }
}
