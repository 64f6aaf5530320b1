//! An endurance run: objects of many types and sizes are replaced by the million, and the file stays small.
//!
//! ```text
//! cargo run --release --example churn                                        10 million replacements, 64 MiB alive
//! cargo run --release --example churn -- --kill-every 500000                 the same, with kills now and then
//! cargo run --release --example churn -- --replacements 100000 --live-mib 4
//! ```
//!
//! The program fills a table with items. Then each step replaces a random item by a new one, and some steps
//! also swap two items. The old item becomes garbage; the program does not free it. The seed and the number
//! of an item determine its kind (a text, a list, a record with a name and a shape, …) and its content. So a
//! table of numbers in volatile memory is enough to compute the expected content of the heap. In the end, the
//! program compares everything, and checks the heap.
//!
//! With `--kill-every`, another process does the steps, and is killed again and again. Each transaction also
//! writes the number of its last step. After a kill, the content must be that of exactly the steps up to this
//! number. All steps that were reported as done must be included.
//!
//! The types are in `content.rs`, the steps in `store.rs`.

#![allow(unreachable_pub)] // a program has no public interface

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::Parser;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use pheap::{Durability, Options, Stats};

use content::numbers;
use store::{Model, Plan, Store};

mod content;
mod store;

/// Number of transactions between two looks at the file's size, without kills.
const LOOK: u64 = 100;

/// Replaces objects in a heap by the million, and checks that the file stays small and the content correct.
#[derive(Parser)]
struct Args {
    /// Items to replace, after the table has been filled.
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    replacements: u64,
    /// Approximate size of all live items.
    #[arg(long, value_name = "N", default_value_t = 64)]
    live_mib: u64,
    /// By how much the file grows at a time.
    #[arg(long, value_name = "N", default_value_t = 4)]
    arena_mib: u64,
    /// The file must stay smaller than this multiple of the live items. (A small heap needs more: it is not
    /// collected before 4 MiB are allocated, and each type and size of objects has pages of its own.)
    #[arg(long, value_name = "N", default_value_t = 3.0)]
    limit: f64,
    /// Let another process do the steps, and kill it again and again, mostly after at most 1.5 times this
    /// many.
    #[arg(long, value_name = "N")]
    kill_every: Option<u64>,
    /// Let the heap move to another address at most of its openings.
    #[arg(long)]
    move_about: bool,
    /// Survive power failures, if the medium does: with flushes and fences.
    #[arg(long)]
    pmem: bool,
    /// Seed of the random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The heap file, which must not exist, and is kept. [default: a temporary file]
    #[arg(long, value_name = "FILE")]
    heap: Option<PathBuf>,
    /// Be the process that gets killed.
    #[arg(long, hide = true, requires = "heap")]
    victim: bool,
}

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    pheap_examples::exit_code(run(&Args::parse()))
}

fn run(args: &Args) -> Result<()> {
    let plan = Plan::new(args.seed, args.live_mib << 20);
    let last = plan.places + args.replacements;
    if let (Some(heap), true) = (&args.heap, args.victim) {
        return be_victim(args, heap, plan, last);
    }
    let folder = tempfile::tempdir()?;
    let path = args.heap.clone().unwrap_or_else(|| folder.path().join("churn.pheap"));
    if path.exists() {
        return Err(format!("there is a {} already", path.display()).into());
    }
    let start = Instant::now();
    let progress = ProgressBar::new(last)
        .with_style(ProgressStyle::with_template("{bar:30} {percent:>3}%  {wide_msg}  {eta} left")?);
    let mut run = Run { args, path: &path, plan, last, progress, model: Model::new(plan), largest: 0 };
    let kills = match args.kill_every {
        Some(every) => run.with_kills(every)?,
        None => run.in_one_go()?,
    };
    let live = run.verify(run.options(kills))?;
    run.progress.finish_and_clear();

    println!("{} items replaced in {:.1?}, {kills} kills", HumanCount(args.replacements), start.elapsed());
    let ratio = run.largest as f64 / live as f64;
    println!("{} alive in a file of {}: {ratio:.2} times as much", mib(live), mib(run.largest));
    if ratio >= args.limit {
        return Err(format!("that is not less than {} times", args.limit).into());
    }
    println!("the content is correct, the heap is sound");
    Ok(())
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64)
}

impl Args {
    /// Returns the options for opening number `opening` of the heap.
    fn options(&self, opening: u64) -> Options {
        let durability = if self.pmem { Durability::Pmem } else { Durability::Process };
        let options = Options::new().durability(durability).arena_size(self.arena_mib << 20);
        if !self.move_about {
            return options;
        }
        // Above the default addresses of heaps.
        const PLACES: u64 = 0x6000_0000_0000;
        const RESERVED: u64 = 1 << 36;
        options.reserve(RESERVED).base(PLACES + opening % 5 * RESERVED)
    }
}

/// The time at which a child is killed.
enum End {
    /// This time after its start.
    After(Duration),
    /// After it has reported this step or a later one.
    At(u64),
}

