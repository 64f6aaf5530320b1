//! Heaps with a write-ahead log: the content of each file, the state after a kill, conversions, and limits.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use pheap::{Durability, Error, Heap, Options, P, PVec, Persist, Root, SyncPolicy, Txn};
use pheap_testkit::{as_killed, copy_as_killed, is_thorough, log_of};

const ARENA: u64 = 1 << 20;

fn options() -> Options {
    Options::new().durability(Durability::Wal).arena_size(ARENA).reserve(1 << 32)
}

/// What a crash now would leave: both files as they are.
fn crash(path: &Path, to: &Path) {
    copy_as_killed(path, to);
    fs::copy(log_of(path), log_of(to)).unwrap();
}

fn number(heap: &Heap) -> Root<u64> {
    heap.root("number").unwrap()
}

fn set(root: &Root<u64>, to: u64) {
    root.txn(|tx, n| {
        tx[n] = to;
        Ok(())
    })
    .unwrap();
}

fn get(root: &Root<u64>) -> u64 {
    root.read(|view, n| view[n]).unwrap()
}

#[derive(Persist, Default)]
#[repr(C)]
struct Node<'r> {
    value: u64,
    next: Option<P<'r, Node<'r>>>,
}

fn push<'r>(tx: &mut Txn<'r>, list: P<'r, Node<'r>>, value: u64) -> pheap::Result<()> {
    let next = tx[list].next;
    let node = tx.alloc(Node { value, next })?;
    tx[list].next = Some(node);
    tx[list].value += 1;
    Ok(())
}

fn sum(root: &Root<Node<'static>>) -> (u64, u64) {
    root.read(|view, list| {
        let (mut sum, mut next) = (0, view[list].next);
        while let Some(node) = next {
            sum += view[node].value;
            next = view[node].next;
        }
        (view[list].value, sum)
    })
    .unwrap()
}

#[test]
fn what_is_acknowledged_is_in_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("a"), dir.path().join("b"));
    let heap = options().open(&path).unwrap();
    assert_eq!(heap.durability(), Durability::Wal);
    let (root, list) = (number(&heap), heap.root::<Node>("list").unwrap());
    for i in 1..=20 {
        set(&root, i);
        list.txn(|tx, list| push(tx, list, i)).unwrap();
        crash(&path, &copy);
        let after = options().open(&copy).unwrap();
        assert_eq!(get(&number(&after)), i);
        assert_eq!(sum(&after.root::<Node>("list").unwrap()), (i, i * (i + 1) / 2));
        assert!(after.stats().replayed_records > 0);
        assert!(after.check().unwrap().is_clean());
        after.close().unwrap();
        assert!(!log_of(&copy).exists(), "a closed heap needs no log");
        fs::remove_file(&copy).unwrap();
        if i % 7 == 0 {
            heap.checkpoint().unwrap();
        }
    }
    assert!(heap.stats().syncs >= 40);
}

#[test]
fn every_durability_finds_what_another_has_left() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let kinds = [Durability::Wal, Durability::Process, Durability::Wal, Durability::Pmem, Durability::Wal];
    let mut expected = 0;
    for crashed in [false, true] {
        for (i, kind) in kinds.into_iter().enumerate() {
            let heap = options().durability(kind).open(&path).unwrap();
            assert_eq!(heap.durability(), kind);
            let root = number(&heap);
            assert_eq!(get(&root), expected, "{kind:?} {i}");
            expected += 1;
            set(&root, expected);
            let list = heap.root::<Node>("list").unwrap();
            list.txn(|tx, list| (0..100).try_for_each(|_| push(tx, list, 1))).unwrap();
            assert_eq!(sum(&list), (100 * expected, 100 * expected));
            if crashed {
                let copy = dir.path().join("b");
                copy_as_killed(&path, &copy);
                if kind == Durability::Wal {
                    fs::copy(log_of(&path), log_of(&copy)).unwrap();
                }
                drop((root, list, heap));
                fs::rename(&copy, &path).unwrap();
                if kind == Durability::Wal {
                    fs::rename(log_of(&copy), log_of(&path)).unwrap();
                }
            } else {
                heap.close().unwrap();
            }
        }
    }
}

#[derive(Persist)]
#[repr(C)]
struct Block<'r> {
    words: [u64; 128],
    next: Option<P<'r, Block<'r>>>,
}

