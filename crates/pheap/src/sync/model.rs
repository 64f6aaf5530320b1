//! Runs programs in every order of their threads that has few preemptions, and with [mistakes](SeededMistake)
//! seeded in them. A model must find each mistake; otherwise it examines too little.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use super::Mistake;

// --- seeded mistakes ---

type CallSite = &'static Location<'static>;

#[derive(Default)]
struct Seeds {
    mistake: Option<Mistake>,
    dropped: Option<CallSite>,
    /// The places in the source from which condition variables were notified.
    met: BTreeSet<CallSite>,
}

// A thread-local is enough, because all threads of a model run on the thread of its test.
thread_local! {
    static SEEDS: RefCell<Seeds> = RefCell::default();
}

/// A mistake that the code makes on purpose.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SeededMistake {
    Mistake(Mistake),
    /// A notification from this place in the source is left out.
    Dropped(CallSite),
}

pub(super) fn is_seeded(mistake: Mistake) -> bool {
    SEEDS.with_borrow(|seeds| seeds.mistake == Some(mistake))
}

pub(super) fn is_dropped(site: CallSite) -> bool {
    SEEDS.with_borrow_mut(|seeds| {
        seeds.met.insert(site);
        seeds.dropped == Some(site)
    })
}

/// Runs `program` in every order of its threads' operations in which at most `preemptions` times a thread is
/// stopped that could continue. (`PHEAP_MODEL_PREEMPTIONS` adds to that number.) Returns the places in the
/// source from which threads were notified.
pub(crate) fn explore(name: &str, preemptions: usize, program: fn()) -> Vec<CallSite> {
    let more = std::env::var("PHEAP_MODEL_PREEMPTIONS").map_or(0, |more| more.parse().expect("a number"));
    let preemptions = preemptions + more;
    SEEDS.set(Seeds::default());
    let start = Instant::now();
    let orders = run(preemptions, program);
    println!("{name}: {orders} orders with at most {preemptions} preemptions, {:.1?}", start.elapsed());
    SEEDS.take().met.into_iter().collect()
}

/// Whether [`explore`] fails when the mistake `seed` is made.
pub(crate) fn finds(seed: SeededMistake, preemptions: usize, program: fn()) -> bool {
    failure(seed, preemptions, program).is_some()
}

/// Returns the message with which [`explore`] fails when the mistake `seed` is made, or `None` if it does not
/// fail.
pub(crate) fn failure(seed: SeededMistake, preemptions: usize, program: fn()) -> Option<String> {
    let mut seeds = Seeds::default();
    match seed {
        SeededMistake::Mistake(mistake) => seeds.mistake = Some(mistake),
        SeededMistake::Dropped(site) => seeds.dropped = Some(site),
    }
    SEEDS.set(seeds);
    let found = catch_unwind(AssertUnwindSafe(|| run(preemptions, program)));
    SEEDS.take();
    let panic = found.err()?;
    let text = panic.downcast_ref::<String>().cloned();
    Some(text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default())
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
