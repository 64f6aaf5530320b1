//! The write-ahead log of a heap on an ordinary file system.
//!
//! The heap is mapped privately: stores stay in this process. Whatever is to become durable is [appended](Wal::append) to the log, as the new
//! content of ranges, in one total order, a transaction whole or not at all. The log is [written and synced](Wal::reach) by one of the
//! threads that wait for it, the *leader*, for all of them (group commit). A [checkpoint](Wal::checkpoint) copies records that are durable
//! from the log to the heap's file, syncs that, and only then frees their segments. Nothing else writes to the heap's file, but for its header and
//! its growth, which are [synced](Wal::write_through) on the spot.
//!
//! After a failed write or sync it is not known what the disk has: the log then refuses everything, until the heap is opened again.

mod buffer;
pub(crate) mod files;
mod fold;
pub(crate) mod format;
mod pages;
mod recovery;
pub(crate) mod storage;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};

use super::{Bug, bug};
use crate::error::{Error, Result};
use crate::heap::SyncPolicy;
use crate::heap::header::Header;
use crate::heap::mapping::PAGE;
use crate::txn::log::Range;
use buffer::Buffer;
use fold::Fold;
use format::{HEAD, Layout, MARK, Records, Seed};
use pages::PrivatePages;
use storage::{Disk, Storage};

pub(crate) use recovery::{Leftover, fold_leftover};

/// Bytes that transactions leave in the log for what cannot fail: records of metadata.
const RESERVE: u64 = 64 << 10;

/// How a log is used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) policy: SyncPolicy,
    /// Bytes of the log's file beyond which transactions wait for a checkpoint.
    pub(crate) log_limit: u64,
    /// Bytes of private pages beyond which they do.
    pub(crate) memory_limit: u64,
}

/// The log of an open heap.
#[derive(Debug)]
pub(crate) struct Wal {
    disk: Arc<dyn Disk>,
    log: RwLock<Arc<dyn Storage>>,
    data: Arc<dyn Storage>,
    layout: Layout,
    seed: Seed,
    settings: Settings,
    state: Mutex<State>,
    /// Something has been written, synced or freed, or has failed.
    changed: Condvar,
    /// The thread in the background is asked to do something. Apart, for it would wake up at each commit.
    requested: Condvar,
    /// Positions up to which the log has been handed to the kernel, and synced.
    written: AtomicU64,
    durable: AtomicU64,
    failed: AtomicBool,
    /// Held during a checkpoint: the position up to which the heap's file has everything.
    folded: Mutex<u64>,
    /// Where the heap is mapped.
    base: AtomicUsize,
    /// Held while the log's file grows.
    growth: Mutex<()>,
    pub(crate) pages: PrivatePages,
    /// How many bytes of them call for a checkpoint: more than the last one has left.
    memory_trigger: AtomicU64,
    counters: Counters,
}

/// What was done with a log.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) syncs: AtomicU64,
    pub(crate) checkpoints: AtomicU64,
    /// Bytes written to the heap's file by checkpoints.
    pub(crate) checkpoint_bytes: AtomicU64,
}

#[derive(Debug)]
struct State {
    buffer: Buffer,
    /// Whether a thread writes to the log. It has what was in the buffer.
    writing: bool,
    /// Whether a thread syncs the log.
    syncing: bool,
    failure: Option<Failure>,
    /// Position up to which everything is in the heap's file.
    folded: u64,
    /// Whether a thread makes checkpoints.
    background: bool,
    /// What it is asked to do.
    checkpoint: bool,
    /// Whether a transaction waits for room.
    full: bool,
    /// Whether the log could not grow ahead, and no checkpoint has come since.
    full_disk: bool,
    stop: bool,
    /// How often it has done so.
    rounds: u64,
}

/// What has failed.
#[derive(Debug, Clone)]
struct Failure {
    what: String,
    code: Option<i32>,
    kind: io::ErrorKind,
}

impl Failure {
    fn source(&self) -> io::Error {
        self.code.map_or_else(|| io::Error::new(self.kind, self.what.clone()), io::Error::from_raw_os_error)
    }

    fn error(&self) -> Error {
        Error::Failed { reason: format!("{}: {}", self.what, self.source()) }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG))
}