#[derive(Persist, Default)]
#[repr(C)]
struct Blocks<'r> {
    newest: Option<P<'r, Block<'r>>>,
}

fn add_blocks(root: &Root<Blocks<'static>>, numbers: std::ops::Range<u64>) {
    root.txn(|tx, blocks| {
        for number in numbers {
            let next = tx[blocks].newest;
            tx[blocks].newest = Some(tx.alloc(Block { words: [number; 128], next })?);
        }
        Ok(())
    })
    .unwrap();
}

fn blocks(root: &Root<Blocks<'static>>) -> Vec<u64> {
    root.read(|view, blocks| {
        let (mut numbers, mut next) = (Vec::new(), view[blocks].newest);
        while let Some(block) = next {
            assert!(view[block].words.iter().all(|&word| word == view[block].words[0]));
            numbers.push(view[block].words[0]);
            next = view[block].next;
        }
        numbers
    })
    .unwrap()
}

/// The records change so many pages that several threads may replay them. After each crash, the heap goes on
/// with the same log.
#[test]
fn a_long_log_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let [path, first, second] = ["x", "y", "z"].map(|name| dir.path().join(name));
    let options = options().sync_policy(SyncPolicy::OnDemand).log_limit(256 << 20);
    let heap = options.open(&path).unwrap();
    let root = heap.root("blocks").unwrap();
    (0..20).for_each(|n| add_blocks(&root, n * 1000..(n + 1) * 1000));
    crash(&path, &first);
    drop((root, heap));
    let mut all: Vec<u64> = (0..20_000).rev().collect();
    let head = |path: &Path| fs::read(log_of(path)).unwrap()[..64].to_vec();
    let of_first = head(&first);
    let heap = options.open(&first).unwrap();
    assert!(heap.stats().replayed_records >= 20);
    let root = heap.root("blocks").unwrap();
    assert!(blocks(&root) == all);
    add_blocks(&root, 20_000..20_010);
    all.splice(..0, (20_000..20_010).rev());
    crash(&first, &second);
    drop((root, heap));
    assert!(head(&second) == of_first);
    let heap = options.open(&second).unwrap();
    assert!(blocks(&heap.root("blocks").unwrap()) == all);
    assert!(heap.check().unwrap().problems.is_empty());
}

#[test]
fn a_moved_heap_keeps_its_pointers() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("a"), dir.path().join("b"));
    let heap = options().open(&path).unwrap();
    let list = heap.root::<Node>("list").unwrap();
    list.txn(|tx, list| (0..1000).try_for_each(|i| push(tx, list, i))).unwrap();
    crash(&path, &copy);
    // The addresses are taken by the first one.
    let moved = options().open(&copy).unwrap();
    let other = moved.root::<Node>("list").unwrap();
    assert_eq!(sum(&other), sum(&list));
    other.txn(|tx, list| push(tx, list, 7)).unwrap();
    assert!(moved.check().unwrap().is_clean());
    let read = options().read_only(true);
    drop((other, moved));
    assert_eq!(sum(&read.open(&copy).unwrap().existing_root("list").unwrap()).0, 1001);
}

#[test]
fn a_reader_replays_the_log_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("a"), dir.path().join("b"));
    let heap = options().open(&path).unwrap();
    let root = number(&heap);
    set(&root, 5);
    crash(&path, &copy);
    let before = (fs::read(&copy).unwrap(), fs::read(log_of(&copy)).unwrap());
    for _ in 0..2 {
        let reader = options().read_only(true).open(&copy).unwrap();
        assert_eq!(reader.existing_root::<u64>("number").unwrap().read(|view, n| view[n]).unwrap(), 5);
        assert!(reader.check().unwrap().is_clean());
    }
    assert!(before == (fs::read(&copy).unwrap(), fs::read(log_of(&copy)).unwrap()));
    let verified = options().verify(true).open(&copy).unwrap();
    assert_eq!(get(&number(&verified)), 5);
}

