//! How often keys were looked up that were there, and that were not: `keyspace_hits`, `keyspace_misses`.

use std::cell::Cell;

thread_local! {
    /// Of this thread, since somebody has asked.
    static LOOKUPS: Cell<Lookups> = const { Cell::new(Lookups { hits: 0, misses: 0 }) };
}

/// How often keys were looked up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lookups {
    /// They were there.
    pub hits: u64,
    /// They were not.
    pub misses: u64,
}

impl Lookups {
    /// Those of this thread since the last call.
    pub fn take() -> Lookups {
        LOOKUPS.take()
    }

    /// A key was looked up.
    pub(super) fn add(was_there: bool) {
        let Lookups { hits, misses } = LOOKUPS.get();
        LOOKUPS.set(Lookups { hits: hits + u64::from(was_there), misses: misses + u64::from(!was_there) });
    }
}
