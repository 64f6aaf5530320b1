//! What a child has of the parent's files: nothing, from the beginning.

use std::future::Future;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use pheap::{Backup, Durability, Error, Heap, Options, P, Result, Root, SyncPolicy};

use crate::{Data, alone, forked, is_forked};
use pheap_testkit::forks::*;
use pheap_testkit::*;

/// Every durability, with a name.
fn durabilities() -> [(&'static str, Options); 5] {
    let wal = |policy| small().durability(Durability::Wal).sync_policy(policy).log_limit(MIB);
    [
        ("process", small()),
        ("pmem", small().durability(Durability::Pmem)),
        ("wal", wal(SyncPolicy::EveryCommit)),
        ("lazy", wal(SyncPolicy::OnDemand)),
        ("often", wal(SyncPolicy::Every(Duration::from_millis(1)))),
    ]
}

/// Opens the heap at `path`, and adds 1 to its count. Returns the heap, the root and the new count.
fn opened(options: &Options, path: &Path) -> Result<(Heap, Root<Data<'static>>, u64)> {
    let heap = options.open(path)?;
    let root: Root<Data> = heap.root("data")?;
    let count = root.txn(|tx, d| {
        tx[d].count += 1;
        Ok(tx[d].count)
    })?;
    Ok((heap, root, count))
}

/// Retries [`opened`] while the heap is locked. Children of its last user hold its lock until they have run,
/// and a killed process releases its resources one by one.
fn opened_soon(options: &Options, path: &Path) -> Result<(Heap, Root<Data<'static>>, u64)> {
    let start = Instant::now();
    loop {
        match opened(options, path) {
            Err(Error::Locked { .. }) if start.elapsed() < Duration::from_secs(20) => {
                std::thread::sleep(Duration::from_millis(1));
            }
            result => return result,
        }
    }
}

/// Whether this process has the file open.
fn has_open(path: &Path) -> bool {
    let Ok(wanted) = std::fs::metadata(path) else { return false };
    (0..1024).any(|fd| {
        // SAFETY: `stat` is plain data, for which zeros are valid, and the call fills it.
        let (result, stat) = unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            (libc::fstat(fd, &raw mut stat), stat)
        };
        result == 0 && stat.st_dev == wanted.dev() && stat.st_ino == wanted.ino()
    })
}

