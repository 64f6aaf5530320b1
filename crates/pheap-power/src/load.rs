//! The load: several threads change the heap for some time, unless one of them fails or the machine loses
//! power.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pheap::{Heap, Root};

use crate::content::{Shard, verify_shard};
use crate::temps::Life;
use crate::verify::{Found, balance};
use crate::worker::Worker;
use crate::{Args, Mistake, Result, say, text};
use pheap_testkit::Rng;

/// Data that all threads share.
pub struct Load<'a> {
    pub args: &'a Args,
    pub heap: &'a Heap,
    pub shards: &'a [Root<Shard<'static>>],
    stop: AtomicBool,
}

/// Changes the heap for this time, or until a thread fails.
pub fn run(
    args: &Args,
    heap: &Heap,
    shards: &[Root<Shard<'static>>],
    lives: Vec<Life>,
    seed: u64,
    duration: Duration,
) -> Result {
    let load = &Load { args, heap, shards, stop: AtomicBool::new(false) };
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (life, thread) in lives.into_iter().zip(0..) {
            let worker = Worker::new(load, thread, life, Rng::new(&[seed, thread]));
            threads.push(scope.spawn(move || load.guarded(|| worker.run())));
        }
        let rng = Rng::new(&[seed, args.threads]);
        threads.push(scope.spawn(move || load.guarded(|| load.read(rng, Instant::now() + duration))));
        let mut result = Ok(());
        for thread in threads {
            let ended = thread.join().unwrap_or_else(|_| Err("a thread has panicked".to_owned()));
            result = result.and(ended);
        }
        result
    })
}

impl Load<'_> {
    /// Runs `f`. If it fails, reports the error and stops the other threads. If it panics, stops them.
    fn guarded(&self, f: impl FnOnce() -> Result) -> Result {
        let _stop = StopOnPanic(&self.stop);
        let result = f();
        if let Err(what) = &result {
            // Reports it at once, because the other threads may wait for ever.
            say(format_args!("wrong: {what}"));
            self.stop.store(true, Ordering::Relaxed);
        }
        result
    }

    pub fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Reads shards until `end`, or until the load stops. The transactions that it has seen must not be lost.
    /// Then stops the load.
    fn read(&self, mut rng: Rng, end: Instant) -> Result {
        for round in 0.. {
            let root = &self.shards[rng.scaled(self.shards.len() as u64) as usize];
            let whole = round % 16 == 5;
            let (root, n) = root
                .read(|view, shard| {
                    let &Shard { root, n, .. } = &view[shard];
                    if whole { verify_shard(view, shard, root).map(|()| (root, n)) } else { Ok((root, n)) }
                })
                .map_err(text)??;
            say(format_args!("seen {root} {n}"));
            if round % 8 == 3 && self.args.mistake != Mistake::Split {
                self.audit()?;
            }
            if round % 64 == 63 {
                self.statistics();
            }
            if self.stops() || Instant::now() >= end {
                break;
            }
            std::thread::sleep(Duration::from_micros(rng.scaled(3000)));
        }
        self.statistics();
        self.stop.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Compares the money and the witnesses of all shards, read in one transaction.
    fn audit(&self) -> Result {
        let found = pheap::txn(self.shards, |mut shards| {
            Ok((0..shards.len())
                .map(|i| shards.with(i, |tx, shard| Found::of(&tx[shard])))
                .collect::<Vec<_>>())
        });
        balance(&found.map_err(text)?)
    }

    fn statistics(&self) {
        let stats = self.heap.stats();
        say(format_args!(
            "stats collections={} file_bytes={} log_bytes={} syncs={} checkpoints={} private_bytes={}",
            stats.collections,
            stats.file_bytes,
            stats.log_bytes,
            stats.syncs,
            stats.checkpoints,
            stats.private_bytes,
        ));
    }
}

struct StopOnPanic<'a>(&'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}
