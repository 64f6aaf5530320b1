//! `writes_beside_backup`: changes objects of a heap with an unsynced write-ahead log while another thread
//! copies the heap.

use super::latencies::{Latencies, WRITES};
use super::{OPERATIONS, Setting, at_rate};
use crate::{Case, Result, Sample};
use pheap::{Durability, Heap, Options, P, Root, SyncPolicy};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

/// Words of an object: a kilobyte.
const WORDS: usize = 128;
type Object<'r> = [u64; WORDS];
type Table = Option<P<'static, [Option<P<'static, Object<'static>>>]>>;
/// Number of objects that a transaction makes while the heap is filled.
const AT_ONCE: usize = 1000;
/// One in this many objects is changed.
const CHANGED: usize = 10;

/// Measures the times of transactions, alone, and from the beginning of a copy to its end. There are as many
/// objects as keys.
pub(super) fn cases(setting: &Setting) -> Result<Vec<Case>> {
    let case = |variant: &str, copies: bool| {
        let (setup, time, objects) = (setting.disk.clone(), 3 * setting.time, setting.keys as usize);
        Case::new("pheap", "writes_beside_backup", format!("wal:{variant}"), OPERATIONS, move || {
            let options = Options::new().durability(Durability::Wal).sync_policy(SyncPolicy::OnDemand);
            let scratch = setup.heap_with(&options)?;
            let table = fill(&scratch.heap, objects)?;
            scratch.heap.checkpoint()?;
            let folder = setup.folder()?;
            let other = || {
                if copies {
                    return scratch.heap.backup(folder.path().join("copy"));
                }
                thread::sleep(time);
                Ok(())
            };
            writes(&table, objects, other)
        })
    };
    Ok(vec![case("alone", false), case("beside", true)])
}

fn fill(heap: &Heap, objects: usize) -> Result<Root<Table>> {
    let table = heap.root::<Table>("table")?;
    table.txn(|tx, table| {
        let all = tx.alloc_slice(objects, |_| None)?;
        tx[table] = Some(all);
        Ok(())
    })?;
    for first in (0..objects).step_by(AT_ONCE) {
        table.txn(|tx, table| {
            let Some(all) = tx[table] else { return Ok(()) };
            for i in first..objects.min(first + AT_ONCE) {
                let object = tx.alloc([i as u64; WORDS])?;
                tx.slice_mut(all, i..=i)[0] = Some(object);
            }
            Ok(())
        })?;
    }
    Ok(table)
}

/// Changes a word of one object after the other, each in a transaction, while another thread runs `other`.
fn writes(
    table: &Root<Table>,
    objects: usize,
    other: impl FnOnce() -> pheap::Result<()> + Send,
) -> Result<Sample> {
    let (mut latencies, mut done) = (Latencies::new(), 0);
    let over = &AtomicBool::new(false);
    let start = Instant::now();
    let result = thread::scope(|scope| {
        let other = scope.spawn(move || {
            let result = other();
            over.store(true, Relaxed);
            result
        });
        while !over.load(Relaxed) {
            latencies.time(|| change(table, done * 7919 % (objects / CHANGED).max(1)))?;
            done += 1;
        }
        other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    result?;
    Ok(latencies.note(at_rate(done as f64 / start.elapsed().as_secs_f64()), WRITES))
}

fn change(table: &Root<Table>, number: usize) -> pheap::Result<()> {
    table.txn(|tx, table| {
        if let Some(object) = tx[table].and_then(|all| tx[all][number]) {
            tx[object][0] += 1;
        }
        Ok(())
    })
}
