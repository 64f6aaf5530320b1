//! Which keys were written to since the log was synced, so that reads of all others wait for no disk.
//!
//! What a read has seen of a shard is durable when the shard's last transaction is. Most reads have seen nothing of that one. So writes are counted by the hash slots of their keys, until they
//! are durable, and a read of keys in other slots is answered at once.
//!
//! Keys that go because their time has come, or because there is no memory, are not counted. After a power failure the former are gone again, and the latter may be back as they were.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::data::{SLOTS, slot};

/// Stands for all slots.
const ALL: usize = SLOTS;

/// Counts of writes that may not be durable, by slots.
#[derive(Debug)]
pub struct Unsynced {
    /// One for each slot, and one for writes that may have touched any.
    counts: Box<[AtomicU32]>,
}

/// Writes that are counted, in one of the places of [`Unsynced`] each. They must be [uncounted](Unsynced::uncount) when they are durable, and not before.
pub type Counted = Vec<u16>;

impl Default for Unsynced {
    fn default() -> Unsynced {
        Unsynced { counts: (0..=ALL).map(|_| AtomicU32::new(0)).collect() }
    }
}

impl Unsynced {
    /// Counts a write to keys; to any, if there are none. Called with their shards locked, before it happens: so whoever sees the write sees the count, unless the write is durable.
    pub fn count<'k>(&self, keys: Option<impl IntoIterator<Item = &'k [u8]>>, counted: &mut Counted) {
        let mut add = |place: usize| {
            self.counts[place].fetch_add(1, Ordering::Relaxed);
            counted.push(place as u16);
        };
        match keys {
            Some(keys) => keys.into_iter().for_each(|key| add(slot(key))),
            None => add(ALL),
        }
    }

    /// These are durable.
    pub fn uncount(&self, counted: &mut Counted) {
        for place in counted.drain(..) {
            self.counts[usize::from(place)].fetch_sub(1, Ordering::Release);
        }
    }

    /// Whether a write to a key may not be durable that somebody has seen by now.
    pub fn has(&self, key: &[u8]) -> bool {
        [ALL, slot(key)].iter().any(|&place| self.counts[place].load(Ordering::Acquire) > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_counted_until_they_are_durable() {
        let unsynced = Unsynced::default();
        let (a, b): (&[u8], &[u8]) = (b"a", b"b");
        let mut counted = Vec::new();
        unsynced.count(Some([a]), &mut counted);
        let mut later = Vec::new();
        unsynced.count(Some([a, b]), &mut later);
        unsynced.uncount(&mut counted);
        assert!(unsynced.has(a) && unsynced.has(b) && !unsynced.has(b"c"));
        unsynced.uncount(&mut later);
        assert!(!unsynced.has(a) && !unsynced.has(b));
        unsynced.count(None::<[&[u8]; 0]>, &mut later);
        assert!(unsynced.has(a) && unsynced.has(b"c"));
        unsynced.uncount(&mut later);
        assert!(!unsynced.has(a) && later.is_empty());
    }
}
