//! Evicts keys when the data need more memory than `maxmemory`, according to `maxmemory-policy`.
//!
//! As in Redis, a random sample of keys is scored, and the best candidates are evicted. The sample comes from
//! one shard if that has enough keys to represent all of them, and otherwise from several. The candidates of
//! one shard are removed in one transaction.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use pheap::{Commit, View};

use crate::command::Effects;
use crate::config::Config;
use crate::data::{Change, DATABASES, Db, size};
use crate::server::clocks::Clocks;
use crate::server::{Server, now};
use crate::text::random::{below, random, weighted};

/// Shards are sampled one after another until the sampled shards have at least this many keys together that
/// may be evicted, or all shards were sampled.
const ENOUGH: usize = 1024;

/// The number of evictions for which samples are drawn at once in a shard of at least [`ENOUGH`] keys that
/// may be evicted. In a smaller shard, samples are drawn for one eviction.
const CHOICES: usize = 8;

/// The most elements of a value whose sizes are read to estimate the size of the value.
const SAMPLES: usize = 16;

/// The result of [`make_room`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvictionResult {
    /// The data are within the limit.
    Enough,
    /// The data exceed the limit, but time is up, the collector thread has work to do, or eviction is
    /// impossible just now. Later calls go on.
    Later,
    /// The data exceed the limit, no key may be evicted, and no garbage can be collected at once.
    None,
}

/// Which keys are evicted first, as `maxmemory-policy` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EvictionOrder {
    Idle,
    SeldomUsed,
    Random,
    FirstToExpire,
}

/// `maxmemory-policy` and `maxmemory-samples` (1 if keys are evicted at random).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct EvictionPolicy {
    order: EvictionOrder,
    /// Whether only keys with a deadline may be evicted.
    is_volatile: bool,
    samples: usize,
}

impl EvictionPolicy {
    fn from_config(config: &Config) -> Option<EvictionPolicy> {
        let (which, order) = config.text("maxmemory-policy").split_once('-')?;
        let order = match order {
            "lru" => EvictionOrder::Idle,
            "lfu" => EvictionOrder::SeldomUsed,
            "random" => EvictionOrder::Random,
            _ => EvictionOrder::FirstToExpire,
        };
        let samples =
            if order == EvictionOrder::Random { 1 } else { config.int("maxmemory-samples") as usize };
        Some(EvictionPolicy { order, is_volatile: which == "volatile", samples })
    }

    fn len(self, db: &Db<'_>) -> usize {
        if self.is_volatile { db.deadlines().len() } else { db.len() }
    }

    /// Calls `f` with the score and the name of at most `wanted` random keys, of which the caller wants at
    /// least one. A higher score is evicted first. Returns the number of keys.
    fn sample_keys<'r>(
        self,
        view: &View<'r>,
        db: &Db<'r>,
        wanted: usize,
        clocks: &Clocks,
        now: i64,
        f: &mut impl FnMut(u64, &[u8]),
    ) -> usize {
        if self.order == EvictionOrder::Random {
            let key = if self.is_volatile {
                db.deadlines().choose(view, random).map(|(key, _)| key)
            } else {
                db.keys().choose(view, random).map(|(key, _)| key)
            };
            return key.into_iter().map(|key| f(random(), key)).count();
        }
        let score = |key: &[u8], deadline: i64| match self.order {
            EvictionOrder::Idle => clocks.idle(key, now),
            EvictionOrder::SeldomUsed => u64::from(u8::MAX - clocks.frequency(key, now)),
            EvictionOrder::FirstToExpire => i64::MAX.saturating_sub(deadline) as u64,
            EvictionOrder::Random => 0,
        };
        // A scan from a random hash gives a random sample: keys with similar hashes are otherwise unrelated.
        if self.is_volatile {
            sample_consecutive(db.deadlines().scan(view, random()).0, wanted, |(key, &at)| {
                f(score(key, at), key)
            })
        } else {
            sample_consecutive(db.keys().scan(view, random()).0, wanted, |(key, _)| f(score(key, 0), key))
        }
    }
}

/// Calls `f` with at most `wanted` consecutive items from a random start. Returns their number.
fn sample_consecutive<T>(items: impl ExactSizeIterator<Item = T>, wanted: usize, f: impl FnMut(T)) -> usize {
    let len = items.len();
    items.skip(below(len.saturating_sub(wanted) + 1)).take(wanted).map(f).count()
}

/// A key that may be evicted.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EvictionCandidate {
    score: u64,
    shard: usize,
    db: usize,
    key: Vec<u8>,
}

