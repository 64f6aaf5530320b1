//! `swaps`, `set_hash`, `set_tree`, `queue`: the workloads of papers on persistent transactional memory,
//! compared with three such memories in C++ (`benches/peers/durabletx`).

use super::rates::{Work, rates};
use super::{OPERATIONS, Setting, at_rate};
use crate::collections::key;
use crate::scratch;
use crate::server::Server;
use crate::sps::Array;
use crate::{Case, Result, Rng, SEED, Setup};
use pheap::{Durability, Heap, PBTreeMap, PHashMap, PVecDeque, Root};
use std::cell::RefCell;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;

/// Numbers of swaps in a transaction.
const SWAPS: [u64; 6] = [1, 4, 8, 16, 32, 64];
/// Percentages of updates.
const UPDATES: [u64; 3] = [1, 10, 100];
/// Number of elements of a queue at first.
const QUEUED: u64 = 1000;
/// Number of transactions between two looks at the time.
const AT_ONCE: u64 = 16;

/// An operation on the roots. It gets the number of keys, the parameter, and random numbers. It returns the
/// number of operations that it counts for.
type Operation<T> = fn(&[Root<T>], u64, u64, &mut Rng) -> pheap::Result<u64>;

/// A workload.
struct Workload<T> {
    bench: &'static str,
    parameters: &'static [u64],
    /// Makes a root that contains the given numbers (a queue ignores them). All roots together get all
    /// numbers below the number of keys.
    make: fn(&Heap, &str, &[u64]) -> pheap::Result<Root<T>>,
    work: Operation<T>,
}

impl<T: 'static> Workload<T> {
    /// Returns the cases with one root, and with as many roots as threads, of which each operation takes a
    /// random one; and those of the peers, which have no roots.
    fn cases(&self, setting: &Setting) -> Result<Vec<Case>> {
        let peers = peers(&setting.memory, self.bench, setting.keys)?;
        let mut cases = Vec::new();
        for &threads in &setting.threads {
            for &parameter in self.parameters {
                cases.push(self.case(setting, threads, parameter, "one_root", 1));
                if threads > 1 {
                    cases.push(self.case(setting, threads, parameter, "roots", threads));
                }
                for (system, server) in &peers {
                    let (server, seconds) = (server.clone(), setting.time.as_secs_f64());
                    let pass = move || {
                        let answer = server.borrow_mut().ask(&format!("{threads} {parameter} {seconds}"))?;
                        Ok(at_rate(answer["per_second"].as_f64().ok_or("an answer has a rate")?))
                    };
                    let case = Case::new(system, self.bench, parameter.to_string(), OPERATIONS, pass);
                    cases.push(case.threads(threads));
                }
            }
        }
        Ok(cases)
    }

    fn case(&self, setting: &Setting, threads: u64, parameter: u64, name: &str, roots: u64) -> Case {
        let Workload { bench, make, work, .. } = *self;
        let setting = setting.clone();
        let variant = format!("{}:{name}:{parameter}", scratch::name(Durability::Pmem));
        let pass = move || {
            let heap = setting.memory.heap(Durability::Pmem)?;
            let root = |i| {
                let numbers: Vec<u64> = (i..setting.keys).step_by(roots as usize).collect();
                make(&heap.heap, &format!("root {i}"), &numbers)
            };
            let roots: Vec<Root<T>> = (0..roots).map(root).collect::<pheap::Result<_>>()?;
            let thread = |t| {
                let (roots, keys, mut rng) = (&roots, setting.keys, Rng::from_seed(SEED + t));
                let work: Work<'_> =
                    Box::new(move || (0..AT_ONCE).map(|_| work(roots, keys, parameter, &mut rng)).sum());
                work
            };
            Ok(at_rate(rates((0..threads).map(thread).collect(), setting.time)?.iter().sum()))
        };
        Case::new("pheap", bench, variant, OPERATIONS, pass).threads(threads)
    }
}

