//! Logs that are missing, or not those of their heaps.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pheap::sim::disk::{DiskImage, SimDisk};
use pheap::{Durability, Error, Options};
use pheap_crash::medium::Content;
use pheap_crash::model::State;
use pheap_crash::objects::{Handles, observe};
use pheap_crash::program::{One, Setting, Which};
use pheap_crash::run::{Run, ready};

/// Simulated heaps are mapped at one address.
static ADDRESS: Mutex<()> = Mutex::new(());

fn address() -> MutexGuard<'static, ()> {
    ADDRESS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn options() -> Options {
    Options::new().arena_size(64 << 10).reserve(1 << 30).collect_threads(1).durability(Durability::Wal)
}

/// What a killed process has left: all that it has committed is in the log.
fn killed() -> (DiskImage, State) {
    let (content, state) = ready().unwrap()[0].clone();
    let mut run = Run::open(Setting::default(), content.on_disk(), Some(state), 1).unwrap();
    run.one(One::Push, Which::A).unwrap();
    run.one(One::Push, Which::B).unwrap();
    let Content::Disk(image, _) = run.durable() else { unreachable!() };
    (image, run.state().clone())
}

#[test]
fn a_log_that_is_not_there_is_missed() {
    let _address = address();
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
fn another_file_is_foreign() {
    let _address = address();
    let (image, state) = killed();
    let mut foreign = vec![Some(b"not a log".repeat(1000))];
    // A log of the same heap, but of another opening.
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
