//! When and how often keys were used: for `OBJECT IDLETIME` and `FREQ`, and for the choice of keys to evict.
//!
//! The heap does not have these times, so reads do not write to it. A restart forgets them: a key without a
//! record counts as last used when the server started. The table does not have keys either: the hash of a key
//! selects a place, which several keys may share. There are about as many places as objects in the heap, or
//! up to twice as many, within limits. Keys that share a place have the usage of all of them. The table is
//! empty until a policy or a command needs it.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};

use crate::config::Config;
use crate::text::random::random;

/// The table has parts, so that growing moves only a few places at once.
const PARTS: usize = 64;
/// The range of the binary logarithm of a part's number of places.
const SIZES: std::ops::Range<usize> = 10..28;
/// After about this number of places, one call of [`Clocks::grow_for`] moves no further part.
const MOVES: usize = 1 << 21;

/// The unit of times, in milliseconds. Times in this unit wrap around after 13 years.
const UNIT: i64 = 100;
/// The usage count of a key without a record. The first recorded use always adds 1 to it.
const NEW: u8 = 5;

/// A part of the table. The smaller arrays of places stay allocated when the part grows. Together they are
/// smaller than the present array.
#[derive(Debug, Default)]
struct TableSegment {
    /// The binary logarithm of the number of places, and the index of the present array.
    size: AtomicUsize,
    places: [OnceLock<Box<[AtomicU32]>>; SIZES.end],
}

impl TableSegment {
    fn place(&self, hash: u64) -> Option<&AtomicU32> {
        let places = self.places.get(self.size.load(Relaxed))?.get()?;
        places.get(hash as usize & (places.len() - 1))
    }

    /// Grows the part to 2^`size` places. Returns whether that is more than before.
    fn grow(&self, size: usize) -> bool {
        let old = self.size.load(Relaxed);
        if old >= size {
            return false;
        }
        let old = self.places[old].get();
        self.places[size].get_or_init(|| {
            let value = |i: usize| old.map_or(0, |old| old[i & (old.len() - 1)].load(Relaxed));
            (0..1 << size).map(|i| AtomicU32::new(value(i))).collect()
        });
        self.size.store(size, Relaxed);
        true
    }
}

/// When and how often keys were used.
#[derive(Debug)]
pub struct Clocks {
    is_on: AtomicBool,
    /// Whether uses are recorded as counts, and not as times of last use.
    is_lfu: AtomicBool,
    log_factor: AtomicU32,
    decay_minutes: AtomicU32,
    /// The time that counts as the last use of keys without a record: the start of the server, in units of
    /// 100 ms.
    since: AtomicU32,
    parts: Box<[TableSegment]>,
}

/// The usage of a key, as `RESTORE` and RDB files give it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyUsage {
    /// Seconds since the last use.
    Idle(i64),
    /// The frequency of uses, on the scale of `OBJECT FREQ`.
    Frequency(u8),
}

fn time(now: i64) -> u32 {
    (now / UNIT) as u32
}

fn minutes(now: i64) -> u32 {
    (now / 60_000) as u32 & 0xff_ffff
}