#[test]
fn a_log_that_is_missing_or_foreign_is_an_error_that_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (path, other, copy) = (dir.path().join("a"), dir.path().join("o"), dir.path().join("b"));
    let heap = options().open(&path).unwrap();
    set(&number(&heap), 5);
    let foreign = options().open(&other).unwrap();
    set(&number(&foreign), 6);
    crash(&path, &copy);
    let before = fs::read(&copy).unwrap();

    fs::remove_file(log_of(&copy)).unwrap();
    assert!(matches!(options().open(&copy), Err(Error::LogMissing { .. })));
    assert!(matches!(options().read_only(true).open(&copy), Err(Error::LogMissing { .. })));
    assert!(matches!(options().durability(Durability::Process).open(&copy), Err(Error::LogMissing { .. })));
    fs::write(log_of(&copy), b"").unwrap();
    assert!(matches!(options().open(&copy), Err(Error::LogMissing { .. })));
    fs::write(log_of(&copy), b"a file that somebody needs").unwrap();
    assert!(matches!(options().open(&copy), Err(Error::ForeignLog { .. })));
    fs::copy(log_of(&other), log_of(&copy)).unwrap();
    let log = fs::read(log_of(&copy)).unwrap();
    assert!(matches!(options().open(&copy), Err(Error::ForeignLog { .. })));
    assert!(fs::read(&copy).unwrap() == before && fs::read(log_of(&copy)).unwrap() == log);

    fs::copy(log_of(&path), log_of(&copy)).unwrap();
    assert_eq!(get(&number(&options().open(&copy).unwrap())), 5);

    // A new heap does not take the log of another one either.
    let new = dir.path().join("new");
    fs::copy(log_of(&other), log_of(&new)).unwrap();
    assert!(matches!(options().open(&new), Err(Error::ForeignLog { .. })));
    assert!(fs::read(log_of(&new)).unwrap() == log);
    // A closed one neither.
    let closed = dir.path().join("closed");
    options().open(&closed).unwrap().close().unwrap();
    fs::copy(log_of(&other), log_of(&closed)).unwrap();
    assert!(matches!(options().open(&closed), Err(Error::ForeignLog { .. })));
    assert!(fs::read(log_of(&closed)).unwrap() == log);
}

/// Opening a heap removes a log that it does not need, and writes the header before that. A damaged heap
/// keeps both the log and its header.
#[test]
fn a_damaged_heap_keeps_the_log_that_it_does_not_need() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("heap");
    let heap = options().open(&path).unwrap();
    set(&number(&heap), 7);
    let log = fs::read(log_of(&path)).unwrap();
    heap.close().unwrap();
    let good = fs::read(&path).unwrap();
    let mut bad = good.clone();
    bad[8192 + 8] ^= 1; // the head of the arena
    for old in [&log[..], &[0; 4096]] {
        for durability in [Durability::Process, Durability::Pmem, Durability::Wal] {
            fs::write(&path, &bad).unwrap();
            fs::write(log_of(&path), old).unwrap();
            let opened = options().durability(durability).open(&path);
            assert!(matches!(opened, Err(Error::Corrupt { .. })), "{opened:?}");
            assert!(fs::read(&path).unwrap() == bad && fs::read(log_of(&path)).unwrap() == old);
            fs::write(&path, &good).unwrap();
            assert_eq!(get(&number(&options().durability(durability).open(&path).unwrap())), 7);
        }
    }
}

#[test]
fn a_torn_log_ends_where_it_is_torn() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("a"), dir.path().join("b"));
    let heap = options().open(&path).unwrap();
    let root = number(&heap);
    for i in 1..=50 {
        set(&root, i);
    }
    let log = fs::read(log_of(&path)).unwrap();
    let used = log.iter().rposition(|&byte| byte != 0).unwrap() + 1;
    let mut seen = Vec::new();
    for cut in (4096 + 64..used + 64).step_by(if is_thorough() { 24 } else { 48 }) {
        copy_as_killed(&path, &copy);
        let mut torn = log.clone();
        torn[cut..].fill(0);
        fs::write(log_of(&copy), &torn).unwrap();
        let heap = options().open(&copy).unwrap();
        seen.push(heap.existing_root::<u64>("number").map_or(0, |root| get(&root)));
        assert!(heap.check().unwrap().is_clean());
        drop(heap);
        fs::remove_file(&copy).unwrap();
    }
    assert!(seen.is_sorted() && seen[0] == 0 && seen.ends_with(&[50]), "{seen:?}");
    assert!((0..=50).all(|n| seen.contains(&n)));
}

