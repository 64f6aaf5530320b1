//! The write-ahead log of a heap on an ordinary file system.
//!
//! The heap is mapped privately, so stores stay in this process. A transaction [appends](Wal::append) the new
//! content of its ranges to the log. The log orders all transactions, and has each one whole or not at all.
//! One of the threads that wait for the log, the *leader*, [writes and syncs](Wal::reach) it for all of them
//! (group commit). With some policies, each thread [writes](Wal::is_at_once) its records itself. A
//! [checkpoint](Wal::checkpoint) copies durable records from the log to the heap's file, syncs the file, and
//! only then frees their segments. Bytes that no record covers, such as the header, are
//! [written](Wal::write_through) to the heap's file directly, and synced at once.
//!
//! After a failed write or sync, the content of the disk is unknown. The log then refuses everything until
//! the heap is opened again. If its file cannot be made, or the zeros that make the file longer cannot be
//! written, it fails only if a record of metadata needs that: no other record relies on them yet.
//!
//! This module knows offsets, records and files. It must not know what the heap's words mean: the caller of a
//! checkpoint passes what runs after it.

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

/// The fields of a heap's header that identify its log, and the bounds of what records may store to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WalIdentity {
    /// The uuid of the heap.
    pub(crate) uuid: u128,
    /// A secret of the heap. It seeds the checksums of marks, segments and records, so that a program that
    /// does not know it cannot store words that look like them.
    pub(crate) salt: u64,
    /// The number of the heap's newest log, and the run of that log that the header names (0 for none).
    pub(crate) id: u64,
    pub(crate) nonce: u64,
    /// Whether the header says that the heap is in use with `Wal`, and so needs the records of its log.
    pub(crate) in_use: bool,
    /// Bytes of the heap, and bytes of addresses that are reserved for it.
    pub(crate) mapped: u64,
    pub(crate) reserved: u64,
}

/// Bytes of the log that transactions leave free for records of metadata, which must not fail. In a log with
/// small segments it is half a segment, so that a log of two segments on a full disk still has room for small
/// transactions.
const RESERVE: u64 = 64 << 10;

/// The error where a private mapping of a file does not show what is written to the file.
const HIDES_WRITES: &str = "`Durability::Wal` needs a file system that shows in a mapped file at once what is written to the file, as all local ones do; \
    put the heap on another file system, or use `Durability::Process`";

/// Options for the use of a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalSettings {
    /// The sync policy that the log begins with.
    pub(crate) policy: SyncPolicy,
    /// Bytes of the log's file beyond which it grows only for a large transaction. Others wait for a
    /// checkpoint, or make one.
    pub(crate) log_limit: u64,
    /// Bytes of private pages beyond which transactions wait for a checkpoint, or make one, if it may help.
    pub(crate) memory_limit: u64,
    /// Bytes that deferred commits may leave unsynced without waiting.
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
    /// Number of this process's run, and the number of runs of this log before it.
    run: u64,
    runs: u64,
    settings: WalSettings,
    /// The current policy. Changed while the state is locked.
    policy: PolicyWord,
    /// See [`is_mapped`](Wal::is_mapped). Changed before the log has begun, or with `growth` and the state
    /// locked.
    mapped: atomic::AtomicBool,
    state: Mutex<WalState>,
    /// Position up to which records are known to have been handed to the kernel. Changed while the state is
    /// locked.
    written: AtomicU64,
    /// Signalled after a sync, a checkpoint that has copied records, a round of [work](Wal::work), a failure,
    /// or a write with the state unlocked, and when the background thread comes or goes.
    changed: Condvar,
    /// Set while the heap is being closed, if the log is misplaced or is about to be removed. From then on it
    /// is no failure if the log is not found.
    closing: AtomicBool,
    /// Wakes the background thread. It is separate from `changed`, which would wake that thread at each sync.
    requested: Condvar,
    /// Wakes the thread that syncs.
    ordered: Condvar,
    /// Whether a thread syncs in the background, and the position up to which it is to sync the log. Both are
    /// changed while the state is locked.
    has_syncer: AtomicBool,
    wanted: AtomicU64,
    /// Position up to which the log is known to have been synced. Changed while the state is locked.
    durable: AtomicU64,
    failed: AtomicBool,
    /// Locked during a checkpoint, and while none may run.
    folded: Mutex<CheckpointState>,
    /// Address at which the heap is mapped.
    base: AtomicUsize,
    /// Locked while the log's file grows, and while nothing else may change its length.
    growth: Mutex<()>,
    pub(crate) pages: PrivatePages,
    /// Bytes of private pages above which a checkpoint is due. At first it is half of `memory_limit`. Each
    /// round of [work](Wal::work) sets it to that, or to a quarter of `memory_limit` more than is private
    /// then, whichever is more.
    memory_trigger: AtomicU64,
    counters: WalCounters,
    process: Process,
}

