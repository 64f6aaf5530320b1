//! A disk that fills up while a heap is open, and stays full: errors, and nothing is lost, whatever is done
//! then: updates, growth, a backup, `kill -9`, another opening. On a tmpfs; and on the small disks at which
//! the folders lie that `PHEAP_TEST_DISKS` names, separated by colons (`ci/file-systems.sh`).
#![allow(clippy::unit_arg)] // `Ok(tx[p] = 1)` is a transaction in one line

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use pheap::{Durability, Error, Heap, Options, P, Persist, Result, Root, SyncPolicy};
use pheap_testkit::*;

const TEST: &str = "full_disk::nothing_is_lost_on_a_full_disk";
/// Pages of the heap that are changed: 16 MiB.
const PAGES: usize = 4096;
const WORDS: usize = 512;
const ALL: [Durability; 3] = [Durability::Wal, Durability::Process, Durability::Pmem];

#[derive(Persist, Default)]
#[repr(C)]
struct Data<'r> {
    words: Option<P<'r, [u64]>>,
    more: Option<P<'r, [u64]>>,
    round: u64,
}

fn options(number: usize) -> Options {
    small().durability(ALL[number]).log_limit(4 * MIB).memory_limit(8 * MIB)
}

/// One round: a word in each page, in transactions of 64 pages. The last one says that it is complete.
fn round(root: &Root<Data>) -> Result<()> {
    for first in (0..PAGES).step_by(64) {
        root.txn(|tx, d| {
            let words = tx[d].words.unwrap();
            (first..first + 64).for_each(|page| {
                let element = words.at(tx, page * WORDS);
                tx[element] += 1
            });
            Ok(if first + 64 == PAGES {
                tx[d].round += 1
            })
        })?;
    }
    Ok(())
}

/// How many rounds are complete. Each page is of that round or, if they come first, of the next one.
fn seen(heap: &Heap) -> u64 {
    assert!(heap.check().unwrap().is_clean());
    let seen = heap.existing_root::<Data>("data").unwrap().read(|view, d| {
        let (round, words) = (view[d].round, &view[view[d].words.unwrap()]);
        let pages: Vec<u64> = words.iter().step_by(WORDS).copied().collect();
        assert!(pages.is_sorted_by(|a, b| a >= b) && pages[PAGES - 1] == round && pages[0] <= round + 1);
        round
    });
    seen.unwrap()
}

fn use_up(folder: &Path) {
    let mut hog = File::create(folder.join("hog")).unwrap();
    let mut size = 1 << 20;
    while size > 0 {
        if hog.write_all(&vec![7; size]).is_err() {
            size /= 2;
        }
    }
    // What the file system has promised and not found yet.
    let _ = hog.sync_all();
}

/// Fills the disk of a heap, changes the heap, and is killed. Prints the number of complete rounds.
fn fill(folder: &Path, number: usize) {
    let path = folder.join("heap");
    let heap = options(number).open(&path).unwrap();
    let root: Root<Data> = heap.root("data").unwrap();
    root.txn(|tx, d| Ok(tx[d].words = Some(tx.alloc_slice(PAGES * WORDS, |_| 0u64)?))).unwrap();
    round(&root).unwrap();
    heap.checkpoint().unwrap();
    heap.backup(folder.join("backup")).unwrap();
    use_up(folder);
    let mut rounds = 1;
    for _ in 0..3 {
        // All of the heap has its space, and its log.
        round(&root).unwrap();
        rounds += 1;
    }
    let full = |result: Result<()>| assert!(matches!(result, Err(Error::OutOfSpace { .. })), "{result:?}");
    let grow = || {
        (0..).try_for_each(|n| {
            root.txn(|tx, d| Ok(tx[d].more = Some(tx.alloc_slice(100_000 + n * 1000, |_| 1u64)?)))
        })
    };
    full(grow());
    full(heap.backup(folder.join("other")));
    assert!(!folder.join("other").exists());
    round(&root).unwrap();
    println!("\nacknowledged {}", rounds + 1);
    std::io::stdout().flush().unwrap();
    let _ = root.txn(|tx, d| -> Result<()> {
        tx[d].round = 99;
        die()
    });
}

