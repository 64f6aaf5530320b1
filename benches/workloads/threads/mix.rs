//! `mix`: lookups and updates of random keys by several threads. Compares pheap's map with maps in volatile
//! memory.

use super::rates::{Work, rates};
use super::{Map, OPERATIONS, Setting, at_rate, get, map};
use crate::collections::key;
use crate::scratch::Scratch;
use crate::{Case, Result, Rng, SEED};
use dashmap::DashMap;
use pheap::{Durability, Root};
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::{Arc, PoisonError, RwLock};

/// Percentages of updates, with their names.
const UPDATES: [(u64, &str); 4] = [(0, "0"), (1, "1"), (10, "10"), (100, "100")];
/// Number of maps among which keys are divided.
const SHARDS: u64 = 16;
/// Number of operations between two looks at the time.
const AT_ONCE: u64 = 64;

/// A map that threads share, from keys to numbers.
trait Shared: Send + Sync {
    fn get(&self, key: u64) -> pheap::Result<u64>;
    fn set(&self, key: u64, value: u64) -> pheap::Result<()>;
}

/// Maps on a heap. Each operation is a read or a transaction.
struct OnHeap {
    roots: Vec<Root<Map>>,
    _heap: Scratch,
}

impl OnHeap {
    fn new(setting: &Setting, durability: Durability, shards: u64) -> Result<OnHeap> {
        let heap = setting.memory.heap(durability)?;
        let root = |shard| map(&heap.heap, &format!("map {shard}"), 0);
        let roots: Vec<_> = (0..shards).map(root).collect::<pheap::Result<_>>()?;
        Ok(OnHeap { roots, _heap: heap })
    }
}

impl Shared for OnHeap {
    fn get(&self, key: u64) -> pheap::Result<u64> {
        get(&self.roots[shard(key, self.roots.len())], key)
    }

    fn set(&self, key: u64, value: u64) -> pheap::Result<()> {
        self.roots[shard(key, self.roots.len())].txn(|tx, map| map.insert(tx, &key, value).map(drop))
    }
}

struct Locked(Vec<RwLock<HashMap<u64, u64>>>);

impl Shared for Locked {
    fn get(&self, key: u64) -> pheap::Result<u64> {
        let map = self.0[shard(key, self.0.len())].read().unwrap_or_else(PoisonError::into_inner);
        Ok(map.get(&key).copied().unwrap_or(0))
    }

    fn set(&self, key: u64, value: u64) -> pheap::Result<()> {
        let mut map = self.0[shard(key, self.0.len())].write().unwrap_or_else(PoisonError::into_inner);
        map.insert(key, value);
        Ok(())
    }
}

impl Shared for DashMap<u64, u64> {
    fn get(&self, key: u64) -> pheap::Result<u64> {
        Ok(DashMap::get(self, &key).map_or(0, |value| *value))
    }

    fn set(&self, key: u64, value: u64) -> pheap::Result<()> {
        self.insert(key, value);
        Ok(())
    }
}

/// Returns the number of the map of a key. Keys are random numbers.
fn shard(key: u64, shards: usize) -> usize {
    (key >> 32) as usize % shards
}

pub(super) fn cases(setting: &Setting) -> Result<Vec<Case>> {
    let locked = |shards| move |_: &Setting| Ok(Locked((0..shards).map(|_| RwLock::default()).collect()));
    let on_heap = |shards| move |setting: &Setting| OnHeap::new(setting, Durability::Process, shards);
    let mut cases = Vec::new();
    for &threads in &setting.threads {
        for updates in UPDATES {
            let mix = Mix { setting, threads, updates };
            cases.extend([
                mix.case("pheap", "one", on_heap(1)),
                mix.case("pheap", "shards", on_heap(SHARDS)),
                mix.case("rwlock", "one", locked(1)),
                mix.case("rwlock", "shards", locked(SHARDS)),
                mix.case("dashmap", "shards", |_| Ok(DashMap::new())),
            ]);
        }
    }
    Ok(cases)
}

struct Mix<'a> {
    setting: &'a Setting,
    threads: u64,
    updates: (u64, &'static str),
}

impl Mix<'_> {
    fn case<M: Shared + 'static>(
        &self,
        system: &'static str,
        variant: &str,
        make: impl Fn(&Setting) -> Result<M> + 'static,
    ) -> Case {
        let (setting, threads, (percent, name)) = (self.setting.clone(), self.threads, self.updates);
        Case::new(system, "mix", format!("{variant}:{name}"), OPERATIONS, move || {
            let map = Arc::new(make(&setting)?);
            (0..setting.keys).try_for_each(|i| map.set(key(i), i))?;
            let works = (0..threads).map(|t| mixed(map.clone(), setting.keys, percent, t)).collect();
            Ok(at_rate(rates(works, setting.time)?.iter().sum()))
        })
        .threads(threads)
    }
}

fn mixed<M: Shared + 'static>(map: Arc<M>, keys: u64, percent: u64, thread: u64) -> Work<'static> {
    let mut rng = Rng::from_seed(SEED + thread);
    Box::new(move || {
        for _ in 0..AT_ONCE {
            let key = key(rng.scaled(keys));
            if rng.scaled(100) < percent {
                map.set(key, rng.next_u64())?;
            } else {
                black_box(map.get(key)?);
            }
        }
        Ok(AT_ONCE)
    })
}
