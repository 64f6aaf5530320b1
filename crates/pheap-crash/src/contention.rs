//! Programs in which threads meet at locks. They test the mutants that leave a lock out.
//!
//! A mutant of a lock counts the times that it would have let two threads in ([`meetings`]). If there are
//! any, the program fails. Without a mutant no program may fail, so these programs also test pheap with a few
//! threads.

#![allow(clippy::unit_arg)] // transactions of one assignment

mod evolve;
mod files;
mod forks;
mod heaps;
mod snapshots;
mod turns;
mod wal;

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pheap::sim::Bug;
use pheap::sim::mutant::{fired, meetings};
use pheap::{Heap, Options, Root};

use crate::tuning::SMALL;
use pheap_testkit::tempdir;
use tempfile::TempDir;

/// A program: its name, and the function that runs it.
pub type Contention = (&'static str, fn() -> Result<(), String>);

/// Returns the programs for mutants. Each makes its own heaps.
pub fn programs() -> &'static [Contention] {
    &[
        ("transactions", heaps::transactions),
        ("given up", heaps::given_up),
        ("no space", heaps::no_space),
        ("roots", heaps::roots),
        ("removals", heaps::removals),
        ("looking", heaps::looking),
        ("collections", heaps::collections),
        ("migrations", heaps::migrations),
        ("accepted types", evolve::accepted),
        ("converted objects", evolve::converted),
        ("converted maps", evolve::maps),
        ("closing", heaps::closing),
        ("opening", files::opening),
        ("opened twice", files::opened_twice),
        ("locked by others", files::locked_by_others),
        ("after a crash", files::after_a_crash),
        ("backups", files::backups),
        ("group commit", wal::group_commit),
        ("syncs", wal::syncs),
        ("deferred commits", wal::deferred),
        ("deferred reads", wal::deferred_reads),
        ("closing beside tasks", wal::closing_beside_tasks),
        ("a full log", wal::full),
        ("private memory", wal::memory),
        ("a log that grows", wal::grows),
        ("closing a log", wal::closing),
        ("first changes", wal::first_changes),
        ("a failing disk", wal::failing),
        ("a failing disk without a thread", wal::failing_alone),
        ("snapshots", snapshots::snapshots),
    ]
}

/// A program that finds a seeded bug in waiting or forking: the bug, the name, and the function. The function
/// switches the bug on in the threads that show it, if it gets one.
pub type Seeded = (Bug, &'static str, fn(Option<Bug>) -> Result<(), String>);

/// Returns these programs.
pub fn seeded() -> &'static [Seeded] {
    &[
        (Bug::ReadsOvertake, "turns", turns::turns),
        (Bug::OpenGates, "turns", turns::turns),
        (Bug::GatesForReads, "transactions in turns", turns::transactions),
        (Bug::NestedReadsWait, "nested", turns::nested),
        (Bug::ForksRollBack, "forks", forks::forks),
        (Bug::ForksKeepFiles, "left behind", forks::left_behind),
    ]
}

/// If the mutant has fired, the `beside` threads of [`run`] go on until this time after its start, even when
/// the threads of `works` have ended.
const LONG: Duration = Duration::from_millis(600);

/// A step of a thread. The argument is the number of earlier steps of the thread.
type Work<'a> = &'a (dyn Fn(u64) + Sync);

/// Runs one thread for each function. A thread of `works` does `rounds` steps. A thread of `beside` goes on
/// while these run, and until [`LONG`] if the mutant has fired. All stop when two threads have met (see
/// [`meetings`]), which is a failure.
fn run(rounds: u64, works: &[Work<'_>], beside: &[Work<'_>]) -> Result<(), String> {
    /// Counts a thread of `works` as done, also after a panic.
    struct Done<'a>(&'a AtomicUsize);
    impl Drop for Done<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let begin = Instant::now();
    let goes_on = || fired() > 0 && begin.elapsed() < LONG;
    let (start, at_work) = (&Barrier::new(works.len() + beside.len()), &AtomicUsize::new(works.len()));
    std::thread::scope(|scope| {
        for work in works {
            scope.spawn(move || {
                start.wait();
                let _done = Done(at_work);
                (0..rounds).take_while(|_| meetings() == 0).for_each(work);
            });
        }
        for work in beside {
            scope.spawn(move || {
                start.wait();
                // At least once, even if it begins late (unless two threads have met).
                let goes_on = |&n: &u64| n == 0 || at_work.load(Ordering::Relaxed) > 0 || goes_on();
                (0..).take_while(|_| meetings() == 0).take_while(goes_on).for_each(work);
            });
        }
    });
    outcome()
}

/// Returns an error if two threads would have met.
fn outcome() -> Result<(), String> {
    match meetings() {
        0 => Ok(()),
        n => Err(format!("without this lock, {n} times two threads would have met")),
    }
}

/// Makes a small heap in memory.
fn in_memory() -> Heap {
    small().in_memory().expect("a heap in memory")
}

/// Makes a heap in a new folder, which exists until the `TempDir` is dropped.
fn in_folder(options: &Options) -> (TempDir, Heap) {
    let folder = tempdir();
    let heap = options.open(folder.path().join("heap")).expect("a heap in a file");
    (folder, heap)
}

fn add(root: &Root<u64>) -> pheap::Result<()> {
    root.txn(|tx, n| Ok(tx[n] += 1))
}

/// Returns options for small heaps.
fn small() -> Options {
    Options::new().tuning(SMALL).arena_size(1 << 20).reserve(1 << 30)
}
