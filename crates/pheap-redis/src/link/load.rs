//! Loads all data of a master: an RDB file, which is loaded as it comes.
//!
//! The old data are removed after the beginning of the file has shown a known version. From then on, most
//! commands of clients get the error `LOADING` until the data are complete, or the transfer has failed and
//! the incomplete data are removed. The heap also records that its data are incomplete. If the process ends
//! before they are complete or removed, the next start removes them.

use std::io::Read;

use super::LinkLost;
use super::stream::Follower;
use super::wire::Wire;
use crate::copies::import::ImportBatch;
use crate::data::Position;
use crate::execute::Note;
use crate::rdb::{self, FilePart, FileReader};
use crate::text::words::{self, lossy};

/// Bytes of the mark that ends a file of unknown length.
const MARK: usize = 40;

/// How the end of the transferred file is recognised.
enum FileEnd {
    /// The file has this many bytes.
    Size(u64),
    /// The file ends where these bytes follow it.
    Mark(Vec<u8>),
}

impl Follower<'_> {
    /// Replaces the data by those of a master. The stream goes on at `position` behind them.
    pub(super) fn load(&mut self, wire: &mut Wire<'_>, position: Position) -> Result<(), LinkLost> {
        let end = read_announcement(wire)?;
        let size = match end {
            FileEnd::Size(size) => Some(size),
            FileEnd::Mark(_) => None,
        };
        wire.expect_data(Some(size));
        let file = FileReader::new(&mut *wire, size.unwrap_or(u64::MAX));
        let mut file = match file {
            Ok(file) => file,
            Err(error) => return Err(wire.take_lost().unwrap_or(LinkLost::Data { at: 0, error })),
        };
        let flush = [vec![b"FLUSHALL".to_vec()], vec![b"FUNCTION".to_vec(), b"FLUSH".to_vec()]];
        self.run(&flush, Note::Begin)?;
        let result = self.load_parts(&mut file);
        let at = file.position();
        let result = match result {
            // An error of the connection is returned instead, because it says more than the failed read.
            Err(lost) => Err(wire.take_lost().unwrap_or(lost)),
            Ok(()) => end.check_complete(wire, at),
        };
        wire.expect_data(None);
        if let Err(lost) = result {
            // If the removal fails too, the next transfer or the next start removes the data.
            self.run(&flush, Note::Nothing)?;
            return Err(lost);
        }
        self.run(&[], Note::Complete(position))?;
        let server = self.server();
        server.memory.count(&server.store);
        Ok(())
    }

    /// Stores all parts of the file in the heap.
    fn load_parts(&mut self, file: &mut FileReader<&mut Wire<'_>>) -> Result<(), LinkLost> {
        let server = self.server();
        let mut batch = ImportBatch::new(&server.store, &server.clocks);
        loop {
            let part = file.next_part().map_err(|error| LinkLost::Data { at: file.position(), error })?;
            match part {
                None => break,
                // Expired keys are stored, too, because the master sends a command when it removes them.
                Some(FilePart::Entry(entry)) => batch.add(entry, file.position())?,
                Some(FilePart::Library(text)) => {
                    let load = [&b"FUNCTION"[..], b"LOAD", b"REPLACE"].map(<[u8]>::to_vec);
                    let words = load.into_iter().chain([text]).collect();
                    self.run(&[words], Note::Begin)?;
                }
            }
        }
        Ok(batch.flush()?)
    }
}

impl FileEnd {
    /// Checks that a file of `len` bytes is complete.
    fn check_complete(&self, wire: &mut Wire<'_>, len: u64) -> Result<(), LinkLost> {
        match self {
            FileEnd::Size(size) if *size == len => Ok(()),
            FileEnd::Size(_) => {
                Err(LinkLost::Data { at: len, error: rdb::Error::Corrupt("bytes follow its end") })
            }
            FileEnd::Mark(mark) => {
                let mut follows = [0; MARK];
                let read = wire.read_exact(&mut follows);
                match wire.take_lost() {
                    Some(lost) => Err(lost),
                    None if read.is_ok() && follows == mark[..] => Ok(()),
                    None => {
                        Err(LinkLost::Data { at: len, error: rdb::Error::Corrupt("its end is not marked") })
                    }
                }
            }
        }
    }
}

/// Reads the master's announcement of the file.
fn read_announcement(wire: &mut Wire<'_>) -> Result<FileEnd, LinkLost> {
    loop {
        let line = wire.line()?;
        return match &line[..] {
            // By an empty line, the master shows that it is still there.
            [] => continue,
            [b'-', why @ ..] => Err(LinkLost::Refused { what: "its data", why: lossy(why).into_owned() }),
            [b'$', b'E', b'O', b'F', b':', mark @ ..] if mark.len() == MARK => {
                Ok(FileEnd::Mark(mark.to_vec()))
            }
            [b'$', size @ ..] => match words::int(size).and_then(|size| u64::try_from(size).ok()) {
                Some(size) => Ok(FileEnd::Size(size)),
                None => Err(LinkLost::Nonsense(format!("data of {} bytes", lossy(size)))),
            },
            other => Err(LinkLost::Nonsense(format!(
                "'{}' before its data",
                lossy(&other[..other.len().min(128)])
            ))),
        };
    }
}