#[test]
fn on_demand_survives_the_process_and_syncs_when_told() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("a"), dir.path().join("b"));
    let heap = options().sync_policy(SyncPolicy::OnDemand).open(&path).unwrap();
    let root = number(&heap);
    let before = heap.stats().syncs;
    for i in 1..=1000 {
        set(&root, i);
    }
    assert_eq!(heap.stats().syncs, before);
    crash(&path, &copy); // what the kernel has
    assert_eq!(get(&number(&options().open(&copy).unwrap())), 1000);
    heap.sync().unwrap();
    assert_eq!(heap.stats().syncs, before + 1);
    heap.sync().unwrap();
    assert_eq!(heap.stats().syncs, before + 1, "there was nothing to sync");
}

#[test]
fn the_log_and_the_private_memory_are_bounded() {
    const LIMIT: u64 = 1 << 20;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let heap =
        options().sync_policy(SyncPolicy::OnDemand).log_limit(LIMIT).memory_limit(LIMIT).open(&path).unwrap();
    let root: Root<P<'static, [u64]>> = heap.root_or("array", |tx| tx.alloc_slice(1 << 20, |_| 0)).unwrap();
    // The transaction that made it was larger than the limits.
    let first = fs::metadata(log_of(&path)).unwrap().len();
    let mut rng = 1u64;
    for i in 0..40_000u64 {
        rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = (rng >> 44) as usize;
        root.txn(|tx, array| {
            let array = tx[array];
            let word = array.at(tx, at);
            tx[word] = i;
            Ok(())
        })
        .unwrap();
    }
    let stats = heap.stats();
    assert!(stats.checkpoints > 3, "{stats:?}");
    assert!(stats.private_bytes < 4 * LIMIT, "{stats:?}");
    assert_eq!(fs::metadata(log_of(&path)).unwrap().len(), first);
    assert!(heap.check().unwrap().is_clean());
    let total = |root: &Root<P<'static, [u64]>>| {
        root.read(|view, array| view[view[array]].iter().fold(0, |sum: u64, n| sum.wrapping_add(*n))).unwrap()
    };
    let before = total(&root);
    heap.close().unwrap();
    let heap = options().open(&path).unwrap();
    assert_eq!(total(&heap.existing_root("array").unwrap()), before);
}

/// After a second without appends, the background thread checkpoints the log, whatever the sync policy is. So
/// after a kill, opening the heap replays nothing.
#[test]
fn an_idle_log_is_brought_to_the_file() {
    for policy in [SyncPolicy::EveryCommit, SyncPolicy::OnDemand] {
        let dir = tempfile::tempdir().unwrap();
        let (path, killed) = (dir.path().join("heap"), dir.path().join("killed"));
        let heap = options().sync_policy(policy).open(&path).unwrap();
        let bytes = heap.root::<PVec<u64>>("bytes").unwrap();
        bytes
            .txn(|tx, bytes| {
                for i in 0..300_000 {
                    bytes.push(tx, i)?;
                }
                Ok(())
            })
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(100);
        while heap.stats().checkpoints == 0 {
            assert!(Instant::now() < deadline, "nobody brings an idle log to the file");
            thread::sleep(Duration::from_millis(10));
        }
        crash(&path, &killed);
        let heap = options().open(&killed).unwrap();
        assert_eq!(heap.stats().replayed_records, 0);
        assert_eq!(
            heap.root::<PVec<u64>>("bytes").unwrap().read(|view, bytes| bytes.len(view)).unwrap(),
            300_000
        );
    }
}

/// A log that gets appends again and again is not idle, even if the background thread is woken for another
/// reason.
#[test]
fn a_busy_log_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let heap = options().open(dir.path().join("heap")).unwrap();
    let large: Root<P<'static, [u64]>> = heap.root_or("large", |tx| tx.alloc_slice(8192, |_| 0)).unwrap();
    let start = Instant::now();
    for i in 0..100 {
        large
            .txn(|tx, large| {
                let large = tx[large];
                tx[large].fill(i);
                Ok(())
            })
            .unwrap();
    }
    // Then there was no second in which nothing came.
    if start.elapsed() < Duration::from_millis(900) {
        assert_eq!(heap.stats().checkpoints, 0);
    }
}

