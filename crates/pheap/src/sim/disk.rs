//! A disk that keeps track of the sectors that a power failure may leave: of the heap's file, and of its log.
//!
//! The model: files are sectors of 512 bytes. A successful sync of a file makes everything durable that was
//! written to it before. Of later writes, any subset of sectors may have reached the disk. If a sector was
//! written several times, any of its versions may be there. If the disk [tears](SimDisk::tear), a sector of
//! the log, or the first sector of a page of the heap's header, may also be there in part, with some words
//! old and some new: disks may tear, and the kernel may write out a mapped page during a store to it. (Other
//! sectors of the heap's file do not tear, because the log has their content until they are durable.) When a
//! process is killed, everything that it has written is in the page cache.
//!
//! As in Linux, a failed sync leaves all sectors of the file that are not durable *in limbo*. They can be
//! read, because the page cache has them, but no later sync brings them to the disk unless they are written
//! again. When the page cache forgets them, they cannot be read any more; see [`SimDisk::evict`].
//!
//! The simulator notes a [`DiskPoint`] before each call of the heap that makes something durable, and at each
//! acknowledgement. Between two points the set of possible images only grows, so these points show all of
//! them.

mod faults;
mod file;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use faults::Faults;
pub use faults::{Call, Fault, ShortWrites};
use file::SimFile;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::os::storage::{Disk, Storage};
use crate::units::HEADER_SIZE;

/// Bytes of a sector.
pub const SECTOR: usize = 512;

/// One of the two files of a heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Which {
    /// The heap's file.
    Data,
    /// The heap's write-ahead log.
    Log,
}

/// A change of the disk's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskChange {
    /// A sector, with its number and its new content.
    Sector(Which, u32, Arc<[u8; SECTOR]>),
    /// A file has at least this many bytes. New bytes are zero.
    Length(Which, u64),
    /// There is a new, empty log.
    NewLog,
    /// There is no log.
    NoLog,
}

/// The content of a disk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiskImage {
    /// The heap's file.
    pub data: Vec<u8>,
    /// The content of the log, if there is one.
    pub log: Option<Vec<u8>>,
}

impl DiskImage {
    fn file(&mut self, which: Which) -> Option<&mut Vec<u8>> {
        match which {
            Which::Data => Some(&mut self.data),
            Which::Log => self.log.as_mut(),
        }
    }

    /// Applies a change to this image.
    pub fn apply(&mut self, change: &DiskChange) {
        match change {
            DiskChange::Sector(which, number, bytes) => {
                let Some(file) = self.file(*which) else { return };
                let at = *number as usize * SECTOR;
                if file.len() < at + SECTOR {
                    file.resize(at + SECTOR, 0);
                }
                file[at..at + SECTOR].copy_from_slice(&**bytes);
            }
            DiskChange::Length(which, len) => {
                if let Some(file) = self.file(*which) {
                    file.resize(file.len().max(*len as usize), 0);
                }
            }
            DiskChange::NewLog => self.log = Some(Vec::new()),
            DiskChange::NoLog => self.log = None,
        }
    }
}

/// A moment at which the power may fail.
#[derive(Debug, Clone)]
pub struct DiskPoint {
    /// Changes that became durable since the point before.
    pub durable: Vec<DiskChange>,
    /// Changes that may have reached the disk, in the order in which the heap made them: any subset; of two
    /// changes of a sector, the later one wins. A process that is killed leaves all of them up to some place
    /// in this order.
    pub pending: Vec<DiskChange>,
    /// How many changes of `pending` were written before the last point. A process that is killed at this
    /// point or later leaves at least these changes.
    pub written: usize,
    /// Number of acknowledged operations, and number of those that must survive a power failure; see
    /// [`SimDisk::acknowledge`].
    pub acknowledged: (usize, usize),
    /// Name of the event, for people.
    pub at: &'static str,
}

