//! A file of a simulated disk.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use xxhash_rust::xxh3::xxh3_64;

use super::{Call, DiskChange, DiskState, SECTOR, Which, lock};
use crate::os::cpu::bytes;
use crate::os::reservation::MappedWords;
use crate::os::storage::{FileId, Storage, write_all};
use crate::sync::step;
use crate::units::{HEADER_SIZE, PAGE};

/// Returns a torn version of the sector `number`: some of the words in which `new` differs from `old`, and
/// the other words of `old`. The words are the same in each run. Returns `None` if fewer than two words
/// differ.
fn torn(number: u32, old: &[u8; SECTOR], new: &[u8; SECTOR]) -> Option<[u8; SECTOR]> {
    let differs = |word: &usize| old[word * 8..][..8] != new[word * 8..][..8];
    let words: Vec<usize> = (0..SECTOR / 8).filter(differs).collect();
    if words.len() < 2 {
        return None;
    }
    let mut bits = xxh3_64(new) ^ u64::from(number);
    if (0..words.len()).all(|i| bits >> i & 1 == 1) || (0..words.len()).all(|i| bits >> i & 1 == 0) {
        bits ^= 1;
    }
    let mut torn = *old;
    for (i, word) in words.into_iter().enumerate() {
        if bits >> i & 1 == 1 {
            torn[word * 8..][..8].copy_from_slice(&new[word * 8..][..8]);
        }
    }
    Some(torn)
}

/// Returns the sectors of `copy` that differ from those of `file`, as ranges of bytes. Bytes behind the end
/// of `file` count as zeros.
fn different_sectors(file: &[u8], copy: &[u8]) -> Vec<std::ops::Range<usize>> {
    let sector = |at| at..copy.len().min(at + SECTOR);
    let differs = |sector: &std::ops::Range<usize>| {
        let old = &file[sector.start.min(file.len())..sector.end.min(file.len())];
        let (same, new) = copy[sector.clone()].split_at(old.len());
        same != old || new.iter().any(|&byte| byte != 0)
    };
    (0..copy.len()).step_by(SECTOR).map(sector).filter(differs).collect()
}

/// An open file of a simulated disk.
#[derive(Debug)]
pub(super) struct SimFile {
    pub(super) state: Arc<Mutex<DiskState>>,
    pub(super) which: Which,
    /// Number of the log, if this file is one.
    number: u64,
    /// The memory of the heap that has this file mapped: a copy of the file, to which the heap stores.
    copy: Mutex<Option<MappedWords>>,
}

impl SimFile {
    pub(super) fn new(state: &Arc<Mutex<DiskState>>, which: Which, number: u64) -> SimFile {
        SimFile { state: state.clone(), which, number, copy: Mutex::default() }
    }

    fn has_name(&self, state: &DiskState) -> bool {
        self.which == Which::Data || (self.number == state.log_number && state.view.log.is_some())
    }

    fn bytes<'s>(&self, state: &'s DiskState) -> &'s [u8] {
        match self.which {
            Which::Data => &state.view.data,
            Which::Log if self.has_name(state) => state.view.log.as_deref().unwrap_or_default(),
            Which::Log => &state.orphan,
        }
    }

    fn write(&self, mut state: MutexGuard<'_, DiskState>, bytes: &[u8], at: u64) -> io::Result<()> {
        let (len, at) = (bytes.len(), at as usize);
        if !self.has_name(&state) {
            let end = state.orphan.len().max(at + len);
            state.orphan.resize(end, 0);
            state.orphan[at..at + len].copy_from_slice(bytes);
            return Ok(());
        }
        for number in at / SECTOR..(at + len).div_ceil(SECTOR) {
            let start = number * SECTOR;
            let mut sector = [0; SECTOR];
            let old = self.bytes(&state);
            if let Some(old) = old.get(start..old.len().min(start + SECTOR)) {
                sector[..old.len()].copy_from_slice(old);
            }
            let before = sector;
            let (from, to) = (at.max(start), (at + len).min(start + SECTOR));
            sector[from - start..to - start].copy_from_slice(&bytes[from - at..to - at]);
            if sector == before && state.is_durable(self.which, number as u32, &sector) {
                continue;
            }
            let is_header = (number * SECTOR).is_multiple_of(PAGE as usize) && start < HEADER_SIZE as usize;
            if state.tears
                && (self.which == Which::Log || is_header)
                && let Some(torn) = torn(number as u32, &before, &sector)
            {
                state.write_torn(self.which, number as u32, torn);
            }
            state.write(DiskChange::Sector(self.which, number as u32, Arc::new(sector)));
        }
        if let Some((which, number)) = state.sync_owed.take() {
            drop(state);
            SimFile::new(&self.state, which, number).sync_now()?;
        }
        Ok(())
    }
}

