//! Removes keys whose time has come, a few at a time. (Until then they are as good as absent.)

use std::sync::atomic::Ordering::Relaxed;

use crate::command::Effects;
use crate::data::{Change, DATABASES};
use crate::server::{Server, now};
use crate::waiting::Signal;

/// Keys that are looked at in a turn.
const TURN: usize = 200;

/// Where the next turn goes on.
#[derive(Debug, Default)]
pub struct Expiry {
    shard: usize,
    db: usize,
    cursor: u64,
}

impl Expiry {
    /// Looks at some keys that have deadlines, and removes those that have expired. What others are to be told of that.
    ///
    /// # Errors
    /// If the heap cannot be changed.
    pub fn turn(&mut self, server: &Server) -> pheap::Result<Effects> {
        let (shards, now) = (server.store.shards(), now());
        let (mut seen, mut effects) = (0, Effects::default());
        for _ in 0..shards.len() * DATABASES {
            let Some(_passed) = server.gates.try_pass(self.shard) else { break };
            let root = &shards[self.shard];
            let (due, next) = root
                .read_deferred(|view, shard| {
                    let db = &view[view[shard].dbs.at(self.db)];
                    let (mut due, mut at) = (Vec::new(), self.cursor);
                    loop {
                        let (some, next) = db.scan_deadlines(view, at);
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
                root.txn_deferred(|tx, shard| {
                    let db = tx[shard].dbs.at(self.db);
                    for key in &due {
                        // It may have been given another one since.
                        if tx[db].deadline(tx, key).is_some_and(|at| at <= now) {
                            db.remove(tx, key);
                            server.watched.touch(self.db, key);
                            if server.tracking.is_wanted() {
                                server.tracking.changed(&server.clients, 0, key, &mut effects.stale);
                            }
                            server.stats.expired.fetch_add(1, Relaxed);
                            effects.messages.extend(server.notification(self.db, b'x', "expired", key));
                            if server.waiting.has(self.db, key) {
                                effects.signals.push(Signal { db: self.db, key: key.clone() });
                            }
                        }
                    }
                    Ok(())
                })?;
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
        Ok(effects)
    }
}
