//! Limits of a slice of marking.

use std::time::Instant;

/// Number of pointers between two readings of the clock.
const CLOCK: u32 = 64;

/// The limits of a slice, and counters of its work.
///
/// A slice makes at least one step even if its budget is empty, so a cycle of marking always ends.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Limit of `spent`, in bytes.
    work: u64,
    /// Time at which the slice ends; `None` if time has no limit.
    until: Option<Instant>,
    /// Work done, in bytes.
    spent: u64,
    /// Number of marked objects that have pointers.
    objects: u64,
    /// Bytes of traced objects.
    bytes: u64,
    /// Pointers until the next reading of the clock.
    ticks: u32,
}

impl Budget {
    /// Returns a budget without limits.
    pub fn unlimited() -> Budget {
        Budget { work: u64::MAX, until: None, spent: 0, objects: 0, bytes: 0, ticks: CLOCK }
    }

    /// Returns a budget that limits a slice to tracing `bytes` bytes. A pointer that leads to no new object
    /// with pointers counts as 8 bytes.
    pub fn work(bytes: u64) -> Budget {
        Budget { work: bytes, ..Budget::unlimited() }
    }

    /// Returns a budget that ends a slice at `deadline`. The clock is read after every 64 pointers.
    pub fn until(deadline: Instant) -> Budget {
        Budget { until: Some(deadline), ..Budget::unlimited() }
    }

    /// Returns this budget with a deadline in addition to its limit of work.
    pub fn and_until(self, deadline: Instant) -> Budget {
        Budget { until: Some(deadline), ..self }
    }

    /// Returns the number of marked objects. Objects without pointers do not count.
    pub fn marked_objects(&self) -> u64 {
        self.objects
    }

    /// Returns the number of bytes of traced objects.
    pub fn marked_bytes(&self) -> u64 {
        self.bytes
    }

    #[inline(always)]
    pub(crate) fn marked(&mut self) {
        self.objects += 1;
    }

    #[inline(always)]
    pub(crate) fn traced(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.spent += bytes as u64;
    }

    /// Charges bytes that the search of the heap traces again. They count as work, but not as marked bytes.
    pub(crate) fn searched(&mut self, bytes: usize) {
        self.spent = self.spent.saturating_add(bytes as u64);
    }

    /// Charges a pointer that has led to no new object with pointers.
    #[inline(always)]
    pub(crate) fn missed(&mut self) {
        self.spent += 8;
    }

    /// Returns whether the limit of work is reached. The marking loop checks this after each pointer.
    #[inline(always)]
    pub(crate) fn is_spent(&self) -> bool {
        self.spent >= self.work
    }

    /// Counts a pointer. Returns whether the clock is to be read. The marking loop calls this function after
    /// each pointer.
    #[inline(always)]
    pub(crate) fn ticks(&mut self) -> bool {
        self.ticks -= 1;
        let ticks = self.ticks == 0;
        if ticks {
            self.ticks = CLOCK;
        }
        ticks
    }

    /// Returns whether the deadline has passed.
    #[inline]
    pub(crate) fn is_late(&self) -> bool {
        self.until.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Returns a budget with the same counters and no limits.
    pub(crate) fn without_limits(&self) -> Budget {
        Budget { work: u64::MAX, until: None, ..self.clone() }
    }

    /// Copies the counters of a budget that [`without_limits`](Self::without_limits) returned.
    pub(crate) fn take_counts(&mut self, of: &Budget) {
        (self.spent, self.objects, self.bytes) = (of.spent, of.objects, of.bytes);
    }

    /// Returns whether a shared slice may sleep until another thread has work. A slice that is limited by
    /// work alone may not: waiting spends no work, so it might never end.
    pub(crate) fn may_wait(&self) -> bool {
        self.until.is_some() || self.work == u64::MAX
    }
}
