//! Keys are removed when the data need more memory than they may (`maxmemory`), as `maxmemory-policy` says.
//!
//! As in Redis, some keys are looked at, which are chosen at random, and the best of them go. Here, these are keys of one shard, for it has as many as say enough about all; where shards
//! have few keys, they are keys of several. Those that go from one shard go in one transaction.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use pheap::{Commit, View};

use crate::command::Effects;
use crate::config::Config;
use crate::data::{Change, DATABASES, Db, size};
use crate::server::clocks::Clocks;
use crate::server::{Server, now};
use crate::text::random::{below, random, weighted};

/// Keys are looked at in one shard after the other until these have so many.
const ENOUGH: usize = 1024;

/// A shard of many keys is one in which the samples of so many choices are taken at once.
const CHOICES: usize = 8;

/// Elements of a value that are looked at to say how large it is.
const SAMPLES: usize = 16;

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// The data need no more memory than they may.
    Enough,
    /// They need more, and there was no time to change that, or it cannot be changed just now. Others go on with it.
    Later,
    /// They need more, and there is nothing that may be removed.
    None,
}

/// Which keys go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Idle,
    SeldomUsed,
    Random,
    FirstToExpire,
}

/// What `maxmemory-policy` and its relatives say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Policy {
    order: Order,
    /// Whether only keys go that have a deadline.
    is_volatile: bool,
    samples: usize,
}

impl Policy {
    fn of(config: &Config) -> Option<Policy> {
        let (which, order) = config.text("maxmemory-policy").split_once('-')?;
        let order = match order {
            "lru" => Order::Idle,
            "lfu" => Order::SeldomUsed,
            "random" => Order::Random,
            _ => Order::FirstToExpire,
        };
        let samples = if order == Order::Random { 1 } else { config.int("maxmemory-samples") as usize };
        Some(Policy { order, is_volatile: which == "volatile", samples })
    }

    fn len(self, db: &Db<'_>) -> usize {
        if self.is_volatile { db.deadlines().len() } else { db.len() }
    }

    /// Calls `f` with keys that are chosen at random, at most so many, and how good it is that they go. How many they were.
    fn choose<'r>(
        self,
        view: &View<'r>,
        db: &Db<'r>,
        wanted: usize,
        clocks: &Clocks,
        now: i64,
        f: &mut impl FnMut(u64, &[u8]),
    ) -> usize {
        if self.order == Order::Random {
            let key = if self.is_volatile {
                db.deadlines().choose(view, random).map(|(key, _)| key)
            } else {
                db.keys().choose(view, random).map(|(key, _)| key)
            };
            return key.into_iter().map(|key| f(random(), key)).count();
        }
        let score = |key: &[u8], deadline: i64| match self.order {
            Order::Idle => clocks.idle(key, now),
            Order::SeldomUsed => u64::from(u8::MAX - clocks.often(key, now)),
            Order::FirstToExpire => i64::MAX.saturating_sub(deadline) as u64,
            Order::Random => 0,
        };
        // Those whose hashes are beside one another have nothing else in common.
        if self.is_volatile {
            some(db.deadlines().scan(view, random()).0, wanted, |(key, &at)| f(score(key, at), key))
        } else {
            some(db.keys().scan(view, random()).0, wanted, |(key, _)| f(score(key, 0), key))
        }
    }
}

/// Calls `f` with as many of these as are wanted, beginning at any. How many they were.
fn some<T>(items: impl ExactSizeIterator<Item = T>, wanted: usize, f: impl FnMut(T)) -> usize {
    let len = items.len();
    items.skip(below(len.saturating_sub(wanted) + 1)).take(wanted).map(f).count()
}

/// A key that may go.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    score: u64,
    shard: usize,
    db: usize,
    key: Vec<u8>,
}

/// How long commands wait at most until there is memory: what `maxmemory-eviction-tenacity` means in Redis.
fn patience(tenacity: i64) -> Duration {
    match tenacity {
        ..=10 => Duration::from_micros(50 * tenacity.max(0) as u64),
        11..100 => Duration::from_secs_f64(500e-6 * 1.15f64.powi(tenacity as i32 - 10)),
        _ => Duration::MAX,
    }
}

