//! `PDuration` and `PSystemTime`.
//!
//! A file may contain any numbers of seconds and nanoseconds, so `get` accepts all of them.

use std::fmt;
use std::ops::{AddAssign, SubAssign};
use std::time::{Duration, SystemTime};

use pheap_macros::Persist;

const SECOND: u32 = 1_000_000_000;

/// A `Duration` that can live in a heap: Rust does not define the layout of a `Duration`. It converts from
/// and to one by [`into`](Into::into).
///
/// ```
/// # use std::time::Duration;
/// # use pheap::{Heap, PDuration, Persist, Root};
/// #[derive(Persist, Default)]
/// #[repr(C)]
/// struct Lap {
///     best: PDuration,
///     total: PDuration,
/// }
///
/// # fn main() -> pheap::Result<()> {
/// # let heap = Heap::in_memory()?;
/// let lap: Root<Lap> = heap.root("lap")?;
/// lap.txn(|tx, lap| {
///     tx[lap].best = Duration::from_millis(61_500).into();
///     tx[lap].total += Duration::from_secs(62);
///     Ok(())
/// })?;
/// assert_eq!(lap.read(|view, lap| view[lap].best.get().as_secs())?, 61);
/// # Ok(())
/// # }
/// ```
#[derive(Persist, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
#[persist(own, id = "pheap::PDuration", key, crate = "crate")]
pub struct PDuration {
    seconds: u64,
    nanoseconds: u32,
}

impl PDuration {
    /// A duration of 0.
    pub const ZERO: PDuration = PDuration { seconds: 0, nanoseconds: 0 };

    /// Returns this duration as a `Duration`. Nanoseconds above 999,999,999, which only a file may contain,
    /// count as 999,999,999.
    #[inline]
    pub fn get(self) -> Duration {
        Duration::new(self.seconds, self.nanoseconds.min(SECOND - 1))
    }
}

impl From<Duration> for PDuration {
    #[inline]
    fn from(value: Duration) -> Self {
        PDuration { seconds: value.as_secs(), nanoseconds: value.subsec_nanos() }
    }
}

impl From<PDuration> for Duration {
    #[inline]
    fn from(value: PDuration) -> Self {
        value.get()
    }
}

impl PartialEq<Duration> for PDuration {
    #[inline]
    fn eq(&self, other: &Duration) -> bool {
        self.get() == *other
    }
}

/// Panics if the sum is too large, as for a `Duration`.
impl AddAssign<Duration> for PDuration {
    #[inline]
    #[track_caller]
    fn add_assign(&mut self, other: Duration) {
        *self = (self.get() + other).into();
    }
}

/// Panics if the difference is negative, as for a `Duration`.
impl SubAssign<Duration> for PDuration {
    #[inline]
    #[track_caller]
    fn sub_assign(&mut self, other: Duration) {
        *self = (self.get() - other).into();
    }
}

impl fmt::Debug for PDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// A `SystemTime` that can live in a heap: Rust does not define the layout of a `SystemTime`. It has seconds
/// and nanoseconds since 1970. It converts from and to a `SystemTime` by [`into`](Into::into). Its default is
/// the beginning of 1970.
///
/// ```
/// # use std::time::SystemTime;
/// # use pheap::{Heap, PSystemTime, Persist, Root};
/// #[derive(Persist, Default)]
/// #[repr(C)]
/// struct Note {
///     created: PSystemTime,
/// }
///
/// # fn main() -> pheap::Result<()> {
/// # let heap = Heap::in_memory()?;
/// let note: Root<Note> = heap.root_or("note", |_| Ok(Note { created: PSystemTime::now() }))?;
/// note.txn(|tx, note| Ok(tx[note].created = SystemTime::now().into()))?;
/// assert!(note.read(|view, note| view[note].created.get())? <= SystemTime::now());
/// # Ok(())
/// # }
/// ```
#[derive(Persist, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
#[persist(own, id = "pheap::PSystemTime", key, crate = "crate")]
pub struct PSystemTime {
    /// Seconds since 1970, rounded down: before 1970 they are negative.
    seconds: i64,
    nanoseconds: u32,
}

