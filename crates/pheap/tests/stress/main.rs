//! Random programs in heaps that are nearly full, compared with a model in volatile memory. There are several
//! threads, kinds and sizes of objects, many of which are never linked. Transactions fail, panic, find no
//! room, or go on without the room. Collections run at any point. Heaps are closed, and copied as a kill
//! would leave them, also in the middle of a transaction.
//!
//! `cargo test` runs it for a short time. `PHEAP_STRESS_SECONDS=600 cargo test -p pheap --test stress` runs
//! it for so long. It prints its seed, which `PHEAP_STRESS_SEED` sets. Rounds with one thread draw the same
//! steps each time.
#![allow(clippy::unit_arg)] // `Ok(tx[p] = 1)` is a transaction in one line

mod kinds;
mod swept;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, RwLock};
use std::time::{Duration, Instant};

use kinds::{Kind, copy, open_copy};
use pheap::{Error, Heap, Root};
use pheap_testkit::Rng;
use world::{Sizes, State, Top, compare, is_full, look, steps};

const ROOTS: usize = 3;
/// Openings of a heap.
const LIVES: usize = 3;
/// Rounds that `cargo test` does, and where it begins.
const ROUNDS: u64 = 24;
const FIRST: u64 = 1;

/// Counts of the events, to see that each of them happens.
#[derive(Default, Debug)]
struct Counts {
    committed: AtomicU64,
    full: AtomicU64,
    aborted: AtomicU64,
    panicked: AtomicU64,
    collections: AtomicU64,
    copies: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// Says how to repeat a round that fails.
struct Repeat(u64);

impl Drop for Repeat {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Repeat(seed) = self;
            eprintln!(
                "\nrepeat: PHEAP_STRESS_SEED={seed} PHEAP_STRESS_SECONDS=0 cargo test -p pheap --test stress\n"
            );
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect(variable))
}

#[test]
fn nearly_full_heaps_hold_what_they_were_told() {
    let seconds = number("PHEAP_STRESS_SECONDS");
    let now = || std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_micros() as u64);
    let first = number("PHEAP_STRESS_SEED").unwrap_or_else(|| if seconds.is_some() { now() } else { FIRST });
    let (start, counts) = (Instant::now(), Counts::default());
    let mut rounds = 0;
    loop {
        round(first + rounds, &counts);
        rounds += 1;
        let is_enough = match seconds {
            Some(seconds) => start.elapsed() >= Duration::from_secs(seconds),
            None => rounds == ROUNDS,
        };
        if is_enough {
            break;
        }
    }
    println!("{rounds} rounds from seed {first} in {:?}: {counts:?}", start.elapsed());
    let Counts { committed, full, aborted, panicked, collections, copies } = counts;
    if rounds >= ROUNDS {
        let all = [committed, full, aborted, panicked, collections, copies].map(AtomicU64::into_inner);
        assert!(all.iter().all(|&n| n > 0), "{all:?}");
    }
}

/// A heap from its creation through some lives, in which threads use it.
fn round(seed: u64, counts: &Counts) {
    let _repeat = Repeat(seed);
    let mut random = Rng::from_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    (0..8).for_each(|_| {
        random.next_u64();
    });
    let kind = Kind::new(&mut random);
    if std::env::var_os("PHEAP_STRESS_SEED").is_some() {
        println!("seed {seed}: {kind:?}");
    }
    let dir = kinds::tempdir();
    let mut path = dir.path().join("0.pheap");
    let mut states: Vec<State> = vec![State::default(); ROOTS];
    for life in 0..LIVES {
        let heap = if life > 0 && random.below(2) == 0 { kind.verified() } else { kind.options() };
        // This may have been a copy in the life before; it is the heap now.
        let heap = open_copy(&heap, &path);
        let run = Run::new(&heap, &kind, dir.path(), &path, states, counts);
        run.compare_all();
        std::thread::scope(|scope| {
            for _ in 0..kind.threads {
                let mut random = Rng::from_seed(random.next_u64() | 1);
                let run = &run;
                scope.spawn(move || {
                    let _repeat = Repeat(seed);
                    (0..kind.steps).for_each(|_| run.step(&mut random));
                });
            }
        });
        run.compare_all();
        let killed = dir.path().join(format!("{}.pheap", life + 1));
        let is_killed = random.below(2) == 0;
        if is_killed {
            heap.wait_ready().unwrap();
            copy(&path, &killed);
        }
        states = run.end();
        counts.collections.fetch_add(heap.stats().collections, Relaxed);
        is_sound(&heap);
        heap.close().unwrap();
        if is_killed {
            kinds::remove(&path);
            path = killed;
        }
    }
    let heap = kind.verified().open(&path).unwrap();
    Run::new(&heap, &kind, dir.path(), &path, states, counts).compare_all();
}

fn is_sound(heap: &Heap) {
    let report = heap.check().unwrap();
    assert!(report.is_clean(), "{report}");
}

/// A heap that is open.
struct Run<'a> {
    heap: &'a Heap,
    kind: &'a Kind,
    dir: &'a Path,
    path: &'a Path,
    roots: Vec<Root<Top<'static>>>,
    /// The content of each root. A thread that has a transaction on a root has the root's state locked.
    states: Vec<Mutex<State>>,
    /// Taken for reading by each thread that uses the heap, and for writing by the thread that copies its
    /// files.
    still: RwLock<()>,
    counts: &'a Counts,
}

/// How a transaction that finds room for all that it wants ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Commit,
    Abort,
    Panic,
}

struct Expected;

impl Ending {
    fn new(random: &mut Rng) -> Ending {
        match random.below(12) {
            0..3 => Ending::Abort,
            3 => Ending::Panic,
            _ => Ending::Commit,
        }
    }