/// Removes keys until the data need no more memory than they may. Leaves what others are to be told of that, and when it is durable. This thread has passed no gates, and is in no transaction.
///
/// # Errors
/// If the heap cannot be changed. What was left until then counts.
pub fn make_room(server: &Server, effects: &mut Effects, commits: &mut Vec<Commit>) -> pheap::Result<Room> {
    let memory = &server.memory;
    if memory.excess() == 0 {
        return Ok(Room::Enough);
    }
    // A thread that serves others while its script is slow is in a transaction; while clients are paused, the data stay as they are; and what a replica has is its master's affair.
    if server.role.is_replica() || server.scripts.is_busy() || server.paused().is_some() {
        return Ok(Room::Later);
    }
    if memory.is_stuck() {
        return Ok(Room::None);
    }
    let (policy, patience) = {
        let config = server.config.read();
        (Policy::of(&config), patience(config.int("maxmemory-eviction-tenacity")))
    };
    let began = Instant::now();
    let room = Eviction { server, effects, commits }.free(policy, || began.elapsed() > patience);
    let took = began.elapsed().as_millis() as u64;
    let threshold = server.limits.latency.load(Relaxed);
    if threshold > 0 && took >= threshold as u64 {
        server.latency.add("eviction-cycle", now() / 1000, took);
    }
    room
}

/// What removes keys, and where it leaves what others are to be told of that, and when it is durable.
struct Eviction<'e> {
    server: &'e Server,
    effects: &'e mut Effects,
    commits: &'e mut Vec<Commit>,
}

impl Eviction<'_> {
    fn free(&mut self, policy: Option<Policy>, is_over: impl Fn() -> bool) -> pheap::Result<Room> {
        let server = self.server;
        let (memory, mut has_removed) = (&server.memory, false);
        loop {
            if memory.excess() == 0 {
                return Ok(Room::Enough);
            }
            if has_removed && is_over() {
                return Ok(Room::Later);
            }
            // Garbage first: what is found costs nobody a key.
            if let Some(doubtful) = memory.doubtful(false) {
                if doubtful.is_small && !is_over() && collect(server, doubtful.shard)? {
                    continue;
                }
                memory.wake_collector();
                if !memory.is_far_over() {
                    return Ok(Room::Later);
                }
            }
            if let Some(policy) = policy {
                let Some(there_were_some) = self.evict(policy)? else {
                    return Ok(Room::Later);
                };
                if there_were_some {
                    has_removed = true;
                    continue;
                }
            }
            // Nothing may go, so whatever was written is looked at.
            match memory.doubtful(true) {
                Some(doubtful) if doubtful.is_small && !is_over() && collect(server, doubtful.shard)? => {}
                // A command that is refused although there is memory is worse than one that waits for it.
                Some(doubtful) if doubtful.is_much => {
                    let Ok(_passed) = server.gates.pass([doubtful.shard], true, &server.scripts) else {
                        return Ok(Room::Later);
                    };
                    memory.collect(&server.store, doubtful.shard)?;
                }
                // Another thread may have collected it meanwhile.
                _ if memory.excess() == 0 => return Ok(Room::Enough),
                doubtful => {
                    if doubtful.is_none_or(|doubtful| !doubtful.is_small) {
                        memory.set_stuck();
                    }
                    memory.wake_collector();
                    return Ok(Room::None);
                }
            }
        }
    }

    /// Removes some keys. Whether there were such that may go; none if a script is slow by now.
    fn evict(&mut self, policy: Policy) -> pheap::Result<Option<bool>> {
        let server = self.server;
        let Some(mut candidates) = candidates(server, policy)? else { return Ok(None) };
        let there_are_some = !candidates.is_empty();
        while let Some(first) = candidates.first() {
            let shard = first.shard;
            let Ok(_passed) = server.gates.pass([shard], true, &server.scripts) else { return Ok(None) };
            let group: Vec<Candidate> = candidates.extract_if(.., |other| other.shard == shard).collect();
            self.remove(policy, shard, &group)?;
            if server.memory.excess() == 0 {
                break;
            }
        }
        Ok(Some(there_are_some))
    }

    /// Removes these keys of a shard, which is behind the gate, until there is room.
    fn remove(&mut self, policy: Policy, shard: usize, group: &[Candidate]) -> pheap::Result<()> {
        let Eviction { server, effects, commits } = self;
        // A little more than necessary, so that not each command has to look for keys.
        let wanted = server.memory.excess() + server.memory.limit() / 1024;
        let mut gone: Vec<&Candidate> = Vec::new();
        let (freed, commit) = server.store.root(shard).txn_deferred(|tx, root| {
            let mut freed = 0;
            for candidate in group {
                let (db, key) = (tx[root].dbs.at(candidate.db), &candidate.key);
                // Somebody else may have been faster.
                let Some(entry) = tx[db].entry(tx, key, i64::MIN) else { continue };
                let has_deadline = tx[db].deadline(tx, key).is_some();
                if policy.is_volatile && !has_deadline {
                    continue;
                }
                let names = size::text(key.len()) * (1 + usize::from(has_deadline));
                freed += (names + size::value(tx, entry.value, SAMPLES)) as u64;
                db.remove(tx, key);
                effects.modified(server, 0, candidate.db, key);
                gone.push(candidate);
                if freed >= wanted {
                    break;
                }
            }
            Ok(freed)
        })?;
        commits.push(commit);
        server.memory.evict(&server.store, shard, freed);
        for Candidate { db, key, .. } in &gone {
            server.clocks.forget(key);
            server.stats.evicted.fetch_add(1, Relaxed);
            effects.notify(server, (*db, b'e', "evicted", key));
            effects.signal(server, *db, key);
        }
        Ok(())
    }
}

