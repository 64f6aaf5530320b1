//! Counts key lookups that found the key and lookups that missed, for `keyspace_hits` and `keyspace_misses`.

use std::cell::Cell;

thread_local! {
    /// The counts of this thread since the last [`Lookups::take`].
    static LOOKUPS: Cell<Lookups> = const { Cell::new(Lookups { hits: 0, misses: 0 }) };
}

/// Counts of key lookups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lookups {
    /// Lookups that found the key.
    pub hits: u64,
    /// Lookups whose key was absent or had expired.
    pub misses: u64,
}

impl Lookups {
    /// Returns the counts of this thread since its last call, and resets them.
    pub fn take() -> Lookups {
        LOOKUPS.take()
    }

    /// Counts one lookup.
    pub(super) fn add(was_there: bool) {
        let Lookups { hits, misses } = LOOKUPS.get();
        LOOKUPS.set(Lookups { hits: hits + u64::from(was_there), misses: misses + u64::from(!was_there) });
    }
}
