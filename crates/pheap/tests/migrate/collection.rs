//! Migrations while the root is being collected.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// More than a slice of a cycle marks.
const MANY: u64 = 60_000;

#[test]
fn what_the_old_root_alone_led_to_is_garbage() -> Result<()> {
    for options in both() {
        let heap = options.in_memory()?;
        make(&heap, 500)?;
        open_third(&heap)?;
        heap.collect()?;
        assert_eq!(heap.stats().live_objects, 2);
        let report = heap.check()?;
        assert!(report.is_clean() && report.objects == 2, "{report}");
    }
    Ok(())
}

/// One thread collects all the time, and another one migrates, so the root changes in the middle of cycles.
/// In every other migration, the first node goes behind the last one, where a marker may have been.
#[test]
fn beside_a_collection() -> Result<()> {
    for options in [small(), small().pin_undo(true), small().collect_least(1).collect_growth(0)] {
        let heap = options.in_memory()?;
        let list = make(&heap, MANY)?;
        let last: Held<Node> = list.txn(|tx, list| {
            let nodes = std::iter::successors(tx[list].head, |&node| tx[node].next);
            Ok(tx.hold(nodes.last().unwrap()))
        })?;
        let stop = AtomicBool::new(false);
        let mut expected = counted(MANY);
        std::thread::scope(|scope| -> Result<()> {
            let collector = scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    heap.collect().unwrap();
                }
            });
            let mut last = last;
            for round in 0.. {
                if round > 30 && round % 2 == 1 && heap.stats().collections > 10 {
                    break;
                }
                if round % 2 == 1 {
                    assert!(to_first(&heap)?);
                    continue;
                }
                last = migrate_and_turn(&heap, &last)?;
                let first = expected.remove(0);
                expected.push(first);
            }
            stop.store(true, Ordering::Relaxed);
            collector.join().unwrap();
            Ok(())
        })?;
        assert_eq!(contents(&heap), expected);
        heap.collect()?;
        let report = heap.check()?;
        assert!(report.is_clean() && report.objects == MANY + 1, "{report}");
        assert_eq!(heap.stats().live_objects, MANY + 1);
    }
    Ok(())
}

/// Migrates to the second version, and moves the first node behind the last one. Returns that.
fn migrate_and_turn(heap: &Heap, last: &Held<Node<'static>>) -> Result<Held<Node<'static>>> {
    let mut turned = None;
    let migrated = heap.migrate::<v1::List, v2::List>("list", |tx, old| {
        let (first, last) = (tx[old].head.unwrap(), tx.get(last)?);
        let head = tx[first].next;
        tx[first].next = None;
        tx[last].next = Some(first);
        turned = Some(tx.hold(first));
        Ok(v2::List { sum: (0..MANY).sum(), len: tx[old].len, head, spare: [7; 200] })
    })?;
    assert!(migrated);
    Ok(turned.unwrap())
}

/// The cycle that finds the live objects after a crash may be running.
#[test]
fn in_a_heap_that_was_just_opened() -> Result<()> {
    const TEST: &str = "collection::in_a_heap_that_was_just_opened";
    if let Some((_, path)) = role() {
        let heap = small().arena_size(16 * MIB).open(&path)?;
        make(&heap, MANY)?;
        die();
    }
    let dir = tempdir();
    let path = dir.path().join("x");
    run_killed(TEST, "make", &path);
    let heap = small().arena_size(16 * MIB).open(&path)?;
    assert!(to_second(&heap)?);
    assert_eq!(contents(&heap), counted(MANY));
    heap.wait_ready()?;
    heap.collect()?;
    holds(&heap, true, MANY);
    assert_eq!(heap.stats().live_objects, MANY + 1);
    Ok(())
}

/// Minor cycles take the old root for live, and look behind the new one.
#[test]
fn with_minor_cycles() -> Result<()> {
    let heap = small().collect_least(64 << 10).in_memory()?;
    make(&heap, 50)?;
    // Nearly all that is allocated dies young: old roots.
    for round in 0..2000 {
        let list = open_second(&heap)?;
        if round % 40 == 0 {
            list.txn(|tx, list| push2(tx, list, 50 + round / 40))?;
        }
        assert!(to_first(&heap)?);
        assert_eq!(contents(&heap), counted(51 + round / 40));
    }
    assert!(heap.stats().collections > 20);
    heap.collect()?;
    holds(&heap, false, 100);
    assert_eq!(heap.stats().live_objects, 101);
    Ok(())
}
