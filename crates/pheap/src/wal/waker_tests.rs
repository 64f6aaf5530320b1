//! Tests: wakers are code of the program and may do anything; and a panic during a sync.

use std::iter::once;
use std::panic::panic_any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Poll, Wake, Waker};
use std::{io, thread};

use pheap_testkit::threads::this_thread;

use super::Wal;
use super::deferred_tests::*;
use super::resume_tests::{SETTINGS, of};
use super::tests::{InMemory, TestDisk};
use crate::log::Range;
use crate::os::storage::{FileId, Storage};
use crate::units::HEADER_SIZE;
use crate::{Commit, Error, SyncPolicy};

/// A task often owns the heap that it works on. Here the waker has the last handle, and drops it in the
/// thread that calls the waker.
#[test]
fn a_waker_drops_the_last_handle() {
    struct Task(Mutex<Option<Setup>>, Sender<tempfile::TempDir>);
    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            let setup = self.0.lock().unwrap().take().unwrap();
            let Setup { folder, heap, a, b } = setup;
            drop((a, b, heap));
            self.1.send(folder).unwrap();
        }
    }
    let setup = Setup::every_commit();
    let wal = setup.wal();
    let (tell, told) = mpsc::channel();
    // The commit is kept, because a dropped commit removes its waker.
    let mut kept = None;
    while_the_disk_stands_still(&wal, || {
        let mut commit = add(&setup.a);
        let waker = Waker::from(Arc::new(Task(Mutex::new(Some(setup)), tell)));
        assert!(poll(&mut commit, &waker).is_pending());
        kept = Some(commit);
    });
    let folder = told.recv().unwrap();
    let heap = options(SyncPolicy::EveryCommit).open(folder.path().join("heap")).unwrap();
    assert_eq!(get(&heap.root("a").unwrap()).unwrap(), 1);
}

/// Each of two heaps is owned by a waker of the other heap. The threads that call the wakers do not wait for
/// each other.
#[test]
fn wakers_drop_each_others_heaps() {
    struct Task(Arc<Barrier>, Mutex<Option<Setup>>, Sender<()>);
    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            let Setup { folder: _folder, heap, a, b } = self.1.lock().unwrap().take().unwrap();
            self.0.wait();
            drop((a, b, heap));
            self.2.send(()).unwrap();
        }
    }
    let setups = [Setup::every_commit(), Setup::every_commit()];
    let ([first, second], both, (tell, told)) =
        (setups.each_ref().map(Setup::wal), Arc::new(Barrier::new(2)), mpsc::channel());
    // The commits are kept, because a dropped commit removes its waker.
    let mut kept = Vec::new();
    while_the_disk_stands_still(&first, || {
        while_the_disk_stands_still(&second, || {
            let commits = setups.each_ref().map(|setup| add(&setup.a));
            for (mut commit, setup) in commits.into_iter().zip(setups.into_iter().rev()) {
                let task = Task(both.clone(), Mutex::new(Some(setup)), tell.clone());
                assert!(poll(&mut commit, &Waker::from(Arc::new(task))).is_pending());
                kept.push(commit);
            }
        });
    });
    (0..2).for_each(|_| told.recv().unwrap());
}

/// The thread whose commit has failed opens the heap again, while wakers of the failed heap still run.
#[test]
fn a_heap_that_has_failed_is_opened_by_who_was_told_first() {
    /// A task whose waker returns only when the test's thread sleeps, or has dropped its channel.
    struct Task(Sender<()>, Mutex<mpsc::Receiver<i32>>);
    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.send(()).unwrap();
            if let Ok(thread) = self.1.lock().unwrap().recv() {
                until_it_sleeps(thread);
            }
        }
    }
    let setup = Setup::every_commit();
    let (wal, (begins, begun), (tell, told)) = (setup.wal(), mpsc::channel(), mpsc::channel());
    let commit = while_the_disk_stands_still(&wal, || {
        let mut commit = add(&setup.a);
        let task = Waker::from(Arc::new(Task(begins, Mutex::new(told))));
        assert!(poll(&mut commit, &task).is_pending());
        wal.poison("syncing the log", &io::Error::from_raw_os_error(libc::EIO));
        commit
    });
    begun.recv().unwrap();
    tell.send(this_thread()).unwrap();
    let Setup { folder, heap, a, b } = setup;
    drop((a, b, heap));
    options(SyncPolicy::EveryCommit).open(folder.path().join("heap")).unwrap();
    assert!(is_unknown(&commit.wait()));
}

/// A log whose syncs panic once `now` is set.
#[derive(Debug, Default)]
struct Panics {
    file: InMemory,
    now: AtomicBool,
}

impl Storage for Panics {
    fn read_some(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        self.file.read_some(buf, at)
    }

    fn write_some(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        self.file.write_some(bytes, at)
    }

    fn sync_now(&self) -> io::Result<()> {
        assert!(!self.now.load(Ordering::Relaxed), "a disk of a test");
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn extend_now(&self, from: u64, to: u64) -> io::Result<()> {
        self.file.extend_now(from, to)
    }

    fn id(&self) -> FileId {
        self.file.id()
    }
}

#[test]
fn the_thread_that_syncs_panics() {
    let log = Arc::new(Panics::default());
    let disk = TestDisk::new(Arc::new(InMemory::default()), log.clone());
    let wal = Wal::begun(disk, of(0, 2, false), SETTINGS).unwrap();
    log.now.store(true, Ordering::Relaxed);
    let append = || wal.append(2, once(Range { offset: HEADER_SIZE, words: &[1] }), false);
    let syncs = || {
        while wal.sync_deferred() {}
        wal.end_syncer();
    };
    thread::scope(|scope| {
        wal.begin_syncer(|| Some(scope.spawn(syncs))).unwrap();
        let (waker, rung) = bell();
        let mut commit = Commit::for_position(&wal, append().unwrap().end);
        assert!(poll(&mut commit, &waker).is_pending());
        rung.recv().unwrap();
        assert!(is_unknown(&commit.wait()));
        assert!(matches!(poll(&mut commit, &waker), Poll::Ready(result) if is_unknown(&result)));
        assert!(matches!(append(), Err(Error::Failed { .. })));
    });
}

#[test]
fn a_waker_that_panics_harms_nobody() {
    /// A waker that panics with a value whose drop panics, too.
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic_any(Panics);
        }
    }
    impl Drop for Panics {
        fn drop(&mut self) {
            if !thread::panicking() {
                panic!("what a waker of a test has thrown");
            }
        }
    }
    let setup = Setup::every_commit();
    let (waker, rung) = bell();
    let _commits = while_the_disk_stands_still(&setup.wal(), || {
        let (mut first, mut second) = (add(&setup.a), add(&setup.b));
        assert!(poll(&mut first, &Waker::from(Arc::new(Panics))).is_pending());
        assert!(poll(&mut second, &waker).is_pending());
        (first, second)
    });
    rung.recv().unwrap();
    add(&setup.a).wait().unwrap();
    setup.heap.close().unwrap();
}
