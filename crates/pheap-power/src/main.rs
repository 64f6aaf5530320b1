//! The load of the power-cut tests. It runs inside a virtual machine whose power will be cut, and reports on
//! stdout what must survive.
//!
//! The program opens the heap, checks it, changes it for up to four seconds and closes it, again and again
//! until the machine is switched off. `ci/power_cut.py` keeps the lines on stdout that leave the machine, so
//! it knows what the next run must find:
//!
//! | line | |
//! |---|---|
//! | `found ROOT N` | after opening: the last transaction of a root |
//! | `alive THREAD N` | after opening: the temporary root of a thread has the content of its step N |
//! | `opened DURABILITY map_sync=BOOL …` | after opening: all of the heap was checked, and is correct |
//! | `ack ROOT N` | transaction N was committed, hence all before it |
//! | `seen ROOT N` | a reader has seen transaction N |
//! | `life THREAD N` | step N was made: the thread's temporary root was created, renamed or removed |
//! | `stats NAME=NUMBER …` | counters since the heap was opened |
//! | `cut the power` | with `--cut-after` |
//! | `wrong: …` | an error; the exit status is 1 |

#![allow(unreachable_pub)] // this is a program, so no other crate can reach its items

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use pheap::{Durability, Heap, Options, Root, SyncPolicy};

use content::{MOST_ROOTS, Shard};
use pheap_testkit::Rng;

mod content;
mod load;
mod temps;
mod verify;
mod worker;

/// Changes a heap until the machine dies, and says what must be found after that.
#[derive(Parser)]
struct Args {
    /// The heap.
    #[arg(long, value_name = "FILE")]
    path: PathBuf,
    /// What the heap is to survive.
    #[arg(long, value_enum, default_value_t = Mode::Auto)]
    durability: Mode,
    /// Threads that write.
    #[arg(long, value_name = "N", default_value_t = 4)]
    threads: u64,
    /// Roots that are never removed.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(2..=MOST_ROOTS as u64))]
    roots: u64,
    /// Each thread acknowledges after a number of commits that it draws from 1 to this.
    #[arg(long, value_name = "N", default_value_t = 8)]
    ack_every: u64,
    /// The seed of the random choices.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Ask for the power to be cut this many milliseconds after the heap was opened.
    #[arg(long, value_name = "MS")]
    cut_after: Option<u64>,
    /// Only read the heap, and close it.
    #[arg(long)]
    verify: bool,
    /// Make this mistake, which the test must notice.
    #[arg(long, value_enum, default_value_t = Mistake::None)]
    mistake: Mistake,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Mode {
    Auto,
    Pmem,
    Wal,
    Process,
}

/// A mistake that the test must notice.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Mistake {
    None,
    /// Transactions are acknowledged without waiting for the disk.
    NoSync,
    /// Transactions are acknowledged before they are committed.
    EarlyAck,
    /// A transfer is two transactions.
    Split,
}

/// An error that ends the program, as a text.
type Result<T = ()> = std::result::Result<T, String>;

/// Prints a line in one piece.
fn say(line: std::fmt::Arguments<'_>) {
    println!("{line}");
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            say(format_args!("wrong: {}", what.replace('\n', "; ")));
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result {
    let mut rng = Rng::new(&[args.seed, 0]);
    let mut cut_after = args.cut_after.map(Duration::from_millis);
    say(format_args!("started"));
    loop {
        // Each opening draws its options, and sometimes the address.
        let heap = args.open(&mut rng)?;
        let roots = verify::verify(&heap, args.roots, args.threads)?;
        let info = heap.info();
        let replayed = heap.stats().replayed_records;
        say(format_args!(
            "opened {:?} map_sync={} base={:#x} file={} replayed={replayed}",
            heap.durability(),
            verify::is_mapped_with_sync(&args.path),
            info.base,
            info.file_bytes,
        ));
        if args.verify {
            drop(roots);
            return heap.close().map_err(|e| e.to_string());
        }
        if let Some(time) = cut_after.take() {
            std::thread::spawn(move || {
                std::thread::sleep(time);
                say(format_args!("cut the power"));
            });
        }
        let shards: Vec<_> =
            (0..args.roots).map(|i| args.shard(&heap, i)).collect::<pheap::Result<_>>().map_err(text)?;
        let duration = Duration::from_millis(150 + rng.scaled(3500));
        load::run(args, &heap, &shards, roots, rng.next_u64(), duration)?;
        drop(shards);
        heap.close().map_err(text)?;
        say(format_args!("closed"));
    }
}

fn text(error: pheap::Error) -> String {
    error.to_string()
}

impl Args {
    fn open(&self, rng: &mut Rng) -> Result<Heap> {
        const RESERVED: u64 = 1 << 30;
        // Above the addresses that heaps choose themselves.
        const PLACES: u64 = 0x6000_0000_0000;
        let durability = match self.durability {
            Mode::Auto => Durability::Auto,
            Mode::Pmem => Durability::Pmem,
            Mode::Wal => Durability::Wal,
            Mode::Process => Durability::Process,
        };
        let mut options = Options::new()
            .durability(durability)
            .arena_size(512 << 10)
            .reserve(RESERVED)
            .log_limit([256 << 10, 1 << 20, 16 << 20][rng.scaled(3) as usize])
            .memory_limit([512 << 10, 4 << 20, 256 << 20][rng.scaled(3) as usize])
            .collect_least(128 << 10)
            .pin_undo(rng.scaled(8) == 0);
        if self.mistake == Mistake::NoSync {
            options = options.sync_policy(SyncPolicy::OnDemand);
        }
        if !self.verify && rng.scaled(3) == 0 {
            options = options.base(PLACES + rng.scaled(5) * RESERVED);
        }
        options.open(&self.path).map_err(text)
    }

    fn shard(&self, heap: &Heap, i: u64) -> pheap::Result<Root<Shard<'static>>> {
        heap.root_or(&shard_name(i), |tx| content::new_shard(tx, i))
    }
}

fn shard_name(i: u64) -> String {
    format!("shard {i}")
}