#[test]
fn threads_share_syncs_and_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("a"), dir.path().join("b"));
    let heap = options().log_limit(256 << 10).open(&path).unwrap();
    let before = heap.stats().syncs;
    let threads = 8;
    let each = 200;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let heap = &heap;
            scope.spawn(move || {
                let list = heap.root::<Node>(&format!("list {thread}")).unwrap();
                (0..each).for_each(|i| list.txn(|tx, list| push(tx, list, i)).unwrap());
            });
        }
    });
    assert!(heap.stats().syncs - before <= threads * (each + 2));
    crash(&path, &copy);
    let after = options().open(&copy).unwrap();
    for thread in 0..threads {
        let list = after.existing_root::<Node>(&format!("list {thread}")).unwrap();
        assert_eq!(sum(&list), (each, each * (each - 1) / 2));
    }
    assert!(after.check().unwrap().is_clean());
}

#[test]
fn aborted_transactions_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("a"), dir.path().join("b"));
    let heap = options().memory_limit(64 << 10).open(&path).unwrap();
    let list = heap.root::<Node>("list").unwrap();
    list.txn(|tx, list| (0..100).try_for_each(|i| push(tx, list, i))).unwrap();
    let expected = sum(&list);
    for n in [1, 10, 5000] {
        let given_up = list.txn(|tx, list| {
            (0..n).try_for_each(|i| push(tx, list, i))?;
            let mut next = tx[list].next;
            while let Some(node) = next {
                tx[node].value = 1;
                next = tx[node].next;
            }
            Err::<(), _>(Error::abort("no"))
        });
        assert!(matches!(given_up, Err(Error::Aborted(_))));
        assert_eq!(sum(&list), expected);
        heap.checkpoint().unwrap();
        assert_eq!(sum(&list), expected);
        crash(&path, &copy);
        let after = options().open(&copy).unwrap();
        assert_eq!(sum(&after.existing_root("list").unwrap()), expected);
        assert!(after.check().unwrap().is_clean());
        drop(after);
        fs::remove_file(&copy).unwrap();
    }
}

/// A checkpoint gives pages back to the page cache, but not those of a transaction or a read that is open on
/// this thread, even if the thread has entered the region several times.
#[test]
fn a_checkpoint_within_a_transaction_or_a_read() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("a"), dir.path().join("b"));
    let heap = options().memory_limit(64 << 10).open(&path).unwrap();
    let list = heap.root::<Node>("list").unwrap();
    for i in 0..1100 {
        list.txn(|tx, list| push(tx, list, i)).unwrap();
    }
    let all = |value: u64| {
        list.read(|view, list| {
            assert_eq!(view[list].value, 1100);
            let mut next = view[list].next;
            heap.checkpoint().unwrap();
            while let Some(node) = next {
                assert_eq!(view[node].value, value);
                next = view[node].next;
            }
        })
        .unwrap();
    };
    for round in 1..4 {
        list.txn(|tx, list| {
            // More than a write set takes.
            let slice = tx.alloc_slice(200_000, |i| i as u64)?;
            let mut next = tx[list].next;
            while let Some(node) = next {
                tx[node].value = round;
                next = tx[node].next;
            }
            heap.checkpoint().unwrap();
            tx[slice].fill(round);
            heap.checkpoint().unwrap();
            assert!(tx[slice].iter().all(|value| *value == round));
            Ok(())
        })
        .unwrap();
        all(round);
    }
    heap.sync().unwrap();
    crash(&path, &copy);
    let after = options().open(&copy).unwrap();
    assert_eq!(sum(&after.existing_root("list").unwrap()), (1100, 3 * 1100));
    assert!(after.check().unwrap().is_clean());
}

#[test]
fn roots_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("a"), dir.path().join("b"));
    let heap = options().open(&path).unwrap();
    for i in 0..10 {
        let list = heap.root::<Node>("new").unwrap();
        list.txn(|tx, list| (0..1000).try_for_each(|i| push(tx, list, i))).unwrap();
        heap.rename_root("new", &format!("old {i}")).unwrap();
        if i % 3 == 0 {
            heap.remove_root(&format!("old {i}")).unwrap();
        }
        crash(&path, &copy);
        let after = options().open(&copy).unwrap();
        assert_eq!(after.roots(), heap.roots());
        for root in after.roots() {
            assert_eq!(sum(&after.existing_root(&root.name).unwrap()), (1000, 499_500));
        }
        assert!(after.check().unwrap().is_clean());
        drop(after);
        fs::remove_file(&copy).unwrap();
    }
    let backup = dir.path().join("backup");
    heap.backup(&backup).unwrap();
    assert_eq!(options().read_only(true).open(&backup).unwrap().roots(), heap.roots());
}