fn try_disk(folder: &Path, number: usize) -> bool {
    // Errors of the file system's own.
    if let Err(Error::Unsupported(why)) = options(number).open(folder.join("heap")) {
        assert!(why.contains("btrfs"), "{why}");
        fs::remove_file(folder.join("heap")).unwrap();
        return false;
    }
    fs::remove_file(folder.join("heap")).unwrap();
    let said =
        child(TEST, &number.to_string(), folder).stdout(std::process::Stdio::piped()).output().unwrap();
    let text = String::from_utf8_lossy(&said.stdout);
    let errors = String::from_utf8_lossy(&said.stderr);
    let acknowledged = text.lines().find_map(|line| line.strip_prefix("acknowledged "));
    let acknowledged =
        acknowledged.unwrap_or_else(|| panic!("{:?} in {folder:?}: {}\n{errors}", ALL[number], said.status));
    let acknowledged: u64 = acknowledged.parse().unwrap();
    // While the disk is full.
    for durability in (0..3).cycle().skip(number).take(3) {
        match options(durability).open(folder.join("heap")) {
            Ok(heap) => assert_eq!(seen(&heap), acknowledged),
            // It has its space, and its log.
            Err(error) if durability == number => panic!("{:?} in {folder:?}: {error}", ALL[number]),
            Err(error) => {
                assert!(matches!(error, Error::OutOfSpace { .. } | Error::Unsupported(_)), "{error}")
            }
        }
    }
    fs::remove_file(folder.join("hog")).unwrap();
    let heap = options(number).open(folder.join("heap")).unwrap();
    assert_eq!(seen(&heap), acknowledged);
    round(&heap.existing_root("data").unwrap()).unwrap();
    heap.close().unwrap();
    let backup = options(number).verify(true).open(folder.join("backup")).unwrap();
    assert_eq!(seen(&backup), 1);
    true
}

#[test]
fn nothing_is_lost_on_a_full_disk() {
    if let Some((role, folder)) = role() {
        if let Ok(number) = role.parse() {
            return fill(&folder, number);
        }
        if !mount_tmpfs(&folder, c"size=90m") {
            return;
        }
        return (0..3).for_each(|number| try_all(&folder, number));
    }
    let dir = tempdir();
    run_well(TEST, "mounted", dir.path());
    let disks = std::env::var_os("PHEAP_TEST_DISKS").unwrap_or_default();
    for disk in std::env::split_paths(&disks).filter(|disk: &PathBuf| !disk.as_os_str().is_empty()) {
        (0..3).for_each(|number| try_all(&disk, number));
    }
}

/// Small transactions take all space that becomes free in the log, so a large one never finds enough.
fn large_beside_small(folder: &Path) {
    let options = small().durability(Durability::Wal).log_limit(MIB).sync_policy(SyncPolicy::OnDemand);
    let heap = options.open(folder.join("heap")).unwrap();
    let large: Root<Data> = heap.root("large").unwrap();
    large.txn(|tx, d| Ok(tx[d].words = Some(tx.alloc_slice(4 << 20, |_| 0u64)?))).unwrap();
    let small: Root<Data> = heap.root("small").unwrap();
    small.txn(|tx, d| Ok(tx[d].round = 1)).unwrap();
    drop((large, small));
    heap.close().unwrap();
    let heap = options.open(folder.join("heap")).unwrap();
    let (large, small) = (heap.root::<Data>("large").unwrap(), heap.root::<Data>("small").unwrap());
    small.txn(|tx, d| Ok(tx[d].round += 1)).unwrap();
    use_up(folder);
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let until = Instant::now() + Duration::from_secs(60);
                while !has_ended.load(Relaxed) {
                    small.txn(|tx, d| Ok(tx[d].round += 1)).unwrap();
                    assert!(Instant::now() < until, "the large transaction does not end");
                }
            });
        }
        let result = large.txn(|tx, d| {
            let words = tx[d].words.unwrap();
            Ok(tx.slice_mut(words, ..).iter_mut().for_each(|word| *word += 1))
        });
        has_ended.store(true, Relaxed);
        assert!(matches!(result, Err(Error::OutOfSpace { .. })), "{result:?}");
    });
    assert!(large.read(|view, d| view[view[d].words.unwrap()].iter().all(|&word| word == 0)).unwrap());
}

#[test]
fn a_large_transaction_ends_beside_small_ones() {
    const TEST: &str = "full_disk::a_large_transaction_ends_beside_small_ones";
    if let Some((_, folder)) = role() {
        if mount_tmpfs(&folder, c"size=90m") {
            large_beside_small(&folder);
        }
        return;
    }
    run_well(TEST, "mounted", tempdir().path());
}

fn try_all(disk: &Path, number: usize) {
    let folder = disk.join(format!("{number}"));
    fs::create_dir(&folder).unwrap();
    let done = try_disk(&folder, number);
    println!("{} {:?}: {}", disk.display(), ALL[number], if done { "nothing lost" } else { "refused" });
    fs::remove_dir_all(&folder).unwrap();
}
