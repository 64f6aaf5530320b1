//! The log in models: small programs of threads that commit, sync and make checkpoints. The tests run each
//! program in every order of its steps with few preemptions.
//!
//! The code is the real one; [only the files](disk) are simulated. A program of the model fails by a panic if
//! a thread waits for ever, or if an acknowledged commit would not survive a power failure at that moment.

mod disk;
mod streams;

use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use loom::thread;

use super::format::{ChecksumSeed as Salt, ReadLog, each_record, read_all};
use super::{Wal, WalIdentity, WalSettings};
use crate::error::{Error, Result};
use crate::log::{EntryKind, Range, StagedEntry, head, ranges};
use crate::sync::model::{SeededMistake, explore, finds};
use crate::sync::{Condvar, Mistake, Mutex};
use crate::units::HEADER_SIZE;
use crate::wal::SyncPolicy;
use disk::{Image, ModelDisk};

/// A log, with its simulated files, for the threads that use it.
#[derive(Clone)]
pub(crate) struct Log {
    pub(crate) wal: Arc<Wal>,
    disk: Arc<ModelDisk>,
}

const IDENTITY: WalIdentity = WalIdentity {
    uuid: 7 << 64 | 9,
    salt: 99,
    id: 0,
    nonce: 0,
    in_use: true,
    mapped: 1 << 20,
    reserved: 1 << 20,
};

impl Log {
    /// Creates a log of two segments, which is longer than its limit, so it does not grow ahead of need.
    /// `maps` says whether the log's file can be mapped.
    fn new(policy: SyncPolicy, maps: bool) -> Log {
        let disk = ModelDisk::new(maps);
        let (log_limit, memory_limit, unsynced_limit) = (64 << 10, 1 << 30, 64 << 10);
        let settings = WalSettings { policy, log_limit, memory_limit, unsynced_limit };
        let wal = Wal::begun(disk.clone(), IDENTITY, settings).expect("a log");
        Log { wal, disk }
    }

    pub(crate) fn every_commit() -> Log {
        Log::new(SyncPolicy::EveryCommit, true)
    }

    /// Returns the offset in the heap to which the thread with this number stores its words.
    fn place(thread: u64) -> u64 {
        HEADER_SIZE + thread * (64 << 10)
    }

    pub(crate) fn append(&self, thread: u64, words: &[u64], is_metadata: bool) -> Result<u64> {
        let range = Range { offset: Log::place(thread), words };
        Ok(self.wal.append(words.len() + 1, std::iter::once(range), is_metadata)?.end)
    }

    /// Commits a transaction of this thread that stores `number`.
    fn commit(&self, thread: u64, number: u64) -> Result<()> {
        let mut staged = StagedEntry::default();
        staged.begin_entry(EntryKind::Redo);
        staged.words.extend([head(Log::place(thread), 1), number]);
        let position = self.wal.append_staged(&mut staged)?.end;
        self.wal.acknowledge(position)
    }

    /// Returns the number that the thread has stored, as a power failure would leave it now.
    pub(crate) fn durable(&self, thread: u64) -> u64 {
        let (data, log) = self.disk.after_power_cut();
        self.newest(&log, thread).unwrap_or_else(|| data.word(Log::place(thread)))
    }

    /// Returns the number that the thread has stored, as the end of the process would leave it in the log
    /// now.
    fn survives_kill(&self, thread: u64) -> Option<u64> {
        self.newest(&self.disk.log_after_kill(), thread)
    }

    fn newest(&self, log: &Image, thread: u64) -> Option<u64> {
        let salt = Salt::new(IDENTITY.salt, self.wal.layout);
        let found = read_all(log, self.wal.layout, salt).expect("a log");
        let (place, mut newest) = (Log::place(thread), None);
        let ReadLog { begin, end, segments, .. } = &found;
        each_record(log, self.wal.layout, segments, *begin..*end, |record| {
            newest = ranges(record)
                .filter(|range| range.offset == place)
                .map(|range| range.words[0])
                .last()
                .or(newest);
            Ok(())
        })
        .expect("it was found");
        newest
    }

    /// Commits some transactions, and checks that each is durable when it is acknowledged.
    pub(crate) fn commits(&self, thread: u64, numbers: std::ops::RangeInclusive<u64>) {
        for number in numbers {
            self.commit(thread, number).expect("the disk is fine");
            assert_eq!(self.durable(thread), number, "acknowledged, but not durable");
        }
    }

