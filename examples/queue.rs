//! A job queue with several workers. It is killed (`kill -9`) again and again: no job is lost, and no job has
//! two results.
//!
//! ```text
//! cargo run --release --example queue                  8 rounds: start, kill, look
//! cargo run --release --example queue -- --rounds 100
//! ```
//!
//! One transaction submits a job. A second one assigns the job to a worker. A third one marks it as done and
//! stores the result. If the program is killed between the second and the third, the heap still has the job
//! as running, and the next start gives it to another worker. So the work may be done twice, but there is
//! only one result.
//!
//! The parent process starts this program again as a child process. The child prints each job that it has
//! submitted or done, after the transaction has returned. The parent kills the child, and checks the heap:
//! all printed jobs are there, and every job is in exactly one collection.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use clap::Parser;
use pheap::{Heap, P, PBTreeMap, POption, PVecDeque, Persist, Root, View, field};
use pheap_examples::{exit_code, random, run_and_kill};

// ---- Content of the heap ----------------------------------------------------------------------------------

#[derive(Persist, Default)]
#[repr(C)]
struct Queue<'r> {
    /// Waiting jobs, in the order in which they are to be done.
    waiting: PVecDeque<'r, P<'r, Job<'r>>>,
    /// Running jobs, by number. A worker has taken each of them, perhaps in a process that was killed.
    running: PBTreeMap<'r, u64, P<'r, Job<'r>>>,
    /// Finished jobs, by number.
    done: PBTreeMap<'r, u64, P<'r, Job<'r>>>,
    /// Number of the next job.
    next: u64,
}

#[derive(Persist)]
#[repr(C)]
struct Job<'r> {
    number: u64,
    text: P<'r, str>,
    /// Number of times that a worker has taken the job.
    attempts: u64,
    /// The result: the number of words in the text.
    words: POption<u64>,
}

// ---- The service ------------------------------------------------------------------------------------------

struct Service {
    queue: Root<Queue<'static>>,
    /// Number of waiting jobs that no worker has claimed yet. It is not in the heap, because only the threads
    /// of this process use it.
    unclaimed: Mutex<usize>,
    arrived: Condvar,
}

impl Service {
    fn open(heap: &Path) -> pheap::Result<Service> {
        let queue: Root<Queue> = Heap::open(heap)?.root("queue")?; // the root keeps the heap open
        let waiting = queue.txn(|tx, queue| {
            // The workers of these jobs are dead. The jobs go to the front, the oldest first.
            while let Some((_, job)) = field!(queue.running).pop_last(tx) {
                field!(queue.waiting).push_front(tx, job)?;
            }
            Ok(tx[queue].waiting.len())
        })?;
        Ok(Service { queue, unclaimed: Mutex::new(waiting), arrived: Condvar::new() })
    }

    /// Adds jobs with these texts, all or none. Returns their numbers.
    fn submit(&self, texts: &[String]) -> pheap::Result<Range<u64>> {
        let numbers = self.queue.txn(|tx, queue| {
            let first = tx[queue].next;
            for (number, text) in (first..).zip(texts) {
                let text = tx.alloc_str(text)?;
                let job = tx.alloc(Job { number, text, attempts: 0, words: POption::None })?;
                field!(queue.waiting).push_back(tx, job)?;
            }
            tx[queue].next += texts.len() as u64;
            Ok(first..tx[queue].next)
        })?;
        *self.unclaimed.lock().unwrap() += texts.len();
        self.arrived.notify_all();
        Ok(numbers)
    }

    /// Waits for a job, and takes it.
    fn take(&self) -> pheap::Result<(u64, String)> {
        let unclaimed = self.unclaimed.lock().unwrap();
        *self.arrived.wait_while(unclaimed, |unclaimed| *unclaimed == 0).unwrap() -= 1;
        self.queue.txn(|tx, queue| {
            let job = field!(queue.waiting).pop_front(tx).expect("it was counted when it was there");
            tx[job].attempts += 1;
            let number = tx[job].number;
            field!(queue.running).insert(tx, number, job)?;
            Ok((number, tx[tx[job].text].to_owned()))
        })
    }

    fn finish(&self, number: u64, words: u64) -> pheap::Result<()> {
        self.queue.txn(|tx, queue| {
            let job = field!(queue.running).remove(tx, number).expect("it was taken");
            tx[job].words = POption::Some(words);
            field!(queue.done).insert(tx, number, job)?;
            Ok(())
        })
    }
}

/// Does the work of a job.
fn count_words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

// ---- Kills ------------------------------------------------------------------------------------------------