impl Wal {
    /// Makes a new log for a heap whose file is complete. The header must say so before the first record counts.
    pub(crate) fn create(disk: Arc<dyn Disk>, header: &Header, settings: Settings) -> Result<Arc<Wal>> {
        let segment = (settings.log_limit / 16).clamp(64 << 10, 1 << 20).next_multiple_of(HEAD);
        let layout = Layout { uuid: header.uuid, id: header.log + 1, segment };
        let seed = Seed::new(header.salt, layout.id);
        let segments = 2;
        let data = disk.data();
        let mut made = false;
        let created = disk.create_log().and_then(|log| {
            made = true;
            log.write_all(&layout.to_bytes(), 0)?;
            log.extend(layout.to_bytes().len() as u64, layout.file_offset(segments))?;
            log.sync()?;
            // The heap's file may have been changed by others, whose writes are not durable.
            data.sync()?;
            Ok(log)
        });
        let log = created.map_err(|e| {
            if made {
                let _ = disk.remove_log();
            }
            let context = format!("creating the log {}", disk.log_path().display());
            if is_full(&e) {
                Error::OutOfSpace { reason: format!("{context}: {e}") }
            } else {
                Error::io(context, e)
            }
        })?;
        let buffer = Buffer::new(layout, seed, segments);
        let end = buffer.end();
        Ok(Arc::new(Wal {
            disk,
            log: RwLock::new(log),
            data,
            layout,
            seed,
            settings,
            state: Mutex::new(State {
                buffer,
                writing: false,
                syncing: false,
                failure: None,
                folded: end,
                background: false,
                checkpoint: false,
                full: false,
                full_disk: false,
                stop: false,
                rounds: 0,
            }),
            changed: Condvar::new(),
            requested: Condvar::new(),
            written: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            folded: Mutex::new(end),
            base: AtomicUsize::new(0),
            growth: Mutex::new(()),
            pages: PrivatePages::new(header.reserved)?,
            memory_trigger: AtomicU64::new(settings.memory_limit / 2),
            counters: Counters::default(),
        }))
    }

    /// Number of the log among those of its heap.
    pub(crate) fn id(&self) -> u64 {
        self.layout.id
    }

    pub(crate) fn is_simulated(&self) -> bool {
        self.disk.is_simulated()
    }

    /// Where the heap is mapped.
    pub(crate) fn base(&self) -> usize {
        self.base.load(Ordering::Relaxed)
    }

    /// Says where it is, before anything is appended.
    pub(crate) fn set_base(&self, base: usize) {
        self.base.store(base, Ordering::Relaxed);
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
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
        state.failure.get_or_insert_with(|| Failure {
            what: what.to_owned(),
            code: error.raw_os_error(),
            kind: error.kind(),
        });
        self.failed.store(true, Ordering::Release);
        self.changed.notify_all();
        self.requested.notify_all();
    }