    pub(crate) fn spawn(&self, work: impl FnOnce(&Log) + 'static) -> thread::JoinHandle<()> {
        let log = self.clone();
        thread::spawn(move || work(&log))
    }

    /// Starts the background thread, which works until it is told to end or the log has failed.
    fn background(&self, after: impl Fn() + 'static) -> thread::JoinHandle<()> {
        self.wal.set_background(true);
        self.spawn(move |log| {
            while log.wal.wait_for_request() {
                log.wal.work(|| {}, |()| after());
            }
            log.wal.set_background(false);
        })
    }
}

// --- programs ---------------------------------------------------------------------------------------------

fn two_commit() {
    let log = Log::every_commit();
    let other = log.spawn(|log| log.commits(1, 1..=2));
    log.commits(0, 1..=2);
    other.join().unwrap();
}

fn three_commit() {
    let log = Log::every_commit();
    let others = [1, 2].map(|thread| log.spawn(move |log| log.commits(thread, 1..=1)));
    log.commits(0, 1..=1);
    others.into_iter().for_each(|other| other.join().unwrap());
}

fn commits_beside_a_checkpoint() {
    let log = Log::every_commit();
    let other = log.spawn(|log| {
        log.wal.checkpoint(|| {}).expect("the disk is fine");
        log.commits(1, 1..=1);
    });
    log.commits(0, 1..=2);
    log.wal.checkpoint(|| {}).expect("the disk is fine");
    assert_eq!(log.durable(0), 2);
    other.join().unwrap();
}

/// Transactions wait for the kernel only, and one thread asks for a sync.
fn sync_on_demand(maps: bool) {
    let log = Log::new(SyncPolicy::OnDemand, maps);
    let commit = |log: &Log, thread| {
        log.commit(thread, 1).expect("the disk is fine");
        assert_eq!(log.survives_kill(thread), Some(1), "acknowledged, but not in the file");
    };
    let other = log.spawn(move |log| commit(log, 1));
    // Perhaps this sync comes when the log has only the first line of its first segment.
    log.wal.sync().expect("the disk is fine");
    commit(&log, 0);
    log.wal.sync().expect("the disk is fine");
    assert_eq!(log.durable(0), 1);
    other.join().unwrap();
    log.wal.sync().expect("the disk is fine");
    assert_eq!(log.durable(1), 1);
}

/// Commits, and checks that the commit is durable, or its thread gets `OutcomeUnknown`, or the log has failed
/// before and refuses the record.
fn outcome(log: &Log, thread: u64) {
    match log.append(thread, &[1], false) {
        Ok(position) => match log.wal.acknowledge(position) {
            Ok(()) => assert_eq!(log.durable(thread), 1, "acknowledged, but not durable"),
            Err(Error::OutcomeUnknown { .. }) => assert!(log.wal.failure().is_some()),
            Err(error) => panic!("{error}"),
        },
        Err(Error::Failed { .. }) => assert!(log.wal.failure().is_some()),
        Err(error) => panic!("{error}"),
    }
}

fn a_sync_fails() {
    let log = Log::every_commit();
    log.disk.log().fail_after(0);
    let others = [1, 2].map(|thread| log.spawn(move |log| outcome(log, thread)));
    outcome(&log, 0);
    others.into_iter().for_each(|other| other.join().unwrap());
    assert!(log.wal.failure().is_some());
    assert!(matches!(log.append(0, &[2], false), Err(Error::Failed { .. })));
    assert_eq!([0, 1, 2].map(|thread| log.durable(thread)), [0; 3]);
}

fn the_second_sync_fails() {
    let log = Log::every_commit();
    log.disk.log().fail_after(1);
    let other = log.spawn(|log| outcome(log, 1));
    outcome(&log, 0);
    other.join().unwrap();
}

/// A sync of the heap's file fails, and none of the log: acknowledged commits are durable, and all threads
/// end.
fn a_checkpoint_fails() {
    let log = Log::every_commit();
    log.disk.data.fail_after(0);
    let background = log.background(|| {});
    let other = log.spawn(|log| {
        let _ = log.wal.checkpoint(|| {});
        drop(log.wal.quiesce());
    });
    outcome(&log, 0);
    other.join().unwrap();
    log.wal.stop_background();
    background.join().unwrap();
}

