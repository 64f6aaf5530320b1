//! Threads that work until the time is over.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// The repeated work of a thread. Returns the number of operations it has done.
pub type Work<'a, E = pheap::Error> = Box<dyn FnMut() -> Result<u64, E> + Send + 'a>;

/// Number of operations that a thread has done, in a separate cache line.
#[derive(Default)]
#[repr(align(128))]
struct Done(AtomicU64);

/// Runs one thread for each work. Returns their operations per second. The threads begin some time before the
/// measurement, so that locks adapt to them.
pub fn rates<E: Send>(works: Vec<Work<'_, E>>, time: Duration) -> Result<Vec<f64>, E> {
    let (done, stop) = (&works.iter().map(|_| Done::default()).collect::<Vec<_>>(), &AtomicBool::new(false));
    thread::scope(|scope| {
        let work = |(mut work, done): (Work<'_, E>, &Done)| -> Result<(), E> {
            while !stop.load(Relaxed) {
                let more = work()?;
                done.0.fetch_add(more, Relaxed);
            }
            Ok(())
        };
        let threads: Vec<_> =
            works.into_iter().zip(done).map(|each| scope.spawn(move || work(each))).collect();
        let counts = || done.iter().map(|done| done.0.load(Relaxed)).collect::<Vec<_>>();
        thread::sleep(time / 4);
        let (start, before) = (Instant::now(), counts());
        thread::sleep(time);
        let (seconds, after) = (start.elapsed().as_secs_f64(), counts());
        stop.store(true, Relaxed);
        for thread in threads {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        Ok(after.iter().zip(before).map(|(after, before)| (after - before) as f64 / seconds).collect())
    })
}
