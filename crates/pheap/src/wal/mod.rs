//! The write-ahead log of a heap on an ordinary file system.
//!
//! The heap is mapped privately: stores stay in this process. Whatever is to become durable is [appended](Wal::append) to the log, as the new
//! content of ranges, in one total order, a transaction whole or not at all. The log is [written and synced](Wal::reach) by one of the
//! threads that wait for it, the *leader*, for all of them (group commit). A [checkpoint](Wal::checkpoint) copies records that are durable
//! from the log to the heap's file, syncs that, and only then frees their segments. Nothing else writes to the heap's file, but for its header and
//! its growth, which are [synced](Wal::write_through) on the spot.
//!
//! After a failed write or sync it is not known what the disk has: the log then refuses everything, until the heap is opened again.
//!
//! Knows offsets, records and files. Must not know what the heap's words mean: what is to be done after a checkpoint, who asks for one says.

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
use begin::FIRST_SEGMENTS;
use buffer::Buffer;
use format::{HEAD, Layout, Mark, Seed};
use pages::PrivatePages;
use policy::Policy;
use stream::Queue;
use syncer::Deferred;

pub(crate) use begin::Beginning;
pub use commit::Commit;
pub(crate) use fold::Fold;
pub(crate) use follow::LiveLog;
pub(crate) use page_set::PageSet;
pub use policy::SyncPolicy;
pub(crate) use recovery::{WalTail, fold_tail, write_again};

/// What a heap's header says of its log: which one is its own, and how far records may reach.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WalIdentity {
    /// Of the heap.
    pub(crate) uuid: u128,
    /// Secret of the heap, so that nobody can store words that look like records.
    pub(crate) salt: u64,
    /// The number of the newest log that the heap had, and its nonce.
    pub(crate) id: u64,
    pub(crate) nonce: u64,
    /// Whether the heap needs what is in it.
    pub(crate) in_use: bool,
    /// Bytes of the heap, and of the addresses that are reserved for it.
    pub(crate) mapped: u64,
    pub(crate) reserved: u64,
}

/// Bytes that transactions leave in the log for what cannot fail: records of metadata. In a log with small
/// segments, half of one: a log that has two, and is on a full disk, has room for small transactions then.
const RESERVE: u64 = 64 << 10;

/// Why a heap cannot have a log here.
const HIDES_WRITES: &str = "`Durability::Wal` needs a file system that shows in a mapped file at once what is written to the file, as all local ones do; \
    put the heap on another file system, or use `Durability::Process`";

/// How a log is used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// The policy at first.
    pub(crate) policy: SyncPolicy,
    /// Bytes of the log's file beyond which transactions wait for a checkpoint.
    pub(crate) log_limit: u64,
    /// Bytes of private pages beyond which they do.
    pub(crate) memory_limit: u64,
    /// Bytes that deferred commits leave to be synced without waiting.
    pub(crate) unsynced_limit: u64,
}

impl Settings {
    /// Bytes of a segment of a new log.
    fn segment(&self) -> u64 {
        (self.log_limit / 16).clamp(64 << 10, 1 << 20).next_multiple_of(HEAD)
    }
}

/// The log of an open heap.
#[derive(Debug)]
pub(crate) struct Wal {
    disk: Arc<dyn Disk>,
    /// Its file, once it has [begun](Wal::begin).
    log: OnceLock<Arc<dyn Storage>>,
    /// Whether there is one, and the heap's header names it; and what is to happen before, for who has this locked.
    begun: atomic::AtomicBool,
    beginning: Mutex<Option<Beginning>>,
    data: Arc<dyn Storage>,
    layout: Layout,
    seed: Seed,
    /// What this process appends: its number, and how many there were before.
    run: u64,
    runs: u64,
    settings: Settings,
    /// The policy by now.
    policy: Policy,
    /// See [`is_mapped`](Wal::is_mapped). Changed before the log has begun, and with `growth` and the state locked.
    mapped: atomic::AtomicBool,
    state: Mutex<State>,
    /// Position up to which records have been handed to the kernel. Changed with the state locked.
    written: AtomicU64,
    /// Something has been written, synced or freed, or has failed.
    changed: Condvar,
    /// The heap is being closed, and will need no log: nobody has to find it.
    closing: AtomicBool,
    /// The thread in the background is asked to do something. Apart, for it would wake up at each commit.
    requested: Condvar,
    /// The thread that syncs is asked to do something.
    ordered: Condvar,
    /// Whether there is such a thread, and up to which position it is to sync the log. Changed with the state locked.
    has_syncer: AtomicBool,
    wanted: AtomicU64,
    /// Position up to which the log has been synced.
    durable: AtomicU64,
    failed: AtomicBool,
    /// Held during a checkpoint.
    folded: Mutex<Folded>,
    /// Where the heap is mapped.
    base: AtomicUsize,
    /// Held while the log's file grows.
    growth: Mutex<()>,
    pub(crate) pages: PrivatePages,
    /// How many bytes of them call for a checkpoint: more than the last one has left.
    memory_trigger: AtomicU64,
    counters: Counters,
    process: Process,
}

