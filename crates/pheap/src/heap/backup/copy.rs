//! Reads the content of a heap for a backup: during transactions, if the heap has a write-ahead log, or while
//! transactions wait.

use std::io;
use std::sync::Arc;

use super::target::{Target, unless_zero};
use crate::error::{Error, Result};
use crate::heap::HeapInner;
use crate::heap::memory::QuiescentHeap;
use crate::log::head;
use crate::region::guard::{Scope, ScopeGuard};
use crate::store::Tables;
use crate::store::arena::Arena;
use crate::store::header::{Header, HeapUse};
use crate::units::{HEADER_SIZE, PAGE};
use crate::wal::Wal;
use crate::wal::stream::{MakeSpillFile, RecordStream};

/// Bytes of the heap that are read at a time.
const CHUNK: u64 = 1 << 20;

/// Copies a heap to a target.
pub(super) struct Copier<'a> {
    heap: &'a HeapInner,
    to: &'a mut dyn Target,
    /// Converts an error of the target `to`.
    explain: &'a dyn Fn(io::Error) -> Error,
    progress: &'a mut dyn FnMut(u64, u64),
    done: u64,
    total: u64,
}

impl<'a> Copier<'a> {
    pub(super) fn new(
        heap: &'a HeapInner,
        to: &'a mut dyn Target,
        explain: &'a dyn Fn(io::Error) -> Error,
        progress: &'a mut dyn FnMut(u64, u64),
    ) -> Copier<'a> {
        Copier { heap, to, explain, progress, done: 0, total: 0 }
    }

    /// Copies the heap. `spill` makes a file for records that transactions append during the copy, if they
    /// are too many for memory.
    pub(super) fn copy(mut self, spill: MakeSpillFile) -> Result<()> {
        match self.heap.wal() {
            // If the heap's file was removed, its log is about to fail, so the copy is made from the mapping.
            Some(wal) if self.heap.check_named().is_ok() => self.copy_beside(wal, spill)?,
            _ => self.copy_still()?,
        }
        let all = self.total.max(self.done);
        (self.progress)(all, all);
        self.heap.check_not_forked() // the program may have forked in `progress`
    }

    /// Copies the heap while no transaction is open.
    fn copy_still(&mut self) -> Result<()> {
        let still = self.heap.still()?;
        self.total = {
            let tables = still.tables();
            tables.header.mapped - HEADER_SIZE - tables.pages.total()
        };
        self.copy_pages_of(&still)?;
        let header = still.tables().header.clone();
        self.send_headers(&header)
    }

    /// Copies the pages that are in use. In the copy, all other pages are zero.
    fn copy_pages_of(&mut self, still: &QuiescentHeap<'_>) -> Result<()> {
        let map = still.map()?;
        let own = |arena: &Arena| (arena.start.max(HEADER_SIZE), arena.first_free());
        let own: Vec<_> = still.tables().arenas.iter().map(own).collect();
        let spans = map.spans.iter().map(|span| (span.offset, span.offset + span.pages * PAGE));
        for (start, end) in own.into_iter().chain(spans) {
            for at in (start..end).step_by(CHUNK as usize) {
                self.pages(map.bytes(at, (end - at).min(CHUNK)), at)?;
            }
        }
        Ok(())
    }

    /// Copies the file of a heap with a log during transactions, with the records that checkpoints write to
    /// it during the copy: see [`stream`](crate::wal::stream).
    fn copy_beside(&mut self, wal: &Arc<Wal>, spill: MakeSpillFile) -> Result<()> {
        let heap = self.heap;
        heap.check_open()?;
        let _entered = ScopeGuard::new(heap.id(), Scope::Copy)?;
        // Only `close` locks `copies` exclusively. This thread does not wait for it: the closing thread may
        // wait for another copy, which may wait for this one. SURVIVES unreached: no backup is made in the
        // lab.
        let _not_closed = heap.copies.try_read().ok_or(Error::Closed)?;
        heap.check_open()?;
        let records = heap.note_failure(wal.stream(spill))?;
        // The number of arenas is read after the stream of records has begun: all content of later arenas,
        // except their heads, is in records of the stream. SURVIVES unreached: the crash lab makes no backup.
        let mut arenas = heap.tables.lock().arenas.len();
        // The tables are locked for one arena at a time, so that no thread waits for long. SURVIVES
        // unreached: no backup is made in the lab.
        let used = (0..arenas).flat_map(|number| used_ranges(&heap.tables.lock(), number));
        let used: Vec<_> = used.collect();
        self.total = used.iter().map(|(start, end)| end - start).sum();
        for (start, end) in used {
            for at in (start..end).step_by(CHUNK as usize) {
                self.copy_range(wal, at, (end - at).min(CHUNK))?;
                self.to.pace().map_err(self.explain)?;
                // Only one batch of records is copied here, because transactions may append records faster
                // than this thread copies them.
                self.copy_records(&records, &mut arenas)?;
            }
        }
        // The copied pages may have a part of a checkpoint that is not complete. And a page that was free
        // when `used` was computed was not copied, so the stream must have the record that has freed that
        // page. After this checkpoint, the stream has all these records.
        heap.note_failure(wal.checkpoint(|| {}))?;
        records.end_stream();
        while self.copy_records(&records, &mut arenas)? {}
        let header = self.copy_arenas(&mut arenas)?;
        self.send_headers(&header)
    }

    /// Copies a range of the heap's file.
    fn copy_range(&mut self, wal: &Wal, at: u64, len: u64) -> Result<()> {
        // If the log has failed, the copy would fail at its end, so it fails here.
        self.heap.note_failure(wal.may_write())?;
        let error = |e| Error::io("reading the heap's file", e);
        let data = wal.data();
        if data.data_from(at).map_err(error)?.is_none_or(|data| data >= at + len) {
            return self.count(len);
        }
        let mut bytes = vec![0; len as usize];
        // If the file ends within the range, the rest of the buffer stays zero.
        data.read_up_to(&mut bytes, at).map_err(error)?;
        self.pages(&bytes, at)
    }

    /// Copies the next batch of records. Returns `false` if there is none.
    fn copy_records(&mut self, records: &RecordStream, arenas: &mut usize) -> Result<bool> {
        let words = records.take_records().map_err(self.explain)?;
        // Records that wait in the stream count in the total, because they will be copied.
        self.total += records.news();
        if words.is_empty() {
            return Ok(false);
        }
        // New arenas come before the records that write to them.
        self.copy_arenas(arenas)?;
        self.to.records(&words).map_err(self.explain)?;
        self.count(words.len() as u64 * 8)?;
        Ok(true)
    }

    /// Copies the heads of new arenas, which no record has. Returns a header that knows these arenas, and no
    /// later ones.
    fn copy_arenas(&mut self, known: &mut usize) -> Result<Header> {
        let mut words = Vec::new();
        // SURVIVES unreached: the crash lab makes no backup.
        let tables = self.heap.tables.lock();
        for arena in &tables.arenas[*known..] {
            let (at, head_of_arena) = Arena::new(arena.start, arena.size).first_words(tables.header.salt);
            words.extend([0, head_of_arena.len() as u64 + 3, head(at, head_of_arena.len())]);
            words.extend(head_of_arena);
        }
        *known = tables.arenas.len();
        let header = tables.header.clone();
        drop(tables);
        if !words.is_empty() {
            self.to.records(&words).map_err(self.explain)?;
        }
        Ok(header)
    }

    fn pages(&mut self, bytes: &[u8], at: u64) -> Result<()> {
        unless_zero(bytes, at, |bytes, at| self.to.pages(bytes, at)).map_err(self.explain)?;
        self.count(bytes.len() as u64)
    }

    fn count(&mut self, bytes: u64) -> Result<()> {
        self.done += bytes;
        self.total = self.total.max(self.done);
        (self.progress)(self.done, self.total);
        self.heap.check_not_forked() // the program may have forked in `progress`
    }

    fn send_headers(&mut self, header: &Header) -> Result<()> {
        // The copy names no bitmaps of live slots, because the pages that have them count as free; opening
        // the copy finds out which slots are live. It names no log either: if it is moved to the heap's
        // place, it must not take the heap's log for a leftover log.
        let mut header =
            Header { in_use: HeapUse::Closed, live_slots: (0, 0), log_nonce: 0, ..header.clone() };
        let mut bytes = vec![0; HEADER_SIZE as usize];
        // Both slots of the header say closed: if one is damaged later, the other must not say that the heap
        // was in use.
        for _ in 0..2 {
            header.sequence += 1;
            let slot = header.to_bytes();
            bytes[header.slot_number() * PAGE as usize..][..slot.len()].copy_from_slice(&slot);
        }
        self.to.receive_headers(&bytes, header.mapped).map_err(self.explain)
    }
}

/// Returns the ranges of an arena's pages that are not free.
fn used_ranges(tables: &Tables, arena: usize) -> Vec<(u64, u64)> {
    let Arena { start, size, .. } = tables.arenas[arena];
    let (mut at, mut used) = (start.max(HEADER_SIZE), Vec::new());
    for (free, len) in tables.pages.runs_in(start..start + size).chain([(start + size, 0)]) {
        if at < free {
            used.push((at, free));
        }
        at = free + len;
    }
    used
}
