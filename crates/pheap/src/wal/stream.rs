//! Records as checkpoints bring them to the heap's file, for whoever copies that file meanwhile.
//!
//! Pages that are copied while checkpoints write them are of different moments, or torn. Records repair them: all that were brought to the file from before the first page was read until after
//! the last one. Written over the copied pages, in their order, they leave the state at the end of the last of them. That rests on three rules:
//!
//! 1. A stream begins while no checkpoint is at work, and has all records behind what the file has then. So what no record of the stream covers is in the file, and stays as it is.
//! 2. Records are handed out when the file has them. So a page that is read after that has them, or newer words, which a later record covers; and over a page that was read before,
//!    they are written.
//! 3. A stream ends while no checkpoint is at work, after the last page was read. So no page has anything of a record that is not in the stream.
//!
//! Nobody waits for who takes the records. What was not taken yet is kept in memory, and in a file when it is much.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::Wal;
use super::format::Reader;
use crate::error::Result;
use crate::os::check_file_size;
use crate::os::cpu::{bytes, bytes_mut};
use crate::sync::{Mistake, Mutex, mistake};

/// Words that are kept in memory. A checkpoint may hand out all that is in a log at once.
pub(super) const MOST: usize = 8 << 20 >> 3;
/// Words that are read from the file at once: more than a record has.
const CHUNK: u64 = 1 << 20 >> 3;

/// Makes a file for what is too much for memory.
pub(crate) type Spill = Box<dyn Fn() -> io::Result<File> + Send>;

/// The records of a log, from where it began on.
#[derive(Debug)]
pub(crate) struct Stream {
    wal: Arc<Wal>,
    queue: Arc<Queue>,
}

impl Wal {
    /// Begins a stream of the records that the heap's file does not have.
    ///
    /// # Errors
    /// That the log has failed.
    pub(crate) fn stream(self: &Arc<Wal>, spill: Spill) -> Result<Stream> {
        self.stream_with(spill, MOST)
    }

    /// [`stream`](Self::stream), with so many words in memory.
    pub(super) fn stream_with(self: &Arc<Wal>, spill: Spill, most: usize) -> Result<Stream> {
        self.may_write()?;
        let queue = Arc::new(Queue(Mutex::new(Queued::new(spill, most))));
        // SURVIVES unreached: no backup is made in the lab. The tests below are for this.
        self.folded.lock().streams.push(queue.clone());
        Ok(Stream { wal: self.clone(), queue })
    }
}

impl Stream {
    /// Takes the next records that the heap's file has: whole ones, in order, one behind the other. None if it has no more.
    ///
    /// # Errors
    /// That they could not be kept. There are no others then.
    pub(crate) fn take(&self) -> io::Result<Vec<u64>> {
        // SURVIVES unreached: as above.
        self.queue.0.lock().take()
    }

    /// How many bytes of records have come since this was last asked, to be taken now or later.
    pub(crate) fn news(&self) -> u64 {
        // SURVIVES unreached: as above.
        std::mem::take(&mut self.queue.0.lock().news) * 8
    }

    /// Ends the stream, once no checkpoint is at work. What was not [taken](Self::take) is still there.
    pub(crate) fn end(&self) {
        // SURVIVES unreached: as above.
        self.wal.folded.lock().streams.retain(|queue| !Arc::ptr_eq(queue, &self.queue));
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.wal.process.is_parent() {
            self.wal.leave();
        } else {
            self.end();
        }
    }
}

/// What a checkpoint has for a stream.
#[derive(Debug)]
pub(super) struct Queue(Mutex<Queued>);

impl Queue {
    /// Adds a record, which is about to be written to the heap's file.
    pub(super) fn add(&self, record: &[u64]) {
        // SURVIVES unreached: no backup is made in the lab.
        let mut queued = self.0.lock();
        queued.add(record);
        if mistake(Mistake::StreamAhead) {
            queued.publish();
        }
    }

    /// The heap's file has all that was added.
    pub(super) fn publish(&self) {
        // SURVIVES unreached: as above.
        self.0.lock().publish();
    }
}

/// Whole records of a sequence of them, up to what is none.
pub(crate) fn records(words: &[u64]) -> impl Iterator<Item = &[u64]> {
    let mut rest = words;
    std::iter::from_fn(move || {
        let len = *rest.get(1)? as u32 as usize;
        let (record, others) = rest.split_at_checked(len.max(2))?;
        rest = others;
        Some(record)
    })
}

/// Records that wait. Words are counted from the beginning of the file.
pub(super) struct Queued {
    /// The oldest ones, as far as they were too many.
    file: Option<File>,
    spilled: u64,
    /// All others.
    words: Vec<u64>,
    /// How many were taken, and how many may be.
    taken: u64,
    ready: u64,
    /// How many were added that nobody was [told](Stream::news) of.
    news: u64,
    most: usize,
    spill: Spill,
    failure: Option<io::Error>,
}

impl std::fmt::Debug for Queued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queued").finish_non_exhaustive()
    }
}

impl Queued {
    pub(super) fn new(spill: Spill, most: usize) -> Queued {
        let (words, failure) = (Vec::new(), None);
        Queued { file: None, spilled: 0, words, taken: 0, ready: 0, news: 0, most, spill, failure }
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
            // Who makes a checkpoint has no use for it.
            self.failure = Some(e);
            self.words = Vec::new();
        }
    }

    /// Brings what is in memory to the file. It need not survive anything.
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

    fn publish(&mut self) {
        self.ready = self.spilled + self.words.len() as u64;
    }

    /// Takes some of the records that were published, or none if there are no more.
    pub(super) fn take(&mut self) -> io::Result<Vec<u64>> {
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
        // All of the file was taken, so it can be used again.
        if let Some(file) = &self.file {
            file.set_len(0)?;
        }
        (self.spilled, self.taken, self.ready) = (0, 0, 0);
        let others = self.words.split_off(ready);
        Ok(std::mem::replace(&mut self.words, others))
    }
}

/// A follower takes the records when it has read all of them.
impl Reader for Queued {
    fn add(&mut self, record: &[u64]) {
        Queued::add(self, record);
    }

    fn complete(&mut self) {
        self.publish();
    }

    fn cut(&mut self) {
        self.words.truncate(self.ready.saturating_sub(self.spilled) as usize);
        self.spilled = self.spilled.min(self.ready);
    }
}