/// Two threads sync the log, one for its commit and one to make the log longer. The sync fails, and the
/// kernel reports the failure to one of them.
fn a_sync_of_another_thread_fails() {
    let log = Log::every_commit();
    log.disk.log().fail_after(0);
    let other = log.spawn(|log| drop(log.wal.grow(1)));
    outcome(&log, 0);
    other.join().unwrap();
}

/// Two threads sync the heap's file: one makes a checkpoint, the other writes a header. The sync fails, and
/// the kernel reports the failure to one of them.
fn a_sync_beside_a_checkpoint_fails() {
    let log = Log::every_commit();
    log.commits(0, 1..=1);
    log.disk.data.fail_after(0);
    let other = log.spawn(|log| drop(log.wal.write_through(&[1; 8], 0)));
    let _ = log.wal.checkpoint(|| {});
    other.join().unwrap();
    assert_eq!(log.durable(0), 1, "acknowledged, but not durable");
}

/// The background thread ends by itself when the log has failed.
fn a_failure_ends_the_thread_in_the_background() {
    let log = Log::every_commit();
    log.disk.log().fail_after(0);
    let background = log.background(|| {});
    outcome(&log, 0);
    background.join().unwrap();
}

/// Words of a long transaction. Two such transactions leave no room for a third one in the log.
const MANY: usize = 6 << 10;

/// Appends a long record of metadata, which may use the reserve of the log.
fn long(log: &Log, thread: u64) {
    let words = vec![thread + 1; MANY];
    let position = log.append(thread, &words, true).expect("there is room, or some is made");
    log.wal.acknowledge(position).expect("the disk is fine");
    assert_eq!(log.durable(thread), thread + 1);
}

fn full_without_a_thread() {
    let log = Log::every_commit();
    long(&log, 0);
    let other = log.spawn(|log| long(log, 1));
    long(&log, 2);
    other.join().unwrap();
}

fn full_with_a_thread() {
    let log = Log::every_commit();
    let background = log.background(|| {});
    long(&log, 0);
    let other = log.spawn(|log| long(log, 1));
    long(&log, 2);
    other.join().unwrap();
    log.wal.stop_background();
    background.join().unwrap();
}

/// Two threads find too many pages private.
fn waiting_for_memory() {
    let log = Log::every_commit();
    let background = log.background(|| {});
    let other = log.spawn(|log| log.wal.wait_for_memory());
    log.wal.wait_for_memory();
    other.join().unwrap();
    log.wal.stop_background();
    background.join().unwrap();
}

/// The background thread dies, and threads that wait for it go on.
fn the_thread_in_the_background_dies() {
    let log = Log::every_commit();
    log.wal.set_background(true);
    let background = log.spawn(|log| {
        log.wal.wait_for_request();
        log.wal.set_background(false);
    });
    log.wal.wait_for_memory();
    background.join().unwrap();
}

/// A heap is closed after a failure: no thread writes to the log after `quiesce` has returned.
fn closing_waits_for_writers() {
    let log = Log::every_commit();
    log.disk.log().fail_after(0);
    let other = log.spawn(|log| outcome(log, 1));
    outcome(&log, 0);
    drop(log.wal.quiesce());
    let writes = log.disk.log().writes();
    other.join().unwrap();
    assert_eq!(log.disk.log().writes(), writes);
}

/// A heap whose log is misplaced is closed while a commit ends. Until the heap is closed, no opening would
/// find the commit, so the committing thread is not told that it is durable.
fn closing_saves_what_is_in_a_misplaced_log() {
    let log = Log::every_commit();
    let position = log.append(1, &[1], false).expect("there is room");
    log.disk.log().misplace();
    let other = log.spawn(move |log| {
        let acknowledged = log.wal.acknowledge(position);
        assert!(matches!(acknowledged, Err(Error::OutcomeUnknown { .. })), "{acknowledged:?}");
    });
    log.wal.begin_to_close();
    log.wal.checkpoint(|| {}).expect("nobody has to find the log");
    log.wal.may_write().expect("the header can say so");
    assert_eq!(log.disk.after_power_cut().0.word(Log::place(1)), 1);
    other.join().unwrap();
}