impl SimFile {
    /// Writes zeros to all sectors that begin at byte `from` or behind it, and are not zero yet.
    fn forget_behind(&self, state: &mut DiskState, from: u64) {
        let bytes = self.bytes(state);
        let behind = bytes[bytes.len().min(from.next_multiple_of(SECTOR as u64) as usize)..].to_vec();
        let first = from.div_ceil(SECTOR as u64) as u32;
        for (number, _) in (first..).zip(behind.chunks(SECTOR)).filter(|(_, old)| old.iter().any(|&b| b != 0))
        {
            state.write(DiskChange::Sector(self.which, number, Arc::new([0; SECTOR])));
        }
    }
}

impl Storage for SimFile {
    fn read_some(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        let mut state = lock(&self.state);
        state.faults.check(self.which, Call::Read)?;
        let bytes = self.bytes(&state);
        let rest = &bytes[bytes.len().min(at as usize)..];
        let n = rest.len().min(buf.len());
        buf[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }

    fn write_some(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        step("write");
        let mut state = lock(&self.state);
        state.faults.check(self.which, Call::Write)?;
        let len = state.faults.shorten(bytes.len());
        self.write(state, &bytes[..len], at)?;
        Ok(len)
    }

    fn punch(&self, at: u64, len: u64) -> io::Result<()> {
        step("punch a hole");
        let mut state = lock(&self.state);
        state.faults.check(self.which, Call::Write)?;
        self.write(state, &vec![0; len as usize], at)
    }

    fn unpunch(&self, _: u64, _: u64) -> io::Result<()> {
        step("fill a hole");
        lock(&self.state).faults.check(self.which, Call::Extend)
    }

    fn write_late(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        lock(&self.state).writes_late = true;
        let written = self.write_some(bytes, at);
        lock(&self.state).writes_late = false;
        written
    }

    fn sync_late(&self) -> io::Result<()> {
        lock(&self.state).sync_owed = Some((self.which, self.number));
        Ok(())
    }

    fn sync_now(&self) -> io::Result<()> {
        step("sync");
        // This sync does not cover writes from here on.
        let until = lock(&self.state).writes;
        step("end of a sync");
        let amid = lock(&self.state).amid.0.take_if(|(which, _)| *which == self.which);
        if let Some((_, what)) = amid {
            what();
        }
        let mut state = lock(&self.state);
        if !self.has_name(&state) {
            return state.faults.check(self.which, Call::Datasync);
        }
        state.point(match self.which {
            Which::Data => "sync of the file",
            Which::Log => "sync of the log",
        });
        if let Err(error) = state.faults.check(self.which, Call::Datasync) {
            let of_this = state.pending.iter_mut().filter(|pending| pending.change.is_of(self.which));
            of_this.for_each(|pending| pending.limbo |= matches!(pending.change, DiskChange::Sector(..)));
            return Err(error);
        }
        let which = self.which;
        state.make_all_durable(until, |change| change.is_of(which) || *change == DiskChange::NoLog);
        Ok(())
    }

    fn set_copy(&self, copy: MappedWords) {
        *self.copy.lock().expect("nothing panics with it") = Some(copy);
    }

    /// Writes the sectors of the heap's memory that differ from the file. If a write fails, some of them may
    /// have been written.
    fn write_copy(&self) -> io::Result<()> {
        let copy = *self.copy.lock().expect("nothing panics with it");
        let Some(copy) = copy.as_ref().map(|copy| bytes(copy.as_slice())) else { return Ok(()) };
        let differing = different_sectors(self.bytes(&lock(&self.state)), copy);
        differing.into_iter().try_for_each(|sector| {
            let at = sector.start as u64;
            write_all(&copy[sector], at, |bytes, at| self.write_some(bytes, at))
        })
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes(&lock(&self.state)).len() as u64)
    }

    /// Writes zeros behind `to`, and keeps the file's length, because a disk may keep any part of the old
    /// content for a while.
    fn cut_off(&self, to: u64) -> io::Result<()> {
        let mut state = lock(&self.state);
        if self.has_name(&state) {
            self.forget_behind(&mut state, to);
        }
        Ok(())
    }

    fn extend_now(&self, from: u64, to: u64) -> io::Result<()> {
        step("extend");
        let mut state = lock(&self.state);
        state.faults.check(self.which, Call::Extend)?;
        let len = self.bytes(&state).len() as u64;
        assert!(from <= len && from <= to, "a file is extended from where it ends");
        if !self.has_name(&state) {
            state.orphan.resize(to as usize, 0);
            return Ok(());
        }
        // The caller takes `from` for the end of the file, so content behind it is not kept.
        self.forget_behind(&mut state, from);
        let half = (from + (to - from) / 2).next_multiple_of(SECTOR as u64);
        state.write(DiskChange::Length(self.which, half));
        state.write(DiskChange::Length(self.which, to));
        Ok(())
    }

    fn map(&self, _: u64) -> bool {
        // A simulated file need not be mapped: each write to it is cheap.
        true
    }

    fn id(&self) -> FileId {
        FileId { device: self.which as u64, inode: self.number }
    }
}
