//! The write-ahead log of a heap on an ordinary file system.
//!
//! The heap is mapped privately, so stores stay in this process. A transaction [appends](Wal::append) the new
//! content of the byte ranges that it has changed to the log. The log orders all transactions, and has each
//! transaction whole or not at all. One of the threads that wait for the log, the *leader*, [writes and
//! syncs](Wal::reach) it for all of them (group commit). With some policies, each thread
//! [writes](Wal::is_at_once) its records itself. A [checkpoint](Wal::checkpoint) copies durable records from
//! the log to the heap's file, syncs the file, and only then frees their segments. Bytes that no record
//! covers, such as the header, are [written](Wal::write_through) to the heap's file directly, and synced at
//! once.
//!
//! After a failed write or sync, the content of the disk is unknown. The log then refuses everything until
//! the heap is opened again. If the log's file cannot be created, or cannot be made longer, the log fails
//! only if a record of metadata needs that: no earlier record relies on the new file or space.
//!
//! This module knows offsets, records and files. It must not know what the heap's words mean: the caller of a
//! checkpoint passes the function that runs at its end.

mod append;
#[cfg(all(test, not(pheap_loom)))]
mod append_tests;
mod begin;
mod buffer;
mod cache;
mod checkpoint;
mod commit;
#[cfg(all(test, not(pheap_loom)))]
pub(crate) mod deferred_tests;
pub(crate) mod files;
mod fold;
mod follow;
pub(crate) mod format;
mod group;
#[cfg(all(test, pheap_loom))]
pub(crate) mod model;
mod page_set;
mod pages;
mod policy;
mod recovery;
#[cfg(test)]
mod refusal_tests;
mod resume;
#[cfg(all(test, not(pheap_loom)))]
mod resume_tests;
mod shrink;
pub(crate) mod stream;
#[cfg(all(test, not(pheap_loom)))]
mod stream_tests;
mod syncer;
#[cfg(all(test, not(pheap_loom)))]
mod task_tests;
#[cfg(test)]
pub(crate) mod tests;
#[cfg(all(test, not(pheap_loom)))]
mod waker_tests;
#[cfg(all(test, not(pheap_loom)))]
mod watch_tests;

use std::io;
use std::sync::atomic::{self, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};
use crate::os::fork::Process;
use crate::os::storage::{Disk, Storage};
use crate::stats::Stats;
use crate::sync::{AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard};
use crate::units::PAGE;
use buffer::WalBuffer;
use format::{ChecksumSeed, FIRST_SEGMENTS, HEAD, LogLayout, LogMark};
use pages::PrivatePages;
use policy::PolicyWord;
use stream::StreamQueue;
use syncer::SyncerState;

pub(crate) use begin::LogBeginning;
pub use commit::Commit;
pub(crate) use fold::Fold;
pub(crate) use follow::LiveLog;
pub(crate) use page_set::PageSet;
pub use policy::SyncPolicy;
pub(crate) use recovery::{WalTail, fold_tail, write_again};

/// The fields of a heap's header that identify its log, and the sizes of the heap and of its reservation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WalIdentity {
    /// The uuid of the heap.
    pub(crate) uuid: u128,
    /// A secret of the heap. It seeds the checksums of marks, segments and records, so that a program that
    /// does not know it cannot store words that look like them.
    pub(crate) salt: u64,
    /// `id` is the number of the heap's newest log. `nonce` is the number of the run of that log that the
    /// header names, 0 for none.
    pub(crate) id: u64,
    pub(crate) nonce: u64,
    /// Whether the header says that the heap is in use with `Wal`, and so needs the records of its log.
    pub(crate) in_use: bool,
    /// `mapped` is the number of bytes of the heap; `reserved` is the number of bytes of addresses reserved
    /// for it.
    pub(crate) mapped: u64,
    pub(crate) reserved: u64,
}

/// Bytes of the log that transactions leave free for records of metadata, which must not fail. In a log with
/// small segments, half a segment is left free, so that a log of two segments on a full disk still has room
/// for small transactions.
const RESERVE: u64 = 64 << 10;

/// The text of the error if the file system's private mappings do not show writes to the mapped file at once.
const HIDES_WRITES: &str = "`Durability::Wal` needs a file system that shows in a mapped file at once what is written to the file, as all local ones do; \
    put the heap on another file system, or use `Durability::Process`";

