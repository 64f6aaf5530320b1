//! Which file is the log of a heap. Names change while the heap is open, there are mounts and copies, and
//! other files lie where the log should be.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use pheap::{Durability, Error, Heap, Options, Root, SyncPolicy};
use pheap_testkit::{die, log_of, role, run_killed, run_well, tempdir};

fn options() -> Options {
    Options::new().durability(Durability::Wal).arena_size(1 << 20).reserve(1 << 30).log_limit(1 << 20)
}

fn number(heap: &Heap) -> Root<u64> {
    heap.root("number").unwrap()
}

/// Commits, but not within the millisecond in which a commit relies on the last look at the names.
fn set(root: &Root<u64>, to: u64) -> pheap::Result<()> {
    std::thread::sleep(Duration::from_millis(2));
    root.txn(|tx, n| {
        tx[n] = to;
        Ok(())
    })
}

fn get(heap: &Heap) -> u64 {
    number(heap).read(|view, n| view[n]).unwrap()
}

/// What an opening finds when the process is killed now.
fn after_kill(path: &Path) -> pheap::Result<u64> {
    let dir = tempdir();
    let copy = dir.path().join("copy");
    fs::copy(path, &copy).unwrap();
    if log_of(path).exists() {
        fs::copy(log_of(path), log_of(&copy)).unwrap();
    }
    copied().open(&copy).map(|heap| get(&heap))
}

/// For copies that are made while no process changes the heap.
fn copied() -> Options {
    options().restored(true)
}

const POLICIES: [SyncPolicy; 2] = [SyncPolicy::EveryCommit, SyncPolicy::OnDemand];

fn is_unknown(result: pheap::Result<()>) -> bool {
    matches!(result, Err(Error::OutcomeUnknown { .. }))
}

fn is_misplaced(result: pheap::Result<()>) -> bool {
    matches!(result, Err(Error::Misplaced { .. }))
}

/// Nothing is acknowledged from then on. Closing the heap saves all; and if the program is killed, the log
/// does that has its name again.
#[test]
fn a_log_that_loses_its_name_is_missed() {
    type Lose = fn(&Path);
    type Step = fn(&Heap) -> pheap::Result<()>;
    let kept = |log: &Path| log.with_extension("kept");
    let ways: [(&str, Lose); 3] = [
        ("removed", |log| fs::remove_file(log).unwrap()),
        ("renamed", |log| fs::rename(log, log.with_extension("kept")).unwrap()),
        ("linked, and removed", |log| {
            fs::hard_link(log, log.with_extension("kept")).unwrap();
            fs::remove_file(log).unwrap();
        }),
    ];
    let steps: [(&str, Step); 3] =
        [("nothing", |_| Ok(())), ("sync", Heap::sync), ("checkpoint", Heap::checkpoint)];
    for (policy, step) in [
        (SyncPolicy::EveryCommit, steps[0]),
        (SyncPolicy::EveryCommit, steps[1]),
        (SyncPolicy::EveryCommit, steps[2]),
        (SyncPolicy::OnDemand, steps[1]),
        (SyncPolicy::OnDemand, steps[2]),
    ] {
        for (what, lose) in ways {
            println!("{policy:?}, {}, {what}", step.0);
            let dir = tempdir();
            let path = dir.path().join("h");
            let heap = options().sync_policy(policy).open(&path).unwrap();
            let root = number(&heap);
            set(&root, 1).unwrap();
            heap.sync().unwrap();
            lose(&log_of(&path));
            if policy == SyncPolicy::OnDemand {
                set(&root, 2).unwrap();
                let made = step.1(&heap);
                assert!(is_unknown(made) || is_misplaced(step.1(&heap)));
            } else if step.0 == "nothing" {
                assert!(is_unknown(set(&root, 2)));
            } else {
                // Also if there was no commit since.
                assert!(is_misplaced(step.1(&heap)));
            }
            assert!(is_misplaced(set(&root, 3)) && is_misplaced(heap.sync()));
            assert!(matches!(root.read(|view, n| view[n]), Err(Error::Misplaced { .. })));
            let value = if step.0 == "nothing" || policy == SyncPolicy::OnDemand { 2 } else { 1 };
            if what != "removed" {
                let copy = dir.path().join("copy");
                fs::copy(&path, &copy).unwrap();
                assert!(matches!(copied().open(&copy), Err(Error::LogMissing { .. })));
                fs::copy(kept(&log_of(&path)), log_of(&copy)).unwrap();
                assert_eq!(get(&copied().open(&copy).unwrap()), value);
            }
            drop(root);
            heap.close().unwrap();
            assert_eq!(get(&options().open(&path).unwrap()), value);
        }
    }
}