/// What a checkpoint needs for itself.
#[derive(Debug)]
struct Folded {
    /// Which of the [marks](format::MARKS) is the older one.
    mark: usize,
    /// Who gets the records that it is given.
    streams: Vec<Arc<Queue>>,
}

/// What was done with a log.
#[derive(Debug, Default)]
struct Counters {
    syncs: atomic::AtomicU64,
    checkpoints: atomic::AtomicU64,
    /// Bytes written to the heap's file by checkpoints.
    checkpoint_bytes: atomic::AtomicU64,
}

#[derive(Debug)]
struct State {
    buffer: Buffer,
    /// Position up to which a thread writes to the log, if one does. It has what was in the buffer.
    writing: Option<u64>,
    /// Position up to which a thread syncs the log, if one does.
    syncing: Option<u64>,
    failure: Option<Failure>,
    /// Position up to which everything is in the heap's file. Changed during a checkpoint.
    folded: u64,
    /// Whether a thread makes checkpoints.
    background: bool,
    /// What it is asked to do.
    checkpoint: bool,
    /// Whether it is to be made however short the log is: a transaction waits for room, or the log is idle.
    fold: bool,
    /// Whether there are so many records that they are to be in the heap's file if no others follow.
    ages: bool,
    /// Where the log ended when the thread in the background last looked, and how often it has been there.
    looked: u64,
    idle: u32,
    /// Whether the log could not grow ahead, and no checkpoint has come since.
    full_disk: bool,
    stop: bool,
    /// How often it has done so.
    rounds: u64,
    deferred: Deferred,
}

/// What has failed.
#[derive(Debug, Clone)]
struct Failure {
    what: String,
    code: Option<i32>,
    kind: io::ErrorKind,
    text: String,
    /// The disk is fine, but the files are not where the next opening would look for them.
    misplaced: bool,
}

impl Failure {
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

/// How much of a log is mapped, at most: all of it, unless a large transaction has it grow beyond its limit.
fn most_mapped(layout: Layout, settings: Settings) -> u64 {
    const ENOUGH: u64 = 1 << 40;
    layout.file_offset(settings.log_limit.min(ENOUGH).div_ceil(layout.segment))
}

/// So often a large record waits for room on a disk that has none.
const MOST_ROUNDS: u32 = 4;

impl Wal {
    /// A new log for a heap that is closed, and whose file is complete. Its file is made when it [begins](Self::begin). How, must be [said](Self::will_begin)
    /// before anything else.
    pub(crate) fn new(disk: Arc<dyn Disk>, of: WalIdentity, settings: Settings) -> Result<Arc<Wal>> {
        let nonce = disk.nonce().map_err(|e| Error::io("asking for random numbers", e))?;
        let layout = Layout { uuid: of.uuid, id: of.id + 1, nonce, segment: settings.segment() };
        let buffer = Buffer::new(layout, Seed::new(of.salt, layout), FIRST_SEGMENTS);
        let mark = Mark { folded: buffer.end(), ..Mark::first(layout) }; // there is nothing before that
        Wal::of(disk, None, &of, settings, layout, (mark, 1), buffer)
    }