/// Options for the use of a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalSettings {
    /// The sync policy that the log begins with.
    pub(crate) policy: SyncPolicy,
    /// Bytes of segments beyond which the log's file grows only if a large transaction, an opening, or an
    /// empty log that is too short needs room. Other transactions wait for a checkpoint, or make one.
    pub(crate) log_limit: u64,
    /// Bytes of private (dirty) pages beyond which transactions wait for a checkpoint, or make one, unless
    /// less than a quarter of the limit has become private since the last [round of work](Wal::work).
    pub(crate) memory_limit: u64,
    /// Bytes of records that deferred commits may leave unsynced without waiting for a sync.
    pub(crate) unsynced_limit: u64,
}

impl WalSettings {
    /// Returns the bytes of a segment of a new log.
    fn segment(&self) -> u64 {
        (self.log_limit / 16).clamp(64 << 10, 1 << 20).next_multiple_of(HEAD)
    }
}

/// The log of an open heap.
#[derive(Debug)]
pub(crate) struct Wal {
    disk: Arc<dyn Disk>,
    /// The log's file. It is set when the log [begins](Wal::ensure_log) or [goes on](Wal::resume).
    log: OnceLock<Arc<dyn Storage>>,
    /// Whether the log exists and the heap's header names it. Set from the start if the log [goes
    /// on](Wal::resume), otherwise while `beginning` is locked.
    begun: atomic::AtomicBool,
    /// The writes that are still to be done before the log has begun. `None` before
    /// [`will_begin`](Wal::will_begin), once the log has begun, or if it never will because the heap is being
    /// closed.
    beginning: Mutex<Option<LogBeginning>>,
    data: Arc<dyn Storage>,
    layout: LogLayout,
    seed: ChecksumSeed,
    /// `run` is the random number that identifies this process's run; `runs` counts the runs of this log
    /// before it.
    run: u64,
    runs: u64,
    settings: WalSettings,
    /// The current sync policy. Changed while the state is locked.
    policy: PolicyWord,
    /// Whether the log's file [is mapped](Wal::is_mapped). Changed before the log has begun, or with `growth`
    /// and the state locked.
    mapped: atomic::AtomicBool,
    state: Mutex<WalState>,
    /// Log position up to which records are known to have been handed to the kernel. Changed while the state
    /// is locked.
    written: AtomicU64,
    /// A condition variable that is notified after a sync, a checkpoint that has copied records, a round of
    /// [work](Wal::work), a failure, or a write with the state unlocked, and when the background thread comes
    /// or goes.
    changed: Condvar,
    /// Set while the heap is being closed, if the log is misplaced or is about to be removed. From then on it
    /// is no failure if the log is not found.
    closing: AtomicBool,
    /// A condition variable that wakes the background thread, which makes checkpoints. It is separate from
    /// `changed`, which would wake that thread at each sync.
    requested: Condvar,
    /// A condition variable that wakes the background thread that syncs the log.
    ordered: Condvar,
    /// Whether a thread syncs in the background, and the position up to which it is to sync the log. Both are
    /// changed while the state is locked.
    has_syncer: AtomicBool,
    wanted: AtomicU64,
    /// Log position up to which the log is known to have been synced. Changed while the state is locked.
    durable: AtomicU64,
    failed: AtomicBool,
    /// Locked by a thread that makes a checkpoint, and by threads that keep checkpoints from running.
    folded: Mutex<CheckpointState>,
    /// Address at which the heap is mapped.
    base: AtomicUsize,
    /// Locked while the log's file grows, is cut down, or is mapped because the policy changes.
    growth: Mutex<()>,
    pub(crate) pages: PrivatePages,
    /// Bytes of private pages above which a checkpoint is due. At first it is half of `memory_limit`. Each
    /// round of [work](Wal::work) sets it to the larger of two values: half of `memory_limit`, and a quarter
    /// of `memory_limit` more than is private at the end of the round.
    memory_trigger: AtomicU64,
    counters: WalCounters,
    process: Process,
}

/// State that only checkpoints and streams use.
#[derive(Debug)]
struct CheckpointState {
    /// Index of the older one of the log's two [marks](format::MARKS), which the next checkpoint overwrites.
    mark: usize,
    /// The queues of the open record streams, to which a checkpoint adds each record that it copies.
    streams: Vec<Arc<StreamQueue>>,
}

/// Counters of the work done with a log.
#[derive(Debug, Default)]
struct WalCounters {
    syncs: atomic::AtomicU64,
    checkpoints: atomic::AtomicU64,
    /// Bytes that checkpoints have written to the heap's file.
    checkpoint_bytes: atomic::AtomicU64,
}