/// The log stays where it was.
#[test]
fn a_heap_that_is_renamed_without_its_log_misses_it() {
    let dir = tempdir();
    let (path, new) = (dir.path().join("h"), dir.path().join("new"));
    let heap = options().open(&path).unwrap();
    let root = number(&heap);
    set(&root, 1).unwrap();
    fs::rename(&path, &new).unwrap();
    let error = set(&root, 2).unwrap_err();
    assert!(error.to_string().contains("new.wal is missing"), "{error}");
    assert!(is_misplaced(set(&root, 3)));
    drop(root);
    heap.close().unwrap();
    assert!(!log_of(&path).exists());
    assert_eq!(get(&options().open(&new).unwrap()), 2);
}

#[test]
fn a_heap_that_was_moved_aside_leaves_the_log_of_the_next_one_alone() {
    let dir = tempdir();
    let at = |name: &str| dir.path().join(name);
    let first = options().open(at("h")).unwrap();
    set(&number(&first), 1).unwrap();
    fs::rename(at("h"), at("old")).unwrap();
    fs::rename(log_of(&at("h")), log_of(&at("old"))).unwrap();
    let second = options().open(at("h")).unwrap();
    set(&number(&second), 2).unwrap();
    set(&number(&first), 3).unwrap();
    assert_eq!(after_kill(&at("old")).unwrap(), 3);
    first.close().unwrap();
    assert!(log_of(&at("h")).exists(), "the log of another heap is gone");
    assert!(!log_of(&at("old")).exists());
    assert_eq!(after_kill(&at("h")).unwrap(), 2);
    assert_eq!(get(&options().open(at("old")).unwrap()), 3);
}

#[test]
fn a_heap_is_renamed_with_its_log() {
    for policy in POLICIES {
        let dir = tempdir();
        let at = |name: &str| dir.path().join(name);
        let rename = |from: &str, to: &str| {
            fs::rename(log_of(&at(from)), log_of(&at(to))).unwrap();
            fs::rename(at(from), at(to)).unwrap();
        };
        fs::create_dir(at("sub")).unwrap();
        let heap = options().sync_policy(policy).open(at("h")).unwrap();
        let root = number(&heap);
        for (value, from, to) in [(2, "h", "renamed"), (3, "renamed", "sub/h"), (4, "sub/h", "h")] {
            rename(from, to);
            set(&root, value).unwrap();
            heap.sync().unwrap();
            assert!(log_of(&at(to)).exists() && !log_of(&at(from)).exists(), "{from} to {to}");
            assert_eq!(after_kill(&at(to)).unwrap(), value);
        }
        // Directories have whatever names they like.
        rename("h", "sub/h");
        heap.sync().unwrap();
        fs::rename(at("sub"), at("sub2")).unwrap();
        set(&root, 5).unwrap();
        heap.sync().unwrap();
        assert_eq!(after_kill(&at("sub2/h")).unwrap(), 5);
        drop(root);
        heap.close().unwrap();
        assert_eq!(fs::read_dir(at("sub2")).unwrap().count(), 1, "nothing but the heap is left");
        assert_eq!(get(&options().open(at("sub2/h")).unwrap()), 5);
    }
}

/// Another file has the name of the log, or of the log that the heap would have where it is now.
#[test]
fn another_file_in_the_place_of_the_log_is_noticed_and_left_alone() {
    for renamed in [false, true] {
        let dir = tempdir();
        let (path, new) = (dir.path().join("h"), dir.path().join("new"));
        let heap = options().open(&path).unwrap();
        let root = number(&heap);
        set(&root, 1).unwrap();
        let path = if renamed {
            fs::write(log_of(&new), b"precious").unwrap();
            fs::rename(&path, &new).unwrap();
            new
        } else {
            fs::write(&new, b"precious").unwrap();
            fs::rename(&new, log_of(&path)).unwrap();
            path
        };
        let error = set(&root, 2).unwrap_err();
        assert!(
            matches!(&error, Error::OutcomeUnknown { source } if source.to_string().contains("another file")),
            "{error}"
        );
        let error = set(&root, 3).unwrap_err();
        assert!(matches!(error, Error::Misplaced { .. }), "{error}");
        assert!(matches!(root.read(|view, n| view[n]), Err(Error::Misplaced { .. })));
        assert!(matches!(heap.sync(), Err(Error::Misplaced { .. })));
        drop(root);
        // Closed, a heap needs no log.
        heap.close().unwrap();
        assert_eq!(fs::read(log_of(&path)).unwrap(), b"precious");
        assert!(matches!(options().open(&path), Err(Error::ForeignLog { .. })));
        fs::remove_file(log_of(&path)).unwrap();
        assert_eq!(get(&options().open(&path).unwrap()), 2);
    }
}

