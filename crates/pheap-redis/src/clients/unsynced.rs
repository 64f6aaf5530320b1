//! Tracks which keys have unsynced writes, so that reads of other keys do not wait for the disk.
//!
//! The state that a read sees of a shard is durable when the last transaction of the shard is durable. But
//! that transaction need not have written the keys that the read asks for. Writes are therefore counted by
//! the hash slots of their keys until they are durable. If no reply waits for the writes, they are counted
//! only until the turn of their thread ends. A read of keys in other slots does not wait for them. A write
//! whose keys are unknown counts for all slots.
//!
//! The removal of an expired or evicted key is not counted. After a power failure an expired key expires
//! again, and an evicted key may be there as before.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::data::{SLOTS, slot};

/// The index of the count of writes whose keys are unknown.
const ALL: usize = SLOTS;

/// Counts of writes that may not be durable, by slot.
#[derive(Debug)]
pub struct Unsynced {
    /// One count for each slot, and one for writes that may have changed any key.
    counts: Box<[AtomicU32]>,
}

/// The counted writes, as indexes of the counts in [`Unsynced`]. The owner must [uncount](Unsynced::uncount)
/// them when they are durable, and not earlier, unless no reply waits for their commit or they were rolled
/// back.
pub type Counted = Vec<u16>;

impl Default for Unsynced {
    fn default() -> Unsynced {
        Unsynced { counts: (0..=ALL).map(|_| AtomicU32::new(0)).collect() }
    }
}

impl Unsynced {
    /// Counts a write to keys, or to any key if `keys` is None. The caller holds the locks of the shards, and
    /// the write comes afterwards. A thread that sees the write therefore sees the count, unless the write is
    /// durable.
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

    /// Uncounts writes that are durable or rolled back, or for which no reply waits. Empties `counted`.
    pub fn uncount(&self, counted: &mut Counted) {
        for place in counted.drain(..) {
            self.counts[usize::from(place)].fetch_sub(1, Ordering::Release);
        }
    }

    /// Returns whether a write that this thread may have seen is perhaps not durable: a write to this key, to
    /// another key of its slot, or to unknown keys.
    pub fn is_unsynced(&self, key: &[u8]) -> bool {
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
        assert!(unsynced.is_unsynced(a) && unsynced.is_unsynced(b) && !unsynced.is_unsynced(b"c"));
        unsynced.uncount(&mut later);
        assert!(!unsynced.is_unsynced(a) && !unsynced.is_unsynced(b));
        unsynced.count(None::<[&[u8]; 0]>, &mut later);
        assert!(unsynced.is_unsynced(a) && unsynced.is_unsynced(b"c"));
        unsynced.uncount(&mut later);
        assert!(!unsynced.is_unsynced(a) && later.is_empty());
    }
}