/// Returns how long a command may evict: the meaning of `maxmemory-eviction-tenacity` in Redis.
fn eviction_time_limit(tenacity: i64) -> Duration {
    match tenacity {
        ..=10 => Duration::from_micros(50 * tenacity.max(0) as u64),
        11..100 => Duration::from_secs_f64(500e-6 * 1.15f64.powi(tenacity as i32 - 10)),
        _ => Duration::MAX,
    }
}

/// Evicts keys and collects garbage until the data are within the limit, or until one of the other results in
/// [`EvictionResult`] applies. Adds the effects on other clients to `effects`, and the commits to `commits`.
/// The caller must hold no gate and be in no transaction, unless a script is slow.
///
/// # Errors
/// If the heap cannot be read or changed. The effects and commits of the evictions until then stay, and
/// perhaps needless invalidation notices.
pub fn make_room(
    server: &Server,
    effects: &mut Effects,
    commits: &mut Vec<Commit>,
) -> pheap::Result<EvictionResult> {
    let memory = &server.memory;
    if memory.excess() == 0 {
        return Ok(EvictionResult::Enough);
    }
    // In these states, nothing is evicted: a replica changes only as its master says; a thread that serves
    // other clients during its slow script is in a transaction; and while clients are paused, the data must
    // not change.
    if server.role.is_replica() || server.scripts.is_busy() || server.paused().is_some() {
        return Ok(EvictionResult::Later);
    }
    if memory.is_stuck() {
        return Ok(EvictionResult::None);
    }
    let (policy, patience) = {
        let config = server.config.read();
        (EvictionPolicy::from_config(&config), eviction_time_limit(config.int("maxmemory-eviction-tenacity")))
    };
    let began = Instant::now();
    let room = Eviction { server, effects, commits }.evict_to_limit(policy, || began.elapsed() > patience);
    let took = began.elapsed().as_millis() as u64;
    let threshold = server.options.latency.load(Relaxed);
    if threshold > 0 && took >= threshold as u64 {
        server.latency.add("eviction-cycle", now() / 1000, took);
    }
    room
}

/// Evicts keys; collects the effects on other clients and the commits.
struct Eviction<'e> {
    server: &'e Server,
    effects: &'e mut Effects,
    commits: &'e mut Vec<Commit>,
}

