//! A heap with a write-ahead log that was closed well is not written to before something is recorded.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread;

use pheap::{Durability, Error, Heap, Options, PVec, Root, SyncPolicy};
use pheap_testkit::{copy_as_killed, log_of, role, run_well};

fn options(policy: SyncPolicy) -> Options {
    Options::new().durability(Durability::Wal).reserve(1 << 32).sync_policy(policy)
}

const POLICIES: [SyncPolicy; 2] = [SyncPolicy::EveryCommit, SyncPolicy::OnDemand];

fn list(heap: &Heap) -> Root<PVec<'static, u64>> {
    heap.root("list").unwrap()
}

fn push(root: &Root<PVec<'static, u64>>, number: u64) -> pheap::Result<()> {
    root.txn(|tx, list| list.push(tx, number))
}

fn all(root: &Root<PVec<'static, u64>>) -> Vec<u64> {
    root.read(|view, list| list.iter(view).copied().collect()).unwrap()
}

/// A heap that was closed, with one number.
fn closed(dir: &Path, options: &Options) -> (PathBuf, Vec<u8>) {
    let path = dir.join("heap");
    let heap = options.open(&path).unwrap();
    push(&list(&heap), 1).unwrap();
    heap.close().unwrap();
    let bytes = fs::read(&path).unwrap();
    (path, bytes)
}

#[test]
fn what_is_only_read_stays_as_it_is() {
    for policy in POLICIES {
        let (dir, options) = (tempfile::tempdir().unwrap(), options(policy));
        let (path, bytes) = closed(dir.path(), &options);
        let heap = options.open(&path).unwrap();
        let root = list(&heap);
        assert_eq!(all(&root), [1]);
        assert_eq!(heap.durability(), Durability::Wal);
        assert!(heap.check().unwrap().is_clean());
        heap.sync().unwrap();
        heap.checkpoint().unwrap();
        // It can be copied, backed up and followed as one that is closed.
        let copy = dir.path().join("copy");
        fs::copy(&path, &copy).unwrap();
        assert_eq!(all(&list(&options.open(&copy).unwrap())), [1]);
        let backup = dir.path().join("backup");
        heap.backup(&backup).unwrap();
        assert_eq!(all(&list(&options.open(&backup).unwrap())), [1]);
        let follower = Options::new().follower(true).open(&path).unwrap();
        assert_eq!(all(&list(&follower)), [1]);
        assert!(matches!(options.open(&path), Err(Error::AlreadyOpen { .. })));
        assert!(fs::read(&path).unwrap() == bytes && !log_of(&path).exists());
        drop(root);
        heap.close().unwrap();
        assert!(fs::read(&path).unwrap() == bytes && !log_of(&path).exists());
    }
}

#[test]
fn the_first_change_makes_the_log() {
    for policy in POLICIES {
        let (dir, options) = (tempfile::tempdir().unwrap(), options(policy));
        let (path, bytes) = closed(dir.path(), &options);
        let heap = options.open(&path).unwrap();
        let root = list(&heap);
        push(&root, 2).unwrap();
        assert!(log_of(&path).exists() && fs::read(&path).unwrap() != bytes);
        heap.sync().unwrap();
        let follower = Options::new().follower(true).open(&path).unwrap();
        assert_eq!(all(&list(&follower)), [1, 2]);
        let killed = dir.path().join("killed");
        copy_as_killed(&path, &killed);
        fs::copy(log_of(&path), log_of(&killed)).unwrap();
        assert_eq!(all(&list(&options.open(&killed).unwrap())), [1, 2]);
        heap.close().unwrap();
        assert!(!log_of(&path).exists());
        assert_eq!(all(&list(&options.open(&path).unwrap())), [1, 2]);
    }
}

/// A program that must not wait for the disk later makes the log in advance, with an empty transaction.
#[test]
fn a_transaction_that_does_nothing_makes_the_log() {
    let (dir, options) = (tempfile::tempdir().unwrap(), options(SyncPolicy::EveryCommit));
    let (path, _) = closed(dir.path(), &options);
    let heap = options.open(&path).unwrap();
    list(&heap).txn(|_, _| Ok(())).unwrap();
    assert!(log_of(&path).exists());
}

/// Changes outside of transactions make the log, too.
#[test]
fn roots_come_and_go() {
    let (dir, options) = (tempfile::tempdir().unwrap(), options(SyncPolicy::EveryCommit));
    let (path, _) = closed(dir.path(), &options);
    let heap = options.open(&path).unwrap();
    heap.root::<u64>("another").unwrap();
    drop(heap);
    let heap = options.open(&path).unwrap();
    heap.rename_root("another", "second").unwrap();
    drop(heap);
    let heap = options.open(&path).unwrap();
    heap.remove_root("second").unwrap();
    drop(heap);
    let heap = options.open(&path).unwrap();
    assert_eq!(heap.roots().len(), 1);
    heap.collect().unwrap();
    assert_eq!(all(&list(&heap)), [1]);
}

