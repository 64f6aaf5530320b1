//! When, and how often, keys were used: for `OBJECT IDLETIME` and `FREQ`, and for the choice of keys to evict.
//!
//! That is not in the heap, so reads write nothing there, and a restart forgets it: all keys are then as if they were last used when the server was started. Keys are not in the table,
//! either: each has a place, by its hash, which it may share with others. There are about twice as many places as keys. A key that shares one is taken for as much in use as the others.
//! Nothing is noted as long as no policy needs it, and nobody has asked.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};

use crate::config::Config;
use crate::text::random::random;

/// Places are in parts, so that few are moved at once when there are to be more.
const PARTS: usize = 64;
/// The least number of places in a part is 2 to this power, and the greatest one to that.
const SIZES: std::ops::Range<usize> = 10..28;
/// So many places are moved at once, about.
const MOVES: usize = 1 << 21;

/// The unit of times, in milliseconds. They wrap around after 13 years.
const UNIT: i64 = 100;
/// How often a new key counts as used.
const NEW: u8 = 5;

/// A part of the table. Smaller ones stay when there are more places, until the server ends; they are as large as this one together.
#[derive(Debug, Default)]
struct Part {
    /// 2 to this power is the number of places.
    size: AtomicUsize,
    places: [OnceLock<Box<[AtomicU32]>>; SIZES.end],
}

impl Part {
    fn place(&self, hash: u64) -> Option<&AtomicU32> {
        let places = self.places.get(self.size.load(Relaxed))?.get()?;
        places.get(hash as usize & (places.len() - 1))
    }

    /// Whether there are more places now.
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

/// When, and how often, keys were used.
#[derive(Debug)]
pub struct Clocks {
    is_on: AtomicBool,
    /// Whether it is noted how often keys are used, not when.
    counts: AtomicBool,
    log_factor: AtomicU32,
    decay_minutes: AtomicU32,
    /// The time of keys of which nothing was noted.
    since: AtomicU32,
    parts: Box<[Part]>,
}

/// How much a key is in use: what `RESTORE` and RDB files say of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// For so many seconds, it was not.
    Idle(i64),
    /// How often, on the scale of `OBJECT FREQ`.
    Often(u8),
}

fn time(now: i64) -> u32 {
    (now / UNIT) as u32
}

fn minutes(now: i64) -> u32 {
    (now / 60_000) as u32 & 0xff_ffff
}

/// A hash of a key. (Who chooses keys so that they meet makes a worse choice of his own keys.)
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
            counts: AtomicBool::new(false),
            log_factor: AtomicU32::new(10),
            decay_minutes: AtomicU32::new(1),
            since: AtomicU32::new(0),
            parts: (0..PARTS).map(|_| Part::default()).collect(),
        }
    }
}

impl Clocks {
    /// As options say, for a server that was started at this time.
    pub fn new(config: &Config, started: i64) -> Clocks {
        let clocks = Clocks::default();
        clocks.since.store(time(started), Relaxed);
        clocks.follow(config);
        clocks
    }

    /// Does what the options say.
    pub fn follow(&self, config: &Config) {
        self.log_factor.store(config.int("lfu-log-factor") as u32, Relaxed);
        self.decay_minutes.store(config.int("lfu-decay-time") as u32, Relaxed);
        let policy = config.text("maxmemory-policy");
        self.counts.store(policy.ends_with("-lfu"), SeqCst);
        if policy.ends_with("-lfu") || policy.ends_with("-lru") {
            self.turn_on();
        }
    }

    /// From now on it is noted when keys are used.
    pub fn turn_on(&self) {
        if !self.is_on.load(SeqCst) {
            self.parts.iter().for_each(|part| _ = part.grow(SIZES.start));
            self.is_on.store(true, SeqCst);
        }
    }

    /// Whether it is noted how often keys are used, not when.
    pub fn counts(&self) -> bool {
        self.counts.load(Relaxed)
    }