/// The simulated disk of one heap.
#[derive(Debug)]
pub struct SimDisk {
    state: Arc<Mutex<DiskState>>,
}

/// A change that was written, and is not durable.
#[derive(Debug)]
struct PendingChange {
    change: DiskChange,
    /// Whether a sync has failed to make the change durable. No later sync does it then.
    limbo: bool,
    /// Whether the next sync leaves the change out, as a mutant demands that delays the write.
    late: bool,
    /// Whether the change is a torn sector. The change behind it has the same sector whole.
    torn: bool,
    /// Number of writes to the disk up to this one.
    number: u64,
}

impl PendingChange {
    fn new(change: DiskChange) -> PendingChange {
        PendingChange { change, limbo: false, late: false, torn: false, number: 0 }
    }
}

#[derive(Debug, Default)]
struct DiskState {
    /// The content that can be read.
    view: DiskImage,
    durable: DiskImage,
    pending: Vec<PendingChange>,
    /// Number of the log that has the log's name. A handle of a log with another number is of a file without
    /// a name.
    log_number: u64,
    /// Content of the log that has lost its name last, for handles of it that are still open.
    orphan: Vec<u8>,
    fresh_durable: Vec<DiskChange>,
    written: usize,
    points: Vec<DiskPoint>,
    /// Whether no points are noted.
    silent: bool,
    acknowledged: (usize, usize),
    faults: Faults,
    amid: SyncHook,
    /// Whether sectors may be torn.
    tears: bool,
    /// Whether writes are delayed now: see [`PendingChange::late`].
    writes_late: bool,
    /// Number of writes so far.
    writes: u64,
    /// Twice the number of this disk among several disks with copies of one heap.
    copy: u64,
    /// The file, and the number of the log, of a delayed sync, which comes after the next write.
    sync_owed: Option<(Which, u64)>,
}

/// A function that runs in the middle of the next sync of a file.
#[derive(Default)]
struct SyncHook(Option<(Which, Box<dyn FnOnce() + Send>)>);

impl fmt::Debug for SyncHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Amid").field(&self.0.as_ref().map(|(which, _)| which)).finish()
    }
}

