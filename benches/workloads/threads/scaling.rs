//! `reads`, `txn_small`, `alloc`, `insert`, `update_wal`: threads that do the same work on one root, on
//! separate roots, or on separate heaps.

use super::beside::{ENTRIES, reader};
use super::rates::{Work, rates};
use super::{Map, OPERATIONS, Setting, at_rate, map};
use crate::collections::key;
use crate::replace::{Objects, Table, Writer};
use crate::scratch::Scratch;
use crate::{Case, Result, Setup, txn};
use pheap::{Durability, Heap, Options, Root, SyncPolicy};

/// Live objects of a thread of `alloc`, and replacements in a transaction.
const LIVE: u64 = 25_000;
const REPLACED_AT_ONCE: u64 = 30;
/// Number of transactions between two looks at the time.
const AT_ONCE: u64 = 64;
/// Number of entries at which a map is emptied.
const FULL: u64 = 100_000;

/// The object that threads share.
#[derive(Clone, Copy, PartialEq)]
enum Common {
    Root,
    Heap,
    Nothing,
}

impl Common {
    fn name(self) -> &'static str {
        match self {
            Common::Root => "one_root",
            Common::Heap => "own_roots",
            Common::Nothing => "own_heaps",
        }
    }

    /// Makes a root for each thread, and the heaps of these roots.
    fn roots<T>(
        self,
        setup: &Setup,
        options: &Options,
        threads: u64,
        make: fn(&Heap, &str) -> pheap::Result<Root<T>>,
    ) -> Result<(Vec<Scratch>, Vec<Root<T>>)> {
        let heaps = if self == Common::Nothing { threads } else { 1 };
        let heaps: Vec<Scratch> = (0..heaps).map(|_| setup.heap_with(options)).collect::<Result<_>>()?;
        let root = |t: u64| make(&heaps[t as usize % heaps.len()].heap, &format!("root {t}"));
        let roots: Vec<Root<T>> = match self {
            Common::Root => vec![root(0)?; threads as usize],
            _ => (0..threads).map(root).collect::<pheap::Result<_>>()?,
        };
        Ok((heaps, roots))
    }
}

/// A workload of threads that have a root each.
struct Workload<T> {
    bench: &'static str,
    make: fn(&Heap, &str) -> pheap::Result<Root<T>>,
    work: fn(&Root<T>) -> Work<'static>,
}

impl<T: 'static> Workload<T> {
    /// Returns the cases for each number of threads and each kind of sharing.
    fn cases(
        &self,
        setting: &Setting,
        setup: &Setup,
        modes: &[(Options, &str)],
        commons: &[Common],
    ) -> Vec<Case> {
        let Workload { bench, make, work } = *self;
        let mut cases = Vec::new();
        for (options, mode) in modes {
            for &threads in &setting.threads {
                for &common in commons {
                    let (setup, options, time) = (setup.clone(), options.clone(), setting.time);
                    let pass = move || {
                        let (_heaps, roots) = common.roots(&setup, &options, threads, make)?;
                        Ok(at_rate(rates(roots.iter().map(work).collect(), time)?.iter().sum()))
                    };
                    let variant = format!("{mode}:{}", common.name());
                    cases.push(Case::new("pheap", bench, variant, OPERATIONS, pass).threads(threads));
                }
            }
        }
        cases
    }

    /// Returns the cases of heaps in memory, for workloads that write.
    fn in_memory(&self, setting: &Setting) -> Result<Vec<Case>> {
        let modes: Vec<_> = setting.memory.modes().collect();
        Ok(self.cases(setting, &setting.memory, &modes, &[Common::Heap, Common::Nothing]))
    }
}

/// Has one durability only, because it does not matter for reads.
pub(super) fn reads(setting: &Setting) -> Result<Vec<Case>> {
    let make = |heap: &Heap, name: &str| map(heap, name, ENTRIES);
    let modes: Vec<_> = setting.memory.modes().take(1).collect();
    let commons = [Common::Root, Common::Heap, Common::Nothing];
    Ok(Workload { bench: "reads", make, work: reader }.cases(setting, &setting.memory, &modes, &commons))
}

pub(super) fn txn_small(setting: &Setting) -> Result<Vec<Case>> {
    Workload { bench: "txn_small", make: txn::root, work: setter }.in_memory(setting)
}

pub(super) fn alloc(setting: &Setting) -> Result<Vec<Case>> {
    let make = |heap: &Heap, name: &str| {
        let root: Root<Objects<'static>> = heap.root(name)?;
        Table::new(&root, LIVE)?;
        Ok(root)
    };
    let work = |root: &Root<Objects<'static>>| -> Work<'static> {
        let mut writer = Writer::new(Table::found(root.clone(), LIVE));
        Box::new(move || {
            writer.transaction(REPLACED_AT_ONCE)?;
            Ok(REPLACED_AT_ONCE)
        })
    };
    Workload { bench: "alloc", make, work }.in_memory(setting)
}

pub(super) fn insert(setting: &Setting) -> Result<Vec<Case>> {
    let make = |heap: &Heap, name: &str| map(heap, name, 0);
    let work = |root: &Root<Map>| -> Work<'static> {
        let (root, mut next) = (root.clone(), 0);
        Box::new(move || {
            for _ in 0..AT_ONCE {
                root.txn(|tx, map| map.insert(tx, &key(next), next).map(drop))?;
                next += 1;
            }
            if next >= FULL {
                root.txn(|tx, map| {
                    map.clear(tx);
                    Ok(())
                })?;
                next = 0;
            }
            Ok(AT_ONCE)
        })
    };
    Workload { bench: "insert", make, work }.in_memory(setting)
}

/// The workload of `txn_small` with a write-ahead log that is not synced.
pub(super) fn update_wal(setting: &Setting) -> Result<Vec<Case>> {
    let options = Options::new().durability(Durability::Wal).sync_policy(SyncPolicy::OnDemand);
    let modes = [(options, "on_demand")];
    let commons = [Common::Heap, Common::Nothing];
    let workload = Workload { bench: "update_wal", make: txn::root, work: setter };
    Ok(workload.cases(setting, &setting.disk, &modes, &commons))
}

fn setter(root: &Root<txn::Objects<'static>>) -> Work<'static> {
    let (root, mut next) = (root.clone(), 0);
    Box::new(move || {
        for _ in 0..AT_ONCE {
            txn::set_one(&root, next)?;
            next += 1;
        }
        Ok(AT_ONCE)
    })
}