/// Hashes a key. (If a client chooses keys with equal hashes, they share their usage, which does no other
/// harm.)
fn hash(key: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| (hash.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    let mut words = key.chunks_exact(8);
    let mut hash = words.by_ref().fold(key.len() as u64, |hash, word| {
        mix(hash, u64::from_le_bytes(word.try_into().expect("it has 8 bytes")))
    });
    hash = mix(hash, words.remainder().iter().fold(0, |word, &byte| word << 8 | u64::from(byte)));
    (hash ^ hash >> 32).wrapping_mul(FACTOR)
}

impl Default for Clocks {
    fn default() -> Clocks {
        Clocks {
            is_on: AtomicBool::new(false),
            is_lfu: AtomicBool::new(false),
            log_factor: AtomicU32::new(10),
            decay_minutes: AtomicU32::new(1),
            since: AtomicU32::new(0),
            parts: (0..PARTS).map(|_| TableSegment::default()).collect(),
        }
    }
}

impl Clocks {
    /// Makes a table as the options say, for a server that started at `started`.
    pub fn new(config: &Config, started: i64) -> Clocks {
        let clocks = Clocks::default();
        clocks.since.store(time(started), Relaxed);
        clocks.apply(config);
        clocks
    }

    /// Applies the options. Turns recording on if the policy needs it, and never off.
    pub fn apply(&self, config: &Config) {
        self.log_factor.store(config.int("lfu-log-factor") as u32, Relaxed);
        self.decay_minutes.store(config.int("lfu-decay-time") as u32, Relaxed);
        let policy = config.text("maxmemory-policy");
        self.is_lfu.store(policy.ends_with("-lfu"), SeqCst);
        if policy.ends_with("-lfu") || policy.ends_with("-lru") {
            self.turn_on();
        }
    }

    /// Begins to record the uses of keys.
    pub fn turn_on(&self) {
        if !self.is_on.load(SeqCst) {
            self.parts.iter().for_each(|part| _ = part.grow(SIZES.start));
            self.is_on.store(true, SeqCst);
        }
    }

    /// Returns whether uses are recorded as counts, and not as times of last use.
    pub fn is_lfu(&self) -> bool {
        self.is_lfu.load(Relaxed)
    }

    /// Returns whether uses are recorded.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// Grows the table for this number of objects of the heap, if uses are recorded. The name of each key is
    /// an object, and its value may be more of them. One call may grow only some parts.
    pub fn grow_for(&self, objects: u64) {
        if !self.is_on() {
            return;
        }
        let size = (objects / PARTS as u64).max(1).next_power_of_two().ilog2() as usize;
        let size = size.clamp(SIZES.start, SIZES.end - 1);
        let mut moves = 0;
        for part in &self.parts {
            if moves < MOVES && part.grow(size) {
                moves += 1 << size;
            }
        }
    }

    fn place(&self, key: &[u8]) -> Option<&AtomicU32> {
        let hash = hash(key);
        self.parts[(hash >> 58) as usize % PARTS].place(hash)
    }

    /// Records a use of a key, if uses are recorded.
    pub fn record_use(&self, key: &[u8], now: i64) {
        let Some(place) = self.place(key) else { return };
        if !self.is_lfu() {
            return place.store(time(now).max(1), Relaxed);
        }
        let mut count = self.frequency_at(place.load(Relaxed), now);
        let factor = f64::from(self.log_factor.load(Relaxed));
        let chance = 1.0 / (f64::from(count.saturating_sub(NEW)) * factor + 1.0);
        if (random() >> 11) as f64 / (1u64 << 53) as f64 <= chance {
            count = count.saturating_add(1);
        }
        place.store(minutes(now) << 8 | u32::from(count), Relaxed);
    }

    /// Returns the time since the last use of a key, in units of 100 ms. The result has no meaning if the
    /// table records counts of uses.
    pub fn idle(&self, key: &[u8], now: i64) -> u64 {
        let at = self.place(key).map_or(0, |place| place.load(Relaxed));
        let at = if at == 0 { self.since.load(Relaxed) } else { at };
        let idle = time(now).wrapping_sub(at);
        // A time up to a minute in the future counts as now: another thread may have recorded it, for
        // example.
        if idle > u32::MAX - 600 { 0 } else { u64::from(idle) }
    }

    /// Returns the seconds since the last use of a key, with the restriction of [`idle`](Self::idle).
    pub fn idle_seconds(&self, key: &[u8], now: i64) -> i64 {
        self.idle(key, now) as i64 * UNIT / 1000
    }

    /// Returns the recent frequency of uses of a key, on a logarithmic scale.
    pub fn frequency(&self, key: &[u8], now: i64) -> u8 {
        self.frequency_at(self.place(key).map_or(0, |place| place.load(Relaxed)), now)
    }

    fn frequency_at(&self, noted: u32, now: i64) -> u8 {
        if noted == 0 {
            return NEW;
        }
        let elapsed = minutes(now).wrapping_sub(noted >> 8) & 0xff_ffff;
        let decay = elapsed.checked_div(self.decay_minutes.load(Relaxed)).unwrap_or(0);
        (noted as u8).saturating_sub(u8::try_from(decay).unwrap_or(u8::MAX))
    }

    /// Begins to record the uses of keys. Sets the usage of a key, if `usage` has the kind that the table
    /// records.
    pub fn set(&self, key: &[u8], usage: KeyUsage, now: i64) {
        self.turn_on();
        let Some(place) = self.place(key) else { return };
        match usage {
            KeyUsage::Idle(seconds) if !self.is_lfu() => {
                let units = u32::try_from(seconds.saturating_mul(1000 / UNIT)).unwrap_or(u32::MAX >> 1);
                place.store(time(now).wrapping_sub(units).max(1), Relaxed);
            }
            KeyUsage::Frequency(count) if self.is_lfu() => {
                place.store(minutes(now) << 8 | u32::from(count), Relaxed);
            }
            KeyUsage::Idle(_) | KeyUsage::Frequency(_) => {}
        }
    }

    /// Forgets the usage of a key, because it was removed. Its place, which other keys may share, is then
    /// without a record.
    pub fn forget(&self, key: &[u8]) {
        if let Some(place) = self.place(key) {
            place.store(0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clocks(policy: &str, started: i64) -> Clocks {
        let mut config = Config::default();
        config.set("maxmemory-policy", policy).unwrap();
        Clocks::new(&config, started)
    }

    const NOW: i64 = 1_700_000_000_000;

    #[test]
    fn how_long_keys_are_idle() {
        let clocks = clocks("volatile-lru", NOW);
        let later = NOW + 5000;
        clocks.record_use(b"a", later);
        assert_eq!((clocks.idle_seconds(b"a", later), clocks.idle_seconds(b"b", later)), (0, 5));
        assert_eq!(clocks.idle_seconds(b"a", later + 3900), 3);
        assert_eq!(clocks.idle_seconds(b"a", later - 200), 0);
        for (said, told) in [(0, 0), (1000, 1000), (i64::MAX, i64::from(u32::MAX >> 1) / 10)] {
            clocks.set(b"a", KeyUsage::Idle(said), later);
            assert_eq!(clocks.idle_seconds(b"a", later), told);
        }
        clocks.set(b"a", KeyUsage::Frequency(7), later);
        assert!(clocks.idle_seconds(b"a", later) > 0, "that is not what is noted");
    }

    #[test]
    fn how_often_keys_are_used() {
        let clocks = clocks("allkeys-lfu", NOW);
        assert_eq!(clocks.frequency(b"a", NOW), NEW);
        clocks.record_use(b"a", NOW);
        assert_eq!(clocks.frequency(b"a", NOW), NEW + 1);
        (0..10_000).for_each(|_| clocks.record_use(b"a", NOW));
        let often = clocks.frequency(b"a", NOW);
        assert!((30..80).contains(&often), "{often}");
        // The count falls by one each minute.
        assert_eq!(clocks.frequency(b"a", NOW + 600_000), often - 10);
        assert_eq!(clocks.frequency(b"a", NOW + 600_000_000), 0);
        clocks.set(b"a", KeyUsage::Frequency(100), NOW);
        assert_eq!(clocks.frequency(b"a", NOW), 100);
        clocks.forget(b"a");
        assert_eq!(clocks.frequency(b"a", NOW), NEW);
    }

    #[test]
    fn more_places_know_what_fewer_knew() {
        let clocks = clocks("allkeys-lru", NOW);
        let keys: Vec<String> = (0..20_000).map(|i| format!("key {i}")).collect();
        keys.iter().for_each(|key| clocks.record_use(key.as_bytes(), NOW + 9000));
        clocks.grow_for(40_000);
        clocks.grow_for(1_000_000);
        assert!(clocks.parts[0].size.load(Relaxed) > SIZES.start);
        let is_known = |key: &&String| clocks.idle_seconds(key.as_bytes(), NOW + 9000) == 0;
        assert!(keys.iter().all(|key| is_known(&key)));
        // Fewer than half of the keys that were not used share a place with a used key.
        let clocks = self::clocks("allkeys-lru", NOW);
        clocks.grow_for(40_000);
        keys.iter().for_each(|key| clocks.record_use(key.as_bytes(), NOW + 9000));
        let others: Vec<String> = (0..10_000).map(|i| format!("other {i}")).collect();
        let shared = others.iter().filter(is_known_by(&clocks)).count();
        assert!(shared < 4500, "{shared}");
    }

    fn is_known_by(clocks: &Clocks) -> impl Fn(&&String) -> bool {
        |key| clocks.idle_seconds(key.as_bytes(), NOW + 9000) == 0
    }

    #[test]
    fn nothing_is_noted_unasked() {
        let clocks = clocks("noeviction", NOW);
        clocks.record_use(b"a", NOW + 5000);
        assert!(!clocks.is_on() && clocks.idle_seconds(b"a", NOW + 5000) == 5);
        clocks.turn_on();
        clocks.record_use(b"a", NOW + 5000);
        assert_eq!(clocks.idle_seconds(b"a", NOW + 5000), 0);
    }
}