fn lock(state: &Mutex<DiskState>) -> MutexGuard<'_, DiskState> {
    state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl SimDisk {
    /// Creates a disk on which `image` is durable.
    pub fn new(image: DiskImage) -> SimDisk {
        SimDisk::with_pending(image, &[])
    }

    /// Creates a disk as a killed process has left it: `image` is durable. The changes `pending`, which the
    /// process has written since, can be read, and are not durable.
    pub fn with_pending(image: DiskImage, pending: &[DiskChange]) -> SimDisk {
        let mut view = image.clone();
        pending.iter().for_each(|change| view.apply(change));
        let pending: Vec<_> = pending.iter().map(|change| PendingChange::new(change.clone())).collect();
        let written = pending.len();
        let state = DiskState { view, durable: image, pending, written, ..DiskState::default() };
        SimDisk { state: Arc::new(Mutex::new(state)) }
    }

    fn lock(&self) -> MutexGuard<'_, DiskState> {
        lock(&self.state)
    }

    /// Notes that `n` operations have been acknowledged, `safe` of which must survive a power failure. Also
    /// notes a point, unless the disk is [silent](Self::be_silent).
    pub fn acknowledge(&self, n: usize, safe: usize) {
        let mut state = self.lock();
        state.acknowledged = (n, safe);
        state.point("acknowledgement");
    }

    /// Lets a crash tear sectors of the log, and the first sector of each page of the heap's header.
    pub fn tear(&self) {
        self.lock().tears = true;
    }

    /// Sets the number of this disk among several disks with copies of one heap.
    pub fn set_copy(&self, copy: u32) {
        self.lock().copy = u64::from(copy) << 1;
    }

    /// Notes no points from now on.
    pub fn be_silent(&self) {
        self.lock().silent = true;
    }

    /// Returns the points that were noted so far, and forgets them.
    pub fn take_points(&self) -> Vec<DiskPoint> {
        std::mem::take(&mut self.lock().points)
    }

    /// Returns the durable content.
    pub fn durable(&self) -> DiskImage {
        self.lock().durable.clone()
    }

    /// Returns the content that can be read.
    pub fn view(&self) -> DiskImage {
        self.lock().view.clone()
    }

    /// Returns the changes that can be read and are not durable, in the order in which they were written.
    pub fn pending(&self) -> Vec<DiskChange> {
        self.lock().pending.iter().map(|pending| pending.change.clone()).collect()
    }

    /// Returns a hash of what the disk may have from now on: of the durable content, and of the changes that
    /// may become durable.
    pub fn digest(&self) -> u64 {
        let state = self.lock();
        let mut hasher = Xxh3::new();
        let DiskImage { data, log } = &state.durable;
        for file in [Some(data), log.as_ref()] {
            hasher.update(&file.map_or(u64::MAX, |file| file.len() as u64).to_le_bytes());
            hasher.update(file.map_or(&[], |file| &file[..]));
        }
        for PendingChange { change, limbo, .. } in &state.pending {
            let (kind, number) = match change {
                DiskChange::Sector(which, number, bytes) => {
                    hasher.update(&bytes[..]);
                    (*which as u64, u64::from(*number))
                }
                DiskChange::Length(which, len) => (2 + *which as u64, *len),
                DiskChange::NewLog => (4, 0),
                DiskChange::NoLog => (5, 0),
            };
            [kind, number, u64::from(*limbo)].iter().for_each(|word| hasher.update(&word.to_le_bytes()));
        }
        hasher.digest()
    }

    /// Makes the calls fail that `fault` describes.
    pub fn fail(&self, fault: Fault) {
        self.lock().faults.add(fault);
    }

    /// Makes writes as short as `short` says.
    pub fn short_writes(&self, short: ShortWrites) {
        self.lock().faults.short = short;
    }

    /// Removes all faults, so that no call fails any more. Writes stay as short as before.
    pub fn heal(&self) {
        self.lock().faults.heal();
    }

    /// Sets the function that runs in the middle of the next sync of this file, as another thread might;
    /// `None` for no function. Returns whether an earlier function was still waiting, which is dropped.
    pub fn amid_sync(&self, which: Which, what: Option<Box<dyn FnOnce() + Send>>) -> bool {
        std::mem::replace(&mut self.lock().amid.0, what.map(|what| (which, what))).is_some()
    }

    /// Returns the number of calls that have failed.
    pub fn failed(&self) -> usize {
        self.lock().faults.failed
    }

    /// Returns the number of calls of this kind on this file.
    pub fn calls(&self, which: Which, call: Call) -> usize {
        self.lock().faults.count(which, call)
    }

    /// Makes the page cache forget the sectors in limbo. From now on they read as the disk has them: with the
    /// new content if `reached` says so, or else with the old one.
    pub fn evict(&self, mut reached: impl FnMut() -> bool) {
        let mut state = self.lock();
        let (limbo, pending): (Vec<_>, Vec<_>) =
            std::mem::take(&mut state.pending).into_iter().partition(|pending| pending.limbo);
        state.pending = pending;
        for pending in limbo {
            if reached() {
                state.make_durable(pending.change);
            }
        }
        let DiskState { view, durable, pending, .. } = &mut *state;
        view.clone_from(durable);
        pending.iter().for_each(|pending| view.apply(&pending.change));
        state.written = state.pending.len();
    }

    /// Removes the log, or puts another file in its place, durably, as another program might.
    pub fn set_log(&self, log: Option<Vec<u8>>) {
        let mut state = self.lock();
        state.drop_log();
        if let Some(log) = log {
            state.log_number += 1;
            state.view.log = Some(log.clone());
            state.durable.log = Some(log.clone());
            state
                .fresh_durable
                .extend([DiskChange::NewLog, DiskChange::Length(Which::Log, log.len() as u64)]);
            state.fresh_durable.extend(sectors(Which::Log, &log));
        } else {
            state.durable.log = None;
            state.fresh_durable.push(DiskChange::NoLog);
        }
    }
}

