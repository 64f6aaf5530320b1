//! Templates: good heaps, which are then damaged. Most are made on simulated media, so they are the same in
//! each process.

use std::fs;
use std::sync::{Arc, OnceLock};

use pheap::sim::Sim;
use pheap::sim::disk::{DiskImage, SimDisk};
use pheap::{Durability, Error, Heap, Options, Result, Root};
use pheap_crash::tuning::SMALL;

use crate::content::{Collections, List, Slices};
use crate::image::{HEAP, Image, LOG};

/// Returns the options that all heaps in this target have in common.
pub fn options() -> Options {
    Options::new()
        .tuning(SMALL)
        .arena_size(32 << 10)
        .reserve(1 << 26)
        .max_size(1 << 20)
        .log_limit(1 << 20)
        .collect_threads(1)
}

/// Returns all templates.
pub fn all() -> &'static [Image] {
    static TEMPLATES: OnceLock<Vec<Image>> = OnceLock::new();
    TEMPLATES.get_or_init(|| {
        let makes: [fn() -> Result<Image>; 13] = [
            fresh,
            closed,
            killed,
            killed_long,
            || with_collections(FEW),
            || with_collections(150), // trees with inner nodes, and tables of many groups
            older_state,
            reopened,
            relocated,
            relocating,
            logged,
            logged_lazily,
            mapped,
        ];
        let all: Vec<Image> = makes.iter().map(|make| make().expect("a template can be made")).collect();
        all.iter().for_each(must_be_understood);
        all
    })
}

/// Checks this target's knowledge of the format: corrected checksums equal the original ones, and places for
/// log entries are found.
fn must_be_understood(image: &Image) {
    let mut again = image.clone();
    again.reseal(false);
    assert!(again.files == image.files, "a checksum is not where it should be");
    let found = |file| image.seals.entries.iter().filter(|entry| entry.file == file).count();
    let has_log = !image.files[LOG].is_empty();
    assert!(found(HEAP) >= image.seals.regions.len() && (!has_log || found(LOG) > 4));
}

/// Creates three roots.
fn fill(heap: &Heap) -> Result<(Root<List<'static>>, Root<Slices<'static>>)> {
    let list: Root<List> = heap.root("list")?;
    for i in 0..20 {
        list.txn(|tx, list| List::push(list, tx, i))?;
    }
    let _: Root<List> = heap.root("empty")?;
    heap.rename_root("empty", "an empty list")?;
    let slices = heap.root_or::<Slices>("slices", |tx| Slices::new(tx, 1500))?;
    Ok((list, slices))
}

fn collections(heap: &Heap, elements: u64) -> Result<Root<Collections<'static>>> {
    let root: Root<Collections> = heap.root("collections")?;
    root.txn(|tx, all| Collections::add(all, tx, 0, elements))?;
    root.txn(|tx, all| {
        Collections::take(all, tx, 1, elements / 8);
        Ok(())
    })?;
    Ok(root)
}

