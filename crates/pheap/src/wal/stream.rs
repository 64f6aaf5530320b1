//! Records as checkpoints bring them to the heap's file, for a backup that copies the file at the same time.
//!
//! Pages that are copied while checkpoints write them may be torn, and are of different moments. The records
//! that checkpoints bring to the file, from before the first page is read until after the last, repair them.
//! Written over the copied pages in order, they leave the state at the end of the last record. This rests on
//! three rules:
//!
//! 1. A stream begins while no checkpoint is at work, and has all records that the file does not have then.
//!    So a word that no record of the stream covers is in the file, and stays as it is.
//! 2. The stream hands out records when the file has them. So a page that is read afterwards has these
//!    records, or newer words, which a later record covers. A page that was read before gets them written
//!    over it.
//! 3. A stream ends while no checkpoint is at work, after the last page was read. So no page has anything of
//!    a record that is not in the stream.
//!
//! No thread waits for the thread that copies the file. Records that the copying thread has not taken yet are
//! kept in memory, and in a file when they are many.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::Wal;
use super::format::RecordVisitor;
use crate::error::Result;
use crate::os::check_file_size;
use crate::os::cpu::{bytes, bytes_mut};
use crate::sync::{Mistake, Mutex, mistake};

/// Most words of records that a stream keeps in memory (8 MiB). A checkpoint may add all records of a log at
/// once.
pub(super) const MOST: usize = 8 << 20 >> 3;
/// Most words that are read from the spill file at once. No record is as long.
const CHUNK: u64 = 1 << 20 >> 3;

/// Makes a file for records that do not fit into memory.
pub(crate) type MakeSpillFile = Box<dyn Fn() -> io::Result<File> + Send>;

/// A stream of the records that checkpoints bring to the heap's file, from the beginning of the stream on.
#[derive(Debug)]
pub(crate) struct RecordStream {
    wal: Arc<Wal>,
    queue: Arc<StreamQueue>,
}

impl Wal {
    /// Begins a stream of the records that the heap's file does not have.
    ///
    /// # Errors
    /// The failure of the log.
    pub(crate) fn stream(self: &Arc<Wal>, spill: MakeSpillFile) -> Result<RecordStream> {
        self.stream_with(spill, MOST)
    }

    /// Begins a stream, as [`stream`](Self::stream) does, that keeps at most `most` words in memory.
    pub(super) fn stream_with(self: &Arc<Wal>, spill: MakeSpillFile, most: usize) -> Result<RecordStream> {
        self.may_write()?;
        let queue = Arc::new(StreamQueue(Mutex::new(QueuedRecords::new(spill, most))));
        // SURVIVES unreached: no program of the crash lab makes a backup. `stream_tests.rs` and a model test
        // streams.
        self.folded.lock().streams.push(queue.clone());
        Ok(RecordStream { wal: self.clone(), queue })
    }
}

impl RecordStream {
    /// Takes some of the next records that the heap's file has: whole records, in order, one behind the
    /// other. Returns an empty vector if there are none.
    ///
    /// # Errors
    /// The error that has kept records from being stored in the stream: all later calls fail, too. Or an
    /// error of the spill file.
    pub(crate) fn take_records(&self) -> io::Result<Vec<u64>> {
        // SURVIVES unreached: no program of the crash lab makes a backup, so none takes this lock.
        self.queue.0.lock().take_records()
    }

    /// Returns the bytes of records that were added since the last call, whether they can be taken yet or
    /// not.
    pub(crate) fn news(&self) -> u64 {
        // SURVIVES unreached: no program of the crash lab makes a backup, so none takes this lock.
        std::mem::take(&mut self.queue.0.lock().news) * 8
    }

    /// Ends the stream, once no checkpoint is at work. Published records can still be
    /// [taken](Self::take_records).
    pub(crate) fn end_stream(&self) {
        // SURVIVES unreached: no program of the crash lab makes a backup, so none takes this lock.
        self.wal.folded.lock().streams.retain(|queue| !Arc::ptr_eq(queue, &self.queue));
    }
}

impl Drop for RecordStream {
    fn drop(&mut self) {
        if self.wal.process.is_parent() {
            self.wal.leave();
        } else {
            self.end_stream();
        }
    }
}

/// The records of one stream.
#[derive(Debug)]
pub(super) struct StreamQueue(Mutex<QueuedRecords>);

impl StreamQueue {
    /// Adds a record that is about to be written to the heap's file.
    pub(super) fn add(&self, record: &[u64]) {
        // SURVIVES unreached: no program of the crash lab makes a backup, so none takes this lock.
        let mut queued = self.0.lock();
        queued.add(record);
        if mistake(Mistake::StreamAhead) {
            queued.publish();
        }
    }