type Peers = Vec<(&'static str, Rc<RefCell<Server>>)>;

/// Starts the memories that are installed, each with the collection of a workload.
fn peers(setup: &Setup, bench: &str, keys: u64) -> Result<Peers> {
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers/durabletx/fetched");
    let mut found = Vec::new();
    for system in ["trinity", "quadra", "romulus"].into_iter().filter(|name| fetched.join(name).exists()) {
        let dir = setup.folder()?;
        let mut command = Command::new(fetched.join(system));
        command.args([bench, &keys.to_string()]).env("PM_FILE", dir.path().join("pm"));
        found.push((system, Rc::new(RefCell::new(Server::start(&mut command, dir)?))));
    }
    if found.is_empty() {
        eprintln!("{bench}: no transactional memories; benches/peers/durabletx/fetch gets them");
    }
    Ok(found)
}

/// Swaps random elements of an array, as many in a transaction as the parameter says.
pub(super) fn swaps(setting: &Setting) -> Result<Vec<Case>> {
    let make = |heap: &Heap, name: &str, numbers: &[u64]| {
        heap.root_or::<Array<'static>>(name, |tx| {
            Ok(Array { items: tx.alloc_slice(numbers.len(), |i| numbers[i])? })
        })
    };
    let work = |roots: &[Root<Array<'static>>], _: u64, swaps: u64, rng: &mut Rng| {
        roots[rng.scaled(roots.len() as u64) as usize].txn(|tx, p| {
            let items = tx[p].items;
            for _ in 0..swaps {
                let mut random = || rng.scaled(items.len(tx) as u64) as usize;
                tx.swap(items.at(tx, random()), items.at(tx, random()));
            }
            Ok(swaps)
        })
    };
    Workload { bench: "swaps", parameters: &SWAPS, make, work }.cases(setting)
}

/// Defines lookups in a set, and removals. Each removal is followed by an insertion of the removed key.
macro_rules! set {
    ($bench:ident, $map:ident) => {
        pub(super) fn $bench(setting: &Setting) -> Result<Vec<Case>> {
            type Map = $map<'static, u64, u64>;
            let make = |heap: &Heap, name: &str, numbers: &[u64]| {
                let root: Root<Map> = heap.root(name)?;
                for some in numbers.chunks(1000) {
                    root.txn(|tx, map| some.iter().try_for_each(|&i| map.insert(tx, &key(i), i).map(drop)))?;
                }
                Ok(root)
            };
            let work = |roots: &[Root<Map>], keys: u64, updates: u64, rng: &mut Rng| {
                let update = rng.scaled(100) < updates;
                let mut random = || {
                    let i = rng.scaled(keys);
                    (&roots[i as usize % roots.len()], key(i))
                };
                if update {
                    let (root, key) = random();
                    if let Some(value) = root.txn(|tx, map| Ok(map.remove(tx, &key)))? {
                        root.txn(|tx, map| map.insert(tx, &key, value))?;
                    }
                } else {
                    for _ in 0..2 {
                        let (root, key) = random();
                        black_box(root.read(|view, map| view[map].contains_key(view, &key))?);
                    }
                }
                Ok(2)
            };
            Workload { bench: stringify!($bench), parameters: &UPDATES, make, work }.cases(setting)
        }
    };
}
set!(set_hash, PHashMap);
set!(set_tree, PBTreeMap);

/// Appends an element in a transaction, and removes the first one in another transaction.
pub(super) fn queue(setting: &Setting) -> Result<Vec<Case>> {
    type Queue = PVecDeque<'static, u64>;
    let make = |heap: &Heap, name: &str, _: &[u64]| {
        let root: Root<Queue> = heap.root(name)?;
        root.txn(|tx, queue| (0..QUEUED).try_for_each(|i| queue.push_back(tx, i)))?;
        Ok(root)
    };
    let work = |roots: &[Root<Queue>], _: u64, _: u64, rng: &mut Rng| {
        let root = &roots[rng.scaled(roots.len() as u64) as usize];
        root.txn(|tx, queue| queue.push_back(tx, rng.next_u64()))?;
        root.txn(|tx, queue| Ok(black_box(queue.pop_front(tx))))?;
        Ok(2)
    };
    Workload { bench: "queue", parameters: &[1], make, work }.cases(setting)
}
