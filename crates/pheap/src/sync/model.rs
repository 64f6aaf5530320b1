//! The types of [`sync`](super) in models: loom's, with the interface of ours.
//!
//! What is dropped here (a [notification](Condvar::notify_all)) or [seeded](Seed) elsewhere must be found by a model, or that looks at too little.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64};

use super::Mistake;

pub(crate) type RwLock<T> = ReadWrite<T>;

#[derive(Default)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

pub(crate) struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// `None` only while it is unlocked for a while.
    guard: Option<loom::sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex(loom::sync::Mutex::new(value))
    }

    #[track_caller]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, guard: Some(self.0.lock().expect("no panics")) }
    }

    /// Not for models: loom lets a thread that tries wait for one that has the lock.
    pub(crate) fn try_lock_for(&self, _: Duration) -> Option<MutexGuard<'_, T>> {
        Some(MutexGuard { mutex: self, guard: Some(self.0.try_lock().ok()?) })
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().expect("no panics")
    }
}

impl<'a, T> MutexGuard<'a, T> {
    #[track_caller]
    pub(crate) fn unlocked<U>(this: &mut Self, f: impl FnOnce() -> U) -> U {
        this.guard = None;
        let result = f();
        this.guard = this.mutex.lock().guard;
        result
    }

    fn inner(&mut self) -> &mut Option<loom::sync::MutexGuard<'a, T>> {
        &mut self.guard
    }
}

impl<T> std::ops::Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard.as_ref().expect("locked")
    }
}

impl<T> std::ops::DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("locked")
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mutex")
    }
}

#[derive(Debug)]
pub(crate) struct Condvar(loom::sync::Condvar);

impl Condvar {
    pub(crate) fn new() -> Condvar {
        Condvar(loom::sync::Condvar::new())
    }

    #[track_caller]
    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let inner = guard.inner().take().expect("locked");
        *guard.inner() = Some(self.0.wait(inner).expect("no panics"));
    }

    /// Somebody comes before the time is over.
    #[track_caller]
    pub(crate) fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _: Instant) -> bool {
        self.wait(guard);
        true
    }

    #[track_caller]
    pub(crate) fn notify_all(&self) {
        if !is_dropped(Location::caller()) {
            self.0.notify_all();
        }
    }
}

pub(crate) struct ReadWrite<T>(loom::sync::RwLock<T>);

impl<T> ReadWrite<T> {
    pub(crate) fn new(value: T) -> Self {
        ReadWrite(loom::sync::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> loom::sync::RwLockReadGuard<'_, T> {
        self.0.read().expect("no panics")
    }

    pub(crate) fn write(&self) -> loom::sync::RwLockWriteGuard<'_, T> {
        self.0.write().expect("no panics")
    }
}

impl<T> fmt::Debug for ReadWrite<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RwLock")
    }
}

// --- seeded mistakes --------------------------------------------------------------------------------------------------------

type Site = &'static Location<'static>;

#[derive(Default)]
struct Seeds {
    mistake: Option<Mistake>,
    dropped: Option<Site>,
    /// Where threads were notified.
    met: BTreeSet<Site>,
}

// All threads of a model run on the thread of its test.
thread_local! {
    static SEEDS: RefCell<Seeds> = RefCell::default();
}

/// A mistake that the code is to make.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Seed {
    Mistake(Mistake),
    /// Nobody is notified from here.
    Dropped(Site),
}

pub(super) fn is_seeded(mistake: Mistake) -> bool {
    SEEDS.with_borrow(|seeds| seeds.mistake == Some(mistake))
}

fn is_dropped(site: Site) -> bool {
    SEEDS.with_borrow_mut(|seeds| {
        seeds.met.insert(site);
        seeds.dropped == Some(site)
    })
}

/// Runs `program` in every order of its threads' operations, of those in which at most `preemptions` times a thread is stopped that could go on.
/// (`PHEAP_MODEL_PREEMPTIONS` adds to that.) Returns where threads were notified.
pub(crate) fn explore(name: &str, preemptions: usize, program: fn()) -> Vec<Site> {
    let more = std::env::var("PHEAP_MODEL_PREEMPTIONS").map_or(0, |more| more.parse().expect("a number"));
    let preemptions = preemptions + more;
    SEEDS.set(Seeds::default());
    let start = Instant::now();
    let orders = run(preemptions, program);
    println!("{name}: {orders} orders with at most {preemptions} preemptions, {:.1?}", start.elapsed());
    SEEDS.take().met.into_iter().collect()
}

/// Whether [`explore`] finds something wrong with the program when a mistake was seeded.
pub(crate) fn finds(seed: Seed, preemptions: usize, program: fn()) -> bool {
    let mut seeds = Seeds::default();
    match seed {
        Seed::Mistake(mistake) => seeds.mistake = Some(mistake),
        Seed::Dropped(site) => seeds.dropped = Some(site),
    }
    SEEDS.set(seeds);
    let found = catch_unwind(AssertUnwindSafe(|| run(preemptions, program))).is_err();
    SEEDS.take();
    found
}

fn run(preemptions: usize, program: fn()) -> u64 {
    let orders = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count = orders.clone();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 100_000;
    builder.check(move || {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        program();
    });
    orders.load(std::sync::atomic::Ordering::Relaxed)
}
