//! The write-ahead log: its rules, with programs that show them, and disks that fail.

mod common;

use std::sync::Arc;

use common::{breaks, explorer, holds, limits};
use pheap::sim::Bug;
use pheap::sim::disk::{DiskImage, SimDisk};
use pheap::{Durability, Error, Options};
use pheap_crash::medium::Content;
use pheap_crash::objects::{Handles, observe};
use pheap_crash::program::{One, Setting, Which};
use pheap_crash::run::{Run, ready};
use pheap_crash::{Limits, Program};

#[test]
fn a_record_is_durable_before_the_transaction_returns() {
    holds(&[
        "wal: set a; set b; set a",
        "wal: push a; both-push",
        "wal: create b",
        "wal: remove b; create b",
    ]);
    breaks(Bug::NoSyncOfLog, "wal: set a");
}

#[test]
fn on_demand_a_power_failure_takes_the_newest_transactions() {
    holds(&[
        "wal lazy: set a; set b; push a",
        "wal lazy: set a; sync; set b; push a",
        "wal lazy: push a; checkpoint; push b; both-push",
        "wal lazy: push a; close; push a",
    ]);
    breaks(Bug::FoldUnsynced, "wal lazy: push a; checkpoint");
}

#[test]
fn a_checkpoint_can_be_cut_short() {
    holds(&[
        "wal: push a; checkpoint; push b",
        "wal small: big a; wide a; checkpoint; wide a",
        "wal: grow a; checkpoint; push a",
        "wal: checkpoint; checkpoint; close",
    ]);
    breaks(Bug::RecycleBeforeData, "wal: push a; checkpoint");
}

#[test]
fn a_killed_process_loses_nothing() {
    holds(&["wal lazy: push a; kill; push a; torn", "wal: big a; kill; checkpoint; power"]);
}

#[test]
fn heaps_go_from_memory_to_a_disk_and_back() {
    holds(&["push a; push b; convert; set a; power", "pin: big a; wide a; convert; push a; convert; set a"]);
    holds(&["wal crashed: push a; checkpoint", "wal: push a; convert; push a; convert; push a; torn"]);
}

#[test]
fn writes_can_be_short() {
    holds(&["wal short: push a; big a; checkpoint; push a"]);
}

/// Each call that a program makes fails, once; what was acknowledged is there when the heap is opened again.
fn survives_faults(programs: &[&str]) {
    let mut explorer = explorer(Limits { after_every: 4, ..Limits::quick(1) });
    let mut failing = 0;
    for text in programs {
        let program: Program = text.parse().unwrap();
        assert!(program.is_sensible(), "{text}");
        for program in explorer.failing(&program).unwrap_or_else(|error| panic!("{text}: {error}")) {
            failing += 1;
            if let Err(failure) = explorer.explore(&program, false) {
                panic!("{failure}");
            }
        }
    }
    println!("{failing} calls that fail: {:?}", explorer.totals());
    assert!(failing > 20 && explorer.totals().failures == 0);
}

#[test]
fn any_call_may_fail_around_a_commit() {
    survives_faults(&["wal: set a; push a; both-push", "wal: grow a; set a", "wal: create b; set b"]);
}

#[test]
fn any_call_may_fail_around_a_checkpoint() {
    survives_faults(&["wal: push a; checkpoint; push a; close; set a", "wal small: fill a; set a"]);
}

#[test]
fn any_call_may_fail_when_synced_on_demand() {
    survives_faults(&["wal lazy: push a; sync; push a; checkpoint; push b", "wal lazy: set a; close; set a"]);
}

#[test]
fn any_call_may_fail_when_a_heap_comes_from_memory() {
    survives_faults(&["push a; convert; push a", "wal empty: create a; push a", "wal crashed: push a"]);
}

fn options() -> Options {
    Options::new().arena_size(64 << 10).reserve(1 << 30).collect_threads(1).durability(Durability::Wal)
}

/// What a killed process has left: all that it has committed is in the log.
fn killed() -> (DiskImage, pheap_crash::model::State) {
    let (content, state) = ready().unwrap()[0].clone();
    let mut run = Run::open(Setting::default(), content.on_disk(), Some(state), 1).unwrap();
    run.one(One::Push, Which::A).unwrap();
    run.one(One::Push, Which::B).unwrap();
    let Content::Disk(image, _) = run.durable() else { unreachable!() };
    (image, run.state().clone())
}

#[test]
fn a_log_that_is_not_there_is_missed() {
    let (image, state) = killed();
    let disk = Arc::new(SimDisk::new(DiskImage { log: None, ..image.clone() }));
    let error = options().simulate_disk(&disk).map(drop).unwrap_err();
    assert!(matches!(error, Error::LogMissing { .. }), "{error}");
    assert!(disk.view() == DiskImage { log: None, ..image.clone() }, "the file has changed");
    disk.set_log(image.log);
    let heap = options().simulate_disk(&disk).unwrap();
    assert_eq!(observe(&heap, &mut Handles::new()), Ok(state));
}

#[test]
fn the_log_of_another_heap_is_foreign() {
    let (image, state) = killed();
    let other = DiskImage::default();
    let other = Arc::new(SimDisk::new(other));
    let heap = options().simulate_disk(&other).unwrap();
    let mut foreign =
        vec![other.view().log, Some(Vec::new()), Some(vec![0; 4096]), Some(b"not a log".repeat(1000))];
    drop(heap);
    // A log of the same heap, but of an earlier opening.
    let disk = Arc::new(SimDisk::new(image.clone()));
    drop(options().simulate_disk(&disk).unwrap());
    let heap = options().simulate_disk(&disk).unwrap();
    foreign.push(disk.view().log);
    drop(heap);
    for log in foreign {
        let disk = Arc::new(SimDisk::new(DiskImage { log: log.clone(), ..image.clone() }));
        let before = disk.view();
        let error = options().simulate_disk(&disk).map(drop).unwrap_err();
        assert!(matches!(error, Error::ForeignLog { .. }), "{error}");
        assert!(disk.view() == before, "a file has changed");
        disk.set_log(image.log.clone());
        let heap = options().simulate_disk(&disk).unwrap();
        assert_eq!(observe(&heap, &mut Handles::new()), Ok(state.clone()));
    }
}

#[test]
fn pages_are_kept_until_they_are_in_the_file() {
    holds(&["wal small: push a; checkpoint; push a; push b; checkpoint; both-push"]);
    breaks(Bug::DropEarly, "wal small: push a; push a; checkpoint");
}

#[test]
fn a_torn_end_is_an_end() {
    let limits = Limits { after_every: 1, ..limits() };
    let mut explorer = explorer(limits);
    for text in [
        "wal lazy: push a; set a; push b",
        "wal lazy small: fill a; torn; push a",
        "wal lazy: burst a; torn; set a",
    ] {
        if let Err(failure) = explorer.explore(&text.parse().unwrap(), false) {
            panic!("{failure}");
        }
    }
    breaks(Bug::SkipSegmentEnd, "wal lazy small: fill a; fill a");
}