    /// Whether anything is noted.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// Makes more places, if there are few for so many objects: a key has one at least beside its name.
    pub fn fit(&self, objects: u64) {
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

    /// A key is used.
    pub fn touch(&self, key: &[u8], now: i64) {
        let Some(place) = self.place(key) else { return };
        if !self.counts() {
            return place.store(time(now).max(1), Relaxed);
        }
        let mut count = self.often_at(place.load(Relaxed), now);
        let factor = f64::from(self.log_factor.load(Relaxed));
        let chance = 1.0 / (f64::from(count.saturating_sub(NEW)) * factor + 1.0);
        if (random() >> 11) as f64 / (1u64 << 53) as f64 <= chance {
            count = count.saturating_add(1);
        }
        place.store(minutes(now) << 8 | u32::from(count), Relaxed);
    }

    /// For how many units of time a key was not used.
    pub fn idle(&self, key: &[u8], now: i64) -> u64 {
        let at = self.place(key).map_or(0, |place| place.load(Relaxed));
        let at = if at == 0 { self.since.load(Relaxed) } else { at };
        let idle = time(now).wrapping_sub(at);
        // What is a little later than now is of another thread.
        if idle > u32::MAX - 600 { 0 } else { u64::from(idle) }
    }

    /// For how many seconds a key was not used.
    pub fn idle_seconds(&self, key: &[u8], now: i64) -> i64 {
        self.idle(key, now) as i64 * UNIT / 1000
    }

    /// How often a key was used of late, on a logarithmic scale.
    pub fn often(&self, key: &[u8], now: i64) -> u8 {
        self.often_at(self.place(key).map_or(0, |place| place.load(Relaxed)), now)
    }

    fn often_at(&self, noted: u32, now: i64) -> u8 {
        if noted == 0 {
            return NEW;
        }
        let elapsed = minutes(now).wrapping_sub(noted >> 8) & 0xff_ffff;
        let decay = elapsed.checked_div(self.decay_minutes.load(Relaxed)).unwrap_or(0);
        (noted as u8).saturating_sub(u8::try_from(decay).unwrap_or(u8::MAX))
    }

    /// A key is in use as somebody else says, if it is that what is noted.
    pub fn set(&self, key: &[u8], usage: Usage, now: i64) {
        self.turn_on();
        let Some(place) = self.place(key) else { return };
        match usage {
            Usage::Idle(seconds) if !self.counts() => {
                let units = u32::try_from(seconds.saturating_mul(1000 / UNIT)).unwrap_or(u32::MAX >> 1);
                place.store(time(now).wrapping_sub(units).max(1), Relaxed);
            }
            Usage::Often(count) if self.counts() => {
                place.store(minutes(now) << 8 | u32::from(count), Relaxed);
            }
            Usage::Idle(_) | Usage::Often(_) => {}
        }
    }

    /// A key is gone: one that gets its name is a new one.
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
        clocks.touch(b"a", later);
        assert_eq!((clocks.idle_seconds(b"a", later), clocks.idle_seconds(b"b", later)), (0, 5));
        assert_eq!(clocks.idle_seconds(b"a", later + 3900), 3);
        assert_eq!(clocks.idle_seconds(b"a", later - 200), 0);
        for (said, told) in [(0, 0), (1000, 1000), (i64::MAX, i64::from(u32::MAX >> 1) / 10)] {
            clocks.set(b"a", Usage::Idle(said), later);
            assert_eq!(clocks.idle_seconds(b"a", later), told);
        }
        clocks.set(b"a", Usage::Often(7), later);
        assert!(clocks.idle_seconds(b"a", later) > 0, "that is not what is noted");
    }

    #[test]
    fn how_often_keys_are_used() {
        let clocks = clocks("allkeys-lfu", NOW);
        assert_eq!(clocks.often(b"a", NOW), NEW);
        clocks.touch(b"a", NOW);
        assert_eq!(clocks.often(b"a", NOW), NEW + 1);
        (0..10_000).for_each(|_| clocks.touch(b"a", NOW));
        let often = clocks.often(b"a", NOW);
        assert!((30..80).contains(&often), "{often}");
        // Once a minute it is one less.
        assert_eq!(clocks.often(b"a", NOW + 600_000), often - 10);
        assert_eq!(clocks.often(b"a", NOW + 600_000_000), 0);
        clocks.set(b"a", Usage::Often(100), NOW);
        assert_eq!(clocks.often(b"a", NOW), 100);
        clocks.forget(b"a");
        assert_eq!(clocks.often(b"a", NOW), NEW);
    }

    #[test]
    fn more_places_know_what_fewer_knew() {
        let clocks = clocks("allkeys-lru", NOW);
        let keys: Vec<String> = (0..20_000).map(|i| format!("key {i}")).collect();
        keys.iter().for_each(|key| clocks.touch(key.as_bytes(), NOW + 9000));
        clocks.fit(40_000);
        clocks.fit(1_000_000);
        assert!(clocks.parts[0].size.load(Relaxed) > SIZES.start);
        let is_known = |key: &&String| clocks.idle_seconds(key.as_bytes(), NOW + 9000) == 0;
        assert!(keys.iter().all(|key| is_known(&key)));
        // Few of the others share a place with one of them, now that new ones have been noted in their own.
        let clocks = self::clocks("allkeys-lru", NOW);
        clocks.fit(40_000);
        keys.iter().for_each(|key| clocks.touch(key.as_bytes(), NOW + 9000));
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
        clocks.touch(b"a", NOW + 5000);
        assert!(!clocks.is_on() && clocks.idle_seconds(b"a", NOW + 5000) == 5);
        clocks.turn_on();
        clocks.touch(b"a", NOW + 5000);
        assert_eq!(clocks.idle_seconds(b"a", NOW + 5000), 0);
    }
}