/// The state of a run.
struct Run<'a> {
    args: &'a Args,
    path: &'a Path,
    plan: Plan,
    /// The number of the last step.
    last: u64,
    progress: ProgressBar,
    model: Model,
    /// Largest size of the file that was seen, in bytes.
    largest: u64,
}

impl Run<'_> {
    fn options(&self, opening: u64) -> Options {
        self.args.options(opening)
    }

    fn look(&mut self, bytes: u64) {
        self.largest = self.largest.max(bytes);
    }

    /// Does all steps, in this process.
    fn in_one_go(&mut self) -> Result<u64> {
        let store = Store::open(&self.options(0), self.path, self.plan)?;
        let mut done = 0;
        while done < self.last {
            for _ in 0..LOOK {
                if done < self.last {
                    done = store.transaction(self.last)?;
                }
            }
            let stats = store.heap.stats();
            self.look(stats.file_bytes);
            self.progress.set_position(done);
            self.progress.set_message(format!("{} in the file", mib(stats.file_bytes)));
        }
        let stats = store.heap.stats();
        let Stats { pauses, collections, collecting, free_bytes, live_bytes, .. } = &stats;
        let pauses = [pauses.quantile(0.5), pauses.quantile(0.99), pauses.longest()];
        self.progress.suspend(|| {
            println!("{collections} collections worked {collecting:.1?}; slices {pauses:.1?} (median, 99 %, longest)");
            println!("slots of {} in use, pages of {} free", mib(*live_bytes), mib(*free_bytes));
        });
        store.heap.close()?;
        Ok(0)
    }

    /// Lets children do the steps, and kills each of them. Returns the number of children. The last one may
    /// end by itself.
    ///
    /// Most children are killed after a number of steps, not after a time. The number of steps determines the
    /// garbage that a child leaves to later collections, and with it the size of the file.
    fn with_kills(&mut self, every: u64) -> Result<u64> {
        let mut rng = numbers(self.args.seed, u64::from(std::process::id()));
        let mut kills = 0;
        while self.model.done < self.last {
            // Sometimes the kill comes early, perhaps during recovery or before the first transaction.
            let end = if self.model.done > 0 && rng.below(4) == 0 {
                End::After(Duration::from_micros(rng.below(20_000) as u64))
            } else {
                End::At(self.model.done + 1 + rng.below((every + every / 2) as usize) as u64)
            };
            let reported = self.victim(end)?;
            kills += 1;
            // If the heap is opened read-only, the file stays as the kill left it, and the next child
            // recovers it.
            let options = self.options(kills).read_only(rng.below(2) == 0);
            self.verify(options)?;
            if self.model.done < reported {
                return Err(format!("step {reported} was done, and then only {} was", self.model.done).into());
            }
            self.progress.set_position(self.model.done);
            self.progress.set_message(format!("{kills} kills, {} in the file", mib(self.largest)));
        }
        Ok(kills)
    }

    /// Starts a child and kills it. Returns the last step that the child reported, or that was done before.
    fn victim(&self, end: End) -> Result<u64> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(std::env::args_os().skip(1)).arg("--victim");
        if self.args.heap.is_none() {
            command.arg("--heap").arg(self.path);
        }
        let mut victim = command.stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(victim.stdout.take().expect("it is piped")).lines();
        let mut steps = lines.map_while(|line| line.ok()?.parse().ok());
        let mut reported = self.model.done;
        match end {
            End::After(time) => std::thread::sleep(time),
            End::At(step) => reported = steps.find(|&done| done >= step).unwrap_or(reported),
        }
        victim.kill()?;
        let status = victim.wait()?;
        if status.code().is_some_and(|code| code != 0) {
            return Err(format!("a child has failed: {status}").into()); // it ended before it was killed
        }
        Ok(steps.last().unwrap_or(reported))
    }

    /// Checks the whole content, and the heap itself. Returns the bytes of all items.
    fn verify(&mut self, options: Options) -> Result<u64> {
        let store = Store::open_existing(&options, self.path, self.plan)?;
        store.heap.wait_ready()?;
        let done = store.done()?;
        self.model.advance(done);
        let live = store.compare(&self.model)?;
        self.look(store.heap.stats().file_bytes);
        let report = store.heap.check()?;
        if !report.is_clean() {
            return Err(format!("the heap is not sound: {report:#?}").into());
        }
        store.heap.close()?;
        Ok(live)
    }
}

/// Does steps until the process is killed or no steps are left. Reports each transaction on standard output.
fn be_victim(args: &Args, heap: &Path, plan: Plan, last: u64) -> Result<()> {
    let opening = u64::from(std::process::id());
    let store = Store::open(&args.options(opening), heap, plan)?;
    let mut out = std::io::stdout();
    while store.done()? < last {
        let done = store.transaction(last)?;
        // Writes the line with one `write`, so that a kill cannot tear it.
        out.write_all(format!("{done}\n").as_bytes())?;
    }
    Ok(())
}
