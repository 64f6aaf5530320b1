//! How much a slice of marking may do.

use std::time::Instant;

/// Pointers that are followed between two looks at the clock.
const CLOCK: u32 = 64;

/// Limits of a slice, and what it has done.
///
/// A slice does a little even if its budget is empty, so that a cycle of marking always ends.
#[derive(Clone, Debug)]
pub struct Budget {
    work: u64,
    until: Option<Instant>,
    spent: u64,
    objects: u64,
    bytes: u64,
    /// Pointers until the next look at the clock.
    ticks: u32,
}

impl Budget {
    /// No limit.
    pub fn unlimited() -> Budget {
        Budget { work: u64::MAX, until: None, spent: 0, objects: 0, bytes: 0, ticks: CLOCK }
    }

    /// As much as tracing `bytes`. A pointer that leads to nothing new counts as 8 bytes.
    pub fn work(bytes: u64) -> Budget {
        Budget { work: bytes, ..Budget::unlimited() }
    }

    /// Up to this time. The clock is read after each 64 pointers.
    pub fn until(deadline: Instant) -> Budget {
        Budget { until: Some(deadline), ..Budget::unlimited() }
    }

    /// Limits time, too.
    pub fn and_until(self, deadline: Instant) -> Budget {
        Budget { until: Some(deadline), ..self }
    }

    /// How many objects were marked that have pointers.
    pub fn marked_objects(&self) -> u64 {
        self.objects
    }

    /// Bytes of objects that were traced.
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

    /// Bytes that were traced again.
    pub(crate) fn searched(&mut self, bytes: usize) {
        self.spent = self.spent.saturating_add(bytes as u64);
    }

    /// A pointer has led to nothing new.
    #[inline(always)]
    pub(crate) fn missed(&mut self) {
        self.spent += 8;
    }

    /// Whether all the work is done. To be asked after each pointer.
    #[inline(always)]
    pub(crate) fn is_spent(&self) -> bool {
        self.spent >= self.work
    }

    /// Whether it is time to look at the clock. To be asked after each pointer.
    #[inline(always)]
    pub(crate) fn ticks(&mut self) -> bool {
        self.ticks -= 1;
        let ticks = self.ticks == 0;
        if ticks {
            self.ticks = CLOCK;
        }
        ticks
    }

    /// Whether the deadline is over.
    #[inline]
    pub(crate) fn is_late(&self) -> bool {
        self.until.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// The same counts, and no limits.
    pub(crate) fn without_limits(&self) -> Budget {
        Budget { work: u64::MAX, until: None, ..self.clone() }
    }

    /// Takes over the counts of a budget that was [without limits](Self::without_limits).
    pub(crate) fn take_counts(&mut self, of: &Budget) {
        (self.spent, self.objects, self.bytes) = (of.spent, of.objects, of.bytes);
    }

    /// Whether a slice that waits for work of others need not end by itself.
    pub(crate) fn may_wait(&self) -> bool {
        self.until.is_some() || self.work == u64::MAX
    }
}
