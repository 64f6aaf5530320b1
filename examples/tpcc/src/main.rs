//! The transactions of TPC-C: a wholesaler with warehouses, whose customers order, pay, and ask.
//!
//! ```text
//! cargo run --release -p pheap-tpcc -- load --warehouses 2        about 100 MB each
//! cargo run --release -p pheap-tpcc -- run --threads 2            transactions per second, and latencies
//! cargo run --release -p pheap-tpcc -- check                      the specification's consistency conditions
//! cargo run --release -p pheap-tpcc -- run --kills 10             run, `kill -9`, check; again and again
//! ```
//!
//! Start reading with `tables.rs`, then read `transactions/`. The other files are the benchmark:
//! `requests.rs` makes requests like those of terminals, `drive.rs` runs and measures them, `rows.rs` and
//! `load.rs` make the initial content, and `check.rs` has the conditions. With the feature `sqlite`,
//! `sqlite/` has the same on SQLite.
//!
//! It is not TPC-C as specified. Terminals do not wait and show no forms, so no result is a tpmC. Deliveries
//! are made at once, not queued.

#![allow(unreachable_pub)] // a program has no public interface

mod check;
mod company;
mod drive;
mod kills;
mod load;
mod options;
mod random;
mod requests;
mod rows;
#[cfg(feature = "sqlite")]
mod sqlite;
mod tables;
#[cfg(test)]
mod tests;
mod transactions;

use std::process::ExitCode;
use std::sync::atomic::AtomicU64;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};

use crate::check::Findings;
use crate::company::Company;
use crate::drive::{Report, Session, System};
use crate::options::{Args, Load, Run, Store};
use crate::requests::{Kind, Size};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let result = match Args::parse() {
        Args::Load(args) => load(&args),
        Args::Run(args) => match args.kills {
            Some(rounds) if !args.victim => {
                kills::kill(rounds, args.seed, |read_only| check(&args.store, read_only))
            }
            _ => run(&args),
        },
        Args::Check(store) => check(&store, false).and_then(|findings| report_findings(&findings)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

impl System for Company {
    fn size(&self) -> Size {
        self.size
    }

    fn session(&self) -> Result<Session<'_>> {
        Ok(Box::new(|request| Ok(transactions::run(self, request)?)))
    }
}

fn load(args: &Load) -> Result<()> {
    let size = args.size();
    let rows = u64::from(size.items) + u64::from(size.warehouses) * rows::rows_of_a_warehouse(size);
    let progress = ProgressBar::new(rows)
        .with_style(ProgressStyle::with_template("{bar:40} {percent:>3} % of {human_len} rows, {eta} left")?);
    #[cfg(feature = "sqlite")]
    if args.store.sqlite {
        return sqlite::load(&args.store.path, size, args.seed, &progress);
    }
    let heap = args.store.options().open(&args.store.path)?;
    load::load(&heap, size, args.seed, &progress)?;
    heap.close()?;
    progress.finish_and_clear();
    Ok(())
}

fn open(store: &Store) -> Result<Box<dyn System>> {
    must_exist(store)?;
    #[cfg(feature = "sqlite")]
    if store.sqlite {
        return Ok(Box::new(sqlite::Database::open(&store.path, store.sqlite_synchronous())?));
    }
    Ok(Box::new(Company::of(store.options().open(&store.path)?)?))
}

fn run(args: &Run) -> Result<()> {
    let system = open(&args.store)?;
    let plan = args.plan();
    if plan.threads > system.size().warehouses {
        return Err(
            format!("more threads than warehouses, of which there are {}", system.size().warehouses).into()
        );
    }
    let ordered = AtomicU64::new(0);
    if !args.victim {
        print(&drive::drive(&*system, &plan, &ordered)?);
        return Ok(());
    }
    std::thread::scope(|scope| {
        scope.spawn(|| kills::report(&ordered));
        let end = drive::drive(&*system, &plan, &ordered).map(drop);
        eprintln!("nobody has killed this: {end:?}");
        std::process::exit(1)
    })
}

fn check(store: &Store, read_only: bool) -> Result<Findings> {
    must_exist(store)?;
    #[cfg(feature = "sqlite")]
    if store.sqlite {
        return sqlite::check(&store.path);
    }
    let heap = store.options().read_only(read_only).open(&store.path)?;
    Ok(check::check(&Company::of(heap)?)?)
}

fn must_exist(store: &Store) -> Result<()> {
    if store.path.exists() {
        Ok(())
    } else {
        Err(format!("{} has to be loaded first", store.path.display()).into())
    }
}

fn report_findings(findings: &Findings) -> Result<()> {
    for violation in findings.violations.iter().take(20) {
        println!("{violation}");
    }
    match findings.violations.len() {
        0 => {
            println!("all conditions hold, with {} orders", findings.orders);
            Ok(())
        }
        n => Err(format!("conditions are violated {n} times").into()),
    }
}

fn print(report: &Report) {
    println!("{:14} {:>9} {:>9} {:>9} {:>9} {:>9}   µs", "", "number", "median", "99 %", "99.9 %", "most");
    for (kind, latencies) in Kind::ALL.into_iter().zip(&report.latencies) {
        let micros = |quantile| latencies.value_at_quantile(quantile) as f64 / 1e3;
        println!(
            "{:14} {:>9} {:>9.1} {:>9.1} {:>9.1} {:>9.0}",
            kind.name(),
            latencies.len(),
            micros(0.5),
            micros(0.99),
            micros(0.999),
            micros(1.0)
        );
    }
    let transactions = report.transactions() as f64;
    println!(
        "{:.0} transactions per second ({} new orders were rolled back); {:.0} per second of processor time",
        transactions / report.seconds,
        report.rolled_back,
        transactions / report.processor_seconds
    );
}