/// Once a thread has found the log misplaced, no commit is acknowledged any more: not by a thread that has
/// looked for the log a moment before, and not because closing the heap writes the rest of the log.
fn nothing_is_acknowledged_once_the_log_is_misplaced(policy: SyncPolicy) {
    let log = Log::new(policy, false);
    let position = log.append(1, &[1], false).expect("there is room");
    log.disk.log().misplace();
    log.disk.look_seldom();
    let other = log.spawn(move |log| drop(log.wal.acknowledge(position)));
    log.wal.find_log().expect_err("it is gone");
    let acknowledged = log.wal.is_acknowledged(position);
    log.wal.begin_to_close();
    log.wal.checkpoint(|| {}).expect("nobody has to find the log");
    other.join().unwrap();
    assert_eq!(log.wal.is_acknowledged(position), acknowledged, "acknowledged after the failure");
    assert_eq!(log.disk.after_power_cut().0.word(Log::place(1)), 1);
}

/// A task whose waker the sync thread calls.
#[derive(Default)]
struct Task {
    woken: Mutex<bool>,
    wakes: Condvar,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        *self.woken.lock() = true;
        self.wakes.notify_all();
    }
}

impl Log {
    /// Starts the sync thread, which syncs deferred commits.
    fn syncer(&self) -> thread::JoinHandle<()> {
        let start = || {
            Some(self.spawn(|log| {
                while log.wal.sync_deferred() {}
                log.wal.end_syncer();
            }))
        };
        self.wal.begin_syncer(start).expect("there is none")
    }

    /// Leaves a waker for the records before `position`. If the log has taken it, waits until it is called.
    fn until_woken(&self, position: u64) {
        let task = Arc::new(Task::default());
        if self.wal.leave_waker(position, &mut None, task.clone().into()) {
            let mut woken = task.woken.lock();
            while !*woken {
                task.wakes.wait(&mut woken);
            }
        }
    }
}

/// The task of one commit is woken when it is durable; a thread waits for another commit.
fn a_task_waits_for_its_commit() {
    let log = Log::every_commit();
    let syncer = log.syncer();
    let other = log.spawn(|log| log.commits(1, 1..=1));
    let position = log.append(0, &[1], false).expect("there is room");
    log.until_woken(position);
    assert_eq!(log.durable(0), 1, "woken, but not durable");
    other.join().unwrap();
    log.wal.stop_syncer();
    syncer.join().unwrap();
}

/// Waits until the position is durable, without asking for a sync.
fn until_durable(log: &Log, position: u64) {
    let mut state = log.wal.state.lock();
    while !log.wal.is_durable(position) {
        log.wal.changed.wait(&mut state);
    }
}

fn nobody_waits_for_a_commit() {
    let log = Log::every_commit();
    let syncer = log.syncer();
    for number in 1..=2 {
        let position = log.append(0, &[number], false).expect("there is room");
        log.wal.ask(position);
        until_durable(&log, position);
        assert_eq!(log.durable(0), number);
    }
    log.wal.stop_syncer();
    syncer.join().unwrap();
}

fn nobody_waits_and_time_passes() {
    let log = Log::new(SyncPolicy::Every(Duration::ZERO), true);
    let syncer = log.syncer();
    let other = log.spawn(|log| log.commit(1, 1).expect("the disk is fine"));
    log.commit(0, 1).expect("the disk is fine");
    until_durable(&log, log.wal.end_position());
    assert_eq!(log.durable(0), 1);
    other.join().unwrap();
    log.wal.stop_syncer();
    syncer.join().unwrap();
}

/// The waker is called although the commit may be lost, and the sync thread ends by itself.
fn a_task_waits_for_a_disk_that_fails() {
    let log = Log::every_commit();
    log.disk.log().fail_after(0);
    let syncer = log.syncer();
    let other = log.spawn(|log| outcome(log, 1));
    if let Ok(position) = log.append(0, &[1], false) {
        log.until_woken(position);
        assert!(matches!(log.wal.sync_up_to(position), Err(Error::OutcomeUnknown { .. })));
    }
    other.join().unwrap();
    syncer.join().unwrap();
}

/// No thread wants a sync, and then the log fails outside the sync thread. The sync thread ends.
fn a_failure_ends_the_thread_that_syncs() {
    let log = Log::every_commit();
    let syncer = log.syncer();
    log.wal.poison("a test", &std::io::Error::other("it"));
    syncer.join().unwrap();
}

/// The heap is closed while a task begins to wait. The end of the sync thread wakes the task, or the task
/// finds that there is no sync thread.
fn a_task_waits_while_the_heap_is_closed() {
    let log = Log::every_commit();
    let position = log.append(0, &[1], false).expect("there is room");
    let syncer = log.syncer();
    let task = log.spawn(move |log| log.until_woken(position));
    log.wal.stop_syncer();
    syncer.join().unwrap();
    task.join().unwrap();
    assert!(log.wal.begin_syncer(|| Some(())).is_none());
    log.wal.sync_up_to(position).expect("the disk is fine");
}