impl PSystemTime {
    /// The beginning of 1970.
    pub const UNIX_EPOCH: PSystemTime = PSystemTime { seconds: 0, nanoseconds: 0 };

    /// Returns the current time.
    pub fn now() -> PSystemTime {
        SystemTime::now().into()
    }

    /// Returns this time as a `SystemTime`. Nanoseconds above 999,999,999, which only a file may contain,
    /// count as 999,999,999.
    #[inline]
    pub fn get(self) -> SystemTime {
        let whole = Duration::from_secs(self.seconds.unsigned_abs());
        let second = match self.seconds {
            0.. => SystemTime::UNIX_EPOCH.checked_add(whole),
            _ => SystemTime::UNIX_EPOCH.checked_sub(whole),
        };
        let part = Duration::from_nanos(self.nanoseconds.min(SECOND - 1).into());
        // On 64-bit Linux, a `SystemTime` can represent all seconds of an `i64`, so `UNIX_EPOCH` never
        // replaces a time.
        second.and_then(|second| second.checked_add(part)).unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

impl From<SystemTime> for PSystemTime {
    fn from(value: SystemTime) -> Self {
        match value.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => {
                PSystemTime { seconds: since.as_secs().cast_signed(), nanoseconds: since.subsec_nanos() }
            }
            Err(before) => {
                let before = before.duration();
                let seconds = 0_i64.wrapping_sub_unsigned(before.as_secs());
                match before.subsec_nanos() {
                    0 => PSystemTime { seconds, nanoseconds: 0 },
                    part => PSystemTime { seconds: seconds - 1, nanoseconds: SECOND - part },
                }
            }
        }
    }
}

impl From<PSystemTime> for SystemTime {
    #[inline]
    fn from(value: PSystemTime) -> Self {
        value.get()
    }
}

impl PartialEq<SystemTime> for PSystemTime {
    #[inline]
    fn eq(&self, other: &SystemTime) -> bool {
        self.get() == *other
    }
}

impl fmt::Debug for PSystemTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back() {
        let (whole, part) = (Duration::from_secs(5), Duration::new(5, 1));
        for time in [SystemTime::UNIX_EPOCH, SystemTime::now()] {
            for time in [time, time + part, time - part, time + whole, time - whole] {
                assert_eq!(PSystemTime::from(time).get(), time);
            }
        }
        for (seconds, nanoseconds) in [(i64::MIN, 0), (i64::MIN, 1), (i64::MAX, SECOND - 1), (-1, 1)] {
            let time = PSystemTime { seconds, nanoseconds };
            assert!(PSystemTime::from(time.get()) == time, "{seconds} {nanoseconds}");
        }
    }

    #[test]
    fn times_are_in_order() {
        let at = |seconds: i64, part| {
            let whole = Duration::from_secs(seconds.unsigned_abs());
            let second =
                if seconds < 0 { SystemTime::UNIX_EPOCH - whole } else { SystemTime::UNIX_EPOCH + whole };
            PSystemTime::from(second + Duration::from_nanos(part))
        };
        let times = [at(-2, 0), at(-2, 5), at(-1, 0), at(-1, 999_999_999), at(0, 0), at(0, 1), at(1, 0)];
        assert!(times.windows(2).all(|pair| pair[0] < pair[1] && pair[0].get() < pair[1].get()));
    }

    /// A file of unknown origin may contain values that no program writes.
    #[test]
    fn no_numbers_are_too_large() {
        let longest = PDuration { seconds: u64::MAX, nanoseconds: u32::MAX };
        assert_eq!(longest.get(), Duration::MAX);
        let latest = PSystemTime { seconds: i64::MAX, nanoseconds: u32::MAX };
        assert!(latest.get() > SystemTime::now());
    }
}
