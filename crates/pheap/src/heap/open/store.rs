//! What the log holds is stored to the private mapping of a heap that is being opened.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::os;
use crate::os::mapping::Mapping;
use crate::store::words::Words;
use crate::units::PAGE;
use crate::wal::WalTail;

/// Pages that are mapped at a time.
const RUN: u64 = 256;
/// Pages of which it is noted together which ones are changed: a gibibyte.
const GROUP: u64 = 1 << 18;
/// Threads that share that, at most: it is the kernel's work, on tables that they share.
const THREADS: usize = 4;
/// Runs for each of them, at least.
const WORTH: usize = 8;

/// Stores the records of the log to the heap, which has `mapped` bytes.
pub(super) fn store(mapping: &Mapping, heap: Words<'_>, mapped: u64, tail: &WalTail) {
    if !mapping.is_simulated() {
        copy_pages(mapping, &runs(mapped, tail));
    }
    for range in tail.ranges() {
        let places = heap.slice(range.offset, range.words.len());
        places.iter().zip(range.words).for_each(|(place, &word)| place.store(word, Ordering::Relaxed));
    }
}

/// The pages that the log changes: where they begin, and how many bytes, in order.
fn runs(mapped: u64, tail: &WalTail) -> Vec<(u64, u64)> {
    // A heap may be enormous, and the log is about a part of it.
    let mut changed = vec![Vec::new(); mapped.div_ceil(PAGE * GROUP) as usize];
    for range in tail.ranges() {
        for page in range.offset / PAGE..range.end().div_ceil(PAGE) {
            let group = &mut changed[(page / GROUP) as usize];
            group.resize(GROUP as usize, false);
            group[(page % GROUP) as usize] = true;
        }
    }
    let mut runs = Vec::new();
    for (number, group) in (0..).zip(&changed) {
        let mut first = number * GROUP;
        for pages in group.chunk_by(|one, next| one == next) {
            let end = first + pages.len() as u64;
            if pages[0] {
                let starts = (first..end).step_by(RUN as usize);
                runs.extend(starts.map(|page| (page * PAGE, RUN.min(end - page) * PAGE)));
            }
            first = end;
        }
    }
    runs
}

/// Has the kernel make copies of these pages. With a fault for each of them, and by one thread, that would take most of the time of an opening.
fn copy_pages(mapping: &Mapping, runs: &[(u64, u64)]) {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(&(offset, len)) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
            mapping.populate(offset, len);
        }
    };
    // Only if there is so much: to ask how many processors there are takes a while, too.
    let threads = if runs.len() < 2 * WORTH { 1 } else { os::cores().min(THREADS).min(runs.len() / WORTH) };
    thread::scope(|scope| {
        for _ in 1..threads {
            // If it cannot be started, this thread does all of it.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
}