type Program = (&'static str, fn(), usize);

/// The programs of the models. The number is the limit of preemptions: of how often a thread is stopped where
/// it could go on.
const PROGRAMS: [Program; 26] = [
    ("two commit", two_commit, 4),
    ("three commit", three_commit, 3),
    ("commits beside a checkpoint", commits_beside_a_checkpoint, 3),
    ("sync on demand", || sync_on_demand(false), 4),
    ("sync on demand, mapped", || sync_on_demand(true), 4),
    ("a sync fails", a_sync_fails, 3),
    ("the second sync fails", the_second_sync_fails, 5),
    ("a checkpoint fails", a_checkpoint_fails, 3),
    ("a sync of another thread fails", a_sync_of_another_thread_fails, 4),
    ("a sync beside a checkpoint fails", a_sync_beside_a_checkpoint_fails, 4),
    ("a failure ends the thread in the background", a_failure_ends_the_thread_in_the_background, 3),
    ("full, without a thread in the background", full_without_a_thread, 3),
    ("full, with a thread in the background", full_with_a_thread, 2),
    ("waiting for memory", waiting_for_memory, 3),
    ("the thread in the background dies", the_thread_in_the_background_dies, 3),
    ("closing waits for writers", closing_waits_for_writers, 5),
    ("closing saves what is in a misplaced log", closing_saves_what_is_in_a_misplaced_log, 4),
    (
        "nothing is acknowledged once the log is misplaced",
        || nothing_is_acknowledged_once_the_log_is_misplaced(SyncPolicy::EveryCommit),
        4,
    ),
    (
        "nothing is acknowledged once the log is misplaced, on demand",
        || nothing_is_acknowledged_once_the_log_is_misplaced(SyncPolicy::OnDemand),
        4,
    ),
    ("a task waits for its commit", a_task_waits_for_its_commit, 3),
    ("nobody waits for a commit", nobody_waits_for_a_commit, 5),
    ("nobody waits, and time passes", nobody_waits_and_time_passes, 3),
    ("a task waits for a disk that fails", a_task_waits_for_a_disk_that_fails, 4),
    ("a failure ends the thread that syncs", a_failure_ends_the_thread_that_syncs, 5),
    ("a task waits while the heap is closed", a_task_waits_while_the_heap_is_closed, 5),
    ("a copy is one state", streams::a_copy_is_one_state, 3),
];

#[test]
fn every_order_is_good_and_every_notification_counts() {
    let mut notified = Vec::new();
    for (name, program, preemptions) in PROGRAMS {
        let sites = explore(name, preemptions, program);
        notified.extend(sites.into_iter().map(|site| (site, program)));
    }
    notified.sort();
    let mut missed = Vec::new();
    for of_site in notified.chunk_by(|a, b| a.0 == b.0) {
        if !of_site.iter().any(|&(site, program)| finds(SeededMistake::Dropped(site), 2, program)) {
            missed.push(of_site[0].0.file());
        }
    }
    // Only the notification at the end of a checkpoint may be left out: the background thread notifies again
    // at the end of its round.
    assert_eq!(missed, ["crates/pheap/src/wal/checkpoint.rs"]);
}

#[test]
fn mistakes_are_found() {
    for mistake in [Mistake::PublishBeforeSync, Mistake::TwoLeaders] {
        assert!(finds(SeededMistake::Mistake(mistake), 2, two_commit), "{mistake:?}");
    }
    for mistake in [Mistake::ForgetFailedSync, Mistake::SyncsMeet] {
        for program in [a_sync_of_another_thread_fails, a_sync_beside_a_checkpoint_fails] {
            assert!(finds(SeededMistake::Mistake(mistake), 2, program), "{mistake:?}");
        }
    }
    let look_unlocked = SeededMistake::Mistake(Mistake::LookUnlocked);
    assert!(finds(look_unlocked, 2, a_task_waits_while_the_heap_is_closed));
    assert!(finds(SeededMistake::Mistake(Mistake::StreamAhead), 2, streams::a_copy_is_one_state));
    assert!(finds(SeededMistake::Mistake(Mistake::OvertakeWriter), 2, || sync_on_demand(true)));
}
