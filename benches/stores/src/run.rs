//! One run: a workload on an open store.

use crate::Result;
use crate::systems::{Key, Session, Store, Values, value_of};
use pheap_suite::{Rng, SEED};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Number of keys that one transaction inserts.
pub(crate) const PER_INSERT: usize = 1000;

/// Number of operations, and their time.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub(crate) n: u64,
    pub(crate) seconds: f64,
}

impl Run {
    pub(crate) fn per_second(self) -> f64 {
        self.n as f64 / self.seconds
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Until {
    Time(Duration),
    /// Number of transactions of each thread.
    Count(u64),
}

/// For each thread, the last value that it has set at each index.
pub(crate) type Last = Vec<Vec<u64>>;

/// Transactions of each thread before the measured ones, so that the one-time work of a session is not
/// measured.
const WARM_UP: u64 = 2;
/// Their values. No other update has them, because a store may ignore an update that changes nothing.
const WARM_UP_VALUE: u64 = 1 << 62;

/// Number of transactions that a thread has done, in a separate cache line.
#[derive(Default)]
#[repr(align(128))]
struct Done(AtomicU64);

/// Each thread updates its own random values, one after the other. `mark` is called before the first measured
/// transaction and after the last one.
///
/// A transaction that is not done when the time is over does not count: if a thread waits for its turn, it
/// may take long.
pub(crate) fn updates(store: &dyn Store, values: Values, until: Until, mark: fn()) -> Result<(Run, Last)> {
    let (stop, barrier) = (AtomicBool::new(false), Barrier::new(values.threads + 1));
    let most = if let Until::Count(most) = until { most } else { u64::MAX };
    let done: Vec<Done> = (0..values.threads).map(|_| Done::default()).collect();
    let thread = |thread: usize| -> Result<Vec<u64>> {
        let updater = Updater::begin(store, values, thread);
        barrier.wait(); // each thread is ready, or has an error
        barrier.wait();
        updater?.update(most, &stop, &done[thread])
    };
    std::thread::scope(|scope| {
        let thread = &thread;
        let threads: Vec<_> = (0..values.threads).map(|i| scope.spawn(move || thread(i))).collect();
        let sum = || done.iter().map(|done| done.0.load(Ordering::Relaxed)).sum();
        barrier.wait();
        mark();
        barrier.wait();
        let start = Instant::now();
        let mut run = None;
        if let Until::Time(time) = until {
            std::thread::sleep(time);
            run = Some(Run { n: sum(), seconds: start.elapsed().as_secs_f64() });
            stop.store(true, Ordering::Relaxed);
        }
        let ends: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        let run = run.unwrap_or_else(|| Run { n: sum(), seconds: start.elapsed().as_secs_f64() });
        mark();
        let last: Result<Last> = ends.into_iter().map(|end| end.map_err(|_| "a thread panicked")?).collect();
        Ok((run, last?))
    })
}

struct Updater<'s> {
    session: Box<dyn Session + 's>,
    rng: Rng,
    last: Vec<u64>,
}

impl<'s> Updater<'s> {
    fn begin(store: &'s dyn Store, values: Values, thread: usize) -> Result<Updater<'s>> {
        let session = store.session(values, thread)?;
        let rng = Rng::from_seed(SEED + thread as u64);
        let mut updater = Updater { session, rng, last: vec![0; values.each as usize] };
        (0..WARM_UP).try_for_each(|i| updater.set(WARM_UP_VALUE + i))?;
        Ok(updater)
    }

    fn set(&mut self, value: u64) -> Result<()> {
        let index = self.rng.scaled(self.last.len() as u64);
        self.session.update(index, value)?;
        self.last[index as usize] = value;
        Ok(())
    }

    fn update(mut self, most: u64, stop: &AtomicBool, done: &Done) -> Result<Vec<u64>> {
        let mut n = 0;
        while n < most && !stop.load(Ordering::Relaxed) {
            n += 1;
            self.set(n)?;
            done.0.store(n, Ordering::Relaxed);
        }
        Ok(self.last)
    }
}

/// Returns an error unless a store that was opened again has the values. Compares up to a thousand of each
/// thread.
pub(crate) fn verify_updates(store: &dyn Store, values: Values, last: &Last) -> Result<()> {
    for (thread, last) in last.iter().enumerate() {
        let mut session = store.session(values, thread)?;
        let step = last.len().div_ceil(1000);
        for index in (0..last.len()).step_by(step) {
            let found = session.value(index as u64)?;
            if found != last[index] {
                let expected = last[index];
                return Err(format!(
                    "value {index} of thread {thread} is {found}, and was set to {expected}"
                )
                .into());
            }
        }
    }
    Ok(())
}

/// Returns the first `n` random keys.
pub(crate) fn keys(n: usize) -> Vec<Key> {
    let mut rng = Rng::from_seed(SEED);
    let key = |_| (u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64())).to_be_bytes();
    (0..n).map(key).collect()
}

pub(crate) fn inserts(store: &dyn Store, keys: &[Key], mark: fn()) -> Result<Run> {
    let mut session = store.session(Values::NONE, 0)?;
    mark();
    let start = Instant::now();
    for keys in keys.chunks(PER_INSERT) {
        session.insert(keys)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    mark();
    Ok(Run { n: keys.len() as u64, seconds })
}

/// Returns an error unless a store that was opened again has the entries. Compares up to a thousand of them.
pub(crate) fn verify_inserts(store: &dyn Store, keys: &[Key]) -> Result<()> {
    let mut session = store.session(Values::NONE, 0)?;
    let some: Vec<Key> = keys.iter().step_by(keys.len().div_ceil(1000)).copied().collect();
    let mut good = 0;
    session.get(&some, &mut |key, value| good += usize::from(value == value_of(key)))?;
    if good == some.len() {
        Ok(())
    } else {
        Err(format!("{} of {} values are wrong", some.len() - good, some.len()).into())
    }
}

/// Looks up as many random keys as there are keys, `per_transaction` in a read transaction.
pub(crate) fn gets(store: &dyn Store, keys: &[Key], per_transaction: usize) -> Result<Run> {
    let mut rng = Rng::from_seed(SEED + 1);
    let random: Vec<Key> = keys.iter().map(|_| keys[rng.scaled(keys.len() as u64) as usize]).collect();
    let mut session = store.session(Values::NONE, 0)?;
    let mut sum = 0;
    let start = Instant::now();
    for keys in random.chunks(per_transaction) {
        session.get(keys, &mut |_, value| sum = beginning(value).wrapping_add(sum))?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let expected = random.iter().fold(0, |sum, key| beginning(&value_of(key)).wrapping_add(sum));
    if sum != expected {
        return Err("a value that was read is wrong".into());
    }
    Ok(Run { n: keys.len() as u64, seconds })
}

fn beginning(value: &[u8]) -> u64 {
    value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