/// Returns the sectors of `new` that differ from those of `old`, two versions of a file. The last sector is
/// filled up with zeros.
pub fn differences(which: Which, old: &[u8], new: &[u8]) -> Vec<DiskChange> {
    let differs = |change: &DiskChange| match change {
        DiskChange::Sector(_, number, bytes) => {
            let at = *number as usize * SECTOR;
            old.get(at..at + SECTOR).is_none_or(|old| old != &bytes[..])
        }
        _ => true,
    };
    all_sectors(which, new).filter(differs).collect()
}

/// Returns the sectors of a file that are not all zero.
pub fn sectors(which: Which, file: &[u8]) -> impl Iterator<Item = DiskChange> {
    all_sectors(which, file)
        .filter(|change| !matches!(change, DiskChange::Sector(_, _, bytes) if **bytes == [0; SECTOR]))
}

fn all_sectors(which: Which, file: &[u8]) -> impl Iterator<Item = DiskChange> {
    file.chunks(SECTOR).enumerate().map(move |(number, chunk)| {
        let mut bytes = [0; SECTOR];
        bytes[..chunk.len()].copy_from_slice(chunk);
        DiskChange::Sector(which, number as u32, Arc::new(bytes))
    })
}

impl DiskState {
    fn point(&mut self, at: &'static str) {
        if self.silent {
            self.fresh_durable.clear();
            self.written = self.pending.len();
            return;
        }
        self.points.push(DiskPoint {
            durable: std::mem::take(&mut self.fresh_durable),
            pending: self.pending.iter().map(|pending| pending.change.clone()).collect(),
            written: self.written,
            acknowledged: self.acknowledged,
            at,
        });
        self.written = self.pending.len();
    }

    fn write(&mut self, change: DiskChange) {
        self.view.apply(&change);
        self.record_pending(PendingChange::new(change));
    }

    fn record_pending(&mut self, pending: PendingChange) {
        self.writes += 1;
        self.pending.push(PendingChange { late: self.writes_late, number: self.writes, ..pending });
    }

    /// Returns whether the sector is durable with this content, and no pending change may replace it.
    fn is_durable(&mut self, which: Which, number: u32, sector: &[u8; SECTOR]) -> bool {
        let at = number as usize * SECTOR;
        let has = self.durable.file(which).and_then(|file| file.get(at..at + SECTOR));
        has == Some(sector) && !self.pending.iter().any(|pending| pending.change.is_in(which, number))
    }

    /// Notes a torn version of the sector that is about to be written.
    fn write_torn(&mut self, which: Which, number: u32, torn: [u8; SECTOR]) {
        let change = DiskChange::Sector(which, number, Arc::new(torn));
        self.record_pending(PendingChange { torn: true, ..PendingChange::new(change) });
    }

    fn make_durable(&mut self, change: DiskChange) {
        self.durable.apply(&change);
        self.fresh_durable.push(change);
    }

    /// Makes all changes durable that were written up to number `until` and for which `ready` is true, except
    /// those in limbo and those that are late. Older versions of these sectors cannot come back.
    fn make_all_durable(&mut self, until: u64, ready: impl Fn(&DiskChange) -> bool) {
        let ready = |pending: &PendingChange| pending.number <= until && ready(&pending.change);
        let mut kept: Vec<PendingChange> = Vec::new();
        for pending in std::mem::take(&mut self.pending) {
            if pending.limbo || pending.late || !ready(&pending) {
                let late = pending.late && !ready(&pending);
                kept.push(PendingChange { late, ..pending });
                continue;
            }
            if pending.torn {
                // The torn version is dropped: the change behind it has the whole sector.
                continue;
            }
            if let DiskChange::Sector(which, number, _) = pending.change {
                kept.retain(
                    |old| !matches!(old.change, DiskChange::Sector(w, n, _) if (w, n) == (which, number)),
                );
            }
            if pending.change == DiskChange::NoLog {
                kept.retain(|old| !old.change.is_of(Which::Log));
            }
            self.make_durable(pending.change);
        }
        self.pending = kept;
        self.written = self.pending.len();
    }