/// Closing the heap must not write changes that the log has refused to the heap's file, though this process
/// has them: for example, which pages are free.
#[test]
fn what_was_refused_is_not_taken_for_done_when_the_heap_is_closed() {
    let dir = tempdir();
    let (path, new) = (dir.path().join("h"), dir.path().join("new"));
    let heap = options().open(&path).unwrap();
    let (root, other) = (number(&heap), heap.root::<u64>("other").unwrap());
    set(&root, 7).unwrap();
    std::thread::scope(|scope| {
        let mut removal = None;
        root.txn(|_, _| {
            // It waits for this transaction.
            removal = Some(scope.spawn(|| heap.remove_root("number")));
            std::thread::sleep(Duration::from_millis(200));
            fs::write(&new, b"precious").unwrap();
            fs::rename(&new, log_of(&path)).unwrap();
            let set = scope.spawn(|| set(&other, 1)).join().unwrap();
            assert!(matches!(set, Err(Error::OutcomeUnknown { .. })));
            Ok(())
        })
        .unwrap();
        assert!(removal.unwrap().join().unwrap().is_err());
    });
    drop((root, other));
    heap.close().unwrap();
    fs::remove_file(log_of(&path)).unwrap();
    let heap = options().verify(true).open(&path).unwrap();
    assert_eq!(get(&heap), 7);
    assert!(heap.check().unwrap().is_clean());
}

/// A service that is started with more rights than it keeps.
#[test]
fn a_program_may_give_up_the_right_to_look_into_the_directory() {
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: there are no rights to give up");
        return;
    }
    for removed in [false, true] {
        let dir = tempdir();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let path = dir.path().join("h");
        let heap = options().open(&path).unwrap();
        let root = number(&heap);
        set(&root, 1).unwrap();
        if removed {
            fs::remove_file(log_of(&path)).unwrap();
        }
        let commit = || {
            // SAFETY: a number. It counts for this thread alone, which ends.
            unsafe { libc::setfsuid(65534) };
            assert!(fs::metadata(&path).is_err());
            let committed = set(&root, 2);
            heap.sync().and(committed)
        };
        let committed = std::thread::scope(|scope| scope.spawn(commit).join().unwrap());
        assert_eq!(committed.is_err(), removed, "{committed:?}");
        if !removed {
            assert_eq!(after_kill(&path).unwrap(), 2);
        }
        drop(root);
        heap.close().unwrap();
        assert_eq!(get(&options().open(&path).unwrap()), 2);
    }
}

/// It is given up, though its record may be in the log.
#[test]
fn a_root_that_may_not_be_durable_is_none() {
    let dir = tempdir();
    let path = dir.path().join("h");
    let heap = options().open(&path).unwrap();
    set(&number(&heap), 1).unwrap();
    let made = heap.root_or::<u64>("late", |_| {
        fs::remove_file(&path).unwrap();
        std::thread::sleep(Duration::from_millis(2));
        Ok(1)
    });
    assert!(matches!(made, Err(Error::OutcomeUnknown { .. })), "{made:?}");
    assert!(heap.roots().iter().all(|root| root.name == "number"));
}

#[test]
fn a_heap_that_was_removed_says_so() {
    let dir = tempdir();
    let path = dir.path().join("h");
    for also in [false, true] {
        let heap = options().open(&path).unwrap();
        let root = number(&heap);
        set(&root, 1).unwrap();
        fs::remove_file(&path).unwrap();
        if also {
            fs::remove_file(log_of(&path)).unwrap();
        }
        let error = set(&root, 2).unwrap_err();
        assert!(
            matches!(&error, Error::OutcomeUnknown { source } if source.to_string().contains("removed")),
            "{error}"
        );
        assert!(matches!(set(&root, 3), Err(Error::Misplaced { .. })));
        drop(root);
        assert!(matches!(heap.close(), Err(Error::Misplaced { .. })));
        let _ = fs::remove_file(log_of(&path));

        // Noticed only at the end. The content can still be saved.
        let heap = options().open(&path).unwrap();
        set(&number(&heap), 1).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(matches!(heap.clone().close(), Err(Error::Removed { .. })));
        heap.backup(&path).unwrap();
        drop(heap);
        let _ = fs::remove_file(log_of(&path));
        assert_eq!(get(&options().open(&path).unwrap()), 1);
        fs::remove_file(&path).unwrap();
        let _ = fs::remove_file(log_of(&path));
    }
}

