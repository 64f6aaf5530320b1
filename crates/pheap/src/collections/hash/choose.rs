//! Chooses an entry of a map at random by rejection sampling, as in F. Olken, D. Rotem, P. Xu, "Random
//! sampling from hash files", 1990.

use super::tags::SLOTS;
use super::{HashKey, PHashMap};
use crate::api::view::View;
use crate::layout::Persist;

/// Number of places that the random choice assumes in each bucket. It is a power of two, so that a random
/// number selects a place without a bias.
const PLACES: u64 = SLOTS.next_power_of_two() as u64;

/// Number of places to try, at least, before iterating to the entry with a random number instead. The tries
/// end earlier at a bucket with a chain.
const TRIES: usize = 256;

/// Reading an entry at random.
impl<'r, K: HashKey<'r>, V: Persist> PHashMap<'r, K, V> {
    /// Returns an entry at random, each with the same probability; `None` if the map is empty. `random` must
    /// return uniformly distributed, independent numbers; it is called until a number selects an entry.
    ///
    /// On average a few buckets are tried, whatever the size of the map. Before that, all directories are
    /// searched for the deepest bucket. A map of some thousand entries has no directory, one of up to about
    /// half a million has one of 4 KiB, and one of up to about a hundred million has 257. If most entries
    /// have been removed, or hashes are very uneven, this is O(n); [`shrink_to_fit`](crate::P::shrink_to_fit)
    /// helps after removals.
    ///
    /// If more than 27 keys have equal hashes, which only a bad [`HashKey`] causes, those keys are chosen too
    /// rarely.
    pub fn choose<'v>(
        &self,
        view: &'v View<'r>,
        mut random: impl FnMut() -> u64,
    ) -> Option<(&'v K::Query, &'v V)> {
        if self.is_empty() {
            return None;
        }
        if let Some(root) = self.root() {
            let top = view[root].parts().1;
            // The space of hashes is divided into cells; each bucket covers one or more of them. A bucket has
            // its places in the first of its cells, so that all places have the same probability, and each
            // entry has one place.
            let within_cell = u64::MAX.checked_shr(root.depth(view)).unwrap_or(0);
            for _ in 0..TRIES.max(self.len() / SLOTS) {
                let cell = random() & !within_cell;
                let Some(bucket) = root.walk(view, top, cell).bucket else { continue };
                let head = bucket.head(view);
                if head.next().is_some() {
                    // The chain may have more entries than a bucket has places.
                    break;
                }
                let is_first = cell & head.tags().rest() == 0;
                if is_first && let Some((_, pair)) = bucket.entries(view).nth((random() % PLACES) as usize) {
                    return Some((pair.key.query(view), &pair.value));
                }
            }
        }
        let len = self.len() as u64;
        let number = loop {
            let number = random() & (len.next_power_of_two() - 1);
            if number < len {
                break number;
            }
        };
        self.iter(view).nth(number as usize)
    }
}
