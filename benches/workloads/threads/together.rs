//! Threads that start at the same time.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

/// Runs one thread for each worker. Returns the seconds from the first start to the last end, or an error of
/// one of them.
pub(crate) fn together<W: Send, E: Send>(
    workers: Vec<W>,
    work: impl Fn(W) -> Result<(), E> + Sync,
) -> Result<f64, E> {
    let (barrier, work) = (&Barrier::new(workers.len()), &work);
    let timed = |worker| {
        barrier.wait();
        let start = Instant::now();
        let done = work(worker);
        (start, Instant::now(), done)
    };
    thread::scope(|scope| {
        let running: Vec<_> = workers.into_iter().map(|worker| scope.spawn(move || timed(worker))).collect();
        let mut seconds: Option<(Instant, Instant)> = None;
        for thread in running {
            let (start, end, done) = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            done?;
            seconds = Some(seconds.map_or((start, end), |(first, last)| (first.min(start), last.max(end))));
        }
        Ok(seconds.map_or(0.0, |(first, last)| (last - first).as_secs_f64()))
    })
}
