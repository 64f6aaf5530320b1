//! Stores the records of the log to the private mapping of a heap that is being opened.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::log::ranges;
use crate::os;
use crate::os::mapping::Mapping;
use crate::store::words::MetadataWords;
use crate::units::PAGE;
use crate::wal::WalTail;

/// Most bytes of pages that are copied by one call.
const RUN: u64 = 256 * PAGE;
/// Most threads for these calls. More do not help: the work is the kernel's, on tables that the threads
/// share.
const THREADS: usize = 4;
/// Runs of pages that make another thread worth its start.
const WORTH: usize = 8;

/// Stores the records of the log's `tail` to the heap, which has `mapped` bytes.
///
/// # Errors
/// If the log cannot be read again.
pub(super) fn store(
    mapping: &Mapping,
    heap: MetadataWords<'_>,
    mapped: u64,
    tail: &WalTail,
) -> io::Result<()> {
    if !mapping.is_simulated() {
        copy_pages(mapping, &tail.runs(mapped, RUN).collect::<Vec<_>>());
    }
    tail.each_record(|record| {
        for range in ranges(record) {
            let places = heap.slice(range.offset, range.words.len());
            places.iter().zip(range.words).for_each(|(place, &word)| place.store(word, Ordering::Relaxed));
        }
        Ok(())
    })
}

/// Makes the kernel copy these pages. A page fault for each of them, in one thread, would take much longer.
fn copy_pages(mapping: &Mapping, runs: &[(u64, u64)]) {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(&(offset, len)) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
            mapping.populate(offset, len);
        }
    };
    // Asked only if there are many runs, because looking up the number of processors takes a while, too.
    let threads = if runs.len() < 2 * WORTH { 1 } else { os::cores().min(THREADS).min(runs.len() / WORTH) };
    thread::scope(|scope| {
        for _ in 1..threads {
            // If a thread cannot be started, the others do its work.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
}
