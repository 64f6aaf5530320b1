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

/// Largest number of bytes whose pages the kernel copies in one call of `Mapping::populate`.
const RUN: u64 = 256 * PAGE;
/// Largest number of threads that call `Mapping::populate`. More threads do not help: the kernel does the
/// work, on page tables that the threads share.
const THREADS: usize = 4;
/// Number of runs of pages for which it pays to start another thread.
const WORTH: usize = 8;

/// Stores the records of the log's `tail` to the heap, which has `mapped` bytes.
///
/// # Errors
/// The error of the operating system, or an error if the log does not hold the records any more.
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

/// Makes the kernel copy the pages of these runs (offset, bytes). A page fault for each page, in one thread,
/// would take much longer.
fn copy_pages(mapping: &Mapping, runs: &[(u64, u64)]) {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(&(offset, len)) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
            mapping.populate(offset, len);
        }
    };
    // The number of processors is looked up only if there are many runs, because that takes a while, too.
    let threads = if runs.len() < 2 * WORTH { 1 } else { os::cores().min(THREADS).min(runs.len() / WORTH) };
    thread::scope(|scope| {
        for _ in 1..threads {
            // If a thread cannot be started, the others do its work.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
}