/// Submits jobs and does them, while it is killed again and again, and looks for each job every time.
#[derive(Parser)]
struct Args {
    /// How often to kill.
    #[arg(long, value_name = "N", default_value_t = 8)]
    rounds: u32,
    /// Threads that do jobs.
    #[arg(long, value_name = "N", default_value_t = 4)]
    workers: usize,
    /// The heap file, which is kept. [default: a temporary file]
    #[arg(long, value_name = "FILE")]
    heap: Option<PathBuf>,
    /// Be the process that gets killed.
    #[arg(long, hide = true, requires = "heap")]
    victim: bool,
}

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let args = Args::parse();
    exit_code(match &args.heap {
        Some(heap) if args.victim => work_for_ever(heap, args.workers).map_err(Into::into),
        heap => kill_and_look(heap.as_deref(), &args),
    })
}

/// Returns the text of a job.
fn text(number: u64) -> String {
    format!("job {number}:{}", " and so on".repeat(number as usize % 40))
}

/// Submits and does jobs until the process is killed. The child process calls this. If the parent does not
/// read the output any more, `println!` panics.
fn work_for_ever(heap: &Path, workers: usize) -> pheap::Result<()> {
    const BATCH: usize = 10;
    /// If so many jobs wait, no more are submitted.
    const ENOUGH: usize = 50;

    let service = &Service::open(heap)?;
    let next = service.queue.read(|view, queue| view[queue].next)?;
    println!("open"); // from now on, the parent may kill this process
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let (number, text) = service.take().expect("the heap works");
                    service.finish(number, count_words(&text)).expect("the heap works");
                    println!("done {number}");
                }
            });
        }
        for first in (next..).step_by(BATCH) {
            while *service.unclaimed.lock().unwrap() >= ENOUGH {
                std::thread::sleep(Duration::from_millis(1));
            }
            let texts: Vec<String> = (first..).take(BATCH).map(text).collect();
            for number in service.submit(&texts)? {
                println!("submitted {number}");
            }
        }
        Ok(())
    })
}

/// Kills the child in each round, and checks the jobs. The parent process calls this.
fn kill_and_look(heap: Option<&Path>, args: &Args) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = heap.map_or_else(|| folder.path().join("queue.pheap"), Path::to_owned);
    let mut below = random(u64::from(std::process::id()));
    for round in 1..=args.rounds {
        let workers = args.workers.to_string();
        let victim: [&OsStr; 5] =
            ["--victim".as_ref(), "--workers".as_ref(), workers.as_ref(), "--heap".as_ref(), path.as_ref()];
        let victim = run_and_kill(victim, Duration::from_micros(below(300_000) as u64))?;
        let said = |what: &str| {
            let numbers = victim.lines.iter().filter_map(|line| line.strip_prefix(what)?.parse().ok());
            numbers.collect::<Vec<u64>>()
        };
        let heap = Heap::open(&path)?;
        let queue: Root<Queue> = heap.root("queue")?;
        let found = queue.read(|view, queue| look(view, queue, &said("submitted "), &said("done ")))??;
        if !heap.check()?.is_clean() {
            return Err("the heap is damaged".into());
        }
        println!("killed {round} times: {found}");
    }
    println!("no job was lost, and none was done twice");
    Ok(())
}

/// Checks each job, and all jobs that the child reported as submitted or done.
fn look<'r>(view: &View<'r>, queue: P<'r, Queue<'r>>, submitted: &[u64], done: &[u64]) -> Result<String> {
    let queue = &view[queue];
    let mut places = BTreeMap::new();
    let waiting = queue.waiting.iter(view).map(|&job| ("waiting", job));
    let running = queue.running.values(view).map(|&job| ("running", job));
    for (place, job) in waiting.chain(running).chain(queue.done.values(view).map(|&job| ("done", job))) {
        let job = &view[job];
        if let Some(other) = places.insert(job.number, place) {
            return Err(format!("job {} is {other} and {place}", job.number).into());
        }
        let text = &view[job.text];
        let words = (place == "done").then(|| count_words(text));
        if text != self::text(job.number) || job.words != words || (place != "waiting" && job.attempts == 0) {
            return Err(format!("job {} is {place}, and wrong", job.number).into());
        }
    }
    if !places.keys().copied().eq(0..queue.next) {
        return Err(format!("{} of {} jobs are there", places.len(), queue.next).into());
    }
    if let Some(number) = submitted.iter().find(|&number| !places.contains_key(number)) {
        return Err(format!("job {number} was submitted, and is lost").into());
    }
    if let Some(number) = done.iter().find(|number| places.get(number) != Some(&"done")) {
        return Err(format!("job {number} was done, and is not any more").into());
    }
    let count = |wanted| places.values().filter(|place| **place == wanted).count();
    Ok(format!("{} done, {} running, {} waiting", count("done"), count("running"), count("waiting")))
}
