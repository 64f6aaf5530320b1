//! `fill_heap_open` and `fill_heap_marked`: a process fills a heap of `n` MB as in [`fill`](crate::fill), and
//! is killed. Another process opens the heap. Measures the time until its first transaction has committed,
//! and until all reachable objects are marked.
//!
//! Each pass has a separate process, which is killed in the end as well. So each pass finds a heap after a
//! crash.

use crate::child::{Figures, Job, killed_after};
use crate::fill::{Forest, Shape, fill, options, volatile, walk};
use crate::measure::Checksum;
use crate::scratch::{self, heap_in};
use crate::{Case, Result, Sample, Setup, pages};
use pheap::{Durability, Heap, Options, Root};
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;
use tempfile::TempDir;

/// Returns the cases of `fill_heap_open`.
pub fn open_cases(setup: &Setup, n: u64) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for &durability in &setup.durabilities {
        let dir = crashed(setup, durability, n)?;
        cases.push(Case::new("pheap", "fill_heap_open", scratch::name(durability), n, move || {
            let child = killed_after("open", durability, n, &heap_in(&dir))?;
            let sample = Sample { seconds: child.get("seconds")?, ..Sample::default() };
            Ok(sample.noting("open_seconds", child.get("open")?))
        }));
    }
    Ok(cases)
}

/// Returns the cases of `fill_heap_marked`.
pub fn marked_cases(setup: &Setup, n: u64) -> Result<Vec<Case>> {
    let mut cases = vec![Case::new("volatile", "fill_heap_marked", "walk", n, move || {
        let (_, (sample, nodes)) = volatile(n, |tree| Sample::time(|| walk(tree)));
        Ok(sample.with(Checksum::Int(nodes.into())))
    })];
    for &durability in &setup.durabilities {
        let dir = Rc::new(crashed(setup, durability, n)?);
        for (job, suffix) in [("mark", ""), ("remark", ":mapped")] {
            let dir = dir.clone();
            let variant = format!("{}{suffix}", scratch::name(durability));
            cases.push(Case::new("pheap", "fill_heap_marked", variant, n, move || {
                let child = killed_after(job, durability, n, &heap_in(&dir))?;
                let sample = Sample { seconds: child.get("seconds")?, ..Sample::default() };
                Ok(sample
                    .with(Checksum::Int(child.get("objects")? as i128))
                    .noting("populate_seconds", child.get("populate")?))
            }));
        }
    }
    Ok(cases)
}

/// Makes a heap that a process has filled before it was killed.
fn crashed(setup: &Setup, durability: Durability, n: u64) -> Result<TempDir> {
    let dir = setup.folder()?;
    killed_after("fill", durability, n, &heap_in(&dir))?;
    Ok(dir)
}

/// The jobs of children.
pub(crate) static JOBS: [Job; 4] = [
    Job { name: "fill", work: job_fill },
    Job { name: "open", work: job_open },
    Job { name: "mark", work: job_mark },
    Job { name: "remark", work: job_mark_again },
];

fn job_fill(durability: Durability, n: u64, path: &Path) -> Result<Figures> {
    let heap = options(durability).open(path)?;
    fill(&heap.root("forest")?, Shape::new(n))?;
    std::mem::forget(heap); // the process is killed while the heap is open
    Ok(Vec::new())
}

/// Opens the heap, and commits a transaction.
fn open(durability: Durability, path: &Path) -> Result<(Heap, Root<Forest<'static>>)> {
    let heap = Options::new().durability(durability).open(path)?;
    let forest: Root<Forest> = heap.existing_root("forest")?;
    forest.txn(|tx, forest| {
        tx[forest].opened += 1;
        Ok(())
    })?;
    Ok((heap, forest))
}

fn job_open(durability: Durability, _: u64, path: &Path) -> Result<Figures> {
    let start = Instant::now();
    let opened = open(durability, path)?;
    let seconds = start.elapsed().as_secs_f64();
    std::mem::forget(opened);
    Ok(vec![("seconds", seconds), ("open", seconds)])
}

fn job_mark(durability: Durability, _: u64, path: &Path) -> Result<Figures> {
    let populate = pages::time_to_populate(path)?;
    let start = Instant::now();
    let opened = open(durability, path)?;
    opened.0.wait_ready()?;
    let seconds = start.elapsed().as_secs_f64();
    figures(seconds, populate, opened)
}

/// Marks once more, when the process has mapped all pages of the heap.
fn job_mark_again(durability: Durability, _: u64, path: &Path) -> Result<Figures> {
    let opened = open(durability, path)?;
    opened.0.wait_ready()?;
    let populate = pages::populate(path, u64::MAX)?;
    let start = Instant::now();
    opened.0.collect()?;
    let seconds = start.elapsed().as_secs_f64();
    figures(seconds, populate, opened)
}

fn figures(seconds: f64, populate: f64, opened: (Heap, Root<Forest<'static>>)) -> Result<Figures> {
    // Without the root object.
    let objects = opened.0.stats().live_objects - 1;
    std::mem::forget(opened);
    Ok(vec![("seconds", seconds), ("populate", populate), ("objects", objects as f64)])
}