impl Eviction<'_> {
    fn evict_to_limit(
        &mut self,
        policy: Option<EvictionPolicy>,
        is_over: impl Fn() -> bool,
    ) -> pheap::Result<EvictionResult> {
        let server = self.server;
        let (memory, mut has_removed) = (&server.memory, false);
        loop {
            if memory.excess() == 0 {
                return Ok(EvictionResult::Enough);
            }
            if has_removed && is_over() {
                return Ok(EvictionResult::Later);
            }
            // Garbage is collected first, because that evicts no key.
            if let Some(doubtful) = memory.doubtful(false) {
                if doubtful.is_small && !is_over() && try_collect_shard(server, doubtful.shard)? {
                    continue;
                }
                memory.wake_collector();
                if !memory.is_far_over() {
                    return Ok(EvictionResult::Later);
                }
            }
            if let Some(policy) = policy {
                let Some(there_were_some) = self.evict(policy)? else {
                    return Ok(EvictionResult::Later);
                };
                if there_were_some {
                    has_removed = true;
                    continue;
                }
            }
            // No key may be evicted, so even small amounts of suspected garbage are collected.
            match memory.doubtful(true) {
                Some(doubtful)
                    if doubtful.is_small && !is_over() && try_collect_shard(server, doubtful.shard)? => {}
                // Waiting for a collection is better than refusing a command although there is garbage.
                Some(doubtful) if doubtful.is_much => {
                    let Ok(_passed) = server.gates.pass([doubtful.shard], true, &server.scripts) else {
                        return Ok(EvictionResult::Later);
                    };
                    memory.collect(&server.store, doubtful.shard)?;
                }
                // Another thread may have collected the shard in between.
                _ if memory.excess() == 0 => return Ok(EvictionResult::Enough),
                doubtful => {
                    if doubtful.is_none_or(|doubtful| !doubtful.is_small) {
                        memory.set_stuck();
                    }
                    memory.wake_collector();
                    return Ok(EvictionResult::None);
                }
            }
        }
    }

    /// Evicts the best of a sample of keys. Returns whether there were candidates, or `None` if a gate is
    /// held and a script is slow.
    fn evict(&mut self, policy: EvictionPolicy) -> pheap::Result<Option<bool>> {
        let server = self.server;
        let Some(mut candidates) = candidates(server, policy)? else { return Ok(None) };
        let there_are_some = !candidates.is_empty();
        while let Some(first) = candidates.first() {
            let shard = first.shard;
            let Ok(_passed) = server.gates.pass([shard], true, &server.scripts) else { return Ok(None) };
            let group: Vec<EvictionCandidate> =
                candidates.extract_if(.., |other| other.shard == shard).collect();
            self.remove(policy, shard, &group)?;
            if server.memory.excess() == 0 {
                break;
            }
        }
        Ok(Some(there_are_some))
    }

    /// Removes these keys of a shard until the data are estimated to be a little below the limit. The caller
    /// has passed the shard's gate.
    fn remove(
        &mut self,
        policy: EvictionPolicy,
        shard: usize,
        group: &[EvictionCandidate],
    ) -> pheap::Result<()> {
        let Eviction { server, effects, commits } = self;
        // A little more than necessary is removed, so that the next commands need not evict.
        let wanted = server.memory.excess() + server.memory.limit() / 1024;
        let mut gone: Vec<&EvictionCandidate> = Vec::new();
        let (freed, commit) = server.store.root(shard).txn_deferred(|tx, root| {
            let mut freed = 0;
            for candidate in group {
                let (db, key) = (tx[root].dbs.at(tx, candidate.db), &candidate.key);
                // Another thread may have removed the key.
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
        for EvictionCandidate { db, key, .. } in &gone {
            server.clocks.forget(key);
            server.stats.evicted.fetch_add(1, Relaxed);
            effects.notify(server, (*db, b'e', "evicted", key));
            effects.signal(server, *db, key);
        }
        Ok(())
    }
}

/// Collects a shard if its gate is free. Returns whether the shard was collected.
fn try_collect_shard(server: &Server, shard: usize) -> pheap::Result<bool> {
    let Some(_passed) = server.gates.try_pass(shard) else { return Ok(false) };
    server.memory.collect(&server.store, shard).map(|()| true)
}

/// Returns keys that may be evicted, the best first, or `None` if a gate is held and a script is slow.
fn candidates(server: &Server, policy: EvictionPolicy) -> pheap::Result<Option<Vec<EvictionCandidate>>> {
    let (shards, now) = (server.store.shards(), now());
    let (mut all, mut seen) = (Vec::new(), 0);
    let start = below(shards.len());
    for shard in (start..shards.len()).chain(0..start) {
        let Ok(_passed) = server.gates.pass([shard], false, &server.scripts) else { return Ok(None) };
        let (len, _commit) = shards[shard].read_deferred(|view, root| {
            let dbs = view[root].dbs;
            let mut lens = [0; DATABASES];
            (0..DATABASES).for_each(|db| lens[db] = policy.len(&view[dbs.at(view, db)]));
            let len: usize = lens.iter().sum();
            let draws = policy.samples * (len / ENOUGH * CHOICES).clamp(1, CHOICES);
            let mut wanted = draws.min(len);
            for _ in 0..draws {
                let (Some(db), 1..) = (weighted(&lens), wanted) else { break };
                let mut add =
                    |score, key: &[u8]| all.push(EvictionCandidate { score, shard, db, key: key.to_vec() });
                let chosen =
                    policy.sample_keys(view, &view[dbs.at(view, db)], wanted, &server.clocks, now, &mut add);
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
    // Of each `samples` sampled keys one is a candidate, and of fewer keys one, too.
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
            EvictionPolicy::from_config(&config)
        };
        let is = |order, is_volatile, samples| Some(EvictionPolicy { order, is_volatile, samples });
        assert_eq!(policy("noeviction"), None);
        assert_eq!(policy("allkeys-lru"), is(EvictionOrder::Idle, false, 5));
        assert_eq!(policy("volatile-lfu"), is(EvictionOrder::SeldomUsed, true, 5));
        assert_eq!(policy("allkeys-random"), is(EvictionOrder::Random, false, 1));
        assert_eq!(policy("volatile-ttl"), is(EvictionOrder::FirstToExpire, true, 5));
    }

    #[test]
    fn how_long_commands_wait() {
        let micros = |tenacity| eviction_time_limit(tenacity).as_micros();
        assert_eq!((micros(0), micros(10), eviction_time_limit(100)), (0, 500, Duration::MAX));
        assert!((570..580).contains(&micros(11)) && eviction_time_limit(99) > Duration::from_secs(100));
    }
}