#[test]
fn threads_that_change_it_at_once_make_one_log() {
    for policy in POLICIES {
        let (dir, options) = (tempfile::tempdir().unwrap(), options(policy));
        let (path, _) = closed(dir.path(), &options);
        let heap = options.open(&path).unwrap();
        let others: Vec<Root<u64>> = (0..4).map(|i| heap.root(&format!("number {i}")).unwrap()).collect();
        heap.close().unwrap();
        let heap = options.open(&path).unwrap();
        drop(others);
        let start = Barrier::new(4);
        thread::scope(|scope| {
            for i in 0..4u64 {
                let (heap, start) = (&heap, &start);
                scope.spawn(move || {
                    let root: Root<u64> = heap.root(&format!("number {i}")).unwrap();
                    start.wait();
                    root.txn(|tx, number| {
                        tx[number] = i + 1;
                        Ok(())
                    })
                    .unwrap();
                });
            }
        });
        let killed = dir.path().join("killed");
        heap.sync().unwrap();
        copy_as_killed(&path, &killed);
        fs::copy(log_of(&path), log_of(&killed)).unwrap();
        for path in [&killed, &path] {
            if path == &killed {
                let heap = options.open(path).unwrap();
                let numbers = (0..4).map(|i| {
                    heap.root::<u64>(&format!("number {i}")).unwrap().read(|view, n| view[n]).unwrap()
                });
                assert!(numbers.eq(1..=4));
            }
        }
        heap.close().unwrap();
    }
}

/// If a log cannot be made, the call that wants to change the heap fails, and nothing else.
#[test]
fn a_log_that_cannot_be_made_can_be_made_later() {
    for policy in POLICIES {
        let (dir, options) = (tempfile::tempdir().unwrap(), options(policy));
        let (path, bytes) = closed(dir.path(), &options);
        let heap = options.open(&path).unwrap();
        let root = list(&heap);
        fs::create_dir(log_of(&path)).unwrap();
        for _ in 0..2 {
            assert!(matches!(push(&root, 2), Err(Error::Io { .. })));
            assert!(heap.root::<u64>("another").is_err());
            assert_eq!(all(&root), [1]);
        }
        assert!(fs::read(&path).unwrap() == bytes);
        fs::remove_dir(log_of(&path)).unwrap();
        push(&root, 2).unwrap();
        assert_eq!(all(&root), [1, 2]);
        heap.close().unwrap();
        assert_eq!(all(&list(&options.open(&path).unwrap())), [1, 2]);
    }
}

/// The program has too many open files for the log, or for the log's directory, which must be opened to be
/// synced.
#[test]
fn a_log_is_made_when_the_program_has_closed_other_files() {
    let options = options(SyncPolicy::EveryCommit);
    if let Some((_, path)) = role() {
        let heap = options.open(&path).unwrap();
        let root = list(&heap);
        let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
        // SAFETY: a plain system call, in a separate process.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
        let mut others = Vec::new();
        while let Ok(file) = fs::File::open("/dev/null") {
            others.push(file);
        }
        let mut refused = 0;
        while let Err(error) = push(&root, 2) {
            assert!(matches!(error, Error::Io { .. }) && !log_of(&path).exists(), "{error}");
            assert_eq!(all(&root), [1]);
            refused += 1;
            others.pop().unwrap();
        }
        assert_eq!((refused, all(&root)), (2, vec![1, 2]));
        heap.close().unwrap();
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = closed(dir.path(), &options);
    run_well("unchanged::a_log_is_made_when_the_program_has_closed_other_files", "limited", &path);
    assert_eq!(all(&list(&options.open(&path).unwrap())), [1, 2]);
}

#[test]
fn a_heap_that_was_renamed_gets_its_log_beside_it() {
    let (dir, options) = (tempfile::tempdir().unwrap(), options(SyncPolicy::EveryCommit));
    let (path, _) = closed(dir.path(), &options);
    let heap = options.open(&path).unwrap();
    let (to, copy) = (dir.path().join("renamed"), dir.path().join("copy"));
    fs::rename(&path, &to).unwrap();
    // Another heap has its name, and a log.
    let other = options.open(&path).unwrap();
    push(&list(&other), 7).unwrap();
    push(&list(&heap), 2).unwrap();
    copy_as_killed(&to, &copy);
    fs::copy(log_of(&to), log_of(&copy)).unwrap();
    assert_eq!(all(&list(&options.open(&copy).unwrap())), [1, 2]);
    heap.close().unwrap();
    assert!(log_of(&path).exists() && !log_of(&to).exists());
    assert_eq!(all(&list(&other)), [7]);
    // One that has no name at all.
    let heap = options.open(&to).unwrap();
    fs::remove_file(&to).unwrap();
    assert_eq!(all(&list(&heap)), [1, 2]);
    assert!(matches!(push(&list(&heap), 3), Err(Error::Misplaced { .. })));
    assert_eq!(all(&list(&heap)), [1, 2]);
}

/// A heap whose live objects are unknown is swept in the background, where no caller would get the error if
/// the log could not be made. So the opening makes the log.
#[test]
fn a_heap_that_is_swept_gets_its_log_when_it_is_opened() {
    let (dir, options) = (tempfile::tempdir().unwrap(), options(SyncPolicy::EveryCommit));
    let (path, _) = closed(dir.path(), &options);
    let backup = dir.path().join("backup");
    options.open(&path).unwrap().backup(&backup).unwrap();
    let heap = options.open(&backup).unwrap();
    assert!(log_of(&backup).exists());
    heap.collect().unwrap();
    heap.close().unwrap();
    let heap = options.open(&backup).unwrap();
    assert!(!log_of(&backup).exists());
    assert_eq!(all(&list(&heap)), [1]);
}
