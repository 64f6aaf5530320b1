//! Tests the program `pheap` on a heap that another process writes to at full speed. Each dump is one
//! committed state, and no older than the dump before it.
//!
//! `PHEAP_DUMPS` says how many dumps are made of each heap.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use pheap::{Durability, Options, P, Persist, Result, Root, SyncPolicy};
use pheap_testkit::{Rng, role, start, tempdir};
use serde_json::Value;

const ACCOUNTS: usize = 4000;
const MONEY: i64 = 1000;

#[derive(Persist)]
#[repr(C)]
struct Bank<'r> {
    transfers: u64,
    /// In objects of their own, so that they lie apart.
    accounts: P<'r, [P<'r, Account<'r>>]>,
}

#[derive(Persist)]
#[repr(C, align(64))]
struct Account<'r> {
    balance: i64,
    newest: Option<P<'r, Statement<'r>>>,
}

#[derive(Persist)]
#[repr(C)]
struct Statement<'r> {
    text: P<'r, str>,
    number: u64,
}

fn options(policy: SyncPolicy) -> Options {
    let options = Options::new().arena_size(1 << 20).reserve(1 << 34).log_limit(4 << 20);
    options.durability(Durability::Wal).sync_policy(policy)
}

/// Moves money until the process is killed, and writes every eighth number of transfers to a file.
fn write(path: &Path, policy: SyncPolicy) -> Result<()> {
    let heap = options(policy).open(path)?;
    let bank: Root<Bank> = heap.root_or("bank", |tx| {
        let accounts = (0..ACCOUNTS).map(|_| tx.alloc(Account { balance: MONEY, newest: None }));
        let accounts = accounts.collect::<Result<Vec<_>>>()?;
        Ok(Bank { transfers: 0, accounts: tx.alloc_slice(ACCOUNTS, |i| accounts[i])? })
    })?;
    let said = File::options().create(true).truncate(false).write(true).open(path.with_extension("said"));
    let said = said.expect("a file");
    std::fs::write(path.with_extension("ready"), "").expect("a file");
    let mut random = Rng::new(&[u64::from(std::process::id())]);
    loop {
        let transfers = bank.txn(|tx, bank| {
            let [from, to] = [(); 2].map(|()| random.below(ACCOUNTS));
            let [from, to] = [from, to].map(|account| tx[tx[bank].accounts][account]);
            let amount = random.below(100) as i64;
            tx[from].balance -= amount;
            tx[to].balance += amount;
            let number = tx[bank].transfers + 1;
            tx[bank].transfers = number;
            // Texts become longer on average, so that the heap grows.
            let text = "x".repeat(random.below(8 + number.min(1 << 18) as usize / 256));
            let statement = Statement { text: tx.alloc_str(&text)?, number };
            tx[to].newest = Some(tx.alloc(statement)?);
            Ok(number)
        })?;
        if transfers.is_multiple_of(8) {
            said.write_all_at(&transfers.to_le_bytes(), 0).expect("a file");
        }
    }
}

fn said(path: &Path) -> u64 {
    let mut bytes = [0; 8];
    let read = File::open(path.with_extension("said")).and_then(|file| file.read_at(&mut bytes, 0));
    read.map_or(0, |_| u64::from_le_bytes(bytes))
}

/// Runs the program, again as long as the writer is too fast for it.
fn pheap(arguments: &[&str], path: &Path) -> Output {
    loop {
        let mut program = Command::new(env!("CARGO_BIN_EXE_pheap"));
        let output = program.args(arguments).arg(path).output().expect("the program can be run");
        if output.status.success() {
            return output;
        }
        let says = String::from_utf8_lossy(&output.stderr);
        assert!(says.contains("changes faster than it can be copied"), "{output:?}");
        println!("{says}");
    }
}

/// Returns how often money was moved, by a dump. Asserts that the dump is one state.
fn transfers(dump: &Output) -> u64 {
    let bank: Value = serde_json::from_slice(&dump.stdout).expect("JSON");
    let accounts = bank["accounts"].as_array().expect("a list");
    let sum: i64 = accounts.iter().map(|account| account["balance"].as_i64().expect("a number")).sum();
    assert_eq!((accounts.len(), sum), (ACCOUNTS, MONEY * ACCOUNTS as i64));
    let transfers = bank["transfers"].as_u64().expect("a number");
    let numbers = accounts.iter().filter_map(|account| account["newest"]["number"].as_u64());
    assert_eq!(numbers.max().unwrap_or(0), transfers);
    transfers
}

/// Makes dumps, checks each, and counts them.
fn dumps(path: &Path, arguments: &[&str], made: &AtomicU64) {
    let times = std::env::var("PHEAP_DUMPS").map_or(30, |times| times.parse().expect("a number"));
    let mut last = 0;
    for i in 0..times {
        let before = said(path).max(last);
        last = transfers(&pheap(&[arguments, &["dump"]].concat(), path));
        assert!(last >= before, "dump {i} has {last}, after {before}");
        made.fetch_add(1, Ordering::Relaxed);
        if i % 16 == 0 {
            pheap(&[arguments, &["check"]].concat(), path);
        }
    }
    let length = path.metadata().unwrap().len();
    println!("{times} dumps, up to the one after {last} transfers, of {length} bytes");
}

/// A process that writes, until it is killed.
struct Writer(Child);

impl Writer {
    fn new(test: &str, role: &str, path: &Path) -> Writer {
        Writer(start(test, role, path))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let ended = self.0.try_wait().expect("a child");
        self.0.kill().expect("a child");
        self.0.wait().expect("a child");
        assert!(ended.is_none() || thread::panicking(), "the writer has ended by itself: {ended:?}");
    }
}

fn write_if_told() -> bool {
    let Some((role, path)) = role() else { return false };
    let policy = if role == "on demand" { SyncPolicy::OnDemand } else { SyncPolicy::EveryCommit };
    write(&path, policy).expect("it is killed before");
    true
}

#[test]
fn dumps_beside_a_writer() {
    if write_if_told() {
        return;
    }
    for role in ["on demand", "each"] {
        let dir = tempdir();
        let path = dir.path().join("bank");
        let _writer = Writer::new("dumps_beside_a_writer", role, &path);
        dumps(&path, &[], &AtomicU64::new(0));
    }
}

#[test]
fn dumps_beside_writers_that_are_killed() {
    if write_if_told() {
        return;
    }
    let dir = tempdir();
    let path = dir.path().join("bank");
    let write = |role| Writer::new("dumps_beside_writers_that_are_killed", role, &path);
    let (first, made, is_over) = (write("on demand"), AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|threads| {
        threads.spawn(|| {
            let mut writer = Some(first);
            let mut times = 0u64;
            while !is_over.load(Ordering::Relaxed) {
                // Waits until the next dump is made, and then for another time than before.
                while made.load(Ordering::Relaxed) < times && !is_over.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(1));
                }
                thread::sleep(Duration::from_millis(times % 16));
                drop(writer.take());
                // A dump with `--follow` does not keep a writer from opening the heap.
                writer = Some(write(if times.is_multiple_of(2) { "each" } else { "on demand" }));
                times += 1;
            }
            println!("{times} writers were killed");
        });
        struct Over<'a>(&'a AtomicBool);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _over = Over(&is_over);
        dumps(&path, &["--follow"], &made);
    });
}
