//! The parts of the record of a short transaction over several roots: how much they cost, and which of them
//! count.

use std::fs;

use pheap::{Durability, Heap, Result, Root};
use pheap_testkit::*;

fn roots<const N: usize>(heap: &Heap) -> Result<[Root<u64>; N]> {
    let roots: Result<Vec<Root<u64>>> = (0..N).map(|i| heap.root(&format!("number {i}"))).collect();
    Ok(roots?.try_into().expect("there are so many"))
}

/// Adds to the numbers of all roots from number `from` on.
fn add(roots: &[Root<u64>], from: usize, value: u64) -> Result<()> {
    pheap::txn(roots, |mut roots| {
        (from..roots.len()).try_for_each(|i| {
            roots.with(i, |tx, n| {
                tx[n] += value;
                Ok(())
            })
        })
    })
}

fn add_to(root: &Root<u64>, value: u64) -> Result<()> {
    root.txn(|tx, n| {
        tx[n] += value;
        Ok(())
    })
}

#[test]
fn a_short_transaction_costs_one_fence_however_many_roots_it_is_over() -> Result<()> {
    let dir = tempdir();
    let heap = small().durability(Durability::Pmem).open(dir.path().join("x"))?;
    let roots: [Root<u64>; 10] = roots(&heap)?;
    let fences = |f: &dyn Fn() -> Result<()>| {
        let before = heap.stats().fences;
        f()?;
        Ok(heap.stats().fences - before)
    };
    for _ in 0..3 {
        for n in 1..=roots.len() {
            assert_eq!(fences(&|| add(&roots[..n], 0, 1))?, 1, "{n} roots");
        }
        let [a, b, ..] = &roots;
        let two = || pheap::txn((a, b), |((ta, a), (tb, b))| Ok((ta[a], tb[b]) = (tb[b], ta[a] + 1)));
        assert_eq!(fences(&two)?, 1);
        // The logs have records of several roots by now. A transaction over one root, a transaction over
        // three roots that changes only one of them, and a transaction that changes nothing.
        assert_eq!(fences(&|| add_to(b, 1))?, 1);
        assert_eq!(fences(&|| add(&roots[..3], 2, 1))?, 1);
        assert_eq!(fences(&|| add(&roots, 0, 0))?, 0);
    }
    Ok(())
}

/// Where the logs of the roots are in a file.
fn logs(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    find(bytes, b"\x89PREGIO\n").into_iter().map(|at| at + PAGE..at + 2 * PAGE).collect()
}

#[test]
fn parts_count_if_all_of_them_are_there() -> Result<()> {
    let dir = tempdir();
    let (path, copy) = (dir.path().join("x"), dir.path().join("copy"));
    let heap = small().open(&path)?;
    let three: [Root<u64>; 3] = roots(&heap)?;
    add(&three, 0, 1)?;
    let before = as_killed(&path);
    add(&three, 0, 10)?;
    let after = fs::read(&path).unwrap();
    let logs = logs(&after);
    assert_eq!(logs.len(), 3);
    for set in 0..8 {
        let mut image = before.clone();
        for (i, log) in logs.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1) {
            assert!(before[log.clone()] != after[log.clone()], "log {i} has no part");
            image[log.clone()].copy_from_slice(&after[log.clone()]);
        }
        fs::write(&copy, &image).unwrap();
        let mut expected = [if set == 7 { 11 } else { 1 }; 3];
        for round in 0..3 {
            let heap = small().open(&copy)?;
            let three: [Root<u64>; 3] = roots(&heap)?;
            let found: Vec<u64> =
                three.iter().map(|root| root.read(|view, n| view[n])).collect::<Result<_>>()?;
            assert_eq!(found, expected, "parts {set:03b}, opening {round}");
            // More transactions, killed again.
            add_to(&three[0], 100)?;
            add(&three[1..], 0, 1000)?;
            expected = [expected[0] + 100, expected[1] + 1000, expected[2] + 1000];
            let killed = as_killed(&copy);
            drop((three, heap));
            fs::write(&copy, killed).unwrap();
        }
    }
    Ok(())
}

/// What the newest header says of its format.
fn format(path: &std::path::Path) -> u64 {
    let bytes = fs::read(path).unwrap();
    word(&bytes, newest_slot(&bytes) + 8)
}

#[test]
fn programs_that_know_no_parts_are_kept_away_while_there_may_be_some() -> Result<()> {
    const PLAIN: u64 = 3;
    const PARTS: u64 = 1 << 32 | PLAIN;
    for (durability, expected) in
        [(Durability::Process, PARTS), (Durability::Pmem, PARTS), (Durability::Wal, PLAIN)]
    {
        let dir = tempdir();
        let (path, backup) = (dir.path().join("x"), dir.path().join("backup"));
        let options = small().durability(durability);
        let heap = options.open(&path)?;
        add(&roots::<2>(&heap)?, 0, 1)?;
        assert_eq!(format(&path), expected, "{durability:?}");
        heap.backup(&backup)?;
        heap.close()?;
        assert_eq!((format(&path), format(&backup)), (PLAIN, expected), "{durability:?}");
        // Its logs have parts, which say nothing new.
        for durability in [Durability::Wal, Durability::Pmem] {
            let heap = small().durability(durability).open(&backup)?;
            assert_eq!(roots::<2>(&heap)?[1].read(|view, n| view[n])?, 1);
            heap.close()?;
            assert_eq!(format(&backup), PLAIN);
        }
    }
    Ok(())
}

/// See `tests/data/README.md`. Its roots are 11 and 21 by the records in their logs.
#[test]
fn what_an_older_program_has_left_is_recovered() -> Result<()> {
    let mut bytes = fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/killed-0.1.heap")).unwrap();
    for region in find(&bytes, b"\x89PREGIO\n") {
        let root = word(&bytes, region + 3 * 8) & ((1 << 48) - 1);
        set_word(&mut bytes, root as usize, 999); // as if it had never reached the medium
    }
    let dir = tempdir();
    let path = dir.path().join("x");
    fs::write(&path, bytes).unwrap();
    let heap = small().durability(Durability::Pmem).restored(true).open(&path)?;
    let [a, b] = ["a", "b"].map(|name| heap.existing_root::<u64>(name).unwrap());
    let both = || pheap::txn((&a, &b), |((ta, a), (tb, b))| Ok((ta[a], tb[b])));
    assert_eq!(both()?, (11, 21));
    pheap::txn((&a, &b), |((ta, a), (tb, b))| Ok((ta[a], tb[b]) = (tb[b], ta[a])))?;
    assert_eq!(both()?, (21, 11));
    drop((a, b));
    heap.close()
}
