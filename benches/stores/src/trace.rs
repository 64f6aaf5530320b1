//! Counts the syncs of the stores. This program runs again under strace, with a few transactions between two
//! marks. These runs are not timed, because strace slows them down.

use crate::Result;
use crate::plan::Bench;
use crate::run::{self, PER_INSERT, Until};
use crate::systems::{System, Values};
use clap::ValueEnum as _;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::process::{Command, Stdio};

/// System calls that sync, that write (a file may be open with `O_DSYNC`), and that tell which file has which
/// number.
const CALLS: &str = "trace=fsync,fdatasync,msync,sync_file_range,syncfs,sync,\
     write,writev,pwrite64,pwritev,pwritev2,open,openat,close";
/// A file that does not exist. The trace shows the attempt to open it.
const MARK: &str = "/pheap-stores-mark";

fn mark() {
    let _ = std::fs::File::open(MARK);
}

/// Counts syncs, and remembers each result.
pub(crate) struct Tracer {
    transactions: u64,
    counted: HashMap<(System, Bench, usize), Option<f64>>,
    /// The reason why counting does not work.
    broken: Option<String>,
}

impl Tracer {
    pub(crate) fn new(transactions: u64) -> Tracer {
        Tracer { transactions, counted: HashMap::new(), broken: None }
    }

    /// Returns syncs divided by transactions. `None` if there is no strace, or it does not work here.
    pub(crate) fn syncs_per_commit(
        &mut self,
        system: System,
        bench: Bench,
        threads: usize,
        dir: &Path,
    ) -> Result<Option<f64>> {
        let case = (system, bench, threads);
        if let Some(&counted) = self.counted.get(&case) {
            return Ok(counted);
        }
        if self.broken.is_some() {
            return Ok(None);
        }
        let transactions = match bench {
            Bench::InsertSync => (self.transactions / 8).max(1),
            _ => (self.transactions / threads as u64).max(4),
        };
        let counted = match self.trace(case, transactions, dir)? {
            Ok(syncs) => Some(syncs as f64 / (transactions * threads as u64) as f64),
            Err(reason) => {
                eprintln!("syncs are not counted: {reason}");
                self.broken = Some(reason);
                None
            }
        };
        self.counted.insert(case, counted);
        Ok(counted)
    }

    /// Returns the number of syncs, or the reason why there is no trace.
    fn trace(
        &self,
        (system, bench, threads): (System, Bench, usize),
        transactions: u64,
        dir: &Path,
    ) -> Result<std::result::Result<u64, String>> {
        let trace = dir.join("trace");
        let output = Command::new("strace")
            .args(["-f", "--seccomp-bpf", "-qq", "-e", "signal=none", "-e", CALLS, "-o"])
            .arg(&trace)
            .arg(std::env::current_exe()?)
            .args(["--child", system.name(), &bench.name(), &threads.to_string(), &transactions.to_string()])
            .arg(dir)
            .stdin(Stdio::null())
            .output();
        let output = match output {
            Ok(output) => output,
            Err(error) => return Ok(Err(format!("strace: {error}"))),
        };
        let trace = std::fs::read(&trace).unwrap_or_default();
        let trace = String::from_utf8_lossy(&trace);
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            // If the program has opened the mark, strace works, and the program itself failed.
            return if trace.contains(MARK) { Err(message.into()) } else { Ok(Err(message)) };
        }
        Ok(Ok(count(&trace)?))
    }
}

/// Counts the syncs between the marks.
fn count(trace: &str) -> Result<u64> {
    let (mut marks, mut syncs) = (0, 0);
    // Files that each write syncs, and threads that are about to open one.
    let (mut synced, mut opening) = (HashSet::new(), HashSet::new());
    for line in trace.lines() {
        let (thread, call) = line.split_once(' ').ok_or("a line of the trace begins with a thread")?;
        let call = call.trim_start();
        if let Some(resumed) = call.strip_prefix("<... open") {
            if opening.remove(thread) {
                synced.extend(returned(resumed));
            }
            continue;
        }
        let Some((name, arguments)) = call.split_once('(') else { continue };
        let file = arguments.split([',', ')', ' ']).next().and_then(|file| file.parse::<u32>().ok());
        match name {
            "open" | "openat" if arguments.contains(MARK) => marks += 1,
            // O_SYNC is printed for files that have both flags.
            "open" | "openat" if arguments.contains("O_DSYNC") || arguments.contains("O_SYNC") => {
                if arguments.contains("<unfinished") {
                    opening.insert(thread);
                } else {
                    synced.extend(returned(arguments));
                }
            }
            "close" => {
                file.map(|file| synced.remove(&file));
            }
            _ if marks != 1 => {}
            "fsync" | "fdatasync" | "sync_file_range" | "syncfs" | "sync" => syncs += 1,
            "msync" => syncs += u64::from(arguments.contains("MS_SYNC")),
            "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" => {
                let of_file = file.is_some_and(|file| synced.contains(&file));
                let of_call = arguments.contains("RWF_DSYNC") || arguments.contains("RWF_SYNC");
                syncs += u64::from(of_file || of_call);
            }
            _ => {}
        }
    }
    if marks == 2 { Ok(syncs) } else { Err(format!("the trace has {marks} marks").into()) }
}

/// Returns the number of the file that was opened.
fn returned(line: &str) -> Option<u32> {
    line.rsplit_once("= ")?.1.trim().parse().ok()
}

/// Runs the traced program: `system bench threads transactions dir`, with `transactions` of each thread.
pub(crate) fn serve(words: &[String]) -> Result<()> {
    let [system, bench, threads, transactions, dir] = words else {
        return Err("--child has five words".into());
    };
    let system = System::from_str(system, false)?;
    let (threads, transactions): (usize, u64) = (threads.parse()?, transactions.parse()?);
    let store = system.open(&Path::new(dir).join("."), true)?;
    if Bench::from_str(bench, false)? == Bench::InsertSync {
        let keys = run::keys((transactions as usize + 1) * PER_INSERT);
        let (first, others) = keys.split_at(PER_INSERT);
        // One-time work happens here, before the mark.
        run::inserts(&*store, first, || ())?;
        run::inserts(&*store, others, mark)?;
    } else {
        let values = Values { threads, each: 100 };
        store.preload(values)?;
        run::updates(&*store, values, Until::Count(transactions), mark)?;
    }
    store.close()
}
