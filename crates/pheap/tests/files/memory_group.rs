//! A heap that is much larger than the memory that its program may use: changed at random, killed at random,
//! opened again with the default options, again and again. With `PHEAP_TEST_GROUP`, the programs run in the
//! control group that this names by its folder (`ci/memory-group.sh`), and the heap has 1 GiB.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use pheap::{Durability, Options, P, Persist, Result};
use pheap_testkit::*;

const TEST: &str = "memory_group::what_was_killed_opens_in_the_memory_that_there_is";
/// Words of a page.
const WORDS: usize = 512;
/// Parts of the heap's data. Each transaction changes the first page of each, and one at random.
const PIECES: usize = 32;

#[derive(Persist, Default)]
#[repr(C)]
struct Data<'r> {
    /// The first word of a page is the number of the transaction that changed it last; the second word of a
    /// piece, that of the last transaction.
    pieces: [Option<P<'r, [u64]>>; PIECES],
    transactions: u64,
}

fn group() -> Option<PathBuf> {
    std::env::var_os("PHEAP_TEST_GROUP").map(PathBuf::from)
}

/// Changes the heap until it is killed. Says how many transactions there were when it was opened, and each
/// that is acknowledged.
fn change(path: &Path) -> Result<()> {
    let (pages, options) = match group() {
        Some(group) => {
            fs::write(group.join("cgroup.procs"), std::process::id().to_string()).unwrap();
            (262_144 / PIECES, Options::new())
        }
        None => (8_192 / PIECES, Options::new().memory_limit(4 * MIB)),
    };
    let heap = options.durability(Durability::Wal).reserve(4 << 30).open(path)?;
    let root = heap.root::<Data>("data")?;
    let (mut done, made) =
        root.read(|view, d| (view[d].transactions, view[d].pieces[PIECES - 1].is_some()))?;
    println!("\nopened {done}");
    for piece in 0..if made { 0 } else { PIECES } {
        root.txn(|tx, d| {
            let words = tx.alloc_slice(pages * WORDS, |_| 0u64)?;
            tx[d].pieces[piece] = Some(words);
            Ok(())
        })?;
    }
    let mut random = Rng::new(&[done]);
    loop {
        done += 1;
        root.txn(|tx, d| {
            tx[d].transactions = done;
            for piece in 0..PIECES {
                let words = tx[d].pieces[piece].unwrap();
                let page = random.below(pages);
                let element = words.at(tx, page * WORDS);
                tx[element] = done;
                let element = words.at(tx, 1);
                tx[element] = done;
            }
            Ok(())
        })?;
        println!("changed {done}");
    }
}

/// The next number that a child prints behind the word `what`.
fn said(lines: &mut impl Iterator<Item = std::io::Result<String>>, what: &str) -> Option<u64> {
    lines.find_map(|line| line.ok()?.strip_prefix(what)?.trim().parse().ok())
}

/// The most private memory that the child was seen to have while `f` ran, in bytes.
fn peak<T>(child: u32, f: impl FnOnce() -> T) -> (T, u64) {
    let ended = AtomicBool::new(false);
    let of_process = || {
        let text = fs::read_to_string(format!("/proc/{child}/status")).unwrap_or_default();
        text.lines().find_map(|line| line.strip_prefix("RssAnon:")?.split_whitespace().next()?.parse().ok())
    };
    thread::scope(|scope| {
        let sampled = scope.spawn(|| {
            let mut peak: u64 = 0;
            while !ended.load(Relaxed) {
                peak = peak.max(of_process().unwrap_or(0) * 1024);
                thread::sleep(Duration::from_millis(10));
            }
            peak
        });
        let result = f();
        ended.store(true, Relaxed);
        (result, sampled.join().unwrap())
    })
}

#[test]
fn what_was_killed_opens_in_the_memory_that_there_is() {
    if let Some((_, path)) = role() {
        panic!("{:?}", change(&path));
    }
    let dir = tempdir();
    let path = dir.path().join("heap");
    let kills = if group().is_some() { 20 } else { 3 };
    let mut random = Rng::new(&[7]);
    let mut acknowledged = 0;
    for _ in 0..kills {
        let mut child: Child =
            child(TEST, "change", &path).stdout(Stdio::piped()).spawn().expect("the test program");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let start = Instant::now();
        let (opened, peak) = peak(child.id(), || said(&mut lines, "opened"));
        let opened = opened.unwrap_or_else(|| panic!("it ended: {:?}", child.wait()));
        println!("{opened:6} transactions, opened in {:.2?}, {} MB", start.elapsed(), peak >> 20);
        assert!(opened == acknowledged || opened == acknowledged + 1, "{opened} of {acknowledged}");
        acknowledged = opened;
        for _ in 0..random.below(3000) {
            acknowledged =
                said(&mut lines, "changed").unwrap_or_else(|| panic!("it ended: {:?}", child.wait()));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // The child may have printed more numbers before it was killed.
        acknowledged = std::iter::from_fn(|| said(&mut lines, "changed")).last().unwrap_or(acknowledged);
    }
    let heap = Options::new().open(&path).unwrap();
    assert!(heap.check().unwrap().is_clean());
    let seen = heap.existing_root::<Data>("data").unwrap().read(|view, d| {
        let done = view[d].transactions;
        view[d].pieces.iter().flatten().for_each(|&words| {
            assert!(view[words][1] == done && view[words].iter().all(|&number| number <= done));
        });
        done
    });
    assert!((acknowledged..=acknowledged + 1).contains(&seen.unwrap()));
}