#[derive(Debug)]
struct WalState {
    buffer: WalBuffer,
    /// While a thread writes to the log with the state unlocked: the position behind the records that it has
    /// taken from the buffer.
    writing: Option<u64>,
    /// While a thread syncs the written records with the state unlocked: the position up to which it syncs.
    syncing: Option<u64>,
    failure: Option<WalFailure>,
    /// Log position up to which the heap's file has all records. Changed only while `Wal::folded` is locked,
    /// too.
    folded: u64,
    /// Whether a background thread makes checkpoints.
    background: bool,
    /// Whether the background thread is asked for a round of work.
    checkpoint: bool,
    /// Whether the next round of work makes a checkpoint even of a short log. Set if a transaction waits for
    /// room, or the log is idle.
    fold: bool,
    /// Whether there are enough records for a checkpoint once no more are appended for a while.
    ages: bool,
    /// `looked` is the end of the log when the background thread last looked at it. `idle` counts the looks
    /// in a row, each after a whole interval `LOOK`, that found the end unchanged. A round of work resets
    /// `idle`.
    looked: u64,
    idle: u32,
    /// Whether the last attempt to make the log longer ahead of need has failed. The next checkpoint that
    /// copies records clears this, and so does the next such attempt that succeeds.
    full_disk: bool,
    /// Whether the background thread is to end.
    stop: bool,
    /// Rounds of [work](Wal::work) that are finished.
    rounds: u64,
    deferred: SyncerState,
}

/// The failure of the log, from which each later error is made. It is the first failure, except that a
/// failure of another kind replaces that of a misplaced log.
#[derive(Debug, Clone)]
struct WalFailure {
    what: String,
    code: Option<i32>,
    kind: io::ErrorKind,
    text: String,
    /// Whether the disk has not failed, but a look for the files, in the place where the next opening looks
    /// for them, has.
    misplaced: bool,
}

impl WalFailure {
    fn source(&self) -> io::Error {
        self.code.map_or_else(|| io::Error::new(self.kind, self.text.clone()), io::Error::from_raw_os_error)
    }

    fn error(&self) -> Error {
        if self.misplaced {
            return Error::Misplaced { reason: format!("{}: {}", self.what, self.text) };
        }
        Error::Failed { reason: format!("{}: {}", self.what, self.source()) }
    }
}

/// Returns the offset in the log's file up to which segments are mapped, at most: the end of a log of
/// `log_limit` bytes, or of 1 TiB if the limit is larger, in whole segments. Segments that a large
/// transaction adds behind that offset are not mapped.
fn most_mapped(layout: LogLayout, settings: WalSettings) -> u64 {
    const ENOUGH: u64 = 1 << 40;
    layout.file_offset(settings.log_limit.min(ENOUGH).div_ceil(layout.segment))
}

/// Number of attempts to make room in the log, after which a large record makes the log longer or fails.
const MOST_ROUNDS: u32 = 4;

impl Wal {
    /// Creates the log of a heap that is closed, and whose file is complete. The log's file is made when the
    /// log [begins](Self::ensure_log). The caller must pass the writes to the heap's file with which the log
    /// begins to [`will_begin`](Self::will_begin) before it uses the log.
    pub(crate) fn new(disk: Arc<dyn Disk>, of: WalIdentity, settings: WalSettings) -> Result<Arc<Wal>> {
        let nonce = disk.nonce().map_err(|e| Error::io("asking for random numbers", e))?;
        let layout = LogLayout { uuid: of.uuid, id: of.id + 1, nonce, segment: settings.segment() };
        let buffer = WalBuffer::new(layout, ChecksumSeed::new(of.salt, layout), FIRST_SEGMENTS);
        // The mark says that the heap's file has everything, because the new log has no record yet.
        let mark = LogMark { folded: buffer.end_position(), ..LogMark::first(layout) };
        Wal::from_buffer(disk, None, &of, settings, layout, (mark, 1), buffer)
    }

