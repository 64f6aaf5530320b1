//! A number that threads raise, each by a part of its own, when all parts before are done.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::time::Duration;
use std::{hint, thread};

use super::AtomicU64;
use super::schedule::Patience;

/// How many units may be begun and not done: few in models, where each is an object of its own.
const UNITS: usize = if cfg!(all(test, pheap_loom)) { 8 } else { 1024 };

/// On a line of its own, for those who wait look at it all the time.
#[derive(Debug)]
#[repr(align(128))]
struct Number(AtomicU64);

#[derive(Debug)]
pub(crate) struct Turns {
    number: Number,
    patience: Patience,
    /// Ends of parts that were done before all that come before them, each where its start says. Others raise the number over them: who has done a part and has no processor now stops nobody.
    done: Box<[AtomicU64]>,
}

impl Turns {
    /// What a part is a multiple of.
    pub(crate) const UNIT: u64 = 64;

    /// How long all parts together may be that are begun and not done.
    pub(crate) const SPAN: u64 = UNITS as u64 * Self::UNIT;

    pub(crate) fn new(number: u64) -> Turns {
        let done = (0..UNITS).map(|_| AtomicU64::new(0)).collect();
        Turns { number: Number(AtomicU64::new(number)), patience: Patience::default(), done }
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.number.0.load(Acquire)
    }

    /// Waits until the number is at least this one. What comes before is begun, and has nothing to wait for.
    #[inline]
    pub(crate) fn wait_for(&self, number: u64) {
        self.wait_until(|now| now >= number);
    }

    /// Says that a part is done, and waits until all before it are.
    #[inline]
    pub(crate) fn end(&self, start: u64, end: u64) {
        if self.get() != start {
            self.done_at(start).store(end, Release);
            self.wait_until(|now| now == start || now >= end);
            if self.get() >= end {
                return;
            }
            // Whoever was before had not seen yet that this one was done, and another one may see it now.
        }
        // Not a plain store: others may raise it as well, and by more.
        self.number.0.fetch_max(end, AcqRel);
        self.go_on(end);
        self.patience.wake();
    }

    /// Raises the number to this one, if it is less, while nothing is begun.
    pub(crate) fn raise(&self, number: u64) {
        self.number.0.fetch_max(number, Release);
        self.patience.wake();
    }

    /// Goes over the parts behind `number` that are done already.
    #[inline]
    fn go_on(&self, number: u64) {
        let mut end = number;
        loop {
            let next = self.done_at(end).load(Acquire);
            // Or it is of a part that had the place before, or, if this thread was not running for a while, will have it then.
            if !(1..=Self::SPAN).contains(&next.wrapping_sub(end)) {
                break;
            }
            end = next;
        }
        if end != number {
            self.number.0.fetch_max(end, AcqRel);
        }
    }

    #[inline]
    fn done_at(&self, start: u64) -> &AtomicU64 {
        &self.done[(start / Self::UNIT) as usize % UNITS]
    }

    #[inline]
    fn wait_until(&self, is_over: impl Fn(u64) -> bool) {
        let mut looks = 0u32;
        while !is_over(self.get()) {
            looks = looks.saturating_add(1);
            if !self.patience.wait(|| is_over(self.get())) {
                pause(looks);
            }
        }
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