    /// Appends the new content of ranges, all of it or nothing, and returns the positions before and behind it. `words` is the number of words of the ranges,
    /// heads included. Nothing waits for a disk, unless the log is full.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`] if the log cannot take it, [`Error::Failed`].
    pub(crate) fn append<'a>(
        &self,
        words: usize,
        ranges: impl Iterator<Item = Range<'a>>,
        is_metadata: bool,
    ) -> Result<std::ops::Range<u64>> {
        let mut state = self.state.lock();
        let need = state.buffer.need(words) + if is_metadata { 0 } else { RESERVE };
        loop {
            if let Some(failure) = &state.failure {
                return Err(failure.error());
            }
            if need <= state.buffer.room() {
                break;
            }
            let made = self.make_room(&mut state, need);
            if is_metadata && let Err(error) = &made {
                // It has been stored already, and others will rely on it.
                self.fail(&mut state, "recording metadata", &io::Error::other(error.to_string()));
            }
            made?;
        }
        let start = state.buffer.end();
        state
            .buffer
            .append(ranges.inspect(|range| self.pages.note(range.offset, range.words.len() as u64 * 8)));
        let end = state.buffer.end();
        let grown = end - state.folded > self.settings.log_limit / 2
            || !state.full_disk
                && state.buffer.free_segments() == 0
                && state.buffer.segments() * self.layout.segment < self.settings.log_limit;
        if grown || self.pages.bytes() > self.memory_trigger.load(Ordering::Relaxed) {
            self.request(&mut state);
        }
        Ok(start..end)
    }

    /// Asks the thread in the background for a checkpoint.
    fn request(&self, state: &mut State) {
        if state.background && !state.checkpoint {
            state.checkpoint = true;
            self.requested.notify_all();
        }
    }

    /// Waits until there may be more room, or makes some.
    #[cold]
    fn make_room(&self, state: &mut MutexGuard<'_, State>, need: u64) -> Result<()> {
        let size = state.buffer.segments() * self.layout.segment;
        let may_grow = size + self.layout.segment <= self.settings.log_limit
            || need > size.max(self.settings.log_limit) / 2;
        let emptied = state.folded == state.buffer.end();
        if may_grow || emptied {
            let missing = need.saturating_sub(state.buffer.room());
            let grown = MutexGuard::unlocked(state, || self.grow(missing));
            match grown {
                Ok(()) => return Ok(()),
                Err(e) if emptied => {
                    let context = format!("the log {} cannot grow: {e}", self.disk.log_path().display());
                    return Err(if is_full(&e) {
                        Error::OutOfSpace { reason: context }
                    } else {
                        Error::io(format!("growing {}", self.disk.log_path().display()), e)
                    });
                }
                Err(_) => {} // perhaps a checkpoint helps
            }
        }
        if state.background {
            let rounds = state.rounds;
            state.full = true;
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
        let least = bytes.div_ceil(self.layout.segment - super::LINE as u64).max(1);
        let most = (self.settings.log_limit / self.layout.segment).saturating_sub(have);
        // In ever larger steps, for each of them is a sync.
        let add = (have / 2).min(most).max(least);
        let log = self.log.read().clone();
        log.extend(self.layout.file_offset(have), self.layout.file_offset(have + add))?;
        // A failure may be that of records which somebody else is about to sync, who would not be told again.
        log.sync().inspect_err(|e| self.poison("syncing the log", e))?;
        self.state.lock().buffer.add_segments(have..have + add);
        Ok(())
    }

    /// Waits until what was appended before `position` has been handed to the kernel, and synced if the policy says so.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`].
    #[inline]
    pub(crate) fn acknowledge(&self, position: u64) -> Result<()> {
        if self.is_acknowledged(position) { Ok(()) } else { self.reach(position, self.syncs_commits()) }
    }

    /// Whether [`acknowledge`](Self::acknowledge) has nothing to wait for.
    #[inline]
    pub(crate) fn is_acknowledged(&self, position: u64) -> bool {
        self.level(self.syncs_commits()).load(Ordering::Acquire) >= position
    }

    fn syncs_commits(&self) -> bool {
        self.settings.policy == SyncPolicy::EveryCommit && !bug(Bug::NoSyncOfLog)
    }

    fn level(&self, synced: bool) -> &AtomicU64 {
        if synced { &self.durable } else { &self.written }
    }

    /// Waits until all that was appended is durable.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`].
    pub(crate) fn sync(&self) -> Result<()> {
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        let end = self.end();
        self.reach(end, true)
    }

    /// Position behind the last record.
    pub(crate) fn end(&self) -> u64 {
        self.state.lock().buffer.end()
    }

    /// Waits until what was appended before `position` has been handed to the kernel (or synced). The first thread to come writes and syncs for all
    /// that have come when it begins.
    fn reach(&self, position: u64, synced: bool) -> Result<()> {
        let mut state = self.state.lock();
        while self.level(synced).load(Ordering::Acquire) < position {
            if let Some(failure) = &state.failure {
                return Err(Error::OutcomeUnknown { source: failure.source() });
            }
            let is_written = self.written.load(Ordering::Acquire) >= position;
            if synced && state.syncing || !is_written && state.writing {
                self.changed.wait(&mut state);
            } else if is_written {
                self.sync_written(&mut state);
            } else {
                self.write_buffer(&mut state);
            }
        }
        Ok(())
    }

    /// Hands what is in the buffer to the kernel.
    fn write_buffer(&self, state: &mut MutexGuard<'_, State>) {
        state.writing = true;
        let chunks = state.buffer.take();
        let end = state.buffer.end();
        let written = MutexGuard::unlocked(state, || {
            // Locked meanwhile: the log may not get another file in between.
            let log = self.log.read();
            chunks.iter().try_for_each(|chunk| log.write_all(fold::bytes(&chunk.words), chunk.file_offset))
        });
        state.writing = false;
        match written {
            Ok(()) => {
                self.written.fetch_max(end, Ordering::Release);
                state.buffer.give_back(chunks);
                self.changed.notify_all();
            }
            Err(e) => self.fail(state, &format!("writing {}", self.disk.log_path().display()), &e),
        }
    }

    /// Syncs what has been written.
    fn sync_written(&self, state: &mut MutexGuard<'_, State>) {
        state.syncing = true;
        let end = self.written.load(Ordering::Acquire);
        let synced = MutexGuard::unlocked(state, || {
            let log = self.log.read().clone();
            if log.is_linked()? { log.sync() } else { self.replace_log(&*log) }
        });
        state.syncing = false;
        match synced {
            Ok(()) => {
                self.durable.fetch_max(end, Ordering::Release);
                self.counters.syncs.fetch_add(1, Ordering::Relaxed);
                self.changed.notify_all();
            }
            Err(e) => self.fail(state, &format!("syncing {}", self.disk.log_path().display()), &e),
        }
    }

    /// Somebody has removed the log's name: gives it a new file with the same content.
    #[cold]
    fn replace_log(&self, old: &dyn Storage) -> io::Result<()> {
        let _growth = self.growth.lock();
        let mut current = self.log.write();
        let new = self.disk.create_log()?;
        let len = old.len()?;
        new.extend(0, len)?;
        new.sync()?;
        let mut bytes = vec![0; 1 << 20];
        for at in (0..len).step_by(bytes.len()) {
            let have = old.read_up_to(&mut bytes, at)?;
            new.write_all(&bytes[..have], at)?;
        }
        new.sync()?;
        *current = new;
        Ok(())
    }

    /// Writes to the heap's file, and syncs it: for the header and new arenas, which no record covers.
    ///
    /// # Errors
    /// What failed; the log then refuses everything.
    pub(crate) fn write_through(&self, bytes: &[u8], at: u64) -> Result<()> {
        // What follows a failure could reach the disk without what came before.
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        self.pages.note(at, bytes.len() as u64);
        self.data.write_all(bytes, at).and_then(|()| self.data.sync()).map_err(|e| {
            self.fail(&mut self.state.lock(), "writing the heap's file", &e);
            Error::io("writing the heap's file", e)
        })
    }

    /// Copies all records to the heap's file, and frees their segments. Then `after` runs, while no other checkpoint does.
    ///
    /// # Errors
    /// What failed; the log then refuses everything.
    pub(crate) fn checkpoint(&self, after: impl FnOnce()) -> Result<()> {
        let mut folded = self.folded.lock();
        let (end, live) = {
            let state = self.state.lock();
            if let Some(failure) = &state.failure {
                return Err(failure.error());
            }
            // In this order, under this lock: what is recorded in the new epoch is behind `end`.
            self.pages.next_epoch();
            (state.buffer.end(), state.buffer.live())
        };
        if *folded < end {
            if !bug(Bug::FoldUnsynced) {
                self.reach(end, true)?;
            } else {
                self.reach(end, false)?;
            }
            let result = self.fold(*folded, end, &live).and_then(|written| {
                self.counters.checkpoint_bytes.fetch_add(written, Ordering::Relaxed);
                if !bug(Bug::RecycleBeforeData) {
                    self.data.sync()?;
                }
                self.mark_folded(end)
            });
            let mut state = self.state.lock();
            if let Err(e) = result {
                self.fail(&mut state, "writing a checkpoint to the heap's file", &e);
                return Err(state.failure.as_ref().expect("it has failed").error());
            }
            *folded = end;
            state.folded = end;
            state.buffer.recycle(end);
            state.full_disk = false;
            self.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
            self.changed.notify_all();
        }
        after();
        Ok(())
    }

    /// Lets recovery begin at a position, durably: of the segments before it that are used again, the disk may have any part at any time.
    fn mark_folded(&self, end: u64) -> io::Result<()> {
        let log = self.log.read();
        log.write_all(fold::bytes(&self.seed.mark(end)), MARK)?;
        log.sync()
    }

    /// Writes the records of a range of positions to the heap's file, and says how many bytes that were.
    fn fold(&self, from: u64, to: u64, live: &[(u64, u64)]) -> io::Result<u64> {
        let log = self.log.read().clone();
        let mut fold = Fold::new(&*self.data);
        let mut at = from;
        for &(sequence, place) in live {
            let (start, end) = (self.layout.start(sequence), self.layout.start(sequence + 1));
            if end <= from || start >= to {
                continue;
            }
            let first = at.max(start + super::LINE as u64);
            let mut records =
                Records::read(&*log, self.layout, self.seed, place, first, end.min(to) - first)?;
            while let Some(record) = records.next() {
                fold.add(record)?;
            }
            at = records.position();
        }
        if at != to {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the log does not hold what was written to it",
            ));
        }
        fold.finish()
    }

    /// Waits until no thread writes to a file. Nothing is appended any more, and there is no thread in the background.
    pub(crate) fn quiesce(&self) {
        let _folded = self.folded.lock();
        let mut state = self.state.lock();
        while state.writing || state.syncing {
            self.changed.wait(&mut state);
        }
    }

    /// Ends the use of a log whose heap is closed: all is in the heap's file, and its header says so.
    pub(crate) fn remove(&self) {
        // If that fails, the next opening sees that the log is an old one.
        let _ = self.disk.remove_log();
    }
}

