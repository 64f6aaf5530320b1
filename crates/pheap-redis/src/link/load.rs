//! The data of a master as a whole: an RDB file, which is loaded as it comes.
//!
//! What was there before is removed when the file's beginning was looked at, and it has a version that is known here. From then on until all of it is there, commands are answered with
//! `LOADING`; and the heap says that it is a part, so whoever opens it after a crash begins with nothing.

use std::io::Read;

use super::Lost;
use super::stream::Follower;
use super::wire::Wire;
use crate::copies::import::Batch;
use crate::data::Position;
use crate::execute::Note;
use crate::rdb::{self, FileReader, Part};
use crate::text::words::{self, lossy};

/// Length of what follows a file whose length is not known before.
const MARK: usize = 40;

/// How the end of a file is known.
enum End {
    /// It has so many bytes.
    Size(u64),
    /// This follows.
    Mark(Vec<u8>),
}

impl Follower<'_> {
    /// Loads the data of a master, in place of what is there. Behind them, the stream goes on at `position`.
    pub(super) fn load(&mut self, wire: &mut Wire<'_>, position: Position) -> Result<(), Lost> {
        let end = announced(wire)?;
        let size = match end {
            End::Size(size) => Some(size),
            End::Mark(_) => None,
        };
        wire.expect_data(Some(size));
        let file = FileReader::new(&mut *wire, size.unwrap_or(u64::MAX));
        let mut file = match file {
            Ok(file) => file,
            Err(error) => return Err(wire.take_lost().unwrap_or(Lost::Data { at: 0, error })),
        };
        let flush = [vec![b"FLUSHALL".to_vec()], vec![b"FUNCTION".to_vec(), b"FLUSH".to_vec()]];
        self.run(&flush, Note::Begin)?;
        let result = self.parts(&mut file);
        let at = file.position();
        let result = match result {
            // The connection's error says more than that reading has failed.
            Err(lost) => Err(wire.take_lost().unwrap_or(lost)),
            Ok(()) => end.check(wire, at),
        };
        wire.expect_data(None);
        if let Err(lost) = result {
            // If that fails, too, the next start does it.
            self.run(&flush, Note::Nothing)?;
            return Err(lost);
        }
        self.run(&[], Note::Complete(position))?;
        let server = self.server();
        server.memory.count(&server.store);
        Ok(())
    }

    /// Puts all that is in the file in the heap.
    fn parts(&mut self, file: &mut FileReader<&mut Wire<'_>>) -> Result<(), Lost> {
        let server = self.server();
        let mut batch = Batch::new(&server.store, &server.clocks);
        loop {
            let part = file.next_part().map_err(|error| Lost::Data { at: file.position(), error })?;
            match part {
                None => break,
                // Also those that have expired: the master says so when it removes them.
                Some(Part::Entry(entry)) => batch.add(entry, file.position())?,
                Some(Part::Library(text)) => {
                    let load = [&b"FUNCTION"[..], b"LOAD", b"REPLACE"].map(<[u8]>::to_vec);
                    let words = load.into_iter().chain([text]).collect();
                    self.run(&[words], Note::Begin)?;
                }
            }
        }
        Ok(batch.flush()?)
    }
}

impl End {
    /// Looks whether a file of so many bytes was all of it.
    fn check(&self, wire: &mut Wire<'_>, len: u64) -> Result<(), Lost> {
        match self {
            End::Size(size) if *size == len => Ok(()),
            End::Size(_) => {
                Err(Lost::Data { at: len, error: rdb::Error::Corrupt("it is longer than what is in it") })
            }
            End::Mark(mark) => {
                let mut follows = [0; MARK];
                let read = wire.read_exact(&mut follows);
                match wire.take_lost() {
                    Some(lost) => Err(lost),
                    None if read.is_ok() && follows == mark[..] => Ok(()),
                    None => Err(Lost::Data { at: len, error: rdb::Error::Corrupt("its end is not marked") }),
                }
            }
        }
    }
}

/// What the master says of the file that follows.
fn announced(wire: &mut Wire<'_>) -> Result<End, Lost> {
    loop {
        let line = wire.line()?;
        return match &line[..] {
            // It says that it is still there.
            [] => continue,
            [b'-', why @ ..] => Err(Lost::Refused { what: "its data", why: lossy(why).into_owned() }),
            [b'$', b'E', b'O', b'F', b':', mark @ ..] if mark.len() == MARK => Ok(End::Mark(mark.to_vec())),
            [b'$', size @ ..] => match words::int(size).and_then(|size| u64::try_from(size).ok()) {
                Some(size) => Ok(End::Size(size)),
                None => Err(Lost::Nonsense(format!("data of {} bytes", lossy(size)))),
            },
            other => {
                Err(Lost::Nonsense(format!("'{}' before its data", lossy(&other[..other.len().min(128)]))))
            }
        };
    }
}