/// Collects a shard, if nobody is at work there. Whether it did.
fn collect(server: &Server, shard: usize) -> pheap::Result<bool> {
    let Some(_passed) = server.gates.try_pass(shard) else { return Ok(false) };
    server.memory.collect(&server.store, shard).map(|()| true)
}

/// Keys that may go, the best first.
fn candidates(server: &Server, policy: Policy) -> pheap::Result<Option<Vec<Candidate>>> {
    let (shards, now) = (server.store.shards(), now());
    let (mut all, mut seen) = (Vec::new(), 0);
    let start = below(shards.len());
    for shard in (start..shards.len()).chain(0..start) {
        let Ok(_passed) = server.gates.pass([shard], false, &server.scripts) else { return Ok(None) };
        let (len, _commit) = shards[shard].read_deferred(|view, root| {
            let dbs = view[root].dbs;
            let mut lens = [0; DATABASES];
            (0..DATABASES).for_each(|db| lens[db] = policy.len(&view[dbs.at(db)]));
            let len: usize = lens.iter().sum();
            let draws = policy.samples * (len / ENOUGH * CHOICES).clamp(1, CHOICES);
            let mut wanted = draws.min(len);
            for _ in 0..draws {
                let (Some(db), 1..) = (weighted(&lens), wanted) else { break };
                let mut add = |score, key: &[u8]| all.push(Candidate { score, shard, db, key: key.to_vec() });
                let chosen = policy.choose(view, &view[dbs.at(db)], wanted, &server.clocks, now, &mut add);
                wanted = wanted.saturating_sub(chosen);
            }
            len
        })?;
        seen += len;
        if seen >= ENOUGH {
            break;
        }
    }
    all.sort_unstable_by(|a, b| b.cmp(a));
    all.dedup_by(|a, b| (a.db, &a.key) == (b.db, &b.key));
    // Of as many as one is chosen from, one.
    let best = (all.len() / policy.samples).max(1);
    all.truncate(best);
    Ok(Some(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_policies_are_called() {
        let policy = |name: &str| {
            let mut config = Config::default();
            config.set("maxmemory-policy", name).unwrap();
            Policy::of(&config)
        };
        let is = |order, is_volatile, samples| Some(Policy { order, is_volatile, samples });
        assert_eq!(policy("noeviction"), None);
        assert_eq!(policy("allkeys-lru"), is(Order::Idle, false, 5));
        assert_eq!(policy("volatile-lfu"), is(Order::SeldomUsed, true, 5));
        assert_eq!(policy("allkeys-random"), is(Order::Random, false, 1));
        assert_eq!(policy("volatile-ttl"), is(Order::FirstToExpire, true, 5));
    }

    #[test]
    fn how_long_commands_wait() {
        let micros = |tenacity| patience(tenacity).as_micros();
        assert_eq!((micros(0), micros(10), patience(100)), (0, 500, Duration::MAX));
        assert!((570..580).contains(&micros(11)) && patience(99) > Duration::from_secs(100));
    }
}
