//! Threads that make requests without pauses, and measure the time of each.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use pheap::Commit;
use rustix::time::{ClockId, clock_gettime};

use crate::Result;
use crate::requests::{Answer, Kind, Request, Size, Terminal};

/// A system that answers requests.
pub trait System: Sync {
    fn size(&self) -> Size;
    /// Opens a session for one thread.
    fn session(&self) -> Result<Session<'_>>;
}

/// A function that answers a request. If it also returns a `Commit`, the answer is durable when the commit
/// is.
pub type Session<'s> = Box<dyn FnMut(&Request) -> Result<(Answer, Option<Commit>)> + 's>;

pub struct Plan {
    pub threads: u32,
    pub warm_up: Duration,
    pub measured: Duration,
    /// Most transactions of a thread that may wait for the disk while the thread continues.
    pub outstanding: usize,
    pub seed: u64,
}

/// Results of a run.
pub struct Report {
    /// Times until a thread saw that its transaction was durable, in nanoseconds, in the order of
    /// [`Kind::ALL`].
    pub latencies: [Histogram<u64>; 5],
    pub rolled_back: u64,
    pub seconds: f64,
    /// Processor time of all threads of the process, including those of the store, in seconds.
    pub processor_seconds: f64,
}

impl Report {
    fn new() -> Report {
        let histogram = || Histogram::new(3).expect("three digits are allowed");
        let latencies = std::array::from_fn(|_| histogram());
        Report { latencies, rolled_back: 0, seconds: 0.0, processor_seconds: 0.0 }
    }

    fn add(&mut self, other: &Report) {
        for (sum, part) in self.latencies.iter_mut().zip(&other.latencies) {
            sum.add(part).expect("the histograms are alike");
        }
        self.rolled_back += other.rolled_back;
    }

    pub fn transactions(&self) -> u64 {
        self.latencies.iter().map(Histogram::len).sum()
    }
}

/// Runs the plan on a system. Counts the durable new orders in `ordered`.
pub fn drive(system: &dyn System, plan: &Plan, ordered: &AtomicU64) -> Result<Report> {
    let from = Instant::now() + plan.warm_up;
    let period = (from, from + plan.measured);
    std::thread::scope(|scope| {
        let worker = |index| scope.spawn(move || work(system, plan, index, period, ordered));
        let workers: Vec<_> = (0..plan.threads).map(worker).collect();
        std::thread::sleep(plan.warm_up);
        let (start, used) = (Instant::now(), processor_time());
        std::thread::sleep(plan.measured);
        let mut report = Report::new();
        report.processor_seconds = (processor_time() - used).as_secs_f64();
        report.seconds = start.elapsed().as_secs_f64();
        for worker in workers {
            report.add(&worker.join().expect("no panic")?);
        }
        Ok(report)
    })
}

/// A transaction that was made, and may not be durable yet.
struct Made {
    kind: Kind,
    start: Instant,
    is_order: bool,
    commit: Option<Commit>,
}

fn work(
    system: &dyn System,
    plan: &Plan,
    index: u32,
    (from, to): (Instant, Instant),
    ordered: &AtomicU64,
) -> Result<Report> {
    let mut terminal = Terminal::new(system.size(), index, plan.threads, plan.seed);
    let mut session = system.session()?;
    let mut report = Report::new();
    let mut made: VecDeque<Made> = VecDeque::new();
    loop {
        let is_over = Instant::now() >= to;
        // Removes durable transactions. Waits for the oldest ones if there are too many.
        let most = if is_over { 0 } else { plan.outstanding };
        while let Some(first) = made.front() {
            if let Some(commit) = &first.commit {
                if made.len() <= most && !commit.is_durable() {
                    break;
                }
                commit.wait()?;
            }
            let took = first.start.elapsed().as_nanos() as u64;
            ordered.fetch_add(first.is_order.into(), Ordering::Relaxed);
            if first.start >= from {
                report.latencies[first.kind as usize].record(took)?;
            }
            made.pop_front();
        }
        if is_over {
            return Ok(report);
        }
        let (kind, request) = terminal.next();
        let start = Instant::now();
        let (answer, commit) = session(&request)?;
        if start >= from {
            report.rolled_back += u64::from(answer == Answer::RolledBack);
        }
        made.push_back(Made { kind, start, is_order: matches!(answer, Answer::Ordered { .. }), commit });
    }
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