    /// A log as it is, up to where it is synced. `mark` is the newest one, and its place.
    fn of(
        disk: Arc<dyn Disk>,
        log: Option<Arc<dyn Storage>>,
        of: &WalIdentity,
        settings: Settings,
        layout: Layout,
        (mark, place): (Mark, usize),
        buffer: Buffer,
    ) -> Result<Arc<Wal>> {
        let seed = Seed::new(of.salt, layout);
        let end = buffer.end();
        // One that is to be made has nothing to be written for anybody.
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
            policy: Policy::new(settings.policy),
            mapped: atomic::AtomicBool::new(false),
            state: Mutex::new(State {
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
                deferred: Deferred::default(),
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
            folded: Mutex::new(Folded { mark: 1 - place, streams: Vec::new() }),
            base: AtomicUsize::new(0),
            growth: Mutex::new(()),
            pages: PrivatePages::new(of.reserved, of.mapped)?,
            memory_trigger: AtomicU64::new(settings.memory_limit / 2),
            counters: Counters::default(),
            process: Process::default(),
        };
        log.into_iter().for_each(|log| wal.use_log(log));
        Ok(Arc::new(wal))
    }

    /// Leaves the log to the parent, in a forked child: never the last to have it, this unmaps and closes
    /// nothing.
    fn leave(self: &Arc<Wal>) {
        std::mem::forget(self.clone());
    }

    /// Number of the log among those of its heap.
    pub(crate) fn id(&self) -> u64 {
        self.layout.id
    }

    /// The log's file.
    #[inline]
    fn log(&self) -> &dyn Storage {
        &**self.log.get().expect("a log has begun before it is used")
    }

    /// The heap's file.
    pub(crate) fn data(&self) -> &dyn Storage {
        &*self.data
    }

    /// What tells it apart from logs of copies of the heap, and from copies of this log: the number of the run.
    pub(crate) fn nonce(&self) -> u64 {
        self.run
    }

    /// Where the heap is mapped.
    pub(crate) fn base(&self) -> usize {
        self.base.load(Ordering::Relaxed)
    }

    /// Says where it is, before anything is appended.
    pub(crate) fn set_base(&self, base: usize) {
        self.base.store(base, Ordering::Relaxed);
    }

    pub(crate) fn add_to(&self, stats: &mut Stats) {
        let Counters { syncs, checkpoints, checkpoint_bytes } = &self.counters;
        stats.syncs += syncs.load(Ordering::Relaxed);
        stats.checkpoints += checkpoints.load(Ordering::Relaxed);
        stats.checkpoint_bytes += checkpoint_bytes.load(Ordering::Relaxed);
        stats.private_bytes += self.pages.bytes();
    }

    pub(crate) fn settings(&self) -> Settings {
        self.settings
    }

    /// Why the log refuses everything, if it does.
    pub(crate) fn failure(&self) -> Option<Error> {
        if !self.failed.load(Ordering::Acquire) {
            return None;
        }
        self.state.lock().failure.as_ref().map(Failure::error)
    }

    /// Lets the log refuse everything from now on: a sync has failed.
    pub(crate) fn poison(&self, what: &str, error: &io::Error) {
        self.fail(&mut self.state.lock(), what, error);
    }

    fn fail(&self, state: &mut State, what: &str, error: &io::Error) {
        self.fail_with(state, what, error, false);
    }

    fn fail_with(&self, state: &mut State, what: &str, error: &io::Error, misplaced: bool) {
        // The first one says why; but one that closing the heap gets over hides no other.
        if state.failure.as_ref().is_none_or(|failure| failure.misplaced && !misplaced) {
            state.failure = Some(Failure {
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

    /// Asks the thread in the background for a checkpoint.
    fn request(&self, state: &mut State) {
        if state.background && !state.checkpoint {
            state.checkpoint = true;
            self.requested.notify_all();
        }
    }

    /// See [`RESERVE`].
    fn reserve(&self) -> u64 {
        RESERVE.min(self.layout.segment / 2)
    }

    /// Waits until there may be more room, or makes some. This was done so many `rounds` before, and was not
    /// enough: what becomes free is taken by others, so that a large record would wait for ever on a full disk.
    #[cold]
    fn make_room(&self, state: &mut MutexGuard<'_, State>, need: u64, rounds: u32) -> Result<()> {
        let size = state.buffer.segments() * self.layout.segment;
        let may_grow = size + self.layout.segment <= self.settings.log_limit
            || need > size.max(self.settings.log_limit) / 2;
        let emptied = state.folded == state.buffer.end();
        let is_last = emptied || rounds >= MOST_ROUNDS && need > size / 2;
        if may_grow || is_last {
            let missing = need.saturating_sub(state.buffer.room());
            let grown = MutexGuard::unlocked(state, || self.grow(missing));
            match grown {
                Ok(()) => return MutexGuard::unlocked(state, || self.find_log()),
                Err(e) if is_last => {
                    return Err(Error::writing(format!("growing {}", self.disk.log_path().display()), e));
                }
                Err(_) => {} // perhaps a checkpoint helps
            }
        }
        if state.background {
            let rounds = state.rounds;
            state.fold = true;
            self.request(state);
            let waits = |state: &State| state.rounds == rounds && state.failure.is_none() && state.background;
            // Not until the round is over: its end may have to wait for what this thread has locked.
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
        // In ever larger steps, for each of them is a sync.
        let add = (have / 2).min(most).max(least);
        let log = self.log();
        log.extend(self.layout.file_offset(have), self.layout.file_offset(have + add))?;
        // A failure may be that of records which somebody else is about to sync, who would not be told again.
        // SURVIVES drop: whoever syncs a record there syncs the length as well. This is so that such a sync has less to do.
        // SURVIVES delay: as above.
        log.sync().inspect_err(|e| self.poison("syncing the log", e))?;
        self.state.lock().buffer.add_segments(have..have + add);
        Ok(())
    }

    /// Ends the use of a log whose heap is closed: all is in the heap's file, and its header says so. A log of another heap that has come to lie there stays.
    pub(crate) fn remove(&self) {
        // Before the removal: a thread that still syncs may look for the log afterwards.
        self.closing.store(true, Ordering::Relaxed);
        // If that fails, the next opening sees that the log is an old one.
        let _ = self.log.get().map(|log| self.disk.remove_log(&**log));
    }
}

const _: () = assert!(HEAD == PAGE);
