//! The keys for which clients wait, and the order in which the clients are served.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::data::DATABASES;

/// The keys for which clients wait.
#[derive(Debug, Default)]
pub struct Waiting {
    /// Number of pairs of a client and a key for which it waits.
    count: AtomicUsize,
    /// For each database: the waiting clients of each key, in the order in which they began to wait.
    keys: Mutex<[HashMap<Vec<u8>, Vec<Waiter>>; DATABASES]>,
}

/// A client that waits for a key; in [`Wakeup::writer`], a client that waits until other clients have seen
/// its writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiter {
    /// The client's id.
    pub client: u64,
    /// The index of the client's thread.
    pub thread: usize,
    /// Whether the waiting client gets an error when the key is removed.
    pub needs_key: bool,
}

/// A key that may have changed and at which the clients that wait for it must look again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Signal {
    /// The database of the key.
    pub db: usize,
    /// The key.
    pub key: Vec<u8>,
}

/// The work that is left after keys have changed: the waiting clients try their commands one after the other.
/// Threads pass this work to each other, so that the client that began to wait for a key first is served
/// first.
#[derive(Debug, Default)]
pub struct Wakeup {
    /// The key whose clients are trying now.
    pub key: Option<Signal>,
    /// The clients that wait for `key` and have not tried their commands yet.
    pub waiters: VecDeque<Waiter>,
    /// The changed keys whose clients try afterwards.
    pub signals: VecDeque<Signal>,
    /// The client that changed the keys, if it waits until the clients of all these keys have tried.
    pub writer: Option<Waiter>,
}

impl Waiting {
    /// Adds a client that waits for a key, unless it was added before.
    pub fn add(&self, db: usize, key: &[u8], waiter: Waiter) {
        let mut keys = self.keys.lock();
        let waiters = keys[db].entry(key.to_vec()).or_default();
        if !waiters.contains(&waiter) {
            waiters.push(waiter);
            self.count.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Removes a client that waits for a key.
    pub fn remove(&self, db: usize, key: &[u8], waiter: Waiter) {
        let mut keys = self.keys.lock();
        let Some(waiters) = keys[db].get_mut(key) else { return };
        let before = waiters.len();
        waiters.retain(|other| *other != waiter);
        self.count.fetch_sub(before - waiters.len(), Ordering::SeqCst);
        if waiters.is_empty() {
            keys[db].remove(key);
        }
    }

    /// Returns whether a client waits for a key. A client that is added after this call looks at the key
    /// itself then.
    pub fn has_waiters(&self, db: usize, key: &[u8]) -> bool {
        self.count.load(Ordering::SeqCst) > 0 && self.keys.lock()[db].contains_key(key)
    }

    /// Returns the keys of a database for which clients wait, and which either exist (`is_there`) or are
    /// needed by a client to exist.
    pub fn keys_in(&self, db: usize, mut is_there: impl FnMut(&[u8]) -> bool) -> Vec<Signal> {
        let keys = &self.keys.lock()[db];
        let concerned = keys
            .iter()
            .filter(|(key, waiters)| waiters.iter().any(|waiter| waiter.needs_key) || is_there(key));
        concerned.map(|(key, _)| Signal { db, key: key.clone() }).collect()
    }

    /// Returns the clients that wait for a key, in the order in which they began to wait.
    pub fn for_key(&self, db: usize, key: &[u8]) -> VecDeque<Waiter> {
        self.keys.lock()[db].get(key).into_iter().flatten().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_came_first_is_first() {
        let waiting = Waiting::default();
        let [one, two] = [7, 3].map(|client| Waiter { client, thread: 0, needs_key: false });
        assert!(!waiting.has_waiters(0, b"a"));
        waiting.add(0, b"a", one);
        waiting.add(0, b"a", two);
        waiting.add(0, b"a", one);
        assert_eq!(waiting.for_key(0, b"a"), [one, two]);
        assert!(
            waiting.has_waiters(0, b"a") && !waiting.has_waiters(1, b"a") && !waiting.has_waiters(0, b"b")
        );
        waiting.remove(0, b"a", one);
        assert_eq!(waiting.for_key(0, b"a"), [two]);
        waiting.remove(0, b"a", two);
        assert!(!waiting.has_waiters(0, b"a"));
    }
}