    /// Makes all added records available to the stream, because the heap's file has them now.
    pub(super) fn publish(&self) {
        // SURVIVES unreached: no program of the crash lab makes a backup, so none takes this lock.
        self.0.lock().publish();
    }
}

/// Returns the whole records at the beginning of `words`. The iterator ends before an incomplete record.
pub(crate) fn records(words: &[u64]) -> impl Iterator<Item = &[u64]> {
    let mut rest = words;
    std::iter::from_fn(move || {
        let len = *rest.get(1)? as u32 as usize;
        let (record, others) = rest.split_at_checked(len.max(2))?;
        rest = others;
        Some(record)
    })
}

/// Records that wait to be taken. Positions are counted in words, from the first word of the spill file.
pub(super) struct QueuedRecords {
    /// The spill file, with the oldest records, once there were too many for memory; and the number of words
    /// in it.
    file: Option<File>,
    spilled: u64,
    /// The records in memory, which come behind those in the spill file.
    words: Vec<u64>,
    /// `taken` is the position up to which records were taken; up to `ready` they may be taken.
    taken: u64,
    ready: u64,
    /// Words that were added since [`news`](RecordStream::news) was last called.
    news: u64,
    /// Number of words above which the records in memory are written to the spill file.
    most: usize,
    spill: MakeSpillFile,
    failure: Option<io::Error>,
}

impl std::fmt::Debug for QueuedRecords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queued").finish_non_exhaustive()
    }
}

impl QueuedRecords {
    pub(super) fn new(spill: MakeSpillFile, most: usize) -> QueuedRecords {
        let (words, failure) = (Vec::new(), None);
        QueuedRecords { file: None, spilled: 0, words, taken: 0, ready: 0, news: 0, most, spill, failure }
    }

    fn add(&mut self, record: &[u64]) {
        if self.failure.is_some() {
            return;
        }
        self.words.extend_from_slice(record);
        self.news += record.len() as u64;
        if self.words.len() > self.most
            && let Err(e) = self.write()
        {
            // The checkpoint does not fail because of this error. The next call of `take_records` returns it.
            self.failure = Some(e);
            self.words = Vec::new();
        }
    }

    /// Appends the words in memory to the spill file. The file is not synced, because it need not survive a
    /// crash.
    fn write(&mut self) -> io::Result<()> {
        let file = match &self.file {
            Some(file) => file,
            None => &*self.file.insert((self.spill)()?),
        };
        check_file_size((self.spilled + self.words.len() as u64) * 8)?;
        file.write_all_at(bytes(&self.words), self.spilled * 8)?;
        self.spilled += self.words.len() as u64;
        self.words.clear();
        Ok(())
    }

    /// Makes all added records available to `take_records`.
    fn publish(&mut self) {
        self.ready = self.spilled + self.words.len() as u64;
    }

    /// Takes some of the published records. Returns an empty vector if there are none.
    pub(super) fn take_records(&mut self) -> io::Result<Vec<u64>> {
        if let Some(e) = &self.failure {
            return Err(e.raw_os_error().map_or_else(|| e.kind().into(), io::Error::from_raw_os_error));
        }
        let from_file = self.ready.min(self.spilled).min(self.taken + CHUNK);
        if self.taken < from_file {
            let file = self.file.as_ref().expect("words were written to it");
            let mut words = vec![0; (from_file - self.taken) as usize];
            file.read_exact_at(bytes_mut(&mut words), self.taken * 8)?;
            words.truncate(records(&words).map(<[u64]>::len).sum());
            self.taken += words.len() as u64;
            return Ok(words);
        }
        let ready = self.ready.saturating_sub(self.spilled) as usize;
        if ready == 0 {
            return Ok(Vec::new());
        }
        // All words of the spill file were taken, so the file is emptied.
        if let Some(file) = &self.file {
            file.set_len(0)?;
        }
        (self.spilled, self.taken, self.ready) = (0, 0, 0);
        let others = self.words.split_off(ready);
        Ok(std::mem::replace(&mut self.words, others))
    }
}

/// Collects the records that a follower reads from a log. The follower takes them when it has read all.
impl RecordVisitor for QueuedRecords {
    fn add(&mut self, record: &[u64]) {
        QueuedRecords::add(self, record);
    }

    fn complete(&mut self) {
        self.publish();
    }

    fn discard_incomplete(&mut self) {
        self.words.truncate(self.ready.saturating_sub(self.spilled) as usize);
        self.spilled = self.spilled.min(self.ready);
    }
}