#[test]
fn what_is_live_is_known_after_a_close() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let heap = options().open(&path).unwrap();
    let list = heap.root::<Node>("list").unwrap();
    list.txn(|tx, list| (0..10).try_for_each(|i| push(tx, list, i))).unwrap();
    // The log has records of pages that are free now, and that the bitmaps may be stored in.
    let gone = heap.root::<Node>("gone").unwrap();
    gone.txn(|tx, list| (0..100_000).try_for_each(|i| push(tx, list, i))).unwrap();
    heap.remove_root("gone").unwrap();
    drop((list, gone));
    heap.close().unwrap();
    let heap = options().open(&path).unwrap();
    let stats = heap.stats();
    assert!(stats.ready && stats.collections == 0, "{stats:?}");
    assert_eq!(stats.live_objects, 11);
}

/// After a kill the file has the first pages of a checkpoint, up to some page; after a power failure, any of
/// them. The log has all pages, so no root is lost.
#[test]
fn a_heap_with_a_part_of_a_checkpoint_passes_verify() {
    const PAGE: usize = 4096;
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("a"), dir.path().join("b"));
    let heap = options().open(&path).unwrap();
    // The last one should have its header in one arena and its elements in another.
    for (name, kib) in [("first", 600), ("second", 1500), ("third", 450)] {
        drop(heap.root_or::<PVec<u64>>(name, |tx| PVec::from_slice(tx, &vec![1; kib << 7])).unwrap());
    }
    heap.checkpoint().unwrap();
    let before = as_killed(&path);
    heap.remove_root("third").unwrap();
    let log = fs::read(log_of(&path)).unwrap();
    heap.checkpoint().unwrap();
    let after = as_killed(&path);
    assert_eq!(before.len(), after.len());
    let page = |i: &usize| i * PAGE..(i + 1) * PAGE;
    let changed: Vec<usize> =
        (0..before.len() / PAGE).filter(|i| before[page(i)] != after[page(i)]).collect();
    assert!(changed.len() > 2, "{changed:?}");
    let first = (0..=changed.len()).map(|n| &changed[..n]);
    for pages in first.chain(changed.chunks(1)) {
        let mut file = before.clone();
        pages.iter().for_each(|i| file[page(i)].copy_from_slice(&after[page(i)]));
        fs::write(&copy, file).unwrap();
        fs::write(log_of(&copy), &log).unwrap();
        let opened = options().verify(true).open(&copy).unwrap_or_else(|error| panic!("{pages:?}: {error}"));
        assert_eq!(opened.roots().len(), 2);
    }
}

/// A log that has grown goes on after a checkpoint. With `EveryCommit`, it is short again then.
#[test]
fn a_log_is_cut_down_when_it_is_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    for policy in [SyncPolicy::EveryCommit, SyncPolicy::OnDemand] {
        let (path, copy) = (dir.path().join("a"), dir.path().join("b"));
        let options = options().sync_policy(policy);
        let heap = options.open(&path).unwrap();
        let list: Root<PVec<u64>> = heap.root("list").unwrap();
        let len = || fs::metadata(log_of(&path)).unwrap().len();
        let short = len();
        let mut count = 0;
        for round in 0..3 {
            list.txn(|tx, list| list.extend(tx, count..count + 500_000)).unwrap();
            count += 500_000;
            assert!(len() > short);
            heap.checkpoint().unwrap();
            if policy == SyncPolicy::EveryCommit {
                assert_eq!(len(), short);
            }
            for _ in 0..round {
                list.txn(|tx, list| list.push(tx, count)).unwrap();
                count += 1;
            }
            heap.sync().unwrap();
            crash(&path, &copy);
            let after = options.open(&copy).unwrap();
            let after: Root<PVec<u64>> = after.root("list").unwrap();
            assert!(after.read(|view, list| list.iter(view).copied().eq(0..count)).unwrap());
            drop(after);
            fs::remove_file(&copy).unwrap();
        }
        heap.close().unwrap();
        fs::remove_file(&path).unwrap();
    }
}