/// Makes a heap in a simulated memory. `make` gets a function that returns the words in the memory after a
/// kill. The image has the words that `make` returns, or else the durable ones at the end.
fn in_memory(
    words: Vec<u64>,
    make: impl FnOnce(Heap, &dyn Fn() -> Vec<u64>) -> Result<Option<Vec<u64>>>,
) -> Result<Image> {
    let sim = Arc::new(Sim::new(words));
    let killed = || {
        sim.acknowledge(0);
        let mut words = sim.durable();
        if let Some(point) = sim.take_points().last() {
            point.pending.iter().for_each(|&(word, value)| words[word as usize] = value);
        }
        words
    };
    let words = make(options().simulate(&sim)?, &killed)?.unwrap_or_else(|| sim.durable());
    Ok(Image::of(bytes(&words), Vec::new()))
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn words(image: &Image) -> Vec<u64> {
    (0..image.files[HEAP].len() / 8).map(|i| image.word(HEAP, i * 8)).collect()
}

/// A heap that was created and killed.
fn fresh() -> Result<Image> {
    in_memory(Vec::new(), |_heap, killed| Ok(Some(killed())))
}

fn closed() -> Result<Image> {
    in_memory(Vec::new(), |heap, _| {
        fill(&heap)?;
        heap.close()?;
        Ok(None)
    })
}

/// A heap that was killed with redo records in its logs. Some of them belong to a transaction on two roots.
fn killed() -> Result<Image> {
    in_memory(Vec::new(), |heap, killed| {
        let (list, _) = fill(&heap)?;
        list.txn(|tx, list| List::push(list, tx, 100))?;
        let other: Root<List> = heap.existing_root("an empty list")?;
        pheap::txn((&list, &other), |((ta, a), (tb, b))| {
            List::push(a, ta, 101)?;
            List::push(b, tb, 102)
        })?;
        Ok(Some(killed()))
    })
}

/// A heap that was killed in a long transaction, with undo entries in its log.
fn killed_long() -> Result<Image> {
    in_memory(Vec::new(), |heap, killed| {
        let (_, slices) = fill(&heap)?;
        let mut words = None;
        let result = slices.txn(|tx, slices| {
            Slices::fill(slices, tx, 5);
            words = Some(killed());
            Err::<(), _>(Error::abort("only its log is of interest"))
        });
        assert!(matches!(result, Err(Error::Aborted(_))));
        Ok(words)
    })
}

/// Number of elements of small collections.
const FEW: u64 = 24;

/// A heap that was closed, so it has bitmaps of live slots.
fn with_collections(elements: u64) -> Result<Image> {
    in_memory(Vec::new(), |heap, _| {
        collections(&heap, elements)?;
        heap.close()?;
        Ok(None)
    })
}

/// A heap that was closed, opened again, changed and closed. It still has bitmaps and logs of an older state.
fn older_state() -> Result<Image> {
    let closed = closed()?;
    in_memory(words(&closed), |heap, _| {
        let list: Root<List> = heap.existing_root("list")?;
        list.txn(|tx, list| List::push(list, tx, 7))?;
        heap.close()?;
        Ok(None)
    })
}

/// A heap that was closed, opened again, and killed.
fn reopened() -> Result<Image> {
    let closed = closed()?;
    in_memory(words(&closed), |heap, killed| {
        let list: Root<List> = heap.existing_root("list")?;
        list.txn(|tx, list| List::push(list, tx, 7))?;
        collections(&heap, 12)?;
        Ok(Some(killed()))
    })
}

/// Address to which heaps of these templates move.
const MOVED: u64 = 0x5d00_0000_0000;

/// A heap that moved to another address, and was killed there.
fn relocated() -> Result<Image> {
    let closed = with_collections(FEW)?;
    let sim = Arc::new(Sim::new(words(&closed)));
    let heap = options().base(MOVED).simulate(&sim)?;
    let image = Image::of(bytes(&sim.durable()), Vec::new());
    drop(heap);
    Ok(image)
}

/// A heap that was killed while it moved. Some pointers are relative to the old base, some to the new one.
fn relocating() -> Result<Image> {
    let closed = with_collections(FEW)?;
    let sim = Arc::new(Sim::new(words(&closed)));
    let heap = options().base(MOVED).simulate(&sim)?;
    let points = sim.take_points();
    drop(heap);
    let mut now = words(&closed);
    // The point with the most pending words.
    let (most, _) =
        points.iter().enumerate().max_by_key(|(_, point)| point.pending.len()).expect("there are some");
    for point in &points[..=most] {
        now.resize(point.words, 0);
        point.durable.iter().for_each(|&(word, value)| now[word as usize] = value);
    }
    let half = points[most].pending.iter().step_by(2);
    half.for_each(|&(word, value)| now[word as usize] = value);
    Ok(Image::of(bytes(&now), Vec::new()))
}

/// A heap that was killed while it used a write-ahead log.
fn on_disk(options: Options) -> Result<Image> {
    let closed = with_collections(FEW)?;
    let [data, _] = closed.files;
    let disk = Arc::new(SimDisk::new(DiskImage { data, log: None }));
    let heap = options.simulate_disk(&disk)?;
    let all: Root<Collections> = heap.existing_root("collections")?;
    all.txn(|tx, all| Collections::add(all, tx, 24, 2))?;
    heap.checkpoint()?;
    fill(&heap)?;
    all.txn(|tx, all| Collections::add(all, tx, 30, 2))?;
    let DiskImage { data, log } = disk.view();
    let log = log.expect("it is in use");
    Ok(Image::of(data, log))
}

fn logged() -> Result<Image> {
    on_disk(options())
}

fn logged_lazily() -> Result<Image> {
    on_disk(options().sync_policy(pheap::SyncPolicy::OnDemand))
}

/// A heap in a real file, which a process of this boot has mapped.
fn mapped() -> Result<Image> {
    let dir = pheap_fuzz::scratch();
    let path = dir.path().join("heap");
    let heap = options().durability(Durability::Process).open(&path)?;
    let (list, _) = fill(&heap)?;
    list.txn(|tx, list| List::push(list, tx, 100))?;
    let mut bytes = fs::read(&path).expect("the file can be read");
    drop(heap);
    // Removes the record of the file in use. Otherwise opening could refuse the heap as a copy.
    pheap_testkit::forget_file(&mut bytes);
    Ok(Image::of(bytes, Vec::new()))
}
