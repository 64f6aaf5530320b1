//! Two threads run in many orders, with crashes at each point. The programs hold, and the explorer notices
//! each mistake of a list.

use std::sync::Mutex;

use pheap_crash::threads::barriers::{BARRIERS, notice};
use pheap_crash::threads::explore::{Exploration, Limits, Seed};
use pheap_crash::threads::program::PROGRAMS;
use pheap_crash::threads::{patient, quick};

/// The heaps of all explorations have the same address, so only one test runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Examining an image makes many small allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[test]
fn programs_of_two_threads_hold() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let limits = Limits { schedules: 40, images: 600, ..quick(1) };
    for program in PROGRAMS {
        let mut exploration = Exploration::new(*program, limits, Seed::default()).unwrap();
        if let Err(failure) = exploration.explore() {
            panic!("{failure}");
        }
        let totals = exploration.totals();
        assert!(totals.schedules > 2 && totals.images > 10, "{program}: {totals}");
    }
}

#[test]
fn each_barrier_that_is_left_out_is_noticed() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for &(seed, program) in BARRIERS {
        assert!(notice(seed, program, patient(1)).unwrap().is_some(), "`{program}` does not notice {seed:?}");
    }
}
