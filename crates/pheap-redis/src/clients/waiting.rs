//! Keys that clients wait for, and in which order they go on.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::data::DATABASES;

/// Keys that clients wait for.
#[derive(Debug, Default)]
pub struct Waiting {
    count: AtomicUsize,
    /// Of each database. Who came first is first.
    keys: Mutex<[HashMap<Vec<u8>, Vec<Waiter>>; DATABASES]>,
}

/// A client that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiter {
    /// Its number.
    pub client: u64,
    /// The number of its thread.
    pub thread: usize,
    /// Whether it ends when the key is removed.
    pub needs_key: bool,
}

/// A key was written to that somebody waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Signal {
    /// Its database.
    pub db: usize,
    /// The key.
    pub key: Vec<u8>,
}

/// What is still to be done after a write: one client after the other looks whether it can go on. Threads hand it on to each other, so that who came first is first.
#[derive(Debug, Default)]
pub struct Wakeup {
    /// The key whose turn it is.
    pub key: Option<Signal>,
    /// Who waits for it and has not looked yet.
    pub waiters: VecDeque<Waiter>,
    /// Keys whose turn comes then.
    pub signals: VecDeque<Signal>,
    /// Who has written: it goes on when all have looked, and is not answered before.
    pub writer: Option<Waiter>,
}

impl Waiting {
    /// Waits for a key.
    pub fn add(&self, db: usize, key: &[u8], waiter: Waiter) {
        let mut keys = self.keys.lock();
        let waiters = keys[db].entry(key.to_vec()).or_default();
        if !waiters.contains(&waiter) {
            waiters.push(waiter);
            self.count.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// No longer.
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

    /// Whether somebody waits for a key. Who begins to wait later looks at the key after that.
    pub fn has(&self, db: usize, key: &[u8]) -> bool {
        self.count.load(Ordering::SeqCst) > 0 && self.keys.lock()[db].contains_key(key)
    }

    /// The keys in a database that clients wait for, if a client needs the key to stay, or `is_there` is true of the key.
    pub fn keys_in(&self, db: usize, mut is_there: impl FnMut(&[u8]) -> bool) -> Vec<Signal> {
        let keys = &self.keys.lock()[db];
        let concerned = keys
            .iter()
            .filter(|(key, waiters)| waiters.iter().any(|waiter| waiter.needs_key) || is_there(key));
        concerned.map(|(key, _)| Signal { db, key: key.clone() }).collect()
    }

    /// Who waits for a key.
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
        assert!(!waiting.has(0, b"a"));
        waiting.add(0, b"a", one);
        waiting.add(0, b"a", two);
        waiting.add(0, b"a", one);
        assert_eq!(waiting.for_key(0, b"a"), [one, two]);
        assert!(waiting.has(0, b"a") && !waiting.has(1, b"a") && !waiting.has(0, b"b"));
        waiting.remove(0, b"a", one);
        assert_eq!(waiting.for_key(0, b"a"), [two]);
        waiting.remove(0, b"a", two);
        assert!(!waiting.has(0, b"a"));
    }
}