/// The thread in the background.
impl Wal {
    /// Says that there is one.
    pub(crate) fn set_background(&self, there: bool) {
        let mut state = self.state.lock();
        state.background = there;
        state.stop = false;
        self.changed.notify_all();
    }

    /// Tells it to end.
    pub(crate) fn stop_background(&self) {
        self.state.lock().stop = true;
        self.requested.notify_all();
    }

    /// Waits until a checkpoint is asked for. `false` if the thread is to end.
    pub(crate) fn wait_for_request(&self) -> bool {
        let mut state = self.state.lock();
        while !state.checkpoint && !state.stop && state.failure.is_none() {
            self.requested.wait(&mut state);
        }
        !state.stop && state.failure.is_none()
    }

    /// Does what was asked for. `after` runs when the checkpoint is complete.
    pub(crate) fn work(&self, after: impl FnOnce()) {
        let (free, segments, behind, full) = {
            let mut state = self.state.lock();
            let behind = state.buffer.end() - state.folded;
            (state.buffer.free_segments(), state.buffer.segments(), behind, std::mem::take(&mut state.full))
        };
        let size = segments * self.layout.segment;
        if free == 0 && size < self.settings.log_limit {
            // So that no transaction has to. If it fails, one that needs it will find out why.
            let grown = self.grow(1);
            self.state.lock().full_disk = grown.is_err();
        }
        let memory = self.pages.bytes() > self.memory_trigger.load(Ordering::Relaxed);
        if full || memory || behind > self.settings.log_limit / 2 {
            // A failure is kept, for all others to see.
            let _ = self.checkpoint(after);
        }
        let limit = self.settings.memory_limit;
        let trigger = (limit / 2).max(self.pages.bytes() + limit / 4);
        self.memory_trigger.store(trigger, Ordering::Relaxed);
        let mut state = self.state.lock();
        state.checkpoint = false;
        state.rounds += 1;
        self.changed.notify_all();
    }

    /// Waits for one round of the thread in the background, if too many pages are private.
    #[cold]
    pub(crate) fn wait_for_memory(&self) {
        let mut state = self.state.lock();
        let rounds = state.rounds;
        self.request(&mut state);
        while state.background && state.rounds == rounds && state.failure.is_none() {
            self.changed.wait(&mut state);
        }
    }

    /// Whether more pages are private than should be, and the next checkpoint may help.
    #[inline]
    pub(crate) fn is_over_memory(&self) -> bool {
        let bytes = self.pages.bytes();
        bytes > self.settings.memory_limit && bytes > self.memory_trigger.load(Ordering::Relaxed)
    }
}

const _: () = assert!(HEAD == PAGE);