/// State that only checkpoints and streams use.
#[derive(Debug)]
struct CheckpointState {
    /// Index of the older one of the two [marks](format::MARKS). The next checkpoint overwrites it.
    mark: usize,
    /// The streams that get each record of a checkpoint.
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
    /// Position up to which the heap's file has everything. Changed only while `Wal::folded` is locked, too.
    folded: u64,
    /// Whether a background thread makes checkpoints.
    background: bool,
    /// Whether the background thread is asked for a round of work.
    checkpoint: bool,
    /// Whether that round makes a checkpoint even of a short log: a transaction waits for room, or the log is
    /// idle.
    fold: bool,
    /// Whether there are enough records for a checkpoint once no more are appended for a while.
    ages: bool,
    /// The end of the log at the last look of the background thread, and the number of later looks, each
    /// after a whole `LOOK`, that have found it unchanged. Each round resets the number.
    looked: u64,
    idle: u32,
    /// Whether the log could not grow ahead of need. The next checkpoint that copies records clears this, and
    /// the next growth ahead of need that works.
    full_disk: bool,
    /// Whether the background thread is to end.
    stop: bool,
    /// Rounds of [work](Wal::work) that are finished.
    rounds: u64,
    deferred: SyncerState,
}

/// The failure of the log, from which each later error is made. It is the first one, except that a failure of
/// another kind replaces a misplaced log.
#[derive(Debug, Clone)]
struct WalFailure {
    what: String,
    code: Option<i32>,
    kind: io::ErrorKind,
    text: String,
    /// The disk has not failed, but a look for the files, where the next opening would look for them, has
    /// failed.
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

/// Returns the offset in the log's file up to which segments are mapped, at most: that of a log of
/// `log_limit` bytes, or of 1 TiB if the limit is larger, in whole segments. Segments that a large
/// transaction adds behind it are not mapped.
fn most_mapped(layout: LogLayout, settings: WalSettings) -> u64 {
    const ENOUGH: u64 = 1 << 40;
    layout.file_offset(settings.log_limit.min(ENOUGH).div_ceil(layout.segment))
}

/// Attempts to make room, after which a large record makes the log longer or fails.
const MOST_ROUNDS: u32 = 4;

impl Wal {
    /// Creates the log of a heap that is closed, and whose file is complete. The log's file is made when the
    /// log [begins](Self::ensure_log). The caller must pass the writes for that to
    /// [`will_begin`](Self::will_begin) before it uses the log.
    pub(crate) fn new(disk: Arc<dyn Disk>, of: WalIdentity, settings: WalSettings) -> Result<Arc<Wal>> {
        let nonce = disk.nonce().map_err(|e| Error::io("asking for random numbers", e))?;
        let layout = LogLayout { uuid: of.uuid, id: of.id + 1, nonce, segment: settings.segment() };
        let buffer = WalBuffer::new(layout, ChecksumSeed::new(of.salt, layout), FIRST_SEGMENTS);
        // The heap's file has everything before the first record.
        let mark = LogMark { folded: buffer.end_position(), ..LogMark::first(layout) };
        Wal::from_buffer(disk, None, &of, settings, layout, (mark, 1), buffer)
    }

    /// Creates the state of a log from `buffer`, whose synced position (without a file, whose end) counts as
    /// durable. `mark` is the newest mark, and `place` is its index.
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
        // A log that has no file yet has no records to write.
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

    /// Makes the log refuse everything from now on, because `what` has failed with `error`.
    pub(crate) fn poison(&self, what: &str, error: &io::Error) {
        self.fail(&mut self.state.lock(), what, error);
    }

    fn fail(&self, state: &mut WalState, what: &str, error: &io::Error) {
        self.fail_with(state, what, error, false);
    }

    fn fail_with(&self, state: &mut WalState, what: &str, error: &io::Error, misplaced: bool) {
        // The first failure is kept. But closing the heap gets over a misplaced log, so a failure of another
        // kind replaces that one.
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

    /// Returns the bytes of [`RESERVE`] in a log with segments of this size.
    fn reserve(&self) -> u64 {
        RESERVE.min(self.layout.segment / 2)
    }

    /// Waits until there may be more room in the log, or makes some. The caller then looks again, and passes
    /// in `rounds` how often it has called this for one record. After [`MOST_ROUNDS`] calls a large record
    /// makes the log longer or fails: other threads take what becomes free, so on a full disk it could wait
    /// for ever.
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
                // A checkpoint may help.
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

    /// Makes the log's file longer, by at least `bytes` of room.
    fn grow(&self, bytes: u64) -> io::Result<()> {
        let _growth = self.growth.lock();
        let have = self.state.lock().buffer.segments();
        let least = bytes.div_ceil(self.layout.segment - crate::units::LINE as u64).max(1);
        let most = (self.settings.log_limit / self.layout.segment).saturating_sub(have);
        // The steps grow with the log, because each of them needs a sync.
        let add = (have / 2).min(most).max(least);
        let log = self.log();
        log.extend(self.layout.file_offset(have), self.layout.file_offset(have + add))?;
        // If this sync fails, the kernel may have reported the failed write of another thread's record, and
        // would not report it again to that thread. So the failure is kept for all.
        // An opening relies on it that the disk has a segment whole before its first line.
        log.sync().inspect_err(|e| self.poison("syncing the log", e))?;
        self.state.lock().buffer.add_segments(have..have + add);
        Ok(())
    }

    /// Removes the log of a heap that is closed: the heap's file has everything, and its header says so. If
    /// the name leads to another file by now, that file stays.
    pub(crate) fn remove(&self) {
        // This is set before the removal, because a thread that still syncs may look for the log afterwards.
        self.closing.store(true, Ordering::Relaxed);
        // If the removal fails, the next opening sees that the log is an old one.
        let _ = self.log.get().map(|log| self.disk.remove_log(&**log));
    }
}

const _: () = assert!(HEAD == PAGE);