#[test]
fn a_heap_of_several_names_has_one_log() {
    let dir = tempdir();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("sub")).unwrap();
    let heap = options().open(at("h")).unwrap();
    symlink(at("h"), at("sub/link")).unwrap();
    heap.close().unwrap();
    // A link to the file: the log lies next to the file.
    let heap = options().open(at("sub/link")).unwrap();
    set(&number(&heap), 1).unwrap();
    assert!(log_of(&at("h")).exists() && !log_of(&at("sub/link")).exists());
    assert_eq!(after_kill(&at("h")).unwrap(), 1);
    // Another name of the same file: the error names the log that is missing there, and nothing is lost.
    fs::hard_link(at("h"), at("sub/hard")).unwrap();
    let dead = dir.path().join("dead");
    fs::create_dir(&dead).unwrap();
    fs::copy(at("h"), dead.join("h")).unwrap();
    fs::copy(log_of(&at("h")), log_of(&dead.join("h"))).unwrap();
    fs::hard_link(dead.join("h"), dead.join("other")).unwrap();
    match copied().open(dead.join("other")) {
        Err(Error::LogMissing { path }) => {
            assert_eq!(path, fs::canonicalize(&dead).unwrap().join("other.wal"))
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(get(&copied().open(dead.join("h")).unwrap()), 1);
    // If the name is removed by which the heap was opened, a commit reports that, because no opening would
    // find the log.
    fs::remove_file(at("h")).unwrap();
    assert!(matches!(set(&number(&heap), 2), Err(Error::OutcomeUnknown { .. })));
}

#[test]
fn links_and_other_things_are_no_logs() {
    let dir = tempdir();
    let (path, log) = (dir.path().join("h"), log_of(&dir.path().join("h")));
    let foreign = |what: &str| {
        let opened = options().open(&path);
        assert!(matches!(opened, Err(Error::ForeignLog { .. })), "{what}: {opened:?}");
    };
    for closed in [false, true] {
        fs::create_dir(&log).unwrap();
        foreign("a directory");
        fs::remove_dir(&log).unwrap();
        fs::write(dir.path().join("target"), b"").unwrap();
        symlink(dir.path().join("target"), &log).unwrap();
        foreign("a link");
        fs::remove_file(&log).unwrap();
        let name = std::ffi::CString::new(log.as_os_str().as_encoded_bytes()).unwrap();
        // SAFETY: a call with a string.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        foreign("a FIFO");
        fs::remove_file(&log).unwrap();
        if !closed {
            options().open(&path).unwrap().close().unwrap();
        }
    }
}

#[test]
fn logs_of_copies_are_not_taken_for_one_another() {
    let dir = tempdir();
    let at = |name: &str| dir.path().join(name);
    let heap = options().open(at("a")).unwrap();
    set(&number(&heap), 1).unwrap();
    heap.close().unwrap();
    fs::copy(at("a"), at("b")).unwrap();
    fs::copy(at("a"), at("closed")).unwrap();
    let (a, b) = (options().open(at("a")).unwrap(), options().open(at("b")).unwrap());
    set(&number(&a), 100).unwrap();
    set(&number(&b), 200).unwrap();
    // The log of one heap lies next to the other heap, and next to a closed one.
    for victim in ["b", "closed"] {
        fs::copy(at(victim), at("c")).unwrap();
        fs::copy(log_of(&at("a")), log_of(&at("c"))).unwrap();
        let log = fs::read(log_of(&at("c"))).unwrap();
        let opened = copied().open(at("c"));
        assert!(matches!(opened, Err(Error::ForeignLog { .. })), "{victim}: {opened:?}");
        assert!(fs::read(log_of(&at("c"))).unwrap() == log, "it is needed elsewhere");
    }
    assert_eq!((after_kill(&at("a")).unwrap(), after_kill(&at("b")).unwrap()), (100, 200));
}

#[test]
fn a_damaged_head_of_a_segment_is_no_head() {
    let dir = tempdir();
    let (path, copy) = (dir.path().join("h"), dir.path().join("c"));
    let heap = options().open(&path).unwrap();
    set(&number(&heap), 5).unwrap();
    let segment = 4096 + (64 << 10); // the second one, which is free
    for word in [u64::MAX, u64::MAX / (64 << 10), u64::MAX / (64 << 10) + 1, 1, 0] {
        fs::copy(&path, &copy).unwrap();
        fs::copy(log_of(&path), log_of(&copy)).unwrap();
        let log = File::options().write(true).open(log_of(&copy)).unwrap();
        for place in 0..3 {
            log.write_all_at(&word.to_le_bytes(), segment + 8 * place).unwrap();
        }
        assert_eq!(get(&copied().open(&copy).unwrap()), 5, "{word:#x}");
    }
}

/// A single file that is mounted into a container.
#[test]
fn a_heap_that_is_mounted_by_itself_is_refused() {
    const TEST: &str = "wal_names::a_heap_that_is_mounted_by_itself_is_refused";
    if let Some((role, dir)) = role() {
        if role == "killed" {
            let heap = options().open(dir.join("h")).unwrap();
            set(&number(&heap), 2).unwrap();
            die();
        }
        let call = |path: &Path| std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
        let (heap, alone, container) =
            (call(&dir.join("h")), call(&dir.join("container/h")), call(&dir.join("container")));
        let null = std::ptr::null();
        // SAFETY: plain system calls with strings that live. Only this process and its children see the
        // mounts.
        let mounted = unsafe {
            let private = libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(null, c"/".as_ptr(), null, libc::MS_REC | libc::MS_PRIVATE, null.cast()) == 0
                && libc::mount(c"none".as_ptr(), container.as_ptr(), c"tmpfs".as_ptr(), 0, null.cast()) == 0;
            if private {
                fs::write(dir.join("container/h"), b"").unwrap();
                fs::write(dir.join("beside"), b"").unwrap();
            }
            let beside = call(&dir.join("beside"));
            private
                && libc::mount(heap.as_ptr(), alone.as_ptr(), null, libc::MS_BIND, null.cast()) == 0
                // In the same file system, too, a log would lie next to the wrong name.
                && libc::mount(heap.as_ptr(), beside.as_ptr(), null, libc::MS_BIND, null.cast()) == 0
        };
        if !mounted {
            eprintln!("skipped: cannot mount anything here: {}", std::io::Error::last_os_error());
            return;
        }
        for name in ["container/h", "beside"] {
            let path = dir.join(name);
            for made in [false, true] {
                if made {
                    let heap = options().open(dir.join("h")).unwrap();
                    set(&number(&heap), 1).unwrap();
                }
                let before = fs::read(&path).unwrap();
                let opened = options().open(&path);
                assert!(matches!(opened, Err(Error::MountedAlone { .. })), "{name}: {opened:?}");
                assert!(fs::read(&path).unwrap() == before && !log_of(&path).exists(), "{name}");
                // Nor is one whose log lies elsewhere told that it has none.
                if made {
                    run_killed(TEST, "killed", &dir);
                    let opened = options().open(&path);
                    assert!(matches!(opened, Err(Error::MountedAlone { .. })), "{name}: {opened:?}");
                    assert_eq!(get(&options().open(dir.join("h")).unwrap()), 2);
                }
                // Without a log, it may be.
                if made {
                    options().durability(Durability::Process).open(&path).unwrap().close().unwrap();
                }
            }
            fs::write(&path, b"").unwrap();
        }
        return;
    }
    let dir = tempdir();
    fs::write(dir.path().join("h"), b"").unwrap();
    fs::create_dir(dir.path().join("container")).unwrap();
    run_well(TEST, "mounter", dir.path());
}

/// Of a heap whose program was killed: to look at it changes nothing.
#[test]
fn a_log_on_a_read_only_file_system_is_read() {
    if let Some((role, dir)) = role() {
        let path = dir.join("h");
        if role == "writer" {
            let heap = options().open(&path).unwrap();
            set(&number(&heap), 5).unwrap();
            die();
        }
        let call = std::ffi::CString::new(dir.as_os_str().as_encoded_bytes()).unwrap();
        let null = std::ptr::null();
        // SAFETY: plain system calls with strings that live. Only this process and its children see the
        // mounts.
        let mounted = unsafe {
            libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(null, c"/".as_ptr(), null, libc::MS_REC | libc::MS_PRIVATE, null.cast()) == 0
                && libc::mount(call.as_ptr(), call.as_ptr(), null, libc::MS_BIND, null.cast()) == 0
                && {
                    let how = libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY;
                    libc::mount(null, call.as_ptr(), null, how, null.cast()) == 0
                }
        };
        if !mounted {
            eprintln!("skipped: cannot mount anything here: {}", std::io::Error::last_os_error());
            return;
        }
        assert!(matches!(options().open(&path), Err(Error::NoPermission { .. })));
        assert_eq!(get(&options().read_only(true).open(&path).unwrap()), 5);
        return;
    }
    let dir = tempdir();
    let test = "wal_names::a_log_on_a_read_only_file_system_is_read";
    run_killed(test, "writer", dir.path());
    run_well(test, "reader", dir.path());
}
