//! The holders of a heap, as they are reported before it is closed, after that, and when it is opened once
//! more.

use pheap::{Error, Heap, Held, PSnapMap, PVec, Result, Root, Snapshot};
use pheap_testkit::*;

fn of(heap: &Heap) -> String {
    heap.holders().to_string()
}

#[test]
fn each_kind_is_counted_and_named() -> Result<()> {
    let heap = small().in_memory()?;
    assert!(heap.holders().is_empty());
    assert_eq!(of(&heap), "nobody");
    let other = heap.clone();
    assert_eq!(of(&heap), "1 handle of the heap");

    let jobs: Root<PVec<u64>> = heap.root("jobs")?;
    let stock: Root<PSnapMap<u64, u64>> = heap.root("stock")?;
    let [a, b] = [jobs.clone(), jobs.clone()];
    assert_eq!(of(&heap), "1 handle of the heap, 4 handles of roots (`jobs` 3 times, `stock`)");
    drop((a, b, other));

    // A snapshot of an empty map counts, too.
    let empty = stock.read(|view, stock| view[stock].snapshot(view))??;
    assert_eq!(of(&heap), "2 handles of roots (`jobs`, `stock`), 1 snapshot (`stock`)");
    stock.txn(|tx, stock| stock.insert(tx, &1, &1))?;
    let full = stock.durable_snapshot()?;
    let again = full.clone();
    let held: Held<u64> = jobs.txn(|tx, _| {
        let number = tx.alloc(7)?;
        Ok(tx.hold(number))
    })?;
    let copy = held.clone();
    let watch = jobs.watch(|| {});
    let all = "2 handles of roots (`jobs`, `stock`), 2 snapshots (`stock` 2 times), 1 held object (`jobs`), 1 watch (`jobs`)";
    assert_eq!(of(&heap), all);
    // A snapshot keeps the heap and names its root when the root's handles are gone.
    drop((stock, empty, again));
    assert_eq!(
        of(&heap),
        "1 handle of a root (`jobs`), 1 snapshot (`stock`), 1 held object (`jobs`), 1 watch (`jobs`)"
    );
    drop((jobs, full));
    assert_eq!(of(&heap), "1 held object (`jobs`), 1 watch (`jobs`)");
    drop((held, copy, watch));
    assert!(heap.holders().is_empty());
    heap.close()
}

#[test]
fn a_snapshot_of_which_the_root_was_closed_is_named() -> Result<()> {
    let heap = small().in_memory()?;
    let stock: Root<PSnapMap<u64, u64>> = heap.root("stock")?;
    stock.txn(|tx, stock| stock.insert(tx, &1, &1))?;
    let snapshot: Snapshot<u64, u64> = stock.durable_snapshot()?;
    let n: Root<u64> = heap.root("n")?;
    heap.close()?;
    let after = "2 handles of roots (`n`, `stock`), 1 snapshot (`stock`)";
    assert_eq!(of(&heap), after);
    assert!(matches!(n.read(|view, n| view[n]), Err(Error::Closed)));
    assert!(matches!(snapshot.read(|map| map.len()), Err(Error::Closed)));
    drop((n, stock));
    assert_eq!(of(&heap), "1 snapshot (`stock`)");
    assert_eq!(heap.holders().roots[0].snapshots, 1);
    drop(snapshot);
    assert!(heap.holders().is_empty());
    Ok(())
}

#[test]
fn roots_that_are_renamed_and_removed() -> Result<()> {
    let heap = small().in_memory()?;
    let first: Root<u64> = heap.root("first")?;
    heap.rename_root("first", "other")?;
    assert_eq!(of(&heap), "1 handle of a root (`other`)");
    heap.remove_root("other")?;
    assert_eq!(of(&heap), "1 handle of a root (`other`)");
    let second: Root<u64> = heap.root("other")?;
    assert_eq!(of(&heap), "2 handles of roots (`other`, `other`)");
    drop(first);
    assert_eq!(of(&heap), "1 handle of a root (`other`)");
    drop(second);
    assert!(heap.holders().is_empty());
    Ok(())
}

#[test]
fn who_opens_a_heap_once_more_is_told_who_has_it() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("heap");
    let said = || match small().open(&path) {
        Err(Error::AlreadyOpen { held_by, .. }) => held_by.into_string(),
        other => panic!("{other:?}"),
    };
    let heap = small().open(&path)?;
    assert_eq!(said(), "held by 1 handle of the heap");
    let jobs: Root<PVec<u64>> = heap.root("jobs")?;
    let held: Held<u64> = jobs.txn(|tx, _| {
        let number = tx.alloc(7)?;
        Ok(tx.hold(number))
    })?;
    let watch = jobs.watch(|| {});
    drop(heap);
    // Neither held objects nor watchers keep it open.
    assert_eq!(said(), "held by 1 handle of a root (`jobs`)");
    let text = small().open(&path).expect_err("open").to_string();
    assert!(
        text.contains("perhaps under another name), held by 1 handle of a root (`jobs`); share"),
        "{text}"
    );
    drop(jobs);
    let heap = small().open(&path)?;
    assert!(heap.holders().is_empty());
    drop((held, watch));
    // Found again, with what the file has.
    let jobs: Root<PVec<u64>> = heap.root("jobs")?;
    assert_eq!(said(), "held by 1 handle of the heap, 1 handle of a root (`jobs`)");
    drop((heap, jobs));
    small().open(&path)?.close()
}

#[test]
fn a_child_is_not_told() -> Result<()> {
    let heap = small().in_memory()?;
    let _root: Root<u64> = heap.root("n")?;
    forks::in_child(|| heap.holders().is_empty()).unwrap();
    Ok(())
}