    fn end(self) -> pheap::Result<()> {
        match self {
            Ending::Commit => Ok(()),
            Ending::Abort => Err(Error::abort("as it should")),
            Ending::Panic => resume_unwind(Box::new(Expected)),
        }
    }
}

impl<'a> Run<'a> {
    fn new(
        heap: &'a Heap,
        kind: &'a Kind,
        dir: &'a Path,
        path: &'a Path,
        states: Vec<State>,
        counts: &'a Counts,
    ) -> Run<'a> {
        let roots = roots(heap);
        let states = states.into_iter().map(Mutex::new).collect();
        Run { heap, kind, dir, path, roots, states, still: RwLock::default(), counts }
    }

    /// Returns the states, without the held objects.
    fn end(self) -> Vec<State> {
        let states = self.states.into_iter().map(|state| state.into_inner().expect("no thread has failed"));
        states.map(|state| state.without_held()).collect()
    }

    fn state(&self, i: usize) -> MutexGuard<'_, State> {
        self.states[i].lock().expect("no thread has failed")
    }

    fn compare_all(&self) {
        for (i, root) in self.roots.iter().enumerate() {
            let state = self.state(i);
            root.read(|view, top| compare(view, top, &state)).unwrap();
        }
        is_sound(self.heap);
    }

    fn step(&self, random: &mut Rng) {
        let what = random.below(100);
        if what < 3 {
            return self.step_and_copy(random);
        }
        let _moving = self.still.read().expect("no thread has failed");
        let i = random.below(ROOTS);
        match what {
            3..6 => self.heap.collect().unwrap(),
            6..9 => self.roots[i].collect().unwrap(),
            9..11 => self.heap.checkpoint().unwrap(),
            11 => is_sound(self.heap),
            12..14 => drop(self.roots[i].read(look).unwrap()),
            14..16 => {
                let state = self.state(i);
                self.roots[i].read(|view, top| compare(view, top, &state)).unwrap();
            }
            16 => self.state(i).let_go(),
            17..30 => self.two(random),
            _ => self.one(i, random, || {}),
        }
    }

    fn sizes(&self) -> Sizes {
        Sizes { slice: self.kind.slice, heap: self.kind.max_size }
    }

    /// A transaction on one root, with something in the middle.
    fn one(&self, i: usize, random: &mut Rng, amid: impl Fn()) {
        let mut state = self.state(i);
        let mut next = state.clone();
        let how = (self.sizes(), random.below(2) == 0);
        let ending = Ending::new(random);
        let ended = catch_unwind(AssertUnwindSafe(|| {
            self.roots[i].txn(|tx, top| {
                steps(tx, top, &mut next, random, how)?;
                amid();
                ending.end()
            })
        }));
        if self.is_committed(ended) {
            *state = next;
        }
    }

    /// A transaction on two.
    fn two(&self, random: &mut Rng) {
        let i = random.below(ROOTS);
        let j = (i + 1 + random.below(ROOTS - 1)) % ROOTS;
        let (mut first, mut second) = (self.state(i.min(j)), self.state(i.max(j)));
        let mut next = [first.clone(), second.clone()];
        let how = (self.sizes(), random.below(2) == 0);
        let ending = Ending::new(random);
        let ended = catch_unwind(AssertUnwindSafe(|| {
            pheap::txn((&self.roots[i.min(j)], &self.roots[i.max(j)]), |((ta, a), (tb, b))| {
                let [first, second] = &mut next;
                steps(ta, a, first, random, how)?;
                steps(tb, b, second, random, how)?;
                steps(ta, a, first, random, how)?;
                ending.end()
            })
        }));
        if self.is_committed(ended) {
            [*first, *second] = next;
        }
    }

    fn is_committed(&self, ended: std::thread::Result<pheap::Result<()>>) -> bool {
        let is_committed = matches!(ended, Ok(Ok(())));
        match ended {
            Ok(Ok(())) => count(&self.counts.committed),
            Ok(Err(error)) if is_full(&error) => count(&self.counts.full),
            Ok(Err(Error::Aborted(_))) => count(&self.counts.aborted),
            Ok(Err(error)) => panic!("{error}"),
            Err(payload) if payload.is::<Expected>() => count(&self.counts.panicked),
            Err(payload) => resume_unwind(payload),
        }
        is_committed
    }

    /// Copies what a kill would leave, between transactions or in the middle of one, and checks the copy.
    fn step_and_copy(&self, random: &mut Rng) {
        let _still = self.still.write().expect("no thread has failed");
        // The thread that marks after an opening must not go on, either.
        self.heap.wait_ready().unwrap();
        let before: Vec<State> = (0..ROOTS).map(|i| self.state(i).without_held()).collect();
        let copied = self.dir.join("copy.pheap");
        if random.below(2) == 0 {
            copy(self.path, &copied);
        } else {
            self.one(random.below(ROOTS), random, || copy(self.path, &copied));
        }
        if copied.exists() {
            self.check_copy(&copied, before, random);
        }
    }

    /// Opens a copy, compares its content, and uses it for a while. Its live objects are not known yet.
    fn check_copy(&self, copied: &Path, states: Vec<State>, random: &mut Rng) {
        count(&self.counts.copies);
        let heap = open_copy(&self.kind.verified(), copied);
        let run = Run::new(&heap, self.kind, self.dir, copied, states, self.counts);
        run.compare_all();
        (0..4).for_each(|_| run.one(random.below(ROOTS), random, || {}));
        run.compare_all();
        drop(run);
        heap.close().unwrap();
        kinds::remove(copied);
    }
}

fn roots(heap: &Heap) -> Vec<Root<Top<'static>>> {
    (0..ROOTS).map(|i| heap.root::<Top>(&format!("root {i}")).unwrap()).collect()
}