    /// Takes the log's name away, and drops the pending changes of the log.
    fn drop_log(&mut self) {
        self.orphan = self.view.log.take().unwrap_or_default();
        self.log_number += 1;
        self.pending.retain(|pending| !pending.change.is_of(Which::Log));
        self.written = self.written.min(self.pending.len());
    }
}

impl DiskChange {
    /// Returns whether this change may change the sector.
    fn is_in(&self, file: Which, sector: u32) -> bool {
        match self {
            DiskChange::Sector(which, number, _) => (*which, *number) == (file, sector),
            DiskChange::Length(..) => false,
            DiskChange::NewLog | DiskChange::NoLog => file == Which::Log,
        }
    }

    fn is_of(&self, file: Which) -> bool {
        match self {
            DiskChange::Sector(which, ..) | DiskChange::Length(which, _) => *which == file,
            DiskChange::NewLog | DiskChange::NoLog => file == Which::Log,
        }
    }
}

impl Disk for SimDisk {
    fn log_path(&self) -> PathBuf {
        "<simulated log>".into()
    }

    fn data(&self) -> Arc<dyn Storage> {
        Arc::new(SimFile::new(&self.state, Which::Data, 0))
    }

    fn open_log(&self) -> io::Result<Option<Arc<dyn Storage>>> {
        let mut state = self.lock();
        state.faults.check(Which::Log, Call::Open)?;
        let file = SimFile::new(&self.state, Which::Log, state.log_number);
        Ok(state.view.log.is_some().then(|| Arc::new(file) as Arc<dyn Storage>))
    }

    fn create_log(&self) -> io::Result<Arc<dyn Storage>> {
        let mut state = self.lock();
        state.faults.check(Which::Log, Call::Create)?;
        if state.view.log.is_some() {
            return Err(io::Error::from_raw_os_error(libc::EEXIST));
        }
        state.write(DiskChange::NewLog);
        state.point("creation of the log");
        // The pending changes of an older log, which has lost its name, do not concern the new one.
        state.pending.retain(|pending| !pending.change.is_of(Which::Log));
        state.make_durable(DiskChange::NewLog);
        state.written = state.pending.len();
        state.log_number += 1;
        Ok(Arc::new(SimFile::new(&self.state, Which::Log, state.log_number)))
    }

    fn find_log(&self, log: &dyn Storage) -> io::Result<()> {
        let state = self.lock();
        if state.view.log.is_none() {
            Err(io::Error::from_raw_os_error(libc::ENOENT))
        } else if log.id().inode == state.log_number {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(libc::EEXIST))
        }
    }

    fn keep_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn remove_log(&self, log: &dyn Storage) -> io::Result<()> {
        let mut state = self.lock();
        state.faults.check(Which::Log, Call::Remove)?;
        if state.view.log.is_none() || log.id().inode != state.log_number {
            return Ok(());
        }
        state.orphan = state.view.log.clone().unwrap_or_default();
        state.log_number += 1;
        state.write(DiskChange::NoLog);
        Ok(())
    }

    /// Returns the same number in each run of a program. It differs after each opening, because an opening
    /// changes the header, or the marks of the log.
    fn nonce(&self) -> io::Result<u64> {
        let state = self.lock();
        let start = |file: &[u8]| xxh3_64(&file[..file.len().min(HEADER_SIZE as usize)]);
        let log = state.view.log.as_deref().map_or(0, start);
        Ok(start(&state.view.data) ^ log.rotate_left(1) ^ state.copy | 1)
    }
}
