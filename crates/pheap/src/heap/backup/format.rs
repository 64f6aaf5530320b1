//! The format of a backup as a stream of bytes, written and read from front to back.
//!
//! The head is a line: [`MAGIC`], the version, the mode of the heap's file, zeros, and a checksum. Frames
//! follow. A frame is four words and its content:
//!
//! | word | |
//! |---|---|
//! | 0 | 1 pages, 2 records, 3 the end |
//! | 1 | offset of the pages; at the end, the bytes of the heap |
//! | 2 | bytes of the content |
//! | 3 | checksum of these words and the content, seeded with the checksum before |
//!
//! Pages that no frame writes to are zero. A record is an entry as in a [log](crate::log), of which only the
//! length and the ranges are used: its ranges are written over the content of the frames before it. The
//! content of the last frame is both slots of the heap's header.

use std::io::{self, Read, Write};
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::target::Target;
use crate::error::{Error, Result};
use crate::log::ranges;
use crate::os::cpu::{bytes, bytes_mut};
use crate::store::header::{FileStart, read as read_header};
use crate::units::{HEADER_SIZE, PAGE};
use crate::wal::stream::records;

/// First word of a backup. It is not text, so no text file is taken for a backup.
const MAGIC: u64 = u64::from_le_bytes(*b"\x89PHCOPY\n");
const VERSION: u64 = 1;
const HEAD_WORDS: usize = 8;
const FRAME_WORDS: usize = 4;
const PAGES: u64 = 1;
const RECORDS: u64 = 2;
const END: u64 = 3;
/// Largest number of bytes of content in a frame.
const MOST: usize = 1 << 20;

fn checksum(words: &[u64], content: &[u8], before: u64) -> u64 {
    xxh3_64_with_seed(content, xxh3_64_with_seed(bytes(words), before))
}

/// Writes a backup as a stream.
pub(super) struct Writer<W> {
    to: W,
    checksum: u64,
}

impl<W: Write> Writer<W> {
    pub(super) fn write_head(mut to: W, mode: u32) -> io::Result<Writer<W>> {
        let mut head = [MAGIC, VERSION, mode.into(), 0, 0, 0, 0, 0];
        head[HEAD_WORDS - 1] = checksum(&head[..HEAD_WORDS - 1], &[], 0);
        to.write_all(bytes(&head))?;
        Ok(Writer { to, checksum: head[HEAD_WORDS - 1] })
    }

    fn frame(&mut self, kind: u64, at: u64, content: &[u8]) -> io::Result<()> {
        let words = [kind, at, content.len() as u64];
        self.checksum = checksum(&words, content, self.checksum);
        self.to.write_all(bytes(&[words[0], words[1], words[2], self.checksum]))?;
        self.to.write_all(content)
    }
}

impl<W: Write> Target for Writer<W> {
    fn pages(&mut self, content: &[u8], at: u64) -> io::Result<()> {
        let places = (at..).step_by(MOST);
        content.chunks(MOST).zip(places).try_for_each(|(part, at)| self.frame(PAGES, at, part))
    }

    fn records(&mut self, words: &[u64]) -> io::Result<()> {
        let mut rest = words;
        while !rest.is_empty() {
            let mut len = 0;
            for record in records(rest) {
                if (len + record.len()) * 8 > MOST {
                    break;
                }
                len += record.len();
            }
            assert!(len > 0, "there are whole records");
            let (part, others) = rest.split_at(len);
            self.frame(RECORDS, 0, bytes(part))?;
            rest = others;
        }
        Ok(())
    }

    fn receive_headers(&mut self, headers: &[u8], mapped: u64) -> io::Result<()> {
        self.frame(END, mapped, headers)?;
        self.to.flush()
    }
}

/// Reads a backup from a stream.
pub(super) struct Reader<R> {
    from: R,
    checksum: u64,
    /// The permissions of the heap's file, from the head of the stream.
    pub(super) mode: u32,
}

fn error(e: io::Error) -> Error {
    Error::io("reading a backup", e)
}

impl<R: Read> Reader<R> {
    pub(super) fn read_head(mut from: R) -> Result<Reader<R>> {
        let mut head = [0; HEAD_WORDS];
        from.read_exact(bytes_mut(&mut head)).map_err(error)?;
        if head[0] != MAGIC {
            return Err(Error::corrupt(
                "the stream is not a backup that `Heap::backup_to` or `pheap backup` has written",
            ));
        }
        if head[1] != VERSION {
            return Err(Error::NewerFormat { found: head[1], supported: VERSION });
        }
        let sum = checksum(&head[..HEAD_WORDS - 1], &[], 0);
        if head[HEAD_WORDS - 1] != sum {
            return Err(damaged());
        }
        Ok(Reader { from, checksum: sum, mode: head[2] as u32 & 0o777 })
    }

    /// Reads the frames, and passes the heap in them to `to`. `explain` converts the errors of `to`.
    pub(super) fn copy(mut self, to: &mut dyn Target, explain: impl Fn(io::Error) -> Error) -> Result<()> {
        let mut content = Vec::new();
        let mut end = HEADER_SIZE;
        loop {
            let [kind, at, len] = self.frame(&mut content)?;
            match kind {
                PAGES if at >= HEADER_SIZE && (at | len).is_multiple_of(PAGE) => {
                    end = end.max(at.checked_add(len).ok_or_else(damaged)?);
                    to.pages(bytes(&content), at)
                }
                RECORDS => {
                    end = end.max(end_of_records(&content).ok_or_else(damaged)?);
                    to.records(&content)
                }
                END if len == HEADER_SIZE => {
                    let FileStart::Header(header) = read_header(bytes(&content), Path::new("a backup"))?
                    else {
                        return Err(damaged());
                    };
                    if header.mapped != at || at < end {
                        return Err(damaged());
                    }
                    return to.receive_headers(bytes(&content), at).map_err(explain);
                }
                _ => return Err(damaged()),
            }
            .map_err(&explain)?;
        }
    }

    /// Reads the next frame, and checks its checksum. Returns the frame's first three words; `content` gets
    /// the frame's content.
    fn frame(&mut self, content: &mut Vec<u64>) -> Result<[u64; 3]> {
        let mut words = [0; FRAME_WORDS];
        self.from.read_exact(bytes_mut(&mut words)).map_err(error)?;
        let [kind, at, len, sum] = words;
        if len > MOST as u64 || !len.is_multiple_of(8) {
            return Err(damaged());
        }
        content.resize(len as usize / 8, 0);
        self.from.read_exact(bytes_mut(content)).map_err(error)?;
        self.checksum = checksum(&words[..FRAME_WORDS - 1], bytes(content), self.checksum);
        if sum == self.checksum { Ok([kind, at, len]) } else { Err(damaged()) }
    }
}

fn damaged() -> Error {
    Error::corrupt("the backup is damaged")
}

/// Returns the end of the last byte that the records write to. Returns `None` if the records are not whole,
/// or write to the header.
fn end_of_records(words: &[u64]) -> Option<u64> {
    let whole: usize = records(words).map(<[u64]>::len).sum();
    let mut ranges = records(words).flat_map(ranges);
    let end = ranges.try_fold(0, |end, range| (range.offset >= HEADER_SIZE).then_some(end.max(range.end())));
    end.filter(|_| whole == words.len())
}