/// Waits, but not for ever.
fn is_soon(is_so: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !is_so() {
        if start.elapsed() > LONG {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    assert!(is_soon(is_so), "{what}");
}

#[test]
fn a_child_has_neither_heap_nor_log_open() -> Result<()> {
    alone("files::a_child_has_neither_heap_nor_log_open", |path| {
        for (name, options) in durabilities() {
            let path = path.with_extension(name);
            let (heap, root, _) = opened(&options, &path)?;
            assert!(has_open(&path));
            let nothing_open = || !has_open(&path) && !has_open(&log_of(&path)) && is_forked(heap.sync());
            assert!(forked(nothing_open), "{name}");
            // A child drops its handles. A file that it opens then stays open, also in its child.
            let mut handles = Some((heap.clone(), root.clone()));
            assert!(forked(|| {
                drop(handles.take());
                let other = std::fs::File::open("/dev/null").unwrap();
                let well = forked(|| other.metadata().is_ok());
                well && other.metadata().is_ok()
            }));
            drop((root, handles));
            heap.close()?;
        }
        Ok(())
    })
}

/// The child is made while a copy is being made. The child then opens a file; when the copy's file is
/// dropped, it must not remove the child's file from the list.
#[test]
fn a_child_within_a_backup_gives_up_its_own_files_to_its_own_children() -> Result<()> {
    alone("files::a_child_within_a_backup_gives_up_its_own_files_to_its_own_children", |path| {
        let (heap, _root, _) = opened(&small(), path)?;
        let own = path.with_extension("own");
        let (mut number, mut childs, mut result) = (-1, None, Ok(()));
        let backup = Backup::of(&heap).progress(|_, _| {
            if number < 0 {
                number = split();
                if number == 0 {
                    childs = Some(small().open(&own));
                }
            }
        });
        let copied = backup.write_file(path.with_extension("copy"));
        if number == 0 {
            let is_open = childs
                .is_some_and(|heap| heap.is_ok_and(|_own| has_open(&own) && forked(|| !has_open(&own))));
            end(is_open && is_forked(copied));
        }
        if let Err(error) = ended(number) {
            result = Err(Error::abort(error));
        }
        copied.and(result)
    })
}

#[test]
fn a_child_without_a_number_to_spare() -> Result<()> {
    alone("files::a_child_without_a_number_to_spare", |path| {
        let (heap, _root, _) = opened(&small(), path)?;
        let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
        // SAFETY: a call with a value.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
        let mut all = Vec::new();
        while let Ok(file) = std::fs::File::open("/dev/null") {
            all.push(file);
        }
        assert!(forked(|| !has_open(path) && all.iter().all(|file| file.metadata().is_ok())));
        drop(all);
        heap.close()
    })
}

#[test]
fn the_lock_goes_with_the_parent() {
    for (name, _) in durabilities() {
        let dir = tempdir();
        let path = dir.path().join(name);
        run_killed("files::leaves_children", name, &path);
        let options = durabilities().into_iter().find(|other| other.0 == name).unwrap().1;
        // Although two children live.
        let (_, _, count) = opened_soon(&options, &path).unwrap();
        assert_eq!(count, 2, "{name}");
        std::fs::write(path.with_extension("end"), "").unwrap();
    }
}

/// The other process of the test above. It is killed, and its children live on.
#[test]
fn leaves_children() {
    let Some((name, path)) = role() else { return };
    let options = durabilities().into_iter().find(|other| other.0 == name).unwrap().1;
    let _heap = opened(&options, &path).unwrap();
    let end = path.with_extension("end");
    fork(|| {
        wait_until("the test ends", || end.exists() || !end.parent().unwrap().exists());
        true
    });
    let mut program = Command::new("sleep");
    program.arg("30").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    drop(program.spawn().unwrap());
    die();
}

#[test]
fn the_lock_goes_with_a_parent_that_opens_while_it_forks() {
    for round in 0..5 {
        let dir = tempdir();
        let path = dir.path().join("x");
        run_killed("files::opens_and_forks", "both", &path);
        let opened = opened_soon(&small(), &path);
        assert!(opened.is_ok(), "round {round}: {:?}", opened.err());
        std::fs::write(path.with_extension("end"), "").unwrap();
    }
}

/// The other process of the test above.
#[test]
fn opens_and_forks() {
    let Some((_, path)) = role() else { return };
    let (end, start) = (path.with_extension("end"), Instant::now());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                let (heap, ..) = opened(&small(), &path).unwrap();
                if start.elapsed() > Duration::from_millis(50) {
                    die();
                }
                drop(heap);
            }
        });
        scope.spawn(|| {
            for _ in 0..200 {
                fork(|| {
                    wait_until("the test ends", || end.exists() || !end.parent().unwrap().exists());
                    true
                });
            }
        });
    });
}

/// One would wait for ever if a thread of the parent was just starting or ending when the child was made.
#[test]
fn a_child_starts_no_threads() -> Result<()> {
    alone("files::a_child_starts_no_threads", |path| {
        for (name, options) in durabilities() {
            let path = path.with_extension(name);
            drop(opened(&options, &path)?);
            let options = options.collect_threads(2);
            let starts_none = || {
                let (heap, root, count) = opened(&options, &path).unwrap();
                let (_, commit) = root.txn_deferred(|tx, d| Ok(tx[d].count += 1)).unwrap();
                // No thread would sync it later, so it is durable at once; with `lazy`, by `wait`.
                let is_synced = commit.is_durable() || name == "lazy" && commit.wait().is_ok();
                let threads = std::fs::read_dir("/proc/self/task").unwrap().count();
                drop(root);
                threads == 1
                    && count == 2
                    && is_synced
                    && commit.is_durable()
                    && heap.collect().is_ok()
                    && heap.close().is_ok()
            };
            assert!(forked(starts_none), "{name}");
        }
        Ok(())
    })
}

/// The log belongs to the parent. A deferred commit that was not durable before the fork is refused in the
/// child.
#[test]
fn a_child_does_not_wait_for_what_its_parent_has_deferred() -> Result<()> {
    alone("files::a_child_does_not_wait_for_what_its_parent_has_deferred", |path| {
        let (heap, root, _) =
            opened(&small().durability(Durability::Wal).sync_policy(SyncPolicy::OnDemand), path)?;
        heap.sync()?;
        let (_, durable) = root.read_deferred(|_, _| ())?;
        root.txn(|tx, d| Ok(tx[d].count += 1))?;
        let (_, seen) = root.read_deferred(|_, _| ())?;
        let mut seen = Some(seen);
        assert!(forked(|| {
            let mut seen = seen.take().unwrap();
            let polled = std::pin::pin!(&mut seen).poll(&mut Context::from_waker(Waker::noop()));
            let is_refused = matches!(polled, Poll::Ready(Err(Error::Forked)))
                && is_forked(seen.wait())
                && !seen.is_durable();
            drop(seen);
            is_refused && durable.wait().is_ok()
        }));
        seen.unwrap().wait()?;
        drop(root);
        heap.close()
    })
}