    /// Creates the state of a log from `buffer`. If the log has a file, the buffer's synced position counts
    /// as durable, otherwise the buffer's end. `mark` is the newest mark, and `place` is its index.
    fn from_buffer(
        disk: Arc<dyn Disk>,
        log: Option<Arc<dyn Storage>>,
        of: &WalIdentity,
        settings: WalSettings,
        layout: LogLayout,
        (mark, place): (LogMark, usize),
        buffer: WalBuffer,
    ) -> Result<Arc<Wal>> {
        let seed = ChecksumSeed::new(of.salt, layout);
        let end = buffer.end_position();
        // A log that has no file yet has no records to write, so its end counts as synced.
        let synced = if log.is_some() { buffer.synced() } else { end };
        let wal = Wal {
            data: disk.data(),
            disk,
            log: OnceLock::new(),
            begun: atomic::AtomicBool::new(log.is_some()),
            beginning: Mutex::new(None),
            layout,
            seed,
            run: mark.run,
            runs: mark.runs,
            settings,
            policy: PolicyWord::new(settings.policy),
            mapped: atomic::AtomicBool::new(false),
            state: Mutex::new(WalState {
                buffer,
                writing: None,
                syncing: None,
                failure: None,
                folded: mark.folded,
                background: false,
                checkpoint: false,
                fold: false,
                ages: false,
                looked: end,
                idle: 0,
                full_disk: false,
                stop: false,
                rounds: 0,
                deferred: SyncerState::default(),
            }),
            written: AtomicU64::new(synced),
            changed: Condvar::new(),
            closing: AtomicBool::new(false),
            requested: Condvar::new(),
            ordered: Condvar::new(),
            has_syncer: AtomicBool::new(false),
            wanted: AtomicU64::new(synced),
            durable: AtomicU64::new(synced),
            failed: AtomicBool::new(false),
            folded: Mutex::new(CheckpointState { mark: 1 - place, streams: Vec::new() }),
            base: AtomicUsize::new(0),
            growth: Mutex::new(()),
            pages: PrivatePages::new(of.reserved, of.mapped)?,
            memory_trigger: AtomicU64::new(settings.memory_limit / 2),
            counters: WalCounters::default(),
            process: Process::default(),
        };
        log.into_iter().for_each(|log| wal.use_log(log));
        Ok(Arc::new(wal))
    }

    /// Leaks a reference to the log. In a forked child this keeps the log from being dropped, so that the
    /// child neither unmaps nor closes what belongs to the parent.
    fn leave(self: &Arc<Wal>) {
        std::mem::forget(self.clone());
    }

    /// Returns the number of the log among the logs of its heap.
    pub(crate) fn id(&self) -> u64 {
        self.layout.id
    }

    /// Returns the log's file.
    ///
    /// # Panics
    /// If the log has not begun.
    #[inline]
    fn log(&self) -> &dyn Storage {
        &**self.log.get().expect("a log has begun before it is used")
    }

    /// Returns the heap's file.
    pub(crate) fn data(&self) -> &dyn Storage {
        &*self.data
    }

    /// Returns the number of this run. The heap's header gets it, which tells this log apart from logs of
    /// copies of the heap, and from older copies of this log.
    pub(crate) fn nonce(&self) -> u64 {
        self.run
    }

    /// Returns the address at which the heap is mapped, 0 before [`set_base`](Self::set_base).
    pub(crate) fn base(&self) -> usize {
        self.base.load(Ordering::Relaxed)
    }

    /// Sets the address at which the heap is mapped. The caller does this before anything is appended.
    pub(crate) fn set_base(&self, base: usize) {
        self.base.store(base, Ordering::Relaxed);
    }

    pub(crate) fn add_to(&self, stats: &mut Stats) {
        let WalCounters { syncs, checkpoints, checkpoint_bytes } = &self.counters;
        stats.syncs += syncs.load(Ordering::Relaxed);
        stats.checkpoints += checkpoints.load(Ordering::Relaxed);
        stats.checkpoint_bytes += checkpoint_bytes.load(Ordering::Relaxed);
        stats.private_bytes += self.pages.bytes();
    }

    pub(crate) fn settings(&self) -> WalSettings {
        self.settings
    }

    /// Returns the error of the log if it refuses everything.
    pub(crate) fn failure(&self) -> Option<Error> {
        if !self.failed.load(Ordering::Acquire) {
            return None;
        }
        self.state.lock().failure.as_ref().map(WalFailure::error)
    }

    /// Makes the log refuse everything from now on, because the operation `what` has failed with `error`.
    pub(crate) fn poison(&self, what: &str, error: &io::Error) {
        self.fail(&mut self.state.lock(), what, error);
    }

    fn fail(&self, state: &mut WalState, what: &str, error: &io::Error) {
        self.fail_with(state, what, error, false);
    }

