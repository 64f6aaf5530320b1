//! `durable_beside_sync`, `tasks_beside_sync`: reads of durable versions during transactions that wait for
//! the disk.

use super::beside::{ENTRIES, timed_reads, timed_writes, with_log};
use super::latencies::{Latencies, READS, WRITES};
use super::rates::{Work, rates};
use super::{Setting, at_rate};
use crate::collections::key;
use crate::{Case, Result};
use pheap::{Commit, Heap, PSnapMap, Root};
use std::hint::black_box;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

type Map = PSnapMap<'static, u64, u64>;

/// Numbers of tasks, which all run in one thread.
const READERS: u64 = 50;
const WRITERS: u64 = 8;

/// Measures the times of reading an entry of the durable version, alone and while another thread changes
/// entries and waits for each commit.
pub(super) fn reads(setting: &Setting) -> Result<Vec<Case>> {
    let time = 3 * setting.time;
    let case = |variant, beside: bool| {
        with_log(setting, "durable_beside_sync", variant, filled, move |map| {
            let (mut reads, mut writes) = (Latencies::new(), Latencies::new());
            let mut works = vec![timed_reads(map, get, &mut reads)];
            works.extend(beside.then(|| timed_writes(map, put, &mut writes)));
            let rate = rates(works, time)?[0];
            Ok(writes.note(reads.note(at_rate(rate), READS), WRITES))
        })
    };
    Ok(vec![case("alone", false), case("beside", true)])
}

/// Measures the rate of reads of a server that has one thread for many tasks, alone and with tasks that
/// update one key each and wait for the disk.
pub(super) fn tasks(setting: &Setting) -> Result<Vec<Case>> {
    let time = 3 * setting.time;
    let case = |variant, writers: u64| {
        with_log(setting, "tasks_beside_sync", variant, filled, move |map| {
            let mut writers: Vec<Writer> = (0..writers).map(|number| Writer::new(map, number)).collect();
            let (map, mut next) = (map.clone(), 0);
            let turn = move || {
                writers.iter_mut().try_for_each(Writer::run)?;
                for _ in 0..READERS {
                    black_box(get(&map, key(next % ENTRIES))?);
                    next += 1;
                }
                Ok(READERS)
            };
            let works: Vec<Work<'_>> = vec![Box::new(turn)];
            Ok(at_rate(rates(works, time)?[0]))
        })
    };
    Ok(vec![case("alone", 0), case("beside", WRITERS)])
}

fn filled(heap: &Heap) -> pheap::Result<Root<Map>> {
    let map: Root<Map> = heap.root("map")?;
    map.txn(|tx, map| map.extend(tx, (0..ENTRIES).map(|i| (key(i), i))))?;
    Ok(map)
}

fn get(map: &Root<Map>, key: u64) -> pheap::Result<u64> {
    map.durable_snapshot()?.read(|map| map.get(&key).copied().unwrap_or(0))
}

fn put(map: &Root<Map>, key: u64, value: u64) -> pheap::Result<()> {
    map.txn(|tx, map| map.insert(tx, &key, &value).map(drop))
}

/// A task that changes its entry again and again, and waits until each change is durable.
struct Writer {
    map: Root<Map>,
    key: u64,
    value: u64,
    commit: Commit,
    woken: Arc<Woken>,
}

/// Whether a task must run.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

impl Writer {
    fn new(map: &Root<Map>, number: u64) -> Writer {
        let (_, commit) = map.read_deferred(|_, _| ()).expect("the heap is open");
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        Writer { map: map.clone(), key: key(number), value: 0, commit, woken }
    }

    /// Runs the task if it was woken.
    fn run(&mut self) -> pheap::Result<()> {
        if !self.woken.0.swap(false, Relaxed) {
            return Ok(());
        }
        let waker = Waker::from(self.woken.clone());
        while let Poll::Ready(done) = Pin::new(&mut self.commit).poll(&mut Context::from_waker(&waker)) {
            done?;
            self.value += 1;
            let (key, value) = (self.key, !self.value);
            self.commit = self.map.txn_deferred(|tx, map| map.insert(tx, &key, &value))?.1;
        }
        Ok(())
    }
}
