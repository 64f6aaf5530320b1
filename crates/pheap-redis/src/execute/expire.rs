//! Removes expired keys, a few at a time. Until an expired key is removed, lookups by commands of clients do
//! not find it, but `DBSIZE` counts it.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use pheap::Commit;

use crate::command::Effects;
use crate::data::{Change, DATABASES};
use crate::server::{Server, now};

/// Number of keys with deadlines that one turn looks at, approximately.
const TURN: usize = 200;

/// The position in the heap at which the next turn begins.
#[derive(Debug, Default)]
pub struct Expiry {
    shard: usize,
    db: usize,
    cursor: u64,
    /// Per shard: number of expired keys found since the last time that their number gave the shard to the
    /// collector.
    removed: Vec<usize>,
}

impl Expiry {
    /// Removes expired keys, in one turn or more. Begins another turn until `until`, while more than a tenth
    /// of the keys that the last turn looked at had expired. Adds the effects on other clients, and the
    /// commits.
    ///
    /// # Errors
    /// If the heap cannot be read or changed. The effects and commits that were added until then stay.
    /// Watched keys that the failed transaction would have removed may count as changed.
    pub fn run(
        &mut self,
        server: &Server,
        until: Instant,
        effects: &mut Effects,
        commits: &mut Vec<Commit>,
    ) -> pheap::Result<()> {
        loop {
            let (seen, removed) = self.expire_some(server, effects, commits)?;
            if removed <= seen / 10 || Instant::now() >= until {
                return Ok(());
            }
        }
    }

    /// Looks at some keys with deadlines, and removes those that have expired. Returns the number of keys
    /// that it has looked at, and the number of those that had expired. Stops at a shard whose gate is not
    /// free.
    fn expire_some(
        &mut self,
        server: &Server,
        effects: &mut Effects,
        commits: &mut Vec<Commit>,
    ) -> pheap::Result<(usize, usize)> {
        let (shards, now) = (server.store.shards(), now());
        let (mut seen, mut removed) = (0, 0);
        for _ in 0..shards.len() * DATABASES {
            let Some(_passed) = server.gates.try_pass(self.shard) else { break };
            let root = &shards[self.shard];
            let (due, next) = root
                .read_deferred(|view, shard| {
                    let db = &view[view[shard].dbs.at(view, self.db)];
                    let (mut due, mut at) = (Vec::new(), self.cursor);
                    loop {
                        let (some, next) = db.deadlines().scan(view, at);
                        for (key, deadline) in some {
                            seen += 1;
                            if *deadline <= now {
                                due.push(key.to_vec());
                            }
                        }
                        at = next;
                        if at == 0 || seen >= TURN {
                            return (due, at);
                        }
                    }
                })?
                .0;
            if !due.is_empty() {
                let mut gone = Vec::new();
                let (left, commit) = root.txn_deferred(|tx, shard| {
                    let db = tx[shard].dbs.at(tx, self.db);
                    for key in &due {
                        // Since the read, the key may have got a new deadline, or be gone.
                        if tx[db].deadline(tx, key).is_some_and(|at| at <= now) {
                            db.remove(tx, key);
                            effects.modified(server, 0, self.db, key);
                            gone.push(key);
                        }
                    }
                    let left = tx[db].len();
                    if left == 0 {
                        // A map keeps its capacity when keys are removed. Clearing an empty map frees the
                        // capacity.
                        db.clear(tx);
                    }
                    Ok(left)
                })?;
                for key in gone {
                    server.stats.expired.fetch_add(1, Relaxed);
                    effects.notify(server, (self.db, b'x', "expired", key));
                    effects.signal(server, self.db, key);
                }
                server.memory.count_changes(&server.store, self.shard, due.len() as u64);
                self.removed.resize(shards.len(), 0);
                let removed_here = &mut self.removed[self.shard];
                *removed_here += due.len();
                // A collection visits the keys that are left. It is worth its cost if no more keys are left
                // than were removed. (Keys in the other databases of the shard do not count here.)
                if *removed_here >= left {
                    *removed_here = 0;
                    server.memory.flush(&[self.shard]);
                }
                removed += due.len();
                commits.push(commit);
            }
            self.cursor = next;
            if next == 0 {
                self.db = (self.db + 1) % DATABASES;
                self.shard = if self.db == 0 { (self.shard + 1) % shards.len() } else { self.shard };
            }
            if seen >= TURN {
                break;
            }
        }
        Ok((seen, removed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::data::{Store, Value};
    use std::time::Duration;

    /// Returns a server with this many expired keys, and others that do not expire.
    fn server_with_keys(expired: usize, others: usize) -> Server {
        let store = Store::in_memory().unwrap();
        for number in 0..expired + others {
            let key = format!("key {number}").into_bytes();
            let shard = store.root(store.shard_of(&key));
            shard
                .txn(|tx, root| {
                    let db = tx[root].dbs.at(tx, 3);
                    db.set(tx, &key, Value::Int(1))?;
                    db.set_deadline(tx, &key, Some(if number < expired { 1 } else { i64::MAX }))
                })
                .unwrap();
        }
        Server::new(store, Config::default(), Vec::new(), 0)
    }

    fn keys_left(server: &Server) -> usize {
        let len = |root: &pheap::Root<_>| {
            root.read(|view, shard: pheap::P<'_, crate::data::Shard<'_>>| {
                view[view[shard].dbs.at(view, 3)].len()
            })
            .unwrap()
        };
        server.store.shards().iter().map(len).sum()
    }

    #[test]
    fn many_that_have_expired_are_removed_at_once() {
        let server = server_with_keys(5000, 10);
        let (mut expiry, mut effects, mut commits) = (Expiry::default(), Effects::default(), Vec::new());
        expiry.run(&server, Instant::now() + Duration::from_secs(1000), &mut effects, &mut commits).unwrap();
        assert!(keys_left(&server) < 10 + 5000 / 10 && !commits.is_empty());
        // After `until`, there is only one turn.
        let before = keys_left(&server);
        expiry.run(&server, Instant::now(), &mut effects, &mut commits).unwrap();
        assert!(keys_left(&server) + TURN >= before);
    }
}