/// There is no thread that gives pages back, so transactions do.
#[test]
fn a_child_keeps_to_the_limit_of_its_memory() -> Result<()> {
    alone("files::a_child_keeps_to_the_limit_of_its_memory", |path| {
        let options = small().durability(Durability::Wal).sync_policy(SyncPolicy::OnDemand).memory_limit(MIB);
        drop(options.open(path)?);
        let keeps_to_it = || {
            let heap = options.open(path).unwrap();
            let root: Root<Option<P<[u64]>>> =
                heap.root_or("a", |tx| Ok(Some(tx.alloc_slice(1 << 20, |_| 0)?))).unwrap();
            for at in (0..1 << 20).step_by(512) {
                root.txn(|tx, a| {
                    let word = tx[a].unwrap().at(tx, at);
                    Ok(tx[word] = 1)
                })
                .unwrap();
            }
            let stats = heap.stats();
            let sum = root.read(|view, a| view[view[a].unwrap()].iter().sum::<u64>()).unwrap();
            drop(root);
            assert!(stats.private_bytes < 4 * MIB && sum == 2048, "{stats:?}");
            heap.close().is_ok()
        };
        assert!(forked(keeps_to_it));
        Ok(())
    })
}

/// What [`Error::Forked`] says can be done.
#[test]
fn the_advice_works() {
    for (name, options) in durabilities() {
        let dir = tempdir();
        let path = dir.path().join(name);
        // A parent that closes the heap.
        run_well("files::follows_the_advice", name, &path);
        // One that is killed.
        run_killed("files::is_killed_meanwhile", name, &path);
        let done = path.with_extension("done");
        let child = || std::fs::read_to_string(path.with_extension("tried")).unwrap().parse().unwrap();
        assert!(is_soon(|| done.exists()), "{name}: {}", kill_stuck(child()));
        assert_eq!(std::fs::read_to_string(done).unwrap(), "4", "{name}");
        assert_eq!(opened(&options, &path).unwrap().2, 5, "{name}");
    }
}

/// Is refused, is locked out, waits until `may` says that it may go on, and opens the heap. Returns the
/// count, or `None` if one of these was not so.
fn follow(options: &Options, root: &Root<Data<'static>>, path: &Path, may: impl Fn() -> bool) -> Option<u64> {
    let refused = is_forked(root.read(|_, _| ()));
    let locked = matches!(options.open(path), Err(Error::Locked { .. }));
    std::fs::write(path.with_extension("tried"), std::process::id().to_string()).unwrap();
    wait_until("the parent is done", may);
    let (heap, _, count) = opened_soon(options, path).unwrap();
    // The old handles are still good for nothing.
    let still = is_forked(root.read(|_, _| ()));
    heap.close().unwrap();
    (refused && locked && still).then_some(count)
}

/// The other process of the test above.
#[test]
fn follows_the_advice() {
    let Some((name, path)) = role() else { return };
    let options = durabilities().into_iter().find(|other| other.0 == name).unwrap().1;
    let (heap, root, _) = opened(&options, &path).unwrap();
    let closed = path.with_extension("closed");
    let child = fork(|| follow(&options, &root, &path, || closed.exists()) == Some(2));
    let tried = path.with_extension("tried");
    wait_until("the child has tried", || tried.exists());
    std::fs::remove_file(tried).unwrap();
    heap.close().unwrap();
    std::fs::write(closed, "").unwrap();
    assert_eq!(ended(child), Ok(()));
}

/// The other process of the test above, the second time.
#[test]
fn is_killed_meanwhile() {
    let Some((name, path)) = role() else { return };
    let options = durabilities().into_iter().find(|other| other.0 == name).unwrap().1;
    let (_heap, root, _) = opened(&options, &path).unwrap();
    // SAFETY: calls without arguments, here and in the child.
    let parent = unsafe { libc::getpid() };
    fork(|| {
        // SAFETY: as before.
        let count = follow(&options, &root, &path, || unsafe { libc::getppid() } != parent).unwrap();
        std::fs::write(path.with_extension("new"), count.to_string()).unwrap();
        std::fs::rename(path.with_extension("new"), path.with_extension("done")).unwrap();
        true
    });
    let tried = path.with_extension("tried");
    wait_until("the child has tried", || tried.exists());
    die();
}
