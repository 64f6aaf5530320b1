//! A lesson: many threads move money between the branches of a bank. No money is lost, even under `kill -9`.
//!
//! ```text
//! cargo run --release --example bank                  8 rounds: start, kill, count
//! cargo run --release --example bank -- --rounds 100
//! ```
//!
//! Each branch is a *root* of the heap. It has its own lock and its own log, so transactions on different
//! branches run concurrently. A transfer between two branches is one transaction over two roots,
//! `pheap::txn((&a, &b), …)`: both accounts change, or none. pheap always locks the roots in the same order,
//! so transfers in opposite directions cannot deadlock.
//!
//! In each round, the parent process starts this program again as a child process. The child makes transfers
//! until the parent kills it. Then the parent counts the money. The sum never changes.

use std::ffi::OsStr;
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use pheap::{Durability, Error, Options, P, Persist, Root, Txn};
use pheap_examples::{exit_code, random, run_and_kill};

const BRANCHES: usize = 8;
const ACCOUNTS: usize = 100;
/// Initial balance of each account.
const MONEY: u64 = 1000;

/// A branch: its accounts, and a count of their transfers.
#[derive(Persist)]
#[repr(C)]
struct Branch<'r> {
    accounts: P<'r, [u64]>,
    /// Number of transfers from accounts of this branch.
    transfers: u64,
}

/// Moves money between accounts while it is killed again and again, and counts the money each time.
#[derive(Parser)]
struct Args {
    /// How often to kill.
    #[arg(long, value_name = "N", default_value_t = 8)]
    rounds: u32,
    /// Threads that make transfers.
    #[arg(long, value_name = "N", default_value_t = 4)]
    threads: u64,
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
        Some(heap) if args.victim => transfer_for_ever(heap, args.threads).map_err(Into::into),
        heap => kill_and_count(heap.as_deref(), &args),
    })
}

/// Opens the bank, or creates it.
fn open(heap: &Path) -> pheap::Result<Vec<Root<Branch<'static>>>> {
    // Only processes are killed here, not the machine, so fences are not needed. (`Auto`, the default,
    // depends on the file system.)
    let heap = Options::new().durability(Durability::Process).open(heap)?;
    // `root_or` creates the branch and its accounts in one transaction, so no branch is ever without
    // accounts.
    let branch = |i| {
        heap.root_or(&format!("branch {i}"), |tx| {
            Ok(Branch { accounts: tx.alloc_slice(ACCOUNTS, |_| MONEY)?, transfers: 0 })
        })
    };
    (0..BRANCHES).map(branch).collect() // the roots keep the heap open
}

// ---- Transfers --------------------------------------------------------------------------------------------

/// An account: the number of its branch, and its number there.
#[derive(Clone, Copy)]
struct Account(usize, usize);

fn transfer(bank: &[Root<Branch>], from: Account, to: Account, amount: u64) -> pheap::Result<()> {
    if from.0 == to.0 {
        return bank[from.0].txn(|tx, branch| {
            withdraw(tx, branch, from, amount)?;
            deposit(tx, branch, to, amount);
            Ok(())
        });
    }
    // One transaction over two roots: each branch comes with its own `Txn`. The pointers of one cannot be
    // used with the other; the compiler checks that. Both commit, or neither does.
    pheap::txn((&bank[from.0], &bank[to.0]), |((tx, branch), (tx_to, branch_to))| {
        deposit(tx_to, branch_to, to, amount);
        // If this fails, the deposit is rolled back.
        withdraw(tx, branch, from, amount)
    })
}

fn withdraw<'r>(
    tx: &mut Txn<'r>,
    branch: P<'r, Branch<'r>>,
    from: Account,
    amount: u64,
) -> pheap::Result<()> {
    let account = tx[branch].accounts.at(tx, from.1);
    tx[account] = tx[account].checked_sub(amount).ok_or_else(|| Error::abort("not enough money"))?;
    tx[branch].transfers += 1;
    Ok(())
}

fn deposit<'r>(tx: &mut Txn<'r>, branch: P<'r, Branch<'r>>, to: Account, amount: u64) {
    let account = tx[branch].accounts.at(tx, to.1);
    tx[account] += amount;
}

/// Makes transfers until the process is killed, or its parent has ended. The child process calls this.
fn transfer_for_ever(heap: &Path, threads: u64) -> pheap::Result<()> {
    let bank = &open(heap)?;
    println!("open"); // from now on, the parent may kill this process
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let mut below = random(u64::from(std::process::id()) << 8 | thread);
                loop {
                    let mut account = || Account(below(BRANCHES), below(ACCOUNTS));
                    let (from, to) = (account(), account());
                    match transfer(bank, from, to, below(500) as u64) {
                        Ok(()) | Err(Error::Aborted(_)) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        // This thread counts the money. A transaction over all branches sees them at one moment, never in the
        // middle of a transfer.
        let parent = parent_id();
        loop {
            if parent_id() != parent {
                std::process::exit(1); // the parent is dead and cannot kill this process
            }
            assert_eq!(count(bank)?.0, (BRANCHES * ACCOUNTS) as u64 * MONEY);
            std::thread::sleep(Duration::from_millis(1));
        }
    })
}

/// Returns the sum of all balances, and the number of transfers.
fn count(bank: &[Root<Branch>]) -> pheap::Result<(u64, u64)> {
    pheap::txn(bank, |mut branches| {
        let (mut money, mut transfers) = (0, 0);
        for i in 0..branches.len() {
            branches.with(i, |tx, branch| {
                money += tx[tx[branch].accounts].iter().sum::<u64>();
                transfers += tx[branch].transfers;
            });
        }
        Ok((money, transfers))
    })
}

// ---- Kills ------------------------------------------------------------------------------------------------

/// Kills the child in each round, and counts the money. The parent process calls this.
fn kill_and_count(heap: Option<&Path>, args: &Args) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = heap.map_or_else(|| folder.path().join("bank.pheap"), Path::to_owned);
    let (money, mut before) = count(&open(&path)?)?;
    println!("{money} in {} accounts at {BRANCHES} branches", BRANCHES * ACCOUNTS);
    let mut below = random(u64::from(std::process::id()));
    for round in 1..=args.rounds {
        let threads = args.threads.to_string();
        let victim: [&OsStr; 5] =
            ["--victim".as_ref(), "--threads".as_ref(), threads.as_ref(), "--heap".as_ref(), path.as_ref()];
        run_and_kill(victim, Duration::from_micros(below(300_000) as u64))?;

        let (sum, transfers) = count(&open(&path)?)?;
        println!("killed {round} times, {transfers} transfers: {sum}");
        if sum != money || transfers < before {
            return Err(format!("there were {money}, after {before} transfers").into());
        }
        before = transfers;
    }
    println!("none was lost");
    Ok(())
}
