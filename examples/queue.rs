//! A job queue with four workers. It is killed (`kill -9`) again and again: no job is lost, and none has two results.
//!
//! ```text
//! cargo run --release --example queue                  a few rounds: start, kill, look
//! cargo run --release --example queue -- --rounds 100
//! ```
//!
//! A job is submitted in one transaction, taken by a worker in a second one, and done in a third, which also stores the result. If the program is killed in between, the job is still
//! noted as running; the next start lets another worker have it. So the work may be done again, and its result is there once.
//!
//! The parent starts itself again as a child, which says what it has submitted and done, each when its transaction has returned. The parent kills it, and looks into the heap: all that
//! was said is there, and every job is in one place.

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

// ---- What is in the heap -------------------------------------------------------------------------------------------------------

#[derive(Persist, Default)]
#[repr(C)]
struct Queue<'r> {
    /// In the order in which they are to be done.
    waiting: PVecDeque<'r, P<'r, Job<'r>>>,
    /// By their numbers: a worker is at them, or was when the program was killed.
    running: PBTreeMap<'r, u64, P<'r, Job<'r>>>,
    /// By their numbers.
    done: PBTreeMap<'r, u64, P<'r, Job<'r>>>,
    /// Number of the next job.
    next: u64,
}

#[derive(Persist)]
#[repr(C)]
struct Job<'r> {
    number: u64,
    text: P<'r, str>,
    /// How often a worker has taken it.
    attempts: u64,
    /// The result: how many words the text has.
    words: POption<u64>,
}

// ---- The service ---------------------------------------------------------------------------------------------------------------

struct Service {
    queue: Root<Queue<'static>>,
    /// How many jobs wait that no worker has claimed yet. It is not in the heap: it is for the threads of this program only.
    unclaimed: Mutex<usize>,
    arrived: Condvar,
}

impl Service {
    fn open(heap: &Path) -> pheap::Result<Service> {
        let queue: Root<Queue> = Heap::open(heap)?.root("queue")?; // the root keeps the heap open
        let waiting = queue.txn(|tx, queue| {
            // Whoever was at these is dead. They are to be first, the oldest before the others.
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

/// The work.
fn count_words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

// ---- Kills ---------------------------------------------------------------------------------------------------------------------

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

/// What is in the text of a job.
fn text(number: u64) -> String {
    format!("job {number}:{}", " and so on".repeat(number as usize % 40))
}

/// What the child does. (If nobody reads what it says any more, it panics, and that is the end of it.)
fn work_for_ever(heap: &Path, workers: usize) -> pheap::Result<()> {
    const BATCH: usize = 10;
    /// More jobs than that need not wait.
    const ENOUGH: usize = 50;

    let service = &Service::open(heap)?;
    let next = service.queue.read(|view, queue| view[queue].next)?;
    println!("open"); // the parent may start to kill us
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

/// What the parent does.
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

/// Looks for each job, and for all that was said of it.
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