    fn fail_with(&self, state: &mut WalState, what: &str, error: &io::Error, misplaced: bool) {
        // The first failure is kept. But closing the heap gets over a misplaced log, so a failure of another
        // kind replaces that of a misplaced log.
        if state.failure.as_ref().is_none_or(|failure| failure.misplaced && !misplaced) {
            state.failure = Some(WalFailure {
                what: what.to_owned(),
                code: error.raw_os_error(),
                kind: error.kind(),
                text: error.to_string(),
                misplaced,
            });
        }
        self.failed.store(true, Ordering::Release);
        self.changed.notify_all();
        self.requested.notify_all();
        self.ordered.notify_all();
    }

    /// Asks the background thread, if there is one, for a round of work.
    fn request(&self, state: &mut WalState) {
        if state.background && !state.checkpoint {
            state.checkpoint = true;
            self.requested.notify_all();
        }
    }

    /// Returns the bytes of the log that transactions leave free for records of metadata: [`RESERVE`], or
    /// half a segment if that is less.
    fn reserve(&self) -> u64 {
        RESERVE.min(self.layout.segment / 2)
    }

    /// Waits until there may be more room in the log, or makes some. The caller then looks again whether
    /// there are `need` bytes. `rounds` is the number of its earlier calls for the same record. After
    /// [`MOST_ROUNDS`] calls a large record makes the log longer or fails: other threads take the room that
    /// becomes free, so on a full disk the record could otherwise wait for ever.
    #[cold]
    fn make_room(&self, state: &mut MutexGuard<'_, WalState>, need: u64, rounds: u32) -> Result<()> {
        let size = state.buffer.segments() * self.layout.segment;
        let may_grow = size + self.layout.segment <= self.settings.log_limit
            || need > size.max(self.settings.log_limit) / 2;
        let emptied = state.folded == state.buffer.end_position();
        let is_last = emptied || rounds >= MOST_ROUNDS && need > size / 2;
        if may_grow || is_last {
            let missing = need.saturating_sub(state.buffer.room());
            let grown = MutexGuard::unlocked(state, || self.grow(missing));
            match grown {
                Ok(()) => return MutexGuard::unlocked(state, || self.find_log()),
                Err(e) if is_last => {
                    return Err(Error::writing(format!("growing {}", self.disk.log_path().display()), e));
                }
                // The log could not grow, but a checkpoint may free segments.
                Err(_) => {}
            }
        }
        if state.background {
            let rounds = state.rounds;
            state.fold = true;
            self.request(state);
            let waits =
                |state: &WalState| state.rounds == rounds && state.failure.is_none() && state.background;
            // The background thread may not finish its round until this thread releases a region's lock. So
            // the wait ends as soon as there is room, even if the round is not over.
            while waits(state) && state.buffer.room() < need {
                self.changed.wait(state);
            }
            Ok(())
        } else {
            MutexGuard::unlocked(state, || self.checkpoint(|| {}))
        }
    }

    /// Makes the log's file longer, so that it has room for at least `bytes` more bytes of records.
    fn grow(&self, bytes: u64) -> io::Result<()> {
        let _growth = self.growth.lock();
        let have = self.state.lock().buffer.segments();
        let least = bytes.div_ceil(self.layout.segment - crate::units::LINE as u64).max(1);
        let most = (self.settings.log_limit / self.layout.segment).saturating_sub(have);
        // A long log grows by longer steps than a short one, because each step needs a sync.
        let add = (have / 2).min(most).max(least);
        let log = self.log();
        log.extend(self.layout.file_offset(have), self.layout.file_offset(have + add))?;
        // If this sync fails, the kernel may have reported the failed write of another thread's record, and
        // would not report it again to that thread. So the log keeps the failure for all threads. The sync
        // comes before the first line of a new segment is written, because an opening relies on it that the
        // disk then has the segment whole.
        // SURVIVES delay: a delayed sync comes right after the first line. A fault shows only if the disk
        // then has that line and half of the new length. The lab tries few subsets of many unsynced sectors.
        log.sync().inspect_err(|e| self.poison("syncing the log", e))?;
        self.state.lock().buffer.add_segments(have..have + add);
        Ok(())
    }

    /// Removes the log of a heap that is closed: the heap's file has everything, and its header says so. If
    /// the log's name leads to another file by now, that file stays.
    pub(crate) fn remove(&self) {
        // `closing` is set before the removal, because a thread that still syncs may look for the log
        // afterwards.
        self.closing.store(true, Ordering::Relaxed);
        // If the removal fails, the next opening sees that the log is an old one.
        let _ = self.log.get().map(|log| self.disk.remove_log(&**log));
    }
}

const _: () = assert!(HEAD == PAGE);
